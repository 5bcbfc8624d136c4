"""Replay: neighbouring data sets with the same releases must give the same bytes, in everything that leaves.

A guarantee covers what goes through a privatizer. Everything else that an agent shows (policies, batch sizes, questions, memory, messages,
descriptions) must be a function of releases. So an agent is run once, and again with one user's data replaced, while each release is the
first run's. Whatever differs then depends on that user's data past the noise. The exact values that are noised do differ: their distance,
in units of the noise, must not exceed the stated loss, whatever the questions were.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from confide.agents.facts import facts
from confide.arguments import has, shown, whole
from confide.audit.canonical import canonical
from confide.audit.tape import Tape, TapedSource
from confide.errors import InvalidParameter
from confide.learning.agent import abilities_of
from confide.learning.learner import Learner
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.privacy.accounting import gaussian_epsilon
from confide.privacy.loss import ApproxDP, GaussianDP, PureDP
from confide.privacy.request import NoPrivacy, Relation, Trust
from confide.trajectory import Trajectories, TransitionCounts

CHANNELS = {
    "policies": "the policies that users get",
    "schedule": "the times of releases and the sizes of batches",
    "releases": "what is released, and how much noise it has",
    "questions": "what users are asked to contribute",
    "memory": "what planning keeps from round to round",
    "messages": "what devices send and store",
    "descriptions": "guarantee, mechanisms and explanation",
    "printed": "output and warnings",
    "errors": "errors",
}
_STEPS, _STATES = 32, 128  # of the grid on which policies of unknown classes are compared
_ROUNDING = 1e-9

Maker = Callable[[NoiseSource], Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two neighbouring data sets with the same releases, and a channel on which they differ. It quotes no data."""

    channel: str
    replaced: int  # which user was replaced, counted from 0
    served: int  # how many users had been served when the runs first differed

    def __str__(self) -> str:
        return f"{CHANNELS[self.channel]} depend on the data of user {self.replaced}, first seen after {self.served} users"


@dataclass(frozen=True, slots=True)
class Replay:
    """What was compared, and what was found. A replay can refute a guarantee; that it found nothing is not a proof."""

    neighbours: int
    users: int
    compared: dict[str, int]  # by channel: how many values in each run
    differences: tuple[Difference, ...]  # the first one of each channel
    shift: float | None  # largest distance of exact values, as a share of what the stated loss allows; None: no such statement
    on_grid: bool  # whether policies were compared by their actions on a grid, too: their class is not the library's
    undecided: tuple[str, ...] = ()  # channels that differ from run to run on the same data, or cannot be replayed
    own_draws: bool = False  # whether the agent draws noise of its own, which no replay can follow

    def joined(self, other: "Replay") -> "Replay":
        """The results of two replays of one agent."""
        shifts = [shift for shift in (self.shift, other.shift) if shift is not None]
        mine = {each.channel for each in self.differences}
        return replace(
            self,
            differences=(*self.differences, *(each for each in other.differences if each.channel not in mine)),
            shift=max(shifts) if shifts else None,
            undecided=tuple(name for name in CHANNELS if name in {*self.undecided, *other.undecided}),
            own_draws=self.own_draws or other.own_draws,
        )

    @property
    def refuted(self) -> bool:
        return bool(self.differences) or (self.shift is not None and self.shift > 1 + _ROUNDING)

    def said(self) -> list[str]:
        """The result in sentences."""
        found = [f"{each}" for each in self.differences]
        if self.shift is not None and self.shift > 1 + _ROUNDING:
            found.append(
                f"the exact statistics of two neighbours are {self.shift:.3g} times as far apart as the stated loss allows"
            )
        same = [name for name in self.compared if name not in {each.channel for each in self.differences} | set(self.undecided)]
        whom = f"{self.neighbours} neighbouring data sets of {self.users} users, the same releases"
        said = [
            f"replay: {whom}: "
            + ("; ".join(found) if found else f"the same bytes in {', '.join(same)}" if same else "nothing was compared")
        ]
        if self.shift is not None and not found:
            said.append(
                f"replay: exact statistics of neighbours were up to {100 * self.shift:.0f} % as far apart as the loss allows"
            )
        if self.on_grid:
            said.append(
                "replay: policies of classes that are not the library's were also compared by their actions on a grid of states"
            )
        if self.undecided:
            why = "the agent draws noise of its own, which a replay cannot follow"
            if not self.own_draws:
                why = "these differ between runs on the same data"
            said.append(f"replay: NOT DECIDED for {', '.join(self.undecided)}: {why}")
        return said

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("neighbours", "users", "compared", "shift", "on_grid", "refuted")}
        differences = [{name: getattr(each, name) for name in each.__slots__} for each in self.differences]
        return plain | {"differences": differences, "undecided": list(self.undecided), "said": self.said()}


def replay(make: Maker, problem: Any, *, neighbours: int = 64, seed: int = 0) -> Replay:
    """Run the agent that `make(noise)` makes on neighbouring data sets of a problem with the same releases, and compare what leaves.

    The first run serves all users of the agent, sampled from the problem. In each other run one of them is replaced, by arbitrary data or
    by data that contribute zero, and all releases are those of the first run. One run on the same data shows what differs anyway.
    """
    if not callable(make):
        raise InvalidParameter(f"make must be a function of a noise source, got make={shown(make)}")
    has("problem", problem, ("public", "sample"), "a problem, such as confide.problems.lock()")
    whole("neighbours", neighbours, at_least=1)
    whole("seed", seed, at_least=0)
    plain = _replayed(make, problem, neighbours, seed, counted=False)
    counts = callable(getattr(problem, "count", None)) and _counts(make)
    if not counts:
        return plain
    try:
        return plain.joined(_replayed(make, problem, neighbours, seed, counted=True))
    except Exception:  # it takes no counts, whatever it says: a run on counts would fail, too
        return plain


def _counts(make: Maker) -> bool:
    """Whether the agent also takes transition counts, as simulations give them to it: it must keep its guarantee on these, too."""
    agent = make(FastSource(np.random.default_rng(0)))
    return abilities_of(agent).counts and not agent.guarantee.trust.devices


def _replayed(make: Maker, problem: Any, neighbours: int, seed: int, *, counted: bool) -> Replay:
    first = _Run(make, problem, seed, counted=counted)
    first.go()
    if first.failed is not None:
        raise first.failed
    unstable = {each.channel for each in _compare(first, first.again(first.people), 0)}
    found: dict[str, Difference] = {}
    shift = 0.0
    for who, person in islice(_replacements(first, problem, seed), neighbours):
        people = [*first.people[:who], person, *first.people[who + 1 :]]
        other = first.again(people)
        differing = [each for each in _compare(first, other, who) if each.channel not in found]
        if differing:  # only what follows the data counts: both data sets once more
            unstable |= {each.channel for each in _compare(first, first.again(first.people), 0)}
            unstable |= {each.channel for each in _compare(other, first.again(people), 0)}
        for each in differing:
            found.setdefault(each.channel, each)
        shift = max(shift, first.share(other.tape))
    decided = tuple(each for name, each in found.items() if name not in unstable and not first.tape.own_draws)
    return Replay(
        neighbours=neighbours,
        users=len(first.people),
        compared={name: len(first.shown[name]) for name in CHANNELS if first.shown[name]},
        differences=decided,
        shift=shift if first.comparable and not first.tape.own_draws else None,
        on_grid=first.on_grid,
        undecided=tuple(CHANNELS) if first.tape.own_draws else tuple(name for name in CHANNELS if name in unstable),
        own_draws=bool(first.tape.own_draws),
    )


@dataclass
class _Run:
    """One run, and everything that it shows: for each channel (users served, digest), in order."""

    make: Maker
    problem: Any
    seed: int
    people: list[Trajectories] = field(default_factory=list)  # empty: sampled on the way
    counted: bool = False  # users come as transition counts, one by one
    tape: Tape = field(default_factory=Tape)
    shown: dict[str, list[tuple[int, bytes]]] = field(default_factory=lambda: {name: [] for name in CHANNELS})
    failed: Exception | None = None
    on_grid: bool = False
    served: int = 0
    agent: Any = None
    _last: Any = None  # the round that was shown last
    _handed: list[Any] = field(default_factory=list)  # all policies

    def again(self, people: list[Trajectories]) -> "_Run":
        """The same agent on other data, with the same releases."""
        made = _Run(self.make, self.problem, self.seed, people, self.counted, Tape(self.tape))
        made.go()
        return made

    def go(self) -> None:
        printed, sampled = io.StringIO(), not self.people
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
            warnings.simplefilter("always")
            try:
                self._serve(sampled)
            except Exception as error:  # whether there is one, and what it says, is seen by whoever runs the agent
                self.failed = error
                self._show("errors", (type(error).__qualname__, str(error)))
        self._show("printed", printed.getvalue())
        self._show("schedule", self.tape.kinds())

    def _serve(self, sampled: bool) -> None:
        agent = self.agent = self.make(TapedSource(FastSource(np.random.default_rng([self.seed, 0])), self.tape))
        if getattr(agent, "rng", False) is None:
            agent.rng = np.random.default_rng([self.seed, 1])
        self.tape.stated = not isinstance(agent.guarantee.request, NoPrivacy)
        world, sizes = (np.random.default_rng([self.seed, stream]) for stream in (2, 3))
        self._describe()
        total = int(agent.episodes)
        while self.served < total:
            batch = agent.next_batch()
            self._show("schedule", int(batch.users))
            self._show_policy(batch.policy)
            self._show_round()
            size = int(sizes.integers(1, min(int(batch.users), total - self.served) + 1))
            if sampled:
                new = self.problem.sample(batch.policy, size, world)
                self.people += [new[i : i + 1] for i in range(size)]
            users = self.people[self.served : self.served + size]
            (self._messages if agent.guarantee.trust.devices else self._observe)(users)
            self._show("policies", self._handed[-1])  # again: it may have been written to
            self.served += size
        self._show_round()
        self._describe()
        self._show("policies", self._handed)

    def _observe(self, users: list[Trajectories]) -> None:
        parts = ([getattr(user, name) for user in users] for name in ("states", "actions", "rewards"))
        batch = Trajectories(*(np.concatenate(part) for part in parts))
        self.agent.observe(_as_counts(batch) if self.counted else batch)

    def _messages(self, users: list[Trajectories]) -> None:
        for user in users:
            device = self.agent.client()
            self._show_policy(device.adopt(self.agent.current_round(), self.agent.released().generation))
            message = device.report(user)
            self._show("messages", (bytes(message), bytes(device.report(user)), bytes(device.save())))
            self.agent.absorb(message)

    def _show(self, channel: str, value: Any) -> None:
        self.shown[channel].append((self.served, canonical(value)))

    def _show_policy(self, policy: Any) -> None:
        self._handed.append(policy)
        self._show("policies", policy)
        if type(policy).__module__ != "confide.policy" and callable(getattr(policy, "act", None)):
            self.on_grid = True
            self._show("policies", [_acted(policy, step, state) for step, state in self._grid()])

    def _grid(self) -> Iterator[tuple[int, Any]]:
        """Public steps and states: all states of a finite problem if they are few, vectors for others."""
        states, horizon = getattr(self.problem, "states", None), min(self.problem.horizon, _STEPS)
        if isinstance(states, int):
            points: list[Any] = list(range(min(states, _STATES)))
        else:
            shape = self.people[0].states.shape[2:] if self.people else (len(self.problem.A),)
            points = list(np.random.default_rng(0).normal(size=(16, *shape)))
        return ((step, point) for step in range(horizon) for point in points)

    def _show_round(self) -> None:
        """What a learner has released, and what it planned from that; an agent of another kind may show less."""
        agent = self.agent
        if abilities_of(agent).levels:
            self._show("releases", (agent.noise_level, agent.signal))
        if not isinstance(agent, Learner):
            return
        released = agent.released()
        self._show("releases", (released.values, released.noise, released.users, released.generation))
        self._show("memory", dict(released.memory))
        if agent.users == agent.episodes or agent.current_round() is self._last:
            return
        planned = self._last = agent.current_round()
        self._show("questions", (planned.statistic, planned.shares))
        self._show("memory", dict(planned.memory))
        self._show("policies", planned.policies)

    def _describe(self) -> None:
        agent = self.agent
        said = [str(agent.guarantee), getattr(agent, "name", None), getattr(agent, "settings", None)]
        if "__repr__" in {name for kind in type(agent).__mro__[:-1] for name in vars(kind)}:  # object's has an address
            said.append(repr(agent))
        if abilities_of(agent).mechanisms:
            said += [mechanism.to_json() for mechanism in agent.mechanisms()]
        if isinstance(agent, Learner):
            said.append(facts(agent).to_json())
        self._show("descriptions", said)

    @property
    def comparable(self) -> bool:
        guarantee = self.agent.guarantee
        told = isinstance(guarantee.loss, GaussianDP | PureDP) or guarantee.trust is Trust.DISTRIBUTED
        return told and not isinstance(guarantee.request, NoPrivacy)

    def share(self, other: Tape) -> float:
        """How far apart exact values are, as a share of what the stated loss allows."""
        mu, epsilon = self.tape.shift(other)
        loss = self.agent.guarantee.loss
        if isinstance(loss, ApproxDP) and self.comparable and not epsilon:  # sums with Gaussian noise, in terms of epsilon
            return gaussian_epsilon(mu, loss.delta) / loss.epsilon
        if isinstance(loss, GaussianDP):
            return mu / loss.mu if not epsilon else float("inf")
        return epsilon / loss.epsilon if isinstance(loss, PureDP) and not mu else float("inf")


def _as_counts(users: Trajectories) -> TransitionCounts:
    """Each transition of each user as a row of its own."""
    n, H = users.rewards.shape
    states, actions = users.states.astype(np.int64), users.actions.astype(np.int64).ravel()
    step, ones = np.tile(np.arange(H), n), np.ones(n * H, dtype=np.int64)
    now, after = states[:, :-1].ravel(), states[:, 1:].ravel()
    return TransitionCounts(step, now, actions, after, users.rewards.astype(float).ravel(), ones, n, H)


def _acted(policy: Any, step: int, state: Any) -> Any:
    try:
        return policy.act(step, state, np.random.default_rng([step]))
    except Exception as error:
        return type(error).__qualname__


def _compare(one: _Run, other: _Run, who: int) -> Iterator[Difference]:
    """The first difference of each channel."""
    for channel in CHANNELS:
        mine, others = one.shown[channel], other.shown[channel]
        if mine != others:
            at = next((i for i, (a, b) in enumerate(zip(mine, others, strict=False)) if a != b), min(len(mine), len(others)))
            served = (mine[at:] or others[at:])[0][0]
            yield Difference(channel, who, served)


def _replacements(first: _Run, problem: Any, seed: int) -> Iterator[tuple[int, Trajectories]]:
    """Neighbours, without end: one user after the other in a random order, replaced by arbitrary data or by data that contribute zero."""
    rng, swap = np.random.default_rng([seed, 4]), 0
    while True:
        for turn, who in enumerate(rng.permutation(len(first.people))):
            arbitrary = first.agent.guarantee.relation is not Relation.NULL and (turn + swap) % 2 == 0
            yield int(who), stranger(first.people[who], problem, rng) if arbitrary else nobody(first.people[who])
        swap += 1


def stranger(user: Trajectories, problem: Any, rng: np.random.Generator) -> Trajectories:
    """Arbitrary data of the same kind, possible or not."""

    def drawn(values: Any, most: int) -> Any:
        if values.dtype.kind in "iu":
            return rng.integers(most, size=values.shape, dtype=values.dtype)
        return rng.normal(size=values.shape) * (1 + np.abs(np.nan_to_num(values)).max())

    states, actions = (getattr(problem, name, 1) for name in ("states", "actions"))
    rewards = rng.random(user.rewards.shape)
    return Trajectories(drawn(user.states, states), drawn(user.actions, actions), rewards)


def nobody(user: Trajectories) -> Trajectories:
    """Data that contribute zero: states and actions do not exist, or are no numbers."""

    def missing(values: Any) -> Any:
        return np.full_like(values, -1) if values.dtype.kind in "iu" else np.full_like(values, np.nan)

    return Trajectories(missing(user.states), missing(user.actions), np.zeros_like(user.rewards))
