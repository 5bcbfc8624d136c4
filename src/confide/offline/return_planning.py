"""Values with intervals from released counts and sums of returns.

All of it is post-processing of a release: arrays go in, values come out. It may be changed without
an effect on privacy, but then intervals must be measured again
(benchmarks/results/values_learn.md). `ReleasedReturns` is saved as a part of a model, so the order
of its arrays is a format (`model.py`).
"""

from dataclasses import dataclass, field

import numpy as np

from confide.privacy.bounded import Array
from confide.release.value import Ratio, Value, value_with

# Where it may not be known what followed, returns are released twice: with the least that it can
# pay, and with the most. These are positions on the axis [bound], which may have one entry only.
LEAST = 0
MOST = -1


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedReturns:
    """PUBLIC: noisy counts and sums of returns, at one or more places.

    A place is a state, or the only one if returns are those of whole trajectories. A return is
    centre + radius g, with g in [-1, 1]. There is one bound, or two: with the least and with the
    most that unknown steps can pay.
    """

    # Counts, sums of g and sums of g^2 [bound, 3, place].
    sums: Array = field(repr=False)
    # The standard deviations of their noise [bound, 3].
    noise: Array = field(repr=False)
    centre: float
    radius: float

    def ratios(self, bound: int) -> list[Ratio]:
        """The mean return at each place, with its variances.

        The sampling variance comes from the released squares. One standard deviation of their noise
        is added to it, because intervals would be too narrow where it is underestimated. It is at
        most what the range allows.
        """
        count_noise, sum_noise, square_noise = self.noise[bound]
        # Returns are c + R g, so their sum is c count + R sum of g.
        c = self.centre
        R = self.radius
        ratios = []
        for count, total, squares in self.sums[bound].T:
            mean = float(np.clip(total / count, -1.0, 1.0)) if count > 0 else 0.0
            largest_spread = max(count, 0.0) * (1 - mean**2)
            # The sum of (g - mean)^2.
            spread = max(squares - count * mean**2, 0.0)
            if sum_noise > 0:
                spread = min(spread + square_noise, largest_spread)
            ratios.append(
                Ratio(
                    numerator=c * count + R * total,
                    denominator=count,
                    numerator_noise=(c * count_noise) ** 2 + (R * sum_noise) ** 2,
                    denominator_noise=count_noise**2,
                    shared_noise=c * count_noise**2,
                    sampling=R**2 * spread,
                    lowest=c - R,
                    highest=c + R,
                )
            )
        return ratios

    def values(self, guesses: Array, z: float, *, direct: bool = True) -> list[Value]:
        """A value with its interval for each place. `z` is the quantile of the interval.

        The interval runs from the lower end if unknown steps pay the least to the upper end if they
        pay the most. Between the two means nothing is known, so the guess decides; without unknown
        steps the two are the same but for noise. Where means are mostly noise (not `direct`), the
        value is the guess, if the interval allows it.
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
                # Noise can turn the ends around. The mean between them is all that is known then.
                low = value
                high = value
            values.append(
                value_with(value, min(low, value), max(high, value), least.lowest, least.highest)
            )
        return values
