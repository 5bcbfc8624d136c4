"""The inner loops of planning on released statistics. A row is one (s, a); kernels come as [i * row, s']."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@njit
def value_features(kernels: Array, values: Array, origin: Array, basis: Array, span: float) -> tuple[Array, Array, float]:
    """X [row, m], offset [row] and scale with E[V(s') | row] = offset + scale X.theta; span = 0 takes the range of V itself."""
    d, m = basis.shape
    low, scale = 0.0, span
    if span == 0.0:
        low = values.min()
        scale = values.max() - low
        if scale == 0.0:
            scale = 1.0  # V is constant: X = 0, and nothing is left to learn
    phi = np.dot(kernels, (values - low) / scale)
    n = phi.size // d
    X, offset = np.zeros((n, m)), np.full(n, low)
    for i in range(d):
        for r in range(n):
            value = phi[i * n + r]
            offset[r] += scale * origin[i] * value
            for k in range(m):
                X[r, k] += basis[i, k] * value
    return X, offset, scale


@njit
def bonus(X: Array, inverse: Array, scale: float, sampling: float, noise: float, factor: float, cap: float) -> Array:
    """factor scale min(cap, sqrt(sampling x^T L^-1 x + noise ||L^-1 x||^2)) of each row x."""
    n, m = X.shape
    result = np.empty(n)
    for r in range(n):
        square, length = 0.0, 0.0
        for i in range(m):
            solved = 0.0
            for k in range(m):
                solved += inverse[i, k] * X[r, k]
            square += X[r, i] * solved
            length += solved * solved
        result[r] = factor * scale * min(cap, np.sqrt(max(sampling * square + noise * length, 0.0)))
    return result


@njit
def optimistic(
    kernels: Array,
    rewards: Array,
    origin: Array,
    basis: Array,
    span: float,
    weights: Array,
    inverses: Array,
    width: tuple[float, float, float, float],
    ceilings: Array,
) -> tuple[Array, Array, Ints]:
    """values [h, s] for h = 0..H, Q [h, s, a] and greedy actions [h, s]."""
    H, S, A = rewards.shape
    sampling, noise, factor, cap = width
    values, Q, actions = np.zeros((H + 1, S)), np.empty((H, S, A)), np.zeros((H, S), np.int64)
    expected, extra = np.zeros(S * A), np.zeros(S * A)  # after the last step comes nothing
    for h in range(H - 1, -1, -1):
        if h < H - 1:
            X, expected, scale = value_features(kernels, values[h + 1], origin, basis, span)
            extra = bonus(X, inverses[h], scale, sampling, noise, factor, cap)
            for r in range(S * A):
                for k in range(weights.shape[1]):
                    expected[r] += scale * X[r, k] * weights[h, k]
        for s in range(S):
            for a in range(A):
                Q[h, s, a] = min(max(rewards[h, s, a] + expected[s * A + a] + extra[s * A + a], 0.0), ceilings[h])
                if Q[h, s, a] > Q[h, s, actions[h, s]]:
                    actions[h, s] = a
            values[h, s] = Q[h, s, actions[h, s]]
    return values, Q, actions


@njit
def project(targets: Array, precisions: Array) -> Array:
    """The closest point of the simplex to each target [n, d] in the norm of its precision [n, d, d], by an active set.

    On a face (the free coordinates) the minimum solves a linear system; on the way to it from inside the simplex, coordinates that
    reach zero leave the face. At the minimum of a face, the coordinate whose multiplier is most negative joins it; if none is, the point
    is optimal. Each face's minimum is lower than the last one's, so no face comes twice; the bound on their number is for rounding errors.
    """
    n, d = targets.shape
    result = np.full((n, d), 1.0 / d)
    for b in range(n):
        free, barred = np.ones(d, np.bool_), np.zeros(d, np.bool_)
        joined = d - 1
        for _ in range(100 * d):
            if _settle(result[b], free, joined, targets[b], precisions[b]):
                barred[:] = False
            else:
                barred[joined] = True  # its multiplier was negative by rounding only
            joined = _violated(result[b], free, barred, targets[b], precisions[b])
            if joined < 0:
                break
            free[joined] = True
    return result


@njit
def _settle(w: Array, free: Flags, joined: int, target: Array, P: Array) -> bool:
    """Move w to the minimum of its face, dropping the coordinates that block the way; whether it moved before `joined` was dropped."""
    moved = False
    while True:
        step = _face_step(w, free, target, P)
        length, block = 1.0, -1
        for i in range(w.size):
            if free[i] and step[i] <= 0.0 and w[i] + step[i] <= 0.0:
                reach = w[i] / -step[i] if w[i] > 0.0 else 0.0
                if block < 0 or reach < length:
                    length, block = reach, i
        moved = moved or (free[joined] and length > 0.0)
        for i in range(w.size):
            if free[i]:
                w[i] = max(w[i] + length * step[i], 0.0)
        if block < 0:
            return moved
        w[block], free[block] = 0.0, False


@njit
def _face_step(w: Array, free: Flags, target: Array, P: Array) -> Array:
    """From w to the minimum over {sum = 1, w_i = 0 off the face}: P_FF p = nu - g_F, sum p = 0."""
    gradient, nu = _gradient(w, free, target, P)
    L = _face_factor(free, P)
    along, ones = np.zeros(w.size), np.zeros(w.size)
    for i in range(w.size):
        if free[i]:
            along[i], ones[i] = nu - gradient[i], 1.0  # nu for now: a large multiplier would cost digits
    _solve(L, along)
    _solve(L, ones)
    step: Array = along - along.sum() / ones.sum() * ones
    return step


@njit
def _gradient(w: Array, free: Flags, target: Array, P: Array) -> tuple[Array, float]:
    """g = P (w - target), and its mean nu over the face."""
    gradient, total, count = np.zeros(w.size), 0.0, 0
    for i in range(w.size):
        for j in range(w.size):
            gradient[i] += P[i, j] * (w[j] - target[j])
        if free[i]:
            total += gradient[i]
            count += 1
    return gradient, total / count


@njit
def _face_factor(free: Flags, P: Array) -> Array:
    """The Cholesky factor of P_FF + c 1 1^T, completed by the identity off the face.

    Steps sum to zero, so c changes none of them; without it P may be singular along 1.
    """
    d = free.size
    L, c = np.eye(d), np.trace(P) / d**2
    for j in range(d):
        if free[j]:
            pivot = P[j, j] + c
            least = 1e-16 * pivot
            for k in range(j):
                pivot -= L[j, k] * L[j, k]
            L[j, j] = np.sqrt(max(pivot, least))
            for i in range(j + 1, d):
                if free[i]:
                    value = P[i, j] + c
                    for k in range(j):
                        value -= L[i, k] * L[j, k]
                    L[i, j] = value / L[j, j]
    return L


@njit
def _solve(L: Array, x: Array) -> None:
    """x <- (L L^T)^-1 x."""
    for i in range(x.size):
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]
    for i in range(x.size - 1, -1, -1):
        for k in range(i + 1, x.size):
            x[i] -= L[k, i] * x[k]
        x[i] /= L[i, i]


@njit
def _violated(w: Array, free: Flags, barred: Flags, target: Array, P: Array) -> int:
    """The coordinate off the face with the most negative multiplier g_i - nu, or -1: none below the rounding error of g."""
    d = w.size
    gradient, nu = _gradient(w, free, target, P)
    rounding = 0.0
    for i in range(d):
        size = 0.0
        for j in range(d):
            size += abs(P[i, j]) * (w[j] + abs(target[j]))
        rounding = max(rounding, size)
    worst, lowest = -1, -4.0 * d * 2.3e-16 * rounding
    for i in range(d):
        if not free[i] and not barred[i] and gradient[i] - nu < lowest:
            worst, lowest = i, gradient[i] - nu
    return worst
