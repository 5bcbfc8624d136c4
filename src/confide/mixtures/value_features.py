"""A mixture's transitions seen through a value function.

PUBLIC knowledge, which both sides use: kernels, and values that were planned from releases. This is
the one place where rows and targets of value-targeted regression are made. Rows are clipped by
their bound afterwards, so nothing here is required for privacy. But a device makes its rows as its
server expects them, so both need the same version.

With P(s' | s, a) = sum_i w_i P_i(s' | s, a) and phi_V(s, a)_i = sum_s' P_i(s' | s, a) V(s'), where
the P_i are kernels, or features of any sign (`SuccessorFeatures`),

    E[V(s') | s, a] = phi_V(s, a).w = offset(s, a) + scale X(s, a).theta
    w = origin + basis theta

So a transition (s, a, s') gives the row X(s, a) with the target y = (V(s') - offset(s, a)) / scale,
whose mean is X.theta.
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
# The bounds on ||phi_V|| of [Zhou22]: Assumption 1, and Remark 6.6.
ROW_BOUNDS = ("sqrt(d)H", "H")
# Compiled loops take this for "the fitting weights".
FITTING_WEIGHTS = np.zeros((0, 0))
# A direction is determined if its singular value is more than this share of the largest one.
RANK_TOLERANCE = 1e-10
# How far from one the sum of probabilities may be by rounding.
SUM_TOLERANCE = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMap:
    """Which coordinates theta of the weights are learned, and how values are scaled before.

    Mixture weights are w = origin + basis theta. Values become (V - lo) / R. With `span`, lo = 0
    and R = span. Without it, lo and R are the minimum and the range of V itself, which is right
    because w sums to one. Made by `raw`, `centred`, `reduced` or `summing_to_one`.

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
        """The mixture weights [..., i] for theta [..., m]."""
        return np.asarray(self.origin + theta @ self.basis.T)

    def coordinates(self, mixture: Array) -> Array:
        """theta [..., m] for mixture weights [..., i]: the inverse of `mixture`."""
        return np.asarray((mixture - self.origin) @ self.basis)


def raw(kernels: int, span: float = 1.0) -> FeatureMap:
    """X = phi_V / span, y = V(s') / span, theta = w.

    These are the papers' rows with span = 1. With span = H they are the same in units of H.
    """
    if not span > 0:
        raise InvalidParameter(f"span must be positive, got span={span}")
    return FeatureMap(np.zeros(kernels), np.eye(kernels), float(span))


def centred(kernels: int) -> FeatureMap:
    """X = phi_U, y = U(s') in [0, 1], theta = w, where U = (V - lo) / R.

    It needs weights that sum to one.
    """
    return FeatureMap(np.zeros(kernels), np.eye(kernels), None)


def reduced(kernels: int) -> FeatureMap:
    """X = B^T phi_U, y = U(s') - mean_i (phi_U)_i, w = 1/d + B theta, where U = (V - lo) / R.

    B is the Helmert basis of the vectors that sum to zero. It needs weights that sum to one.
    """
    if kernels < 2:
        raise InvalidParameter(
            "kernels must be at least 2, because a single kernel leaves nothing to learn, "
            f"got kernels={kernels}"
        )
    d = kernels
    basis = np.triu(np.ones((d, d - 1)))
    basis[np.arange(1, d), np.arange(d - 1)] = -np.arange(1, d)
    return FeatureMap(np.full(d, 1 / d), basis / np.linalg.norm(basis, axis=0), None)


def summing_to_one(features: SuccessorFeatures) -> FeatureMap:
    """The coordinates of all weights w with phi_1(s, a).w = 1 for every (s, a).

    The true weights are among them. phi_1 is public, so these are linear equations that everybody
    knows. For kernels they say that weights sum to one, as `reduced` does. The origin is the
    shortest solution, and the basis spans the null space.
    """
    totals = features.totals
    # R^T R = totals^T totals, without squaring the condition number.
    R = np.linalg.qr(totals, mode="r")
    _, sizes, directions = np.linalg.svd(R, full_matrices=True)
    rank = int((sizes > RANK_TOLERANCE * sizes.max(initial=0.0)).sum())
    determined = directions[:rank]
    basis = directions[rank:].T
    solution = np.linalg.lstsq(totals @ determined.T, np.ones(len(totals)), rcond=None)[0]
    origin = determined.T @ solution
    if np.abs(totals @ origin - 1).max() > SUM_TOLERANCE:
        raise InvalidParameter("no weights make the probabilities of all (s, a) sum to one")
    if basis.shape[1] == 0:
        raise InvalidParameter(
            "the features leave nothing to learn: "
            "probabilities that sum to one determine the weights"
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
    return fitted_features(feature_map, kernels, values, balance=1.0)[0]


def fitted_features(
    feature_map: FeatureMap, kernels: "Array | SparseKernels", values: Array, *, balance: float
) -> tuple[ValueFeatures, Array]:
    """The features, and the fitting weights 1/sqrt(G(s, a)) [h, s, a].

    Under these weights no possible row (X, balance y / sqrt(2)) is longer than one:
    G = ||X||^2 + balance^2 Y^2 / 2, with Y(s, a) the largest |y| among the s' that some kernel
    allows. They are zero where G is zero up to rounding.
    """
    sparse_kernels = sparse(feature_map, kernels)
    S = sparse_kernels.states
    A = sparse_kernels.actions
    rows, offset, scale, weights = _kernels.weighted_features(
        sparse_kernels.arrays, sparse_kernels.check_values(values), sparse_kernels.span, balance
    )
    features = ValueFeatures(
        rows.reshape(-1, S, A, feature_map.dimension), offset.reshape(-1, S, A), scale
    )
    return features, weights.reshape(-1, S, A)


def transition_rows(
    kernels: "SparseKernels",
    values: Array,
    step: Ints,
    state: Ints,
    action: Ints,
    next_state: Ints,
    *,
    balance: float,
    weights: Array | None = None,
) -> tuple[Array, Array]:
    """X [n, m] and y [n] of transitions, times weights [h, s, a], by default the fitting ones.

    They are made only where they are needed, because a round of few users looks at few rows. The
    transitions must exist.
    """
    if weights is None:
        row_weights = FITTING_WEIGHTS
    else:
        row_weights = np.ascontiguousarray(weights, dtype=float).reshape(len(values), -1)
    return _kernels.transition_rows(
        kernels.arrays,
        kernels.actions,
        values,
        kernels.span,
        balance,
        row_weights,
        step,
        state,
        action,
        next_state,
    )


@dataclass(frozen=True, slots=True, eq=False)
class SparseKernels:
    """Kernels [i, s, a, s'] through a feature map, only where some kernel is not zero.

    Most states cannot follow most others. `arrays` are starts [row + 1], successors [entry] and
    coefficients [entry, m + 1]. Row r = s * actions + a has the entries starts[r]:starts[r + 1].
    Each has its s' and what V(s') adds to X, and last what it adds to the offset. `span` is that of
    the feature map, and zero if it takes the range of the values themselves.
    """

    feature_map: FeatureMap
    states: int
    actions: int
    arrays: tuple[Ints, Ints, Array] = field(repr=False)
    span: float

    def check_values(self, values: Array) -> Array:
        """Return values [h, s'] as compiled loops need them, and refuse all others."""
        if values.ndim != 2 or values.shape[1] != self.states:
            raise InvalidParameter(
                f"values must have shape (steps, {self.states}), got {values.shape}"
            )
        return np.ascontiguousarray(values, dtype=float)


def known_features(public: "MixturePublic", unit: float = 1.0) -> "Array | SuccessorFeatures":
    """What is public about the transitions, divided by `unit`.

    These are kernels [i, s, a, s'], or the features of possible successors.
    """
    features: SuccessorFeatures | None = getattr(public, "features", None)
    if features is not None:
        return features.divide_by(unit)
    kernels: Array = public.kernels  # type: ignore[union-attr]
    return kernels if unit == 1.0 else kernels / unit


def sparse(
    feature_map: FeatureMap, kernels: "Array | SuccessorFeatures | SparseKernels"
) -> SparseKernels:
    """Make sparse kernels, once where the same kernels are planned with again and again.

    Sparse kernels that exist already are returned as they are.
    """
    if isinstance(kernels, SparseKernels):
        if kernels.feature_map is not feature_map:
            raise InvalidParameter("the sparse kernels were made for another feature map")
        return kernels
    d = len(feature_map.origin)
    span = feature_map.span or 0.0
    by_coordinate = np.column_stack([feature_map.basis, feature_map.origin])
    if isinstance(kernels, SuccessorFeatures):
        if kernels.dimension != d:
            raise InvalidParameter.of(
                "features", f"must have dimension {d}", got=f"{kernels.dimension}"
            )
        # Copies, because the compiled loops are compiled again for arrays that are read-only.
        starts = kernels.indptr.copy()
        successors = kernels.successors.copy()
        arrays = (starts, successors, kernels.features @ by_coordinate)
        return SparseKernels(feature_map, kernels.states, kernels.actions, arrays, span)
    if kernels.ndim != 4 or len(kernels) != d or kernels.shape[1] != kernels.shape[3]:
        raise InvalidParameter(
            f"kernels must have shape ({d}, states, actions, states), got {kernels.shape}"
        )
    _, S, A, _ = kernels.shape
    by_row = np.moveaxis(kernels, 0, -1).reshape(S * A, S, d)
    is_possible = (by_row != 0).any(axis=2)
    starts = np.concatenate([[0], np.cumsum(is_possible.sum(axis=1))])
    successors = np.nonzero(is_possible)[1]
    arrays = (starts, successors, by_row[is_possible] @ by_coordinate)
    return SparseKernels(feature_map, S, A, arrays, span)


def value_steps(horizon: int) -> int:
    """How many steps have something to learn.

    The value after the last step is zero, so its regression would be empty.
    """
    return max(horizon - 1, 1)


def by_transition(kernels: Array) -> Array:
    """Kernels [i, s, a, s'] as [s, a, s', i], with the probabilities of a transition together."""
    return np.ascontiguousarray(np.moveaxis(kernels, 0, -1))
