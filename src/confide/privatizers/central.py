"""The privatizer of central and joint privacy: a curator adds noise to prefix sums.

What leaves this file: the mechanisms of a certificate, and a saved state that the counter writes.
Which counter is chosen (`best_counter`) may be changed. It changes the noise and so the bits of
runs, and never the guarantee, because the counter computes its noise from the guarantee.
"""

import math
from collections.abc import Sequence
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
from confide.privatizers.batches import Arrays, Batches, Facts, check_clipped_by
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.rounds import RoundNoise, with_simulated_users
from confide.privatizers.schedule import AtMost, Schedule

# Up to so many releases, least squares over all of them takes little time (a matter of taste).
_FEW_RELEASES = 512
# Up to so many users, whole coefficients of 2^-12 and less are as good as the ratio itself.
_FINE_USERS = 4 * 10**6
# Up to so many leaves, the memory and time of `Toeplitz` do not matter (a matter of taste).
_FEW_LEAVES = 4096


class CounterNoise:
    """Prefix sums over the schedule's batches, through the counter with the least noise.

    Guarantee: all releases together satisfy `privacy` for every user of the schedule, because each
    batch is one leaf of the counter. The noise of a counter is Gaussian, or Laplace at delta = 0.
    If each user is in one release only, the noise is the least of Gaussian, Laplace and K-norm
    noise (`least_noise`), and the loss is pure if that noise is.
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
        check_bound(bound)
        check_source(noise)
        check_privacy_request(privacy)
        factorisation = _choose_counter(counter, schedule, privacy, discrete=noise.discrete)
        if factorisation.leaves != schedule.leaves:
            raise InvalidParameter(
                f"the counter is made for {factorisation.leaves} leaves, "
                f"the schedule has {schedule.leaves}"
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
        """Do nothing, because the schedule has decided the size of every batch."""

    def check(self, contribution: Bounded) -> None:
        check_clipped_by(self.bound, contribution)

    def join(self, contribution: Bounded, size: int) -> Array:  # noqa: ARG002
        self._last_joined = contribution
        return contribution.values

    def check_total(self, total: Array, users: int) -> Array:
        return clip_sum(total, self.bound, users).values

    def close(self, total: Array, users: int, absent: int) -> None:  # noqa: ARG002
        last = self._last_joined
        self._last_joined = None
        if last is not None and total is last.values:
            # A batch of one contribution is that contribution, which was checked when it was made.
            self.counter.absorb(last)
        else:
            self.counter.absorb(Bounded(total, self.bound, users))

    def release(self, users: int, generation: int) -> Released:  # noqa: ARG002
        return self.counter.release()

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        return [with_simulated_users(self.counter.mechanism(), simulated)]

    def settings(self) -> str:
        """Return nothing, because the counter compares what its own state was made for."""
        return ""

    def state(self) -> tuple[Facts, Arrays]:
        return {}, {"counter": np.frombuffer(self.counter.save(), dtype=np.uint8)}

    def restore(
        self,
        facts: Facts,  # noqa: ARG002
        arrays: Arrays,
        *,
        generation: int,
        resume: bool,  # noqa: ARG002
    ) -> None:
        self.counter.restore(arrays["counter"].tobytes(), released=generation)


class CentralPrivatizer(Batches):
    """The privatizer of a curator: prefix sums over a schedule's batches, or rounds of any sizes.

    Guarantee: that of `CounterNoise`, or of `RoundNoise` if releases decide the sizes of rounds
    (`AtMost`). It is central, and `billboard` makes it joint. With a `store`, each draw is on the
    disk before the release that shows it can be read.

    A `loss` smaller than the requested one adds more noise than is needed, as the constants of some
    papers do. A larger one is refused.
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
        options: dict[str, Any] = {
            "privacy": privacy,
            "noise": noise,
            "counter": counter,
            "loss": loss,
        }
        self._batch_noise: CounterNoise | RoundNoise
        if isinstance(schedule, AtMost):
            self._batch_noise = RoundNoise(bound, schedule, **options)
        else:
            self._batch_noise = CounterNoise(bound, schedule, **options)
        super().__init__(self._batch_noise, schedule, store=store)

    def noise_std(self, t: int) -> float:
        """Return the standard deviation of the noise on each number of release t."""
        if isinstance(self._batch_noise, RoundNoise):
            raise InvalidParameter("noise_std is for a schedule, because rounds have no counter")
        return self._batch_noise.counter.noise_std(t)

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
        """Return the noise of a privatizer made with these arguments, at three of its releases."""
        check_bound(bound)
        check_privacy_request(privacy)
        flag("discrete", discrete)
        kind("schedule", schedule, Schedule, AtMost)
        if isinstance(schedule, AtMost):
            return RoundNoise.expected_noise(bound, privacy, discrete=discrete)
        counter = _choose_counter(counter, schedule, privacy, discrete=discrete)
        relation = Relation(privacy.relation)
        users = schedule.users
        if loss is None:
            noise = least_noise(bound, privacy, counter, discrete=discrete, users=users)
        else:
            noise = additive_noise(bound, loss, relation, counter, discrete=discrete, users=users)
        if isinstance(counter, Leaves | Discounted):
            # Whoever chooses these counters looks at each release on its own.
            first = last = worst = noise.std * counter.row_norm(1)
        else:
            first = noise.std * counter.row_norm(1)
            last = noise.std * counter.row_norm(schedule.leaves)
            worst = noise.std * worst_std(counter, noise.order) / noise.stream_norm
        return ExpectedNoise(
            counter.name,
            noise.distribution,
            noise.norm,
            noise.sensitivity,
            noise.loss(),
            first=first,
            last=last,
            worst=worst,
        )


def release_once(total: Bounded, *, privacy: Request, noise: NoiseSource) -> Released:
    """Release one sum over users, with the least noise that keeps `privacy`.

    Gaussian noise is GOE noise on matrices in `svec`. Without privacy the sum is exact.
    """
    kind("total", total, Bounded)
    users = max(total.users, 1)
    counter = Counter(total.bound, Exact(1), loss=None, request=privacy, users=users, noise=noise)
    counter.absorb(total)
    return counter.release()


def best_counter(leaves: int, privacy: Request, *, discrete: bool, users: int) -> Factorisation:
    """Return the counter with the least noise at its worst release, for this kind of noise."""
    check_privacy_request(privacy)
    flag("discrete", discrete)
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
    """Return the counter for an agent that uses all releases together, and its ratio.

    Such an agent combines releases by least squares. The ratio is that of discounted sums:

    - Gaussian noise: discounted sums, whose ratio follows from the batches.
    - Pure epsilon: separate leaves (ratio 0), because the L1 norm of a discounted column costs more
      than it brings. More than four million users: also separate leaves, because the whole
      coefficients of secure noise would be too coarse.
    - Devices send once, so their noise is separate already (ratio 0).
    - More than `_FEW_RELEASES` releases: least squares would take too long, so the agent uses the
      last release only (ratio None).
    """
    check_privacy_request(privacy)
    kind("schedule", schedule, Schedule)
    if schedule.leaves > _FEW_RELEASES:
        return None, None
    if privacy.trust.devices or isinstance(privacy, NoPrivacy):
        return None, 0.0
    if privacy.delta == 0 or schedule.users > _FINE_USERS:
        return Leaves(schedule.leaves), 0.0
    ratio = best_ratio(np.diff([0, *schedule.times]))
    return Discounted(schedule.leaves, ratio), ratio


def _bits(users: int) -> int:
    """The bits of whole coefficients: as many as sums of so many users leave room for."""
    return max(8, min(16, 35 - users.bit_length()))


def _choose_counter(
    given: Factorisation | None, schedule: Schedule, privacy: Request, *, discrete: bool
) -> Factorisation:
    """Return the given counter, or the one with the least noise.

    With discrete noise the coefficients of discounted sums are whole numbers.
    """
    if given is None:
        return best_counter(schedule.leaves, privacy, discrete=discrete, users=schedule.users)
    if isinstance(given, Discounted) and discrete and given.bits is None:
        return replace(given, bits=_bits(schedule.users))
    members = ("leaves", "encode", "decode", "column_norm", "row_norm")
    counter: Factorisation = has("counter", given, members, "a counter, such as Tree(leaves)")
    return counter


def worst_std(factorisation: Factorisation, order: int = 2) -> float:
    """Return the largest noise of any release, per unit of sensitivity over loss.

    In a long stream only those releases are compared that are worst for a tree.
    """
    members = ("leaves", "column_norm", "row_norm")
    has("factorisation", factorisation, members, "a counter, such as Tree(leaves)")
    leaves = factorisation.leaves
    times: Sequence[int] = range(1, leaves + 1)
    if leaves > _FEW_LEAVES:
        # These numbers have many ones: `leaves` without its low bits, minus one.
        many_ones = [(leaves >> bits << bits) - 1 for bits in range(leaves.bit_length())]
        times = [time for time in {leaves, *many_ones} if time >= 1]
    largest_variance = max(factorisation.row_norm(time) ** 2 for time in times)
    return factorisation.column_norm(order) * math.sqrt(largest_variance)
