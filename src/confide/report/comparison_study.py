"""A comparison made ready to be shown: curves with their bands, looks and anchors, the same in every figure."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from confide.experiments.analysis import Interval, band
from confide.experiments.comparison import Array, Comparison, Group
from confide.experiments.summary import Pair, Row, calibration, pairs_of, reference, regret_curves, rows_of
from confide.report.bands import Counts
from confide.report.looks import LIGHT, NEUTRAL

OPEN = "no privacy"  # as `Group.promise` says it
_POINTS = 100  # of a curve: a figure shows no more
_RESAMPLES = 2000
_MARKERS = 8


@dataclass(frozen=True, slots=True)
class AgentLook:
    """How an agent looks in every figure: a place in the palette (None: reference play) and a marker, for those who see no colour."""

    tone: int | None
    marker: int

    @property
    def colour(self) -> str:
        """On white."""
        return NEUTRAL[0] if self.tone is None else LIGHT[self.tone]

    @property
    def variable(self) -> str:
        """The custom property of the style sheet that holds the colour."""
        return "--neutral" if self.tone is None else f"--tone-{self.tone}"


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A group of runs as it is drawn: regret, or what users earned where regret is not known."""

    row: Row
    anchor: str  # what a link to it ends in
    look: AgentLook
    users: Counts = field(repr=False)
    mean: Array = field(repr=False)
    low: Array | None = field(repr=False)  # None with one seed
    high: Array | None = field(repr=False)

    @property
    def group(self) -> Group:
        return self.row.group

    @property
    def reference(self) -> bool:
        return self.look.tone is None

    @property
    def label(self) -> str:
        return self.group.agent if self.reference else self.group.label


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """One agent on one problem under one promise: with the paper's constants, with tight ones, and without privacy."""

    problem: str
    agent: str
    promise: str
    rungs: tuple[tuple[str, Curve], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Everything that a figure or a page needs."""

    name: str
    curves: tuple[Curve, ...]
    pairs: tuple[Pair, ...] = field(repr=False)
    failures: tuple[dict[str, Any], ...] = field(repr=False)

    @property
    def problems(self) -> list[str]:
        """Those that were solved at all."""
        return list(dict.fromkeys(curve.group.problem for curve in self.curves))

    @property
    def agents(self) -> dict[str, AgentLook]:
        return {curve.group.agent: curve.look for curve in self.curves}

    @property
    def learners(self) -> list[str]:
        return [agent for agent, look in self.agents.items() if look.tone is not None]

    @property
    def promises(self) -> list[str]:
        """Of learners: the strictest first, and no privacy last."""
        found = {curve.group.promise: curve.group.epsilon for curve in self.curves if not curve.reference}
        return sorted(found, key=lambda promise: found[promise] or math.inf)

    @property
    def chosen(self) -> str:
        """The promise to look at first: of those that are made, the one nearest to epsilon = 1."""
        kept = {curve.group.promise: curve.group.epsilon for curve in self.curves if curve.group.epsilon}
        return min(kept, key=lambda promise: abs(math.log(kept[promise] or 1.0)), default=OPEN)

    @property
    def seeds(self) -> int:
        return max((len(curve.group.seeds) for curve in self.curves), default=0)

    def on(self, problem: str) -> list[Curve]:
        return [curve for curve in self.curves if curve.group.problem == problem]

    def find(self, problem: str, agent: str, promise: str) -> Curve | None:
        same = (curve for curve in self.on(problem) if (curve.group.agent, curve.group.promise) == (agent, promise))
        return next(same, None)

    def known(self, problem: str) -> bool:
        """Whether regret is."""
        return all(curve.row.regret is not None for curve in self.on(problem))

    def gap(self, problem: str) -> float | None:
        """What uniform play loses per user; None where nothing is lost, or nothing is known."""
        group = self.on(problem)[0].group
        if group.optimal_value is None or group.uniform_value is None or group.optimal_value <= group.uniform_value:
            return None
        return group.optimal_value - group.uniform_value

    def ladders(self, promise: str) -> list[Ladder]:
        """Where both calibrations were run."""
        found = {calibration(title): title for title in self.learners}
        both = [
            (agent, title, found[agent, "tight"])
            for (agent, kind), title in found.items()
            if (agent, "tight") in found and kind == "paper"
        ]
        made = []
        for problem in self.problems if promise != OPEN else []:
            for agent, paper, tight in both if self.known(problem) else []:
                first, second = self.find(problem, paper, promise), self.find(problem, tight, promise)
                last = self.find(problem, tight, OPEN)
                if first is not None and second is not None:
                    rungs = (("paper constants", first), ("tight", second))
                    made.append(Ladder(problem, agent, promise, rungs if last is None else (*rungs, (OPEN, last))))
        return made


def final(curve: Curve) -> Interval | None:
    """What a curve comes to: regret, or what users earned where regret is not known."""
    return curve.row.regret if curve.row.regret is not None else curve.row.mean_return


def study(comparison: Comparison) -> Study:
    groups = comparison.groups
    looks, anchors = _looks(groups), _anchors(groups)
    curves = [_curve(row, anchor, looks[row.group.agent]) for row, anchor in zip(rows_of(groups), anchors, strict=True)]
    return Study(comparison.name, tuple(curves), tuple(pairs_of(groups)), tuple(comparison.failures))


def _looks(groups: Sequence[Group]) -> dict[str, AgentLook]:
    agents = list(dict.fromkeys(group.agent for group in groups))
    learners = [agent for agent in agents if not reference(agent)]
    others = [agent for agent in agents if reference(agent)]
    found = {agent: AgentLook(i % len(LIGHT), i % _MARKERS) for i, agent in enumerate(learners)}
    return found | {agent: AgentLook(None, i % _MARKERS) for i, agent in enumerate(others)}


def _curve(row: Row, anchor: str, look: AgentLook) -> Curve:
    group = row.group
    keep = np.unique(np.linspace(0, len(group.users) - 1, _POINTS).round().astype(int))
    values = regret_curves(group)[:, keep] if row.regret is not None else group.mean_return[:, keep]
    seen = np.isfinite(values).all(axis=0)
    keep, values = keep[seen], values[:, seen]
    if not len(keep):  # nothing is known of it but that it ran
        return Curve(row, anchor, look, group.users[keep], np.zeros(0), None, None)
    made = band(values, positive=row.regret is not None and bool((values >= 0).all()), resamples=_RESAMPLES)
    return Curve(row, anchor, look, group.users[keep], made.mean, made.low, made.high)


def _anchors(groups: Sequence[Group]) -> list[str]:
    """Readable, and the same the next time; a number where names differ in signs only."""
    taken: dict[str, int] = {}
    made = []
    for group in groups:
        promise = OPEN if group.epsilon is None else f"{group.trust}-{group.epsilon:g}"
        plain = re.sub(r"[^a-z0-9.]+", "-", f"{group.problem}-{group.agent}-{promise}".lower()).strip("-")[:80]
        taken[plain] = taken.get(plain, 0) + 1
        made.append(plain if taken[plain] == 1 else f"{plain}--{taken[plain]}")
    return made
