"""Runs that differ in their seed only, as arrays: what statistics, figures and pages are made of."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.agents.catalogue import AGENTS
from confide.arguments import listed
from confide.errors import InvalidParameter
from confide.identity import identify
from confide.learning.question import Question
from confide.privacy import words
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Trust
from confide.runs.run import CURVES, Run, checkpoint_grid

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Promise:
    """Under what rows of several agents are compared: as many facts of a guarantee as tell the rows of one agent apart."""

    epsilon: float | None  # None: no privacy
    trust: Trust | None = None
    delta: float | None = None
    guarantee: Guarantee | None = None

    @property
    def private(self) -> bool:
        return self.epsilon is not None

    @property
    def key(self) -> str:
        """A name for programs, different for different promises."""
        facts = [self.epsilon, self.trust, self.delta]
        name = "-".join("none" if fact is None else str(fact) for fact in facts)
        return name if self.guarantee is None else f"{name}-{identify(self.guarantee.to_json())}"

    def __str__(self) -> str:
        if self.guarantee is not None:
            return words.guarantee(self.guarantee)
        if self.trust is not None and self.delta is not None:
            return words.long_label(self.epsilon, self.trust, self.delta)
        return words.label(self.epsilon)


OPEN = Promise(None)


@dataclass(frozen=True, slots=True)
class Stopped:
    """A run that was interrupted."""

    seed: int
    users: int
    planned: int


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Runs that differ in their seed only, in the order of their seeds. A sweep's table holds no certificates, noise levels and times."""

    problem: str
    agent: str
    guarantee: Guarantee
    optimal_value: float | None
    uniform_value: float | None
    seeds: tuple[int, ...]
    commands: tuple[str, ...] = field(repr=False)
    users: npt.NDArray[np.int64] = field(repr=False)  # checkpoints
    regret: Array = field(repr=False)  # [seed, checkpoint]; NaN where values are not known
    value: Array = field(repr=False)  # [seed, checkpoint]
    mean_return: Array = field(repr=False)
    # [seed]; infinity where it was not reached, NaN where it is not known
    episodes_to_90: Array = field(repr=False)
    noise_std: Array | None = field(default=None, repr=False)  # [seed, checkpoint]
    signal: Array | None = field(default=None, repr=False)
    certificates: tuple[Certificate | None, ...] = field(default=(), repr=False)  # [seed]
    # [seed]: what users were asked
    questions: tuple[tuple[Question, ...], ...] = field(default=(), repr=False)
    last_returns: tuple[tuple[float, float, float] | None, ...] = field(
        default=(), repr=False
    )  # [seed], with ends: `Run.last_return`
    # left out, if any run is complete; else the curves end where the first of them does
    stopped: tuple[Stopped, ...] = ()
    seconds: tuple[float, ...] = field(default=(), repr=False)  # [seed]
    versions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    promise: Promise = OPEN  # different for groups of one agent whose guarantees differ
    variant: str = ""  # the agent without its calibration
    calibration: str = "tight"

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
    def known(self) -> bool:
        """Whether regret is."""
        return self.optimal_value is not None and bool(np.isfinite(self.regret).all())

    @property
    def reference(self) -> bool:
        """Whether it is a reference agent that does not learn (uniform, oracle, no-data)."""
        if self.agent not in AGENTS or AGENTS[self.agent].profile.paper or self.private:
            return False
        spread = np.nan_to_num(np.ptp(self.value, axis=1))
        return bool((spread <= 1e-9 * (1 + np.nan_to_num(np.abs(self.value[:, -1])))).all())

    @property
    def gap(self) -> float | None:
        """What uniform play loses per user; None where it loses nothing, or nothing is known."""
        if (
            self.optimal_value is None
            or self.uniform_value is None
            or self.optimal_value <= self.uniform_value
        ):
            return None
        return self.optimal_value - self.uniform_value

    @property
    def label(self) -> str:
        return self.agent if self.reference else f"{self.agent}, {self.promise}"

    @property
    def noisy(self) -> bool:
        """Whether noise is known to be in what was released."""
        return self.noise_std is not None and bool((np.nan_to_num(self.noise_std) > 0).any())

    @property
    def stricter(self) -> bool:
        """Whether the noise gives a clearly smaller epsilon than was asked for: printed constants do."""
        asked, given = self.epsilon, self.true_epsilon
        return asked is not None and given is not None and given < 0.95 * asked

    @property
    def final_regret(self) -> Array:
        """[seed]"""
        return self.regret[:, -1]

    @property
    def last_return(self) -> tuple[float, float, float] | None:
        """The average over seeds of what the users of the last policy earned, and the ends of its 95 % interval over these users."""
        found = [one for one in self.last_returns if one is not None]
        if not found or len(found) < len(self.seeds):
            return None
        earned = sum(one[0] for one in found) / len(found)
        margin = math.hypot(*(one[2] - one[0] for one in found)) / len(found)
        return earned, earned - margin, earned + margin


def groups_of(runs: Sequence[Run]) -> list[Group]:
    """By problem, agent and guarantee, in the order of the runs. Instances of a problem that share a name are told apart by a number."""
    runs = listed("runs", runs, Run)
    if not runs:
        raise InvalidParameter("a report needs at least one run, got none")
    worlds: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        worlds.setdefault(
            (run.problem, _rounded(run.optimal_value), _rounded(run.uniform_value)), []
        ).append(run)
    named, seen = Counter(name for name, _, _ in worlds), Counter[str]()
    made = []
    for (name, _, _), members in worlds.items():
        seen[name] += 1
        title = name if named[name] == 1 else f"{name} (instance {seen[name]})"
        kinds: dict[tuple[str, Guarantee], list[Run]] = {}
        for run in members:
            kinds.setdefault((run.agent, run.guarantee), []).append(run)
        made += [_group(title, own) for own in kinds.values() if any(run.segments for run in own)]
    if not made:
        raise InvalidParameter(
            "there is nothing to report: every run was interrupted before its first user"
        )
    return told_apart(made)


def told_apart(groups: Sequence[Group]) -> list[Group]:
    """Groups with the few facts of their guarantees that tell them from other groups of the same agent."""
    made: dict[int, Promise] = {}
    waiting = dict(enumerate(groups))
    for describe in (_by_epsilon, _by_trust, _by_everything):
        made |= {place: describe(group) for place, group in waiting.items()}
        names = Counter((one.problem, one.agent, made[place]) for place, one in enumerate(groups))
        waiting = {
            place: one
            for place, one in waiting.items()
            if names[one.problem, one.agent, made[place]] > 1
        }
    return [replace(one, promise=made[place]) for place, one in enumerate(groups)]


def _by_epsilon(group: Group) -> Promise:
    return Promise(group.epsilon)


def _by_trust(group: Group) -> Promise:
    return Promise(group.epsilon, group.trust, group.delta) if group.private else OPEN


def _by_everything(group: Group) -> Promise:
    return Promise(group.epsilon, group.trust, group.delta, group.guarantee)


def _group(problem: str, runs: Sequence[Run]) -> Group:
    """Over the complete runs; where none is complete, over all of them, up to the users that each of them served."""
    stopped = tuple(
        Stopped(run.seed, run.episodes, run.planned_episodes) for run in runs if not run.complete
    )
    shown = [run for run in runs if run.complete] or [run for run in runs if run.segments]
    shown = sorted(shown, key=lambda run: run.seed)
    first, users = shown[0], checkpoint_grid(min(run.episodes for run in shown))
    curves: dict[str, Any] = {
        name: np.stack([run.curve(name, users) for run in shown]) for name in CURVES
    }
    known = (
        first.optimal_value is not None
        and first.uniform_value is not None
        and bool(np.isfinite(curves["value"]).all())
    )
    reached = [run.episodes_to(0.9) if known else math.nan for run in shown]
    return Group(
        problem=problem,
        agent=first.agent,
        variant=first.variant or first.agent,
        calibration=first.calibration,
        guarantee=first.guarantee,
        optimal_value=first.optimal_value,
        uniform_value=first.uniform_value,
        seeds=tuple(run.seed for run in shown),
        commands=tuple(run.command for run in shown),
        users=users,
        episodes_to_90=np.array(
            [math.inf if found is None else found for found in reached], dtype=float
        ),
        certificates=tuple(run.certificate for run in shown),
        questions=tuple(run.questions for run in shown),
        last_returns=tuple(run.last_return for run in shown),
        stopped=stopped,
        seconds=tuple(run.seconds for run in shown),
        versions=tuple(dict.fromkeys(item for run in shown for item in run.versions.items())),
        **curves,
    )


def _rounded(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.9g}"
