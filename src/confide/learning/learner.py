"""A learner: releases at public times, and a batch of users between two releases.

An algorithm is a bound on what one user contributes and a pure function from releases to rounds. Everything else that a learner needs (the
schedule, the privatizer, what is kept of earlier rounds, saving) is the same for all of them, and is here.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import has, kind, private_kind, whole
from confide.errors import InvalidParameter, PrivacyError, StaleMessage, StateError, StreamExhausted
from confide.identity import Identity, identify
from confide.learning.agent import Abilities, Assignment, Batch, Profile
from confide.learning.arguments import (
    check_calibration,
    check_exact,
    check_policies,
    whole_steps,
)
from confide.learning.client import LocalClient
from confide.learning.message_server import MessageServer, message_server
from confide.learning.resources import Footprint
from confide.learning.round_digest import round_digest
from confide.learning.share_server import ShareServer, share_server
from confide.learning.turns import Turns, in_turn
from confide.mechanisms.counters import Factorisation, counter_identity
from confide.mechanisms.sources import NoiseSource, SecureSource, check_source
from confide.mechanisms.state import StateFile, StateStore, pack, unpack
from confide.policy import Policy
from confide.privacy.bounded import Array, Bound, Bounded, Memory, NoiseLevel, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee, billboard
from confide.privacy.loss import Loss
from confide.privacy.request import Request
from confide.privatizers import (
    AtMost,
    Batches,
    Channel,
    DistributedPrivatizer,
    ExpectedNoise,
    Message,
    Schedule,
    expected_noise,
    make_privatizer,
)
from confide.privatizers.schedule import divided
from confide.privatizers.wire import encode_release
from confide.problems.sizes import ProblemSizes
from confide.trajectory import Trajectories, TransitionCounts

# Of a saved state.
_FORMAT = "learner-2"


class Statistic(Protocol):
    """What the users of one round contribute."""

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded: ...


@dataclass(frozen=True, eq=False)
class Round:
    """What is decided at one release, all of it public: how the next users are served, and what they contribute."""

    policies: tuple[Policy, ...]  # they serve the round's users one after the other
    statistic: Statistic
    # what planning after the next release needs of this round: arrays
    memory: Memory = field(default_factory=dict)
    # size of the released statistics, in the units of their noise: the report compares the two
    signal: float | None = None
    shares: tuple[float, ...] | None = None  # of the users, one for each policy; None: all the same
    # What its users contribute and how many they are, where both change from round to round.
    size: tuple[Bound, int] | None = None

    @cached_property
    def digest(self) -> bytes:
        """What a device's message names."""
        return round_digest(
            self.policies, self.shares, self.statistic, self.size and self.size[0].size
        )

    def __post_init__(self) -> None:
        check_policies(self.policies)

    def serves(self, users: int) -> list[int]:
        """How many of so many users each policy serves."""
        return divided(users, self.shares or (1.0,) * len(self.policies))

    def drawn(self, number: int) -> Policy:
        """The policy of a device that drew this number out of 2^128, before there were any data."""
        edges = np.cumsum(self.shares or (1.0,) * len(self.policies))
        return self.policies[
            int(np.searchsorted(edges[:-1], number / 2.0**128 * edges[-1], side="right"))
        ]


@dataclass(frozen=True, slots=True)
class Description:
    """An algorithm in words, for `confide.explain`."""

    calibration: str  # tight, paper, or a word of its own
    planning: str  # how releases become plans, and what is done about their noise
    # of a least-squares regression: the dimension of its rows, and the norm of the longest
    rows: tuple[int, float] | None = None


class Algorithm(Protocol):
    """A bound, and a pure function from releases to rounds: the same release gives the same round, on a server or on a device."""

    @property
    def bound(self) -> Bound: ...

    def plan(self, released: Released) -> Round:
        """`released.memory` is the memory of the round before (of the first one: a `seed` [] for whatever is drawn at random)."""

    def describe(self) -> Description: ...


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """All that is chosen before the data. Agents make it with two pure functions, `tight(...)` and `paper(...)`."""

    algorithm: Algorithm
    schedule: Schedule | AtMost
    counter: Factorisation | None = None  # None: the one with the least noise
    loss: Loss | None = None  # None: what was asked for; printed constants really give another
    # How batches become releases, called like `make_privatizer`. None: as `PRIVATIZERS` says for the request.
    privatizer: Callable[..., Batches] | None = None
    constants: str = ""  # whose they are, if calibration="paper" has constants that no paper prints


class Learner:
    """Serves users by an algorithm, from what is released about the users before them.

    Under `LocalDP` it is a server: users are `client()`s, plan on their devices from `released()`, and send messages to `absorb`. Under
    `DistributedDP` users are `ShareClient`s. Secure aggregation, which the caller provides, adds up their shares, and `shares.absorb_sum`
    takes the sum of a batch.
    """

    name: str
    profile = Profile()
    abilities = Abilities(
        counts=True, noise=True, mechanisms=True, saves=True, devices=True, sums=True, levels=True
    )

    # "paper" stands here if somebody has read the constants in the paper or in its authors' code.
    calibrations: ClassVar[tuple[str, ...]] = ("tight", "paper")

    # What is not meant for anybody to see. An audit compares everything else that is public, and lists these.
    private: ClassVar[dict[str, str]] = {
        "save": "the saved state has exact sums",
        "contribution": "what users contribute, before noise",
        "noise": "the source of noise",
    }

    def __init__(
        self,
        calibration: Calibration,
        *,
        privacy: Request,
        identity: Identity,
        noise: NoiseSource | None = None,
    ) -> None:
        check_calibration(
            kind("calibration", calibration, Calibration),
            privacy,
            distributed=self.abilities.distributed,
        )
        if noise is not None:
            check_source(noise)
        self.calibration, self.privacy, self.noise = calibration, privacy, noise
        self._identity: Identity = kind("identity", identity, Identity)
        self.rng: np.random.Generator | None = None
        self._made: Batches | None = None
        self._memory: Memory | None = None
        self._round: Round | None = None
        self._round_generation = 0
        self._store: StateStore | None = None
        self._turns = Turns()

    @classmethod
    def footprint(
        cls,
        sizes: ProblemSizes,  # noqa: ARG003
        *,
        episodes: int,  # noqa: ARG003
        privacy: Request,  # noqa: ARG003
        **options: Any,  # noqa: ARG003
    ) -> Footprint | None:
        """What this agent needs on problems of these sizes; None if nobody has said. See `confide.agents.estimate`."""
        return None

    @property
    def algorithm(self) -> Algorithm:
        return self.calibration.algorithm

    @property
    def schedule(self) -> Schedule | AtMost:
        return self.calibration.schedule

    @property
    def loss(self) -> Loss | None:
        """What printed constants give; None if the noise is what the request needs. A device must know."""
        return self.calibration.loss

    @property
    def plans_for_starts(self) -> bool:
        """Whether its policies are rules (`policy.StartRule`) that turn the state in which a user starts into gains."""
        return bool(getattr(self.algorithm, "plans_for_starts", False))

    @property
    def episodes(self) -> int:
        return self.schedule.users

    @property
    def settings(self) -> str:
        """Everything besides the promise that was chosen for this learner, as 16 hexadecimal digits: the problem it knows included."""
        made = self.calibration
        counter = counter_identity(made.counter)
        return identify(self._identity, made.schedule, counter, made.loss, made.algorithm.bound)

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
        self._follow()
        return self._round.signal if self._round else None

    def mechanisms(self) -> list[Mechanism]:
        return self._privatizer.mechanisms()

    def describe(self) -> Description:
        """How it plans, in words. Public, and known before there are any data."""
        return self.algorithm.describe()

    def expected_noise(self) -> ExpectedNoise:
        """What the privatizer will add, without making it: that would fix the source of noise."""
        made = self.calibration
        # confide.run gives fast noise to an agent that has none
        discrete = self.noise is not None and self.noise.discrete
        return expected_noise(
            made.algorithm.bound,
            made.schedule,
            privacy=self.privacy,
            discrete=discrete,
            counter=made.counter,
            loss=made.loss,
        )

    @in_turn
    def next_batch(self) -> Batch:
        if self.users == self.episodes:
            raise StreamExhausted(f"all {self.episodes} users were served")
        if self.is_exhausted:
            raise StreamExhausted(
                f"all {self.schedule.leaves} releases were made: batches were closed early"
            )
        current = self.current_round()
        users, (start, end) = self.users, self._privatizer.batch
        if len(current.policies) == 1:
            return Batch(current.policies[0], end - users)
        edges = start + np.cumsum(current.serves(end - start))
        which = int(np.searchsorted(edges, users, side="right"))
        return Batch(current.policies[which], int(edges[which]) - users)

    def assign(self, number: int | None = None) -> Assignment:
        """For one user of a service: the policy that serves this user, drawn by the shares of the round's policies.

        Not by order of arrival, which users could know or choose. `number` out of 2^128 decides, by default one of the system's random
        numbers; it must not depend on anybody's data. Whoever reports later says with which generation the policy was planned.
        """
        current = self.current_round()
        drawn = (
            secrets.randbits(128)
            if number is None
            else whole("number", number, at_least=0, at_most=2**128 - 1)
        )
        return Assignment(current.drawn(drawn), self._privatizer.generation)

    @property
    def batch_size(self) -> int:
        """How many users the open batch has, unless it is closed before; none after the last release. Public."""
        if self.is_exhausted:
            return 0
        self.current_round()  # a round may decide it
        start, end = self._privatizer.batch
        return end - start

    @property
    def is_exhausted(self) -> bool:
        """Whether all users whom the guarantee covers were served, or all releases were made. Public."""
        return self._privatizer.is_exhausted

    @property
    def grid(self) -> float:
        """What one step of `contribution(...).steps`, of `decoded` and of `close(total)` is, in the open batch. Public."""
        return float(self._open_bound.grid)

    @property
    def coordinates(self) -> int:
        """How many numbers a contribution to the open batch has. Public."""
        return self._open_bound.size

    @property
    def _open_bound(self) -> Bound:
        """Of what a user of the open batch contributes."""
        size = self.current_round().size
        return self.algorithm.bound if size is None else size[0]

    @in_turn
    def close(self, total: npt.ArrayLike | None = None, users: int = 0) -> None:
        """Release now, before the open batch is full: a service that waits for nobody any longer.

        The decision must be public (a deadline, a number of reports), and must not depend on what users did. The guarantee covers as many
        users and releases as before; the planner sees how many users reported, and takes them for users of `assign`: `next_batch`
        serves the round's policies one after the other, so that a round which closes early has users of the first ones only.

        A service that adds up contributions itself hands over the whole batch: `total` [size], whole steps of `grid`, the sum of
        `contribution(...).steps` (of devices: of `decoded(message)`) over `users` users. It may have any size that the guarantee covers.
        """
        self._privatizer.check_ready()
        self.current_round()  # its memory is needed after the release
        if total is not None and not self.abilities.sums:
            raise PrivacyError(
                f"{self.name} must see its users again, which a sum does not allow: call observe"
            )
        if total is None and whole("users", users) != 0:
            raise InvalidParameter("users come with the sum of their contributions: pass total")
        summed: Array | None = (
            None if total is None else np.multiply(whole_steps(total), self.grid, dtype=np.float64)
        )
        self._privatizer.close(summed, users)
        self._follow()

    def released(self) -> Released:
        """All that is public so far, and all that planning needs."""
        last = self._privatizer.release()
        return Released(
            last.values,
            last.noise,
            last.guarantee,
            last.users,
            last.generation,
            self._planned_with(),
        )

    def publish(self, run: str = "") -> bytes:
        """The same in bytes, for devices: `client.plan` opens them. They name the run of a service, and the learner's settings."""
        return encode_release(self.released(), run=run, settings=self.settings)

    def _planned_with(self) -> Memory:
        """The memory of the round before; of the first one a seed, which is public."""
        self._follow()
        if self._memory is None:
            seed = 0 if self.rng is None else int(self.rng.integers(2**62))
            self._memory = {"seed": np.array(seed)}
        return self._memory

    def _follow(self) -> None:
        """After a release the round that was open until then is over, and its memory is kept."""
        if self._round is not None and self._privatizer.generation > self._round_generation:
            self._memory, self._round = self._round.memory, None

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        """What these users of the current round contribute. PRIVATE."""
        self._follow()
        if self._round is None:
            raise InvalidParameter(
                "users come after the policy that serves them: call next_batch first"
            )
        return self._round.statistic.contribution(
            private_kind("users", users, Trajectories, TransitionCounts)
        )

    def observe(
        self, users: Trajectories | TransitionCounts, *, generation: int | None = None
    ) -> None:
        """Users of the open batch. `generation`: the release that their policies were planned with, if they were assigned one by one; users
        who were served by another one are refused, because the planner would take them for users of the round's policies."""
        if generation is not None:
            self.current_round()  # after a restart nobody may have planned yet
            current = self._privatizer.generation
            if whole("generation", generation, at_least=0) != current:
                raise StaleMessage(
                    f"the users were served with release {generation}, the current one is {current}: they are late"
                )
        if self._privatizer.devices and not isinstance(users, TransitionCounts):
            device = (
                "ShareClient"
                if isinstance(self._privatizer, DistributedPrivatizer)
                else "LocalClient (agent.client())"
            )
            raise PrivacyError(
                f"under {type(self.privacy).__name__} no server sees trajectories: each user's device adds the noise, with {device}"
            )
        self._take(users)

    def observe_crowd(self, users: Trajectories) -> None:
        """SIMULATION of devices: what those of these users would send, added up at once (`MessageNoise.join`)."""
        if not self._privatizer.devices:
            raise PrivacyError(
                f"crowds of devices are for LocalDP and DistributedDP, but this agent has {type(self.privacy).__name__}"
            )
        self._take(users)

    @in_turn
    def _take(self, users: Trajectories | TransitionCounts) -> None:
        privatizer = self._privatizer
        privatizer.check_ready()
        counted = isinstance(users, TransitionCounts)
        privatizer.absorb(self.contribution(users), counted=counted)
        self._follow()

    def client(self) -> LocalClient:
        """One more user's device, with noise of its own of the server's kind; it knows nothing of the server but what is public."""
        return self._message_server().client()

    def channel(self) -> Channel:
        """How a device of the open batch makes its message. Public."""
        return self._message_server().channel()

    @property
    def shares(self) -> ShareServer:
        """Batches of devices and their sums, under `DistributedDP`."""
        return share_server(self, self._privatizer)

    def _before_release(self) -> None:
        """Before whatever may complete a batch: what is planned after the release follows from the round that is open now."""
        self._privatizer.check_ready()
        self.current_round()

    @in_turn
    def absorb(self, message: bytes | Message) -> None:
        """What a device sent. A message that is damaged, stale or here already is refused, and changes nothing."""
        self._message_server().absorb(message)

    def decoded(self, message: bytes | Message) -> npt.NDArray[np.int64]:
        """What a device's message adds to the sum of the open batch, in whole steps of `grid`: for a service that adds up itself.

        A message that is damaged or stale is refused. Whether it came before is for the service to know.
        """
        return self._message_server().decoded(message)

    def save(self) -> bytes:
        """PRIVATE: everything needed to go on."""
        return self._pack(self._privatizer.save())

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "an agent cannot be copied or pickled: two copies would noise the same data twice; use save and restore"
        )

    def _pack(self, inner: bytes) -> bytes:
        memory = {f"memory.{key}": np.asarray(value) for key, value in self._planned_with().items()}
        return pack(
            _FORMAT,
            self._privatizer.generation,
            {"settings": self.settings},
            {"privatizer": np.frombuffer(inner, dtype=np.uint8), **memory},
        )

    def keep(self, store: StateStore | str | Path) -> None:
        """For a service: from now on every release is on the disk before it can be read. What the store holds already is taken up.

        One process keeps a store: another one is refused, until the first has ended.

        The users of a round that was still open are not in it. Without a store, whoever calls `save` must see to both.
        """
        if self._store is not None or self.users:
            raise StateError("a store is chosen once, before the first user")
        chosen = StateFile(store) if isinstance(store, str | Path) else store
        kept: StateStore = has(
            "store",
            chosen,
            ("hold", "exists", "read", "write", "generation"),
            "a StateStore, or a file",
        )
        kept.hold()
        self._store = kept
        if self._made is not None:
            self._made.keep(kept, self._pack)
        if kept.exists():
            self.restore(kept.read())

    def restore(self, data: bytes, *, released: int | None = None, resume: bool = False) -> None:
        """Rounds are functions of releases and of the round before, so the privatizer and the memory are all the state there is.

        `released` is the newest generation that may have left; a store knows it. With fast noise the future draws are the same ones again:
        a state goes on in one place only. Devices made after this have fresh noise, except in a simulated run that `resume`s.
        """
        if released is None:
            if self._store is None:
                raise InvalidParameter(
                    "without a store, restore needs released=: the newest generation that may have left"
                )
            released = self._store.generation()
        state = unpack(data, _FORMAT, released=released)
        if state.facts["settings"] != self.settings:
            raise StateError("the state belongs to another learner, or to one for another problem")
        self._privatizer.restore(
            state.arrays["privatizer"].tobytes(), released=released, resume=resume
        )
        memory = {
            key.removeprefix("memory."): value
            for key, value in state.arrays.items()
            if key.startswith("memory.")
        }
        self._memory, self._round = memory, None

    def current_round(self) -> Round:
        """What everybody plans from the last release. Public."""
        self._follow()
        if self._round is None:
            planned = self.algorithm.plan(self.released())
            if planned.size is not None and self.users < self.episodes:
                self._privatizer.open(*planned.size)
            self._round, self._round_generation = planned, self._privatizer.generation
        return self._round

    def _message_server(self) -> MessageServer:
        return message_server(self, self._privatizer)

    @property
    def _privatizer(self) -> Batches:
        """Made when it is first needed: the runner gives the source of noise after the agent was made."""
        if self._made is None:
            if self.noise is None and not self.privacy.trust.devices:
                raise InvalidParameter(
                    "the agent has no noise yet: confide.run gives it some, or pass noise="
                )
            # a server without a simulation around it: its devices are real
            self.noise = self.noise or SecureSource()
            made = self.calibration
            check_exact(made.schedule.users)
            bound, schedule = made.algorithm.bound, made.schedule
            make = made.privatizer or make_privatizer
            self._made = make(
                bound,
                schedule,
                privacy=self.privacy,
                noise=self.noise,
                counter=made.counter,
                loss=made.loss,
            )
            if self._store is not None:
                self._made.keep(self._store, self._pack)
        return self._made
