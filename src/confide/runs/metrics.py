"""Numbers that sum up a run, exact because values are constant within a segment."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.arguments import real
from confide.errors import InvalidParameter

if TYPE_CHECKING:
    from confide.runs.run import Run

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# of the way from uniform to optimal: a policy that is exactly good enough must not fail by its last digit
_ROUNDING = 1e-12


def episodes_to(run: "Run", fraction: float = 0.9) -> int | None:
    """The first k from which users get `fraction` of the way from uniform to optimal play; None if there is none.

    "From which": the average value over the users in (j, 1.25 j] is at least uniform + fraction (optimal - uniform) for every whole j
    from k to min(10 k, K / 1.25), K the users served. So one lucky policy is not enough, and one bad policy long after is forgiven. A
    window may end within a user, who then counts in part.
    """
    real("fraction", fraction, at_most=1)
    if (
        run.optimal_value is None
        or run.uniform_value is None
        or any(segment.value is None for segment in run.segments)
    ):
        raise InvalidParameter(f"the exact values of policies in {run.problem} are not known")
    span = run.optimal_value - run.uniform_value
    goal = run.uniform_value + (fraction - _ROUNDING) * span
    users = np.array([segment.users for segment in run.segments], dtype=np.int64)
    excess = np.array([segment.value for segment in run.segments], dtype=float) - goal
    return _first_lasting(
        np.concatenate([[0], np.cumsum(users)]), np.concatenate([[0.0], np.cumsum(users * excess)])
    )


def _first_lasting(ends: Ints, total: Array) -> int | None:
    """The same from the cumulative excess E over the goal, `total` at `ends` and linear between: a window is good if E(1.25 j) >= E(j).

    The difference is linear between whole numbers next to an end, or to an end / 1.25, so it is known everywhere from its values there and
    around its zeros. Only the first of several good windows in a row can be the answer: those after it are followed by the same bad one,
    and would have to hold for longer.
    """
    last = int(4 * ends[-1] // 5)  # the last window starts there
    if last < 1:
        return None

    def gain(j: Ints) -> Array:
        return np.asarray(np.interp(1.25 * j, ends, total) - np.interp(j, ends, total))

    nodes = np.concatenate([[1, last], ends, 4 * ends // 5, -(-4 * ends // 5)])
    nodes = np.unique(nodes[(nodes >= 1) & (nodes <= last)])
    left, right = nodes[:-1], nodes[1:]
    at_left, at_right = gain(left), gain(right)
    changes = (at_left < 0) != (at_right < 0)
    left, right, at_left, at_right = (
        left[changes],
        right[changes],
        at_left[changes],
        at_right[changes],
    )
    zeros = np.floor(left + (right - left) * (at_left / (at_left - at_right))).astype(np.int64)
    # one more on each side than needed: the division is rounded
    around = zeros[:, None] + np.arange(-1, 3)
    nodes = np.unique(
        np.concatenate([nodes, around[(around > left[:, None]) & (around < right[:, None])]])
    )
    bad = gain(nodes) < 0
    starts = np.flatnonzero(~bad & np.concatenate([[True], bad[:-1]]))
    bad_nodes = np.append(nodes[bad], np.iinfo(np.int64).max)
    next_bad = bad_nodes[np.searchsorted(bad_nodes, nodes[starts])]
    lasting = nodes[starts][next_bad > 10 * nodes[starts]]
    return int(lasting[0]) if len(lasting) else None
