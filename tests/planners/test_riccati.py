"""Exact linear quadratic control: the Riccati equation by its residual, its limit, and one large
least squares problem.
"""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from confide.planners.riccati import linear_costs, riccati

pytestmark = pytest.mark.kernels


def system(seed, n=3, d=2, *, radius=1.1):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    G = rng.normal(size=(n, n))
    F = rng.normal(size=(d, d))
    return A, rng.normal(size=(n, d)), G @ G.T + 0.1 * np.eye(n), F @ F.T + 0.1 * np.eye(d)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 2), (2, 4), (6, 1)])
@pytest.mark.parametrize("radius", [0.0, 0.7, 1.3])
def test_riccati_residuals(n, d, radius):
    """P_h = Q + A^T P A - A^T P B (R + B^T P B)^-1 B^T P A with P = P_{h+1}: not the form that the
    code uses.
    """
    A, B, Q, R = system(n, n, d, radius=radius)
    P, policy = riccati(A, B, Q, R, 12)
    assert P.shape == (12, n, n) and policy.gains.shape == (12, d, n)
    np.testing.assert_array_equal(P[-1], Q)
    assert not policy.gains[-1].any()
    for h in range(11):
        N = P[h + 1]
        right = Q + A.T @ N @ A - A.T @ N @ B @ np.linalg.inv(R + B.T @ N @ B) @ B.T @ N @ A
        assert np.abs(P[h] - right).max() < 1e-10 * max(1.0, np.abs(right).max())
        assert np.abs((R + B.T @ N @ B) @ policy.gains[h] + B.T @ N @ A).max() < 1e-10 * max(
            1.0, np.abs(N).max()
        )
    np.testing.assert_allclose(linear_costs(A, B, Q, R, policy.gains), P, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_far_from_the_end_it_is_the_stationary_solution(seed):
    A, B, Q, R = system(seed)
    limit = solve_discrete_are(A, B, Q, R)
    P, policy = riccati(A, B, Q, R, 400)
    assert np.abs(P[0] - limit).max() < 1e-10 * np.abs(limit).max()
    gain = -np.linalg.solve(R + B.T @ limit @ B, B.T @ limit @ A)
    np.testing.assert_allclose(policy.gains[0], gain, atol=1e-9)


def rollout_cost(A, B, Q, R, x, inputs):
    total = 0.0
    for u in inputs:
        total += x @ Q @ x + u @ R @ u
        x = A @ x + B @ u
    return total


@pytest.mark.parametrize("seed", range(3))
def test_no_sequence_of_inputs_is_cheaper(seed):
    """The whole episode from x_1 as one least squares problem in (u_1, ..., u_H)."""
    A, B, Q, R = system(seed)
    H = 5
    n = 3
    d = 2
    P, policy = riccati(A, B, Q, R, H)
    x = np.random.default_rng(seed).normal(size=n)
    half_Q = np.linalg.cholesky(Q).T
    half_R = np.linalg.cholesky(R).T
    rows = []
    sides = []
    for h in range(H):
        reach = [
            np.linalg.matrix_power(A, h - 1 - k) @ B if k < h else np.zeros((n, d))
            for k in range(H)
        ]
        rows += [half_Q @ np.hstack(reach), half_R @ np.eye(H * d)[h * d : (h + 1) * d]]
        sides += [-half_Q @ np.linalg.matrix_power(A, h) @ x, np.zeros(d)]
    best = np.linalg.lstsq(np.vstack(rows), np.concatenate(sides), rcond=None)[0].reshape(H, d)
    assert rollout_cost(A, B, Q, R, x, best) == pytest.approx(x @ P[0] @ x, rel=1e-10)
    state = x
    played = []
    for h in range(H):
        played.append(policy.gains[h] @ state)
        state = A @ state + B @ played[-1]
    np.testing.assert_allclose(played, best, atol=1e-9)


def test_costs_of_other_gains_are_their_rollouts():
    A, B, Q, R = system(7)
    gains = np.random.default_rng(8).normal(size=(4, 2, 3))
    P = linear_costs(A, B, Q, R, gains)
    optimum = riccati(A, B, Q, R, 4)[0]
    for x in np.eye(3):
        state = x
        inputs = []
        for K in gains:
            inputs.append(K @ state)
            state = A @ state + B @ inputs[-1]
        assert x @ P[0] @ x == pytest.approx(rollout_cost(A, B, Q, R, x, inputs), rel=1e-12)
    assert np.linalg.eigvalsh(P - optimum).min() > -1e-9
