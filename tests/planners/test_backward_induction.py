"""Exact planning: Bellman's equation by its residual, and every policy of tiny problems by brute
force.
"""

import itertools

import numpy as np
import pytest

from confide.planners.backward_induction import optimal, policy_values
from confide.policy import StochasticPolicy, TabularPolicy

pytestmark = pytest.mark.kernels


def tiny(seed, H, S, A):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.5), size=(H, S, A))
    return P, rng.uniform(size=(H, S, A)), lambda h, V: P[h] @ V


@pytest.mark.parametrize(("H", "S", "A"), [(1, 1, 1), (5, 20, 4), (50, 7, 3)])
def test_bellman_residuals(H, S, A):
    P, r, expect = tiny(0, H, S, A)
    V, policy = optimal(expect, r)
    assert V.shape == (H + 1, S) and not V[H].any()
    Q = r + np.einsum("hsat,ht->hsa", P, V[1:])
    assert np.abs(V[:-1] - Q.max(axis=2)).max() < 1e-10
    np.testing.assert_array_equal(policy.actions, Q.argmax(axis=2))

    weights = np.random.default_rng(1).dirichlet(np.ones(A), size=(H, S))
    for pi in (StochasticPolicy(weights), policy):
        W = policy_values(expect, r, pi)
        residual = W[:-1] - (pi.probabilities() * (r + np.einsum("hsat,ht->hsa", P, W[1:]))).sum(
            axis=2
        )
        assert np.abs(residual).max() < 1e-10
        assert (W <= V + 1e-12).all()
    np.testing.assert_allclose(policy_values(expect, r, policy), V, atol=1e-12)


def forward_value(P, r, weights, start):
    """The expected sum of rewards by moving the distribution of states forwards: no Bellman
    equation in it.
    """
    total = 0.0
    where = start
    for h in range(len(r)):
        mass = where[:, None] * weights[h]
        total += (mass * r[h]).sum()
        where = np.einsum("sa,sat->t", mass, P[h])
    return total


def test_policy_values_agree_with_the_forward_recursion():
    P, r, expect = tiny(2, 6, 5, 3)
    weights = np.random.default_rng(3).dirichlet(np.ones(3), size=(6, 5))
    V = policy_values(expect, r, StochasticPolicy(weights))
    for s in range(5):
        assert V[0, s] == pytest.approx(forward_value(P, r, weights, np.eye(5)[s]), abs=1e-13)


@pytest.mark.parametrize(("H", "S", "A"), [(2, 2, 3), (3, 2, 2), (3, 3, 2), (1, 3, 4)])
def test_no_policy_of_a_tiny_problem_is_better(H, S, A):
    for seed in range(3):
        P, r, expect = tiny(seed, H, S, A)
        V, policy = optimal(expect, r)
        every = itertools.product(range(A), repeat=H * S)
        choices = [
            TabularPolicy(np.reshape(actions, (H, S)), A).probabilities() for actions in every
        ]
        for s in range(S):
            best = max(forward_value(P, r, weights, np.eye(S)[s]) for weights in choices)
            assert V[0, s] == pytest.approx(best, abs=1e-12)
            assert forward_value(P, r, policy.probabilities(), np.eye(S)[s]) == pytest.approx(
                best, abs=1e-12
            )


def test_ties_go_to_the_first_action():
    _, policy = optimal(lambda _, V: np.zeros((V.size, 3)), np.ones((2, 4, 3)))
    assert not policy.actions.any()
