"""A study: groups of runs on some problems, with their statistics. From `confide run`, from a list of runs, or from a sweep."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from confide.comparison.group import OPEN, Group, Promise, groups_of
from confide.comparison.summary import Pair, Row, pairs_of, rows_of
from confide.runs.run import Run


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """One agent on one problem under one guarantee: with the paper's constants, with tight ones, and without privacy."""

    problem: str
    agent: str
    promise: Promise
    # By calibration; "none" is without privacy.
    rungs: tuple[tuple[str, Row], ...]


@dataclass(frozen=True, eq=False)
class Study:
    """Everything that a table, a figure or a page needs: numbers only."""

    name: str
    rows: tuple[Row, ...]
    failures: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pairs_of([row.group for row in self.rows]))

    @property
    def problems(self) -> list[str]:
        """Those on which anything came out."""
        return list(dict.fromkeys(row.group.problem for row in self.rows))

    @property
    def agents(self) -> list[str]:
        """Learners, then reference policies."""
        found = dict.fromkeys(row.group.agent for row in self.rows)
        return sorted(found, key=lambda agent: agent not in self.learners)

    @cached_property
    def learners(self) -> list[str]:
        return list(dict.fromkeys(row.group.agent for row in self.rows if not row.group.reference))

    @property
    def promises(self) -> list[Promise]:
        """Of learners: the strictest first, and no privacy last."""
        found = dict.fromkeys(row.group.promise for row in self.rows if not row.group.reference)
        return sorted(found, key=lambda promise: promise.epsilon or math.inf)

    @property
    def chosen(self) -> Promise:
        """The guarantee to look at first: the one whose epsilon is nearest to 1."""
        kept = dict.fromkeys(row.group.promise for row in self.rows if row.group.private)
        return min(
            kept,
            key=lambda promise: abs(math.log(promise.epsilon or 1.0)),
            default=next(iter(self.promises), OPEN),
        )

    @property
    def epsilons(self) -> list[float]:
        return sorted({row.group.epsilon for row in self.rows if row.group.epsilon})

    @property
    def seeds(self) -> int:
        return max((len(row.group.seeds) for row in self.rows), default=0)

    @property
    def users(self) -> int:
        return max((row.users for row in self.rows), default=0)

    def on(self, problem: str) -> list[Row]:
        return [row for row in self.rows if row.group.problem == problem]

    def find(self, problem: str, agent: str, promise: Promise) -> Row | None:
        same = (
            row
            for row in self.on(problem)
            if (row.group.agent, row.group.promise) == (agent, promise)
        )
        return next(same, None)

    def known(self, problem: str) -> bool:
        """Whether regret is."""
        return all(row.regret is not None for row in self.on(problem))

    def gap(self, problem: str) -> float | None:
        """What uniform play loses per user; None where it loses nothing, or nothing is known."""
        return self.on(problem)[0].group.gap

    def ranking(self, problem: str, promise: Promise) -> list[Row]:
        """Learners under one guarantee, the best first: the least regret, or the largest return where regret is not known.

        Whoever failed with some seeds is left out, if anybody did not: the seeds that are left may be the easy ones."""
        own = [
            row
            for row in self.on(problem)
            if not row.group.reference and row.group.promise == promise
        ]
        most = max((len(row.group.seeds) for row in own), default=0)
        sign = 1 if self.known(problem) else -1
        told = [
            (row.final.estimate, row)
            for row in own
            if len(row.group.seeds) == most and row.final is not None
        ]
        return [row for _, row in sorted(told, key=lambda one: sign * one[0])]

    def nobody_learned(self, problem: str) -> bool:
        """Whether learners took part, and none of them did significantly better than uniform play."""
        found = [row.learned for row in self.on(problem) if not row.group.reference]
        return bool(found) and all(learned is False for learned in found)

    def ladders(self, promise: Promise) -> list[Ladder]:
        """Where both calibrations were run."""
        learners = [row.group for row in self.rows if not row.group.reference]
        found = {(group.variant, group.calibration): group.agent for group in learners}
        both = [
            (agent, title, found[agent, "tight"])
            for (agent, kind), title in found.items()
            if kind == "paper" and (agent, "tight") in found
        ]
        made = []
        for problem in self.problems if promise.private else []:
            for agent, paper, tight in both if self.known(problem) else []:
                first, second = (
                    self.find(problem, paper, promise),
                    self.find(problem, tight, promise),
                )
                last = self.find(problem, tight, OPEN)
                if first is not None and second is not None:
                    rungs = (("paper", first), ("tight", second))
                    made.append(
                        Ladder(
                            problem,
                            agent,
                            promise,
                            rungs if last is None else (*rungs, ("none", last)),
                        )
                    )
        return made

    def some(self, problems: Sequence[str] | None, agents: Sequence[str] | None) -> "Study":
        """Of these problems and agents only."""
        kept = tuple(
            row
            for row in self.rows
            if (problems is None or row.group.problem in problems)
            and (agents is None or row.group.agent in agents)
        )
        return replace(self, rows=kept)


def study_of(
    groups: Sequence[Group], *, name: str = "", failures: Sequence[dict[str, Any]] = ()
) -> Study:
    return Study(name, tuple(rows_of(groups)), tuple(failures))


def study_of_runs(runs: Sequence[Run], *, name: str = "") -> Study:
    return study_of(groups_of(runs), name=name)
