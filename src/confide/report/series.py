"""Runs put together: one series per agent and guarantee, one world per problem."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from confide.errors import InvalidParameter
from confide.experiments.run import Run, checkpoint_grid
from confide.privacy.request import Trust
from confide.report.bands import (
    Array,
    Band,
    Counts,
    Summary,
    band,
    noise_at,
    regret_at,
    return_at,
    signal_at,
    summary,
    value_at,
)
from confide.report.promises import Promise, promise_of

_REFERENCES = ("uniform", "oracle", "no-data")  # learning/reference.py: one policy for everybody


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Runs that differ in their seed only.

    The figures are over its complete runs; where none is complete, over all of them, up to the users that each of them served.
    """

    label: str
    agent: str
    promise: Promise
    runs: tuple[Run, ...]  # the ones the figures are over
    interrupted: tuple[Run, ...]  # all that were stopped early, in the figures or not

    @property
    def users(self) -> int:
        return min(run.episodes for run in self.runs)

    @property
    def reference(self) -> bool:
        """One of the ends of the scale: a fixed policy, which learns from nobody."""
        fixed = all(len({segment.value for segment in run.segments}) <= 1 for run in self.runs)
        return self.agent in _REFERENCES and self.promise.trust is Trust.NONE and fixed

    def regret(self) -> Band:
        return self._band(regret_at)

    def value(self) -> Band:
        """No policy is worth more than the optimal one: the band ends there."""
        curve, best = self._band(value_at), self.runs[0].optimal_value
        return curve if best is None else replace(curve, high=np.minimum(curve.high, np.maximum(best, curve.mean)))

    def returns(self) -> Band:
        return self._band(return_at)

    def noise(self) -> Band:
        return self._band(noise_at)

    def signal(self) -> Band:
        return self._band(signal_at)

    @property
    def noisy(self) -> bool:
        """Whether the release that it planned from had noise in it."""
        return any((segment.noise_std or 0.0) > 0 for run in self.runs for segment in run.segments)

    def final_regret(self) -> Summary:
        return self._final(regret_at)

    def final_value(self) -> Summary:
        return self._final(value_at)

    def mean_return(self) -> Summary:
        return summary(
            [float(np.average([s.mean_return for s in r.segments], weights=[s.users for s in r.segments])) for r in self.runs]
        )

    def _band(self, curve: Callable[[Run, Counts], Array]) -> Band:
        grid = checkpoint_grid(self.users)
        return band(grid, [curve(run, grid) for run in self.runs])

    def _final(self, curve: Callable[[Run, Counts], Array]) -> Summary:
        last = np.array([self.users])
        return summary([float(curve(run, last)[0]) for run in self.runs])


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A problem and everything that was run on it."""

    name: str
    optimal: float | None
    uniform: float | None
    series: tuple[Series, ...]

    @property
    def exact(self) -> bool:
        return self.optimal is not None

    @property
    def gap(self) -> float | None:
        """What uniform play loses per user."""
        return None if self.optimal is None or self.uniform is None else self.optimal - self.uniform

    @property
    def users(self) -> int:
        return max(series.users for series in self.series)

    @property
    def learners(self) -> list[Series]:
        return [series for series in self.series if not series.reference]

    def progress(self, value: float) -> float | None:
        """How far from uniform (0) to optimal play (1)."""
        if self.uniform is None or not self.gap or not math.isfinite(value):
            return None
        return (value - self.uniform) / self.gap

    @property
    def ends(self) -> list[Series]:
        """The runs that the lines of uniform and optimal play say as well, where there is anything else to look at."""
        known = [s for s in self.series if s.reference and s.agent in ("uniform", "oracle")]
        return known if len(known) < len(self.series) else []

    @property
    def draws_uniform(self) -> bool:
        """Whether uniform play is one of the runs; if not, figures add its line."""
        return any(series.reference and series.agent == "uniform" for series in self.series)


def worlds(runs: Sequence[Run]) -> list[World]:
    """Grouped by problem, then by agent and guarantee, in the order of the runs."""
    if not runs:
        raise InvalidParameter("a report needs at least one run, got none")
    found: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.problem, _rounded(run.optimal_value), _rounded(run.uniform_value)), []).append(run)
    named = Counter(name for name, _, _ in found)
    seen: Counter[str] = Counter()
    made = []
    for (name, _, _), members in found.items():
        seen[name] += 1
        title = name if named[name] == 1 else f"{name} (instance {seen[name]})"
        if series := _series(members):
            made.append(World(title, members[0].optimal_value, members[0].uniform_value, series))
    if not made:
        raise InvalidParameter("there is nothing to report: every run was interrupted before its first user")
    return made


def _series(runs: Sequence[Run]) -> tuple[Series, ...]:
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.agent, run.guarantee), []).append(run)
    made = [_one(members) for members in groups.values() if any(run.segments for run in members)]
    twice = Counter(series.label for series in made)
    return tuple(replace(s, label=f"{s.agent}, {s.promise.stated}") if twice[s.label] > 1 else s for s in made)


def _one(runs: Sequence[Run]) -> Series:
    promise = promise_of(runs[0])
    shown = [run for run in runs if run.complete] or [run for run in runs if run.segments]
    made = Series(runs[0].agent, runs[0].agent, promise, tuple(shown), tuple(run for run in runs if not run.complete))
    return made if made.reference else replace(made, label=f"{made.agent}, {short(promise)}")


def short(promise: Promise) -> str:
    if promise.trust is Trust.NONE:
        return "no privacy"
    return f"ε = {promise.epsilon:.3g}" if promise.private else promise.stated


def _rounded(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.9g}"
