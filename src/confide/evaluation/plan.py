"""Predict the error of an estimate from public numbers only."""

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

_RUNS = 100  # of the estimator's code on made-up releases


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedError:
    """What to expect of an estimate. Nothing here has seen data: `assumptions` says what it rests on."""

    users: int
    privacy: Request
    noise_scale: float  # standard deviation of the noise on each released sum of scaled returns
    state_rmse: Array  # [s], in units of the values
    rmse: float  # over states, averaged over runs
    sampling: float  # the same without privacy
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
            *(f"  assumed: {said}" for said in self.assumptions),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Made-up users, in units where returns are in [-1, 1]: what a plan runs the estimator on."""

    counts: Array  # [s] visits
    return_std: Array | None  # [s]; None: as much as the range allows, returns are -1 or 1
    prior: float  # root mean square of a value
    spread: float  # of the values around a mean that they share

    def ratios(
        self, count_std: float, sum_std: float, rng: np.random.Generator
    ) -> tuple[Array, tuple[Ratios, Ratios]]:
        """True values [s], and what would be released of them with noise and without. Values are drawn anew, around a mean drawn anew."""
        S, n = len(self.counts), self.counts
        shared = rng.normal() * math.sqrt(max(self.prior**2 - self.spread**2, 0.0))
        values = np.clip(shared + self.spread * rng.normal(size=S), -1.0, 1.0)
        widest = np.sqrt(np.maximum(1 - values**2, 0.0))
        std = widest if self.return_std is None else np.minimum(self.return_std, widest)
        sums = n * values + np.sqrt(n) * std * rng.normal(size=S)
        squares = n * (values**2 + std**2)
        noisy = squares + math.hypot(sum_std, count_std / 2) * rng.normal(size=S)
        released = Ratios(
            n + count_std * rng.normal(size=S),
            sums + sum_std * rng.normal(size=S),
            noisy,
            count_std,
            sum_std,
        )
        return values, (released, Ratios(n, sums, squares, 0.0, 0.0))


def rehearsed(
    population: Population,
    estimate: Callable[[Ratios], Shrunk],
    noise: tuple[float, float],
    weights: Array,
) -> tuple[Array, float, float]:
    """The estimator's own code on made-up releases: root mean squares by state [s], the mean of the error, and of that without noise."""
    rng, squares, errors = np.random.default_rng(0), np.zeros(len(weights)), np.zeros(2)
    for _ in range(_RUNS):
        values, both = population.ratios(*noise, rng)
        missed = [np.square(estimate(ratios).values - values) for ratios in both]
        squares += missed[0] / _RUNS
        errors += np.sqrt([float(weights @ part) for part in missed]) / _RUNS
    return np.sqrt(squares), float(errors[0]), float(errors[1])


def shares_or_uniform(
    shares: npt.ArrayLike | None, states: int, visits: int, trajectories: int
) -> tuple[Array, str]:
    """How often a user visits each state, and how we know."""
    if shares is None:
        uniform = trajectories * visits / states
        return (
            np.full(states, uniform),
            f"every state is visited by the same share of users, {uniform:.3g} (no visit_shares were given)",
        )
    given = numbers("visit_shares", shares)
    if given.shape != (states,) or not ((given >= 0) & (given <= trajectories)).all():
        asked = f"{states} numbers between 0 and {trajectories}, visits per user"
        raise InvalidParameter.of("visit_shares", f"must be {asked}, got shape {given.shape}")
    return given, "visit shares as given"


def shares_of(weights: npt.ArrayLike | None, states: int) -> Array:
    """Weights of a mean over states: equal ones, or as given, made to add up to one."""
    given = np.ones(states) if weights is None else numbers("weights", weights)
    if given.shape != (states,) or not ((given >= 0).all() and 0 < given.sum() < math.inf):
        raise InvalidParameter.of("weights", f"must be {states} non-negative numbers")
    normed: Array = given / given.sum()
    return normed


def checked_std(given: npt.ArrayLike, states: int, return_bound: float) -> Array:
    """How much returns of each state vary [s], from one number for all or one each."""
    std = numbers("return_std", given)
    if std.shape not in ((), (states,)):
        raise InvalidParameter.of(
            "return_std", f"must be one number, or {states}, one per state, got shape {std.shape}"
        )
    if not ((std >= 0) & (std <= return_bound / 2)).all():
        raise InvalidParameter.of(
            "return_std",
            f"must be between 0 and return_bound/2 = {return_bound / 2:g}, more than which no return varies",
        )
    return np.broadcast_to(std, (states,))


def checked_spread(given: float, return_bound: float) -> float:
    """How far values are from what they are shrunk to."""
    return real("spread", given, f"between 0 and return_bound = {return_bound:g}", 0, return_bound)
