"""The least cost of a linear system, its gradient and its Lagrangian bound.

Theta = [A B]^T has the shape (p, n), where p = n + d. Names follow `riccati.py`.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
# Q, R, horizon, variance of every coordinate of the noise, and the state in which episodes start.
# An empty start means that it is random, uniform on the unit sphere.
Model = tuple[Array, Array, int, float, Array]
Work = tuple[Array, Array, Array, Array, Array]

# A Riccati or Lyapunov step that changes less than this, relative to the diagonal, is the last one
# that is computed.
STATIONARY = 1e-15
# Up to this size, BLAS costs more to call than to run (measured).
SMALL = 5


@njit
def workspace(p: int, n: int, H: int) -> Work:
    """P [h, n, n], K [h, d, n], T [p, n], M [p, p], and five matrices [n, n]."""
    return (
        np.zeros((H, n, n)),
        np.zeros((H, p - n, n)),
        np.empty((p, n)),
        np.empty((p, p)),
        np.empty((5, n, n)),
    )


@njit
def copy(source: Array, target: Array) -> None:
    """target[:] = source takes a second longer to compile."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = source[i, j]


@njit
def multiply(A: Array, B: Array, C: Array) -> None:
    """C = A B."""
    if len(C) > SMALL:
        np.dot(A, B, C)
        return
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[i, k] * B[k, j]
            C[i, j] = total


@njit
def multiply_left(A: Array, B: Array, C: Array) -> None:
    """C = A^T B."""
    if len(C) > SMALL:
        np.dot(A.T, B, C)
        return
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[k, i] * B[k, j]
            C[i, j] = total


@njit
def factor(M: Array, first: int) -> bool:
    """Replace the lower triangle of the trailing block M[first:, first:] by its Cholesky factor.

    Return False if the block is not positive definite.
    """
    p = len(M)
    for i in range(first, p):
        for j in range(first, i + 1):
            left = M[i, j]
            for k in range(first, j):
                left -= M[i, k] * M[j, k]
            if i != j:
                M[i, j] = left / M[j, j]
            elif left > 0.0:
                M[i, i] = np.sqrt(left)
            else:
                return False
    return True


@njit
def solve(L: Array, first: int, rows: Array) -> None:
    """(L L^T)^-1 rows, in place, for the trailing block of L."""
    d, n = rows.shape
    for i in range(d):
        pivot = 1 / L[first + i, first + i]
        for j in range(n):
            left = rows[i, j]
            for k in range(i):
                left -= L[first + i, first + k] * rows[k, j]
            rows[i, j] = left * pivot
    for i in range(d - 1, -1, -1):
        pivot = 1 / L[first + i, first + i]
        for j in range(n):
            left = rows[i, j]
            for k in range(i + 1, d):
                left -= L[first + k, first + i] * rows[k, j]
            rows[i, j] = left * pivot


@njit
def _eliminate(M: Array, P: Array, K: Array) -> bool:
    """Find the minimum over u of z^T M z: P = M_xx - M_xu M_uu^-1 M_ux at u = K x.

    Return False if there is none.
    """
    d, n = K.shape
    if not factor(M, n):
        return False
    for i in range(d):
        for j in range(n):
            K[i, j] = -M[n + i, j]
    solve(M, n, K)
    for i in range(n):
        for j in range(i + 1):
            total = M[i, j]
            for k in range(d):
                total += M[n + k, i] * K[k, j]
            P[i, j] = total
            P[j, i] = total
    return True


@njit
def _pull_back(theta: Array, P: Array, Q: Array, R: Array, T: Array, M: Array) -> None:
    """Write M = diag(Q, R) + Theta P Theta^T.

    Of a small M only the lower triangle is written, which is all that `_eliminate` reads.
    """
    p, n = theta.shape
    multiply(theta, P, T)
    if p > SMALL:
        np.dot(T, theta.T, M)
    for i in range(p):
        for j in range(i + 1):
            total = M[i, j] if p > SMALL else 0.0
            if i < n:
                total += Q[i, j]
            elif j >= n:
                total += R[i - n, j - n]
            if p <= SMALL:
                for k in range(n):
                    total += T[i, k] * theta[j, k]
            M[i, j] = total


@njit
def _same(new: Array, old: Array) -> bool:
    n = len(new)
    for i in range(n):
        for j in range(i + 1):
            if not abs(new[i, j] - old[i, j]) <= STATIONARY * np.sqrt(new[i, i] * new[j, j]):
                return False
    return True


@njit
def _at_start(P: Array, trace: float, start: Array) -> float:
    """E x_1^T P x_1."""
    n = len(P)
    if start.size == 0:
        return trace / n
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += start[i] * P[i, j] * start[j]
    return total


@njit
def backward(theta: Array, model: Model, work: Work) -> tuple[float, int]:
    """Return the cost J, and the first step from which P and K change.

    P[h] and K[h] of earlier steps are not written. They are P[first] and K[first].
    """
    Q, R, H, noise, start = model
    P, K, T, M, _ = work
    n = len(Q)
    trace = 0.0
    for i in range(n):
        trace += Q[i, i]
        for j in range(n):
            P[H - 1, i, j] = Q[i, j]
    total = 0.0
    first = H - 1
    while first > 0:
        total += noise * trace
        first -= 1
        _pull_back(theta, P[first + 1], Q, R, T, M)
        if not _eliminate(M, P[first], K[first]):
            return np.inf, 0
        trace = 0.0
        for i in range(n):
            trace += P[first, i, i]
        if _same(P[first], P[first + 1]):
            break
    return total + first * noise * trace + _at_start(P[first], trace, start), first


@njit
def forward(theta: Array, model: Model, first: int, work: Work, gradient: Array) -> None:
    """dJ/dTheta = 2 sum_{h < H} [I; K_h] S_h A_h^T P_{h+1}, after `backward`.

    Envelope theorem: J is the least cost over all gains, so its gradient is that of the cost at the
    gains that attain it. The first variation of that cost is 2 sum_h tr(dA_h S_h A_h^T P_{h+1}),
    where dA_h = dA + dB K_h. Up to `first` the gains are the same, so the A_h S_h are added up.
    Where S does not change either, they are counted.
    """
    _, _, H, noise, start = model
    P, K, T, _, square = work
    S = square[0]
    turned = square[1]
    X = square[2]
    total = square[3]
    moved = square[4]
    n = len(S)
    d = K.shape[1]
    inputs = theta[n:]
    term = T[n:]
    for i in range(n):
        for j in range(n):
            if start.size > 0:
                S[i, j] = start[i] * start[j]
            else:
                S[i, j] = 1.0 / n if i == j else 0.0
    gradient[:] = 0.0
    h = 0
    while h < H - 1:
        # The steps h..last have the same gains.
        last = max(h, first)
        multiply_left(K[last], inputs, turned)
        for i in range(n):
            for j in range(n):
                turned[i, j] += theta[i, j]  # A_h^T
                total[i, j] = 0.0
        while h <= last:
            multiply_left(turned, S, X)
            multiply(X, turned, moved)
            for i in range(n):
                moved[i, i] += noise
            copies = last - h + 1 if h < last and _same(moved, S) else 1
            for i in range(n):
                for j in range(n):
                    total[i, j] += copies * X[i, j]
                    S[i, j] = moved[i, j]
            h += copies
        multiply_left(total, P[last + 1], moved)
        multiply(K[last], moved, term)
        for i in range(n):
            for j in range(n):
                gradient[i, j] += 2 * moved[i, j]
        for i in range(d):
            for j in range(n):
                gradient[n + i, j] += 2 * term[i, j]


@njit
def dual(hat: Array, spread: Array, model: Model, mu: float, work: Work) -> float:
    """Return the Lagrangian bound of the multiplier mu, or -inf if mu is not feasible.

    `spread` is beta^2 V^-1.
    """
    Q, R, H, noise, start = model
    _, K, T, M, square = work
    P = square[0]
    soft = square[1]
    p, n = hat.shape
    copy(Q, P)
    trace = 0.0
    total = 0.0
    for h in range(H):
        trace = 0.0
        for i in range(n):
            trace += P[i, i]
        if h == H - 1:
            break
        total += noise * trace
        if not _soften(P, mu, square[2], soft):
            return -np.inf
        _pull_back(hat, soft, Q, R, T, M)
        for i in range(p):
            for j in range(p):
                M[i, j] -= mu * spread[i, j]
        if not _eliminate(M, P, K[0]):
            return -np.inf
    return float(total + _at_start(P, trace, start))


@njit
def _soften(P: Array, mu: float, L: Array, soft: Array) -> bool:
    """Write (P^-1 + I/mu)^-1 = mu P (P + mu I)^-1, which is symmetric: the factors commute.

    Return False if P + mu I is not positive definite.
    """
    n = len(P)
    for i in range(n):
        for j in range(n):
            L[i, j] = P[i, j]
            soft[i, j] = mu * P[i, j]
        L[i, i] += mu
    if not factor(L, 0):
        return False
    solve(L, 0, soft)
    for i in range(n):
        for j in range(i):
            mean = 0.5 * (soft[i, j] + soft[j, i])
            soft[i, j] = mean
            soft[j, i] = mean
    return True


@njit
def highest(hat: Array, spread: Array, model: Model, top: float) -> tuple[float, float]:
    """The largest `dual` that a golden section in log mu finds below `top`, and its mu."""
    work = workspace(hat.shape[0], hat.shape[1], 2)
    ratio = 0.5 * (np.sqrt(5.0) - 1.0)
    low = np.log(top) - 30.0
    high = np.log(top)
    left = high - ratio * (high - low)
    right = low + ratio * (high - low)
    at_left = dual(hat, spread, model, np.exp(left), work)
    at_right = dual(hat, spread, model, np.exp(right), work)
    while high - low > 1e-5:
        # Also where both are infeasible, because what is feasible lies to the left.
        if at_left >= at_right:
            high = right
            right = left
            at_right = at_left
            left = high - ratio * (high - low)
            at_left = dual(hat, spread, model, np.exp(left), work)
        else:
            low = left
            left = right
            at_left = at_right
            right = low + ratio * (high - low)
            at_right = dual(hat, spread, model, np.exp(right), work)
    if at_left >= at_right:
        return at_left, np.exp(left)
    return at_right, np.exp(right)


@njit
def policy_costs(A: Array, B: Array, Q: Array, R: Array, gains: Array) -> Array:
    """Return the costs to go P [h, n, n] of u_h = K_h x_h, where P_{H+1} = 0.

    P_h = Q + K_h^T R K_h + (A + B K_h)^T P_{h+1} (A + B K_h).
    """
    H, d, n = gains.shape
    P = np.zeros((H + 1, n, n))
    closed = np.zeros((n, n))
    through = np.zeros((n, n))
    priced = np.zeros((d, n))
    for h in range(H - 1, -1, -1):
        multiply(B, gains[h], closed)
        for i in range(n):
            for j in range(n):
                closed[i, j] += A[i, j]
        multiply(P[h + 1], closed, through)
        multiply(R, gains[h], priced)
        for i in range(n):
            for j in range(n):
                total = Q[i, j]
                for k in range(d):
                    total += gains[h, k, i] * priced[k, j]
                for k in range(n):
                    total += closed[k, i] * through[k, j]
                P[h, i, j] = total
    return P[:H]
