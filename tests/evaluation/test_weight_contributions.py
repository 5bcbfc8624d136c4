import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.evaluation.weight_contributions import WeightAndWorth, WeightedReturns
from confide.privacy.bounded import L2Ball
from confide.trajectory import LoggedUsers

TARGET = np.array([[[0.25, 0.75], [1.0, 0.0]]])  # [h, s, a]


def logs(states, actions, probabilities, rewards, trajectories, users):
    return LoggedUsers(
        np.array(states, dtype=np.int64),
        np.array(rewards, dtype=float),
        np.array(trajectories, dtype=np.int64),
        np.array(users, dtype=np.int64),
        np.ones(len(users) - 1, bool),
        np.array(actions, dtype=np.int64),
        np.array(probabilities, dtype=float),
    )


def one(states, actions, probabilities, rewards):
    return logs(states, actions, probabilities, rewards, [0, len(states)], [0, 1])


def statistic(bound=None, limit=4.0, target=TARGET, discount=0.5, per_decision=False):
    return WeightedReturns(
        bound or WeightAndWorth(1.0), target, limit, discount, 0.5, 0.5, per_decision
    )


def test_weights_are_products_of_ratios_and_returns_are_centred():
    rho, F = (0.75 / 0.5) * (1.0 / 0.8), 0.2 + 0.5 * 0.6
    got = statistic().contribution(one([0, 1], [1, 0], [0.5, 0.8], [0.2, 0.6])).values
    np.testing.assert_allclose(got, [rho / 4, rho / 4 * (F - 0.5) / 0.5], atol=1e-7)


def test_per_decision_weights_each_reward_by_the_steps_up_to_it():
    """Unclipped, and with the centre that telescopes: sum_t discount^t rho_t (r_t - c + discount c 1{not the end}) / R."""
    first, second = 0.75 / 0.5, (0.75 / 0.5) * (1.0 / 0.8)
    want = (first * (0.2 - 0.5 + 0.25) + 0.5 * second * (0.6 - 0.5)) / 0.5
    got = (
        statistic(L2Ball(1.0, 1), per_decision=True)
        .contribution(one([0, 1], [1, 0], [0.5, 0.8], [0.2, 0.6]))
        .values
    )
    np.testing.assert_allclose(got, [want / 4], atol=1e-7)


def test_a_user_counts_once_however_many_trajectories():
    once = statistic().contribution(one([0], [1], [0.5], [0.3])).values
    thrice = (
        statistic()
        .contribution(logs([0, 0, 0], [1, 1, 1], [0.5] * 3, [0.3] * 3, [0, 1, 2, 3], [0, 3]))
        .values
    )
    np.testing.assert_allclose(once, thrice, atol=1e-6)


def test_an_action_the_target_never_takes_has_weight_zero_and_small_probabilities_are_clipped():
    assert not statistic().contribution(one([1], [1], [0.5], [1.0])).values.any()
    np.testing.assert_allclose(
        statistic().contribution(one([0] * 9, [1] * 9, [1e-300] * 9, [1.0] * 9)).values, [1.0, 1.0]
    )


def test_steps_of_a_policy_that_changes_are_its_own():
    target = np.stack([TARGET[0], TARGET[0][:, ::-1]])
    rho = (0.75 / 0.5) * (0.25 / 0.5)
    got = statistic(target=target).contribution(one([0, 0], [1, 1], [0.5, 0.5], [0.0, 0.0])).values
    np.testing.assert_allclose(got[0], rho / 4, atol=1e-7)
    assert (
        not statistic(target=target)
        .contribution(one([0] * 3, [1] * 3, [0.5] * 3, [0.0] * 3))
        .values.any()
    )  # one step too many


@pytest.mark.parametrize(
    "broken",
    [
        one([2], [0], [0.5], [1.0]),
        one([2**40], [0], [0.5], [1.0]),
        one([0], [2], [0.5], [1.0]),
        one([0], [-1], [0.5], [1.0]),
        one([0], [0], [-0.5], [1.0]),
        one([0], [0], [0.0], [1.0]),
        one([0], [0], [1.5], [1.0]),
        one([0], [0], [math.nan], [1.0]),
        one([0], [0], [math.inf], [1.0]),
        one([0], [0], [0.5], [math.nan]),
        one([0], [0], [0.5], [-math.inf]),
    ],
)
def test_users_who_make_no_sense_contribute_zero(broken):
    for bound, decisions in ((WeightAndWorth(), False), (L2Ball(1.0, 1), True)):
        assert not statistic(bound, per_decision=decisions).contribution(broken).values.any()


def test_logs_without_actions_are_refused():
    plain = LoggedUsers(
        np.zeros(1, np.int64), np.zeros(1), np.array([0, 1]), np.array([0, 1]), np.ones(1, bool)
    )
    with pytest.raises(InvalidParameter, match="actions"):
        statistic().contribution(plain)
    with pytest.raises(InvalidParameter, match="balance"):
        WeightAndWorth(0.0)
