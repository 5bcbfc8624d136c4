"""Which states can follow a state and an action: public knowledge that both sides use, in compressed rows."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from confide.arguments import fits, shown
from confide.errors import InvalidParameter
from confide.tables import _contribution_kernels as _kernels

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
# What a user says of it: nothing, a mask [s, a, s'] or [s, s'], or a list of rows (s, a, s').
GivenSupport: TypeAlias = npt.ArrayLike | None


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """The cells (layer, s, a, s') that a user's transitions are counted in.

    A pair is (layer * S + s) * A + a; its cells are indptr[pair]:indptr[pair + 1], with successors in increasing order. A table that is the
    same at every step has one layer. Terminal states have no cells: nothing is left to learn there.
    """

    layers: int
    states: int
    actions: int
    indptr: Ints = field(repr=False)
    successors: Ints = field(repr=False)
    known: bool  # whether somebody said which states can follow

    @property
    def pairs(self) -> int:
        return self.layers * self.states * self.actions

    @property
    def cells(self) -> int:
        return len(self.successors)

    @property
    def open(self) -> Bools:
        """Pairs [pair] from which something can follow."""
        return np.diff(self.indptr) > 0


def layers_of(horizon: int, *, stationary: bool, known_rewards: bool) -> int:
    """One, if steps are alike. Where rewards are known, nothing is left to learn in the last step: it has no layer, unless a single one
    would be left, which stands for steps that are alike."""
    return 1 if stationary or horizon == 1 else max(horizon - known_rewards, 2)


def support_of(
    given: GivenSupport, *, layers: int, states: int, actions: int, terminal: Bools | None
) -> Support:
    """From what a user says: None (every state can follow), a mask [s, a, s'] or [s, s'], or a list of rows (s, a, s')."""
    rows = states * actions
    ends = np.zeros(states, dtype=bool) if terminal is None else terminal
    if ends.all():
        raise InvalidParameter("every state is terminal: there is nothing to learn")
    if given is None:
        lengths = np.where(np.repeat(ends, actions), 0, states)
        fits(layers=layers, cells=int(lengths.sum()))
        successors = np.tile(np.arange(states), int((lengths > 0).sum()))
    else:
        row, successors = _listed(given, states, actions)
        keep = ~ends[row // actions]
        row, successors = row[keep], successors[keep]
        lengths = np.bincount(row, minlength=rows)
        empty = (lengths == 0) & ~np.repeat(ends, actions)
        if empty.any():
            s, a = divmod(int(np.argmax(empty)), actions)
            raise InvalidParameter(
                f"support[s={s}, a={a}] must have a successor, or s={s} must be a terminal state"
            )
    indptr = np.concatenate([[0], np.cumsum(np.tile(lengths, layers))]).astype(np.int64)
    return Support(
        layers,
        states,
        actions,
        indptr,
        np.tile(successors, layers).astype(np.int64),
        given is not None,
    )


def _listed(given: npt.ArrayLike, states: int, actions: int) -> tuple[Ints, Ints]:
    """(row, successor) of each cell that can be, in order and without repetitions."""
    try:
        found = np.asarray(given)
    except (TypeError, ValueError):
        raise InvalidParameter(f"support must be an array, got support={shown(given)}") from None
    if found.dtype == bool and found.shape in ((states, actions, states), (states, states)):
        mask = (
            np.broadcast_to(found[:, None], (states, actions, states)) if found.ndim == 2 else found
        )
        s, a, after = np.nonzero(mask)
    elif found.dtype.kind in "iu" and found.ndim == 2 and found.shape[1] == 3:
        inside = (found >= 0) & (found < [states, actions, states])
        if not inside.all():
            wrong = found[np.argmax(~inside.all(axis=1))]
            raise InvalidParameter(
                f"support must list (s, a, s') that exist, got {tuple(map(int, wrong))}"
            )
        s, a, after = np.unique(found.astype(np.int64), axis=0).T
    else:
        expected = f"a boolean array of shape ({states}, {actions}, {states}) or ({states}, {states}), or a list of (s, a, s')"
        raise InvalidParameter(
            f"support must be {expected}, got shape {found.shape} of {found.dtype}"
        )
    return np.asarray(s * actions + a), np.asarray(after)


def whole_costs(weights: Array) -> Ints:
    """What a visit with each of these weights takes of a user's budget, rounded down."""
    return np.floor(weights**2 * _kernels.BUDGET).astype(np.int64)


def payable_weights(weights: Array) -> Array:
    """The weights that whole costs pay."""
    return np.sqrt(whole_costs(weights) / _kernels.BUDGET)
