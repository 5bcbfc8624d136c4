"""Evaluation against a plain twin and against the exact values of a policy; improvement against its
closed form.
"""

import numpy as np
import pytest

from confide.mixtures.planning import optimistic
from confide.mixtures.policy_planning import evaluate
from confide.mixtures.value_features import raw, reduced
from confide.planners.mirror_descent import improve, softmax
from confide.planners.regression import NO_BONUS, RegressionEstimate, Width, bonus, least_squares
from confide.policy import StochasticPolicy
from confide.problems import LinearMixtureMDP


def mixture(seed, *, d=3, S=4, A=3, H=4):
    rng = np.random.default_rng(seed)
    kernels = rng.dirichlet(np.ones(S), size=(d, S, A))
    weights = rng.dirichlet(np.ones(d), size=H)
    return LinearMixtureMDP(
        kernels, weights, rng.uniform(size=(H, S, A)), rng.dirichlet(np.ones(S))
    )


@pytest.mark.parametrize("fm", [raw(3, span=2.0), reduced(3)], ids=["raw", "reduced"])
def test_evaluation_equals_its_twin(fm):
    rng = np.random.default_rng(0)
    problem = mixture(1)
    width = Width(0.25, 9.0, factor=0.3)
    G = rng.normal(size=(3, fm.dimension, fm.dimension))
    logits = rng.normal(size=(4, 4, 3))
    estimate = least_squares(
        10 * G @ G.swapaxes(1, 2), rng.normal(scale=9.0, size=(3, fm.dimension)), noise_std=5.0
    )
    values = np.zeros((5, 4))
    for h in reversed(range(4)):
        V = values[h + 1]
        low, scale = (0.0, fm.span) if fm.span else (V.min(), np.ptp(V) or 1.0)
        phi = np.einsum("isat,t->sai", problem.kernels, (V - low) / scale)
        expected = low + scale * phi @ fm.origin if h < 3 else 0.0
        if h < 3:
            X = phi @ fm.basis
            expected = (
                expected
                + scale * X @ estimate.weights[h]
                + bonus(X, estimate.precision[h], scale, width)
            )
        Q = np.clip(problem.rewards[h] + expected, 0, 4 - h)
        values[h] = np.einsum("sa,sa->s", Q, softmax(logits)[h])
    evaluation = evaluate(
        problem.kernels, problem.rewards, estimate, logits, feature_map=fm, width=width
    )
    np.testing.assert_allclose(evaluation.values, values, atol=1e-12)


def test_the_true_weights_give_the_true_values():
    problem = mixture(2)
    fm = reduced(3)
    logits = np.random.default_rng(0).normal(size=(4, 4, 3))
    exact = RegressionEstimate(
        fm.coordinates(problem.weights[:3]), np.repeat(np.eye(2)[None], 3, axis=0)
    )
    evaluation = evaluate(
        problem.kernels, problem.rewards, exact, logits, feature_map=fm, width=NO_BONUS
    )
    np.testing.assert_allclose(
        evaluation.values, problem.values(StochasticPolicy(softmax(logits))), atol=1e-12
    )


def test_improvement_is_mirror_descent_and_ends_at_the_greedy_plan():
    problem = mixture(3)
    fm = reduced(3)
    exact = RegressionEstimate(
        fm.coordinates(problem.weights[:3]), np.repeat(np.eye(2)[None], 3, axis=0)
    )
    logits = np.random.default_rng(0).normal(size=(4, 4, 3))
    Q = evaluate(problem.kernels, problem.rewards, exact, logits, feature_map=fm, width=NO_BONUS).Q
    expected = softmax(logits) * np.exp(0.7 * Q)
    np.testing.assert_allclose(
        softmax(improve(logits, Q, 0.7)), expected / expected.sum(axis=2, keepdims=True), atol=1e-12
    )
    for _ in range(200):
        logits = improve(
            logits,
            evaluate(
                problem.kernels, problem.rewards, exact, logits, feature_map=fm, width=NO_BONUS
            ).Q,
            5.0,
        )
    best = optimistic(
        problem.kernels, problem.rewards, exact, feature_map=fm, width=NO_BONUS
    ).policy
    np.testing.assert_array_equal(softmax(logits).argmax(axis=2), best.actions)
    assert np.isfinite(improve(logits, Q, 1e9)).all()
