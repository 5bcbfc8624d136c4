"""Transition probabilities, kept sparse, because real ones have few successors per (s, a).

A saved problem contains these probabilities. A row that sums to one but for rounding is therefore
left as it is; otherwise a problem would change each time it is saved and loaded.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from confide import arguments
from confide.errors import InvalidParameter
from confide.problems import _kernels

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# The sum of a row may be so far from one. It is then made exact. A matter of taste.
_SUM_TOLERANCE = 1e-8
# Sums so close to one are rounding, and are left as they are.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """P_h(s' | s, a) for each layer h, in compressed rows; one layer if all steps are the same.

    Row r = (h * S + s) * A + a has the entries indptr[r] .. indptr[r + 1] - 1. Each entry has a
    successor, its probability, and the cumulative probability within the row.
    """

    layers: int
    states: int
    actions: int
    indptr: Ints = field(repr=False)
    successors: npt.NDArray[np.int32] = field(repr=False)
    probabilities: Array = field(repr=False)
    cumulative: Array = field(repr=False)

    @property
    def rows(self) -> int:
        """Rows per layer."""
        return self.states * self.actions

    def expect(self, layer: int, values: Array) -> Array:
        """The expected value of the next state, E[values(s') | s, a], as [s, a]."""
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
        row_of_entry = np.repeat(np.arange(len(full)), np.diff(self.indptr))
        # Several outcomes of one row may lead to the same state.
        np.add.at(full, (row_of_entry, self.successors), self.probabilities)
        return full.reshape(self.layers, self.states, self.actions, self.states)


def sparse_transitions(dense: npt.ArrayLike, name: str = "transitions") -> Transitions:
    """The sparse form of [h, s, a, s'] or [s, a, s'], whose rows are checked one by one."""
    array = arguments.array(name, dense, finite=False)
    if array.ndim == 3:
        array = array[None]
    if array.ndim != 4 or array.shape[1] != array.shape[3] or array.size == 0:
        shapes = "(horizon, states, actions, states) or (states, actions, states)"
        raise InvalidParameter.of(name, f"must have shape {shapes}, got {np.shape(dense)}")
    check_probabilities(array, name, "hsa" if np.ndim(dense) == 4 else "sa")
    layers, states, actions, _ = array.shape
    flat = array.reshape(-1, states)
    rows, successors = np.nonzero(flat)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(flat, axis=1))]).astype(np.int64)
    probabilities = flat[rows, successors]
    return _normalize(layers, states, actions, indptr, successors.astype(np.int32), probabilities)


def sparse_rows(
    states: int,
    actions: int,
    indptr: npt.ArrayLike,
    successors: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    layers: int = 1,
) -> Transitions:
    """Transitions from compressed rows (h, s, a), which are checked one by one.

    A single layer is the same at every step.
    """
    pointers = np.asarray(indptr, np.int64)
    targets = np.asarray(successors, np.int32)
    weights = np.asarray(probabilities, float)
    rows = layers * states * actions
    has_rows = min(layers, states, actions) >= 1 and pointers.shape == (rows + 1,)
    if not has_rows or targets.ndim != 1:
        raise InvalidParameter.of(
            "indptr", f"must have layers x states x actions + 1 entries, got shape {pointers.shape}"
        )
    if pointers[0] != 0 or pointers[-1] != len(targets) or weights.shape != targets.shape:
        raise InvalidParameter.of(
            "indptr",
            "must go from 0 to the number of successors, and each successor needs a probability",
        )
    _check_rows((layers, states, actions), pointers, targets, weights)
    # An impossible successor at the end of a row could be drawn by rounding, so it is left out.
    is_possible = weights > 0
    lengths = np.add.reduceat(is_possible.astype(np.int64), pointers[:-1])
    possible_pointers = np.concatenate([[0], np.cumsum(lengths)])
    return _normalize(
        layers, states, actions, possible_pointers, targets[is_possible], weights[is_possible]
    )


def _check_rows(
    shape: tuple[int, int, int], pointers: Ints, targets: npt.NDArray[np.int32], weights: Array
) -> None:
    """Raise at the first row that is not a probability distribution over states."""
    layers, states, _ = shape

    def refuse(row: int, expected: str) -> None:
        h, s, a = np.unravel_index(row, shape)
        step = f"h={h}, " if layers > 1 else ""
        raise InvalidParameter(f"transitions[{step}s={s}, a={a}] {expected}")

    def row_of(entry: Any) -> int:
        return int(np.searchsorted(pointers, entry, side="right")) - 1

    is_empty = np.diff(pointers) < 1
    if is_empty.any():
        refuse(int(np.argmax(is_empty)), "must have a successor")
    is_outside = (targets < 0) | (targets >= states)
    if is_outside.any():
        refuse(row_of(np.argmax(is_outside)), f"must lead to states 0..{states - 1}")
    is_wrong = ~(np.isfinite(weights) & (weights >= 0))
    if is_wrong.any():
        refuse(row_of(np.argmax(is_wrong)), "must be finite and not negative")
    sums = np.add.reduceat(weights, pointers[:-1])
    is_off = np.abs(sums - 1) >= _SUM_TOLERANCE
    if is_off.any():
        row = int(np.argmax(is_off))
        refuse(row, f"must sum to one, got a sum of {sums[row]:.6g}")


def _normalize(
    layers: int,
    states: int,
    actions: int,
    indptr: Ints,
    successors: npt.NDArray[np.int32],
    probabilities: Array,
) -> Transitions:
    """Make each row sum to one, unless it does but for rounding."""
    lengths = np.diff(indptr)
    sums = np.add.reduceat(probabilities, indptr[:-1])
    # A single successor is certain, exactly.
    is_close = (np.abs(sums - 1) < _ROUNDING) & (lengths > 1)
    exact = probabilities / np.repeat(np.where(is_close, 1.0, sums), lengths)
    running = np.cumsum(exact)
    before_row = running[indptr[:-1]] - exact[indptr[:-1]]
    cumulative = running - np.repeat(before_row, lengths)
    # A draw just below one must find a successor.
    cumulative[indptr[1:] - 1] = 1.0
    return Transitions(layers, states, actions, indptr, successors, exact, cumulative)


def normalize_rows(rows: Array) -> Array:
    """Rows, over the last axis, that sum to one; those that do but for rounding are unchanged."""
    sums = rows.sum(axis=-1, keepdims=True)
    return np.asarray(rows / np.where(np.abs(sums - 1) < _ROUNDING, 1.0, sums))


def read_only_copy(array: npt.ArrayLike) -> Array:
    """A read-only copy: a problem is immutable, and agents see parts of it."""
    copy = np.array(array, dtype=float, order="C")
    copy.flags.writeable = False
    return copy


def check_probabilities(array: Array, name: str, axes: str) -> None:
    """Raise at the first row (over the last axis) that is not a probability distribution.

    `axes` has a letter for each index that the error names.
    """
    is_finite = np.asarray(np.isfinite(array).all(axis=-1))
    is_positive = np.asarray((array >= 0).all(axis=-1))
    with np.errstate(invalid="ignore"):
        sums_to_one = np.abs(array.sum(axis=-1) - 1) < _SUM_TOLERANCE
    is_wrong = ~(is_finite & is_positive & sums_to_one)
    if not is_wrong.any():
        return
    where: tuple[Any, ...] = tuple(np.argwhere(is_wrong)[0])
    if not is_finite[where]:
        expected = "must be finite"
    elif not is_positive[where]:
        expected = "must not be negative"
    else:
        expected = f"must sum to one, got a sum of {array[where].sum():.6g}"
    index = where[-len(axes) :] if axes else ()
    place = ", ".join(f"{axis}={i}" for axis, i in zip(axes, index, strict=True))
    raise InvalidParameter(f"{name}{f'[{place}]' if place else ''} {expected}")
