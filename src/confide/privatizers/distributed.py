"""The privatizer of distributed noise: devices add shares of noise, and only the sum of a batch is seen."""

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import numpy as np

from confide.arguments import flag, kind, whole
from confide.errors import (
    BatchNotOpened,
    DuplicateMessage,
    InvalidParameter,
    PrivacyError,
    StaleMessage,
    StateError,
    StreamExhausted,
)
from confide.mechanisms.additive import check_bound
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.shares import Ints, ShareNoise, share_noise
from confide.mechanisms.sources import NoiseSource, check_source
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel, Released
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import DistributedDP, Request, Trust
from confide.privatizers import masks
from confide.privatizers.message import Message
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.schedule import Schedule

_COHORT = 12  # bytes of a message's nonce that say of which batch it is; the others are the place of its device


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """How one device of a batch makes its message: its share of the noise, and its masks.

    Guarantee: a message alone is evenly distributed, whatever the user did, for a server that does not choose who stays away (`masks`);
    the sum of its batch, which is opened with enough messages only, keeps the `guarantee`.
    """

    bound: Bound
    guarantee: Guarantee
    noise: ShareNoise
    users: int  # of the batch
    modulus: int
    id: bytes
    nonce: bytes  # the batch and the place in it
    seeds: tuple[tuple[int, bytes], ...] = field(repr=False)

    def message(self, contribution: Bounded, generation: int, source: NoiseSource) -> Message:
        """One user's contribution with a share of noise, masked. A place is used once."""
        if contribution.bound != self.bound or contribution.users != 1:
            raise InvalidParameter("a message is of one user, whose contribution was clipped by the bound of the batch")
        if source.name != self.guarantee.source:
            raise InvalidParameter(f"the batch is made for {self.guarantee.source} noise, the source is {source.name}")
        noisy = self.noise.add(contribution.values, self.users, 1, source)
        masked = (noisy + masks.mask(self.seeds, self.bound.size, self.modulus)) % self.modulus
        return Message(generation, self.nonce, self.id, masked.astype(np.float64))


class DistributedPrivatizer:
    """Opens the sum of each batch of the schedule once, with the noise of its devices, and releases prefix sums of them.

    Guarantee: all releases together satisfy `privacy` for every user, each of whom is in one batch; also for adaptive streams. Up to a
    user's batch everything published has one law on both neighbours; the sum of that batch is (epsilon, delta)-DP given that; what follows
    is a function of releases and of other users. A batch of n users needs `honest(n)` devices; with fewer it is not opened
    (`BatchNotOpened`), nothing of it is released, and its users are not counted. Fewer drop-outs give more privacy than requested.

    Secure aggregation is simulated (`masks`): the server adds up masked messages, and removes the masks of devices that stay away.
    Arithmetic is modulo a public power of two; a number of a sum is misread with probability 1e-31 at most, which is no loss of privacy.
    Messages are hidden, so that a device that sends nonsense spoils the sum of its batch.
    """

    devices: ClassVar[bool] = True

    def __init__(
        self,
        bound: Bound,
        schedule: Schedule,
        *,
        privacy: Request,
        noise: NoiseSource,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> None:
        check_bound(bound), check_source(noise), kind("schedule", schedule, Schedule)
        _plain(counter, loss)
        asked: DistributedDP = kind("privacy", privacy, DistributedDP)
        self.schedule, self.bound = schedule, bound
        self.noise = share_noise(bound, asked, _largest(schedule))
        self.modulus = self.noise.modulus(bound.largest)
        self.guarantee = Guarantee(self.noise.loss(asked.delta), asked, Trust.DISTRIBUTED, schedule.users, noise.name)
        made_with = f"{bound!r} {self.noise.scale:.9g} {self.noise.step} {self.noise.dropouts} {self.modulus}"
        self._id = hashlib.sha256(made_with.encode()).digest()[:8]
        self._source = noise.fork()
        self._prefix: Array = np.zeros(bound.size)
        self._variance, self._summed, self._generation, self._simulated = 0.0, 0, 0, 0
        self._new_batch()

    def _new_batch(self) -> None:
        """Other devices, with masks of their own: what was sent for the batch before says nothing about this one."""
        self._cohort, self._secret = self._source.token(_COHORT), self._source.token(masks.SECRET)
        self._total: Ints = np.zeros(self.bound.size, dtype=np.int64)
        self._places: set[int] = set()  # of the messages that are here
        self._handed = self._present = self._absent = 0

    @property
    def users(self) -> int:
        """How many users were served, those included whose devices stayed away from an opened batch."""
        return self.batch[0] + self._present + self._absent

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def batch(self) -> tuple[int, int]:
        begun = self.schedule.times[self._generation - 1] if self._generation else 0
        return begun, begun + self.schedule.size(self._generation)

    def __repr__(self) -> str:
        return f"DistributedPrivatizer({self.schedule.leaves} releases, {self.users} users so far, {self.guarantee})"

    def mechanism(self) -> Mechanism:
        """What a certificate says. `scale` is that of the sum of the honest shares; `honest` is of the largest batch."""
        simulated = f"; simulated for {self._simulated} users, whose noise was drawn as one sum" if self._simulated else ""
        noise, largest = self.noise, self.noise.largest
        return Mechanism(
            name="distributed",
            distribution="gaussian",
            norm=2,
            sensitivity=noise.sensitivity,
            scale=noise.scale,
            parameters={
                "leaves": self.schedule.leaves,
                "honest": noise.honest(largest),
                "dropouts": noise.dropouts,
                "dimension": noise.size,
            },
            lattice=noise.step,
            bound=describe(self.bound),
            query=f"the sum of each batch, modulo 2^{self.modulus.bit_length() - 1}{simulated}",
        )

    def device_source(self) -> NoiseSource:
        """Noise for one more device, of this server's kind: for devices that live in the same process."""
        return self._source.device()

    def device_channel(self) -> Place:
        """The place of one more device in the open batch."""
        self._check_room(0)
        users = self._size
        if self._handed == users:
            raise InvalidParameter(f"the batch has {users} devices, and all of them have their places")
        place, self._handed = self._handed, self._handed + 1
        nonce = self._cohort + place.to_bytes(4)
        pairs = masks.seeds(self._secret, place, masks.neighbours(place, users))
        return Place(self.bound, self.guarantee, self.noise, users, self.modulus, self._id, nonce, pairs)

    def receive(self, message: Message) -> None:
        """One device's masked message; a refused one changes nothing."""
        self._check_room(1)
        cohort, place = message.nonce[:_COHORT], int.from_bytes(message.nonce[_COHORT:])
        if message.channel != self._id:
            raise InvalidParameter("the message was made for another bound or with other noise than this server counts on")
        if message.generation != self._generation or cohort != self._cohort:
            raise StaleMessage("the message is of another batch than the open one: it is stale")
        if place >= self._handed or message.values.shape != self._total.shape:
            raise InvalidParameter("the message is of no device of this batch")
        if place in self._places:
            raise DuplicateMessage("this message was absorbed before")
        values = message.values
        if not ((values >= 0) & (values < self.modulus) & (values == np.floor(values))).all():
            raise InvalidParameter("a message's numbers must be whole, and smaller than the modulus")
        self._places.add(place)
        self._take(values.astype(np.int64), 1)

    def absorb(self, contribution: Bounded) -> None:
        """SIMULATION: what the unmasked messages of `contribution.users` devices would add up to. The noise is drawn here, at once.

        No message comes this way: it takes a contribution before its noise, which no server has. Needs fast noise; the certificate says so.
        """
        if self._source.discrete:
            raise PrivacyError(
                "no server of real users takes contributions under DistributedDP: each device sends its own message (agent.client()); "
                "crowds are for simulations, which have fast noise"
            )
        if contribution.bound is not self.bound and contribution.bound != self.bound:
            raise InvalidParameter("the contribution was clipped by another bound than the privatizer's")
        self._check_room(contribution.users)
        noisy = self.noise.add(contribution.values, self._size, contribution.users, self._source)
        self._simulated += contribution.users
        self._take(noisy, contribution.users)

    def stay_away(self, users: int) -> None:
        """So many more devices of the open batch will send nothing. Where too few are left the batch is given up: `BatchNotOpened`."""
        self._check_room(whole("users", users, at_least=1))
        needed, size = self.noise.honest(self._size), self._size
        if self._absent + users > size - needed:
            missing, here = self._absent + users, self._present
            self._new_batch()
            raise BatchNotOpened(
                f"{missing} of the {size} devices of a batch stay away, and the guarantee allows {size - needed} (dropouts="
                f"{self.noise.dropouts:g}): the batch is not opened, its {here} messages are given up, and its users are not counted. "
                "Serve a new batch, or request more dropouts"
            )
        self._absent += users
        self._close_if_complete()

    def close(self, total: Array | None = None, users: int = 0) -> None:  # noqa: ARG002
        raise PrivacyError(
            "under DistributedDP a batch closes when all of its devices have sent something or are known to stay away"
        )

    def release(self) -> Released:
        """The sum of all opened batches. `users` are those in the sum. Asking again gives the same answer."""
        level = NoiseLevel(math.sqrt(self._variance), "gaussian")
        return Released(self._prefix.copy(), level, self.guarantee, self._summed, self._generation)

    def save(self) -> bytes:
        """Everything needed to go on. PRIVATE: a simulation knows all masks, and with fast noise the next draws."""
        facts: dict[str, Any] = {"made_for": self._made_for(), "noise": self._source.state()}
        facts |= {"cohort": self._cohort.hex(), "secret": self._secret.hex(), "variance": self._variance}
        facts |= {"counts": [self._summed, self._simulated, self._handed, self._present, self._absent]}
        arrays = {"prefix": self._prefix, "total": self._total, "places": np.array(sorted(self._places), dtype=np.int64)}
        return pack("distributed", self._generation, facts, arrays)

    def restore(self, data: bytes, *, released: int, resume: bool = False) -> None:
        """Take over a saved state, into a privatizer made with the same arguments; older than generation `released` it is refused.

        The open batch is given up, and its users come again: a device that was made between the save and a crash has a place in it
        already, and no place may be used twice. A simulated run that `resume`s repeats its own devices, and keeps the batch.
        """
        if self.users:
            raise StateError("this privatizer has already absorbed data: restore into a new one")
        state = unpack(data, "distributed", released=released)
        if state.facts["made_for"] != self._made_for():
            raise StateError("the state belongs to a privatizer with another bound, schedule, guarantee or source")
        self._prefix, self._generation, self._variance = state.arrays["prefix"], state.generation, float(state.facts["variance"])
        counts = [int(count) for count in state.facts["counts"]]
        self._summed, self._simulated = counts[:2]
        if not resume:
            self._source.refresh()
            self._new_batch()
            return
        self._source.restore(state.facts["noise"])
        self._cohort, self._secret = (bytes.fromhex(state.facts[name]) for name in ("cohort", "secret"))
        self._total, self._places = state.arrays["total"], set(state.arrays["places"].tolist())
        self._handed, self._present, self._absent = counts[2:]

    @classmethod
    def expected_noise(
        cls,
        bound: Bound,
        schedule: Schedule,
        *,
        privacy: Request,
        discrete: bool,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> ExpectedNoise:
        """If no device stays away: then there are most shares of noise."""
        kind("schedule", schedule, Schedule), flag("discrete", discrete)
        _plain(counter, loss)
        asked: DistributedDP = kind("privacy", privacy, DistributedDP)
        made = share_noise(bound, asked, _largest(schedule))
        sizes = np.diff(np.asarray(schedule.times), prepend=0)
        first = made.std(int(sizes[0]), int(sizes[0]))
        kinds, batches = np.unique(sizes, return_counts=True)
        last = math.sqrt(sum(int(n) * made.std(int(size), int(size)) ** 2 for size, n in zip(kinds, batches, strict=True)))
        return ExpectedNoise("distributed", "gaussian", 2, made.sensitivity, made.loss(asked.delta), first, last, last)

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a privatizer cannot be copied or pickled: two copies would give two devices the same place; use save and restore"
        )

    @property
    def _size(self) -> int:
        """How many users the open batch has."""
        start, end = self.batch
        return end - start

    def _check_room(self, users: int) -> None:
        if self._generation == self.schedule.leaves:
            raise StreamExhausted(f"the guarantee covers {self.schedule.users} users, and all were absorbed")
        if self.users + users > self.batch[1]:
            raise InvalidParameter(
                f"users {self.users + 1} to {self.users + users} cross the release after user {self.batch[1]}: split them there"
            )

    def _take(self, values: Ints, users: int) -> None:
        self._total = (self._total + values) % self.modulus
        self._present += users
        self._close_if_complete()

    def _close_if_complete(self) -> None:
        users = self._size
        if self._present + self._absent < users:
            return
        left: Ints = np.zeros(self.bound.size, dtype=np.int64)  # masks that somebody absent does not cancel
        for place in self._places if len(self._places) < users else ():
            absent = [other for other in masks.neighbours(place, users) if other not in self._places]
            left = (left + masks.mask(masks.seeds(self._secret, place, absent), self.bound.size, self.modulus)) % self.modulus
        half = self.modulus // 2
        summed = (self._total - left + half) % self.modulus - half
        self._prefix = self._prefix + summed * self.noise.step
        self._variance += self.noise.std(users, self._present) ** 2
        self._summed += self._present
        self._generation += 1
        self._new_batch()

    def _made_for(self) -> str:
        """All that must agree between the privatizer that was saved and the one that goes on."""
        public = self.mechanism().to_json() | {"query": "", "schedule": self.schedule.name, "source": self._source.name}
        return json.dumps(public | {"request": repr(self.guarantee.request)}, sort_keys=True)


def _plain(counter: Factorisation | None, loss: Loss | None) -> None:
    if counter is not None or loss is not None:
        raise InvalidParameter("counter and loss must be None: distributed noise is added to each batch, by the devices")


def _largest(schedule: Schedule) -> int:
    return int(np.diff(np.asarray(schedule.times), prepend=0).max())
