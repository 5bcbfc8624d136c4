"""Values with intervals from released counts and sums of returns.

All post-processing of releases: arrays in, values out.
"""

from dataclasses import dataclass, field

import numpy as np

from confide.privacy.bounded import Array
from confide.release.value import Ratio, Value, value_with

# Released twice where it may not be known what followed: with the least that it can pay, and with
# the most.
LEAST = 0
MOST = -1


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedReturns:
    """PUBLIC: noisy counts, sums of g and sums of g^2 [bound, 3, place], and the standard
    deviations of their noise [bound, 3].

    A return is centre + radius g. There is one bound, or two: with the least and with the most that
    unknown steps can pay.
    """

    sums: Array = field(repr=False)
    noise: Array = field(repr=False)
    centre: float
    radius: float

    def ratios(self, bound: int) -> list[Ratio]:
        """The mean return at each place, with its variances.

        The sampling variance comes from the released squares. One standard deviation of their noise
        is added to it, because intervals would be too narrow where it is underestimated. It is at
        most what the range allows.
        """
        c = self.centre
        R = self.radius
        count_noise, noise, square_noise = self.noise[bound]
        ratios = []
        for count, total, squares in self.sums[bound].T:
            mean = float(np.clip(total / count, -1.0, 1.0)) if count > 0 else 0.0
            most = max(count, 0.0) * (1 - mean**2)
            spread = max(squares - count * mean**2, 0.0)
            if noise > 0:
                spread = min(spread + square_noise, most)
            ratios.append(
                Ratio(
                    numerator=c * count + R * total,
                    denominator=count,
                    numerator_noise=(c * count_noise) ** 2 + (R * noise) ** 2,
                    denominator_noise=count_noise**2,
                    shared_noise=c * count_noise**2,
                    sampling=R**2 * spread,
                    lowest=c - R,
                    highest=c + R,
                )
            )
        return ratios

    def values(self, guesses: Array, z: float, *, direct: bool = True) -> list[Value]:
        """A value with its interval for each place: from the lower end with the least to the upper
        end with the most that is unknown.

        Between the two means nothing is known but a guess; without unknown steps they are the same
        but for noise. Where means are mostly noise (not `direct`), the value is the guess, if the
        interval allows it.
        """
        values = []
        for guess, least, most in zip(guesses, self.ratios(LEAST), self.ratios(MOST), strict=True):
            low = float(least.interval(z)[0])
            high = float(most.interval(z)[1])
            floor, ceiling = sorted((least.value, most.value))
            if not direct and low < high:
                floor = low
                ceiling = high
            value = min(max(float(guess), floor), ceiling)
            if low > high:
                low = high = value
            values.append(
                value_with(value, min(low, value), max(high, value), least.lowest, least.highest)
            )
        return values
