"""Runs that differ in their seed only, and what they say together. The one statistic of all tables, pages and figures: `intervals.py`."""

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

# Of the way from uniform to optimal play. Seeds that all agree have an interval without width, and less than this is not learning.
_LEAST = 1e-3
# Points of a curve: a figure shows no more.
_POINTS = 100
# Regret is a sum of rounded differences: below this, relative to what users earned, it is none.
_ROUNDING = 1e-9


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
    low: Array | None  # None with one seed
    high: Array | None


@dataclass(frozen=True, eq=False)
class Row:
    """The seeds of one agent on one problem under one guarantee. A sweep's table holds no certificates, noise levels and times.

    Statistics are computed when somebody asks for them. None: not known, or nothing that could be computed.
    """

    problem: str
    agent: str
    variant: str  # the agent without its calibration
    calibration: str
    guarantee: Guarantee
    optimal_value: float | None
    uniform_value: float | None
    seeds: tuple[int, ...]
    commands: tuple[str, ...] = field(repr=False)
    checkpoints: npt.NDArray[np.int64] = field(repr=False)
    # [seed, checkpoint] by the names of `CURVES`; NaN where values are not known
    curves: Mapping[str, Array] = field(repr=False)
    # [seed]; infinity where it was not reached, NaN where it is not known
    episodes_to_90: Array = field(repr=False)
    certificates: tuple[Certificate | None, ...] = field(default=(), repr=False)  # [seed]
    # [seed]: what users were asked
    questions: tuple[tuple[Question, ...], ...] = field(default=(), repr=False)
    # [seed], with ends: `Run.last_return`
    last_returns: tuple[tuple[float, float, float] | None, ...] = field(default=(), repr=False)
    # left out, if any run is complete; else the curves end where the first of them does
    stopped: tuple[Stopped, ...] = ()
    seconds: tuple[float, ...] = field(default=(), repr=False)  # [seed]
    versions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    # What follows is known in a comparison: what tells rows of one agent apart, a readable name that no other row has, and the
    # same agent without privacy.
    promise: Promise = OPEN
    anchor: str = ""
    free: Optional["Row"] = field(default=None, repr=False)

    @property
    def private(self) -> bool:
        return self.trust is not Trust.NONE

    @property
    def trust(self) -> Trust:
        return self.guarantee.trust

    @property
    def epsilon(self) -> float | None:
        """What was asked for; None without privacy."""
        return self.guarantee.request.epsilon if self.private else None

    @property
    def delta(self) -> float | None:
        return self.guarantee.delta if self.private else None

    @property
    def true_epsilon(self) -> float | None:
        """What the noise gives."""
        return self.guarantee.epsilon if self.private else None

    @property
    def stricter(self) -> bool:
        """Whether the noise gives a clearly smaller epsilon than was asked for: printed constants do."""
        asked, given = self.epsilon, self.true_epsilon
        return asked is not None and given is not None and given < 0.95 * asked

    @property
    def users(self) -> int:
        return int(self.checkpoints[-1])

    @cached_property
    def known(self) -> bool:
        """Whether regret is."""
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
        """The average over seeds of what the users of the last policy earned, and the ends of its 95 % interval over these users."""
        found = [one for one in self.last_returns if one is not None]
        if not found or len(found) < len(self.seeds):
            return None
        earned = sum(one[0] for one in found) / len(found)
        margin = math.hypot(*(one[2] - one[0] for one in found)) / len(found)
        return earned, earned - margin, earned + margin

    @cached_property
    def regret_curves(self) -> Array:
        """[seed, checkpoint]: zero where it is nothing but rounding."""
        regret = self.curves["regret"]
        scale = _ROUNDING * self.checkpoints * abs(self.optimal_value or 0.0)
        return np.where(np.abs(regret) <= scale, 0.0, regret)

    @property
    def last(self) -> Array:
        """[seed]: what each seed comes to, as regret, or as what users earned where regret is not known."""
        return (self.regret_curves if self.known else self.curves["mean_return"])[:, -1]

    @cached_property
    def regret(self) -> Interval | None:
        """Of all users."""
        if not self.known:
            return None
        curves = self.regret_curves
        return intervals.interval(curves[:, -1], positive=bool((curves >= 0).all()))

    @cached_property
    def value(self) -> Interval | None:
        """Of the last policy."""
        return _capped(self._value, self.optimal_value) if self.known else None

    @cached_property
    def _value(self) -> Interval:
        return intervals.interval(self.curves["value"][:, -1])

    @property
    def share(self) -> Interval | None:
        """Of optimal: where the last policy's value lies from uniform play (0) to optimal play (1)."""
        if not self.known or self.gap is None:
            return None
        return _capped(_scaled(self._value, self.uniform_value or 0.0, self.gap), 1.0)

    @cached_property
    def mean_return(self) -> Interval | None:
        """Of the last users, where regret is not known."""
        earned = self.curves["mean_return"][:, -1]
        if self.known or not np.isfinite(earned).all():
            return None
        return intervals.interval(earned)

    @property
    def of_uniform(self) -> Interval | None:
        """Regret over that of uniform play."""
        if self.regret is None or self.gap is None:
            return None
        return _scaled(self.regret, 0.0, self.gap * float(self.users))

    @cached_property
    def of_no_privacy(self) -> Interval | None:
        """Regret over that of the same agent without privacy, on the seeds that both have. A run that failed leaves its partner
        out, too."""
        if not self.known or self.free is None:
            return None
        both = [seed for seed in self.seeds if seed in self.free.seeds]
        if not both:
            return None
        mine, other = (
            row.regret_curves[[row.seeds.index(seed) for seed in both], -1]
            for row in (self, self.free)
        )
        if mine.mean() <= 0 or not other.mean() > 0:  # no ratio
            return None
        try:
            return intervals.privacy_cost(mine, other, paired=True)
        except InvalidParameter:  # all regret is one seed's
            return None

    @cached_property
    def reached(self) -> Reached | None:
        """90 % of optimal."""
        if not self.known or not (self.episodes_to_90 > 0).all():
            return None
        return intervals.episodes_to(list(self.episodes_to_90))

    @cached_property
    def growth(self) -> Growth | None:
        if not self.known:
            return None
        try:
            return growth(self.checkpoints, self.regret_curves)
        except InvalidParameter:  # no regret on the window, or no window: there is no slope
            return None

    @property
    def theorem(self) -> Theorem | None:
        return theorem_of(self.variant, self.calibration, self.guarantee) if self.known else None

    @property
    def verdict(self) -> str:
        """The measured growth against the theorem's, in one word; empty where one of them is missing."""
        if self.growth is None or self.theorem is None:
            return ""
        return self.growth.verdict(self.theorem.exponent)

    @property
    def final(self) -> Interval | None:
        """What it comes to: regret, or what users earned where regret is not known."""
        return self.regret if self.regret is not None else self.mean_return

    @property
    def learned(self) -> bool | None:
        """Whether it did significantly better than uniform play: less regret, or in the end a better policy. One seed can only be looked
        at. None where that is not known."""
        share, of_uniform = self.share, self.of_uniform
        if share is None or of_uniform is None:
            return None
        if share.low is None or of_uniform.high is None:
            return share.estimate > _LEAST or of_uniform.estimate < 1 - _LEAST
        return share.low > _LEAST or of_uniform.high < 1 - _LEAST

    @cached_property
    def _drawn(self) -> dict[str, Curve | None]:
        return {}

    def curve(self, name: str) -> Curve | None:
        """One of `regret`, `value`, `mean_return`, `noise_std` and `signal` over users, where it is known. Computed once."""
        if name not in self._drawn:
            self._drawn[name] = self._curve(name)
        return self._drawn[name]

    def _curve(self, name: str) -> Curve | None:
        """The band's last point is the interval of the final number: the same seeds, the same statistic."""
        given = self.regret_curves if name == "regret" and self.known else self.curves.get(name)
        if given is None:
            return None
        points = np.linspace(0, len(self.checkpoints) - 1, _POINTS)
        keep = np.unique(points.round().astype(int))
        keep = keep[np.isfinite(given[:, keep]).all(axis=0)]
        if not len(keep):
            return None
        positive = name == "regret" and bool((given >= 0).all())
        band = intervals.band(given[:, keep], positive=positive)
        high = band.high
        # No policy is worth more than the optimal one.
        if name == "value" and high is not None and self.optimal_value is not None:
            high = np.minimum(high, np.maximum(self.optimal_value, band.mean))
        return Curve(self.checkpoints[keep], band.mean, band.low, high)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        growth, reached, theorem = self.growth, self.reached, self.theorem
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


def plain_ends(name: str, found: Interval | None) -> dict[str, float | None]:
    """An interval as JSON has it."""
    ends = (None, None, None) if found is None else (found.estimate, found.low, found.high)
    names = (name, f"{name}_low", f"{name}_high")
    return {part: _finite(end) for part, end in zip(names, ends, strict=True)}


def _scaled(found: Interval, start: float, unit: float) -> Interval:
    """In other units: (x - start) / unit."""
    low, high = (None if end is None else (end - start) / unit for end in (found.low, found.high))
    error = None if found.error is None else found.error / unit
    return replace(found, estimate=(found.estimate - start) / unit, low=low, high=high, error=error)


def _capped(found: Interval, most: float | None) -> Interval:
    """Where nothing can be above `most`."""
    if found.high is None or most is None:
        return found
    return replace(found, high=min(found.high, max(most, found.estimate)))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
