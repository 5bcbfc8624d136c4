"""Plain counts of visits: exact, clipped step by step, and as far apart as their sensitivity says."""

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.policy import uniform_policy
from confide.privacy.request import Relation
from confide.problems import TabularMDP, riverswim
from confide.tables.count_contributions import VisitCounts, Visits
from confide.trajectory import Trajectories

RIVER = riverswim(states=3, horizon=4)
COINS = TabularMDP(
    RIVER.transitions, np.full((3, 2), 0.5), RIVER.start, horizon=4, stochastic_rewards=True
)


def one(states, actions, rewards):
    return Trajectories(np.array([states]), np.array([actions]), np.array([rewards]))


@pytest.mark.parametrize("layers", [1, 4])
def test_counts_are_those_of_a_loop(layers):
    users = COINS.sample(uniform_policy(4, 3, 2), 50, np.random.default_rng(0))
    bound = VisitCounts(layers, 3, 2, 4, pairs=True, rewards=True)
    cells, visits, rewards = bound.unpack(Visits(bound).contribution(users).values)
    expected, seen, earned = (
        np.zeros((layers, 3, 2, 3)),
        np.zeros((layers, 3, 2)),
        np.zeros((layers, 3, 2)),
    )
    for i in range(50):
        for h in range(4):
            place = (h if layers > 1 else 0, users.states[i, h], users.actions[i, h])
            expected[(*place, users.states[i, h + 1])] += 1
            seen[place] += 1
            earned[place] += users.rewards[i, h]
    np.testing.assert_array_equal(cells.reshape(expected.shape), expected)
    np.testing.assert_array_equal(visits.reshape(seen.shape), seen)
    np.testing.assert_array_equal(rewards.reshape(seen.shape), earned)
    assert earned.sum() > 0


@pytest.mark.parametrize("layers", [1, 4])
def test_users_with_no_pair_in_common_attain_the_sensitivity(layers):
    bound = VisitCounts(layers, 3, 2, 4, pairs=True, rewards=True)
    first = Visits(bound).contribution(one([0] * 5, [0] * 4, [1.0] * 4)).values
    other = Visits(bound).contribution(one([1] * 5, [1] * 4, [7.0] * 4)).values
    for relation, away in ((Relation.REPLACE, first - other), (Relation.NULL, first)):
        assert np.linalg.norm(away) == pytest.approx(bound.sensitivity(relation))
        assert np.abs(away).sum() == pytest.approx(bound.l1_sensitivity(relation))


def test_what_makes_no_sense_is_not_counted():
    bound = VisitCounts(1, 3, 2, 4, pairs=True, rewards=True)
    sent = one([0.0, 9.0, 1.0, 2.0, np.nan], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, np.inf, -3.0])
    cells, visits, rewards = bound.unpack(Visits(bound).contribution(sent).values)
    assert cells.sum() == visits.sum() == 1 and cells[3, 2] == visits[3] == 1  # 1 -> 2 alone
    assert rewards.sum() == rewards[0] == 1
    long = one([0] * 30, [0] * 29, [1.0] * 29)
    assert Visits(bound).contribution(long).values.sum() == bound.l1_sensitivity(Relation.NULL)


def test_a_bound_knows_what_it_contains():
    bound = VisitCounts(4, 3, 2, 4)
    inside = np.zeros(bound.size)
    inside[[0, 18, 36, 54]] = 1  # one for each step
    assert bound.contains(inside) and not bound.contains(2 * inside) and not bound.contains(-inside)
    with pytest.raises(InvalidParameter, match="layers must be 1 or steps"):
        VisitCounts(2, 3, 2, 4)
