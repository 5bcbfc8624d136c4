"""What a value is, and one value with its interval: the words and the numbers that `evaluate` and
`learn` print.

All of it is public. The keys of `Value.to_json` and the order of the numbers in `Ratio.to_array`
stand in saved files, so they may not change. How an interval is computed may be changed freely, but
then its level must be measured again (benchmarks/results/values_evaluate.md, values_learn.md).
"""

import math
from dataclasses import dataclass

import numpy as np

from confide import arguments
from confide.privacy.bounded import Array
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import PureDP
from confide.privacy.request import Trust


def definition(max_steps: int, discount: float) -> str:
    """The meaning of every value that is printed, in one sentence."""
    arguments.whole("max_steps", max_steps, at_least=1)
    arguments.real("discount", discount, at_least=0, at_most=1)
    rewards = "rewards" if discount == 1 else f"rewards, discounted by {discount:g} per step,"
    steps = "1 step" if max_steps == 1 else f"{max_steps:,} steps"
    return (
        f"a value is the expected sum of {rewards} of a trajectory, "
        f"from its start to a terminal state or to {steps}, whichever comes first"
    )


@dataclass(frozen=True, slots=True)
class Value:
    """A value with its interval.

    Both ends are None where the interval is not estimated, as if it were the whole range.
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def estimated(self) -> bool:
        """Whether there is an interval."""
        return self.low is not None

    def to_json(self) -> dict[str, float | None]:
        return {"value": self.value, "low": self.low, "high": self.high}


# Where nothing was estimated.
NO_VALUE = Value(None)


@dataclass(frozen=True, slots=True)
class Ratio:
    """An estimate N / D of two noisy sums, with what is needed for its intervals.

    All of it is PUBLIC.
    """

    # N and D.
    numerator: float
    denominator: float
    # The variances of the noise in N and in D, and their covariance.
    numerator_noise: float
    denominator_noise: float
    shared_noise: float
    # The variance that drawing users adds to N - (N/D) D.
    sampling: float
    # The ratio is known to lie between these.
    lowest: float
    highest: float

    @classmethod
    def of(cls, numbers: Array) -> "Ratio":
        """From the array in which a release keeps it."""
        return cls(*(float(number) for number in numbers))

    def to_array(self) -> Array:
        return np.array(
            [
                self.numerator,
                self.denominator,
                self.numerator_noise,
                self.denominator_noise,
                self.shared_noise,
                self.sampling,
                self.lowest,
                self.highest,
            ]
        )

    @property
    def value(self) -> float:
        """N / D within its range; the middle of the range if D is not positive."""
        if self.denominator <= 0:
            return (self.lowest + self.highest) / 2
        return min(max(self.numerator / self.denominator, self.lowest), self.highest)

    @property
    def noise_std(self) -> float:
        """The standard deviation that noise alone gives the value."""
        if self.denominator <= 0:
            return 0.0
        v = self.value
        variance = self.numerator_noise - 2 * v * self.shared_noise + v**2 * self.denominator_noise
        return math.sqrt(max(variance, 0.0)) / self.denominator

    def limits(self, z: float) -> tuple[float, float]:
        """The ends of all v for which N - v D is within z standard deviations of zero [Fieller54].

        They are (-inf, inf) where D may be zero. (N - v D)^2 <= z^2 (n - 2 v c + v^2 d + s) is a
        quadratic inequality in v, where n, d and c are the variances and the covariance of the
        noise, and s is the variance of sampling.
        """
        variance = self.numerator_noise + self.sampling
        a = self.denominator**2 - z**2 * self.denominator_noise
        b = self.numerator * self.denominator - z**2 * self.shared_noise
        c = self.numerator**2 - z**2 * variance
        if not (self.denominator > 0 and a > 0 and math.isfinite(c)):
            return -math.inf, math.inf
        root = math.sqrt(max(b**2 - a * c, 0.0))
        return (b - root) / a, (b + root) / a

    def interval(self, z: float) -> tuple[float, float]:
        """The limits within the range."""
        low, high = self.limits(z)
        return max(low, self.lowest), min(high, self.highest)


def value_with(value: float, low: float, high: float, lowest: float, highest: float) -> Value:
    """A value with its interval, unless that is the whole range: such an interval says nothing."""
    if low <= lowest and high >= highest:
        return Value(value)
    return Value(value, low, high)


def quantile(level: float, guarantee: Guarantee) -> float:
    """How many standard deviations hold this probability.

    With pure noise it is the larger of Laplace's and the normal one's.
    """
    from scipy.special import ndtri

    arguments.real("level", level, above=0, below=1)
    normal = float(ndtri((1 + level) / 2))
    private = guarantee.trust is not Trust.NONE
    if private and (guarantee.request.delta == 0 or isinstance(guarantee.loss, PureDP)):
        return max(normal, -math.log(1 - level) / math.sqrt(2))
    return normal
