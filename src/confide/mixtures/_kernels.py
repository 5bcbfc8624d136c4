"""The inner loops of planning with estimates of a mixture, and of the rows of its users.

PUBLIC knowledge, which both sides use. A row is one (s, a), and kernels come as
`SparseKernels.arrays`. The order of the operations decides the last bits of rows and policies, so a
server and its devices need the same version.

Letters: S states, A actions, H steps, n rows or transitions, m coordinates.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# starts [row + 1], successors [entry], coefficients [entry, m + 1]
Sparse = tuple[Ints, Ints, Array]


@njit
def _scale(values: Array, span: float) -> tuple[float, float]:
    """lo and R of (V - lo) / R. With span = 0 they are the minimum and the range of V itself."""
    if span > 0.0:
        return 0.0, span
    low = values.min()
    scale = values.max() - low
    # If V is constant, X = 0, and nothing is left to learn.
    return low, scale if scale > 0.0 else 1.0


@njit
def _fill_rows(kernels: Sparse, first: int, scaled: Array, X: Array, offset: Array) -> None:
    """Fill X [n, m] and offset [n] with the n rows from `first` on, for scaled = (V - lo) / R."""
    starts, successors, coefficients = kernels
    n, m = X.shape
    for r in range(n):
        expected = 0.0
        for k in range(m):
            X[r, k] = 0.0
        for e in range(starts[first + r], starts[first + r + 1]):
            value = scaled[successors[e]]
            for k in range(m):
                X[r, k] += coefficients[e, k] * value
            expected += coefficients[e, m] * value
        offset[r] = expected


@njit
def _fitting_weight(
    kernels: Sparse, row: int, scaled: Array, x: Array, offset: float, balance: float, least: float
) -> float:
    """1 / sqrt(G), where G = ||x||^2 + (balance Y)^2 / 2.

    Y is the largest |scaled(s') - offset| over the s' that some kernel allows. The weight is zero
    unless G > `least`: where all kernels agree on one s', x is a rounding error, and must not
    become a row of length one.
    """
    starts, successors, _ = kernels
    Y = 0.0
    for e in range(starts[row], starts[row + 1]):
        Y = max(Y, abs(scaled[successors[e]] - offset))
    G = (balance * Y) ** 2 / 2
    for k in range(x.size):
        G += x[k] * x[k]
    return 1 / np.sqrt(G) if least < G else 0.0


@njit
def _least_size(scaled: Array) -> float:
    """The largest G that may be a rounding error.

    Sums of terms up to max |scaled| are right to 1e-9 of it, and much better.
    """
    return float(1e-18 * max(scaled.max(), -scaled.min()) ** 2)


@njit
def value_features(kernels: Sparse, values: Array, span: float) -> tuple[Array, Array, float]:
    """X [row, m], offset [row] and scale with E[V(s') | row] = offset + scale X.theta."""
    n = kernels[0].size - 1
    m = kernels[2].shape[1] - 1
    X = np.empty((n, m))
    offset = np.empty(n)
    low, scale = _scale(values, span)
    _fill_rows(kernels, 0, (values - low) / scale, X, offset)
    return X, low + scale * offset, scale


@njit
def weighted_features(
    kernels: Sparse, values: Array, span: float, balance: float
) -> tuple[Array, Array, Array, Array]:
    """X [h, row, m], offset [h, row] and scale [h] of values [h, s'], and fitting weights [h, row].

    A fitting weight is 1/sqrt(||X||^2 + (balance Y)^2 / 2), see `_fitting_weight`.
    """
    H = values.shape[0]
    n = kernels[0].size - 1
    m = kernels[2].shape[1] - 1
    X = np.empty((H, n, m))
    offset = np.empty((H, n))
    scales = np.empty(H)
    weights = np.empty((H, n))
    for h in range(H):
        low, scale = _scale(values[h], span)
        scales[h] = scale
        scaled = (values[h] - low) / scale
        _fill_rows(kernels, 0, scaled, X[h], offset[h])
        least = _least_size(scaled)
        for r in range(n):
            weights[h, r] = _fitting_weight(
                kernels, r, scaled, X[h, r], offset[h, r], balance, least
            )
            offset[h, r] = low + scale * offset[h, r]
    return X, offset, scales, weights


@njit
def transition_rows(
    kernels: Sparse,
    A: int,
    values: Array,
    span: float,
    balance: float,
    weights: Array,
    step: Ints,
    state: Ints,
    action: Ints,
    next_state: Ints,
) -> tuple[Array, Array]:
    """Weighted X [n, m] and y [n] of transitions, for values [h, s'].

    They are multiplied by weights [h, row]; if this array is empty, by the fitting ones.
    """
    n = step.size
    m = kernels[2].shape[1] - 1
    X = np.empty((n, m))
    y = np.empty(n)
    scaled = np.empty_like(values)
    least = np.empty(len(values))
    for h in range(len(values)):
        low, scale = _scale(values[h], span)
        scaled[h] = (values[h] - low) / scale
        least[h] = _least_size(scaled[h])
    for i in range(n):
        h = step[i]
        r = state[i] * A + action[i]
        # y[i] is first the offset.
        _fill_rows(kernels, r, scaled[h], X[i : i + 1], y[i : i + 1])
        weight = (
            weights[h, r]
            if weights.size
            else _fitting_weight(kernels, r, scaled[h], X[i], y[i], balance, least[h])
        )
        y[i] = (scaled[h, next_state[i]] - y[i]) * weight
        for k in range(m):
            X[i, k] *= weight
    return X, y


@njit
def _bonus(
    x: Array, inverse: Array, scale: float, width: tuple[float, float, float, float]
) -> float:
    """As `planners.regression.bonus`, of one row: a kernel calls kernels of its own file only."""
    sampling, noise, factor, cap = width
    square = 0.0
    length = 0.0
    for i in range(x.size):
        solved = 0.0
        for k in range(x.size):
            solved += inverse[i, k] * x[k]
        square += x[i] * solved
        length += solved * solved
    return float(factor * scale * min(cap, np.sqrt(max(sampling * square + noise * length, 0.0))))


@njit
def optimistic(
    kernels: Sparse,
    rewards: Array,
    span: float,
    weights: Array,
    precisions: Array,
    width: tuple[float, float, float, float],
    ceilings: Array,
) -> tuple[Array, Array, Ints]:
    """values [h, s] for h = 0..H, Q [h, s, a] and greedy actions [h, s]."""
    H, S, A = rewards.shape
    values = np.zeros((H + 1, S))
    Q = np.empty((H, S, A))
    actions = np.empty((H, S), np.int64)
    # After the last step comes nothing.
    expected = np.zeros(S * A)
    bonuses = np.zeros(S * A)
    for h in range(H - 1, -1, -1):
        if h < H - 1:
            X, expected, scale = value_features(kernels, values[h + 1], span)
            if width[2] > 0.0:
                inverse = _inverse(precisions[h])
                for r in range(S * A):
                    bonuses[r] = _bonus(X[r], inverse, scale, width)
            for r in range(S * A):
                along = 0.0
                for k in range(X.shape[1]):
                    along += X[r, k] * weights[h, k]
                expected[r] += scale * along
        for s in range(S):
            best = -1.0
            best_action = 0
            for a in range(A):
                r = s * A + a
                q_value = min(max(rewards[h, s, a] + expected[r] + bonuses[r], 0.0), ceilings[h])
                Q[h, s, a] = q_value
                if q_value > best:
                    best = q_value
                    best_action = a
            values[h, s] = best
            actions[h, s] = best_action
    return values, Q, actions


@njit
def _inverse(P: Array) -> Array:
    """The inverse by Gauss and Jordan.

    For small matrices a call of LAPACK costs more than the arithmetic. Only positive definite
    matrices need no pivoting, and all others are left to LAPACK.
    """
    m = len(P)
    inverse = P.copy()
    for k in range(m):
        pivot = inverse[k, k]
        if not pivot > 0.0:
            return np.asarray(np.linalg.inv(P), dtype=np.float64)
        inverse[k, k] = 1.0
        for j in range(m):
            inverse[k, j] /= pivot
        for i in range(m):
            if i != k:
                factor = inverse[i, k]
                inverse[i, k] = 0.0
                for j in range(m):
                    inverse[i, j] -= factor * inverse[k, j]
    return inverse
