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
# A share of the way from uniform to optimal play. With it, a policy that is exactly good enough
# does not fail because of its last digit.
_ROUNDING = 1e-12


def episodes_to(run: "Run", fraction: float = 0.9) -> int | None:
    """The first k from which users get `fraction` of the way from uniform to optimal play.

    None if there is none. "From which" means: the average value over the users in (j, 1.25 j] is at
    least uniform + fraction (optimal - uniform) for every whole j from k to min(10 k, K / 1.25),
    where K users were served. So one lucky policy is not enough, and one bad policy long after is
    forgiven. A window may end within a user, who then counts in part. The numbers 1.25 and 10 are a
    matter of taste, but all published figures use them.
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
    ends = np.concatenate([[0], np.cumsum(users)])
    total_excess = np.concatenate([[0.0], np.cumsum(users * excess)])
    return _first_lasting(ends, total_excess)


def _first_lasting(ends: Ints, total_excess: Array) -> int | None:
    """The first whole number k such that all windows that begin in [k, 10 k] are good.

    E(j) is the cumulative excess over the goal after j users: `total_excess` at `ends`, and linear
    between them. The window (j, 1.25 j] is good if its gain E(1.25 j) - E(j) is at least zero.

    The gain is linear between neighbouring nodes: the ends, and the ends divided by 1.25, each
    rounded down and up. So it is enough to look at the nodes and around the zeros between them.
    Only the first of several good windows in a row can be the answer, because those after it are
    followed by the same bad window, and would have to last for longer.
    """
    # The last window starts here, at K / 1.25.
    last = int(4 * ends[-1] // 5)
    if last < 1:
        return None

    def gain(starts: Ints) -> Array:
        after = np.interp(1.25 * starts, ends, total_excess)
        return np.asarray(after - np.interp(starts, ends, total_excess))

    nodes = np.concatenate([[1, last], ends, 4 * ends // 5, -(-4 * ends // 5)])
    nodes = np.unique(nodes[(nodes >= 1) & (nodes <= last)])
    nodes = np.unique(np.concatenate([nodes, _around_zeros(nodes, gain(nodes))]))

    is_bad = gain(nodes) < 0
    begins_good_row = ~is_bad & np.concatenate([[True], is_bad[:-1]])
    starts = np.flatnonzero(begins_good_row)
    # After the last bad node there is none: the largest integer stands for it.
    bad_nodes = np.append(nodes[is_bad], np.iinfo(np.int64).max)
    next_bad = bad_nodes[np.searchsorted(bad_nodes, nodes[starts])]
    lasting = nodes[starts][next_bad > 10 * nodes[starts]]
    return int(lasting[0]) if len(lasting) else None


def _around_zeros(nodes: Ints, gains: Array) -> Ints:
    """The whole numbers next to each zero of the gain, which is linear between the nodes."""
    changes_sign = (gains[:-1] < 0) != (gains[1:] < 0)
    left = nodes[:-1][changes_sign]
    right = nodes[1:][changes_sign]
    gain_left = gains[:-1][changes_sign]
    gain_right = gains[1:][changes_sign]
    zeros = np.floor(left + (right - left) * (gain_left / (gain_left - gain_right)))
    # One more on each side than needed, because the division is rounded.
    around = zeros.astype(np.int64)[:, None] + np.arange(-1, 3)
    is_between = (around > left[:, None]) & (around < right[:, None])
    return np.asarray(around[is_between])
