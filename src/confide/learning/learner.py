"""A learner: releases at public times, and a batch of users between two releases.

An agent is an algorithm (`algorithm.py`) and this class, which is the same for all agents. It knows
the schedule, the privatizer, the round that is open, what is kept of earlier rounds, and how all of
this is saved.

Who may see what: a release, a round and everything that follows from them are public. What users
contribute, the source of noise and a saved state are private (`Learner.private`).

What leaves this file, and must keep its meaning:

- the saved state (`_FORMAT`). If its content changes, its version must change.
- `settings`, which a saved state, a published release and the label of a run contain.

The guarantee is the privatizer's. It also needs two properties of this file. Contributions of the
open batch go to the privatizer and nowhere else, and planning sees only releases.
"""

import secrets
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from confide.arguments import has, kind, private_kind, whole
from confide.errors import InvalidParameter, PrivacyError, StaleMessage, StateError, StreamExhausted
from confide.identity import Identity, identify
from confide.learning.agent import Abilities, Assignment, Batch, Profile
from confide.learning.algorithm import POLICY_DRAWS, Algorithm, Calibration, Description, Round
from confide.learning.arguments import check_calibration, check_exact, whole_steps
from confide.learning.client import LocalClient
from confide.learning.message_server import MessageServer, message_server
from confide.learning.resources import Footprint
from confide.learning.share_server import ShareServer, share_server
from confide.learning.turns import Turns, in_turn
from confide.mechanisms.counters import counter_identity
from confide.mechanisms.sources import NoiseSource, SecureSource, check_source
from confide.mechanisms.state import StateFile, StateStore, pack, unpack
from confide.privacy.bounded import Bound, Bounded, Memory, NoiseLevel, Released
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
from confide.privatizers.wire import encode_release
from confide.problems.sizes import ProblemSizes
from confide.trajectory import Trajectories, TransitionCounts

# The name and version of a saved state.
_FORMAT = "learner-2"
# The arrays of the memory have this prefix in a saved state.
_MEMORY = "memory."
# The members that a store of states must have.
_STORE_MEMBERS = ("hold", "exists", "read", "write", "generation")


class Learner:
    """Serves users by an algorithm that plans from what was released about the users before them.

    Guarantee: `guarantee`. Everything that is published satisfies the privatizer's guarantee, and
    each user acts by a public policy, so the billboard lemma makes it joint.

    Under `LocalDP` this is a server. Users are `client()`s: they plan on their devices from
    `released()`, and send messages to `absorb`. Under `DistributedDP` users are `ShareClient`s.
    Secure aggregation, which the caller provides, adds up their shares, and `shares.absorb_sum`
    takes the sum of a batch.
    """

    name: str
    profile = Profile()
    abilities = Abilities(
        counts=True, noise=True, mechanisms=True, saves=True, devices=True, sums=True, levels=True
    )

    # "paper" stands here if somebody has read the constants in the paper or in its authors' code.
    calibrations: ClassVar[tuple[str, ...]] = ("tight", "paper")

    # The members that nobody else may see, each with the reason. An audit compares everything else
    # that is public, and lists these.
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
        kind("calibration", calibration, Calibration)
        check_calibration(calibration, privacy, distributed=self.abilities.distributed)
        if noise is not None:
            check_source(noise)
        self.calibration = calibration
        self.privacy = privacy
        self.noise = noise
        self._identity: Identity = kind("identity", identity, Identity)
        # The runner sets it, if it is None. It draws the public seed of the first round.
        self.rng: np.random.Generator | None = None
        # The privatizer, once it is needed: see `_privatizer`.
        self._batches: Batches | None = None
        # What the open round was planned from, besides the release. None before the first round.
        self._memory: Memory | None = None
        # The round of the open batch, once somebody has planned it, and the number of its release.
        self._round: Round | None = None
        self._round_generation = 0
        self._store: StateStore | None = None
        self._turns = Turns()

    # What is public and known before there are data.

    @classmethod
    def footprint(
        cls,
        sizes: ProblemSizes,  # noqa: ARG003
        *,
        episodes: int,  # noqa: ARG003
        privacy: Request,  # noqa: ARG003
        **options: Any,  # noqa: ARG003
    ) -> Footprint | None:
        """Say what this agent needs on problems of these sizes; None if nobody has measured it.

        `confide.agents.estimate` calls it.
        """
        return None

    @property
    def algorithm(self) -> Algorithm:
        return self.calibration.algorithm

    @property
    def schedule(self) -> Schedule | AtMost:
        return self.calibration.schedule

    @property
    def loss(self) -> Loss | None:
        """What the constants of a paper give; None if the noise is what the request needs.

        A device must know it, because a server refuses messages with other noise.
        """
        return self.calibration.loss

    @property
    def plans_for_starts(self) -> bool:
        """Whether its policies are rules (`policy.StartRule`).

        A rule turns the state in which a user starts into gains.
        """
        return bool(getattr(self.algorithm, "plans_for_starts", False))

    @property
    def episodes(self) -> int:
        return self.schedule.users

    @property
    def settings(self) -> str:
        """All choices but the request, as 16 hexadecimal digits, with the problem that it knows."""
        chosen = self.calibration
        counter = counter_identity(chosen.counter)
        bound = chosen.algorithm.bound
        return identify(self._identity, chosen.schedule, counter, chosen.loss, bound)

    @property
    def guarantee(self) -> Guarantee:
        return billboard(self._privatizer.guarantee)

    def mechanisms(self) -> list[Mechanism]:
        """Return the mechanisms for a certificate."""
        return self._privatizer.mechanisms()

    def describe(self) -> Description:
        """Say in words how it plans."""
        return self.algorithm.describe()

    def expected_noise(self) -> ExpectedNoise:
        """Return the noise that the privatizer will add.

        The privatizer is not made for it, because that would fix the source of noise.
        """
        chosen = self.calibration
        # confide.run gives fast noise, which is continuous, to an agent that has none.
        discrete = self.noise is not None and self.noise.discrete
        return expected_noise(
            chosen.algorithm.bound,
            chosen.schedule,
            privacy=self.privacy,
            discrete=discrete,
            counter=chosen.counter,
            loss=chosen.loss,
        )

    # What is public of the state.

    @property
    def users(self) -> int:
        return self._batches.users if self._batches else 0

    @property
    def noise_level(self) -> NoiseLevel:
        return self._privatizer.release().noise

    @property
    def signal(self) -> float | None:
        self._end_closed_round()
        return self._round.signal if self._round else None

    @property
    def batch_size(self) -> int:
        """How many users the open batch has, unless it is closed before it is full.

        After the last release it is zero.
        """
        if self.is_exhausted:
            return 0
        # A round may decide the size.
        self.current_round()
        start, end = self._privatizer.batch
        return end - start

    @property
    def is_exhausted(self) -> bool:
        """Whether all users whom the guarantee covers were served, or all releases were made."""
        return self._privatizer.is_exhausted

    @property
    def grid(self) -> float:
        """One step of `contribution(...).steps`, `decoded` and `close(total)` in the open batch."""
        return float(self._open_bound.grid)

    @property
    def coordinates(self) -> int:
        """How many numbers a contribution to the open batch has."""
        return self._open_bound.size

    @property
    def _open_bound(self) -> Bound:
        """The bound of what a user of the open batch contributes."""
        size = self.current_round().size
        return self.algorithm.bound if size is None else size[0]

    def released(self) -> Released:
        """Return all that is public so far, with all that planning needs."""
        newest = self._privatizer.release()
        return Released(
            newest.values,
            newest.noise,
            newest.guarantee,
            newest.users,
            newest.generation,
            self._memory_for_planning(),
        )

    def publish(self, run: str = "") -> bytes:
        """Return `released()` in bytes, which `client.plan` of a device opens.

        They contain the name `run` of a service's run, and the learner's settings.
        """
        return encode_release(self.released(), run=run, settings=self.settings)

    def current_round(self) -> Round:
        """Return the round that everybody plans from the newest release."""
        self._end_closed_round()
        if self._round is None:
            planned = self.algorithm.plan(self.released())
            privatizer = self._privatizer
            if planned.size is not None and self.users < self.episodes:
                privatizer.open(*planned.size)
            self._round = planned
            self._round_generation = privatizer.generation
        return self._round

    def _memory_for_planning(self) -> Memory:
        """Return the memory of the round before; before the first round, a public seed."""
        self._end_closed_round()
        if self._memory is None:
            seed = 0 if self.rng is None else int(self.rng.integers(2**62))
            self._memory = {"seed": np.array(seed)}
        return self._memory

    def _end_closed_round(self) -> None:
        """If a release was made since the round was planned, end the round and keep its memory."""
        if self._round is not None and self._privatizer.generation > self._round_generation:
            self._memory = self._round.memory
            self._round = None

    # Users are served and come back.

    @in_turn
    def next_batch(self) -> Batch:
        """Return the next policy, and how many users it serves before another one follows."""
        users = self.users
        if users == self.episodes:
            raise StreamExhausted(f"all {self.episodes} users were served")
        if self.is_exhausted:
            raise StreamExhausted(
                f"all {self.schedule.leaves} releases were made: batches were closed early"
            )
        current = self.current_round()
        start, end = self._privatizer.batch
        return current.batch_at(users - start, end - start)

    def assign(self, number: int | None = None) -> Assignment:
        """Assign a policy to one user of a service, drawn by the shares of the round's policies.

        The order of arrival does not decide, because users could know or choose it. `number` from
        range(2**128) decides. By default the system draws it. It must not depend on anybody's data.
        The user's report must name the generation of the assignment.
        """
        current = self.current_round()
        if number is None:
            number = secrets.randbits(128)
        whole("number", number, at_least=0, at_most=POLICY_DRAWS - 1)
        return Assignment(current.draw_policy(number), self._privatizer.generation)

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        """Return what these users of the open round contribute. PRIVATE."""
        self._end_closed_round()
        if self._round is None:
            raise InvalidParameter(
                "users come after the policy that serves them: call next_batch first"
            )
        private_kind("users", users, Trajectories, TransitionCounts)
        return self._round.statistic.contribution(users)

    def observe(
        self, users: Trajectories | TransitionCounts, *, generation: int | None = None
    ) -> None:
        """Take in users of the open batch.

        `generation` is that of their assignments, if they were assigned one by one. Users who were
        served with another release are refused, because the planner would take them for users of
        the open round's policies.
        """
        if generation is not None:
            self._check_generation(generation)
        if self._privatizer.devices and not isinstance(users, TransitionCounts):
            is_shared = isinstance(self._privatizer, DistributedPrivatizer)
            device = "ShareClient" if is_shared else "LocalClient (agent.client())"
            raise PrivacyError(
                f"under {type(self.privacy).__name__} no server sees trajectories: "
                f"each user's device adds the noise, with {device}"
            )
        self._absorb_users(users)

    def _check_generation(self, generation: int) -> None:
        # After a restart nobody may have planned yet.
        self.current_round()
        current = self._privatizer.generation
        if whole("generation", generation, at_least=0) != current:
            raise StaleMessage(
                f"the users were served with release {generation}, the current one is {current}: "
                "they are late"
            )

    def observe_crowd(self, users: Trajectories) -> None:
        """SIMULATION of devices: take in what they would send, added up (`MessageNoise.join`)."""
        if not self._privatizer.devices:
            raise PrivacyError(
                "crowds of devices are for LocalDP and DistributedDP, "
                f"but this agent has {type(self.privacy).__name__}"
            )
        self._absorb_users(users)

    @in_turn
    def _absorb_users(self, users: Trajectories | TransitionCounts) -> None:
        privatizer = self._privatizer
        privatizer.check_ready()
        counted = isinstance(users, TransitionCounts)
        privatizer.absorb(self.contribution(users), counted=counted)
        self._end_closed_round()

    @in_turn
    def close(self, total: npt.ArrayLike | None = None, users: int = 0) -> None:
        """Release now, before the open batch is full: a service waits for nobody any longer.

        The decision must be public (a deadline, a number of reports) and must not depend on what
        users did. The guarantee covers as many users and releases as before. The planner is told
        how many users reported, and takes them for users of `assign`. `next_batch` serves the
        round's policies one after the other, so after it a round that closes early has users of the
        first policies only.

        A service that adds up contributions itself passes the sum of the whole batch and the number
        of its users. `total` [coordinate] counts whole steps of `grid`. It is the sum of
        `contribution(...).steps`, or of `decoded(message)` for devices. The batch may have any size
        that the guarantee covers.
        """
        self._prepare_release()
        if total is None:
            if whole("users", users) != 0:
                raise InvalidParameter("users come with the sum of their contributions: pass total")
            self._privatizer.close()
        else:
            if not self.abilities.sums:
                raise PrivacyError(
                    f"{self.name} must see its users again, which a sum does not allow: "
                    "call observe"
                )
            values = np.multiply(whole_steps(total), self.grid, dtype=np.float64)
            self._privatizer.close(values, users)
        self._end_closed_round()

    def _prepare_release(self) -> None:
        """Do what must be done before anything that may complete a batch.

        Planning after the release needs the memory of the round that is open now.
        """
        self._privatizer.check_ready()
        self.current_round()

    # Users with devices. `MessageServer` is for LocalDP, and `ShareServer` for DistributedDP.

    def client(self) -> LocalClient:
        """Make one more user's device, with noise of its own of the same kind as the server's.

        The device knows only what is public of the server.
        """
        return self._message_server().client()

    def channel(self) -> Channel:
        """Return how a device of the open batch makes its message. Public."""
        return self._message_server().channel()

    @property
    def shares(self) -> ShareServer:
        """Batches of devices and their sums, under `DistributedDP`."""
        return share_server(self, self._privatizer)

    @in_turn
    def absorb(self, message: bytes | Message) -> None:
        """Take in what a device sent.

        A message that is damaged or stale or was absorbed before is refused, and changes nothing.
        """
        self._message_server().absorb(message)

    def decoded(self, message: bytes | Message) -> npt.NDArray[np.int64]:
        """Return what a message adds to the sum of the open batch, in whole steps of `grid`.

        This is for a service that adds up messages itself. A message that is damaged or stale is
        refused. The service must know whether the message came before.
        """
        return self._message_server().decoded(message)

    def _message_server(self) -> MessageServer:
        return message_server(self, self._privatizer)

    # The state is saved and restored.

    def save(self) -> bytes:
        """Return everything that is needed to go on. PRIVATE."""
        return self._pack(self._privatizer.save())

    def _pack(self, privatizer_state: bytes) -> bytes:
        arrays: dict[str, npt.NDArray[Any]] = {
            "privatizer": np.frombuffer(privatizer_state, dtype=np.uint8)
        }
        for name, array in self._memory_for_planning().items():
            arrays[_MEMORY + name] = np.asarray(array)
        facts = {"settings": self.settings}
        return pack(_FORMAT, self._privatizer.generation, facts, arrays)

    def restore(self, data: bytes, *, released: int | None = None, resume: bool = False) -> None:
        """Go on from a saved state, in a new learner that was made with the same arguments.

        `released` is the newest generation that may have left. A store knows it. With fast noise
        the future draws are the same ones again, so a state must go on in one place only. Devices
        that are made after this have fresh noise, except in a simulated run that `resume`s.
        """
        if released is None:
            if self._store is None:
                raise InvalidParameter(
                    "without a store, restore needs released=: "
                    "the newest generation that may have left"
                )
            released = self._store.generation()
        state = unpack(data, _FORMAT, released=released)
        if state.facts["settings"] != self.settings:
            raise StateError("the state belongs to another learner, or to one for another problem")
        privatizer_state = state.arrays["privatizer"].tobytes()
        self._privatizer.restore(privatizer_state, released=released, resume=resume)
        # Rounds are functions of releases and memories, so there is no other state.
        self._memory = {
            name.removeprefix(_MEMORY): array
            for name, array in state.arrays.items()
            if name.startswith(_MEMORY)
        }
        self._round = None

    def keep(self, store: StateStore | str | Path) -> None:
        """Store every release from now on, before it can be read. This is for a service.

        If the store has a state already, the learner goes on from it. One process holds a store,
        and others are refused until it has ended. The users of an open batch are not stored.
        """
        if self._store is not None or self.users:
            raise StateError("a store is chosen once, before the first user")
        chosen = StateFile(store) if isinstance(store, str | Path) else store
        kept: StateStore = has("store", chosen, _STORE_MEMBERS, "a StateStore, or a file")
        kept.hold()
        self._store = kept
        if self._batches is not None:
            self._batches.keep(kept, self._pack)
        if kept.exists():
            self.restore(kept.read())

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "an agent cannot be copied or pickled: two copies would noise the same data twice; "
            "use save and restore"
        )

    @property
    def _privatizer(self) -> Batches:
        """The privatizer. It is made when it is first needed.

        The runner gives the source of noise to an agent that exists already.
        """
        if self._batches is None:
            self._batches = self._make_privatizer()
            if self._store is not None:
                self._batches.keep(self._store, self._pack)
        return self._batches

    def _make_privatizer(self) -> Batches:
        if self.noise is None and not self.privacy.trust.devices:
            raise InvalidParameter(
                "the agent has no noise yet: confide.run gives it some, or pass noise="
            )
        # A server without noise is not in a simulation, so its devices are real.
        self.noise = self.noise or SecureSource()
        chosen = self.calibration
        check_exact(chosen.schedule.users)
        make = chosen.privatizer or make_privatizer
        return make(
            chosen.algorithm.bound,
            chosen.schedule,
            privacy=self.privacy,
            noise=self.noise,
            counter=chosen.counter,
            loss=chosen.loss,
        )
