"""Which states can follow a state and an action, in compressed rows.

This is public knowledge, and both sides of an agent use it. The rows of a support are part of an
agent's identity, so a change of their order changes the seeds and the ids of agents.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, shown
from confide.errors import InvalidParameter
from confide.tables import _contribution_kernels as _kernels

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
# What a caller states: nothing, a mask [s, a, s'] or [s, s'], or a list of rows (s, a, s').
GivenSupport: TypeAlias = npt.ArrayLike | None


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """The cells (layer, s, a, s') in which transitions are counted.

    With S states and A actions, the pair of (layer, s, a) has the number (layer * S + s) * A + a.
    Its cells are indptr[pair]:indptr[pair + 1], with successors in increasing order. A tabular MDP
    that is the same at every step has one layer. Terminal states have no cells, because nothing is
    left to learn there.
    """

    layers: int
    states: int
    actions: int
    indptr: Ints = field(repr=False)
    successors: Ints = field(repr=False)
    # Whether the caller stated which states can follow.
    known: bool

    @property
    def pairs(self) -> int:
        return self.layers * self.states * self.actions

    @property
    def cells(self) -> int:
        return len(self.successors)

    @property
    def open(self) -> Bools:
        """Whether a pair has a possible successor [pair]."""
        return np.diff(self.indptr) > 0

    @property
    def pair_of_cell(self) -> Ints:
        """The pair to which each cell belongs [cell]."""
        return np.repeat(np.arange(self.pairs), np.diff(self.indptr))


def layers_of(horizon: int, *, stationary: bool, known_rewards: bool) -> int:
    """Return how many steps have transitions of their own.

    If all steps are alike, this is one. If rewards are known, nothing is left to learn in the last
    step, so it has no layer. One layer always means that steps are alike, so two are the least
    for steps that differ.
    """
    if stationary or horizon == 1:
        return 1
    return max(horizon - known_rewards, 2)


def support_of(
    given: GivenSupport, *, layers: int, states: int, actions: int, terminal: Bools | None
) -> Support:
    """Build the support from what the caller states.

    `given` is None (every state can follow), a mask [s, a, s'] or [s, s'], or a list of rows
    (s, a, s').
    """
    is_terminal = np.zeros(states, dtype=bool) if terminal is None else terminal
    if is_terminal.all():
        raise InvalidParameter("at least one state must not be terminal, got only terminal states")
    if given is None:
        lengths = np.where(np.repeat(is_terminal, actions), 0, states)
        check_size(layers=layers, cells=int(lengths.sum()))
        successors = np.tile(np.arange(states), int((lengths > 0).sum()))
    else:
        row, successors = _stated_cells(given, states, actions)
        not_terminal = ~is_terminal[row // actions]
        row = row[not_terminal]
        successors = successors[not_terminal]
        lengths = np.bincount(row, minlength=states * actions)
        without_successor = (lengths == 0) & ~np.repeat(is_terminal, actions)
        if without_successor.any():
            s, a = divmod(int(np.argmax(without_successor)), actions)
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


def _stated_cells(given: npt.ArrayLike, states: int, actions: int) -> tuple[Ints, Ints]:
    """Return (s * A + a, s') of each stated cell, in order and without repetitions."""
    try:
        stated = np.asarray(given)
    except (TypeError, ValueError):
        raise InvalidParameter(f"support must be an array, got support={shown(given)}") from None
    if stated.dtype == bool and stated.shape in ((states, actions, states), (states, states)):
        mask = stated
        if stated.ndim == 2:
            mask = np.broadcast_to(stated[:, None], (states, actions, states))
        state, action, successor = np.nonzero(mask)
    elif stated.dtype.kind in "iu" and stated.ndim == 2 and stated.shape[1] == 3:
        exists = (stated >= 0) & (stated < [states, actions, states])
        if not exists.all():
            wrong = stated[np.argmax(~exists.all(axis=1))]
            raise InvalidParameter(
                f"support must list (s, a, s') that exist, got {tuple(map(int, wrong))}"
            )
        state, action, successor = np.unique(stated.astype(np.int64), axis=0).T
    else:
        raise InvalidParameter(
            f"support must be a boolean array of shape ({states}, {actions}, {states}) or "
            f"({states}, {states}), or a list of (s, a, s'), "
            f"got shape {stated.shape} of {stated.dtype}"
        )
    return np.asarray(state * actions + action), np.asarray(successor)


def whole_costs(weights: Array) -> Ints:
    """Return what a visit with each weight takes of a user's budget, rounded down to units."""
    return np.floor(weights**2 * _kernels.BUDGET).astype(np.int64)


def payable_weights(weights: Array) -> Array:
    """Return the weights that visits really have after `whole_costs` rounded their costs down."""
    return np.sqrt(whole_costs(weights) / _kernels.BUDGET)
