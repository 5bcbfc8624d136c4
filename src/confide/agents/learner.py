"""An algorithm at work: releases at public times, a round of users between two of them.

An algorithm is a bound on what one user contributes and a pure function from releases to rounds. Everything else that a learner needs (the
schedule, the privatizer, what is kept of earlier rounds, saving) is the same for all of them, and is here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.agents.agent import Batch
from confide.errors import InvalidParameter, StreamExhausted
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import NoiseSource
from confide.mechanisms.state import pack, unpack
from confide.policy import Policy
from confide.privacy.bounded import Bound, Bounded, NoiseLevel, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee, billboard
from confide.privacy.loss import Loss
from confide.privacy.request import Request
from confide.privatizers import CentralPrivatizer, Schedule
from confide.trajectory import Trajectories, TransitionCounts

Memory = Mapping[str, npt.NDArray[Any]]


class Statistic(Protocol):
    """What the users of one round contribute."""

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded: ...


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What is decided at one release, all of it public: how the next users are served, and what they contribute."""

    policies: tuple[Policy, ...]  # each serves the same share of the round's users, one after the other
    statistic: Statistic
    memory: Memory = field(default_factory=dict)  # what planning after the next release needs of this round: arrays
    signal: float | None = None  # what stands against the noise, for the report


class Algorithm(Protocol):
    """A bound, and a pure function from releases to rounds: the same release gives the same round, on a server or on a device."""

    @property
    def bound(self) -> Bound: ...

    def plan(self, released: Released) -> Round:
        """`released.memory` is the memory of the round before (of the first one: a `seed` [] for whatever is drawn at random)."""


class Learner:
    """Serves users by an algorithm, from what is released about the users before them."""

    name: str
    accepts_counts = True

    def __init__(
        self,
        algorithm: Algorithm,
        schedule: Schedule,
        *,
        privacy: Request,
        noise: NoiseSource | None = None,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> None:
        self.algorithm, self.schedule, self.privacy, self.noise = algorithm, schedule, privacy, noise
        self.rng: np.random.Generator | None = None
        self._counter, self._loss = counter, loss
        self._made: CentralPrivatizer | None = None
        self._memory: Memory | None = None
        self._round: Round | None = None

    @property
    def episodes(self) -> int:
        return self.schedule.users

    @property
    def guarantee(self) -> Guarantee:
        return billboard(self._privatizer.guarantee)

    @property
    def users(self) -> int:
        return self._made.users if self._made else 0

    @property
    def noise_level(self) -> NoiseLevel:
        return self._privatizer.release().noise

    @property
    def signal(self) -> float | None:
        return self._round.signal if self._round else None

    def mechanisms(self) -> list[Mechanism]:
        return [self._privatizer.mechanism()]

    def next_batch(self) -> Batch:
        current = self._current_round()
        users, generation = self.users, self._privatizer.generation
        if users == self.episodes:
            raise StreamExhausted(f"all {self.episodes} users were served")
        start, end = self.schedule.times[generation - 1] if generation else 0, self.schedule.times[generation]
        share = len(current.policies)
        edges = [start + (end - start) * (j + 1) // share for j in range(share)]
        which = next(j for j, edge in enumerate(edges) if edge > users)
        return Batch(current.policies[which], edges[which] - users)

    def released(self) -> Released:
        """All that is public so far, and all that planning needs."""
        if self._memory is None:
            seed = 0 if self.rng is None else int(self.rng.integers(2**62))
            self._memory = {"seed": np.array(seed)}
        return replace(self._privatizer.release(), memory=self._memory)

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        """What these users of the current round contribute. PRIVATE."""
        if self._round is None:
            raise InvalidParameter("users come after the policy that serves them: call next_batch first")
        return self._round.statistic.contribution(users)

    def observe(self, users: Trajectories | TransitionCounts) -> None:
        before = self._privatizer.generation
        self._privatizer.absorb(self.contribution(users))
        if self._privatizer.generation > before:
            self._next_round()

    def save(self) -> bytes:
        """PRIVATE: everything needed to go on."""
        inner = np.frombuffer(self._privatizer.save(), dtype=np.uint8)
        memory = {f"memory.{key}": np.asarray(value) for key, value in self.released().memory.items()}
        return pack("learner", self._privatizer.generation, {}, {"privatizer": inner, **memory})

    def restore(self, data: bytes, *, released: int = 0) -> None:
        """Rounds are functions of releases and of the round before, so the privatizer and the memory are all the state there is.

        `released` is the newest generation that may have left: a service must say it, a run's own state file keeps watch over it.
        """
        state = unpack(data, "learner", released=released)
        self._privatizer.restore(state.arrays["privatizer"].tobytes(), released=released)
        memory = {key.removeprefix("memory."): value for key, value in state.arrays.items() if key.startswith("memory.")}
        self._memory, self._round = memory, None

    def _current_round(self) -> Round:
        if self._round is None:
            self._round = self.algorithm.plan(self.released())
        return self._round

    def _next_round(self) -> None:
        assert self._round is not None
        self._memory, self._round = self._round.memory, None

    @property
    def _privatizer(self) -> CentralPrivatizer:
        if self._made is None:
            if self.noise is None:
                raise InvalidParameter("the agent has no noise yet: confide.run gives it some, or pass noise=")
            self._made = CentralPrivatizer(
                self.algorithm.bound,
                self.schedule,
                privacy=self.privacy,
                noise=self.noise,
                counter=self._counter,
                loss=self._loss,
            )
        return self._made


def choose_schedule(schedule: Schedule | None, default: Schedule) -> Schedule:
    """The caller's schedule, if it covers as many users as the default."""
    if schedule is not None and schedule.users != default.users:
        raise InvalidParameter(f"the schedule ends after {schedule.users} users, episodes={default.users}")
    return schedule or default
