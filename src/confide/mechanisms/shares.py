"""Noise in shares: every device of a batch adds some, and their sum hides each user [Kairouz21].

What leaves this file is a device's message, whole numbers modulo `modulus`, and the noise of a
certificate. The accounting is in `privacy/discrete_sums.py`.
"""

import math
from dataclasses import dataclass, replace

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
# So many standard deviations of noise fit into the modulus. Taste: a discrete Gaussian is
# sub-Gaussian, so a sum exceeds them with probability 2 exp(-72) = 1e-31, and is then read wrongly.
_REACH = 12.0
# Sums and noise must be exact in floating point.
_LARGEST_MODULUS = 2**53
# Makes up for the rounding of the scale. Required for privacy.
_SAFETY_FACTOR = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class ShareNoise:
    """Discrete Gaussian shares of noise on the lattice of a bound.

    The sum of the shares of the honest devices of any batch has the standard deviation `scale`.

    Guarantee: a sum with at least `honest(n)` shares of a batch of n is (epsilon, delta)-DP, by
    `sum_epsilon`. The distance of the sum from a discrete Gaussian grows with the number of shares
    and falls with their size, so the batch of the `largest` size is the worst.
    """

    # The L2 sensitivity of one user's contribution.
    sensitivity: float
    # The standard deviation of the sum, in the units of the contribution.
    scale: float
    # The step of the lattice.
    step: float
    # The number of coordinates.
    size: int
    # The users of the largest batch.
    largest: int
    # The largest share of a batch that may be missing or dishonest.
    dropouts: float

    def honest(self, users: int) -> int:
        """How many shares of a batch of so many users are in its sum for sure."""
        # The small number keeps a product such as 0.29 * 100 from being rounded down to 28.
        # Required for privacy, because fewer dropouts mean less noise.
        most_dropouts = math.floor(self.dropouts * users + 1e-9)
        return users - most_dropouts

    def share(self, users: int) -> float:
        """The scale of one device's noise in a batch of so many users, in steps of the lattice."""
        return self.scale / self.step / math.sqrt(self.honest(users))

    def std(self, users: int, present: int) -> float:
        """The standard deviation of the sum of a batch of which so many devices are present."""
        return self.share(users) * self.step * math.sqrt(present)

    def loss(self, delta: float) -> ApproxDP:
        """The privacy loss in the largest batch, at this delta."""
        share = self.share(self.largest)
        honest = self.honest(self.largest)
        sensitivity_in_steps = self.sensitivity / self.step
        epsilon = sum_epsilon(share, honest, sensitivity_in_steps, self.size, delta)
        return ApproxDP(epsilon, delta)

    def modulus(self, most: float) -> int:
        """The smallest power of two modulo which sums are read correctly.

        Each user's value is at most `most`. A sum is read wrongly with a probability of 1e-31.
        """
        largest_sum = self.largest * most / self.step
        largest_noise = _REACH * self.scale / self.step / math.sqrt(1 - self.dropouts)
        modulus: int = 2 ** math.ceil(math.log2(2 * (largest_sum + largest_noise) + 2))
        if modulus > _LARGEST_MODULUS:
            raise InvalidParameter(
                f"sums of {self.largest} users and their noise do not fit into 53 bits: "
                "use smaller batches"
            )
        return modulus

    def add(self, values: Array, users: int, devices: int, source: NoiseSource) -> Ints:
        """Values in steps of the lattice, with the noise of so many devices of a batch of `users`.

        One device draws its share. More than one are a SIMULATION: their sum is drawn at once, as
        one discrete Gaussian, which differs from the sum by less than `distance_from_gaussian`. The
        source of an audit has a method `instead`. It reads the values, and may replace them.
        """
        exact = np.rint(values / self.step).astype(np.int64)
        noisy = exact + source.lattice_gaussian(self.share(users) * math.sqrt(devices), exact.shape)
        instead = getattr(source, "instead", None)
        if instead is None:
            return noisy
        level = AdditiveNoise("gaussian", 2, self.sensitivity, 1.0, self.scale, self.step)
        replaced = np.asarray(instead(level, exact, noisy * self.step))
        return np.rint(replaced / self.step).astype(np.int64)


def share_noise(bound: Bound, privacy: DistributedDP, largest: int) -> ShareNoise:
    """The least noise in shares that keeps `privacy` in every batch of at most `largest` users."""
    sensitivity = bound.sensitivity(Relation.REPLACE)
    step = bound.grid
    noise_of_unit_scale = ShareNoise(sensitivity, 1.0, step, bound.size, largest, privacy.dropouts)
    honest = noise_of_unit_scale.honest(largest)
    share = least_share(
        float(privacy.epsilon), float(privacy.delta), honest, sensitivity / step, bound.size
    )
    scale = share * _SAFETY_FACTOR * step * math.sqrt(honest)
    return replace(noise_of_unit_scale, scale=scale)
