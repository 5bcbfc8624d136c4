"""The privatizer of distributed noise: devices add shares of noise, and an ideal aggregator shows the sum of each batch."""

import json
import math
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from confide.arguments import flag, kind, private_kind, whole
from confide.errors import (
    BatchNotOpened,
    InvalidParameter,
    PrivacyError,
    StaleMessage,
    StateError,
    StreamExhausted,
)
from confide.identity import identify
from confide.mechanisms.additive import check_bound
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.shares import share_noise
from confide.mechanisms.sources import NoiseSource, check_source
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel, Released
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import DistributedDP, Request, Trust
from confide.privatizers.aggregation import ID_BYTES, DeviceShare, Ints, ShareBatch, check_sum
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.schedule import Schedule


class DistributedPrivatizer:
    """Takes the sum of each batch of the schedule once, from an ideal aggregator, and releases prefix sums of these.

    Guarantee: all releases together satisfy `privacy` for every user, each of whom is in one batch; also for adaptive streams. It assumes
    an ideal aggregator (`aggregation`), which the caller provides. Up to a user's batch everything published has one law on both
    neighbours; the sum of that batch is (epsilon, delta)-DP given that; what follows is a function of releases and of other users. A sum
    of fewer than `honest(n)` of n devices is refused (`BatchNotOpened`), nothing of it is released, and its users are not counted. Fewer
    drop-outs give more privacy than requested.

    Arithmetic is modulo a public power of two; a number of a sum is misread with probability 1e-31 at most, which is no loss of privacy.
    The aggregator sees no plain numbers, so that a device that sends nonsense spoils the sum of its batch.
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
        self.schedule, self.bound, self.privacy = schedule, bound, asked
        self.noise = share_noise(bound, asked, _largest(schedule))
        self.modulus = self.noise.modulus(bound.largest)
        self.guarantee = Guarantee(
            self.noise.loss(asked.delta), asked, Trust.DISTRIBUTED, schedule.users, noise.name
        )
        self._source = noise.fork()
        self._prefix: Array = np.zeros(bound.size)
        self._variance, self._summed, self._generation = 0.0, 0, 0
        # How many users were simulated: by one draw for a crowd, or by shares that were added up in this process.
        self._simulated, self._added_here = 0, 0
        self._new_batch()

    def _new_batch(self) -> None:
        """Other devices, whose shares go to another sum: what was added up for the batch before is forgotten."""
        # Two draws, so that a run with the same seed keeps its releases from version to version.
        self._batch_id = self._source.token(ID_BYTES // 2) + self._source.token(ID_BYTES // 2)
        self._total: Ints = np.zeros(self.bound.size, dtype=np.int64)
        self._present = self._absent = 0

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
        simulated = (
            f"; simulated for {self._simulated} users, whose noise was drawn as one sum"
            if self._simulated
            else ""
        )
        if self._added_here:
            simulated += f"; simulated aggregation: the shares of {self._added_here} users were added up by the server itself"
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
            query=f"the sum of each batch from an ideal aggregator, modulo 2^{self.modulus.bit_length() - 1}{simulated}",
            simulated=simulated != "",
        )

    def device_source(self) -> NoiseSource:
        """Noise for one more device, of this server's kind: for devices that live in the same process."""
        return self._source.device()

    def share_batch(self, answered: bytes) -> ShareBatch:
        """The open batch, as its devices and the aggregator must know it. Public. `answered` is the digest of its round."""
        self._check_room(0)
        users, noise = self._size, self.noise
        least = noise.honest(users)
        return ShareBatch(
            self._batch_id,
            self._generation,
            answered,
            users,
            least,
            noise.largest,
            self.bound.size,
            self.modulus,
        )

    def receive_sum(self, batch_id: bytes, total: npt.ArrayLike, devices: int) -> None:
        """The sum of the open batch, which the aggregator opened with so many devices in it. It makes the next release.

        With fewer devices than the guarantee needs the batch is given up: `BatchNotOpened`.
        """
        self._check_room(0)
        if not isinstance(batch_id, bytes) or batch_id != self._batch_id:
            raise StaleMessage("the sum is of another batch than the open one: it is stale")
        if self._present or self._absent:
            raise InvalidParameter("the open batch is simulated already: a sum comes alone")
        users = self._size
        whole("devices", devices, at_least=0, at_most=users)
        numbers = check_sum(total, self.bound.size, self.modulus)
        if devices < self.noise.honest(users):
            self._give_up(users - devices)
        self._total, self._present, self._absent = numbers, devices, users - devices
        self._close()

    def simulate_aggregation(self, batch: ShareBatch, share: DeviceShare) -> None:
        """SIMULATION of the ideal aggregator, in the server's own process: no server of real users may see a share.

        The sum is opened when all devices of the batch have taken part, or are known to stay away. The certificate says so.
        """
        kind("share", share, DeviceShare)
        if kind("batch", batch, ShareBatch) != self.share_batch(batch.round):
            raise StaleMessage("the share is of another batch than the open one: it is stale")
        self._check_room(1)
        self._added_here += 1
        self._take(check_sum(share.for_aggregation(), batch.size, batch.modulus), 1)

    def absorb(self, contribution: Bounded) -> None:
        """SIMULATION: what the shares of `contribution.users` devices would add up to. The noise is drawn here, at once.

        It takes a contribution before its noise, which no server of real users has. Needs fast noise; the certificate says so.
        """
        if self._source.discrete:
            raise PrivacyError(
                "no server of real users takes contributions under DistributedDP: each device (ShareClient) hands its share to secure "
                "aggregation. Crowds are for simulations, which have fast noise"
            )
        private_kind("contribution", contribution, Bounded)
        if contribution.bound is not self.bound and contribution.bound != self.bound:
            raise InvalidParameter(
                "the contribution was clipped by another bound than the privatizer's"
            )
        self._check_room(contribution.users)
        noisy = self.noise.add(contribution.values, self._size, contribution.users, self._source)
        self._simulated += contribution.users
        self._take(noisy, contribution.users)

    def stay_away(self, users: int) -> None:
        """SIMULATION: so many more devices of the open batch do not take part.

        With too few left the batch is given up: `BatchNotOpened`.
        """
        self._check_room(whole("users", users, at_least=1))
        if self._absent + users > self._size - self.noise.honest(self._size):
            self._give_up(self._absent + users)
        self._absent += users
        self._close_if_complete()

    def close(self, total: Array | None = None, users: int = 0) -> None:  # noqa: ARG002
        raise PrivacyError(
            "under DistributedDP a batch closes when the aggregator has opened its sum: agent.shares.absorb_sum"
        )

    def release(self) -> Released:
        """The sum of all opened batches. `users` are those in the sum. Asking again gives the same answer."""
        level = NoiseLevel(math.sqrt(self._variance), "gaussian")
        return Released(self._prefix.copy(), level, self.guarantee, self._summed, self._generation)

    def save(self) -> bytes:
        """Everything needed to go on. PRIVATE: a simulation has an open sum, and with fast noise the next draws."""
        facts: dict[str, Any] = {"made_for": self._made_for(), "noise": self._source.state()}
        facts |= {"batch": self._batch_id.hex(), "variance": self._variance}
        facts |= {
            "counts": [self._summed, self._simulated, self._added_here, self._present, self._absent]
        }
        return pack(
            "distributed-2", self._generation, facts, {"prefix": self._prefix, "total": self._total}
        )

    def restore(self, data: bytes, *, released: int, resume: bool = False) -> None:
        """Take over a saved state, into a privatizer made with the same arguments; older than generation `released` it is refused.

        The open batch is given up, and its users come again: the aggregator may have opened its sum between the save and a crash, and no
        batch may be opened twice. A simulated run that `resume`s repeats its own devices, and keeps the batch.
        """
        if self.users:
            raise StateError("this privatizer has already absorbed data: restore into a new one")
        state = unpack(data, "distributed-2", released=released)
        if state.facts["made_for"] != self._made_for():
            raise StateError(
                "the state belongs to a privatizer with another bound, schedule, guarantee or source"
            )
        self._prefix, self._generation, self._variance = (
            state.arrays["prefix"],
            state.generation,
            float(state.facts["variance"]),
        )
        counts = [int(count) for count in state.facts["counts"]]
        self._summed, self._simulated, self._added_here = counts[:3]
        if not resume:
            self._source.refresh()
            self._new_batch()
            return
        self._source.restore(state.facts["noise"])
        self._batch_id, self._total = bytes.fromhex(state.facts["batch"]), state.arrays["total"]
        self._present, self._absent = counts[3:]

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
        last = math.sqrt(
            sum(
                int(n) * made.std(int(size), int(size)) ** 2
                for size, n in zip(kinds, batches, strict=True)
            )
        )
        return ExpectedNoise(
            "distributed",
            "gaussian",
            2,
            made.sensitivity,
            made.loss(asked.delta),
            first,
            last,
            last,
        )

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a privatizer cannot be copied or pickled: two copies would open the same batch twice; use save and restore"
        )

    @property
    def _size(self) -> int:
        """How many users the open batch has."""
        start, end = self.batch
        return end - start

    def _check_room(self, users: int) -> None:
        if self._generation == self.schedule.leaves:
            raise StreamExhausted(
                f"the guarantee covers {self.schedule.users} users, and all were absorbed"
            )
        if self.users + users > self.batch[1]:
            raise InvalidParameter(
                f"users {self.users + 1} to {self.users + users} cross the release after user {self.batch[1]}: split them there"
            )

    def _take(self, values: Ints, users: int) -> None:
        self._total = (self._total + values) % self.modulus
        self._present += users
        self._close_if_complete()

    def _close_if_complete(self) -> None:
        if self._present + self._absent == self._size:
            self._close()

    def _close(self) -> None:
        half = self.modulus // 2
        summed = (self._total + half) % self.modulus - half
        self._prefix = self._prefix + summed * self.noise.step
        self._variance += self.noise.std(self._size, self._present) ** 2
        self._summed += self._present
        self._generation += 1
        self._new_batch()

    def _give_up(self, missing: int) -> NoReturn:
        size, allowed = self._size, self._size - self.noise.honest(self._size)
        self._new_batch()
        raise BatchNotOpened(
            f"{missing} of the {size} devices of a batch stay away, and the guarantee allows {allowed} (dropouts="
            f"{self.noise.dropouts:g}): nothing of the batch is released, and its users are not counted. "
            "Serve a new batch, or request more dropouts"
        )

    def _made_for(self) -> str:
        """All that must agree between the privatizer that was saved and the one that goes on."""
        public = replace(self.mechanism(), query="", simulated=False).to_json() | {
            "schedule": identify(self.schedule),
            "source": self._source.name,
        }
        return json.dumps(public | {"request": identify(self.guarantee.request)}, sort_keys=True)


def _plain(counter: Factorisation | None, loss: Loss | None) -> None:
    if counter is not None or loss is not None:
        raise InvalidParameter(
            "counter and loss must be None: distributed noise is added to each batch, by the devices"
        )


def _largest(schedule: Schedule) -> int:
    return int(np.diff(np.asarray(schedule.times), prepend=0).max())
