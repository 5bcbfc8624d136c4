"""Features of transitions, kept only for the possible successors of each (s, a). All are public.

What leaves this file: the values of `SuccessorFeatures.identity` are a part of saved problems.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.arguments import array, check_size, integers, shown, whole
from confide.errors import ConfideError, InvalidParameter
from confide.identity import Identity

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# How far a norm may exceed a stated bound by rounding, relative to the bound.
ROUNDING = 1e-9
# The successors [n] of the pair (s, a), and their features [n, dimension].
FeatureFunction = Callable[[int, int], tuple[npt.ArrayLike, npt.ArrayLike]]


@dataclass(frozen=True, slots=True, eq=False)
class SuccessorFeatures:
    """Known features psi(s' | s, a), of any sign, of the states s' that may follow (s, a).

    All other states have the feature zero. The row r = s * actions + a has the entries
    indptr[r]:indptr[r + 1] of `successors` and `features`.

    Shapes: indptr [row + 1], successors [entry], features [entry, i].
    """

    states: int
    actions: int
    indptr: Ints = field(repr=False)
    successors: Ints = field(repr=False)
    features: Array = field(repr=False)

    def __post_init__(self) -> None:
        states = whole("states", self.states, at_least=1)
        actions = whole("actions", self.actions, at_least=1)
        indptr = integers("indptr", self.indptr)
        successors = integers("successors", self.successors)
        features = array("features", self.features, ndim=2, finite=False)
        check_size(states=states, actions=actions)
        if indptr.shape != (states * actions + 1,) or successors.ndim != 1:
            raise InvalidParameter.of(
                "indptr", f"must have states x actions + 1 entries, got shape {indptr.shape}"
            )
        if features.shape[0] != len(successors) or features.shape[1] < 1:
            raise InvalidParameter.of(
                "features",
                f"must have shape ({len(successors)}, dimension), one row for each successor, "
                f"got {features.shape}",
            )
        if indptr[0] != 0 or indptr[-1] != len(successors):
            raise InvalidParameter.of("indptr", "must go from 0 to the number of successors")
        lengths = np.diff(indptr)
        if (lengths < 1).any():
            row = int(np.argmax(lengths < 1))
            raise InvalidParameter(f"{_place(row, actions)} must have a successor")
        _check_entries(states, actions, indptr, successors, features)
        checked = {
            "states": states,
            "actions": actions,
            "indptr": _read_only_copy(indptr),
            "successors": _read_only_copy(successors),
            "features": _read_only_copy(features),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_dense(cls, features: npt.ArrayLike) -> "SuccessorFeatures":
        """Read psi [s, a, s', i]. A state whose features are all zero is no successor."""
        psi = array("features", features, ndim=4, finite=False)
        states, actions, after, dimension = psi.shape
        if after != states or psi.size == 0:
            raise InvalidParameter.of(
                "features",
                f"must have shape (states, actions, states, dimension), got {psi.shape}",
            )
        by_row = psi.reshape(states * actions, states, dimension)
        is_possible = (by_row != 0).any(axis=2)  # [row, s']
        indptr = np.concatenate([[0], np.cumsum(is_possible.sum(axis=1))])
        return cls(states, actions, indptr, np.nonzero(is_possible)[1], by_row[is_possible])

    @classmethod
    def from_function(
        cls, function: FeatureFunction, *, states: int, actions: int, dimension: int
    ) -> "SuccessorFeatures":
        """Call a function (s, a) -> (successors [n], features [n, dimension]) once for each pair.

        It is never called again. It must depend on public knowledge only, because agents plan with
        what it returns.
        """
        if not callable(function):
            raise InvalidParameter.of("function", "must be a function", got=shown(function))
        states = whole("states", states, at_least=1)
        actions = whole("actions", actions, at_least=1)
        dimension = whole("dimension", dimension, at_least=1)
        check_size(states=states, actions=actions)
        lengths = [0]
        successors = []
        features = []
        for pair_successors, pair_features in _evaluate(function, states, actions, dimension):
            lengths.append(len(pair_successors))
            successors.append(pair_successors)
            features.append(pair_features)
        return cls(
            states,
            actions,
            np.cumsum(lengths),
            np.concatenate(successors),
            np.concatenate(features),
        )

    def identity(self) -> Identity:
        return Identity(
            "successor-features",
            1,
            states=self.states,
            actions=self.actions,
            indptr=self.indptr,
            successors=self.successors,
            features=self.features,
        )

    @property
    def dimension(self) -> int:
        return int(self.features.shape[1])

    @property
    def nonnegative(self) -> bool:
        """Whether phi_V has no negative entry, for every V without one."""
        return bool((self.features >= 0).all())

    @property
    def totals(self) -> Array:
        """phi_1(s, a) = sum_s' psi(s' | s, a), as [row, i].

        Its product with the true weights is one.
        """
        return np.asarray(np.add.reduceat(self.features, self.indptr[:-1], axis=0))

    def divide_by(self, unit: float) -> "SuccessorFeatures":
        """psi / unit. It is checked already, so only one array is copied."""
        if unit == 1.0:
            return self
        copy = object.__new__(SuccessorFeatures)
        for name in ("states", "actions", "indptr", "successors"):
            object.__setattr__(copy, name, getattr(self, name))
        object.__setattr__(copy, "features", self.features / unit)
        return copy

    def largest_norm(self) -> float:
        """A bound on ||phi_v(s, a)|| for all v with values in [0, 1], and all (s, a).

        Entry i of phi_v lies between minus the sum of the negative psi_i and the sum of the
        positive ones. The bound is the norm of the larger ones of these sums, or the sum of the
        norms of psi, whichever is less.
        """
        first = self.indptr[:-1]
        positive = np.add.reduceat(np.maximum(self.features, 0.0), first, axis=0)
        negative = positive - self.totals
        by_entry = np.linalg.norm(np.maximum(positive, negative), axis=1)
        by_norm = np.add.reduceat(np.linalg.norm(self.features, axis=1), first)
        return float(np.minimum(by_entry, by_norm).max())

    def check_norm(self, bound: float) -> None:
        """Refuse a bound that some v with values in [0, 1] exceeds.

        Tried are v = 1, v = 1 for one successor, and v = 1 where an entry of psi is positive, or
        where it is negative. Other v are not tried, so a bound that passes may still not hold.
        Privacy does not depend on it, because agents clip to the bound.
        """
        first = self.indptr[:-1]
        norms = np.linalg.norm(self.totals, axis=1)
        norms = np.maximum(norms, np.maximum.reduceat(np.linalg.norm(self.features, axis=1), first))
        for i in range(self.dimension):
            chosen = self.features * (self.features[:, i] > 0)[:, None]
            one_sign = np.add.reduceat(chosen, first, axis=0)
            norms = np.maximum(norms, np.linalg.norm(one_sign, axis=1))
            norms = np.maximum(norms, np.linalg.norm(self.totals - one_sign, axis=1))
        if norms.max() > bound * (1 + ROUNDING):
            row = int(np.argmax(norms))
            raise InvalidParameter(
                f"value_bound={bound:g} does not hold: {_place(row, self.actions)} have a sum over "
                f"some successors of norm {norms[row]:.6g}; "
                "state a larger bound, or divide the features by a number"
            )


def _evaluate(
    function: FeatureFunction, states: int, actions: int, dimension: int
) -> Iterator[tuple[Ints, Array]]:
    """Yield (successors, features) of each pair, with the shapes that they must have."""
    for s in range(states):
        for a in range(actions):
            place = f"function(s={s}, a={a})"
            try:
                result = function(s, a)
            except Exception as error:
                raise InvalidParameter(f"{place} raised {type(error).__name__}: {error}") from error
            if not isinstance(result, tuple) or len(result) != 2:
                raise InvalidParameter(
                    f"{place} must return (successors, features), got {shown(result)}"
                )
            try:
                successors = integers("successors", result[0])
                features = array("features", result[1], finite=False)
            except ConfideError as error:
                raise InvalidParameter(f"{place}: {error}") from None
            has_successors = successors.ndim == 1 and len(successors) >= 1
            if not has_successors or features.shape != (len(successors), dimension):
                raise InvalidParameter(
                    f"{place} must return successors [n], at least one, "
                    f"and features [n, {dimension}], "
                    f"got shapes {successors.shape} and {features.shape}"
                )
            # Copies, because the function may return the same arrays each time.
            yield successors.copy(), features.copy()


def _check_entries(
    states: int, actions: int, indptr: Ints, successors: Ints, features: Array
) -> None:
    """Refuse the first entry that is wrong.

    An entry must be a state, stand once in its row, and have finite features.
    """
    rows = np.repeat(np.arange(states * actions), np.diff(indptr))
    is_outside = (successors < 0) | (successors >= states)
    if is_outside.any():
        entry = int(np.argmax(is_outside))
        raise InvalidParameter(
            f"{_place(int(rows[entry]), actions)} must lead to states 0..{states - 1}, "
            f"got {successors[entry]}"
        )
    # In this order the same successor of the same row would stand twice in a row.
    order = np.lexsort((successors, rows))
    is_repeated = (np.diff(rows[order]) == 0) & (np.diff(successors[order]) == 0)
    if is_repeated.any():
        entry = int(order[np.argmax(is_repeated)])
        raise InvalidParameter(
            f"{_place(int(rows[entry]), actions)} must name each successor once, "
            f"got {successors[entry]} twice"
        )
    is_finite = np.isfinite(features).all(axis=1)
    if not is_finite.all():
        row = int(rows[np.argmin(is_finite)])
        raise InvalidParameter(f"{_place(row, actions)} must be finite")


def _place(row: int, actions: int) -> str:
    return f"features of (s={row // actions}, a={row % actions})"


def _read_only_copy(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    copy = np.array(values, order="C")
    copy.flags.writeable = False
    return copy
