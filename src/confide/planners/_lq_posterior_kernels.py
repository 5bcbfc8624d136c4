"""The inner loops of adaptive control on residuals."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def cautious(theta: Array, covariance: Array, Q: Array, R: Array, horizon: int) -> Array:
    """Gains [h, d, n] of least expected cost if Theta [p, n] is drawn anew at every step, with this covariance [p, p] in each column.

    With M = Theta P Theta^T + tr(P) covariance + diag(Q, R): K = -M_uu^-1 M_ux. Zero covariance is the plain recursion; where B is
    unknown, its covariance makes inputs expensive, and K small.
    """
    p, n = theta.shape
    gains, P = np.zeros((horizon, p - n, n)), Q.copy()
    lift = np.zeros((p, n))
    lift[:n] = np.eye(n)
    for h in range(horizon - 2, -1, -1):
        M = theta @ P @ np.ascontiguousarray(theta.T) + np.trace(P) * covariance
        M[:n, :n] += Q
        M[n:, n:] += R
        gains[h] = -np.linalg.solve(np.ascontiguousarray(M[n:, n:]), np.ascontiguousarray(M[n:, :n]))
        lift[n:] = gains[h]
        P = np.ascontiguousarray(lift.T) @ M @ lift
        P = (P + P.T) / 2
    return gains


@njit
def expected_cost(theta: Array, covariance: Array, Q: Array, R: Array, gains: Array, first: Array, noise: Array) -> float:
    """Of gains under the same model, from states of second moment `first` with noise of covariance `noise`."""
    H, d, n = gains.shape
    p = n + d
    P, cost = np.zeros((n, n)), 0.0
    lift = np.zeros((p, n))
    lift[:n] = np.eye(n)
    for h in range(H - 1, -1, -1):
        cost += np.trace(P @ noise)
        M = theta @ P @ np.ascontiguousarray(theta.T) + np.trace(P) * covariance
        M[:n, :n] += Q
        M[n:, n:] += R
        lift[n:] = gains[h]
        P = np.ascontiguousarray(lift.T) @ M @ lift
    return float(cost + np.trace(P @ first))


@njit
def second_moments(theta: Array, gains: Array, first: Array, noise: Array, reach: float, turn: Array) -> Array:
    """E sum_h z z^T [p, p] of one user, averaged over gains [g, h, d, n], of steps that count; E x x^T is shown as turn E x x^T turn^T."""
    m, H, d, n = gains.shape
    p = n + d
    total, lift = np.zeros((p, p)), np.zeros((p, n))
    lift[:n] = np.eye(n)
    for g in range(m):
        X, seen = first.copy(), 0.0
        for h in range(H):
            seen += np.trace(X)
            if h > 0 and seen > reach:
                break
            lift[n:] = gains[g, h]
            shown = lift @ turn
            total += shown @ X @ np.ascontiguousarray(shown.T) / m
            closed = np.ascontiguousarray(theta.T) @ lift
            X = closed @ X @ np.ascontiguousarray(closed.T) + noise
    return total


@njit
def rehearse(thetas: Array, guess: Array, gains: Array, starts: Array, shocks: Array, reach: float) -> tuple[Array, Array]:
    """(||G||_F, tr S) of made-up users: systems [u, p, n], starts [u, n], noise [u, h, n]; user u plays gains[u mod g]."""
    users, p, n = thetas.shape
    m, H = gains.shape[:2]
    sizes, traces = np.empty(users), np.empty(users)
    z, G = np.zeros(p), np.zeros((p, n))
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
        sizes[u], traces[u] = np.sqrt((G * G).sum()), trace
    return sizes, traces
