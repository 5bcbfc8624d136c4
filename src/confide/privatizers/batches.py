"""The open batch of every trust model: who is in it, and when it becomes a release.

The users between two releases are a batch. `Batches` knows the users, the sum and the schedule of
the open batch, and nothing else in confide does. What differs between trust models is how the sum
of a closed batch becomes a release: `BatchNoise` says it.

What leaves this file is the saved state (`_FORMAT`), which is PRIVATE. If its content changes, its
version must change. A certificate quotes what `BatchNoise.mechanisms` says. All private names may
be changed freely.

Each guarantee of a privatizer rests on these rules of this file:

- Each user joins one batch, and each batch is closed once.
- A change that an exception has interrupted is neither saved, nor released, nor done again.
- With a store, a release is on the disk before anybody can read it.
- A copied process does not go on.
"""

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
# The name and version of a saved state.
_FORMAT = "batches-1"
# The arrays of the `BatchNoise` have this prefix in a saved state.
_NOISE = "noise."
# Every message has a random nonce of this length (`message.py`).
_NONCE_BYTES = 16
# What `Batches` needs of a `BatchNoise` and of a store. A test's own class may lack the rest.
_NOISE_MEMBERS = ("bound", "guarantee", "join", "close", "release")
_STORE_MEMBERS = ("exists", "read", "write", "generation")


class BatchNoise(Protocol):
    """How the sum of a closed batch becomes a release. One implementation per trust model.

    It is PRIVATE where it holds exact sums. `Batches` calls the methods in this order: for each
    contribution `check` and `join`, at the end of the batch `close`, and then `release` any number
    of times.
    """

    # Whether users send messages from their own devices, so that no server sees a contribution.
    devices: ClassVar[bool]
    # Whether a restart keeps the open batch. False where its sum may have been opened already.
    resumes_batch: ClassVar[bool]

    @property
    def modulus(self) -> int | None:
        """Sums are taken modulo this number. None: they are not."""

    @property
    def bound(self) -> Bound:
        """The bound of what each user of the open batch contributes."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for everything that will ever be released."""

    def open(self, bound: Bound) -> None:
        """Begin a batch whose users contribute within this bound.

        This is called only if sizes are decided from releases (`AtMost`).
        """

    def check(self, contribution: Bounded) -> None:
        """Refuse a contribution that must not come, before anything is changed."""

    def join(self, contribution: Bounded, size: int) -> Numbers:
        """Return what these users of a batch of `size` users add to its sum.

        With `devices` this is a SIMULATION, which draws the noise of their devices.
        """

    def check_total(self, total: Numbers, users: int) -> Numbers:
        """Return the sum of a whole batch that somebody else added up, if it can be one."""

    def close(self, total: Numbers, users: int, absent: int) -> None:
        """End the batch. `users` are in its sum, and `absent` others were served but stayed away.

        A curator's noise is drawn here, once.
        """

    def release(self, users: int, generation: int) -> Released:
        """Return the statistics after so many users and releases."""

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        """Return the mechanisms for a certificate, if so many users were simulated."""

    def settings(self) -> str:
        """Return all that a saved state and the object that restores it must agree on.

        The schedule is not in it, because `Batches` compares it.
        """

    def state(self) -> tuple[Facts, Arrays]:
        """Return everything that is needed to go on. PRIVATE."""

    def restore(self, facts: Facts, arrays: Arrays, *, generation: int, resume: bool) -> None:
        """Go on from what `state` returned."""


def check_clipped_by(bound: Bound, contribution: Bounded) -> None:
    """Raise an error unless the contribution was clipped by this bound."""
    if contribution.bound is not bound and contribution.bound != bound:
        raise InvalidParameter(
            "the contribution was clipped by another bound than the privatizer's"
        )


class Batches:
    """The open batch and the releases so far, for every trust model.

    Guarantee: that of `noise`, which gets the sum of each batch once.

    If an exception interrupts a change of the open batch, the memory may be ahead of the disk, or a
    user may be counted although the sum is not. Nothing is saved or released from such a memory.
    Its users may not come again. The saved state must be restored.
    """

    def __init__(
        self,
        noise: BatchNoise,
        schedule: Schedule | AtMost,
        *,
        store: StateStore | str | Path | None = None,
    ) -> None:
        self.schedule: Schedule | AtMost = kind("schedule", schedule, Schedule, AtMost)
        self._noise: BatchNoise = has("noise", noise, _NOISE_MEMBERS, "a BatchNoise")
        self._generation = 0
        # How many users were simulated so far. The certificate says so.
        self._simulated = 0
        # True between the first change of a batch and the last one.
        self._is_half_done = False
        self._was_restored = False
        self._one_process = OneProcess()
        self._store: StateStore | None = None
        self._pack_state: Callable[[bytes], bytes] | None = None
        self._begin_batch(0)
        if store is not None:
            chosen = StateFile(store) if isinstance(store, str | Path) else store
            self.keep(has("store", chosen, _STORE_MEMBERS, "a StateStore, or a file"))

    def _begin_batch(self, users: int) -> None:
        """Begin a batch after so many users. Nobody is in it."""
        self._users_before = users
        # All users so far: those before the batch, those in it, and those who stayed away from it.
        self._users = users
        self._absent = 0
        # How many users there are when the batch ends; None until somebody has decided it.
        # Earlier batches may have had more users than planned, and the guarantee covers no more.
        size = self.schedule.size(self._generation)
        self._users_at_end = None if size is None else min(users + size, self.schedule.users)
        # The sum of the batch. None while nobody is in it.
        self._open_sum: Numbers | None = None
        # The identity of the bound that `open` was given. After a restart, the same bound must be
        # opened again, because the sum is of contributions within it.
        self._opened_bound: str | None = None
        # The nonces of the batch's messages. A message to an earlier batch is refused as stale.
        self._nonces: set[bytes] = set()

    # What is public.

    @property
    def devices(self) -> bool:
        """Whether users send messages from their own devices."""
        return self._noise.devices

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for everything that will ever be released."""
        return self._noise.guarantee

    @property
    def users(self) -> int:
        """How many users were served, including those who stayed away from a closed batch."""
        return self._users

    @property
    def generation(self) -> int:
        """How many releases were made."""
        return self._generation

    @property
    def batch(self) -> tuple[int, int]:
        """How many users there were when the open batch began, and how many will be at its end."""
        if self._users_at_end is None:
            raise StateError("no round is open")
        return self._users_before, self._users_at_end

    @property
    def is_exhausted(self) -> bool:
        """Whether all users whom the guarantee covers were served, or all releases were made."""
        return self._users >= self.schedule.users or self._generation >= self.schedule.leaves

    def __repr__(self) -> str:
        return (
            f"Batches({self.mechanism().name}, {self.schedule.leaves} releases, "
            f"{self.users} users so far, {self.guarantee})"
        )

    def mechanism(self) -> Mechanism:
        """Return the first of `mechanisms`."""
        return self.mechanisms()[0]

    def mechanisms(self) -> list[Mechanism]:
        """Return the mechanisms for a certificate."""
        return self._noise.mechanisms(self._simulated)

    def release(self) -> Released:
        """Return the statistics of the newest release. Repeated calls return the same."""
        self.check_ready()
        return self._noise.release(self._users_before, self._generation)

    # Users join the open batch, and it is closed.

    def open(self, bound: Bound, users: int) -> None:
        """Decide the size of the open batch, and the bound of what its users contribute.

        The decision must be public, and only the first one counts.
        """
        check_bound(bound)
        whole("users", users, at_least=1)
        if self._users_at_end is not None:
            return
        users_left = self.schedule.users - self._users_before
        if self._generation == self.schedule.leaves or users > users_left:
            raise StreamExhausted(
                f"the guarantee covers {self.schedule.users} users "
                f"in at most {self.schedule.leaves} rounds"
            )
        # After a restart users may be in the batch already.
        has_another_bound = self._open_sum is not None and self._opened_bound != identify(bound)
        if has_another_bound or self._users - self._users_before >= users:
            raise StateError(
                "the open round was planned otherwise before: its users are in another sum"
            )
        self._noise.open(bound)
        self._opened_bound = identify(bound)
        self._users_at_end = self._users_before + users

    def absorb(self, contribution: Bounded, *, counted: bool = False) -> None:
        """Add users to the open batch. Its last user makes the next release.

        With `devices` this is a SIMULATION of the messages that their devices would send. `counted`
        says that the users are exact counts of a simulated batch. The certificate says both.
        """
        self.check_ready()
        self._one_process.check()
        users = private_kind("contribution", contribution, Bounded).users
        self._check_covered(users)
        self._noise.check(contribution)
        self._check_end_of_batch(users)
        start, end = self.batch
        self._is_half_done = True
        values = self._noise.join(contribution, end - start)
        if counted or self._noise.devices:
            self._simulated += users
        self._add(values, users)
        self._is_half_done = False

    def close(self, total: Numbers | None = None, users: int = 0) -> None:
        """Release now, with the users who are in the open batch.

        WHEN must be decided in public, and not from users' data.

        `total` is the sum of a whole batch of `users` users from a service that adds up
        contributions itself, or decoded messages with `devices`. Then nobody else may be in the
        open batch.
        """
        self.check_ready()
        self._one_process.check()
        check_left(self.schedule, self._generation)
        if self._users_at_end is None:
            raise StateError("no round is open")
        if total is not None:
            check_batch(self.schedule.users, self._users_before, self._users, users)
            total = self._noise.check_total(total, users)
        self._is_half_done = True
        if total is not None:
            self._open_sum = total
            self._users = self._users_before + users
        self._close()
        self._is_half_done = False

    def _check_room(self, users: int) -> None:
        """Raise an error unless so many more users fit into the open batch."""
        self._check_covered(users)
        self._check_end_of_batch(users)

    def _check_covered(self, users: int) -> None:
        check_left(self.schedule, self._generation)
        if users and self._users >= self.schedule.users:
            raise StreamExhausted(
                f"the guarantee covers {self.schedule.users} users, and all were absorbed"
            )

    def _check_end_of_batch(self, users: int) -> None:
        users_after = self._users + users
        _, end = self.batch
        if users_after > end:
            raise InvalidParameter(
                f"users {self._users + 1} to {users_after} cross the release after user {end}: "
                "split them there"
            )

    def _add(self, values: Numbers | None, users: int, absent: int = 0) -> None:
        """Add these users to the sum, and count `absent` others who stay away."""
        if values is not None:
            total = values if self._open_sum is None else self._open_sum + values
            modulus = self._noise.modulus
            self._open_sum = total if modulus is None else total % modulus
        self._users += users + absent
        self._absent += absent
        if self._users == self._users_at_end:
            self._close()

    def _close(self) -> None:
        total = self._open_sum
        if total is None:
            dtype = np.float64 if self._noise.modulus is None else np.int64
            total = np.zeros(self._noise.bound.size, dtype)
        present = self._users - self._users_before - self._absent
        self._noise.close(total, present, self._absent)
        self._generation += 1
        self._begin_batch(self._users)
        if self._store is not None:
            state = self._pack()
            self._store.write(state if self._pack_state is None else self._pack_state(state))

    # The half of devices: `LocalPrivatizer` and `DistributedPrivatizer` call it.

    def _absorb_message(self, decode: Callable[[], Numbers], nonce: bytes) -> None:
        """Add one device's message to the open batch. A message that is refused changes nothing."""
        self.check_ready()
        self._one_process.check()
        self._check_room(1)
        values = decode()
        if nonce in self._nonces:
            raise DuplicateMessage("this message was absorbed before")
        self._nonces.add(nonce)
        self._absorb_values(values, 1)

    def _absorb_values(self, values: Numbers | None, users: int, *, absent: int = 0) -> None:
        """Add the sum of these users' messages or shares, which was checked before."""
        self._one_process.check()
        self._is_half_done = True
        self._add(values, users, absent)
        self._is_half_done = False

    def _give_up_batch(self) -> None:
        """Forget the open batch. Its users are not counted."""
        self._begin_batch(self._users_before)

    # The state is saved and restored.

    def check_ready(self) -> None:
        """Refuse to go on from a half-done change, or if the store is ahead of the memory."""
        if self._is_half_done:
            raise StateError(
                "the last release or its users could not be stored, so the release "
                "must not be published: restore the saved state"
            )
        is_new = self._users == 0 and not self._was_restored
        if is_new and self._store is not None and self._store.generation() > self._generation:
            raise StateError(
                f"the store contains generation {self._store.generation()}: restore it, "
                "or use another store"
            )

    def keep(self, store: StateStore, pack_state: Callable[[bytes], bytes] | None = None) -> None:
        """Store each release from now on, before anybody can read it.

        `pack_state` gets what `save` returns, and returns what is stored.
        """
        self._store = store
        self._pack_state = pack_state

    def save(self) -> bytes:
        """Return everything that is needed to go on. PRIVATE: fast noise is repeated from it."""
        self.check_ready()
        return self._pack()

    def _pack(self) -> bytes:
        noise_facts, noise_arrays = self._noise.state()
        facts = {
            "made_for": self._noise.settings(),
            "schedule": identify(self.schedule),
            "users": self._users,
            "begun": self._users_before,
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
        for name, array in noise_arrays.items():
            arrays[_NOISE + name] = array
        return pack(_FORMAT, self._generation, facts, arrays)

    def restore(self, data: bytes, *, released: int | None = None, resume: bool = False) -> None:
        """Go on from a saved state, in a new privatizer that was made with the same arguments.

        A state must go on in one place only. `released` is the newest generation that may have
        left, and an older state is refused. A store knows it. Past draws are kept. Future draws are
        the same for the fast source, and fresh for the secure one.

        Devices that are made after this have fresh noise. A device that was made between the save
        and a crash may have used the next draws already, and two messages with the same noise
        would cancel it. A simulated run that `resume`s repeats its own devices with their draws.
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
        facts = state.facts
        if facts["schedule"] != identify(self.schedule):
            raise StateError("the state belongs to a privatizer with another schedule")
        if facts["made_for"] != self._noise.settings():
            raise StateError(
                "the state belongs to a privatizer with another bound, guarantee, loss or source"
            )
        noise_arrays = {
            name.removeprefix(_NOISE): array
            for name, array in state.arrays.items()
            if name.startswith(_NOISE)
        }
        self._is_half_done = True
        self._noise.restore(
            facts["noise"], noise_arrays, generation=state.generation, resume=resume
        )
        self._generation = state.generation
        self._simulated = facts["simulated"]
        self._begin_batch(facts["begun"])
        if resume or self._noise.resumes_batch:
            self._restore_open_batch(facts, state.arrays)
        self._was_restored = True
        self._is_half_done = False
        if self.users:
            # The state has users' data, which a fork would copy.
            self._one_process.check()

    def _restore_open_batch(self, facts: Facts, arrays: Arrays) -> None:
        self._users = facts["users"]
        self._absent = facts["absent"]
        self._open_sum = arrays["open"] if arrays["open"].size else None
        self._opened_bound = facts.get("opened_bound")
        self._nonces = _split_nonces(arrays["nonces"].tobytes())

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a privatizer cannot be copied or pickled: two copies would noise the same sums twice, "
            "or give two devices the same noise; use save and restore"
        )


def _split_nonces(nonces: bytes) -> set[bytes]:
    return {nonces[i : i + _NONCE_BYTES] for i in range(0, len(nonces), _NONCE_BYTES)}
