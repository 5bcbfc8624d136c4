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
def farthest(kernels: Array, values: Array, offset: Array, scale: float) -> Array:
    """The largest |values[s'] - offset| / scale of each row, over the s' that some kernel allows."""
    n, S = offset.size, values.size
    d = kernels.shape[0] // n
    result = np.zeros(n)
    for r in range(n):
        for t in range(S):
            allowed = False
            for i in range(d):
                allowed = allowed or kernels[i * n + r, t] > 0.0
            if allowed:
                result[r] = max(result[r], abs(values[t] - offset[r]) / scale)
    return result


@njit
def weighted_features(
    kernels: Array, values: Array, origin: Array, basis: Array, span: float, balance: float
) -> tuple[Array, Array, Array, Array]:
    """X [h, row, m], offset [h, row], scale [h] of values [h, s'], and weights 1/sqrt(||X||^2 + (balance Y)^2 / 2) [h, row]."""
    H, m = values.shape[0], basis.shape[1]
    n = kernels.shape[0] // basis.shape[0]
    X, offset, scale, weight = np.empty((H, n, m)), np.empty((H, n)), np.empty(H), np.zeros((H, n))
    for h in range(H):
        X[h], offset[h], scale[h] = value_features(kernels, values[h], origin, basis, span)
        Y = farthest(kernels, values[h], offset[h], scale[h])
        for r in range(n):
            G = (balance * Y[r]) ** 2 / 2
            for k in range(m):
                G += X[h, r, k] ** 2
            if G > 0.0:
                weight[h, r] = 1 / np.sqrt(G)
    return X, offset, scale, weight


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
def repaired(Lambda: Array, u: Array, ridge: float) -> tuple[Array, Array]:
    """theta [n, m] = P^-1 u and P [n, m, m] = (Lambda)_+ + ridge I."""
    n, m = u.shape
    theta, precision = np.zeros((n, m)), np.zeros((n, m, m))
    for b in range(n):
        eigenvalues, vectors = np.linalg.eigh(Lambda[b])
        for k in range(m):
            repaired = max(eigenvalues[k], 0.0) + ridge
            along = 0.0
            for i in range(m):
                along += vectors[i, k] * u[b, i]
            for i in range(m):
                theta[b, i] += vectors[i, k] * (along / repaired)
                for j in range(m):
                    precision[b, i, j] += vectors[i, k] * repaired * vectors[j, k]
    return theta, precision


@njit
def optimistic(
    kernels: Array,
    rewards: Array,
    origin: Array,
    basis: Array,
    span: float,
    weights: Array,
    precisions: Array,
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
            if factor > 0.0:
                extra = bonus(X, np.linalg.inv(precisions[h]), scale, sampling, noise, factor, cap)
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


@njit
def diameters(points: Array) -> tuple[float, float]:
    """The largest L2 and L1 distance between two rows."""
    n, m = points.shape
    longest, longest_l1 = 0.0, 0.0
    for i in range(n):
        for j in range(i):
            squares, sizes = 0.0, 0.0
            for k in range(m):
                difference = points[i, k] - points[j, k]
                squares += difference * difference
                sizes += abs(difference)
            longest, longest_l1 = max(longest, squares), max(longest_l1, sizes)
    return np.sqrt(longest), longest_l1


@njit
def visits(actions: Ints, users: Array, states: Array, choices: int) -> Array:
    """How many users take each action in each state [s, a]: policies [q, s] that serve users [q], from state distributions [q, s]."""
    Q, S = actions.shape
    expected = np.zeros((S, choices))
    for q in range(Q):
        for s in range(S):
            expected[s, actions[q, s]] += users[q] * states[q, s]
    return expected


@njit
def move(actions: Ints, states: Array, transitions: Array) -> Array:
    """The distributions [q, s'] after one step of policies [q, s] from states [q, s], with transitions [s, a, s']."""
    Q, S = states.shape
    moved = np.zeros((Q, S))
    for q in range(Q):
        for s in range(S):
            if states[q, s] > 0.0:
                for t in range(S):
                    moved[q, t] += states[q, s] * transitions[s, actions[q, s], t]
    return moved


@njit
def second_moments(expected: Array, transitions: Array, codes: Array) -> Array:
    """sum_{s, a} expected[s, a] E[c c^T | s, a] [c, c]."""
    S, A, _, m = codes.shape
    result = np.zeros((m, m))
    for s in range(S):
        for a in range(A):
            if expected[s, a] > 0.0:
                for t in range(S):
                    weight = expected[s, a] * transitions[s, a, t]
                    if weight > 0.0:
                        for i in range(m):
                            scaled = weight * codes[s, a, t, i]
                            for j in range(m):
                                result[i, j] += scaled * codes[s, a, t, j]
    return result
