"""Transition probabilities, kept sparse: the real ones have a few successors per state and action."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.problems import _kernels

Array = npt.NDArray[np.float64]

_SUM = 1e-8  # how far from one a row of probabilities may sum to; it is then made exact


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """P_h(s' | s, a) for each layer h (one layer if the problem is the same at every step), in compressed rows."""

    layers: int
    states: int
    actions: int
    indptr: npt.NDArray[np.int64] = field(repr=False)
    successors: npt.NDArray[np.int32] = field(repr=False)
    probabilities: Array = field(repr=False)
    cumulative: Array = field(repr=False)  # within each row

    @property
    def rows(self) -> int:
        """Rows per layer."""
        return self.states * self.actions

    def expect(self, layer: int, values: Array) -> Array:
        """E[values(s') | s, a], [s, a]."""
        first = min(layer, self.layers - 1) * self.rows
        flat = _kernels.expect(self.indptr, self.successors, self.probabilities, first, self.rows, np.ascontiguousarray(values))
        return flat.reshape(self.states, self.actions)

    def push(self, layer: int, masses: Array) -> Array:
        """The distribution of s' if (s, a) has the distribution masses [s, a]."""
        first = min(layer, self.layers - 1) * self.rows
        return _kernels.push(self.indptr, self.successors, self.probabilities, first, np.ascontiguousarray(masses).ravel(), self.states)

    def dense(self) -> Array:
        """[layer, s, a, s']: for small problems."""
        full = np.zeros((self.layers * self.rows, self.states))
        full[np.repeat(np.arange(len(full)), np.diff(self.indptr)), self.successors] = self.probabilities
        return full.reshape(self.layers, self.states, self.actions, self.states)


def sparse_transitions(dense: npt.ArrayLike, name: str = "transitions") -> Transitions:
    """From [h, s, a, s'] or [s, a, s'], checked row by row."""
    array = np.asarray(dense, dtype=float)
    if array.ndim == 3:
        array = array[None]
    if array.ndim != 4 or array.shape[1] != array.shape[3] or array.size == 0:
        raise InvalidParameter(f"{name} must have shape (horizon, states, actions, states) or (states, actions, states), got {np.shape(dense)}")
    check_probabilities(array, name, "hsa" if np.ndim(dense) == 4 else "sa")
    layers, S, A, _ = array.shape
    flat = array.reshape(-1, S)
    rows, successors = np.nonzero(flat)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(flat, axis=1))]).astype(np.int64)
    return _finish(layers, S, A, indptr, successors.astype(np.int32), flat[rows, successors])


def sparse_rows(states: int, actions: int, indptr: npt.ArrayLike, successors: npt.ArrayLike, probabilities: npt.ArrayLike) -> Transitions:
    """From compressed rows (s, a), the same at every step."""
    pointers, followers, weights = np.asarray(indptr, np.int64), np.asarray(successors, np.int32), np.asarray(probabilities, float)
    if pointers.shape != (states * actions + 1,) or pointers[0] != 0 or pointers[-1] != len(weights) or len(followers) != len(weights):
        raise InvalidParameter("indptr must have states x actions + 1 entries, from 0 to the number of successors")
    if (np.diff(pointers) < 1).any() or len(followers) == 0 or followers.min() < 0 or followers.max() >= states:
        raise InvalidParameter("every (state, action) needs successors, all of them states")
    sums = np.add.reduceat(weights, pointers[:-1])
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (np.abs(sums - 1) < _SUM).all()):
        raise InvalidParameter("the probabilities of each (state, action) must be non-negative and sum to one")
    return _finish(1, states, actions, pointers, followers, weights)


def _finish(
    layers: int, states: int, actions: int, indptr: npt.NDArray[np.int64], successors: npt.NDArray[np.int32], probabilities: Array
) -> Transitions:
    lengths = np.diff(indptr)
    sums = np.add.reduceat(probabilities, indptr[:-1])
    exact = probabilities / np.repeat(sums, lengths)
    running = np.cumsum(exact)
    cumulative = running - np.repeat(running[indptr[:-1]] - exact[indptr[:-1]], lengths)
    cumulative[indptr[1:] - 1] = 1.0  # a draw just below one must find a successor
    return Transitions(layers, states, actions, indptr, successors, exact, cumulative)


def check_probabilities(array: Array, name: str, axes: str) -> None:
    """Raise at the first row (over the last axis) that is not a probability distribution, naming its index."""
    finite, positive = np.isfinite(array).all(axis=-1), (array >= 0).all(axis=-1)
    with np.errstate(invalid="ignore"):
        summed = np.abs(array.sum(axis=-1) - 1) < _SUM
    for holds, expected in ((finite, "must be finite"), (positive, "must not be negative"), (summed, "must sum to one")):
        if not holds.all():
            where: tuple[Any, ...] = tuple(np.argwhere(~holds)[0])
            index = where[-len(axes) :] if axes else ()
            place = ", ".join(f"{axis}={i}" for axis, i in zip(axes, index, strict=True))
            got = f", got a sum of {array[where].sum():.6g}" if holds is summed else ""
            raise InvalidParameter(f"{name}{f'[{place}]' if place else ''} {expected}{got}")
