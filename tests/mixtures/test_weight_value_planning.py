"""The value of policies under estimated weights: sampling error and privacy noise."""

import numpy as np
import pytest

from confide import JointDP
from confide.agents import LikelihoodVI
from confide.mechanisms.sources import FastSource
from confide.planners.policy_value import PlayedRound
from confide.privatizers import every
from confide.problems import lock

WORLD = lock(0)


def after(users, epsilon, seed=0):
    """What a learner's model says after so many users, and what is true of the policies that it
    serves next.
    """
    agent = LikelihoodVI(
        WORLD.public,
        episodes=2 * users,
        privacy=JointDP(epsilon, 1e-5),
        schedule=every(users // 4, 2 * users),
        noise=FastSource(np.random.default_rng([seed, 1])),
    )
    rng = np.random.default_rng(seed)
    played = []
    for _ in range(4):
        current = agent.current_round()
        played.append(PlayedRound(current.policies, current.shares, users // 4))
        for count, policy in zip(current.serves(users // 4), current.policies, strict=True):
            if count:
                agent.observe(WORLD.sample(policy, count, rng))
    current = agent.current_round()
    played.append(PlayedRound(current.policies, current.shares, 0))
    valued = agent.algorithm.valued(agent.released(), played)
    true = sum(
        share * WORLD.value(policy)
        for policy, share in zip(current.policies, current.shares, strict=True)
    )
    return valued, true


def test_noise_is_told_apart_from_sampling():
    private, _ = after(800, 0.5)
    nearly_exact, _ = after(800, 200.0)
    assert nearly_exact.privacy < 0.2 * nearly_exact.sampling
    assert private.privacy > private.sampling
    assert len(private.values) == 5 and private.best >= max(private.values) - 1e-9


def test_more_users_leave_less_of_both():
    few = after(400, 2.0)[0]
    many = after(6400, 2.0)[0]
    assert many.sampling < 0.5 * few.sampling and many.privacy < 0.5 * few.privacy


@pytest.mark.parametrize("seed", range(4))
def test_the_truth_is_within_three_standard_deviations(seed):
    """Of a normal distribution: a false alarm of .3 % a seed; the seeds are fixed."""
    valued, true = after(3200, 2.0, seed)
    assert abs(valued.values[-1] - true) < 3 * np.hypot(valued.sampling, valued.privacy)
