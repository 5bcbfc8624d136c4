"""Sums of next states: the sensitivity attacked by brute force, and what is summed."""

import itertools

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.linear_mdps.contributions import NextStateRows, NextStates
from confide.privacy.request import Relation
from confide.problems import latent
from confide.trajectory import Trajectories

S, A, H = 3, 2, 2
RNG = np.random.default_rng(0)
TABLES = {
    "one-hot": np.eye(6).reshape(3, 2, 6),
    "latent": latent(0, states=3, actions=2, dimension=3).features,
    "signed": np.array([[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.6, 0.8]], [[-0.6, 0.8], [0.5, -0.5]]]),
    "long": 3 * RNG.random((3, 2, 4)),
}


def everybody():
    """All trajectories of two steps, with rewards at and beyond the ends of their range, and some that make no sense."""
    for s0, a0, s1, a1, s2 in itertools.product(range(S), range(A), range(S), range(A), range(1)):
        for rewards in ((0.0, 0.0), (1.0, 1.0), (-1e9, 1e9), (np.nan, 1.0), (1.0, np.inf)):
            yield [s0, s1, s2], [a0, a1], rewards
    yield [-1, 7, 2], [0, 5], (1.0, 0.0)


@pytest.mark.parametrize("weight", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_sensitivity_holds_and_is_nearly_attained(table, weight):
    """Not quite: where one step ends the next one starts, which the bound, made for steps of any kind, does not use."""
    statistic = NextStates(table, H, weight)
    states, actions, rewards = (np.array(part) for part in zip(*everybody(), strict=True))
    users = Trajectories(states, actions, rewards)
    sent = np.stack([statistic.contribution(users[i : i + 1]).values for i in range(users.users)])
    bound = statistic.bound
    for relation, others in ((Relation.REPLACE, sent), (Relation.NULL, np.zeros((1, sent.shape[1])))):
        apart = sent[:, None] - others[None]
        l2, l1 = np.sqrt((apart**2).sum(axis=2)).max(), np.abs(apart).sum(axis=2).max()
        assert l2 <= bound.sensitivity(relation)
        assert l1 <= bound.l1_sensitivity(relation)
        assert l1 > 0.85 * bound.l1_sensitivity(relation)
        assert l2 > (0.85 if bound.acute else 0.7) * bound.sensitivity(relation)


def test_rows_of_opposite_sign_are_farther_apart():
    """At the same next state phi and -phi are 2 apart: sqrt(2) would be too little."""
    table = np.array([[[1.0, 0.0], [-1.0, 0.0]]])
    statistic = NextStates(table, 2)
    assert not statistic.bound.acute
    one, other = (
        statistic.contribution(Trajectories(np.zeros((1, 3), int), np.array([[action, 0]]), np.zeros((1, 2)))).values
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
    np.testing.assert_allclose(rewards[h], ((users.rewards[:, h] - 0.5)[:, None] * phi).sum(axis=0), atol=1e-3)
    halves = statistic.contribution(users[:2500]) + statistic.contribution(users[2500:])
    assert halves.values.tobytes() == total.values.tobytes()
    counted = statistic.contribution(problem.count(policy, 5000, np.random.default_rng(1)))
    assert counted.users == 5000 and counted.values.shape == total.values.shape


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"weight": float("nan")}, "weight must be positive"),
        ({"row_l1": 0.5}, "an L1 norm is between"),
        ({"row_l1": 5.0}, "an L1 norm is between"),
    ],
)
def test_bounds_that_cannot_be(wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        NextStateRows(**({"steps": 2, "states": 3, "dimension": 4} | wrong))


@pytest.mark.parametrize("features", [np.zeros((2, 2, 3)), np.full((2, 2, 3), np.nan)])
def test_features_that_cannot_be(features):
    with pytest.raises(InvalidParameter, match="features must be finite"):
        NextStates(features, 3)
