"""Transition probabilities, kept sparse: the real ones have a few successors per state and action."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from confide import arguments
from confide.errors import InvalidParameter
from confide.problems import _kernels

Array = npt.NDArray[np.float64]

_SUM = 1e-8  # how far from one a row of probabilities may sum to; it is then made exact
# sums this close to one are rounding: dividing by them would change a saved problem each time it is loaded
_ROUNDING = 1e-12


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
        flat = _kernels.expect(
            self.indptr,
            self.successors,
            self.probabilities,
            first,
            self.rows,
            np.ascontiguousarray(values),
        )
        return flat.reshape(self.states, self.actions)

    def push(self, layer: int, masses: Array) -> Array:
        """The distribution of s' if (s, a) has the distribution masses [s, a]."""
        first = min(layer, self.layers - 1) * self.rows
        return _kernels.push(
            self.indptr,
            self.successors,
            self.probabilities,
            first,
            np.ascontiguousarray(masses).ravel(),
            self.states,
        )

    def dense(self) -> Array:
        """[layer, s, a, s']: for small problems."""
        full = np.zeros((self.layers * self.rows, self.states))
        # Several outcomes of one row may lead to the same state.
        np.add.at(
            full,
            (np.repeat(np.arange(len(full)), np.diff(self.indptr)), self.successors),
            self.probabilities,
        )
        return full.reshape(self.layers, self.states, self.actions, self.states)


def sparse_transitions(dense: npt.ArrayLike, name: str = "transitions") -> Transitions:
    """From [h, s, a, s'] or [s, a, s'], checked row by row."""
    array = arguments.array(name, dense, finite=False)
    if array.ndim == 3:
        array = array[None]
    if array.ndim != 4 or array.shape[1] != array.shape[3] or array.size == 0:
        shapes = "(horizon, states, actions, states) or (states, actions, states)"
        raise InvalidParameter.of(name, f"must have shape {shapes}, got {np.shape(dense)}")
    check_probabilities(array, name, "hsa" if np.ndim(dense) == 4 else "sa")
    layers, S, A, _ = array.shape
    flat = array.reshape(-1, S)
    rows, successors = np.nonzero(flat)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(flat, axis=1))]).astype(np.int64)
    return _finish(layers, S, A, indptr, successors.astype(np.int32), flat[rows, successors])


def sparse_rows(
    states: int,
    actions: int,
    indptr: npt.ArrayLike,
    successors: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    layers: int = 1,
) -> Transitions:
    """From compressed rows (h, s, a), checked one by one; a single layer is the same at every step."""
    pointers, followers, weights = (
        np.asarray(indptr, np.int64),
        np.asarray(successors, np.int32),
        np.asarray(probabilities, float),
    )
    if (
        min(layers, states, actions) < 1
        or pointers.shape != (layers * states * actions + 1,)
        or followers.ndim != 1
    ):
        raise InvalidParameter.of(
            "indptr", f"must have layers x states x actions + 1 entries, got shape {pointers.shape}"
        )
    if pointers[0] != 0 or pointers[-1] != len(followers) or weights.shape != followers.shape:
        raise InvalidParameter.of(
            "indptr",
            "must go from 0 to the number of successors, and each successor needs a probability",
        )

    def refuse(row: int, expected: str) -> None:
        h, s, a = np.unravel_index(row, (layers, states, actions))
        raise InvalidParameter(
            f"transitions[{f'h={h}, ' if layers > 1 else ''}s={s}, a={a}] {expected}"
        )

    lengths = np.diff(pointers)
    if (lengths < 1).any():
        refuse(int(np.argmax(lengths < 1)), "must have a successor")
    outside = (followers < 0) | (followers >= states)
    if outside.any():
        refuse(
            int(np.searchsorted(pointers, np.argmax(outside), side="right")) - 1,
            f"must lead to states 0..{states - 1}",
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        refuse(
            int(np.searchsorted(pointers, np.argmax(wrong), side="right")) - 1,
            "must be finite and not negative",
        )
    sums = np.add.reduceat(weights, pointers[:-1])
    if (np.abs(sums - 1) >= _SUM).any():
        row = int(np.argmax(np.abs(sums - 1) >= _SUM))
        refuse(row, f"must sum to one, got a sum of {sums[row]:.6g}")
    # an impossible successor at the end of a row must not be drawn by rounding
    possible = weights > 0
    kept = np.concatenate(
        [[0], np.cumsum(np.add.reduceat(possible.astype(np.int64), pointers[:-1]))]
    )
    return _finish(layers, states, actions, kept, followers[possible], weights[possible])


def _finish(
    layers: int,
    states: int,
    actions: int,
    indptr: npt.NDArray[np.int64],
    successors: npt.NDArray[np.int32],
    probabilities: Array,
) -> Transitions:
    lengths = np.diff(indptr)
    sums = np.add.reduceat(probabilities, indptr[:-1])
    close = (np.abs(sums - 1) < _ROUNDING) & (lengths > 1)  # a single successor is certain, exactly
    exact = probabilities / np.repeat(np.where(close, 1.0, sums), lengths)
    running = np.cumsum(exact)
    cumulative = running - np.repeat(running[indptr[:-1]] - exact[indptr[:-1]], lengths)
    cumulative[indptr[1:] - 1] = 1.0  # a draw just below one must find a successor
    return Transitions(layers, states, actions, indptr, successors, exact, cumulative)


def normalised(rows: Array) -> Array:
    """Rows, over the last axis, made to sum to one; those that do but for rounding stay as they are."""
    sums = rows.sum(axis=-1, keepdims=True)
    return np.asarray(rows / np.where(np.abs(sums - 1) < _ROUNDING, 1.0, sums))


def frozen(array: npt.ArrayLike) -> Array:
    """A read-only copy: a problem is immutable, and agents see parts of it."""
    copy = np.array(array, dtype=float, order="C")
    copy.flags.writeable = False
    return copy


def check_probabilities(array: Array, name: str, axes: str) -> None:
    """Raise at the first row (over the last axis) that is not a probability distribution, naming its index."""
    finite, positive = (
        np.asarray(np.isfinite(array).all(axis=-1)),
        np.asarray((array >= 0).all(axis=-1)),
    )
    with np.errstate(invalid="ignore"):
        summed = np.abs(array.sum(axis=-1) - 1) < _SUM
    wrong = ~(finite & positive & summed)
    if wrong.any():
        where: tuple[Any, ...] = tuple(np.argwhere(wrong)[0])
        index = where[-len(axes) :] if axes else ()
        place = ", ".join(f"{axis}={i}" for axis, i in zip(axes, index, strict=True))
        if not finite[where]:
            expected = "must be finite"
        else:
            expected = (
                f"must sum to one, got a sum of {array[where].sum():.6g}"
                if positive[where]
                else "must not be negative"
            )
        raise InvalidParameter(f"{name}{f'[{place}]' if place else ''} {expected}")
