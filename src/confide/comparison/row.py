"""Runs that differ in their seed only, and their common figures.

All tables, pages and figures take their statistics from `intervals.py`. `Row.plain` has the fields
of `confide compare --json` and of the CSV that a report copies, so they stay. Labels and sentences
may be changed freely.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from confide.agents.catalogue import AGENTS
from confide.comparison import intervals
from confide.comparison.growth import Growth, growth
from confide.comparison.intervals import Array, Interval, Reached
from confide.comparison.promise import OPEN, Promise
from confide.comparison.theorems import Theorem, theorem_of
from confide.errors import InvalidParameter
from confide.learning.question import Question
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Trust

# Less than this share of the way from uniform to optimal play is not learning. It matters for seeds
# that all agree, because their interval has no width. A matter of taste.
_SMALLEST_SHARE = 1e-3
# A curve has at most so many points, because a figure shows no more. A matter of taste.
_POINTS = 100
# Regret is a sum of rounded differences. Below this share of the users' earnings it counts as zero.
_ROUNDING = 1e-9
# The noise is called stricter if its epsilon is below this share of the requested one. A matter of
# taste.
_STRICTER_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Stopped:
    """A run that was interrupted."""

    seed: int
    users: int
    planned: int


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The mean over seeds and its band, at some numbers of users."""

    users: npt.NDArray[np.int64]
    mean: Array
    # None with one seed.
    low: Array | None
    high: Array | None


@dataclass(frozen=True, eq=False)
class Row:
    """The seeds of one agent on one problem under one guarantee.

    Statistics are computed when they are used. A statistic is None if it is not known or cannot be
    computed. The table of a sweep holds no certificates, noise levels and times.
    """

    problem: str
    agent: str
    # The agent with all its options but the calibration.
    variant: str
    calibration: str
    guarantee: Guarantee
    optimal_value: float | None
    uniform_value: float | None
    seeds: tuple[int, ...]
    commands: tuple[str, ...] = field(repr=False)
    checkpoints: npt.NDArray[np.int64] = field(repr=False)
    # [seed, checkpoint] by the names of `CURVES`; NaN where values are not known.
    curves: Mapping[str, Array] = field(repr=False)
    # [seed]; infinity where it was not reached, NaN where it is not known.
    episodes_to_90: Array = field(repr=False)
    # [seed]
    certificates: tuple[Certificate | None, ...] = field(default=(), repr=False)
    # [seed]: what users were asked.
    questions: tuple[tuple[Question, ...], ...] = field(default=(), repr=False)
    # [seed]: `Run.last_return`, with the ends of its interval.
    last_returns: tuple[tuple[float, float, float] | None, ...] = field(default=(), repr=False)
    # Interrupted runs. They are left out if any run is complete. Otherwise the curves end where the
    # first of them does.
    stopped: tuple[Stopped, ...] = ()
    # [seed]
    seconds: tuple[float, ...] = field(default=(), repr=False)
    versions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    # The following fields are set by a comparison. What distinguishes the rows of one agent:
    promise: Promise = OPEN
    # A readable name that no other row has:
    anchor: str = ""
    # The same agent without privacy:
    free: Optional["Row"] = field(default=None, repr=False)

    @property
    def private(self) -> bool:
        return self.trust is not Trust.NONE

    @property
    def trust(self) -> Trust:
        return self.guarantee.trust

    @property
    def epsilon(self) -> float | None:
        """The requested epsilon; None without privacy."""
        return self.guarantee.request.epsilon if self.private else None

    @property
    def delta(self) -> float | None:
        return self.guarantee.delta if self.private else None

    @property
    def true_epsilon(self) -> float | None:
        """The epsilon that the noise gives."""
        return self.guarantee.epsilon if self.private else None

    @property
    def stricter(self) -> bool:
        """Whether the noise gives a clearly smaller epsilon than requested.

        The constants of a paper often do.
        """
        if self.epsilon is None or self.true_epsilon is None:
            return False
        return self.true_epsilon < _STRICTER_SHARE * self.epsilon

    @property
    def users(self) -> int:
        return int(self.checkpoints[-1])

    @cached_property
    def known(self) -> bool:
        """Whether regret is known."""
        return self.optimal_value is not None and bool(np.isfinite(self.curves["regret"]).all())

    @cached_property
    def reference(self) -> bool:
        """Whether it is a reference agent that does not learn (uniform, oracle, no-data)."""
        if self.agent not in AGENTS or AGENTS[self.agent].profile.paper or self.private:
            return False
        value = self.curves["value"]
        spread = np.nan_to_num(np.ptp(value, axis=1))
        return bool((spread <= 1e-9 * (1 + np.nan_to_num(np.abs(value[:, -1])))).all())

    @property
    def gap(self) -> float | None:
        """What uniform play loses per user; None where it loses nothing, or nothing is known."""
        if self.optimal_value is None or self.uniform_value is None:
            return None
        gap = self.optimal_value - self.uniform_value
        return gap if gap > 0 else None

    @property
    def label(self) -> str:
        return self.agent if self.reference else f"{self.agent}, {self.promise}"

    @property
    def noisy(self) -> bool:
        """Whether noise is known to be in what was released."""
        noise = self.curves.get("noise_std")
        return noise is not None and bool((np.nan_to_num(noise) > 0).any())

    @property
    def last_return(self) -> tuple[float, float, float] | None:
        """What users of the last policy earned on average over seeds.

        The other two numbers are the ends of a 95 % interval over these users.
        """
        returns = [last for last in self.last_returns if last is not None]
        if not returns or len(returns) < len(self.seeds):
            return None
        mean = sum(estimate for estimate, _, _ in returns) / len(returns)
        margin = math.hypot(*(high - estimate for estimate, _, high in returns)) / len(returns)
        return mean, mean - margin, mean + margin

    @cached_property
    def regret_curves(self) -> Array:
        """Regret [seed, checkpoint]; zero where it is nothing but rounding."""
        regret = self.curves["regret"]
        scale = _ROUNDING * self.checkpoints * abs(self.optimal_value or 0.0)
        return np.where(np.abs(regret) <= scale, 0.0, regret)

    @property
    def last(self) -> Array:
        """The final number of each seed [seed]: regret, or the return where regret is not known."""
        return (self.regret_curves if self.known else self.curves["mean_return"])[:, -1]

    @cached_property
    def regret(self) -> Interval | None:
        """The regret of all users."""
        if not self.known:
            return None
        curves = self.regret_curves
        return intervals.interval(curves[:, -1], positive=bool((curves >= 0).all()))

    @cached_property
    def value(self) -> Interval | None:
        """The value of the last policy."""
        return _cap(self._value, self.optimal_value) if self.known else None

    @cached_property
    def _value(self) -> Interval:
        return intervals.interval(self.curves["value"][:, -1])

    @property
    def share(self) -> Interval | None:
        """Where the last policy's value lies between uniform play (0) and optimal play (1)."""
        if not self.known or self.gap is None:
            return None
        return _cap(_rescale(self._value, self.uniform_value or 0.0, self.gap), 1.0)

    @cached_property
    def mean_return(self) -> Interval | None:
        """The mean return of the last users, where regret is not known."""
        returns = self.curves["mean_return"][:, -1]
        if self.known or not np.isfinite(returns).all():
            return None
        return intervals.interval(returns)

    @property
    def of_uniform(self) -> Interval | None:
        """Regret over that of uniform play."""
        if self.regret is None or self.gap is None:
            return None
        return _rescale(self.regret, 0.0, self.gap * float(self.users))

    @cached_property
    def of_no_privacy(self) -> Interval | None:
        """Regret over that of the same agent without privacy, on the seeds that both have.

        A run that failed leaves its partner out, too.
        """
        if not self.known or self.free is None:
            return None
        shared_seeds = [seed for seed in self.seeds if seed in self.free.seeds]
        if not shared_seeds:
            return None
        private, free = (
            row.regret_curves[[row.seeds.index(seed) for seed in shared_seeds], -1]
            for row in (self, self.free)
        )
        if private.mean() <= 0 or not free.mean() > 0:
            # There is no ratio.
            return None
        try:
            return intervals.privacy_cost(private, free, paired=True)
        except InvalidParameter:
            # All regret is that of one seed.
            return None

    @cached_property
    def reached(self) -> Reached | None:
        """After how many users policies stay above 90 % of optimal."""
        if not self.known or not (self.episodes_to_90 > 0).all():
            return None
        return intervals.episodes_to(list(self.episodes_to_90))

    @cached_property
    def growth(self) -> Growth | None:
        if not self.known:
            return None
        try:
            return growth(self.checkpoints, self.regret_curves)
        except InvalidParameter:
            # Without regret on the window, or without a window, there is no slope.
            return None

    @property
    def theorem(self) -> Theorem | None:
        return theorem_of(self.variant, self.calibration, self.guarantee) if self.known else None

    @property
    def verdict(self) -> str:
        """The measured growth against the theorem's, in one word; empty if either is missing."""
        if self.growth is None or self.theorem is None:
            return ""
        return self.growth.verdict(self.theorem.exponent)

    @property
    def final(self) -> Interval | None:
        """The final number: regret, or the mean return where regret is not known."""
        return self.regret if self.regret is not None else self.mean_return

    @property
    def learned(self) -> bool | None:
        """Whether the agent did significantly better than uniform play.

        It did with less regret, or with a better policy in the end. With one seed nothing is
        significant, so the estimates decide. None where that is not known.
        """
        share = self.share
        of_uniform = self.of_uniform
        if share is None or of_uniform is None:
            return None
        if share.low is None or of_uniform.high is None:
            is_better = share.estimate > _SMALLEST_SHARE
            return is_better or of_uniform.estimate < 1 - _SMALLEST_SHARE
        return share.low > _SMALLEST_SHARE or of_uniform.high < 1 - _SMALLEST_SHARE

    @cached_property
    def _curve_cache(self) -> dict[str, Curve | None]:
        return {}

    def curve(self, name: str) -> Curve | None:
        """One of `regret`, `value`, `mean_return`, `noise_std` and `signal` over users.

        None where it is not known. Each curve is computed once.
        """
        if name not in self._curve_cache:
            self._curve_cache[name] = self._compute_curve(name)
        return self._curve_cache[name]

    def _compute_curve(self, name: str) -> Curve | None:
        """The last point of the band is the interval of the final number."""
        # [seed, checkpoint]
        values = self.curves.get(name)
        if name == "regret" and self.known:
            values = self.regret_curves
        if values is None:
            return None
        points = np.linspace(0, len(self.checkpoints) - 1, _POINTS)
        kept = np.unique(points.round().astype(int))
        kept = kept[np.isfinite(values[:, kept]).all(axis=0)]
        if not len(kept):
            return None
        positive = name == "regret" and bool((values >= 0).all())
        band = intervals.band(values[:, kept], positive=positive)
        high = band.high
        # No policy is worth more than the optimal one.
        if name == "value" and high is not None and self.optimal_value is not None:
            high = np.minimum(high, np.maximum(self.optimal_value, band.mean))
        return Curve(self.checkpoints[kept], band.mean, band.low, high)

    def plain(self) -> dict[str, Any]:
        """The row for JSON and CSV. The fields are part of the interface."""
        growth = self.growth
        reached = self.reached
        theorem = self.theorem
        facts = ("problem", "agent", "trust", "epsilon", "delta", "true_epsilon")
        figures = ("regret", "value", "share", "mean_return", "of_uniform", "of_no_privacy")
        ends = [plain_ends(name, getattr(self, name)) for name in figures]
        return {
            **{name: getattr(self, name) for name in facts},
            "seeds": len(self.seeds),
            "users": self.users,
            **{name: end for part in ends for name, end in part.items()},
            "episodes_to_90": None if reached is None else _finite(reached.median),
            "episodes_to_90_low": None if reached is None else _finite(reached.low),
            "episodes_to_90_high": None if reached is None else _finite(reached.high),
            "not_reached": None if reached is None else reached.seeds - reached.reached,
            "growth": None if growth is None else growth.slope,
            "growth_error": None if growth is None else growth.error,
            "theorem_exponent": None if theorem is None else theorem.exponent,
            "theorem": None if theorem is None else theorem.locator,
            "verdict": self.verdict or None,
        }


def plain_ends(name: str, figure: Interval | None) -> dict[str, float | None]:
    """An interval as three fields."""
    if figure is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {
        name: _finite(figure.estimate),
        f"{name}_low": _finite(figure.low),
        f"{name}_high": _finite(figure.high),
    }


def _rescale(figure: Interval, start: float, unit: float) -> Interval:
    """The interval of (x - start) / unit."""
    low, high = (None if end is None else (end - start) / unit for end in (figure.low, figure.high))
    error = None if figure.error is None else figure.error / unit
    estimate = (figure.estimate - start) / unit
    return replace(figure, estimate=estimate, low=low, high=high, error=error)


def _cap(figure: Interval, most: float | None) -> Interval:
    """The interval of a number that cannot be above `most`."""
    if figure.high is None or most is None:
        return figure
    return replace(figure, high=min(figure.high, max(most, figure.estimate)))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
