"""The finite-horizon Riccati recursion.

    P_H = Q,     P_h = Q + K_h^T R K_h + (A + B K_h)^T P_{h+1} (A + B K_h)
    K_H = 0,     K_h = -(R + B^T P_{h+1} B)^-1 B^T P_{h+1} A

The system is x' = A x + B u with the cost x^T Q x + u^T R u per step. The input is u_h = K_h x_h,
and the cost to go from step h is x^T P_h x. [Chowdhury21, (3)] prints P_h in the formula of K_h.
It must be P_{h+1}.
"""

import numpy as np
import numpy.typing as npt

from confide.planners._riccati_kernels import policy_costs
from confide.policy import LinearPolicy

Array = npt.NDArray[np.float64]


def riccati(A: Array, B: Array, Q: Array, R: Array, horizon: int) -> tuple[Array, LinearPolicy]:
    """Return costs to go P [h, n, n] and optimal gains K [h, d, n] for h = 0..horizon - 1.

    The last input has nothing left to steer, so it is zero.
    """
    n, d = B.shape
    P = np.zeros((horizon, n, n))
    gains = np.zeros((horizon, d, n))
    P[-1] = Q
    for h in reversed(range(horizon - 1)):
        gains[h] = -np.linalg.solve(R + B.T @ P[h + 1] @ B, B.T @ P[h + 1] @ A)
        P[h] = _cost_to_go(A, B, Q, R, gains[h], P[h + 1])
    return P, LinearPolicy(gains)


def linear_costs(A: Array, B: Array, Q: Array, R: Array, gains: Array) -> Array:
    """Return the costs to go P [h, n, n] of the policy u_h = K_h x_h."""
    P: Array = policy_costs(A, B, Q, R, np.ascontiguousarray(gains, dtype=float))
    return P


def _cost_to_go(A: Array, B: Array, Q: Array, R: Array, K: Array, P: Array) -> Array:
    closed = A + B @ K
    return np.asarray(Q + K.T @ R @ K + closed.T @ P @ closed)
