"""Which question is best: the claims of docs/agents/questions.md, checked by other means."""

from itertools import product

import numpy as np
import pytest

from confide.mixtures.questions import _kernels as kernels_of
from confide.mixtures.questions.planning import (
    MIN_RELEVANCE,
    SIGN_TOLERANCE,
    policy_value,
    relevance_of_weights,
)
from confide.problems import rand

RAND = rand(0)
P = np.ascontiguousarray(np.moveaxis(RAND.kernels, 0, -1))
STEPS = RAND.horizon - 1
D = P.shape[-1]


def positive(rng: np.random.Generator, d: int) -> np.ndarray:
    root = rng.standard_normal((d, d))
    return root @ root.T / d


def test_gradients_are_those_of_the_value():
    values, actions = kernels_of.best_policies(P, RAND.rewards, RAND.weights[None])
    gradients = kernels_of.value_gradients(
        P, values, actions, RAND.weights[None, :STEPS], RAND.start
    )[0]
    for h, i in product(range(STEPS), range(D)):
        sides = []
        for move in (-1e-4, 1e-4):
            moved = RAND.weights.copy()
            moved[h, i] += move
            sides.append(policy_value(P, RAND.rewards, RAND.start, actions[0], moved))
        assert gradients[h, i] == pytest.approx((sides[1] - sides[0]) / 2e-4, rel=1e-6)


def test_relevance_is_the_error_of_value_differences():
    """sum_h tr(B_h C_h) is half the mean squared error of g.e - g'.e over pairs of policies, for
    errors e of covariance C.
    """
    rng = np.random.default_rng(0)
    gradients = rng.random((6, 2, 4))
    C = np.stack([positive(rng, 4) for _ in range(2)])
    within = np.eye(4) - 1 / 4
    C = within @ C @ within
    pairs = [(gradients[i] - gradients[j]) for i in range(6) for j in range(6)]
    error = np.mean([np.einsum("hi,hij,hj->", g, C, g) for g in pairs])
    B = relevance_of_weights(gradients) - MIN_RELEVANCE * within
    assert np.einsum("hij,hji->", B, C) == pytest.approx(error / 2)


@pytest.mark.parametrize("count", [1, 5])
def test_the_greedy_gain_is_the_exact_fall_of_the_expected_error(count):
    """Against the posterior of a Gaussian model that sees all answers at once, and against a
    simulation of estimates.
    """
    rng = np.random.default_rng(count)
    d = 4
    steps = np.repeat(np.arange(2), 6)
    C, B = (np.stack([positive(rng, d) for _ in range(2)]) for _ in range(2))
    rows = rng.standard_normal((12, d))
    noise = rng.random(12)
    picked, gain = kernels_of.choose_greedily(C, B, rows, steps, noise, count)
    after = []
    for h in range(2):
        chosen = [q for q in picked if steps[q] == h]
        after.append(
            np.linalg.inv(
                np.linalg.inv(C[h])
                + sum((np.outer(rows[q], rows[q]) / noise[q] for q in chosen), np.zeros((d, d)))
            )
        )
    assert gain == pytest.approx(np.einsum("hij,hji->", B, C - np.stack(after)))
    if count == 1:
        m = rows[picked[0]]
        s2 = noise[picked[0]]
        h = steps[picked[0]]
        alone = np.einsum("qi,qij,qjk,qkl,ql->q", rows, C[steps], B[steps], C[steps], rows)
        assert gain == pytest.approx(
            (alone / (np.einsum("qi,qij,qj->q", rows, C[steps], rows) + noise)).max()
        )
        truth = rng.multivariate_normal(np.zeros(d), C[h], size=200_000)
        y = truth @ m + np.sqrt(s2) * rng.standard_normal(len(truth))
        left = truth - np.outer(y, C[h] @ m) / (m @ C[h] @ m + s2)
        fallen = np.einsum("ni,ij,nj->n", truth, B[h], truth) - np.einsum(
            "ni,ij,nj->n", left, B[h], left
        )
        assert fallen.mean() == pytest.approx(gain, abs=5 * fallen.std() / np.sqrt(len(fallen)))


def test_where_noise_dominates_no_other_table_of_answers_is_better():
    """For a target b.w the gain grows with (m.C b)^2, and theta = C b has the largest of all tables
    of answers within +-1/2.
    """
    rng = np.random.default_rng(0)
    kernels = np.ascontiguousarray(np.moveaxis(rng.dirichlet(np.ones(3), size=(4, 2, 2)), 0, -1))
    visits = rng.random((2, 2))
    theta = positive(rng, 4) @ rng.standard_normal(4)
    ours = float(kernels_of.mean_answers(kernels, theta[None], visits, SIGN_TOLERANCE)[0] @ theta)
    tables = np.array(list(product((-0.5, 0.0, 0.5), repeat=12))).reshape(-1, 2, 2, 3)
    others = np.einsum("nsat,sa,sati,i->n", tables, visits, kernels, theta)
    assert ours == pytest.approx(np.abs(others).max())
