"""Sums of next states: the sensitivity attacked by brute force, and what is summed."""

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.linear_mdps.contributions import NextStateRows, NextStates
from confide.privacy.request import Relation
from confide.problems import latent
from confide.trajectory import Trajectories


def test_rows_of_opposite_sign_are_farther_apart():
    """At the same next state phi and -phi are 2 apart: sqrt(2) would be too little."""
    table = np.array([[[1.0, 0.0], [-1.0, 0.0]]])
    statistic = NextStates(table, 2)
    assert not statistic.bound.acute
    one, other = (
        statistic.contribution(
            Trajectories(np.zeros((1, 3), int), np.array([[action, 0]]), np.zeros((1, 2)))
        ).values
        for action in (0, 1)
    )
    assert np.linalg.norm((one - other)[:2]) == 2.0
    assert np.linalg.norm(one - other) <= statistic.bound.sensitivity(Relation.REPLACE)


def test_sums_of_counts_and_of_trajectories_agree():
    problem = latent(0)
    statistic = NextStates(problem.features, problem.horizon)
    policy = problem.optimal_policy
    users = problem.sample(policy, 5000, np.random.default_rng(1))
    total = statistic.contribution(users)
    moves, rewards = statistic.bound.unpack(total.values)
    h = 2
    phi = problem.features[users.states[:, h], users.actions[:, h]]
    expected = np.zeros_like(moves[h])
    np.add.at(expected.T, users.states[:, h + 1], phi)
    np.testing.assert_allclose(moves[h], expected, atol=1e-3)
    np.testing.assert_allclose(
        rewards[h], ((users.rewards[:, h] - 0.5)[:, None] * phi).sum(axis=0), atol=1e-3
    )
    halves = statistic.contribution(users[:2500]) + statistic.contribution(users[2500:])
    assert halves.values.tobytes() == total.values.tobytes()
    counted = statistic.contribution(problem.count(policy, 5000, np.random.default_rng(1)))
    assert counted.users == 5000 and counted.values.shape == total.values.shape


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"weight": float("nan")}, "weight must be positive"),
        ({"row_l1": 0.5}, "row_l1 must be between"),
        ({"row_l1": 5.0}, "row_l1 must be between"),
    ],
)
def test_bounds_that_cannot_be(wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        NextStateRows(**({"steps": 2, "states": 3, "dimension": 4} | wrong))


@pytest.mark.parametrize("features", [np.zeros((2, 2, 3)), np.full((2, 2, 3), np.nan)])
def test_features_that_cannot_be(features):
    with pytest.raises(InvalidParameter, match="features must be finite"):
        NextStates(features, 3)
