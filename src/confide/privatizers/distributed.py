"""The privatizer of distributed noise: devices add shares of noise, and releases are sums.

An ideal aggregator (`aggregation.py`) shows the server nothing but the sum of each batch. What
leaves this file: the mechanism of a certificate, the description of a batch for devices and the
aggregator (`ShareBatch`), and the state that `Batches` saves.
"""

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
from confide.privatizers.batches import Arrays, Batches, Facts, check_clipped_by
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.schedule import AtMost, Schedule


class SharesOfNoise:
    """Prefix sums of batches. Each device of a batch has added a share of the noise.

    Guarantee: all releases together satisfy `privacy` for every user, also for adaptive streams,
    since each user is in one batch. It assumes an ideal aggregator, which the caller provides:

    - Before the user's batch, everything published has the same law on both neighbours.
    - The sum of the user's batch is (epsilon, delta)-DP given what was published before.
    - What follows is a function of releases and of other users.

    A sum of fewer than `honest(n)` of n devices is refused (`BatchNotOpened`). Nothing of it is
    released, and its users are not counted. If fewer devices than `dropouts` allows stay away,
    there is more noise than the guarantee needs.

    Sums are taken modulo a public power of two. A number of a sum is misread with probability 1e-31
    at most (proved), which is no loss of privacy. The aggregator sees no plain numbers, so a device
    that sends nonsense spoils the sum of its batch.
    """

    devices: ClassVar[bool] = True
    # The aggregator may have opened the sum of the open batch between a save and a crash. No batch
    # may be opened twice.
    resumes_batch: ClassVar[bool] = False

    def __init__(
        self, bound: Bound, schedule: Schedule, *, privacy: DistributedDP, noise: NoiseSource
    ) -> None:
        self.bound = bound
        self.privacy = privacy
        self._leaves = schedule.leaves
        self.noise = share_noise(bound, privacy, _largest_batch(schedule))
        self.modulus: int = self.noise.modulus(bound.largest)
        self.guarantee = Guarantee(
            self.noise.loss(privacy.delta), privacy, Trust.DISTRIBUTED, schedule.users, noise.name
        )
        self.source = noise.fork()
        # The sum of all opened batches, how many users are in it, and the variance of its noise.
        self._prefix: Array = np.zeros(bound.size)
        self._summed_users = 0
        self._variance = 0.0
        # How many users' shares were added up in this process.
        self.added_here = 0
        self.begin_batch()

    def begin_batch(self) -> None:
        """Begin a batch of other devices, whose shares go to another sum."""
        # Two draws, so that a run with the same seed keeps its releases from version to version.
        self.batch_id = self.source.token(ID_BYTES // 2) + self.source.token(ID_BYTES // 2)

    def open(self, bound: Bound) -> None:
        """Do nothing, because the schedule has decided the size of every batch."""

    def check(self, contribution: Bounded) -> None:
        if self.source.discrete:
            raise PrivacyError(
                "no server of real users takes contributions under DistributedDP: each device "
                "(ShareClient) hands its share to secure aggregation. Crowds are for simulations, "
                "which have fast noise"
            )
        check_clipped_by(self.bound, contribution)

    def join(self, contribution: Bounded, size: int) -> Ints:
        """SIMULATION: return what the shares of these users' devices would add up to.

        The noise of all devices is drawn here, at once, from a fast source. No server of real users
        has a contribution without its noise. The certificate says that users were simulated.
        """
        noisy_sum: Ints = self.noise.add(contribution.values, size, contribution.users, self.source)
        return noisy_sum

    def check_total(self, total: Array, users: int) -> NoReturn:  # noqa: ARG002
        refuse_to_close()

    def close(self, total: Ints, users: int, absent: int) -> None:
        # Numbers above half of the modulus stand for negative ones.
        half = self.modulus // 2
        steps = (total + half) % self.modulus - half
        self._prefix = self._prefix + steps * self.noise.step
        self._variance += self.noise.std(users + absent, users) ** 2
        self._summed_users += users
        self.begin_batch()

    def release(self, users: int, generation: int) -> Released:  # noqa: ARG002
        """Return the sum of all opened batches. Its users are those in the sum."""
        level = NoiseLevel(math.sqrt(self._variance), "gaussian")
        return Released(self._prefix.copy(), level, self.guarantee, self._summed_users, generation)

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        """Return the mechanism for a certificate.

        `scale` is that of the sum of the honest shares, and `honest` that of the largest batch.
        """
        simulations = ""
        if simulated:
            simulations = f"; simulated for {simulated} users, whose noise was drawn as one sum"
        if self.added_here:
            simulations += (
                f"; simulated aggregation: the shares of {self.added_here} users were added up "
                "by the server itself"
            )
        bits = self.modulus.bit_length() - 1
        noise = self.noise
        mechanism = Mechanism(
            name="distributed",
            distribution="gaussian",
            norm=2,
            sensitivity=noise.sensitivity,
            scale=noise.scale,
            parameters={
                "leaves": self._leaves,
                "honest": noise.honest(noise.largest),
                "dropouts": noise.dropouts,
                "dimension": noise.size,
            },
            lattice=noise.step,
            bound=describe(self.bound),
            query=f"the sum of each batch from an ideal aggregator, modulo 2^{bits}{simulations}",
            simulated=simulations != "",
        )
        return [mechanism]

    def settings(self) -> str:
        public = replace(self.mechanisms(0)[0], query="", simulated=False).to_json()
        own = {"source": self.source.name, "request": identify(self.privacy)}
        return json.dumps(public | own, sort_keys=True)

    def state(self) -> tuple[Facts, Arrays]:
        facts: Facts = {
            "source": self.source.state(),
            "batch": self.batch_id.hex(),
            "variance": self._variance,
            "summed": self._summed_users,
            "here": self.added_here,
        }
        return facts, {"prefix": self._prefix}

    def restore(
        self,
        facts: Facts,
        arrays: Arrays,
        *,
        generation: int,  # noqa: ARG002
        resume: bool,
    ) -> None:
        self._prefix = arrays["prefix"]
        self._variance = float(facts["variance"])
        self._summed_users = int(facts["summed"])
        self.added_here = int(facts["here"])
        if resume:
            self.source.restore(facts["source"])
            self.batch_id = bytes.fromhex(facts["batch"])
        else:
            self.source.refresh()
            self.begin_batch()


def refuse_to_close() -> NoReturn:
    """Raise an error, because the aggregator decides when a batch is closed."""
    raise PrivacyError(
        "under DistributedDP a batch closes when the aggregator has opened its sum: "
        "agent.shares.absorb_sum"
    )


class DistributedPrivatizer(Batches):
    """Takes the sum of each batch once, from an ideal aggregator, and releases prefix sums.

    Guarantee: that of `SharesOfNoise`. A restart gives up the open batch, and its users come again.
    A simulated run that `resume`s repeats its own devices, and keeps the batch.
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
        check_bound(bound)
        check_source(noise)
        times = _require_schedule(schedule)
        _refuse_options(counter, loss)
        request: DistributedDP = kind("privacy", privacy, DistributedDP)
        self._shares = SharesOfNoise(bound, times, privacy=request, noise=noise)
        super().__init__(self._shares, times)

    @property
    def privacy(self) -> DistributedDP:
        return self._shares.privacy

    def device_source(self) -> NoiseSource:
        """Return noise of this server's kind for one more device in the same process."""
        return self._shares.source.device()

    def share_batch(self, round_digest: bytes) -> ShareBatch:
        """Return what devices and the aggregator must know of the open batch. Public."""
        self._check_room(0)
        users = self._batch_size
        noise = self._shares.noise
        return ShareBatch(
            self._shares.batch_id,
            self.generation,
            round_digest,
            users,
            noise.honest(users),
            noise.largest,
            self._shares.bound.size,
            self._shares.modulus,
        )

    def receive_sum(self, batch_id: bytes, total: npt.ArrayLike, devices: int) -> None:
        """Take in the sum of the open batch, with so many devices in it, and make the next release.

        The aggregator has opened the sum. If there are fewer devices than the guarantee needs, the
        batch is given up (`BatchNotOpened`).
        """
        self.check_ready()
        self._check_room(0)
        if not isinstance(batch_id, bytes) or batch_id != self._shares.batch_id:
            raise StaleMessage("the sum is of another batch than the open one: it is stale")
        if self._users > self._users_before:
            raise InvalidParameter("the open batch is simulated already: a sum comes alone")
        users = self._batch_size
        whole("devices", devices, at_least=0, at_most=users)
        numbers = check_sum(total, self._shares.bound.size, self._shares.modulus)
        self._check_absent(users - devices)
        self._absorb_values(numbers, devices, absent=users - devices)

    def simulate_aggregation(self, batch: ShareBatch, share: DeviceShare) -> None:
        """SIMULATION of the ideal aggregator in the server's own process.

        No server of real users may see a share. The sum is opened when all devices of the batch
        have taken part, or are known to stay away. The certificate says that this was simulated.
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

        If too few are left, the batch is given up (`BatchNotOpened`).
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
        """Return the noise of a privatizer made with these arguments, if no device stays away.

        Then there are most shares of noise.
        """
        flag("discrete", discrete)
        times = _require_schedule(schedule)
        _refuse_options(counter, loss)
        request: DistributedDP = kind("privacy", privacy, DistributedDP)
        noise = share_noise(bound, request, _largest_batch(times))
        sizes = _batch_sizes(times)
        first_size = int(sizes[0])
        variance = sum(
            int(batches) * noise.std(int(size), int(size)) ** 2
            for size, batches in zip(*np.unique(sizes, return_counts=True), strict=True)
        )
        last = math.sqrt(variance)
        return ExpectedNoise(
            "distributed",
            "gaussian",
            2,
            noise.sensitivity,
            noise.loss(request.delta),
            first=noise.std(first_size, first_size),
            last=last,
            worst=last,
        )

    @property
    def _batch_size(self) -> int:
        """How many users the open batch has."""
        start, end = self.batch
        return end - start

    def _check_absent(self, absent: int) -> None:
        """Give up the open batch if so many absent devices are more than the guarantee allows."""
        noise = self._shares.noise
        size = self._batch_size
        allowed = size - noise.honest(size)
        if absent <= allowed:
            return
        self._give_up_batch()
        self._shares.begin_batch()
        raise BatchNotOpened(
            f"{absent} of the {size} devices of a batch stay away, and the guarantee allows "
            f"{allowed} (dropouts={noise.dropouts:g}): nothing of the batch is released, "
            "and its users are not counted. Serve a new batch, or request more dropouts"
        )


def _require_schedule(schedule: Schedule | AtMost) -> Schedule:
    if isinstance(schedule, AtMost):
        raise PrivacyError(
            "rounds that are decided from releases have no distributed privatizer yet: "
            "use JointDP, LocalDP or NoPrivacy"
        )
    times: Schedule = kind("schedule", schedule, Schedule)
    return times


def _refuse_options(counter: Factorisation | None, loss: Loss | None) -> None:
    if counter is not None or loss is not None:
        raise InvalidParameter(
            "counter and loss must be None: "
            "distributed noise is added to each batch, by the devices"
        )


def _batch_sizes(schedule: Schedule) -> Ints:
    return np.diff(np.asarray(schedule.times), prepend=0)


def _largest_batch(schedule: Schedule) -> int:
    return int(_batch_sizes(schedule).max())
