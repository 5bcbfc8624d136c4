"""What a user of a bandit contributes: the row of the action that was played, and nothing else."""

import math

import numpy as np
import pytest

from confide.bandits.contributions import PlayedContexts
from confide.bandits.lin_ts import BALANCE
from confide.errors import InvalidParameter
from confide.privacy import Relation
from confide.statistics.bounds import RegressionRows
from confide.trajectory import Trajectories, counts_of_nobody

BOUND = RegressionRows(1, 3, 1.0, 0.5, BALANCE)
STATISTIC = PlayedContexts(BOUND, 2)


def user(x, reward, action=0):
    states = np.full((1, 2, 2, 3), np.nan)
    states[0, 0, action if action in (0, 1) else 0] = x
    return Trajectories(states, np.array([[action]]), np.array([[reward]]))


def sent(x, reward, action=0):
    return STATISTIC.contribution(user(x, reward, action)).values


def test_it_is_the_row_of_the_played_action():
    (Lambda,), (u,) = BOUND.unpack(sent([0.6, 0.0, 0.8], 1.0, action=1))
    assert Lambda == pytest.approx(np.outer([0.6, 0, 0.8], [0.6, 0, 0.8]), abs=1e-6)
    assert u == pytest.approx([0.3, 0.0, 0.4], abs=1e-6)


def test_two_users_attain_the_stated_sensitivity():
    """The users have x.x' = kappa^2 Y^2 / 2 = 1/2 and rewards at both ends.

    A search over angles finds no pair of users that is farther apart.
    """
    stated = BOUND.sensitivity(Relation.REPLACE)
    assert stated == pytest.approx(math.sqrt(2) * 1.5, rel=1e-5)
    apart = [
        np.linalg.norm(sent([1.0, 0.0, 0.0], 1.0) - sent([math.cos(t), math.sin(t), 0.0], 0.0))
        for t in np.linspace(0, np.pi, 61)
    ]
    assert 0.9999 * stated < max(apart) <= stated
    # Sixty degrees.
    assert np.argmax(apart) == 20


@pytest.mark.parametrize(
    ("x", "reward", "action"),
    [
        ([np.nan, 0, 0], 1.0, 0),
        ([np.inf, 0, 0], 1.0, 0),
        ([1, 0, 0], np.nan, 0),
        ([1, 0, 0], np.inf, 0),
        ([1, 0, 0], 1.0, 2),
        ([1, 0, 0], 1.0, -1),
    ],
)
def test_what_makes_no_sense_contributes_zero(x, reward, action):
    assert not sent(x, reward, action).any()


def test_long_contexts_and_large_rewards_are_clipped():
    assert sent([1e300, 0, 0], 1e300) == pytest.approx(sent([1.0, 0, 0], 1.0), abs=1e-6)
    assert sent([3.0, 4.0, 0], -7.0) == pytest.approx(sent([0.6, 0.8, 0], 0.0), abs=1e-6)


def test_users_add_up_and_counts_are_refused():
    both = Trajectories(
        *(
            np.concatenate([getattr(u, p) for u in (user([1, 0, 0], 1.0), user([0, 1, 0], 0.0, 1))])
            for p in user([1, 0, 0], 1.0).__slots__
        )
    )
    assert np.array_equal(
        STATISTIC.contribution(both).values, sent([1, 0, 0], 1.0) + sent([0, 1, 0], 0.0, 1)
    )
    with pytest.raises(InvalidParameter, match="trajectories"):
        STATISTIC.contribution(counts_of_nobody(3, 1))
    with pytest.raises(InvalidParameter, match="contexts of shape"):
        STATISTIC.contribution(
            Trajectories(np.zeros((1, 2)), np.zeros((1, 1), dtype=int), np.zeros((1, 1)))
        )
