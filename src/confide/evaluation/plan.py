"""Predict the error of an estimate from public numbers only.

The estimator's own code is run on simulated releases. No data are read and nothing is charged, so
this file cannot break a guarantee. `ExpectedError` is what `confide plan evaluate` prints.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.evaluation.parameters import numbers, real
from confide.evaluation.shrinkage import Ratios, Shrunk
from confide.privacy.bounded import Array
from confide.privacy.request import Request

# How many releases are simulated. A matter of taste: more runs take longer, and vary less.
_SIMULATED_RELEASES = 100


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedError:
    """What error to expect of an estimate. `assumptions` says in words what this rests on.

    `noise_scale` is the standard deviation of the noise on each released sum of scaled returns.
    `state_rmse` [s] are root mean square errors in units of the values. `rmse` is the root mean
    square over states, averaged over the simulated releases, and `sampling` is the same without
    privacy.
    """

    users: int
    privacy: Request
    noise_scale: float
    state_rmse: Array
    rmse: float
    sampling: float
    assumptions: tuple[str, ...]

    @property
    def noise(self) -> float:
        """The part of the error that privacy causes: noise, and shrinkage against it."""
        return math.sqrt(max(self.rmse**2 - self.sampling**2, 0.0))

    def __str__(self) -> str:
        lines = [
            f"{self.users} users, {self.privacy}:",
            f"  expected root mean square error  {self.rmse:.3g}",
            f"    of which privacy               {self.noise:.3g}",
            f"    of which sampling              {self.sampling:.3g}",
            *(f"  assumed: {assumption}" for assumption in self.assumptions),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Simulated users, in units in which returns lie in [-1, 1].

    `counts` [s] are visits that count. `return_std` [s] says how much returns of one state vary; if
    it is None, they vary as much as the range allows (returns are -1 or 1). `prior` is the root
    mean square of a value, and `spread` that of the values around a mean that they share.
    """

    counts: Array
    return_std: Array | None
    prior: float
    spread: float

    def draw_release(
        self, count_std: float, sum_std: float, rng: np.random.Generator
    ) -> tuple[Array, Ratios, Ratios]:
        """True values [s], and what would be released of them with noise and without.

        Each call draws new values around a new mean.
        """
        n = self.counts
        states = len(n)
        shared_mean = rng.normal() * math.sqrt(max(self.prior**2 - self.spread**2, 0.0))
        values = np.clip(shared_mean + self.spread * rng.normal(size=states), -1.0, 1.0)
        largest_std = np.sqrt(np.maximum(1 - values**2, 0.0))
        std = largest_std if self.return_std is None else np.minimum(self.return_std, largest_std)
        sums = n * values + np.sqrt(n) * std * rng.normal(size=states)
        squares = n * (values**2 + std**2)
        noisy_squares = squares + math.hypot(sum_std, count_std / 2) * rng.normal(size=states)
        noisy_counts = n + count_std * rng.normal(size=states)
        noisy_sums = sums + sum_std * rng.normal(size=states)
        noisy = Ratios(noisy_counts, noisy_sums, noisy_squares, count_std, sum_std)
        exact = Ratios(n, sums, squares, 0.0, 0.0)
        return values, noisy, exact


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedErrors:
    """Errors of an estimator on simulated releases, in units in which returns lie in [-1, 1].

    `state_rmse` [s] are root mean squares over the releases. `rmse` is the mean over releases of
    the weighted root mean square over states, and `sampling` is the same without noise.
    """

    state_rmse: Array
    rmse: float
    sampling: float


def simulate_errors(
    population: Population,
    estimate: Callable[[Ratios], Shrunk],
    count_std: float,
    sum_std: float,
    weights: Array,
) -> SimulatedErrors:
    """Run the estimator's own code on simulated releases. `weights` [s] sum to one."""
    rng = np.random.default_rng(0)
    state_squares = np.zeros(len(weights))
    rmse = 0.0
    sampling = 0.0
    for _ in range(_SIMULATED_RELEASES):
        values, noisy, exact = population.draw_release(count_std, sum_std, rng)
        noisy_squares = np.square(estimate(noisy).values - values)
        exact_squares = np.square(estimate(exact).values - values)
        state_squares += noisy_squares / _SIMULATED_RELEASES
        rmse += float(np.sqrt(float(weights @ noisy_squares))) / _SIMULATED_RELEASES
        sampling += float(np.sqrt(float(weights @ exact_squares))) / _SIMULATED_RELEASES
    return SimulatedErrors(np.sqrt(state_squares), rmse, sampling)


def visit_shares_or_uniform(
    shares: npt.ArrayLike | None, states: int, visits: int, trajectories: int
) -> tuple[Array, str]:
    """How often a user visits each state [s], and the assumption behind it in words."""
    if shares is None:
        uniform = trajectories * visits / states
        assumption = (
            f"every state is visited by the same share of users, {uniform:.3g} "
            "(no visit_shares were given)"
        )
        return np.full(states, uniform), assumption
    given = numbers("visit_shares", shares)
    if given.shape != (states,) or not ((given >= 0) & (given <= trajectories)).all():
        raise InvalidParameter.of(
            "visit_shares",
            f"must be {states} numbers between 0 and {trajectories}, visits per user, "
            f"got shape {given.shape}",
        )
    return given, "visit shares as given"


def weights_or_uniform(weights: npt.ArrayLike | None, states: int) -> Array:
    """Weights [s] of a mean over states, scaled to sum to one."""
    given = np.ones(states) if weights is None else numbers("weights", weights)
    if given.shape != (states,) or not ((given >= 0).all() and 0 < given.sum() < math.inf):
        raise InvalidParameter.of("weights", f"must be {states} non-negative numbers")
    normalised: Array = given / given.sum()
    return normalised


def check_return_std(given: npt.ArrayLike, states: int, return_bound: float) -> Array:
    """How much returns of each state vary [s], from one number for all or one each."""
    std = numbers("return_std", given)
    if std.shape not in ((), (states,)):
        raise InvalidParameter.of(
            "return_std", f"must be one number, or {states}, one per state, got shape {std.shape}"
        )
    if not ((std >= 0) & (std <= return_bound / 2)).all():
        raise InvalidParameter.of(
            "return_std",
            f"must be between 0 and return_bound/2 = {return_bound / 2:g}, "
            "more than which no return varies",
        )
    return np.broadcast_to(std, (states,))


def check_spread(given: float, return_bound: float) -> float:
    """How far values are from what they are shrunk to."""
    return real("spread", given, f"between 0 and return_bound = {return_bound:g}", 0, return_bound)
