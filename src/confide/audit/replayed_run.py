"""One run of an agent for a replay, and the bytes of everything that it shows.

Everything is deterministic: seeds are fixed, and every release of a second run is that of the first
one (`tape`). The values that are kept here are digests, never data.
"""

import contextlib
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.agents.facts import facts
from confide.audit.canonical import canonical, words_of
from confide.audit.replay_result import CHANNELS
from confide.audit.surface import Surface, without_address
from confide.audit.tape import Tape, TapedSource
from confide.errors import BatchNotOpened, StreamExhausted
from confide.learning.agent import abilities_of
from confide.learning.learner import Learner
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.privacy.accounting import gaussian_epsilon
from confide.privacy.loss import ApproxDP, GaussianDP, PureDP
from confide.privacy.request import NoPrivacy, Trust
from confide.problems.problem import Problem
from confide.trajectory import Trajectories, TransitionCounts

# The grid on which policies of unknown classes are compared: at most so many steps and numbered
# states, or so many drawn vectors. A matter of taste.
_GRID_STEPS = 32
_GRID_STATES = 128
_GRID_VECTORS = 16

# Makes the agent that is replayed, with the source of noise that it must use.
Maker = Callable[[NoiseSource], Any]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What all runs of one replay have in common.

    - `gives_counts`: users come as transition counts, and not as trajectories.
    - `reads_surface`: the agent's public surface is read between users.
    - `like_a_service`: the agent is used as a service uses it.
    """

    make: Maker
    problem: Problem
    seed: int
    gives_counts: bool = False
    reads_surface: bool = False
    like_a_service: bool = False


class ReplayedRun:
    """One run. `shown` has for each channel what was shown, in order: (users served, digest).

    If no `people` are given, they are sampled on the way, with the policies of the agent.
    `left_out` says why parts of what is shown cannot be compared, `failed` is the error that ended
    the run, and `on_grid` says whether policies were also compared by their actions.
    """

    def __init__(
        self,
        settings: RunSettings,
        people: list[Trajectories] | None = None,
        tape: Tape | None = None,
    ) -> None:
        self.settings = settings
        self.people = people or []
        self.tape = tape or Tape()
        self.shown: dict[str, list[tuple[int, bytes]]] = {name: [] for name in CHANNELS}
        self.left_out: dict[str, str] = {}
        self.failed: Exception | None = None
        self.on_grid = False
        self.agent: Any = None
        self.surface: Surface | None = None
        self._samples_people = not self.people
        self._served = 0
        self._last_round: Any = None
        # All policies that were handed out. They are looked at again at the end.
        self._policies: list[Any] = []

    def again(self, people: list[Trajectories]) -> "ReplayedRun":
        """The same agent on other data, with the same releases."""
        other = ReplayedRun(self.settings, people, Tape(self.tape))
        other.go()
        return other

    def go(self) -> None:
        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("always")
            try:
                self._serve()
            # Whoever runs the agent sees whether there is an error, and what it says.
            except Exception as error:
                self.failed = error
                self._show("errors", words_of(error))
        self._show("printed", printed.getvalue())
        self._show("schedule", self.tape.kinds())

    def _serve(self) -> None:
        seed = self.settings.seed
        noise = TapedSource(FastSource(np.random.default_rng([seed, 0])), self.tape)
        agent = self.settings.make(noise)
        self.agent = agent
        if getattr(agent, "rng", False) is None:
            agent.rng = np.random.default_rng([seed, 1])
        self.tape.stated = not isinstance(agent.guarantee.request, NoPrivacy)
        world = np.random.default_rng([seed, 2])
        sizes = np.random.default_rng([seed, 3])
        self._describe()
        if self.settings.reads_surface:
            self.surface = Surface(agent)
            self._show_surface()
        if self.settings.like_a_service and isinstance(agent, Learner):
            self._serve_like_a_service(world, sizes)
        else:
            self._serve_batches(world, sizes)
        self._show_round()
        self._describe()
        self._show("policies", self._policies)
        self._show_surface()

    def _serve_batches(self, world: np.random.Generator, sizes: np.random.Generator) -> None:
        agent = self.agent
        episodes = int(agent.episodes)
        while self._served < episodes:
            batch = agent.next_batch()
            self._show("schedule", int(batch.users))
            self._show_policy(batch.policy)
            self._show_round()
            self._show_surface()
            largest = min(int(batch.users), episodes - self._served)
            users = self._next_people(batch.policy, int(sizes.integers(1, largest + 1)), world)
            if agent.guarantee.trust.devices:
                self._send_messages(users)
            else:
                self._observe(users)
            # Again, because somebody may have written to it.
            self._show("policies", self._policies[-1])
            self._show_surface()
            self._served += len(users)

    def _serve_like_a_service(self, world: np.random.Generator, sizes: np.random.Generator) -> None:
        """Assign users one by one.

        In turn, batches are closed early, with a sum of the service's own, or when they are full.
        """
        agent = self.agent
        batches = 0
        while self._served < int(agent.episodes):
            try:
                size = int(agent.batch_size)
                assigned = agent.assign(int(sizes.integers(2**62)) << 66)
            except StreamExhausted:
                return
            if size == 0:
                return
            self._show("schedule", size)
            self._show_policy(assigned.policy)
            self._show_round()
            users = self._next_people(assigned.policy, int(sizes.integers(1, size + 1)), world)
            self._report_batch(users, assigned.generation, size, with_own_sum=batches % 2 == 1)
            self._served += len(users)
            batches += 1

    def _next_people(
        self, policy: Any, count: int, world: np.random.Generator
    ) -> list[Trajectories]:
        if self._samples_people:
            sample = self.settings.problem.sample(policy, count, world)
            self.people += [sample[i : i + 1] for i in range(count)]
        return self.people[self._served : self._served + count]

    def _report_batch(
        self, users: list[Trajectories], generation: int, size: int, *, with_own_sum: bool
    ) -> None:
        """What the users of one batch did, and its end."""
        agent = self.agent
        if agent.guarantee.trust is Trust.DISTRIBUTED:
            self._contribute_shares(users)
            if len(users) < size:
                with contextlib.suppress(BatchNotOpened):
                    agent.shares.stay_away(size - len(users))
        elif with_own_sum and agent.abilities.sums:
            self._close_with_own_sum(users)
        else:
            self._report_one_by_one(users, generation, size)
        self._show_surface()

    def _close_with_own_sum(self, users: list[Trajectories]) -> None:
        agent = self.agent
        total: Any = 0
        for user in users:
            if agent.guarantee.trust.devices:
                total = total + self._decode_message(user)
            else:
                total = total + agent.contribution(user).steps
        self._show_surface()
        agent.close(total, len(users))

    def _report_one_by_one(self, users: list[Trajectories], generation: int, size: int) -> None:
        agent = self.agent
        for place, user in enumerate(users):
            if agent.guarantee.trust.devices:
                self._send_messages([user])
            elif "generation" in inspect.signature(agent.observe).parameters:
                agent.observe(user, generation=generation)
            else:
                # An agent of somebody's own may take no generation.
                agent.observe(user)
            if place in (0, len(users) - 2):
                self._show_surface()
        if len(users) < size:
            self._show_surface()
            agent.close()

    def _observe(self, users: list[Trajectories]) -> None:
        batch = Trajectories(
            np.concatenate([user.states for user in users]),
            np.concatenate([user.actions for user in users]),
            np.concatenate([user.rewards for user in users]),
        )
        self.agent.observe(_as_counts(batch) if self.settings.gives_counts else batch)

    # Devices.

    def _adopt(self, device: Any) -> None:
        """Give a device the round that it takes part in."""
        generation = self.agent.released().generation
        self._show_policy(device.adopt(self.agent.current_round(), generation))

    def _decode_message(self, user: Trajectories) -> Any:
        device = self.agent.client()
        self._adopt(device)
        message = device.report(user)
        decoded = self.agent.decoded(message)
        self._show("messages", (bytes(message), decoded))
        return decoded

    def _send_messages(self, users: list[Trajectories]) -> None:
        if self.agent.guarantee.trust is Trust.DISTRIBUTED:
            self._contribute_shares(users)
            return
        for user in users:
            device = self.agent.client()
            self._adopt(device)
            message = device.report(user)
            message_again = device.report(user)
            self._show("messages", (bytes(message), bytes(message_again), bytes(device.save())))
            self.agent.absorb(message)

    def _contribute_shares(self, users: list[Trajectories]) -> None:
        """Devices under an ideal aggregator.

        What the aggregator opens is in the releases. Nothing else of a device may be seen.
        """
        for user in users:
            device = self.agent.shares.client()
            self._adopt(device)
            device.contribute(user, self.agent.shares.simulate_aggregation)
            self._show("messages", (repr(device), device.batch))

    # What is shown.

    def _show(self, channel: str, value: Any) -> None:
        unread: dict[str, str] = {}
        self.shown[channel].append((self._served, canonical(value, unread)))
        self.left_out |= {f"{part} in {channel}": why for part, why in unread.items()}

    def _show_surface(self) -> None:
        if self.surface is not None:
            for name, digest in self.surface.read():
                self.shown.setdefault(f"agent.{name}", []).append((self._served, digest))

    def _show_policy(self, policy: Any) -> None:
        self._policies.append(policy)
        self._show("policies", policy)
        if type(policy).__module__ != "confide.policy" and callable(getattr(policy, "act", None)):
            self.on_grid = True
            actions = [_action_or_error(policy, step, state) for step, state in self._grid()]
            self._show("policies", actions)

    def _grid(self) -> Iterator[tuple[int, Any]]:
        """Public steps and states: the first states of a finite problem, vectors for others."""
        problem = self.settings.problem
        states = getattr(problem, "states", None)
        if isinstance(states, int):
            points: list[Any] = list(range(min(states, _GRID_STATES)))
        else:
            if self.people:
                shape = self.people[0].states.shape[2:]
            else:
                shape = (problem.public.states,)
            points = list(np.random.default_rng(0).normal(size=(_GRID_VECTORS, *shape)))
        steps = range(min(problem.horizon, _GRID_STEPS))
        return ((step, point) for step in steps for point in points)

    def _show_round(self) -> None:
        """What a learner has released, and what it planned from that.

        An agent of another kind may show less.
        """
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
        except StreamExhausted:
            # Batches were closed early, and all releases were made.
            return
        if planned is None or planned is self._last_round:
            return
        self._last_round = planned
        self._show("questions", (planned.statistic, planned.shares))
        self._show("memory", dict(planned.memory))
        self._show("policies", planned.policies)

    def _describe(self) -> None:
        agent = self.agent
        descriptions = [
            str(agent.guarantee),
            getattr(agent, "name", None),
            getattr(agent, "settings", None),
            without_address(repr(agent), agent),
        ]
        if abilities_of(agent).mechanisms:
            descriptions += [mechanism.to_json() for mechanism in agent.mechanisms()]
        if isinstance(agent, Learner):
            descriptions.append(facts(agent).to_json())
        self._show("descriptions", descriptions)

    # How far apart exact values may be.

    @property
    def states_a_loss(self) -> bool:
        """Whether the stated loss bounds how far apart exact values are."""
        guarantee = self.agent.guarantee
        if isinstance(guarantee.request, NoPrivacy):
            return False
        has_scale = isinstance(guarantee.loss, GaussianDP | PureDP)
        return has_scale or guarantee.trust is Trust.DISTRIBUTED

    def share_of_loss(self, other: Tape) -> float:
        """How far apart exact values are, as a share of what the stated loss allows."""
        mu, epsilon = self.tape.shift(other)
        loss = self.agent.guarantee.loss
        if isinstance(loss, ApproxDP) and self.states_a_loss and not epsilon:
            # Sums with Gaussian noise, in terms of epsilon.
            return gaussian_epsilon(mu, loss.delta) / loss.epsilon
        if isinstance(loss, GaussianDP) and not epsilon:
            return mu / loss.mu
        if isinstance(loss, PureDP) and not mu:
            return epsilon / loss.epsilon
        return float("inf")


def _as_counts(users: Trajectories) -> TransitionCounts:
    """Each transition of each user as a row of its own."""
    count, horizon = users.rewards.shape
    states = users.states.astype(np.int64)
    return TransitionCounts(
        np.tile(np.arange(horizon), count),
        states[:, :-1].ravel(),
        users.actions.astype(np.int64).ravel(),
        states[:, 1:].ravel(),
        users.rewards.astype(float).ravel(),
        np.ones(count * horizon, dtype=np.int64),
        count,
        horizon,
    )


def _action_or_error(policy: Any, step: int, state: Any) -> Any:
    try:
        return policy.act(step, state, np.random.default_rng([step]))
    except Exception as error:
        return type(error).__qualname__
