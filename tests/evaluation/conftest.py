"""A small chain of recovery, and logs of it, for the tests of estimators."""

import numpy as np
import pytest

from confide.logs import in_memory
from confide.problems.zoo.tables import chain_values
from confide.trajectory import LoggedUsers

STATES, DISCOUNT = 8, 0.95


class Held:
    """A log in memory that adds up each statistic once: for many releases of the same data."""

    assumptions = ()

    def __init__(self, users):
        self._users, self._totals = users, {}

    def total(self, statistic, *, progress=None):  # noqa: ARG002
        if statistic not in self._totals:
            self._totals[statistic] = statistic.contribution(self._users)
        return self._totals[statistic]


class Chain:
    """Start anywhere, stay with probability 1/2, else advance.

    The step in the last state pays 1 and is the last one.
    """

    values = chain_values(states=STATES, discount=DISCOUNT)
    # The share of users who visit each state.
    shares = (np.arange(STATES) + 1) / STATES

    def users(self, count, seed=0):
        rng = np.random.default_rng(seed)
        first = rng.integers(STATES, size=count)
        stays = rng.geometric(0.5, size=(count, STATES))
        stays[:, -1] = 1
        stays[np.arange(STATES) < first[:, None]] = 0
        rows = np.repeat(np.tile(np.arange(STATES), count), stays.ravel())
        ends = np.append(0, np.cumsum(stays.sum(axis=1)))
        rewards = np.zeros(len(rows))
        rewards[ends[1:] - 1] = 1.0
        return LoggedUsers(rows, rewards, ends, np.arange(count + 1), np.ones(count, dtype=bool))

    def log(self, count=2000, seed=0):
        return in_memory(self.users(count, seed))

    def held(self, count=2000, seed=0):
        return Held(self.users(count, seed))

    def rmse(self, estimate):
        return float(np.sqrt(np.mean((estimate.values - self.values) ** 2)))


@pytest.fixture(scope="session")
def chain():
    return Chain()
