"""The inner loops of planning with estimates of a mixture. A row is one (s, a); kernels come as `SparseKernels.arrays`."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# starts [row + 1], successors [entry], coefficients [entry, m + 1]
Sparse = tuple[Ints, Ints, Array]


@njit
def _scale(values: Array, span: float) -> tuple[float, float]:
    """lo and R of (V - lo) / R; span = 0 takes the range of V itself."""
    if span > 0.0:
        return 0.0, span
    low = values.min()
    scale = values.max() - low
    return low, scale if scale > 0.0 else 1.0  # V is constant: X = 0, and nothing is left to learn


@njit
def _look(kernels: Sparse, first: int, seen: Array, X: Array, offset: Array) -> None:
    """X and offset of the rows from `first` on, as many as there is room for; seen = (V - lo) / R."""
    starts, successors, coefficients = kernels
    n, m = X.shape
    for r in range(n):
        expected = 0.0
        for k in range(m):
            X[r, k] = 0.0
        for e in range(starts[first + r], starts[first + r + 1]):
            value = seen[successors[e]]
            for k in range(m):
                X[r, k] += coefficients[e, k] * value
            expected += coefficients[e, m] * value
        offset[r] = expected


@njit
def _fitting(
    kernels: Sparse, row: int, seen: Array, x: Array, offset: float, balance: float, least: float
) -> float:
    """1 / sqrt(G), G = ||x||^2 + (balance Y)^2 / 2, Y the largest |seen(s') - offset| over the s' that some kernel allows.

    Zero unless G > `least`: where all kernels agree on one s', x is a rounding error, and must not become a row of length one.
    """
    starts, successors, _ = kernels
    Y = 0.0
    for e in range(starts[row], starts[row + 1]):
        Y = max(Y, abs(seen[successors[e]] - offset))
    G = (balance * Y) ** 2 / 2
    for k in range(x.size):
        G += x[k] * x[k]
    return 1 / np.sqrt(G) if least < G else 0.0


@njit
def _least(seen: Array) -> float:
    """The largest G that may be a rounding error: sums of terms up to max |seen| are right to 1e-9 of it, and much better."""
    return float(1e-18 * max(seen.max(), -seen.min()) ** 2)


@njit
def value_features(kernels: Sparse, values: Array, span: float) -> tuple[Array, Array, float]:
    """X [row, m], offset [row] and scale with E[V(s') | row] = offset + scale X.theta."""
    n, m = kernels[0].size - 1, kernels[2].shape[1] - 1
    X, offset = np.empty((n, m)), np.empty(n)
    low, scale = _scale(values, span)
    _look(kernels, 0, (values - low) / scale, X, offset)
    return X, low + scale * offset, scale


@njit
def weighted_features(
    kernels: Sparse, values: Array, span: float, balance: float
) -> tuple[Array, Array, Array, Array]:
    """X [h, row, m], offset [h, row], scale [h] of values [h, s'], and weights 1/sqrt(||X||^2 + (balance Y)^2 / 2) [h, row]."""
    H, n, m = values.shape[0], kernels[0].size - 1, kernels[2].shape[1] - 1
    X, offset, scales, weight = np.empty((H, n, m)), np.empty((H, n)), np.empty(H), np.empty((H, n))
    for h in range(H):
        low, scale = _scale(values[h], span)
        seen, scales[h] = (values[h] - low) / scale, scale
        _look(kernels, 0, seen, X[h], offset[h])
        least = _least(seen)
        for r in range(n):
            weight[h, r] = _fitting(kernels, r, seen, X[h, r], offset[h, r], balance, least)
            offset[h, r] = low + scale * offset[h, r]
    return X, offset, scales, weight


@njit
def visited(
    kernels: Sparse,
    A: int,
    values: Array,
    span: float,
    balance: float,
    weights: Array,
    step: Ints,
    state: Ints,
    action: Ints,
    after: Ints,
) -> tuple[Array, Array]:
    """Weighted X [n, m] and y [n] of transitions, for values [h, s']; weights [h, row], where there are none the fitting ones."""
    n, m = step.size, kernels[2].shape[1] - 1
    X, y, seen, least = np.empty((n, m)), np.empty(n), np.empty_like(values), np.empty(len(values))
    for h in range(len(values)):
        low, scale = _scale(values[h], span)
        seen[h] = (values[h] - low) / scale
        least[h] = _least(seen[h])
    for i in range(n):
        h, r = step[i], state[i] * A + action[i]
        _look(kernels, r, seen[h], X[i : i + 1], y[i : i + 1])
        weight = (
            weights[h, r]
            if weights.size
            else _fitting(kernels, r, seen[h], X[i], y[i], balance, least[h])
        )
        y[i] = (seen[h, after[i]] - y[i]) * weight
        for k in range(m):
            X[i, k] *= weight
    return X, y


@njit
def _bonus(
    x: Array, inverse: Array, scale: float, width: tuple[float, float, float, float]
) -> float:
    """As `planners.regression.bonus`, of one row: a kernel calls kernels of its own file only."""
    sampling, noise, factor, cap = width
    square, length = 0.0, 0.0
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
    values, Q, actions = np.zeros((H + 1, S)), np.empty((H, S, A)), np.empty((H, S), np.int64)
    expected, extra = np.zeros(S * A), np.zeros(S * A)  # after the last step comes nothing
    for h in range(H - 1, -1, -1):
        if h < H - 1:
            X, expected, scale = value_features(kernels, values[h + 1], span)
            if width[2] > 0.0:
                inverse = _inverse(precisions[h])
                for r in range(S * A):
                    extra[r] = _bonus(X[r], inverse, scale, width)
            for r in range(S * A):
                along = 0.0
                for k in range(X.shape[1]):
                    along += X[r, k] * weights[h, k]
                expected[r] += scale * along
        for s in range(S):
            best, chosen = -1.0, 0
            for a in range(A):
                q = min(
                    max(rewards[h, s, a] + expected[s * A + a] + extra[s * A + a], 0.0), ceilings[h]
                )
                Q[h, s, a] = q
                if q > best:
                    best, chosen = q, a
            values[h, s], actions[h, s] = best, chosen
    return values, Q, actions


@njit
def _inverse(P: Array) -> Array:
    """By Gauss and Jordan: for small matrices the call of LAPACK costs more than the arithmetic. Only positive definite ones need no
    pivoting; others are left to it."""
    m, inverse = len(P), P.copy()
    for k in range(m):
        pivot = inverse[k, k]
        if not pivot > 0.0:
            return np.asarray(np.linalg.inv(P), dtype=np.float64)
        inverse[k, k] = 1.0
        for j in range(m):
            inverse[k, j] /= pivot
        for i in range(m):
            if i != k:
                factor, inverse[i, k] = inverse[i, k], 0.0
                for j in range(m):
                    inverse[i, j] -= factor * inverse[k, j]
    return inverse
