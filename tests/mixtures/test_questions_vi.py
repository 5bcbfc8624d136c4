"""QuestionsVI: it learns, with and without privacy, and asks what it should."""

import numpy as np
import pytest

import confide
from confide.mixtures import _question_kernels as kernels_of
from confide.mixtures.question_planning import PRIOR, SMALL, Asked, Evidence, believe, evaluate
from confide.problems import LinearMixtureMDP, lock, rand

LOCK = lock(0)
P = np.ascontiguousarray(np.moveaxis(LOCK.kernels, 0, -1))


def test_an_answer_is_the_sign_of_what_the_kernels_say():
    theta = np.array([1.0, -1.0, 0.0, 0.0, 0.0])
    signs = kernels_of.signs(P, theta, SMALL)
    said = P @ theta
    assert np.array_equal(signs, np.where(np.abs(said) > SMALL * P.sum(axis=-1), np.sign(said), 0))
    visits = np.random.default_rng(0).random(P.shape[:2])
    means = kernels_of.means(P, theta[None], visits, SMALL)
    np.testing.assert_allclose(means[0], 0.5 * np.einsum("sa,sat,sati->i", visits, signs, P))
    weights = np.full(5, 0.2)
    expected = 0.25 * np.einsum("sa,sat,sat->", visits, signs.astype(float) ** 2, P @ weights)
    np.testing.assert_allclose(kernels_of.moments(P, weights, theta[None], visits, SMALL), [[expected]])


def test_best_policies_are_those_of_the_problem():
    values, actions = kernels_of.best_policies(P, LOCK.rewards, LOCK.weights[None])
    assert LOCK.start @ values[0, 0] == pytest.approx(LOCK.optimal_value)
    assert evaluate(P, LOCK.rewards, LOCK.start, actions[0], LOCK.weights) == pytest.approx(LOCK.optimal_value)
    hoped, _ = kernels_of.hopeful(P, LOCK.rewards, LOCK.weights, np.zeros((4, 5, 5)), 1.0)
    assert LOCK.start @ hoped[0] == pytest.approx(LOCK.optimal_value)
    more, _ = kernels_of.hopeful(P, LOCK.rewards, LOCK.weights, np.tile(np.eye(5), (4, 1, 1)), 1.0)
    assert (more >= hoped - 1e-12).all() and more[0].max() <= 5


def test_the_estimate_is_consistent():
    """Exact means instead of answers, from very many users, of questions that tell all directions: the weights come out."""
    d, rng = 5, np.random.default_rng(0)
    policies = rng.integers(4, size=(40, 5, 20))
    thetas, steps = np.concatenate([np.eye(d) - 0.2] * 4), np.repeat(np.arange(4), d)
    answers, at = np.zeros(len(steps)), np.tile(LOCK.start, (40, 1))
    users = np.full(40, 1e6)
    from confide.planners import _visit_kernels as walk

    for h in range(4):
        visits = walk.visits(policies[:, h], users, at, 4)
        here = steps == h
        answers[here] = kernels_of.means(P, np.ascontiguousarray(thetas[here]), visits, SMALL) @ LOCK.weights[h]
        at = walk.move(policies[:, h], at, P @ LOCK.weights[h])
    nothing = Evidence(np.zeros((4, d, d)), np.zeros((4, d)))
    belief, first = believe([Asked(policies, users, steps, thetas, answers, 1.0)], nothing, P, LOCK.start)
    np.testing.assert_allclose(belief.weights, LOCK.weights[:4], atol=2e-3)
    again, _ = believe([], first, P, LOCK.start)  # folded, the evidence is the same
    np.testing.assert_allclose(again.weights, belief.weights, atol=1e-6)
    drawn = belief.samples(50, 1.0, rng)
    assert (drawn >= 0).all() and np.allclose(drawn.sum(axis=-1), 1)


@pytest.mark.parametrize("size", [1e5, 1e7, 1e9])
def test_a_sharp_posterior_stays_one(size):
    """Rows that also say much along 1, where nothing is unknown: a pseudo-inverse took rounding errors for variances of 1e9."""
    d, rng = 12, np.random.default_rng(0)
    kernels = np.ascontiguousarray(np.moveaxis(rng.dirichlet(np.ones(3), size=(d, 3, 2)), 0, -1))
    rows = np.sqrt(size) * (5 + rng.standard_normal((400, d)))
    precision = rows[:, :, None] * rows[:, None, :]
    belief, _ = believe([], Evidence(precision, precision @ np.full(d, 1 / d)), kernels, np.full(3, 1 / 3))
    variances = np.linalg.eigvalsh(belief.covariance)
    assert variances.min() > -1e-12 and variances.max() < 1 / PRIOR + 1e-12
    np.testing.assert_allclose(belief.weights, 1 / d, atol=1e-4)
    np.testing.assert_allclose(belief.covariance.sum(axis=-1), 0, atol=1e-12)


@pytest.mark.parametrize(("d", "horizon"), [(1, 3), (2, 1), (1, 1)])
def test_nothing_to_learn(d, horizon):
    rng = np.random.default_rng(0)
    kernels = rng.dirichlet(np.ones(4), size=(d, 4, 2))
    problem = LinearMixtureMDP(kernels, np.full((horizon, d), 1 / d), rng.random((horizon, 4, 2)), np.full(4, 0.25))
    agent = confide.agents.QuestionsVI(problem.public, episodes=100, privacy=confide.JointDP(1.0))
    assert confide.run(agent, problem, seed=0).regret[-1] < 1e-3


@pytest.mark.parametrize("privacy", [confide.NoPrivacy(), confide.JointDP(1.0), confide.JointDP(1.0, 1e-5)])
@pytest.mark.parametrize("problem", [LOCK, rand(0)], ids=["lock", "rand"])
def test_it_learns(privacy, problem):
    """Uniform play loses more than 1,300 on either; 16 seeds of lock at epsilon = 1 lost 207 at most."""
    agent = confide.agents.QuestionsVI(problem.public, episodes=2_000, privacy=privacy)
    run = confide.run(agent, problem, seed=0)
    assert run.regret[-1] < (60 if isinstance(privacy, confide.NoPrivacy) else 250)
    assert isinstance(privacy, confide.NoPrivacy) or agent.guarantee.loss == confide.PureDP(1.0)
    assert problem.optimal_value - problem.value(run.policy) < 0.05


def test_more_noise_fewer_questions():
    asked = {}
    for epsilon in (0.3, 100.0):
        agent = confide.agents.QuestionsVI(LOCK.public, episodes=500, privacy=confide.JointDP(epsilon))
        agent.noise = confide.mechanisms.noise_source("fast", 0)
        asked[epsilon] = agent.current_round().statistic.bound.size
    assert asked[0.3] < asked[100.0]


def test_rewards_must_be_known():
    from confide.problems import lock_rewards

    with pytest.raises(confide.errors.InvalidParameter, match="rewards"):
        confide.agents.QuestionsVI(lock_rewards(0).public, episodes=10, privacy=confide.NoPrivacy())
