"""Noise in shares: every device of a batch adds some, and the sum of the shares hides each user [Kairouz21]."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.mechanisms.additive import AdditiveNoise
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Array, Bound
from confide.privacy.discrete_sums import least_share, sum_epsilon
from confide.privacy.loss import ApproxDP
from confide.privacy.request import DistributedDP, Relation

Ints = npt.NDArray[np.int64]
# standard deviations: a discrete Gaussian is sub-Gaussian, so that a sum exceeds them with probability 2 exp(-72) = 1e-31
_REACH = 12.0


@dataclass(frozen=True, slots=True)
class ShareNoise:
    """Discrete Gaussian shares on the lattice of a bound, whose sum over the honest devices of any batch has standard deviation `scale`.

    Guarantee: a sum with at least `honest(n)` shares of a batch of n is (epsilon, delta)-DP, by `sum_epsilon`. The bound's distance from a
    discrete Gaussian grows with the number of shares and falls with their size, so that the batch of the `largest` size is the worst.
    """

    sensitivity: float  # L2, of one user's contribution
    scale: float  # in the units of the contribution
    step: float  # of the lattice
    size: int  # coordinates
    largest: int  # users of the largest batch
    dropouts: float

    def honest(self, users: int) -> int:
        """How many shares of a batch are in its sum for sure."""
        return users - math.floor(self.dropouts * users + 1e-9)

    def share(self, users: int) -> float:
        """The share of a device in a batch of so many, in steps of the lattice."""
        return self.scale / self.step / math.sqrt(self.honest(users))

    def std(self, users: int, present: int) -> float:
        """The standard deviation of the noise in the sum of a batch, of which so many devices are present."""
        return self.share(users) * self.step * math.sqrt(present)

    def loss(self, delta: float) -> ApproxDP:
        share, honest = self.share(self.largest), self.honest(self.largest)
        return ApproxDP(
            sum_epsilon(share, honest, self.sensitivity / self.step, self.size, delta), delta
        )

    def modulus(self, most: float) -> int:
        """The smallest power of two such that sums, of values up to `most` each, are read correctly: up to a probability of 1e-31."""
        sums = self.largest * most / self.step
        noise = _REACH * self.scale / self.step / math.sqrt(1 - self.dropouts)
        found: int = 2 ** math.ceil(math.log2(2 * (sums + noise) + 2))
        if found > 2**53:
            raise InvalidParameter(
                f"sums of {self.largest} users and their noise do not fit into 53 bits: use smaller batches"
            )
        return found

    def add(self, values: Array, users: int, devices: int, source: NoiseSource) -> Ints:
        """Values on the lattice, as whole numbers, with the noise of so many `devices` of a batch of `users`.

        One device draws its share. More than one are a SIMULATION: their sum is drawn at once, as one discrete Gaussian, which differs
        from it by less than `distance_from_gaussian`. The source of an audit reads the values, and may put others in their place.
        """
        exact = np.rint(values / self.step).astype(np.int64)
        noisy = exact + source.lattice_gaussian(self.share(users) * math.sqrt(devices), exact.shape)
        instead = getattr(source, "instead", None)
        if instead is None:
            return noisy
        level = AdditiveNoise("gaussian", 2, self.sensitivity, 1.0, self.scale, self.step)
        return np.rint(np.asarray(instead(level, exact, noisy * self.step)) / self.step).astype(
            np.int64
        )


def share_noise(bound: Bound, privacy: DistributedDP, largest: int) -> ShareNoise:
    """The least noise in shares that keeps `privacy` in every batch of at most `largest` users."""
    sensitivity, step = bound.sensitivity(Relation.REPLACE), bound.grid
    unit = ShareNoise(sensitivity, 1.0, step, bound.size, largest, privacy.dropouts)
    honest = unit.honest(largest)
    share = least_share(
        float(privacy.epsilon), float(privacy.delta), honest, sensitivity / step, bound.size
    )
    return ShareNoise(
        sensitivity,
        share * (1 + 1e-12) * step * math.sqrt(honest),
        step,
        bound.size,
        largest,
        privacy.dropouts,
    )
