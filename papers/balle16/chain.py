"""The chain of [Balle16, Section 6]: logs of it, and how far estimates are from its values.

The paper gives a reward of 1 when the agent reaches the final, absorbing state, and draws starts
from "an initial state distribution". Its text leaves open whether the reward belongs to the step
into that state or to the step in it, whether that state counts, which initial distribution it is,
F_max, w, rho and the sizes of batches. We chose the following. The step in the final state pays 1,
counts and ends the trajectory. Starts are uniform, or all in the first state. F_max = 1 is the
largest return (R_max / (1 - gamma) = 100 would multiply all noise by 100). w = rho = 1.
"""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from confide.evaluation import DPLSL, DPLSW, LSL, LSW
from confide.mechanisms.smooth import SmoothGaussian
from confide.privacy.assumption import Assumption
from confide.privacy.bounded import Array, Bounded
from confide.privacy.request import CentralDP
from confide.problems.zoo.tables import chain_values
from confide.release import DeltaWarning
from confide.trajectory import LoggedUsers

# The settings of Fig. 1.
STATES = 40
DISCOUNT = 0.99
PROMISE = CentralDP(0.1, 0.1)
VALUES: Array = chain_values(states=STATES, discount=DISCOUNT)
# Where trajectories start, which the paper does not state, and the share of users who visit each
# state.
STARTS: dict[str, Array] = {
    "uniform": (np.arange(STATES) + 1) / STATES,
    "first": np.ones(STATES),
}
# Trajectories are simulated in blocks of this size. It decides memory, and which numbers are drawn.
_BLOCK = 20_000


def features(group: int) -> Array | None:
    """Neighbouring states in groups that share one value; None for the table itself."""
    if group == 1:
        return None
    joined: Array = np.repeat(np.eye(STATES // group), group, axis=0)
    return joined


class ChainLog:
    """Users of the chain. They are simulated from their seed whenever they are read.

    Sums over all users are kept, so that several estimators can use them.
    """

    assumptions = (Assumption("simulated-chain", "simulated"),)
    max_trajectories = 1

    def __init__(self, users: int, seed: tuple[int, ...], start: str = "uniform") -> None:
        self.users = users
        self._seed = seed
        self._totals = dict[Any, Bounded]()
        self._start = start

    def blocks(self) -> Iterator[LoggedUsers]:
        rng = np.random.default_rng(self._seed)
        for first in range(0, self.users, _BLOCK):
            yield _walks(min(_BLOCK, self.users - first), rng, self._start)

    def counts(self) -> Array:
        """How many users visit each state [s]. A user visits all states from the start on."""
        firsts = np.zeros(STATES)
        for block in self.blocks():
            firsts += np.bincount(block.states[block.trajectories[:-1]], minlength=STATES)
        return np.cumsum(firsts)

    def total(self, statistic: Any, *, progress: Any = None) -> Bounded:  # noqa: ARG002
        """The sum over all users. Logs have the argument `progress`, too."""
        if statistic not in self._totals:
            parts = [statistic.contribution(block) for block in self.blocks()]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            self._totals[statistic] = total
        return self._totals[statistic]


def _walks(users: int, rng: np.random.Generator, start: str) -> LoggedUsers:
    """Start anywhere or in the first state, stay with probability 1/2, else advance."""
    first = rng.integers(STATES, size=users) if start == "uniform" else np.zeros(users, dtype=int)
    stays = rng.geometric(0.5, size=(users, STATES))
    stays[:, -1] = 1
    stays[np.arange(STATES) < first[:, None]] = 0
    states = np.repeat(np.tile(np.arange(STATES), users), stays.ravel())
    ends = np.append(0, np.cumsum(stays.sum(axis=1)))
    rewards = np.zeros(len(states))
    rewards[ends[1:] - 1] = 1.0
    return LoggedUsers(states, rewards, ends, np.arange(users + 1), np.ones(users, dtype=np.bool_))


def rmse(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values - VALUES))))


def lsw(group: int = 1) -> LSW:
    return LSW(states=STATES, discount=DISCOUNT, features=features(group), return_bound=1.0)


def lsl(ridge: float, group: int = 1) -> LSL:
    return LSL(
        states=STATES, discount=DISCOUNT, features=features(group), ridge=ridge, return_bound=1.0
    )


def dp_lsw(calibration: str, group: int = 1) -> DPLSW:
    return DPLSW(
        states=STATES,
        discount=DISCOUNT,
        features=features(group),
        calibration=calibration,
        return_bound=1.0,
    )


def dp_lsl(ridge: float, calibration: str, group: int = 1) -> DPLSL:
    return DPLSL(
        states=STATES,
        discount=DISCOUNT,
        features=features(group),
        calibration=calibration,
        ridge=ridge,
        return_bound=1.0,
    )


def release_values(
    estimator: Any, log: ChainLog, rng: np.random.Generator, privacy: CentralDP = PROMISE
) -> Array:
    """One private estimate of the values."""
    with warnings.catch_warnings():
        # The paper has delta = .1, which is entry 10 of the errata.
        warnings.simplefilter("ignore", DeltaWarning)
        values: Array = estimator.release(log, privacy=privacy, rng=rng).values
    return values


def constant_error(value: float = 0.5) -> float:
    """RMSE of one value for every state, the middle of the range: it needs no data."""
    return rmse(np.full(STATES, value))


def expected_counts(users: float, start: str = "uniform") -> Array:
    return users * STARTS[start]


def expected_lsl(users: float, ridge: float, group: int, start: str = "uniform") -> Array:
    """The values [s] that LSL tends to, with the true values and the expected counts."""
    joined = features(group)
    phi = np.eye(STATES) if joined is None else joined
    shares = STARTS[start]
    gram = phi.T @ (shares[:, None] * phi) + ridge / (2 * users) * np.eye(phi.shape[1])
    values: Array = phi @ np.linalg.solve(gram, phi.T @ (shares * VALUES))
    return values


def mechanism(estimator: DPLSW | DPLSL, promise: CentralDP = PROMISE) -> SmoothGaussian:
    """The mechanism with which the estimator adds noise."""
    dimension = STATES if estimator.features is None else estimator.features.shape[1]
    return SmoothGaussian(promise.epsilon, promise.delta, dimension, estimator.calibration)


def noise_std(
    estimator: DPLSW | DPLSL, users: float, promise: CentralDP = PROMISE, start: str = "uniform"
) -> float:
    """The standard deviation of the noise on each parameter, alpha S, at the expected counts."""
    noise = mechanism(estimator, promise)
    smooth = estimator.smooth_sensitivity(
        expected_counts(users, start),
        math.ceil(users),
        noise.beta,
        printed=estimator.calibration == "paper",
    )
    return noise.alpha * smooth
