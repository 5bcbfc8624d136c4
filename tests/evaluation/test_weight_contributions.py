import dataclasses
import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.evaluation.weight_contributions import ReturnRow, WeightedReturns
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


def statistic(bound=None, limit=4.0, policies=TARGET[None], discount=0.5):
    return WeightedReturns(bound or ONES, policies, limit, discount, 0.5, 0.5)


ONES = ReturnRow(count=1.0, logged=1.0, weight=1.0, worth=1.0, clipped=1.0)
PER_DECISION = dataclasses.replace(ONES, per_decision=True)


def test_weights_are_products_of_ratios_and_returns_are_centred():
    rho, F = (0.75 / 0.5) * (1.0 / 0.8), 0.2 + 0.5 * 0.6
    g = (F - 0.5) / 0.5
    got = statistic().contribution(one([0, 1], [1, 0], [0.5, 0.8], [0.2, 0.6])).values
    np.testing.assert_allclose(got, [1.0, g, rho / 4, rho / 4 * g, 0.0], atol=1e-7)


def test_per_decision_weights_each_reward_by_the_steps_up_to_it():
    first, second = 0.75 / 0.5, (0.75 / 0.5) * (1.0 / 0.8)
    weighted = first * 0.2 + 0.5 * second * 0.6
    user = one([0, 1], [1, 0], [0.5, 0.8], [0.2, 0.6])
    got = statistic(PER_DECISION).contribution(user).values
    # Returns are in [0, 1]: the middle and half of it are 1/2.
    np.testing.assert_allclose(got, [1.0, 0.0, (weighted / 4 - 0.5) / 0.5, 0.0], atol=1e-7)


def test_a_user_counts_once_however_many_trajectories():
    once = statistic().contribution(one([0], [1], [0.5], [0.3])).values
    thrice = (
        statistic()
        .contribution(logs([0, 0, 0], [1, 1, 1], [0.5] * 3, [0.3] * 3, [0, 1, 2, 3], [0, 3]))
        .values
    )
    np.testing.assert_allclose(once, thrice, atol=1e-6)


def test_an_action_the_target_never_takes_has_weight_zero_and_small_probabilities_are_clipped():
    never = statistic().contribution(one([1], [1], [0.5], [1.0])).values
    np.testing.assert_allclose(never, [1.0, 1.0, 0.0, 0.0, 0.0])
    clipped = statistic().contribution(one([0] * 9, [1] * 9, [1e-300] * 9, [1.0] * 9)).values
    np.testing.assert_allclose(clipped, [1.0, 1.0, 1.0, 1.0, 1.0])


def test_a_weight_that_equals_the_clip_is_not_above_it():
    """3 = .75/.25, whatever rounding does to the logarithms."""
    user = one([0], [1], [0.25], [1.0])
    for limit, above in ((3.0, 0.0), (2.999, 1.0)):
        assert statistic(limit=limit).contribution(user).values[-1] == above


def test_steps_of_a_policy_that_changes_are_its_own():
    changing = np.stack([TARGET[0], TARGET[0][:, ::-1]])[None]
    rho = (0.75 / 0.5) * (0.25 / 0.5)
    user = one([0, 0], [1, 1], [0.5, 0.5], [0.0, 0.0])
    got = statistic(policies=changing).contribution(user).values
    np.testing.assert_allclose(got[2], rho / 4, atol=1e-7)
    too_long = one([0] * 3, [1] * 3, [0.5] * 3, [0.0] * 3)
    assert not statistic(policies=changing).contribution(too_long).values.any()


def test_each_of_two_policies_has_its_own_weights():
    both = np.stack([TARGET, TARGET[:, :, ::-1]])
    bound = dataclasses.replace(ONES, policies=2)
    got = statistic(bound, policies=both).contribution(one([0], [1], [0.5], [1.0])).values
    weights = [0.75 / 0.5 / 4, 0.25 / 0.5 / 4]
    np.testing.assert_allclose(got, [1.0, 1.0, *weights, *weights, 0.0, 0.0], atol=1e-7)


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
    for bound in (ONES, PER_DECISION):
        assert not statistic(bound).contribution(broken).values.any()


def test_logs_without_actions_are_refused():
    plain = LoggedUsers(
        np.zeros(1, np.int64), np.zeros(1), np.array([0, 1]), np.array([0, 1]), np.ones(1, bool)
    )
    with pytest.raises(InvalidParameter, match="actions"):
        statistic().contribution(plain)
    with pytest.raises(InvalidParameter, match="worth"):
        ReturnRow(worth=0.0)
