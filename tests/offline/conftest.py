"""A small world, its log, and a release of it."""

import numpy as np
import pytest

import confide
from confide.logs import in_memory, simulate
from confide.offline import ModelRelease
from confide.policy import uniform_policy
from confide.problems import riverswim

STATES, ACTIONS, STEPS = 4, 2, 21
PRIVATE = confide.CentralDP(1.0, 1e-6)


@pytest.fixture(scope="session")
def world():
    return riverswim(states=STATES, horizon=STEPS)


@pytest.fixture(scope="session")
def people(world):
    return list(
        simulate(world, uniform_policy(STEPS, STATES, ACTIONS), 3000, np.random.default_rng(0))
    )


@pytest.fixture(scope="session")
def log(people):
    return in_memory(people, max_steps=STEPS)


@pytest.fixture(scope="session")
def asked(world):
    return ModelRelease(
        states=STATES, actions=ACTIONS, discount=0.9, rewards=world.rewards[0], ends=False
    )


@pytest.fixture(scope="session")
def model(asked, log):
    return asked.release(log, privacy=PRIVATE, rng=np.random.default_rng(1))


@pytest.fixture(scope="session")
def exact(asked, log):
    """The same without noise."""
    return asked.release(log, privacy=confide.NoPrivacy(), rng=np.random.default_rng(1))
