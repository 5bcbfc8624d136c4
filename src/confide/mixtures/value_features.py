"""A mixture's transitions seen through a value function: the one place where rows and targets of value-targeted regression are made.

With P(s' | s, a) = sum_i w_i P_i(s' | s, a) and phi_V(s, a)_i = sum_s' P_i(s' | s, a) V(s'), where the P_i are kernels, or features of
any sign (`SuccessorFeatures`),

    E[V(s') | s, a] = phi_V(s, a).w = offset(s, a) + scale X(s, a).theta,      w = origin + basis theta,

so that a transition (s, a, s') gives the row X(s, a) with the target y = (V(s') - offset(s, a)) / scale, whose mean is X.theta. Everything
here is public: kernels, and values that were planned from releases.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.mixtures import _kernels
from confide.problems.successor_features import SuccessorFeatures

if TYPE_CHECKING:
    from confide.problems.feature_mixture import MixturePublic

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_FITTING = np.zeros((0, 0))
# A direction is known if its singular value is more than this share of the largest one.
_RANK = 1e-10
# How far from one the sum of probabilities may be by rounding.
_SUM = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMap:
    """Which coordinates theta the mixture weights w = origin + basis theta are learned in, and how values are scaled before.

    Values become (V - lo) / R: with `span` lo = 0 and R = span; without, lo and R are the minimum and the range of V itself (which is
    right because w sums to one). Made by `raw`, `centred` or `reduced`.

    Shapes: origin [i], basis [i, m] with orthonormal columns.
    """

    origin: Array = field(repr=False)
    basis: Array = field(repr=False)
    span: float | None

    @property
    def dimension(self) -> int:
        """m, the length of a row."""
        return int(self.basis.shape[1])

    def mixture(self, theta: Array) -> Array:
        """[..., m] -> the mixture weights [..., i]."""
        return np.asarray(self.origin + theta @ self.basis.T)

    def coordinates(self, mixture: Array) -> Array:
        """[..., i] -> [..., m]: the inverse of `mixture`."""
        return np.asarray((mixture - self.origin) @ self.basis)


def raw(kernels: int, span: float = 1.0) -> FeatureMap:
    """X = phi_V / span, y = V(s') / span, theta = w: the papers' rows with span = 1; with span = H the same in units of H."""
    if not span > 0:
        raise InvalidParameter(f"span must be positive, got span={span}")
    return FeatureMap(np.zeros(kernels), np.eye(kernels), float(span))


def centred(kernels: int) -> FeatureMap:
    """X = phi_Vhat, y = Vhat(s') in [0, 1], theta = w, where Vhat = (V - lo) / R. Needs weights that sum to one."""
    return FeatureMap(np.zeros(kernels), np.eye(kernels), None)


def reduced(kernels: int) -> FeatureMap:
    """X = U^T phi_Vhat, y = Vhat(s') - mean_i phi_i, w = 1/d + U theta, U the Helmert basis of 1-perp. Needs weights that sum to one."""
    if kernels < 2:
        raise InvalidParameter(
            f"a single kernel leaves nothing to learn: kernels must be at least 2, got kernels={kernels}"
        )
    d = kernels
    U = np.triu(np.ones((d, d - 1)))
    U[np.arange(1, d), np.arange(d - 1)] = -np.arange(1, d)
    return FeatureMap(np.full(d, 1 / d), U / np.linalg.norm(U, axis=0), None)


def summing_to_one(features: SuccessorFeatures) -> FeatureMap:
    """The coordinates of all weights w with phi_1(s, a).w = 1 for every (s, a): the true weights are among them.

    phi_1 is public, so these are linear equations that everybody knows. For kernels they say that weights sum to one, as `reduced` does.
    w = origin + basis theta, where the origin is the shortest solution and the basis spans the null space.
    """
    totals = features.totals
    # R^T R = totals^T totals, without squaring the condition number
    R = np.linalg.qr(totals, mode="r")
    _, sizes, directions = np.linalg.svd(R, full_matrices=True)
    rank = int((sizes > _RANK * sizes.max(initial=0.0)).sum())
    known, basis = directions[:rank], directions[rank:].T
    origin = known.T @ np.linalg.lstsq(totals @ known.T, np.ones(len(totals)), rcond=None)[0]
    if np.abs(totals @ origin - 1).max() > _SUM:
        raise InvalidParameter("no weights make the probabilities of all (s, a) sum to one")
    if basis.shape[1] == 0:
        raise InvalidParameter(
            "the features leave nothing to learn: probabilities that sum to one determine the weights"
        )
    return FeatureMap(origin, np.ascontiguousarray(basis), None)


@dataclass(frozen=True, slots=True, eq=False)
class ValueFeatures:
    """The rows and offsets of every (s, a) at each step, E[V(s') | s, a] = offset + scale X.theta.

    Shapes: rows [h, s, a, m], offset [h, s, a], scale [h].
    """

    rows: Array
    offset: Array
    scale: Array


def value_features(
    feature_map: FeatureMap, kernels: "Array | SparseKernels", values: Array
) -> ValueFeatures:
    """The features of the values [h, s'] after each step, with kernels [i, s, a, s']."""
    return fitted(feature_map, kernels, values, balance=1.0)[0]


def fitted(
    feature_map: FeatureMap, kernels: "Array | SparseKernels", values: Array, *, balance: float
) -> tuple[ValueFeatures, Array]:
    """The features, and weights 1/sqrt(G(s, a)) [h, s, a] under which no possible row (X, balance y / sqrt(2)) is longer than one.

    G = ||X||^2 + balance^2 Y^2 / 2 with Y(s, a) the largest |y| among the s' that some kernel allows. Zero where G is, up to rounding.
    """
    seen = sparse(feature_map, kernels)
    S, A, m = seen.states, seen.actions, feature_map.dimension
    rows, offset, scale, weight = _kernels.weighted_features(
        seen.arrays, seen.after(values), seen.span, balance
    )
    return ValueFeatures(
        rows.reshape(-1, S, A, m), offset.reshape(-1, S, A), scale
    ), weight.reshape(-1, S, A)


def visited(
    kernels: "SparseKernels",
    values: Array,
    step: Ints,
    state: Ints,
    action: Ints,
    after: Ints,
    *,
    balance: float,
    weights: Array | None = None,
) -> tuple[Array, Array]:
    """X [n, m] and y [n] of transitions (h, s, a, s'), times weights [h, s, a] (by default the fitting ones), made where they are needed:

    a round of few users looks at few rows. The transitions must exist.
    """
    table = (
        _FITTING
        if weights is None
        else np.ascontiguousarray(weights, dtype=float).reshape(len(values), -1)
    )
    return _kernels.visited(
        kernels.arrays,
        kernels.actions,
        values,
        kernels.span,
        balance,
        table,
        step,
        state,
        action,
        after,
    )


@dataclass(frozen=True, slots=True, eq=False)
class SparseKernels:
    """Kernels [i, s, a, s'] through a feature map, only where some kernel is not zero: most states cannot follow most others.

    `arrays` are starts [row + 1], successors [entry] and coefficients [entry, m + 1]: row r = s * actions + a has the entries
    starts[r]:starts[r + 1], each with its s' and what V(s') adds to X, and last what it adds to the offset.
    """

    feature_map: FeatureMap
    states: int
    actions: int
    arrays: tuple[Ints, Ints, Array] = field(repr=False)
    span: float  # zero: the range of the values themselves

    def after(self, values: Array) -> Array:
        """Values [h, s'], checked."""
        if values.ndim != 2 or values.shape[1] != self.states:
            raise InvalidParameter(
                f"values must have shape (steps, {self.states}), got {values.shape}"
            )
        return np.ascontiguousarray(values, dtype=float)


def known_features(public: "MixturePublic", unit: float = 1.0) -> "Array | SuccessorFeatures":
    """What agents know of the transitions, divided by `unit`: kernels [i, s, a, s'], or the features of possible successors."""
    features: SuccessorFeatures | None = getattr(public, "features", None)
    if features is not None:
        return features.divide_by(unit)
    kernels: Array = public.kernels  # type: ignore[union-attr]
    return kernels if unit == 1.0 else kernels / unit


def sparse(
    feature_map: FeatureMap, kernels: "Array | SuccessorFeatures | SparseKernels"
) -> SparseKernels:
    """Made once where the same kernels are planned with again and again; what is made already comes back as it is."""
    if isinstance(kernels, SparseKernels):
        if kernels.feature_map is not feature_map:
            raise InvalidParameter("the sparse kernels were made for another feature map")
        return kernels
    d = len(feature_map.origin)
    by_coordinate = np.column_stack([feature_map.basis, feature_map.origin])
    if isinstance(kernels, SuccessorFeatures):
        if kernels.dimension != d:
            raise InvalidParameter.of(
                "features", f"must have dimension {d}", got=f"{kernels.dimension}"
            )
        # Copies, because the compiled loops are compiled again for arrays that are read-only.
        arrays = (
            kernels.indptr.copy(),
            kernels.successors.copy(),
            kernels.features @ by_coordinate,
        )
        return SparseKernels(
            feature_map, kernels.states, kernels.actions, arrays, feature_map.span or 0.0
        )
    if kernels.ndim != 4 or len(kernels) != d or kernels.shape[1] != kernels.shape[3]:
        raise InvalidParameter(
            f"kernels must have shape ({d}, states, actions, states), got {kernels.shape}"
        )
    _, S, A, _ = kernels.shape
    by_row = np.moveaxis(kernels, 0, -1).reshape(S * A, S, d)
    possible = (by_row != 0).any(axis=2)
    starts = np.concatenate([[0], np.cumsum(possible.sum(axis=1))])
    coefficients = by_row[possible] @ by_coordinate
    return SparseKernels(
        feature_map, S, A, (starts, np.nonzero(possible)[1], coefficients), feature_map.span or 0.0
    )


def value_steps(horizon: int) -> int:
    """How many steps have something to learn: the value after the last step is zero, so its regression is empty."""
    return max(horizon - 1, 1)


def by_transition(kernels: Array) -> Array:
    """Kernels [i, s, a, s'] as [s, a, s', i]: the probabilities of each transition beside each other."""
    return np.ascontiguousarray(np.moveaxis(kernels, 0, -1))
