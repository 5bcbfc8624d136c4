"""Contextual linear bandits: exact values, samples of the right law, files."""

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.policy import ContextPolicy, RandomPolicy, uniform_policy
from confide.problems import LinearBandit, linear_bandit, load_problem, make, news

WORLD = linear_bandit(4, 3, seed=1, population=50)


def test_values_are_averages_over_the_population():
    means = 0.5 + WORLD.contexts @ WORLD.parameter
    assert WORLD.optimal_value == pytest.approx(means.max(axis=1).mean())
    assert WORLD.value(WORLD.optimal_policy) == pytest.approx(WORLD.optimal_value)
    assert WORLD.value(RandomPolicy(3)) == WORLD.uniform_value == pytest.approx(means.mean())
    assert WORLD.value(ContextPolicy(-WORLD.parameter)) == pytest.approx(means.min(axis=1).mean())


def test_the_bonus_of_a_policy_counts():
    contexts = np.array([[[0.5, 0.0], [0.0, 1.0]]])
    greedy = ContextPolicy(np.array([1.0, 0.0]))
    hopeful = ContextPolicy(np.array([1.0, 0.0]), 0.8 * np.eye(2)[1:])
    assert greedy.choose(contexts).tolist() == [0] and hopeful.choose(contexts).tolist() == [1]
    assert hopeful.act(0, contexts[0], np.random.default_rng(0)) == 1


@pytest.mark.parametrize(
    "policy", [WORLD.optimal_policy, RandomPolicy(3), ContextPolicy(np.ones(4), np.eye(4))]
)
def test_samples_have_the_value_of_the_policy(policy):
    """20 000 users: the standard error is at most .0036."""
    users = WORLD.sample(policy, 20_000, np.random.default_rng(0))
    expected = WORLD.value(policy)
    assert users.rewards.mean() == pytest.approx(expected, abs=0.0145)
    assert users.states.shape == (20_000, 2, 3, 4) and np.isnan(users.states[:, 1]).all()
    assert set(np.unique(users.rewards)) <= {0.0, 1.0} and users.actions.shape == (20_000, 1)
    again = WORLD.sample(policy, 20_000, np.random.default_rng(0))
    assert np.array_equal(users.actions, again.actions)


def test_the_problems_are_what_they_say():
    world = linear_bandit(6, 4, seed=3)
    assert np.linalg.norm(world.contexts, axis=2) == pytest.approx(1.0) and np.linalg.norm(
        world.parameter
    ) == pytest.approx(0.5)
    assert np.array_equal(world.contexts, linear_bandit(6, 4, seed=3).contexts)
    paper = news(seed=2)
    assert (paper.public.dimension, paper.public.actions, paper.name) == (20, 10, "news")
    # one reader, articles of four features
    assert np.linalg.matrix_rank(paper.contexts[0].reshape(10, 20)) <= 4
    assert make("linear-bandit", seed=3).dimension == 10 and make("news").dimension == 20


def test_it_is_saved_and_opened_again(tmp_path):
    WORLD.save(tmp_path / "bandit.npz")
    back = load_problem(tmp_path / "bandit.npz")
    assert (
        isinstance(back, LinearBandit)
        and back.optimal_value == WORLD.optimal_value
        and back.name == WORLD.name
    )


def test_what_is_not_a_bandit_is_refused():
    x = np.zeros((2, 2, 3))
    with pytest.raises(InvalidParameter, match="must have shape"):
        LinearBandit(np.zeros(2), x)
    with pytest.raises(InvalidParameter, match=r"contexts\[user=0, a=0\] must have norm at most 1"):
        LinearBandit(np.zeros(3), x + 1)
    with pytest.raises(InvalidParameter, match="at most 1/2"):
        LinearBandit(np.array([0.7, 0, 0]), np.eye(3)[None])
    with pytest.raises(InvalidParameter, match="ContextPolicy"):
        WORLD.value(uniform_policy(1, 2, 3))
    with pytest.raises(InvalidParameter, match="multiple of 5"):
        linear_bandit(7, contexts="news")
