"""Replay: neighbouring data sets with the same releases must give the same bytes, in everything that leaves.

A guarantee covers what goes through a privatizer. Everything else that an agent shows (policies, batch sizes, questions, memory, messages,
descriptions) must be a function of releases. So an agent is run once, and again with one user's data replaced, while each release is the
first run's. Whatever differs then depends on that user's data past the noise. The exact values that are noised do differ: their distance,
in units of the noise, must not exceed the stated loss, whatever the questions were.

In a run of its own the agent is used as a service uses it, and its public surface is read between users (`surface`).
"""

import contextlib
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from confide.agents.facts import facts
from confide.arguments import has, shown, whole
from confide.audit.canonical import canonical, words_of
from confide.audit.neighbours import nobody, stranger
from confide.audit.surface import Surface, without_address
from confide.audit.tape import Tape, TapedSource
from confide.errors import BatchNotOpened, InvalidParameter, StreamExhausted
from confide.learning.agent import abilities_of
from confide.learning.learner import Learner
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.privacy.accounting import gaussian_epsilon
from confide.privacy.loss import ApproxDP, GaussianDP, PureDP
from confide.privacy.request import NoPrivacy, Relation, Trust
from confide.problems.problem import Problem
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
# The run of a service has fewer neighbours than the others, because it looks at the agent after each user.
_SERVICE_SHARE = 4
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
        return f"{_in_words(self.channel)} on the data of user {self.replaced}, first seen after {self.served} users"


def _in_words(channel: str) -> str:
    """A channel as the subject of a sentence, with its verb."""
    if channel in CHANNELS:
        return f"{CHANNELS[channel]} depend"
    return f"the {'result of ' if channel.endswith('()') else 'public attribute '}{channel} depends"


@dataclass(frozen=True, slots=True)
class Replay:
    """What was compared, and what was found. A replay can refute a guarantee; that it found nothing is not a proof."""

    neighbours: int
    users: int
    compared: dict[str, int]  # by channel: how many values in each run
    differences: tuple[Difference, ...]  # the first one of each channel
    # largest distance of exact values, as a share of what the stated loss allows; None: no such statement
    shift: float | None
    # whether policies were compared by their actions on a grid, too: their class is not the library's
    on_grid: bool
    # channels that differ from run to run on the same data, or cannot be replayed
    undecided: tuple[str, ...] = ()
    own_draws: bool = False  # whether the agent draws noise of its own, which no replay can follow
    # public attributes and methods: how often each was read
    surface: dict[str, int] = field(default_factory=dict)
    # what of the surface and of the channels was not compared, and why
    left_out: dict[str, str] = field(default_factory=dict)

    def joined(self, other: "Replay") -> "Replay":
        """The results of two replays of one agent."""
        shifts = [shift for shift in (self.shift, other.shift) if shift is not None]
        mine = {each.channel for each in self.differences}
        return replace(
            self,
            differences=(
                *self.differences,
                *(each for each in other.differences if each.channel not in mine),
            ),
            shift=max(shifts) if shifts else None,
            undecided=tuple(dict.fromkeys((*self.undecided, *other.undecided))),
            own_draws=self.own_draws or other.own_draws,
            surface=self.surface | other.surface,
            left_out=self.left_out | other.left_out,
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
        same = [
            name
            for name in self.compared
            if name not in {each.channel for each in self.differences} | set(self.undecided)
        ]
        whom = f"{self.neighbours} neighbouring data sets of {self.users} users, the same releases"
        said = [
            f"replay: {whom}: "
            + (
                "; ".join(found)
                if found
                else f"the same bytes in {', '.join(same)}"
                if same
                else "nothing was compared"
            )
        ]
        if self.surface:
            methods = [name for name in self.surface if name.endswith("()")]
            read = f"{len(self.surface) - len(methods)} public attributes and {len(methods)} methods of the agent were read"
            said.append(f"replay: {read} between users, as a service would use it")
        if self.left_out:
            said.append(
                "replay: not compared: "
                + "; ".join(f"{name} ({why})" for name, why in self.left_out.items())
            )
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
        names = (
            "neighbours",
            "users",
            "compared",
            "shift",
            "on_grid",
            "refuted",
            "surface",
            "left_out",
        )
        plain = {name: getattr(self, name) for name in names}
        differences = [
            {name: getattr(each, name) for name in each.__slots__} for each in self.differences
        ]
        return plain | {
            "differences": differences,
            "undecided": list(self.undecided),
            "said": self.said(),
        }


def replay(make: Maker, problem: Problem, *, neighbours: int = 64, seed: int = 0) -> Replay:
    """Run the agent that `make(noise)` makes on neighbouring data sets of a problem with the same releases, and compare what leaves.

    The first run serves all users of the agent, sampled from the problem. In each other run one of them is replaced, by arbitrary data or
    by data that contribute zero, and all releases are those of the first run. One run on the same data shows what differs anyway.
    """
    if not callable(make):
        raise InvalidParameter(f"make must be a function of a noise source, got make={shown(make)}")
    has("problem", problem, ("public", "sample"), "a problem, such as confide.problems.lock()")
    whole("neighbours", neighbours, at_least=1)
    whole("seed", seed, at_least=0)
    result = _replayed(make, problem, neighbours, seed)
    result = result.joined(
        _replayed_by_a_service(make, problem, max(1, neighbours // _SERVICE_SHARE), seed)
    )
    if callable(getattr(problem, "count", None)) and _counts(make):
        # Whatever it declares, an agent that fails here takes no counts: a run on counts would fail, too.
        with contextlib.suppress(Exception):
            result = result.joined(_replayed(make, problem, neighbours, seed, counted=True))
    return result


def _replayed_by_a_service(make: Maker, problem: Problem, neighbours: int, seed: int) -> Replay:
    """With the public surface. An agent that no service can use is still looked at, while it serves batches."""
    try:
        return _replayed(make, problem, neighbours, seed, surface=True, service=True)
    except Exception as error:
        why = f"the agent fails if a service uses it: {type(error).__name__}"
        result = _replayed(make, problem, neighbours, seed, surface=True)
        return replace(result, left_out={**result.left_out, "use by a service": why})


def _counts(make: Maker) -> bool:
    """Whether the agent also takes transition counts, as simulations give them to it: it must keep its guarantee on these, too."""
    agent = make(FastSource(np.random.default_rng(0)))
    return abilities_of(agent).counts and not agent.guarantee.trust.devices


def _replayed(
    make: Maker,
    problem: Problem,
    neighbours: int,
    seed: int,
    *,
    counted: bool = False,
    surface: bool = False,
    service: bool = False,
) -> Replay:
    first = _Run(make, problem, seed, counted=counted, read=surface, service=service)
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
    decided = tuple(
        each for name, each in found.items() if name not in unstable and not first.tape.own_draws
    )
    return Replay(
        neighbours=neighbours,
        users=len(first.people),
        compared={name: len(first.shown[name]) for name in CHANNELS if first.shown[name]},
        surface={
            name.removeprefix("agent."): len(values)
            for name, values in first.shown.items()
            if name not in CHANNELS
        },
        left_out=first.left_out | (first.surface.left_out if first.surface else {}),
        differences=decided,
        shift=shift if first.comparable and not first.tape.own_draws else None,
        on_grid=first.on_grid,
        undecided=tuple(CHANNELS)
        if first.tape.own_draws
        else tuple(name for name in first.shown if name in unstable),
        own_draws=bool(first.tape.own_draws),
    )


@dataclass
class _Run:
    """One run, and everything that it shows: for each channel (users served, digest), in order."""

    make: Maker
    problem: Problem
    seed: int
    people: list[Trajectories] = field(default_factory=list)  # empty: sampled on the way
    counted: bool = False  # users come as transition counts, one by one
    read: bool = False  # its public surface is read
    service: bool = False  # it is used as a service uses it
    tape: Tape = field(default_factory=Tape)
    shown: dict[str, list[tuple[int, bytes]]] = field(
        default_factory=lambda: {name: [] for name in CHANNELS}
    )
    # Why parts of what is shown cannot be compared.
    left_out: dict[str, str] = field(default_factory=dict)
    failed: Exception | None = None
    on_grid: bool = False
    served: int = 0
    agent: Any = None
    surface: Surface | None = None
    _last: Any = None  # the round that was shown last
    _handed: list[Any] = field(default_factory=list)  # all policies

    def again(self, people: list[Trajectories]) -> "_Run":
        """The same agent on other data, with the same releases."""
        made = _Run(
            self.make,
            self.problem,
            self.seed,
            people,
            self.counted,
            self.read,
            self.service,
            Tape(self.tape),
        )
        made.go()
        return made

    def go(self) -> None:
        printed, sampled = io.StringIO(), not self.people
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("always")
            try:
                self._serve(sampled)
            # whether there is one, and what it says, is seen by whoever runs the agent
            except Exception as error:
                self.failed = error
                self._show("errors", words_of(error))
        self._show("printed", printed.getvalue())
        self._show("schedule", self.tape.kinds())

    def _serve(self, sampled: bool) -> None:
        agent = self.agent = self.make(
            TapedSource(FastSource(np.random.default_rng([self.seed, 0])), self.tape)
        )
        if getattr(agent, "rng", False) is None:
            agent.rng = np.random.default_rng([self.seed, 1])
        self.tape.stated = not isinstance(agent.guarantee.request, NoPrivacy)
        world, sizes = (np.random.default_rng([self.seed, stream]) for stream in (2, 3))
        self._describe()
        if self.read:
            self.surface = Surface(agent)
            self._show_surface()
        if self.service and isinstance(agent, Learner):
            self._serve_like_a_service(sampled, world, sizes)
        else:
            self._serve_batches(sampled, world, sizes)
        self._show_round()
        self._describe()
        self._show("policies", self._handed)
        self._show_surface()

    def _serve_batches(
        self, sampled: bool, world: np.random.Generator, sizes: np.random.Generator
    ) -> None:
        agent = self.agent
        total = int(agent.episodes)
        while self.served < total:
            batch = agent.next_batch()
            self._show("schedule", int(batch.users))
            self._show_policy(batch.policy)
            self._show_round()
            self._show_surface()
            size = int(sizes.integers(1, min(int(batch.users), total - self.served) + 1))
            if sampled:
                new = self.problem.sample(batch.policy, size, world)
                self.people += [new[i : i + 1] for i in range(size)]
            users = self.people[self.served : self.served + size]
            (self._messages if agent.guarantee.trust.devices else self._observe)(users)
            self._show("policies", self._handed[-1])  # again: it may have been written to
            self._show_surface()
            self.served += size

    def _serve_like_a_service(
        self, sampled: bool, world: np.random.Generator, sizes: np.random.Generator
    ) -> None:
        """Users are assigned one by one. Batches are closed early, in turn with a sum of the service's own, or when they are full."""
        agent, batches = self.agent, 0
        while self.served < int(agent.episodes):
            try:
                size = int(agent.batch_size)
                given = agent.assign(int(sizes.integers(2**62)) << 66)
            except StreamExhausted:
                return
            if size == 0:
                return
            self._show("schedule", size)
            self._show_policy(given.policy)
            self._show_round()
            users = int(sizes.integers(1, size + 1))
            if sampled:
                new = self.problem.sample(given.policy, users, world)
                self.people += [new[i : i + 1] for i in range(users)]
            self._report(
                self.people[self.served : self.served + users], given.generation, size, batches
            )
            self.served += users
            batches += 1

    def _report(self, users: list[Trajectories], generation: int, size: int, batches: int) -> None:
        """What the users of one batch did, and its end."""
        agent = self.agent
        devices, shares = agent.guarantee.trust.devices, agent.guarantee.trust is Trust.DISTRIBUTED
        if shares:
            self._shares(users)
            if len(users) < size:
                with contextlib.suppress(BatchNotOpened):
                    agent.shares.stay_away(size - len(users))
        elif batches % 2 and agent.abilities.sums:
            added: Any = 0
            for user in users:
                added = added + (self._decoded(user) if devices else agent.contribution(user).steps)
            self._show_surface()
            agent.close(added, len(users))
        else:
            for i, user in enumerate(users):
                if devices:
                    self._messages([user])
                elif "generation" in inspect.signature(agent.observe).parameters:
                    agent.observe(user, generation=generation)
                else:  # of somebody's own
                    agent.observe(user)
                if i in (0, len(users) - 2):
                    self._show_surface()
            if len(users) < size:
                self._show_surface()
                agent.close()
        self._show_surface()

    def _decoded(self, user: Trajectories) -> Any:
        device = self.agent.client()
        self._show_policy(
            device.adopt(self.agent.current_round(), self.agent.released().generation)
        )
        message = device.report(user)
        decoded = self.agent.decoded(message)
        self._show("messages", (bytes(message), decoded))
        return decoded

    def _show_surface(self) -> None:
        if self.surface is not None:
            for name, digest in self.surface.read():
                self.shown.setdefault(f"agent.{name}", []).append((self.served, digest))

    def _observe(self, users: list[Trajectories]) -> None:
        parts = (
            [getattr(user, name) for user in users] for name in ("states", "actions", "rewards")
        )
        batch = Trajectories(*(np.concatenate(part) for part in parts))
        self.agent.observe(_as_counts(batch) if self.counted else batch)

    def _messages(self, users: list[Trajectories]) -> None:
        if self.agent.guarantee.trust is Trust.DISTRIBUTED:
            self._shares(users)
            return
        for user in users:
            device = self.agent.client()
            self._show_policy(
                device.adopt(self.agent.current_round(), self.agent.released().generation)
            )
            message = device.report(user)
            self._show(
                "messages", (bytes(message), bytes(device.report(user)), bytes(device.save()))
            )
            self.agent.absorb(message)

    def _shares(self, users: list[Trajectories]) -> None:
        """Devices under an ideal aggregator. What it opens is in the releases; nothing else of a device may be seen."""
        for user in users:
            device = self.agent.shares.client()
            self._show_policy(
                device.adopt(self.agent.current_round(), self.agent.released().generation)
            )
            device.contribute(user, self.agent.shares.simulate_aggregation)
            self._show("messages", (repr(device), device.batch))

    def _show(self, channel: str, value: Any) -> None:
        unread: dict[str, str] = {}
        self.shown[channel].append((self.served, canonical(value, unread)))
        self.left_out |= {f"{part} in {channel}": why for part, why in unread.items()}

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
            shape = (
                self.people[0].states.shape[2:] if self.people else (self.problem.public.states,)
            )
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
        self._show(
            "releases", (released.values, released.noise, released.users, released.generation)
        )
        self._show("memory", dict(released.memory))
        try:
            planned = None if agent.users == agent.episodes else agent.current_round()
        except StreamExhausted:  # batches were closed early, and all releases were made
            return
        if planned is None or planned is self._last:
            return
        self._last = planned
        self._show("questions", (planned.statistic, planned.shares))
        self._show("memory", dict(planned.memory))
        self._show("policies", planned.policies)

    def _describe(self) -> None:
        agent = self.agent
        said = [
            str(agent.guarantee),
            getattr(agent, "name", None),
            getattr(agent, "settings", None),
            without_address(repr(agent), agent),
        ]
        if abilities_of(agent).mechanisms:
            said += [mechanism.to_json() for mechanism in agent.mechanisms()]
        if isinstance(agent, Learner):
            said.append(facts(agent).to_json())
        self._show("descriptions", said)

    @property
    def comparable(self) -> bool:
        guarantee = self.agent.guarantee
        told = (
            isinstance(guarantee.loss, GaussianDP | PureDP) or guarantee.trust is Trust.DISTRIBUTED
        )
        return told and not isinstance(guarantee.request, NoPrivacy)

    def share(self, other: Tape) -> float:
        """How far apart exact values are, as a share of what the stated loss allows."""
        mu, epsilon = self.tape.shift(other)
        loss = self.agent.guarantee.loss
        # sums with Gaussian noise, in terms of epsilon
        if isinstance(loss, ApproxDP) and self.comparable and not epsilon:
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
    return TransitionCounts(
        step, now, actions, after, users.rewards.astype(float).ravel(), ones, n, H
    )


def _acted(policy: Any, step: int, state: Any) -> Any:
    try:
        return policy.act(step, state, np.random.default_rng([step]))
    except Exception as error:
        return type(error).__qualname__


def _compare(one: _Run, other: _Run, who: int) -> Iterator[Difference]:
    """The first difference of each channel."""
    for channel in {**one.shown, **other.shown}:
        mine, others = one.shown.get(channel, []), other.shown.get(channel, [])
        if mine != others:
            at = next(
                (i for i, (a, b) in enumerate(zip(mine, others, strict=False)) if a != b),
                min(len(mine), len(others)),
            )
            served = (mine[at:] or others[at:])[0][0]
            yield Difference(channel, who, served)


def _replacements(first: _Run, problem: Problem, seed: int) -> Iterator[tuple[int, Trajectories]]:
    """Neighbours, without end: one user after the other in a random order, replaced by arbitrary data or by data that contribute zero."""
    rng, swap = np.random.default_rng([seed, 4]), 0
    while True:
        for turn, who in enumerate(rng.permutation(len(first.people))):
            arbitrary = (
                first.agent.guarantee.relation is not Relation.NULL and (turn + swap) % 2 == 0
            )
            yield (
                int(who),
                stranger(first.people[who], problem, rng)
                if arbitrary
                else nobody(first.people[who]),
            )
        swap += 1
