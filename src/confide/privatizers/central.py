"""The privatizer of central and joint privacy: a curator adds noise to prefix sums."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from confide.arguments import flag, has, kind, private_kind, whole
from confide.errors import InvalidParameter, PrivacyError, StateError
from confide.identity import identify
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
from confide.mechanisms.state import StateFile, pack, unpack
from confide.privacy.bounded import Array, Bound, Bounded, Released, clip_sum
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import NoPrivacy, Relation, Request, requested
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.schedule import Schedule, check_batch, check_left

_FEW_RELEASES = 512  # up to here least squares over all releases is worth its time
# up to here whole coefficients of 2^-12 and less are as good as the ratio itself
_FINE_USERS = 4 * 10**6
_FEW_LEAVES = 4096  # up to here the square root's memory and time per leaf do not matter


class CentralPrivatizer:
    """Prefix sums over the schedule's batches, through the counter with the least noise.

    Guarantee: all releases together satisfy `privacy`, for every user of the schedule (central; `billboard` makes it
    joint). Where each user is in one release, noise is the least of Gaussian, Laplace and K-norm noise (`least_noise`), and the loss
    pure if that is; a counter's is Gaussian, or Laplace at delta = 0. With a `store`, each draw is on the disk before the release that
    shows it can be read. A `loss` smaller than what was asked for adds more noise than is needed (printed constants do); a larger one is
    refused.
    """

    devices: ClassVar[bool] = False

    def __init__(
        self,
        bound: Bound,
        schedule: Schedule,
        *,
        privacy: Request,
        noise: NoiseSource,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
        store: StateFile | str | Path | None = None,
    ) -> None:
        (
            check_bound(bound),
            check_source(noise),
            requested(privacy),
            kind("schedule", schedule, Schedule),
        )
        factorisation = _counter(counter, schedule, privacy, discrete=noise.discrete)
        if factorisation.leaves != schedule.leaves:
            raise InvalidParameter(
                f"the counter is made for {factorisation.leaves} leaves, the schedule has {schedule.leaves}"
            )
        if store is not None:
            kind("store", store, StateFile, str, Path)
        self.schedule, self._store = (
            schedule,
            StateFile(store) if isinstance(store, str | Path) else store,
        )
        self._counter = Counter(
            bound,
            factorisation,
            loss=loss,
            request=privacy,
            users=schedule.users,
            noise=noise,
        )
        self._nobody: Array = np.zeros(bound.size)
        self._leaf = self._nobody  # the batch since the last release
        self._users = 0
        self._durable = 0  # the generation that is safe to show
        self._restored = False
        # False while a contribution is taken in: an exception there must neither be saved nor retried
        self._whole = True

    @property
    def guarantee(self) -> Guarantee:
        return self._counter.guarantee

    @property
    def users(self) -> int:
        """How many users were absorbed."""
        return self._users

    @property
    def generation(self) -> int:
        """How many releases were made."""
        return self._counter.generation

    @property
    def batch(self) -> tuple[int, int]:
        begun = self._counter.users_seen
        return begun, begun + self.schedule.size(self.generation)

    def __repr__(self) -> str:
        return f"CentralPrivatizer({self.mechanism().name}, {self.schedule.leaves} releases, {self.users} users so far, {self.guarantee})"

    def mechanism(self) -> Mechanism:
        return self._counter.mechanism()

    def noise_std(self, t: int) -> float:
        return self._counter.noise_std(t)

    def absorb(self, contribution: Bounded) -> None:
        private_kind("contribution", contribution, Bounded)
        if (
            contribution.bound is not self._counter.bound
            and contribution.bound != self._counter.bound
        ):
            raise InvalidParameter(
                "the contribution was clipped by another bound than the privatizer's"
            )
        self._check_durable()
        if self._store and not self._restored and self._users == 0 and self._store.generation() > 0:
            raise StateError(
                f"the store contains generation {self._store.generation()}: restore it, or use another store"
            )
        check_left(self.schedule, self.generation)
        edge, after = self.batch[1], self._users + contribution.users
        if after > edge:
            raise InvalidParameter(
                f"users {self._users + 1} to {after} cross the release after user {edge}: split them there"
            )
        self._whole = False
        alone = self._users == self._counter.users_seen  # the first of its batch
        self._leaf = contribution.values if alone else self._leaf + contribution.values
        self._users = after
        if after == edge:
            self._close(
                contribution
                if alone
                else Bounded(self._leaf, self._counter.bound, after - self._counter.users_seen)
            )
        self._whole = True

    def close(self, total: Array | None = None, users: int = 0) -> None:
        """Release now, with the users of the open batch who are here. WHEN must be decided in public, not from their data."""
        self._check_durable()
        check_left(self.schedule, self.generation)
        begun = self._counter.users_seen
        if total is not None:
            check_batch(self.schedule.users, begun, self._users, users)
            leaf = clip_sum(total, self._counter.bound, users)
        else:
            leaf = Bounded(self._leaf, self._counter.bound, self._users - begun)
        self._whole = False
        self._users = begun + leaf.users
        self._close(leaf)
        self._whole = True

    def release(self) -> Released:
        """The statistics as of the last release time. Asking again gives the same answer."""
        self._check_durable()
        return self._counter.release()

    def save(self) -> bytes:
        """PRIVATE: everything needed to go on."""
        self._check_durable()
        return self._pack()

    def _pack(self) -> bytes:
        inner: npt.NDArray[np.uint8] = np.frombuffer(self._counter.save(), dtype=np.uint8)
        arrays: dict[str, npt.NDArray[Any]] = {"leaf": self._leaf, "counter": inner}
        return pack(
            "privatizer",
            self._counter.generation,
            {"users": self._users, "schedule": identify(self.schedule)},
            arrays,
        )

    def restore(self, data: bytes, *, released: int | None = None, resume: bool = False) -> None:  # noqa: ARG002 - no devices
        """Take over a saved state, into a privatizer made with the same arguments; see `Counter.restore`. A store knows `released`."""
        if released is None and self._store is None:
            raise InvalidParameter(
                "without a store, restore needs released=: the newest generation that may have left"
            )
        if self._users:
            raise StateError("this privatizer has already absorbed data: restore into a new one")
        newest = 0 if released is None else whole("released", released, at_least=0)
        state = unpack(
            data, "privatizer", released=max(newest, self._store.generation() if self._store else 0)
        )
        if state.facts["schedule"] != identify(self.schedule):
            raise StateError("the state belongs to a privatizer with another schedule")
        self._counter.restore(state.arrays["counter"].tobytes(), released=state.generation)
        self._leaf, self._users, self._durable = (
            state.arrays["leaf"],
            state.facts["users"],
            state.generation,
        )
        self._restored = True

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
        (
            check_bound(bound),
            requested(privacy),
            kind("schedule", schedule, Schedule),
            flag("discrete", discrete),
        )
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

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a privatizer cannot be copied or pickled: two copies would noise the same sums twice; use save and restore"
        )

    def _check_durable(self) -> None:
        if not self._whole or self._durable != self._counter.generation:
            raise StateError(
                "the last draw of noise could not be stored, so its release must not be published: restore from the store"
            )

    def _close(self, leaf: Bounded) -> None:
        self._counter.absorb(leaf)
        self._leaf = self._nobody
        if self._store:
            self._store.write(self._pack())
        self._durable = self._counter.generation


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
    requested(privacy), flag("discrete", discrete)
    leaves, users = whole("leaves", leaves, at_least=1), whole("users", users, at_least=1)
    if leaves == 1 or isinstance(privacy, NoPrivacy):
        return Exact(leaves)
    candidates: list[Factorisation] = [HonakerTree(leaves)]
    if leaves <= _FEW_LEAVES:
        candidates.append(Toeplitz(leaves, bits=_bits(users) if discrete else None))
    elif not discrete:
        candidates.append(Buffered(leaves))
    order = 2 if privacy.delta > 0 else 1
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
    requested(privacy), kind("schedule", schedule, Schedule)
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
