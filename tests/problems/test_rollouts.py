"""Policies that are played in an environment, in its own units."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import confide
from confide.errors import InvalidParameter
from confide.policy import (
    LinearPolicy,
    RandomPolicy,
    StochasticPolicy,
    TabularPolicy,
    uniform_policy,
)
from confide.problems import environment, riverswim
from confide.problems.gym import from_gymnasium
from confide.problems.rollouts import RolloutValue, value_of_returns


class Counter(gymnasium.Env):
    """Two states and two actions. Action 1 costs 3 and ends in state 0, and pays 5 in state 1;
    action 0 goes to state 1.
    """

    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2, start=7)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.state = 0
        return self.state, {}

    def step(self, action):
        earned = {(0, 8): -3.0, (1, 8): 5.0}.get((self.state, action), 0.0)
        over = action == 8
        self.state = 1
        return self.state, earned, over, False, {}


def tabular(*actions):
    return TabularPolicy(np.array(actions), 2)


def test_rewards_are_those_of_the_environment():
    ends_at_once = tabular([1, 1], [1, 1])
    waits = tabular([0, 0], [1, 1])
    for policy, want in ((ends_at_once, -3.0), (waits, 5.0)):
        value = confide.evaluate_policy(policy, Counter(), 50)
        assert value == RolloutValue(want, 0.0, want, want, 50, 0.9)


def test_a_policy_of_a_run_has_a_state_before_the_start_and_one_after_the_end():
    """Sampled problems begin one step earlier, in a state of their own: the same policy, played
    with and without the problem.
    """
    problem = environment(Counter(), 2, reward_range=(-3.0, 5.0))
    assert (problem.horizon, problem.states) == (3, 4)
    policy = tabular([0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0])
    for env in (problem, Counter()):
        assert confide.evaluate_policy(policy, env, 20).mean == pytest.approx(5.0)


def test_the_interval_covers_the_exact_value():
    """Uniform play on FrozenLake, whose value is exact in its table: 90 % intervals of 60 seeds.
    43 or fewer have a chance of 1e-4.
    """
    table = from_gymnasium("FrozenLake-v1", 20)
    policy = uniform_policy(20, table.states, table.actions)
    exact = table.value(policy)
    hits = []
    for seed in range(60):
        value = confide.evaluate_policy(policy, "FrozenLake-v1", 800, seed=seed)
        hits.append(value.low <= exact <= value.high)
    assert sum(hits) > 43


def test_problems_of_the_library_are_sampled():
    problem = riverswim(horizon=10)
    value = confide.evaluate_policy(problem.optimal_policy, problem, 20_000, level=0.999)
    assert value.low <= problem.optimal_value <= value.high
    assert value.standard_error == pytest.approx((value.high - value.low) / 2 / 3.29, rel=0.01)


def test_a_saved_policy_is_played(tmp_path):
    policy = StochasticPolicy(np.full((1, 2, 2), 0.5))
    policy.save(tmp_path / "policy.npz")
    loaded = confide.load_policy(tmp_path / "policy.npz")
    one = confide.evaluate_policy(policy, Counter(), 300, horizon=5)
    two = confide.evaluate_policy(loaded, Counter(), 300, horizon=5)
    assert one == two and one.low < one.mean < one.high
    assert confide.evaluate_policy(RandomPolicy(2), Counter(), 300, horizon=5).standard_error > 0


def test_the_mean_and_its_error():
    value = value_of_returns(np.array([1.0, 2.0, 3.0, 4.0]), 0.9)
    assert value.mean == 2.5
    assert value.standard_error == pytest.approx(np.std([1, 2, 3, 4], ddof=1) / 2)
    # 2.353 is the 95 % quantile of Student's t with 3 degrees of freedom.
    assert value.high - value.mean == pytest.approx(2.353363 * value.standard_error, rel=1e-5)
    assert "2.50 (90 % interval" in str(value)


@pytest.mark.parametrize(
    ("policy", "more", "message"),
    [
        (tabular([0, 0, 0, 0, 0]), {}, "must be one for 2 states and 2 actions, got 5 states"),
        (RandomPolicy(3), {"horizon": 3}, "got 3 actions"),
        (StochasticPolicy(np.full((1, 2, 2), 0.5)), {}, "give a horizon"),
        (tabular([0, 0], [0, 0]), {"horizon": 3}, "horizon must be at most 2"),
        (LinearPolicy(np.ones((1, 1, 1))), {}, "must choose among finitely many actions"),
        (tabular([0, 0], [0, 0]), {"episodes": 1}, "episodes must be at least 2"),
    ],
)
def test_what_cannot_be_played_is_refused(policy, more, message):
    with pytest.raises(InvalidParameter, match=message):
        confide.evaluate_policy(policy, Counter(), **{"episodes": 10} | more)
