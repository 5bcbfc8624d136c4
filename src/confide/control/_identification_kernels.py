"""The inner loops of adaptive control on residuals."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def cautious(theta: Array, covariance: Array, Q: Array, R: Array, horizon: int) -> Array:
    """Gains [h, d, n] of least expected cost if Theta [p, n] is drawn anew at every step, with this
    covariance [p, p] in each column.

    With M = Theta P Theta^T + tr(P) covariance + diag(Q, R): K = -M_uu^-1 M_ux. Zero covariance is
    the plain recursion; where B is unknown, its covariance makes inputs expensive, and K small.
    """
    p, n = theta.shape
    gains = np.zeros((horizon, p - n, n))
    P = Q.copy()
    lift = np.zeros((p, n))
    lift[:n] = np.eye(n)
    for h in range(horizon - 2, -1, -1):
        M = theta @ P @ np.ascontiguousarray(theta.T) + np.trace(P) * covariance
        M[:n, :n] += Q
        M[n:, n:] += R
        gains[h] = -np.linalg.solve(
            np.ascontiguousarray(M[n:, n:]), np.ascontiguousarray(M[n:, :n])
        )
        lift[n:] = gains[h]
        P = np.ascontiguousarray(lift.T) @ M @ lift
        P = (P + P.T) / 2
    return gains


@njit
def state_moments(theta: Array, gains: Array, starts: Array, shocks: Array, reach: float) -> Array:
    """E x x^T at every step that counts [g, h, n, n]: of made-up users with starts [u, n] and noise
    [u, h, n], who all play all gains.
    """
    m, H, d, n = gains.shape
    users = len(starts)
    total = np.zeros((m, H, n, n))
    closed = np.zeros((H, n, n))
    x = np.zeros(n)
    after = np.zeros(n)
    for g in range(m):
        for h in range(H):
            for i in range(n):
                for j in range(n):
                    closed[h, i, j] = theta[j, i]
                    for k in range(d):
                        closed[h, i, j] += theta[n + k, i] * gains[g, h, k, j]
        for u in range(users):
            x[:] = starts[u]
            seen = 0.0
            for h in range(H):
                for i in range(n):
                    seen += x[i] * x[i]
                if h > 0 and seen > reach:
                    break
                for i in range(n):
                    after[i] = shocks[u, h, i]
                    for j in range(n):
                        total[g, h, i, j] += x[i] * x[j] / users
                        after[i] += closed[h, i, j] * x[j]
                x[:] = after
    return total


@njit
def shown_moments(states: Array, gains: Array, turn: Array) -> Array:
    """sum_h z z^T [p, p] from E x x^T [g, h, n, n], averaged over gains, if every x is shown as
    turn x.
    """
    m, H, d, n = gains.shape
    total = np.zeros((n + d, n + d))
    lift = np.zeros((n + d, n))
    lift[:n] = np.eye(n)
    for g in range(m):
        for h in range(H):
            lift[n:] = gains[g, h]
            shown = lift @ turn
            total += shown @ np.ascontiguousarray(states[g, h]) @ np.ascontiguousarray(shown.T) / m
    return total


@njit
def costs_of(thetas: Array, gains: Array, Q: Array, R: Array, first: Array, noise: Array) -> Array:
    """What gains [g, h, d, n] cost in each of these systems [i, p, n], which stay the same for all
    steps: [i, g].
    """
    N = len(thetas)
    m = len(gains)
    H, d, n = gains.shape[1:]
    solution = np.zeros((N, m))
    F = np.zeros((n, n))
    X = np.zeros((n, n))
    Y = np.zeros((n, n))
    W = np.zeros((m, H, n, n))
    for g in range(m):
        for h in range(H):
            W[g, h] = Q + np.ascontiguousarray(gains[g, h].T) @ R @ gains[g, h]
    for a in range(N):
        for g in range(m):
            X[:] = first
            cost = 0.0
            for h in range(H):
                for i in range(n):
                    for j in range(n):
                        cost += W[g, h, i, j] * X[i, j]
                        F[i, j] = thetas[a, j, i]
                        for k in range(d):
                            F[i, j] += thetas[a, n + k, i] * gains[g, h, k, j]
                for i in range(n):
                    for j in range(n):
                        Y[i, j] = 0.0
                        for k in range(n):
                            Y[i, j] += F[i, k] * X[k, j]
                for i in range(n):
                    for j in range(n):
                        X[i, j] = noise[i, j]
                        for k in range(n):
                            X[i, j] += Y[i, k] * F[j, k]
            solution[a, g] = cost
    return solution


@njit
def simulate(
    thetas: Array, guess: Array, gains: Array, starts: Array, shocks: Array, reach: float
) -> tuple[Array, Array]:
    """(||G||_F, tr S) of made-up users: systems [u, p, n], starts [u, n], noise [u, h, n]; user u
    plays gains[u mod g].
    """
    users, p, n = thetas.shape
    m, H = gains.shape[:2]
    sizes = np.empty(users)
    traces = np.empty(users)
    z = np.zeros(p)
    G = np.zeros((p, n))
    for u in range(users):
        x = starts[u].copy()
        seen = trace = 0.0
        G[:] = 0.0
        for h in range(H):
            seen += (x * x).sum()
            if h > 0 and seen > reach:
                break
            z[:n] = x
            z[n:] = gains[u % m, h] @ x
            trace += (z * z).sum()
            after = np.ascontiguousarray(thetas[u].T) @ z + shocks[u, h]
            residual = after - np.ascontiguousarray(guess.T) @ z
            for i in range(p):
                for j in range(n):
                    G[i, j] += z[i] * residual[j]
            x = after
        sizes[u] = np.sqrt((G * G).sum())
        traces[u] = trace
    return sizes, traces
