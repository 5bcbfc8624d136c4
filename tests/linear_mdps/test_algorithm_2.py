"""[Luyo21, Alg. 2] written down once more in plain NumPy, and the printed noise measured entry by
entry.
"""

import numpy as np
import pytest

from confide.linear_mdps.batches import one_by_one, static
from confide.linear_mdps.lsvi_ucb import LSVIUCB
from confide.linear_mdps.printed import LinearSetting, printed_linear
from confide.mechanisms.sources import FastSource
from confide.policy import RandomPolicy
from confide.privacy import JointDP, NoPrivacy
from confide.problems import FeaturesPublic, LinearMDP
from confide.trajectory import Trajectories

HORIZON = 4
ACTIONS = 3
DIMENSION = 5


def features(observation):
    """A few waves of a number, in a direction of each action; the norm of a row is below 1."""
    x = float(observation)
    rows = [[np.sin((a + 1) * x + i) for i in range(DIMENSION)] for a in range(ACTIONS)]
    return np.array(rows) / np.sqrt(DIMENSION)


PUBLIC = FeaturesPublic(features, HORIZON, ACTIONS, DIMENSION)


class PlainAlgorithm2:
    """Algorithm 2 without noise: lines in the order of the paper, lists of episodes, no batches of
    anything.
    """

    def __init__(self, ridge, beta):
        self.ridge = ridge
        self.beta = beta
        self.episodes = []
        self.w = np.zeros((HORIZON, DIMENSION))
        self.Lambda = np.stack([ridge * np.eye(DIMENSION)] * HORIZON)

    def Q(self, h, observation):
        phi = features(observation)
        inverse = np.linalg.inv(self.Lambda[h])
        bonus = self.beta * np.sqrt(np.array([row @ inverse @ row for row in phi]))
        return np.minimum(np.maximum(phi @ self.w[h] + bonus, 0), HORIZON)

    def end_of_batch(self):
        for h in reversed(range(HORIZON)):
            Lambda = self.ridge * np.eye(DIMENSION)
            u = np.zeros(DIMENSION)
            for observations, actions, rewards in self.episodes:
                phi = features(observations[h])[actions[h]]
                value = 0.0 if h == HORIZON - 1 else self.Q(h + 1, observations[h + 1]).max()
                Lambda += np.outer(phi, phi)
                u += phi * (rewards[h] + value)
            self.Lambda[h] = Lambda
            self.w[h] = np.linalg.solve(Lambda, u)


def play(policy, rng):
    """One episode of a system that nobody knows: observations, actions, rewards."""
    x = rng.uniform(-1, 1)
    observations = [x]
    actions = []
    rewards = []
    for h in range(HORIZON):
        action = policy.act(h, x, rng)
        rewards.append(float(np.cos(x + action) > rng.uniform(-1, 1)))
        x = 0.7 * x + 0.5 * (action - 1) + rng.normal(0, 0.1)
        observations.append(x)
        actions.append(action)
    return observations, actions, rewards


@pytest.mark.parametrize("scale", [1.0, 1e-4, 0.0])
@pytest.mark.parametrize("plan", [one_by_one(30), static(30, 7)], ids=["each episode", "7 batches"])
def test_the_same_policies_episode_by_episode(plan, scale):
    """A small part of the proved width, so that the bonus is not above H everywhere; and the whole
    of it.
    """
    agent = LSVIUCB(
        PUBLIC,
        episodes=30,
        privacy=NoPrivacy(),
        calibration="paper",
        schedule=plan,
        bonus_scale=scale,
        noise=FastSource(np.random.default_rng(0)),
    )
    constants = printed_linear(
        NoPrivacy(), LinearSetting(30, HORIZON, DIMENSION, batches=plan.schedule.leaves)
    )
    plain = PlainAlgorithm2(constants.ridge, scale * constants.beta)
    rng = np.random.default_rng(1)
    told_apart = 0
    for episode in range(30):
        policy = agent.next_batch().policy
        for h in range(HORIZON):
            for x in np.linspace(-2, 2, 9):
                expected = plain.Q(h, x)
                Q = policy.q_values(h, features(x))
                np.testing.assert_allclose(Q, expected, atol=2e-5)
                ordered = np.sort(expected)
                if ordered[-1] - ordered[-2] > 1e-4:
                    told_apart += 1
                    assert policy.act(h, x, rng) == expected.argmax()
        user = play(policy, rng)
        agent.observe(PUBLIC.collect([user]))
        plain.episodes.append(user)
        if episode + 1 in plan.schedule.times[:-1]:
            plain.end_of_batch()
    assert told_apart > 300 or scale == 1.0


def silent(users):
    nothing = np.full((users, HORIZON + 1, ACTIONS, DIMENSION), np.nan)
    return Trajectories(nothing, np.zeros((users, HORIZON)), np.zeros((users, HORIZON)))


def table_world():
    """The same sizes with numbered states."""
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.ones(DIMENSION), size=(3, ACTIONS))
    measures = rng.dirichlet(np.ones(3), size=(HORIZON, DIMENSION))
    return LinearMDP(phi, measures, rng.random((HORIZON, DIMENSION)), np.eye(3)[0])


RUNS = 1500


@pytest.mark.parametrize("privacy", [JointDP(1.0, 1e-5), JointDP(1.0, 0.0)], ids=["E.1", "E.3"])
@pytest.mark.parametrize("setting", ["features", "table"])
def test_every_entry_has_the_printed_noise(privacy, setting):
    """Users who contribute zero: what is released is noise alone. Each entry is compared with the
    printed standard deviation.

    Alg. 2 adds (Z' + Z'^T) / 2 with entries of Z' of scale sigma_Lambda: sigma_Lambda on the
    diagonal, and sigma_Lambda / sqrt(2) off it. A prefix of two batches is one node of the tree,
    and one of three batches is two nodes. Vectors have sigma_u. 1,500 runs estimate a standard
    deviation to 1.8 % (Laplace: 2.9 %), and 13 % are allowed: 4.5 deviations, so 208 entries in
    both settings raise a false alarm with probability 2e-3. Noise that is off by 20 % is 2.4
    deviations beyond the limit in every entry.
    """
    public = PUBLIC if setting == "features" else table_world().public
    plan = static(8, 4)
    d = DIMENSION
    H = HORIZON
    constants = printed_linear(privacy, LinearSetting(8, H, d, batches=4))
    nothing = silent(2)
    if setting == "table":
        nothing = Trajectories(np.full((2, H + 1), -1), np.full((2, H), -1), np.zeros((2, H)))
    grams = np.zeros((3, RUNS, H, d, d))
    responses = np.zeros((3, RUNS, H, d))
    for i in range(RUNS):
        noise = FastSource(np.random.default_rng(i))
        agent = LSVIUCB(
            public,
            episodes=8,
            privacy=privacy,
            calibration="paper",
            schedule=plan,
            noise=noise,
            bonus_scale=0.0,
        )
        size = agent.algorithm.bound.size
        for batch in range(3):
            agent.next_batch()
            agent.observe(nothing)
            values = agent.released().values
            grams[batch, i] = agent.algorithm.prefix_sums(values[:size], 1.0).gram
            answered = values[size:-1].reshape(H, d + 1)[:, :d]
            responses[batch, i] = (H + 1) * answered
    off_diagonal = np.where(np.eye(d) == 1, 1.0, np.sqrt(0.5))
    # The scale of Laplace noise is its standard deviation divided by sqrt(2).
    factor = 1.0 if privacy.delta > 0 else np.sqrt(2)
    for batch, nodes in enumerate((1, 1, 2)):
        expected = factor * constants.sigma_gram * np.sqrt(nodes) * off_diagonal
        ratios = grams[batch].std(axis=0) / expected
        assert np.abs(ratios - 1).max() < 0.13
        np.testing.assert_array_equal(grams[batch], grams[batch].swapaxes(-1, -2))
        # With no data, the values of the next step are noise alone; users who contribute zero add
        # none of it.
        ratios = responses[batch].std(axis=0) / (factor * constants.sigma_response)
        assert np.abs(ratios - 1).max() < 0.13


def test_the_first_policy_of_the_paper_is_that_of_no_data():
    """w = 0 and Lambda = (lambda + shift) I.

    The tight form plays at random until the first release.
    """
    paper, tight = (
        LSVIUCB(
            PUBLIC,
            episodes=30,
            privacy=NoPrivacy(),
            calibration=calibration,
            noise=FastSource(np.random.default_rng(0)),
            bonus_scale=1e-3,
        )
        for calibration in ("paper", "tight")
    )
    policy = paper.next_batch().policy
    constants = printed_linear(NoPrivacy(), LinearSetting(30, HORIZON, DIMENSION))
    norms = np.linalg.norm(features(0.3), axis=1)
    np.testing.assert_allclose(
        policy.q_values(0, features(0.3)),
        np.minimum(1e-3 * constants.beta * norms / np.sqrt(constants.ridge), HORIZON),
        rtol=1e-9,
    )
    assert isinstance(tight.next_batch().policy, RandomPolicy)
