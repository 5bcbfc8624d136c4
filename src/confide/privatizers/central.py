"""The privatizer of central and joint privacy: a curator adds noise to prefix sums."""

import math
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from confide.arguments import flag, has, kind, whole
from confide.errors import InvalidParameter
from confide.mechanisms.additive import additive_noise, check_bound, least_noise
from confide.mechanisms.counters import (
    Buffered,
    Counter,
    Discounted,
    Exact,
    Factorisation,
    HonakerTree,
    Leaves,
    Toeplitz,
    best_ratio,
)
from confide.mechanisms.sources import NoiseSource, check_source
from confide.mechanisms.state import StateFile
from confide.privacy.bounded import Array, Bound, Bounded, Released, clip_sum
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import NoPrivacy, Relation, Request, check_privacy_request
from confide.privatizers.batches import Arrays, Batches, Facts, check_bound_of
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.rounds import RoundNoise, say_simulated
from confide.privatizers.schedule import AtMost, Schedule

_FEW_RELEASES = 512  # up to here least squares over all releases is worth its time
# up to here whole coefficients of 2^-12 and less are as good as the ratio itself
_FINE_USERS = 4 * 10**6
_FEW_LEAVES = 4096  # up to here the square root's memory and time per leaf do not matter


class CounterNoise:
    """Prefix sums over the schedule's batches, through the counter with the least noise.

    Guarantee: all releases together satisfy `privacy`, for every user of the schedule. Each batch is one leaf of the counter. Where each
    user is in one release, noise is the least of Gaussian, Laplace and K-norm noise (`least_noise`), and the loss pure if that is; a
    counter's is Gaussian, or Laplace at delta = 0.
    """

    devices: ClassVar[bool] = False
    resumes_batch: ClassVar[bool] = True
    modulus: ClassVar[None] = None

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
        check_bound(bound), check_source(noise), check_privacy_request(privacy)
        factorisation = _counter(counter, schedule, privacy, discrete=noise.discrete)
        if factorisation.leaves != schedule.leaves:
            raise InvalidParameter(
                f"the counter is made for {factorisation.leaves} leaves, the schedule has {schedule.leaves}"
            )
        self.bound = bound
        self.counter = Counter(
            bound,
            factorisation,
            loss=loss,
            request=privacy,
            users=schedule.users,
            noise=noise,
        )
        self._last_joined: Bounded | None = None

    @property
    def guarantee(self) -> Guarantee:
        return self.counter.guarantee

    def open(self, bound: Bound) -> None:
        """A schedule has decided it."""

    def check(self, contribution: Bounded) -> None:
        check_bound_of(contribution, self.bound)

    def join(self, contribution: Bounded, size: int) -> Array:  # noqa: ARG002
        self._last_joined = contribution
        return contribution.values

    def check_total(self, total: Array, users: int) -> Array:
        return clip_sum(total, self.bound, users).values

    def close(self, total: Array, users: int, absent: int) -> None:  # noqa: ARG002
        # A batch of one contribution is that contribution, which was checked when it was made.
        last, self._last_joined = self._last_joined, None
        is_last = last is not None and total is last.values
        leaf = last if last is not None and is_last else Bounded(total, self.bound, users)
        self.counter.absorb(leaf)

    def release(self, users: int, generation: int) -> Released:  # noqa: ARG002
        return self.counter.release()

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        return [say_simulated(self.counter.mechanism(), simulated)]

    def made_for(self) -> str:
        """The counter compares its own state."""
        return ""

    def state(self) -> tuple[Facts, Arrays]:
        return {}, {"counter": np.frombuffer(self.counter.save(), dtype=np.uint8)}

    def restore(self, facts: Facts, arrays: Arrays, *, generation: int, resume: bool) -> None:  # noqa: ARG002
        self.counter.restore(arrays["counter"].tobytes(), released=generation)


class CentralPrivatizer(Batches):
    """The privatizer of a curator: prefix sums over a schedule's batches, or rounds whose sizes are decided from releases.

    Guarantee: that of `CounterNoise` or of `RoundNoise` (central; `billboard` makes it joint). With a `store`, each draw is on the disk
    before the release that shows it can be read. A `loss` smaller than what was asked for adds more noise than is needed (printed
    constants do); a larger one is refused.
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
        store: StateFile | str | Path | None = None,
    ) -> None:
        kind("schedule", schedule, Schedule, AtMost)
        if store is not None:
            kind("store", store, StateFile, str, Path)
        options: dict[str, Any] = {"privacy": privacy, "noise": noise}
        options |= {"counter": counter, "loss": loss}
        self._made: CounterNoise | RoundNoise
        if isinstance(schedule, AtMost):
            self._made = RoundNoise(bound, schedule, **options)
        else:
            self._made = CounterNoise(bound, schedule, **options)
        super().__init__(self._made, schedule, store=store)

    def noise_std(self, t: int) -> float:
        """The standard deviation of the noise on each number of release t."""
        if isinstance(self._made, RoundNoise):
            raise InvalidParameter("noise_std is for a schedule, because rounds have no counter")
        return self._made.counter.noise_std(t)

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
        check_bound(bound), check_privacy_request(privacy), flag("discrete", discrete)
        kind("schedule", schedule, Schedule, AtMost)
        if isinstance(schedule, AtMost):
            return RoundNoise.expected(bound, privacy, discrete=discrete)
        counter = _counter(counter, schedule, privacy, discrete=discrete)
        relation, users = Relation(privacy.relation), schedule.users
        if loss is None:
            made = least_noise(bound, privacy, counter, discrete=discrete, users=users)
        else:
            made = additive_noise(bound, loss, relation, counter, discrete=discrete, users=users)
        # who takes it looks at each release on its own
        if isinstance(counter, Leaves | Discounted):
            first = last = worst = made.std * counter.row_norm(1)
        else:
            first, last = (made.std * counter.row_norm(t) for t in (1, schedule.leaves))
            worst = made.std * worst_std(counter, made.order) / made.stream_norm
        return ExpectedNoise(
            counter.name,
            made.distribution,
            made.norm,
            made.sensitivity,
            made.loss(),
            first=first,
            last=last,
            worst=worst,
        )


def release_once(total: Bounded, *, privacy: Request, noise: NoiseSource) -> Released:
    """The plain mechanism: one sum over users, noised once, with the least noise that keeps `privacy`; Gaussian noise is GOE on matrices
    in `svec`. Without privacy the sum is exact."""
    kind("total", total, Bounded)
    counter = Counter(
        total.bound, Exact(1), loss=None, request=privacy, users=max(total.users, 1), noise=noise
    )
    counter.absorb(total)
    return counter.release()


def best_counter(leaves: int, privacy: Request, *, discrete: bool, users: int) -> Factorisation:
    """The factorisation with the least noise at its worst release, for this kind of noise."""
    check_privacy_request(privacy), flag("discrete", discrete)
    leaves = whole("leaves", leaves, at_least=1)
    users = whole("users", users, at_least=1)
    if leaves == 1 or isinstance(privacy, NoPrivacy):
        return Exact(leaves)
    order = 2 if privacy.delta > 0 else 1
    return _least_noisy_counter(leaves, order, _bits(users) if discrete else None)


@lru_cache(maxsize=64)
def _least_noisy_counter(leaves: int, order: int, bits: int | None) -> Factorisation:
    """The counter whose worst release has the least noise. `bits` are None for continuous noise.

    The estimate of a run's memory and the privatizer ask for the same counter.
    """
    candidates: list[Factorisation] = [HonakerTree(leaves)]
    if leaves <= _FEW_LEAVES:
        candidates.append(Toeplitz(leaves, bits=bits))
    elif bits is None:
        candidates.append(Buffered(leaves))
    return min(candidates, key=lambda candidate: worst_std(candidate, order))


def counter_of_rates(
    schedule: Schedule, privacy: Request
) -> tuple[Factorisation | None, float | None]:
    """The counter for whoever looks at all releases together, by least squares, and the ratio of its discounted sums.

    Gaussian noise: discounted sums, whose ratio follows from the batches. Pure epsilon: separate leaves, because the L1 norm of a
    discounted column costs more than it brings; so are those of more than four million users, whose whole coefficients (secure noise) would
    be too coarse. Devices send once, and their noise is separate already. The ratio is 0 where differences
    of releases are separate leaves, and None where only the last release is looked at: with that many of them, least squares would take
    too long.
    """
    check_privacy_request(privacy), kind("schedule", schedule, Schedule)
    if schedule.leaves > _FEW_RELEASES:
        return None, None
    if privacy.trust.devices or isinstance(privacy, NoPrivacy):
        return None, 0.0
    if privacy.delta == 0 or schedule.users > _FINE_USERS:
        return Leaves(schedule.leaves), 0.0
    ratio = best_ratio(np.diff([0, *schedule.times]))
    return Discounted(schedule.leaves, ratio), ratio


def _bits(users: int) -> int:
    """Of whole coefficients: as fine as sums of so many users leave room for."""
    return max(8, min(16, 35 - users.bit_length()))


def _counter(
    given: Factorisation | None, schedule: Schedule, privacy: Request, *, discrete: bool
) -> Factorisation:
    """The given one, in whole numbers where noise is discrete, or the one with the least noise."""
    if given is None:
        return best_counter(schedule.leaves, privacy, discrete=discrete, users=schedule.users)
    if isinstance(given, Discounted) and discrete and given.bits is None:
        return replace(given, bits=_bits(schedule.users))
    members = ("leaves", "encode", "decode", "column_norm", "row_norm")
    found: Factorisation = has("counter", given, members, "a counter, such as Tree(leaves)")
    return found


def worst_std(factorisation: Factorisation, order: int = 2) -> float:
    """max_t of the noise, per unit of sensitivity over loss: all t of a short stream, of a long one those that are worst for a tree."""
    members = ("leaves", "column_norm", "row_norm")
    n: int = has("factorisation", factorisation, members, "a counter, such as Tree(leaves)").leaves
    # n with its low bits taken off, minus one
    many_ones = [(n >> k << k) - 1 for k in range(n.bit_length())]
    times = range(1, n + 1) if n <= _FEW_LEAVES else [t for t in {n, *many_ones} if t >= 1]
    return factorisation.column_norm(order) * math.sqrt(
        max(factorisation.row_norm(t) ** 2 for t in times)
    )
