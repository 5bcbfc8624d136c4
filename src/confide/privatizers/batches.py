"""The open batch of every trust model: who is in it, which release comes next, and whether the state may go on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import has, kind, private_kind, whole
from confide.errors import (
    DuplicateMessage,
    InvalidParameter,
    PrivacyError,
    StateError,
    StreamExhausted,
)
from confide.identity import identify
from confide.mechanisms.additive import check_bound
from confide.mechanisms.state import StateFile, StateStore, pack, unpack
from confide.privacy.bounded import Bound, Bounded, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee
from confide.privatizers.one_process import OneProcess
from confide.privatizers.schedule import AtMost, Schedule, check_batch, check_left

Numbers = npt.NDArray[Any]
Facts = dict[str, Any]
Arrays = dict[str, Numbers]
_FORMAT = "batches-1"
_NONCE_BYTES = 16


class BatchNoise(Protocol):
    """How the sum of a closed batch becomes a release: all that differs between trust models. PRIVATE where it holds exact sums."""

    # Whether users send messages from their own devices, so that no server sees a contribution.
    devices: ClassVar[bool]
    # Whether an open batch goes on after a restart, or is given up because its sum may have been opened.
    resumes_batch: ClassVar[bool]

    @property
    def modulus(self) -> int | None:
        """Sums are taken modulo this number; None: as they are."""

    @property
    def bound(self) -> Bound:
        """Of what each user of the open batch contributes."""

    @property
    def guarantee(self) -> Guarantee:
        """For everything that will ever be released."""

    def open(self, bound: Bound) -> None:
        """What the users of the open batch contribute is decided now: only with sizes that are decided from releases."""

    def check(self, contribution: Bounded) -> None:
        """Refuse a contribution that must not come, before anything is changed."""

    def join(self, contribution: Bounded, size: int) -> Numbers:
        """What these users of a batch of `size` users add to its sum. With `devices` a SIMULATION, which draws their noise."""

    def check_total(self, total: Numbers, users: int) -> Numbers:
        """The sum of a whole batch that somebody else added up."""

    def close(self, total: Numbers, users: int, absent: int) -> None:
        """The batch is over, with so many users in its sum and so many who stayed away. Noise is drawn here, once."""

    def release(self, users: int, generation: int) -> Released:
        """The statistics after so many users and releases."""

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        """What a certificate says; so many users were simulated."""

    def made_for(self) -> str:
        """All that must agree between whoever was saved and whoever goes on, besides the schedule."""

    def state(self) -> tuple[Facts, Arrays]:
        """PRIVATE: everything needed to go on."""

    def restore(self, facts: Facts, arrays: Arrays, *, generation: int, resume: bool) -> None:
        """Take over what `state` gave."""


def check_bound_of(contribution: Bounded, bound: Bound) -> None:
    """A contribution was clipped by this bound."""
    if contribution.bound is not bound and contribution.bound != bound:
        raise InvalidParameter(
            "the contribution was clipped by another bound than the privatizer's"
        )


class Batches:
    """Who is in the open batch, and which release comes next. For every trust model, this is the only place that knows.

    Guarantee: that of the `noise`, which gets each batch once. An exception between the first change of a batch and the
    last leaves memory that is neither saved nor released, nor may its users come again: the saved state must be restored. With a `store`
    each release is on the disk before it can be read.
    """

    def __init__(
        self,
        noise: BatchNoise,
        schedule: Schedule | AtMost,
        *,
        store: StateStore | str | Path | None = None,
    ) -> None:
        self.schedule: Schedule | AtMost = kind("schedule", schedule, Schedule, AtMost)
        members = ("bound", "guarantee", "join", "close", "release")
        self._noise: BatchNoise = has("noise", noise, members, "a BatchNoise")
        self._generation = 0
        self._simulated = 0
        # True between the first change of a batch and the last: an exception there must neither be saved nor retried.
        self._half_done = False
        self._restored = False
        self._one_process = OneProcess()
        self._store: StateStore | None = None
        self._pack_state: Callable[[bytes], bytes] | None = None
        self._begin(0)
        if store is not None:
            chosen = StateFile(store) if isinstance(store, str | Path) else store
            parts = ("exists", "read", "write", "generation")
            self.keep(has("store", chosen, parts, "a StateStore, or a file"))

    def _begin(self, users: int) -> None:
        """A new batch, after so many users. Nobody is in it."""
        self._begun = self._users = users
        size = self.schedule.size(self._generation)
        # How many users there are when the batch ends; None until somebody has decided it. Earlier batches may have had more
        # users than their size, and the guarantee covers no more.
        self._edge = None if size is None else min(users + size, self.schedule.users)
        self._absent = 0
        # None: nobody is in it.
        self._open_sum: Numbers | None = None
        # The identity of the bound that `open` was given, because the noise of the open sum must be that of its contributions.
        self._opened_bound: str | None = None
        # The nonces of messages. Those of earlier batches are stale, whatever their nonce.
        self._nonces: set[bytes] = set()

    # What is public.

    @property
    def devices(self) -> bool:
        """Whether users send messages from their own devices."""
        return self._noise.devices

    @property
    def guarantee(self) -> Guarantee:
        """For everything it will ever release."""
        return self._noise.guarantee

    @property
    def users(self) -> int:
        """How many users were served, those included who stayed away from a batch that was opened."""
        return self._users

    @property
    def generation(self) -> int:
        """How many releases were made."""
        return self._generation

    @property
    def batch(self) -> tuple[int, int]:
        """How many users there were when the open batch began, and how many there are when it ends."""
        if self._edge is None:
            raise StateError("no round is open")
        return self._begun, self._edge

    @property
    def is_exhausted(self) -> bool:
        """Whether all users whom the guarantee covers were served, or all releases were made."""
        return self._users >= self.schedule.users or self._generation >= self.schedule.leaves

    def __repr__(self) -> str:
        kind_of_noise = self.mechanism().name
        return f"Batches({kind_of_noise}, {self.schedule.leaves} releases, {self.users} users so far, {self.guarantee})"

    def mechanism(self) -> Mechanism:
        """The first of `mechanisms`."""
        return self.mechanisms()[0]

    def mechanisms(self) -> list[Mechanism]:
        """What a certificate says."""
        return self._noise.mechanisms(self._simulated)

    def release(self) -> Released:
        """The statistics as of the last release. Asking again gives the same answer."""
        self.check_ready()
        return self._noise.release(self._begun, self._generation)

    # Users come, and batches close.

    def open(self, bound: Bound, users: int) -> None:
        """The next release is about so many users with contributions within this bound: decided in public, once."""
        check_bound(bound)
        whole("users", users, at_least=1)
        if self._edge is not None:
            return
        room = self.schedule.users - self._begun
        if self._generation == self.schedule.leaves or users > room:
            raise StreamExhausted(
                f"the guarantee covers {self.schedule.users} users in at most {self.schedule.leaves} rounds"
            )
        is_another = self._open_sum is not None and self._opened_bound != identify(bound)
        if is_another or self._users - self._begun >= users:
            raise StateError(
                "the open round was planned otherwise before: its users are in another sum"
            )
        self._noise.open(bound)
        self._opened_bound = identify(bound)
        self._edge = self._begun + users

    def absorb(self, contribution: Bounded, *, counted: bool = False) -> None:
        """Users of the open batch; at its last user the next release is made. With `devices` a SIMULATION of what they would send.

        `counted`: they came as exact counts of a simulated batch, and the certificate says so.
        """
        noise = self._noise
        self.check_ready()
        self._one_process.check()
        users = private_kind("contribution", contribution, Bounded).users
        self._check_covered(users)
        noise.check(contribution)
        self._check_edge(users)
        begun, edge = self.batch
        self._half_done = True
        values = noise.join(contribution, edge - begun)
        if counted or noise.devices:
            self._simulated += users
        self._take(values, users)
        self._half_done = False

    def close(self, total: Numbers | None = None, users: int = 0) -> None:
        """Release now, with the users of the open batch who are here. WHEN must be decided in public, not from their data.

        `total`: the whole batch, from a service that adds up contributions itself (with `devices` decoded messages), of `users` users.
        Nobody else may be in the open batch then.
        """
        self.check_ready()
        self._one_process.check()
        check_left(self.schedule, self._generation)
        _ = self.batch  # a round must be open
        if total is not None:
            check_batch(self.schedule.users, self._begun, self._users, users)
            total = self._noise.check_total(total, users)
        self._half_done = True
        if total is not None:
            self._open_sum, self._users = total, self._begun + users
        self._close()
        self._half_done = False

    def _check_room(self, users: int) -> None:
        self._check_covered(users)
        self._check_edge(users)

    def _check_covered(self, users: int) -> None:
        check_left(self.schedule, self._generation)
        if users and self._users >= self.schedule.users:
            raise StreamExhausted(
                f"the guarantee covers {self.schedule.users} users, and all were absorbed"
            )

    def _check_edge(self, users: int) -> None:
        after, edge = self._users + users, self.batch[1]
        if after > edge:
            raise InvalidParameter(
                f"users {self._users + 1} to {after} cross the release after user {edge}: split them there"
            )

    def _take(self, values: Numbers | None, users: int, absent: int = 0) -> None:
        """So many users join the sum, and so many others stay away."""
        if values is not None:
            total = values if self._open_sum is None else self._open_sum + values
            modulus = self._noise.modulus
            self._open_sum = total if modulus is None else total % modulus
        self._users += users + absent
        self._absent += absent
        if self._users == self._edge:
            self._close()

    def _close(self) -> None:
        total = self._open_sum
        if total is None:
            total = np.zeros(
                self._noise.bound.size, np.float64 if self._noise.modulus is None else np.int64
            )
        present = self._users - self._begun - self._absent
        self._noise.close(total, present, self._absent)
        self._generation += 1
        self._begin(self._users)
        if self._store is not None:
            state = self._pack()
            self._store.write(state if self._pack_state is None else self._pack_state(state))

    # Durability.

    def check_ready(self) -> None:
        """Refuse to go on from memory that may be ahead of the disk, or that an exception left half-way through a change."""
        if self._half_done:
            raise StateError(
                "the last release or its users could not be stored, so the release must not be published: restore the saved state"
            )
        if (
            self._users == 0
            and self._store is not None
            and not self._restored
            and self._store.generation() > self._generation
        ):
            raise StateError(
                f"the store contains generation {self._store.generation()}: restore it, or use another store"
            )

    def keep(self, store: StateStore, pack_state: Callable[[bytes], bytes] | None = None) -> None:
        """From now on each release is in this store before it can be read. `pack_state` gets what `save` gives, and adds to it."""
        self._store, self._pack_state = store, pack_state

    def save(self) -> bytes:
        """PRIVATE: everything needed to go on. With fast noise it decides the next draws."""
        self.check_ready()
        return self._pack()

    def _pack(self) -> bytes:
        noise_facts, noise_arrays = self._noise.state()
        facts = {
            "made_for": self._noise.made_for(),
            "schedule": identify(self.schedule),
            "users": self._users,
            "begun": self._begun,
            "absent": self._absent,
            "simulated": self._simulated,
            "noise": noise_facts,
        }
        if self._opened_bound is not None:
            facts["opened_bound"] = self._opened_bound
        arrays = {
            "open": np.zeros(0) if self._open_sum is None else self._open_sum,
            "nonces": np.frombuffer(b"".join(sorted(self._nonces)), dtype=np.uint8),
        }
        arrays |= {f"noise.{name}": array for name, array in noise_arrays.items()}
        return pack(_FORMAT, self._generation, facts, arrays)

    def restore(self, data: bytes, *, released: int | None = None, resume: bool = False) -> None:
        """Take over a saved state, into a privatizer made with the same arguments. A state must go on in one place only.

        `released` is the newest generation that may have left; an older state is refused. A store knows it. Past draws are kept. Future
        ones are the same for the fast source and fresh for the secure one.

        Devices made after this have fresh noise: one that was made between the save and a crash may have used the next draws already, and
        two messages with the same noise cancel it. A simulated run that `resume`s repeats its own devices, and so their draws.
        """
        if released is None and self._store is None:
            raise InvalidParameter(
                "without a store, restore needs released=: the newest generation that may have left"
            )
        if self._users or self._generation:
            raise StateError("this privatizer has already absorbed data: restore into a new one")
        newest = 0 if released is None else whole("released", released, at_least=0)
        if self._store is not None:
            newest = max(newest, self._store.generation())
        state = unpack(data, _FORMAT, released=newest)
        facts, arrays = state.facts, state.arrays
        if facts["schedule"] != identify(self.schedule):
            raise StateError("the state belongs to a privatizer with another schedule")
        if facts["made_for"] != self._noise.made_for():
            raise StateError(
                "the state belongs to a privatizer with another bound, guarantee, loss or source"
            )
        own = {
            name.removeprefix("noise."): array
            for name, array in arrays.items()
            if name.startswith("noise.")
        }
        self._half_done = True
        self._noise.restore(facts["noise"], own, generation=state.generation, resume=resume)
        self._generation = state.generation
        self._simulated = facts["simulated"]
        self._begin(facts["begun"])
        if resume or self._noise.resumes_batch:
            self._users, self._absent = facts["users"], facts["absent"]
            self._open_sum = arrays["open"] if arrays["open"].size else None
            self._opened_bound = facts.get("opened_bound")
            self._nonces = _split(arrays["nonces"].tobytes())
        self._restored = True
        self._half_done = False
        if self._users:
            # The state holds users' data, and a fork would copy them.
            self._one_process.check()

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a privatizer cannot be copied or pickled: two copies would noise the same sums twice, or give two devices the same noise; "
            "use save and restore"
        )

    # What the device half of a privatizer needs.

    def _absorb_message(self, values: Callable[[], Numbers], nonce: bytes) -> None:
        """One device's message. A refused one changes nothing."""
        self.check_ready()
        self._one_process.check()
        self._check_room(1)
        decoded = values()
        if nonce in self._nonces:
            raise DuplicateMessage("this message was absorbed before")
        self._nonces.add(nonce)
        self._absorb_values(decoded, 1)

    def _absorb_values(self, values: Numbers | None, users: int, *, absent: int = 0) -> None:
        """What was checked: the sum of these users' messages or shares, and how many others stay away."""
        self._one_process.check()
        self._half_done = True
        self._take(values, users, absent)
        self._half_done = False

    def _give_up_batch(self) -> None:
        """Forget the open batch, whose users are not counted."""
        self._begin(self._begun)


def _split(nonces: bytes) -> set[bytes]:
    return {nonces[at : at + _NONCE_BYTES] for at in range(0, len(nonces), _NONCE_BYTES)}
