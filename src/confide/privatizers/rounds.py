"""The privatizer of rounds: each release is about new users, and what it is about is decided from the releases before it."""

import math
from typing import Any, ClassVar, NoReturn

import numpy as np

from confide.arguments import kind, whole
from confide.errors import InvalidParameter, PrivacyError, StateError, StreamExhausted
from confide.identity import identify
from confide.mechanisms.additive import AdditiveNoise, check_bound, cube_noise, fitting
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import NoiseSource, check_source
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel, Released, clip_sum
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import Loss, PureDP
from confide.privacy.request import NoPrivacy, Relation, Request, Trust, requested
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.schedule import AtMost, check_batch


class RoundsPrivatizer:
    """Sums over the users of one round after the other, each with noise of its own: the K-norm mechanism of the cube.

    Guarantee: all releases together are epsilon-DP, for every user, of whom each is in one round; also for adaptive streams. Up to a user's
    round everything published has one law on both neighbours; its own release is epsilon-DP given that (`cube_noise`); what follows is a
    function of releases and of other users. How many numbers a round asks for, and how many users it has, is decided by `open`, from
    earlier releases alone. delta is not used: for few numbers this noise is smaller than the Gaussian of any usual delta.
    """

    devices: ClassVar[bool] = False

    def __init__(
        self,
        bound: Bound,
        schedule: AtMost,
        *,
        privacy: Request,
        noise: NoiseSource,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> None:
        if counter is not None or loss is not None:
            raise InvalidParameter(
                "counter and loss must be None: rounds have neither a counter nor a loss of their own"
            )
        check_bound(bound)
        kind("schedule", schedule, AtMost)
        check_source(noise, "noise")
        self._check_trust(privacy)
        self.schedule, self._privacy, self._source = schedule, privacy, noise.fork()
        self._bound: Bound = bound
        self._edge: int | None = None  # how many users there are when the open round ends
        self._begun = self._users = self._generation = 0
        self._leaf: Array = np.zeros(0)
        self._last, self._level = np.zeros(0), NoiseLevel(0.0, "none")
        # False while a contribution is taken in: an exception there must neither be saved nor retried
        self._whole = True

    def _check_trust(self, privacy: Request) -> None:
        if requested(privacy).trust.devices:
            raise PrivacyError(
                "rounds are released by a curator: privacy must be JointDP, CentralDP or NoPrivacy"
            )

    @property
    def guarantee(self) -> Guarantee:
        if isinstance(self._privacy, NoPrivacy):
            return no_guarantee(self.schedule.users)
        loss = PureDP(self._privacy.epsilon)
        return Guarantee(loss, self._privacy, Trust.CENTRAL, self.schedule.users, self._source.name)

    @property
    def users(self) -> int:
        return self._users

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def batch(self) -> tuple[int, int]:
        """How many users there were when the open round began, and how many there are when it ends."""
        if self._edge is None:
            raise StateError("no round is open")
        return self._begun, self._edge

    def open(self, bound: Bound, users: int) -> None:
        """The next release is about so many users with contributions within this bound: decided in public, once."""
        check_bound(bound)
        whole("users", users, at_least=1)
        if self._edge is not None:
            return
        if (
            self._generation == self.schedule.leaves
            or not 1 <= users <= self.schedule.users - self._begun
        ):
            raise StreamExhausted(
                f"the guarantee covers {self.schedule.users} users in at most {self.schedule.leaves} rounds"
            )
        if self._leaf.size not in (0, bound.size) or not self._users - self._begun < users:
            raise StateError(
                "the open round was planned otherwise before: its users are in another sum"
            )
        self._bound, self._edge = bound, self._begun + users
        self._leaf = self._leaf if self._leaf.size else np.zeros(bound.size)

    def absorb(self, contribution: Bounded) -> None:
        self._check_whole()
        if self._users == self.schedule.users:
            raise StreamExhausted(
                f"the guarantee covers {self.schedule.users} users, and all were absorbed"
            )
        start, edge = self.batch
        if contribution.bound != self._bound:
            raise InvalidParameter("the contribution was clipped by another bound than the round's")
        if self._users + contribution.users > edge:
            raise InvalidParameter(
                f"the round has {edge - start} users: {contribution.users} more would be too many"
            )
        self._whole = False
        self._leaf = self._leaf + contribution.values
        self._users += contribution.users
        if self._users == edge:
            self._close()
        self._whole = True

    def close(self, total: Array | None = None, users: int = 0) -> None:
        """Release now, with the users of the open round who are here. WHEN must be decided in public, not from their data."""
        self._check_whole()
        start, _ = self.batch  # refuses if no round is open
        if total is not None:
            check_batch(self.schedule.users, start, self._users, users)
            leaf = self._checked(total, users)
        self._whole = False
        if total is not None:
            self._leaf, self._users = leaf, start + users
        self._close()
        self._whole = True

    def _checked(self, total: Array, users: int) -> Array:
        return clip_sum(total, self._bound, users).values

    def _close(self) -> None:
        noise = self._noise(self._bound)
        self._last = noise.add(noise.to_lattice(self._leaf)[None], self._source)[0]
        self._level = NoiseLevel(noise.std, noise.distribution)
        self._next()

    def _next(self) -> None:
        self._generation += 1
        self._begun, self._edge, self._leaf = self._users, None, np.zeros(0)

    def _noise(self, bound: Bound) -> AdditiveNoise:
        if isinstance(self._privacy, NoPrivacy):
            return AdditiveNoise("none", "inf", 1.0, 1.0, 0.0, None)
        made = cube_noise(
            bound,
            self._privacy.epsilon,
            Relation(self._privacy.relation),
            discrete=self._source.discrete,
        )
        return fitting(made, bound, None, self.schedule.users)

    def release(self) -> Released:
        """What the last closed round answered. Asking again gives the same answer."""
        self._check_whole()
        return Released(
            self._last.copy(), self._level, self.guarantee, self._begun, self._generation
        )

    def mechanism(self) -> Mechanism:
        """Sensitivity and scale are those of one number: noise on D of them is larger, for the same epsilon."""
        parameters = {"leaves": self.schedule.leaves}
        noise = self._noise(self._bound)
        return Mechanism(
            "rounds",
            noise.distribution,
            noise.norm,
            noise.sensitivity,
            noise.scale,
            parameters,
            lattice=noise.step,
            bound=describe(self._bound),
        )

    def save(self) -> bytes:
        """PRIVATE: everything needed to go on."""
        self._check_whole()
        facts = {
            "made_for": self._made_for(),
            "users": self._users,
            "begun": self._begun,
            "noise": self._source.state(),
        }
        facts |= {"std": self._level.std, "distribution": self._level.distribution}
        return pack("rounds", self._generation, facts, {"leaf": self._leaf, "last": self._last})

    def restore(self, data: bytes, *, released: int, resume: bool = False) -> None:  # noqa: ARG002 - no devices
        if self._users:
            raise StateError("this privatizer has already absorbed data: restore into a new one")
        state = unpack(data, "rounds", released=released)
        facts: dict[str, Any] = state.facts
        if facts["made_for"] != self._made_for():
            raise StateError("the state belongs to a privatizer with another guarantee or schedule")
        self._leaf, self._last = state.arrays["leaf"], state.arrays["last"]
        self._users, self._begun, self._generation = (
            facts["users"],
            facts["begun"],
            state.generation,
        )
        self._level, self._edge = NoiseLevel(facts["std"], facts["distribution"]), None
        self._source.restore(facts["noise"])

    @classmethod
    def expected_noise(
        cls,
        bound: Bound,
        schedule: AtMost,  # noqa: ARG003
        *,
        privacy: Request,
        discrete: bool,
        counter: Factorisation | None = None,  # noqa: ARG003
        loss: Loss | None = None,  # noqa: ARG003
    ) -> ExpectedNoise:
        """For rounds that ask for as many numbers as `bound` has."""
        if isinstance(privacy, NoPrivacy):
            return ExpectedNoise("rounds", "none", "inf", 1.0, PureDP(math.inf), 0.0, 0.0, 0.0)
        made = cube_noise(bound, privacy.epsilon, Relation(privacy.relation), discrete=discrete)
        return ExpectedNoise(
            "rounds",
            made.distribution,
            made.norm,
            made.sensitivity,
            made.loss(),
            made.std,
            made.std,
            made.std,
        )

    def _check_whole(self) -> None:
        if not self._whole:
            raise StateError(
                "an exception left this privatizer half-way through a contribution: restore the last saved state"
            )

    def _made_for(self) -> str:
        return identify(self._privacy, self.schedule, self._source.name)

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a privatizer cannot be copied or pickled: two copies would noise the same sums twice; use save and restore"
        )
