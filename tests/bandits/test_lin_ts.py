"""LinTS: it learns under every promise, and says what it cannot do."""

import numpy as np
import pytest

import confide
from confide.agents import LinTS
from confide.errors import InvalidParameter
from confide.mechanisms.counters import Discounted
from confide.policy import ContextPolicy
from confide.privatizers import every
from confide.problems import linear_bandit, riverswim

WORLD = linear_bandit(5, 10, population=1024)


def lost(privacy, episodes=5_000, world=WORLD, seed=0, agent=LinTS, **more):
    """Regret relative to uniform play's."""
    run = confide.run(
        agent(world.public, episodes=episodes, privacy=privacy, **more), world, seed=seed
    )
    return run.regret[-1] / (episodes * (run.optimal_value - run.uniform_value))


@pytest.mark.parametrize(
    ("privacy", "most"),
    [
        (confide.NoPrivacy(), 0.05),
        (confide.JointDP(10.0, 1e-5), 0.06),
        (confide.JointDP(1.0, 1e-5), 0.15),
        (confide.JointDP(5.0, delta=0.0), 0.5),
    ],
    ids=["none", "joint, 10", "joint, 1", "pure"],
)
def test_it_learns(privacy, most):
    assert lost(privacy) < most


def test_devices_learn_together_too():
    world = linear_bandit(3, 4, population=256)
    # device by device
    assert lost(confide.LocalDP(10.0, delta=0.0), episodes=1_000, world=world) < 0.5
    # As a crowd.
    assert lost(confide.LocalDP(10.0, delta=0.0), episodes=12_000, world=world) < 0.1


def test_rounds_grow_and_releases_are_discounted():
    agent = LinTS(WORLD.public, episodes=1_000, privacy=confide.JointDP(1.0, 1e-5))
    assert agent.schedule.times[:3] == (50, 65, 84)
    assert isinstance(agent.calibration.counter, Discounted)
    assert agent.calibration.counter.ratio == pytest.approx(1 / 1.3, rel=0.05)
    assert len(agent.algorithm.bound.unpack(np.zeros(agent.algorithm.bound.size))[1][0]) == 5


def test_the_last_policy_is_the_mean_of_the_belief():
    agent = LinTS(WORLD.public, episodes=5_000, privacy=confide.NoPrivacy())
    run = confide.run(agent, WORLD, seed=0)
    assert isinstance(run.policy, ContextPolicy) and run.policy.widths is None
    cosine = (
        run.policy.weights
        @ WORLD.parameter
        / np.linalg.norm(run.policy.weights)
        / np.linalg.norm(WORLD.parameter)
    )
    assert cosine > 0.98


def test_what_it_cannot_do_is_said():
    private = confide.JointDP(1.0, 1e-5)
    with pytest.raises(
        InvalidParameter, match="public must be the public part of a contextual bandit"
    ):
        LinTS(riverswim().public, episodes=100, privacy=private)
    with pytest.raises(InvalidParameter, match="schedule must have fewer releases"):
        LinTS(WORLD.public, episodes=10_000, privacy=private, schedule=every(1, 10_000))
    with pytest.raises(InvalidParameter, match="bonus_scale"):
        LinTS(WORLD.public, episodes=100, privacy=private, bonus_scale=-1.0)
