"""The noise of rounds. Each release is about new users, and earlier releases decide about what.

What leaves this file: the mechanism of a certificate, and the state that `Batches` saves.
"""

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from confide.errors import InvalidParameter, PrivacyError
from confide.identity import identify
from confide.mechanisms.additive import AdditiveNoise, check_bound, check_lattice, cube_noise
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import NoiseSource, check_source
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel, Released, clip_sum
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import Loss, PureDP
from confide.privacy.request import NoPrivacy, Relation, Request, Trust, check_privacy_request
from confide.privatizers.batches import Arrays, Facts, check_clipped_by
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.schedule import AtMost


def refuse_options(counter: Factorisation | None, loss: Loss | None) -> None:
    """Raise an error for options that rounds do not have."""
    if counter is not None or loss is not None:
        raise InvalidParameter(
            "counter and loss must be None: rounds have neither a counter nor a loss of their own"
        )


def with_simulated_users(mechanism: Mechanism, simulated: int) -> Mechanism:
    """Return a curator's mechanism for a certificate, if so many users were simulated."""
    if not simulated:
        return mechanism
    query = f"simulated: {simulated} users came as exact transition counts"
    return replace(mechanism, query=query, simulated=True)


class RoundNoise:
    """Sums over the users of one round after the other, each with noise of its own.

    The noise is that of the K-norm mechanism of the cube (`cube_noise`).

    Guarantee: all releases together are epsilon-DP for every user, also for adaptive streams, since
    each user is in one round:

    - Before the user's round, everything published has the same law on both neighbours.
    - The release of the user's round is epsilon-DP given what was published before. `open` decides
      how many numbers and users a round has, from earlier releases alone.
    - What follows is a function of releases and of other users.

    delta is not used. For few numbers this noise is smaller than Gaussian noise with any usual
    delta.
    """

    devices: ClassVar[bool] = False
    resumes_batch: ClassVar[bool] = True
    modulus: ClassVar[None] = None

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
        refuse_options(counter, loss)
        check_bound(bound)
        check_source(noise, "noise")
        if check_privacy_request(privacy).trust.devices:
            raise PrivacyError(
                "rounds are released by a curator: privacy must be JointDP, CentralDP or NoPrivacy"
            )
        self.bound: Bound = bound
        self._privacy = privacy
        self._schedule = schedule
        self._source = noise.fork()
        # The release of the last closed round, and the level of its noise.
        self._last = np.zeros(0)
        self._level = NoiseLevel(0.0, "none")

    @property
    def guarantee(self) -> Guarantee:
        users = self._schedule.users
        if isinstance(self._privacy, NoPrivacy):
            return no_guarantee(users)
        loss = PureDP(self._privacy.epsilon)
        return Guarantee(loss, self._privacy, Trust.CENTRAL, users, self._source.name)

    def open(self, bound: Bound) -> None:
        self.bound = bound

    def check(self, contribution: Bounded) -> None:
        check_clipped_by(self.bound, contribution)

    def join(self, contribution: Bounded, size: int) -> Array:  # noqa: ARG002
        return contribution.values

    def check_total(self, total: Array, users: int) -> Array:
        return clip_sum(total, self.bound, users).values

    def close(self, total: Array, users: int, absent: int) -> None:  # noqa: ARG002
        noise = self._noise()
        self._last = noise.add(noise.to_lattice(total)[None], self._source)[0]
        self._level = NoiseLevel(noise.std, noise.distribution)

    def release(self, users: int, generation: int) -> Released:
        """Return the noisy sum of the last closed round."""
        return Released(self._last.copy(), self._level, self.guarantee, users, generation)

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        """Return the mechanism for a certificate.

        Sensitivity and scale are those of one number. The noise on several numbers is larger, for
        the same epsilon.
        """
        noise = self._noise()
        mechanism = Mechanism(
            "rounds",
            noise.distribution,
            noise.norm,
            noise.sensitivity,
            noise.scale,
            {"leaves": self._schedule.leaves},
            lattice=noise.step,
            bound=describe(self.bound),
        )
        return [with_simulated_users(mechanism, simulated)]

    def _noise(self) -> AdditiveNoise:
        if isinstance(self._privacy, NoPrivacy):
            return AdditiveNoise("none", "inf", 1.0, 1.0, 0.0, None)
        noise = cube_noise(
            self.bound,
            self._privacy.epsilon,
            Relation(self._privacy.relation),
            discrete=self._source.discrete,
        )
        return check_lattice(noise, self.bound, None, self._schedule.users)

    def settings(self) -> str:
        return identify(self._privacy, self._source.name)

    def state(self) -> tuple[Facts, Arrays]:
        level = {"std": self._level.std, "distribution": self._level.distribution}
        return {"source": self._source.state(), **level}, {"last": self._last}

    def restore(
        self,
        facts: Facts,
        arrays: Arrays,
        *,
        generation: int,  # noqa: ARG002
        resume: bool,  # noqa: ARG002
    ) -> None:
        self._last = arrays["last"]
        self._level = NoiseLevel(facts["std"], facts["distribution"])
        self._source.restore(facts["source"])

    @classmethod
    def expected_noise(cls, bound: Bound, privacy: Request, *, discrete: bool) -> ExpectedNoise:
        """Return the noise of rounds that ask for as many numbers as `bound` has."""
        if isinstance(privacy, NoPrivacy):
            return ExpectedNoise("rounds", "none", "inf", 1.0, PureDP(math.inf), 0.0, 0.0, 0.0)
        noise = cube_noise(bound, privacy.epsilon, Relation(privacy.relation), discrete=discrete)
        return ExpectedNoise(
            "rounds",
            noise.distribution,
            noise.norm,
            noise.sensitivity,
            noise.loss(),
            first=noise.std,
            last=noise.std,
            worst=noise.std,
        )
