"""The privatizer of distributed noise: devices add shares of noise, and an ideal aggregator shows the sum of each batch."""

import json
import math
from dataclasses import replace
from typing import ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from confide.arguments import flag, kind, whole
from confide.errors import BatchNotOpened, InvalidParameter, PrivacyError, StaleMessage
from confide.identity import identify
from confide.mechanisms.additive import check_bound
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.shares import share_noise
from confide.mechanisms.sources import NoiseSource, check_source
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel, Released
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import DistributedDP, Request, Trust
from confide.privatizers.aggregation import ID_BYTES, DeviceShare, Ints, ShareBatch, check_sum
from confide.privatizers.batches import Arrays, Batches, Facts, check_bound_of
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.schedule import AtMost, Schedule


class SharesOfNoise:
    """Each device adds a share of the noise, and an ideal aggregator shows the sum of each batch. Releases are prefix sums of these.

    Guarantee: all releases together satisfy `privacy` for every user, each of whom is in one batch; also for adaptive streams. It assumes
    an ideal aggregator (`aggregation`), which the caller provides. Up to a user's batch everything published has one law on both
    neighbours; the sum of that batch is (epsilon, delta)-DP given that; what follows is a function of releases and of other users. A sum
    of fewer than `honest(n)` of n devices is refused (`BatchNotOpened`), nothing of it is released, and its users are not counted. Fewer
    drop-outs give more privacy than requested.

    Arithmetic is modulo a public power of two; a number of a sum is misread with probability 1e-31 at most, which is no loss of privacy.
    The aggregator sees no plain numbers, so that a device that sends nonsense spoils the sum of its batch.
    """

    devices: ClassVar[bool] = True
    # The aggregator may have opened the sum of the open batch between a save and a crash, and no batch may be opened twice.
    resumes_batch: ClassVar[bool] = False

    def __init__(
        self, bound: Bound, schedule: Schedule, *, privacy: DistributedDP, noise: NoiseSource
    ) -> None:
        self.bound, self.privacy, self._leaves = bound, privacy, schedule.leaves
        self.noise = share_noise(bound, privacy, _largest(schedule))
        self.modulus: int = self.noise.modulus(bound.largest)
        self.guarantee = Guarantee(
            self.noise.loss(privacy.delta), privacy, Trust.DISTRIBUTED, schedule.users, noise.name
        )
        self.source = noise.fork()
        self._prefix: Array = np.zeros(bound.size)
        self._variance, self._summed = 0.0, 0
        # How many users' shares were added up in this process.
        self.added_here = 0
        self.begin_batch()

    def begin_batch(self) -> None:
        """Other devices, whose shares go to another sum."""
        # Two draws, so that a run with the same seed keeps its releases from version to version.
        self.batch_id = self.source.token(ID_BYTES // 2) + self.source.token(ID_BYTES // 2)

    def open(self, bound: Bound) -> None:
        """A schedule has decided it."""

    def check(self, contribution: Bounded) -> None:
        if self.source.discrete:
            raise PrivacyError(
                "no server of real users takes contributions under DistributedDP: each device (ShareClient) hands its share to secure "
                "aggregation. Crowds are for simulations, which have fast noise"
            )
        check_bound_of(contribution, self.bound)

    def join(self, contribution: Bounded, size: int) -> Ints:
        """SIMULATION: what the shares of these users' devices would add up to. The noise is drawn here, at once.

        It takes a contribution before its noise, which no server of real users has. Needs fast noise; the certificate says so.
        """
        added: Ints = self.noise.add(contribution.values, size, contribution.users, self.source)
        return added

    def check_total(self, total: Array, users: int) -> NoReturn:  # noqa: ARG002
        refuse_to_close()

    def close(self, total: Ints, users: int, absent: int) -> None:
        half = self.modulus // 2
        summed = (total + half) % self.modulus - half
        self._prefix = self._prefix + summed * self.noise.step
        self._variance += self.noise.std(users + absent, users) ** 2
        self._summed += users
        self.begin_batch()

    def release(self, users: int, generation: int) -> Released:  # noqa: ARG002
        """The sum of all opened batches. Its users are those in the sum."""
        level = NoiseLevel(math.sqrt(self._variance), "gaussian")
        return Released(self._prefix.copy(), level, self.guarantee, self._summed, generation)

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        """`scale` is that of the sum of the honest shares; `honest` is of the largest batch."""
        said = (
            f"; simulated for {simulated} users, whose noise was drawn as one sum"
            if simulated
            else ""
        )
        if self.added_here:
            said += f"; simulated aggregation: the shares of {self.added_here} users were added up by the server itself"
        noise, largest = self.noise, self.noise.largest
        made = Mechanism(
            name="distributed",
            distribution="gaussian",
            norm=2,
            sensitivity=noise.sensitivity,
            scale=noise.scale,
            parameters={
                "leaves": self._leaves,
                "honest": noise.honest(largest),
                "dropouts": noise.dropouts,
                "dimension": noise.size,
            },
            lattice=noise.step,
            bound=describe(self.bound),
            query=f"the sum of each batch from an ideal aggregator, modulo 2^{self.modulus.bit_length() - 1}{said}",
            simulated=said != "",
        )
        return [made]

    def made_for(self) -> str:
        public = replace(self.mechanisms(0)[0], query="", simulated=False).to_json()
        own = {"source": self.source.name, "request": identify(self.privacy)}
        return json.dumps(public | own, sort_keys=True)

    def state(self) -> tuple[Facts, Arrays]:
        facts: Facts = {"source": self.source.state(), "batch": self.batch_id.hex()}
        facts |= {"variance": self._variance, "summed": self._summed, "here": self.added_here}
        return facts, {"prefix": self._prefix}

    def restore(self, facts: Facts, arrays: Arrays, *, generation: int, resume: bool) -> None:  # noqa: ARG002
        self._prefix, self._variance = arrays["prefix"], float(facts["variance"])
        self._summed, self.added_here = int(facts["summed"]), int(facts["here"])
        if resume:
            self.source.restore(facts["source"])
            self.batch_id = bytes.fromhex(facts["batch"])
        else:
            self.source.refresh()
            self.begin_batch()


def refuse_to_close() -> NoReturn:
    raise PrivacyError(
        "under DistributedDP a batch closes when the aggregator has opened its sum: agent.shares.absorb_sum"
    )


class DistributedPrivatizer(Batches):
    """Takes the sum of each batch of the schedule once, from an ideal aggregator, and releases prefix sums of these.

    Guarantee: that of `SharesOfNoise`. After a restart the open batch is given up, and its users come again. A simulated run that
    `resume`s repeats its own devices, and keeps the batch.
    """

    def __init__(
        self,
        bound: Bound,
        schedule: Schedule | AtMost,
        *,
        privacy: Request,
        noise: NoiseSource,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> None:
        check_bound(bound), check_source(noise)
        times = _fixed(schedule)
        _plain(counter, loss)
        asked: DistributedDP = kind("privacy", privacy, DistributedDP)
        self._shares = SharesOfNoise(bound, times, privacy=asked, noise=noise)
        super().__init__(self._shares, times)

    @property
    def privacy(self) -> DistributedDP:
        return self._shares.privacy

    def device_source(self) -> NoiseSource:
        """Noise for one more device, of this server's kind: for devices that live in the same process."""
        return self._shares.source.device()

    def share_batch(self, answered: bytes) -> ShareBatch:
        """The open batch, as its devices and the aggregator must know it. Public. `answered` is the digest of its round."""
        self._check_room(0)
        users, noise = self._size, self._shares.noise
        return ShareBatch(
            self._shares.batch_id,
            self.generation,
            answered,
            users,
            noise.honest(users),
            noise.largest,
            self._shares.bound.size,
            self._shares.modulus,
        )

    def receive_sum(self, batch_id: bytes, total: npt.ArrayLike, devices: int) -> None:
        """The sum of the open batch, which the aggregator opened with so many devices in it. It makes the next release.

        With fewer devices than the guarantee needs the batch is given up: `BatchNotOpened`.
        """
        self.check_ready()
        self._check_room(0)
        if not isinstance(batch_id, bytes) or batch_id != self._shares.batch_id:
            raise StaleMessage("the sum is of another batch than the open one: it is stale")
        if self._users > self._begun:
            raise InvalidParameter("the open batch is simulated already: a sum comes alone")
        users = self._size
        whole("devices", devices, at_least=0, at_most=users)
        numbers = check_sum(total, self._shares.bound.size, self._shares.modulus)
        self._check_absent(users - devices)
        self._absorb_values(numbers, devices, absent=users - devices)

    def simulate_aggregation(self, batch: ShareBatch, share: DeviceShare) -> None:
        """SIMULATION of the ideal aggregator, in the server's own process: no server of real users may see a share.

        The sum is opened when all devices of the batch have taken part, or are known to stay away. The certificate says so.
        """
        kind("share", share, DeviceShare)
        if kind("batch", batch, ShareBatch) != self.share_batch(batch.round):
            raise StaleMessage("the share is of another batch than the open one: it is stale")
        self.check_ready()
        self._check_room(1)
        numbers = check_sum(share.for_aggregation(), batch.size, batch.modulus)
        self._shares.added_here += 1
        self._absorb_values(numbers, 1)

    def stay_away(self, users: int) -> None:
        """SIMULATION: so many more devices of the open batch do not take part.

        With too few left the batch is given up: `BatchNotOpened`.
        """
        self.check_ready()
        self._check_room(whole("users", users, at_least=1))
        self._check_absent(self._absent + users)
        self._absorb_values(None, 0, absent=users)

    def close(self, total: Array | None = None, users: int = 0) -> None:  # noqa: ARG002
        refuse_to_close()

    @classmethod
    def expected_noise(
        cls,
        bound: Bound,
        schedule: Schedule | AtMost,
        *,
        privacy: Request,
        discrete: bool,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> ExpectedNoise:
        """If no device stays away: then there are most shares of noise."""
        flag("discrete", discrete)
        times = _fixed(schedule)
        _plain(counter, loss)
        asked: DistributedDP = kind("privacy", privacy, DistributedDP)
        made = share_noise(bound, asked, _largest(times))
        sizes = np.diff(np.asarray(times.times), prepend=0)
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

    @property
    def _size(self) -> int:
        """How many users the open batch has."""
        start, end = self.batch
        return end - start

    def _check_absent(self, absent: int) -> None:
        """If so many devices are more than the guarantee allows, the open batch is given up."""
        noise, size = self._shares.noise, self._size
        allowed = size - noise.honest(size)
        if absent <= allowed:
            return
        self._give_up_batch()
        self._shares.begin_batch()
        raise BatchNotOpened(
            f"{absent} of the {size} devices of a batch stay away, and the guarantee allows {allowed} (dropouts="
            f"{noise.dropouts:g}): nothing of the batch is released, and its users are not counted. "
            "Serve a new batch, or request more dropouts"
        )


def _fixed(schedule: Schedule | AtMost) -> Schedule:
    if isinstance(schedule, AtMost):
        raise PrivacyError(
            "rounds that are decided from releases have no distributed privatizer yet: use JointDP, LocalDP or NoPrivacy"
        )
    times: Schedule = kind("schedule", schedule, Schedule)
    return times


def _plain(counter: Factorisation | None, loss: Loss | None) -> None:
    if counter is not None or loss is not None:
        raise InvalidParameter(
            "counter and loss must be None: distributed noise is added to each batch, by the devices"
        )


def _largest(schedule: Schedule) -> int:
    return int(np.diff(np.asarray(schedule.times), prepend=0).max())
