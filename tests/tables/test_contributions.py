"""Counts under a budget are exact in whole numbers, and unbiased where the budget binds.

Steps that make no sense contribute nothing.
"""

import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.policy import uniform_policy
from confide.privacy.request import Relation
from confide.problems import garnet, riverswim
from confide.tables import _contribution_kernels
from confide.tables.contributions import BudgetedCounts, BudgetedVisits
from confide.tables.support_features import support_of
from confide.trajectory import Trajectories, counts_of_nobody


def statistic(
    states, actions, steps, weight, *, layers=1, balance=0.0, support=None, terminal=None
):
    cells = support_of(support, layers=layers, states=states, actions=actions, terminal=terminal)
    bound = BudgetedCounts(cells.cells, cells.pairs, steps, balance)
    return BudgetedVisits(
        cells,
        np.broadcast_to(np.sqrt(np.asarray(weight, dtype=float)), (cells.pairs,)).copy(),
        bound,
    )


def one_user(states, actions, rewards=None):
    return Trajectories(
        np.array([states]),
        np.array([actions]),
        np.array([np.zeros(len(actions)) if rewards is None else rewards]),
    )


@pytest.mark.parametrize("steps", [*range(1, 65), 100, 127, 200])
def test_the_budget_pays_every_step_of_an_episode_of_any_length(steps):
    """All weights are 1/sqrt(H).

    In floating point the last step would be lost for about half of the lengths. A tolerance would
    keep it, but would break the bound.
    """
    visits = statistic(2, 1, steps, 1 / steps)
    values = visits.contribution(one_user([0, 1] * ((steps + 2) // 2), [0] * steps)).values[: 2 * 2]
    weight = math.sqrt(1 / steps)
    expected = [0, weight * math.sqrt((steps + 1) // 2), weight * math.sqrt(steps // 2), 0]
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert 1 - 1e-5 < np.linalg.norm(values) <= 1


def test_no_episode_is_longer_than_the_budget():
    """Weights are random, and episodes are much longer than the budget pays for.

    The norm is at most one exactly, and for some users it is close to one.
    """
    rng = np.random.default_rng(0)
    norms = []
    for _ in range(300):
        visits = statistic(5, 2, 40, rng.uniform(0.01, 0.3, size=10), balance=180 / 256)
        users = one_user(rng.integers(5, size=41), rng.integers(2, size=40), np.ones(40))
        values = visits.contribution(users).values
        counts = values[: visits.bound.cells]
        rewards = values[visits.bound.cells :]
        assert counts @ counts <= 1 and rewards @ rewards <= (180 / 256) ** 2 and values.min() >= 0
        assert counts.sum() <= math.sqrt(10)
        norms.append(np.linalg.norm(counts))
    assert max(norms) > 0.8


def test_two_users_without_a_common_pair_attain_the_sensitivity():
    visits = statistic(4, 2, 20, 1 / 20, balance=180 / 256)
    one_place = visits.contribution(one_user([0] * 21, [0] * 20, np.ones(20))).values
    other = visits.contribution(one_user([1] * 21, [1] * 20, np.ones(20))).values
    assert (
        0.9999 < np.linalg.norm(one_place - other) / visits.bound.sensitivity(Relation.REPLACE) <= 1
    )
    assert 0.9999 < np.linalg.norm(one_place) / visits.bound.sensitivity(Relation.NULL) <= 1


@pytest.mark.parametrize("layers", [1, 12])
def test_counts_are_in_proportion_to_the_transition_probabilities_where_the_budget_binds(layers):
    """The budget pays for 5 of 12 steps of each of 200,000 users.

    Standard errors come from 40 blocks of users. The false-alarm rate of |z| > 4.5 is 1e-5 for each
    of the 36 cells. Weights that depend on the number of visits in the whole episode, which is not
    known in advance, would be off by more.
    """
    problem = garnet(states=3, actions=2, branches=3, horizon=12, rewarded=1)
    blocks = 40
    visits = statistic(3, 2, 12, 0.2, layers=layers)
    rng = np.random.default_rng(1)
    uniform = uniform_policy(12, 3, 2)
    sums = np.stack(
        [visits.contribution(problem.sample(uniform, 5_000, rng)).values for _ in range(blocks)]
    )
    cells = sums.reshape(blocks, layers, 3, 2, 3).sum(axis=1)
    truth = problem.transitions.dense()[0]
    residual = cells - cells.sum(axis=3, keepdims=True) * truth
    z = residual.mean(axis=0) / (residual.std(axis=0, ddof=1) / math.sqrt(blocks))
    assert np.abs(z).max() < 4.5
    spent = (cells.sum() / (blocks * 5_000)) / math.sqrt(0.2)
    assert 2 < spent <= 5


def test_a_pair_that_counts_again_adds_less_and_one_that_is_too_dear_is_left_out():
    visits = statistic(3, 1, 6, [0.2, 0.5, 0.3])
    values = visits.contribution(one_user([0, 0, 1, 2, 0, 1, 1], [0] * 6)).values.reshape(3, 3)
    # 0, 0, 1 are paid with .9; 2 costs .3, and is not; 0 would cost .2, and neither is 1
    a = math.sqrt(0.2)
    b = math.sqrt(0.5)
    np.testing.assert_allclose(
        values, [[a, a * (math.sqrt(2) - 1), 0], [0, 0, b], [0, 0, 0]], atol=1e-6
    )


@pytest.mark.parametrize("strange", [-1, 3, 2**40, np.nan, np.inf, 0.5])
def test_a_step_that_makes_no_sense_is_dropped_and_pays_nothing(strange):
    visits = statistic(3, 2, 4, 1 / 4, balance=0.5)
    whole = visits.contribution(one_user([0, 1, 2, 0, 1], [0, 1, 0, 1], np.ones(4))).values
    states = visits.contribution(
        one_user([0.0, 1.0, 2.0, 0.0, strange], [0.0, 1.0, 0.0, 1.0], np.ones(4))
    ).values
    actions = visits.contribution(
        one_user([0.0, 1.0, 2.0, 0.0, 1.0], [0.0, 1.0, 0.0, strange], np.ones(4))
    ).values
    np.testing.assert_array_equal(states, actions)
    assert (states <= whole).all() and (states < whole).sum() == 2


@pytest.mark.parametrize(("layers", "actions"), [(1, 1), (1, 2), (2, 1)])
def test_a_state_that_does_not_exist_is_looked_up_nowhere(layers, actions, monkeypatch):
    """The kernel is interpreted here, because then an index that is too large is an error.

    The compiled loop would read and write somewhere else.
    """
    visits = statistic(3, actions, 2, 1 / 2, layers=layers)
    monkeypatch.setattr(
        _contribution_kernels, "budgeted_counts", _contribution_kernels.budgeted_counts.py_func
    )
    for strange in (3, 4, 2**40):
        assert not visits.contribution(one_user([strange] * 3, [0, 0])).values.any()


def test_a_reward_that_is_no_number_drops_its_step_and_others_are_clipped():
    visits = statistic(3, 2, 4, 1 / 4, balance=0.5)
    states = [0, 1, 2, 0, 1]
    actions = [0, 1, 0, 1]
    rewards = (
        visits.contribution(one_user(states, actions, [7.0, -1.0, np.nan, 0.5]))
        .values[18:]
        .reshape(3, 2)
    )
    np.testing.assert_allclose(rewards, [[0.25, 0.125], [0, 0], [0, 0]], atol=1e-6)


def test_what_the_support_excludes_and_terminal_states_do_not_count():
    ends = np.array([False, False, True])
    chain = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=bool)
    visits = statistic(3, 1, 4, 1 / 4, support=chain, terminal=ends)
    # 0 -> 2 cannot be, 2 -> 1 and 2 -> 2 are after the end
    values = visits.contribution(one_user([0, 2, 1, 2, 2], [0] * 4)).values
    np.testing.assert_allclose(values, [0, 0, 0, 0.5], atol=1e-6)


def test_counts_cannot_be_taken_and_weights_are_checked():
    visits = statistic(3, 2, 4, 1 / 4)
    with pytest.raises(InvalidParameter, match="must come as trajectories"):
        visits.contribution(counts_of_nobody(5, 4))
    for weight in (1.5, np.nan):
        with pytest.raises(InvalidParameter, match=r"in \[0, 1\]"):
            statistic(3, 2, 4, weight)


def test_long_and_short_episodes_are_taken():
    problem = riverswim(horizon=8)
    users = problem.sample(uniform_policy(8, 6, 2), 50, np.random.default_rng(0))
    visits = statistic(6, 2, 6, 1 / 6)
    cut = Trajectories(users.states[:, :7], users.actions[:, :6], users.rewards[:, :6])
    np.testing.assert_array_equal(
        visits.contribution(users).values, visits.contribution(cut).values
    )
    short = Trajectories(users.states[:, :3], users.actions[:, :2], users.rewards[:, :2])
    assert visits.contribution(short).values.sum() == pytest.approx(50 * 2 / math.sqrt(6), rel=0.3)
