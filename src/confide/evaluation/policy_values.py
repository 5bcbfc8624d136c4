"""From the noisy sums of weighted returns to values of policies and their intervals.

All of this is post-processing of what was released, so nothing here can break a guarantee.
Everything is linear in the mean row of a user, (1, g, a, b, e) of `ReturnRow`. A value is a ratio
of two linear forms of it, so that noise and sampling have the same simple variances for a policy,
for the logged policy, and for their difference.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from confide.evaluation.parameters import SPREAD
from confide.privacy.bounded import Array
from confide.release.value import Ratio

# A denominator that is fewer standard deviations of its noise above zero may be anything. A matter
# of taste.
_CLEARLY_POSITIVE = 5.0
# The scale of returns in the second moments, beside weights as shares of the clip. A matter of
# taste, but released moments are in this unit, so it is part of the format of saved estimates.
RETURN_SCALE = 0.5


@dataclass(frozen=True, slots=True)
class Form:
    """A ratio of two linear forms of the row [size]."""

    numerator: Array
    denominator: Array


@dataclass(frozen=True, slots=True, eq=False)
class PolicyValues:
    """What was released of the users' rows, and what follows from it. PUBLIC.

    `row` [size] are noisy sums over users of (1, g, a_k, b_k, e_k), in natural units: a and b as
    shares of the clip. With `per_decision` a is missing. `noise` [size] are standard deviations.
    `moments` [d, d] are sums over users of r r^T, r = (RETURN_SCALE g, a_k, b_k) minus its mean, or
    None if they were not released. Returns are in centre +- radius.
    """

    row: Array = field(repr=False)
    noise: Array = field(repr=False)
    moments: Array | None = field(repr=False)
    users: int
    policies: int
    clip: float
    centre: float
    radius: float
    per_decision: bool
    self_normalised: bool

    @classmethod
    def of(cls, released: Mapping[str, Array], users: int) -> "PolicyValues":
        """From what a `ValueEstimate` keeps."""
        clip, centre, radius, policies, per_decision, self_normalised = released["settings"]
        return cls(
            row=released["row"],
            noise=released["row_noise"],
            moments=released.get("moments"),
            users=users,
            policies=int(policies),
            clip=float(clip),
            centre=float(centre),
            radius=float(radius),
            per_decision=bool(per_decision),
            self_normalised=bool(self_normalised),
        )

    def to_arrays(self) -> dict[str, Array]:
        """What a `ValueEstimate` keeps. The order of the settings is a file format."""
        settings = [
            self.clip,
            self.centre,
            self.radius,
            float(self.policies),
            float(self.per_decision),
            float(self.self_normalised),
        ]
        arrays = {"row": self.row, "row_noise": self.noise, "settings": np.array(settings)}
        if self.moments is not None:
            arrays["moments"] = self.moments
        return arrays

    @property
    def lowest(self) -> float:
        return self.centre - self.radius

    @property
    def highest(self) -> float:
        return self.centre + self.radius

    # The coordinates of the row.

    def _unit(self, place: int) -> Array:
        unit = np.zeros(len(self.row))
        unit[place] = 1.0
        return unit

    def _weight(self, policy: int) -> Array:
        """The importance weight, in units of one."""
        return self.clip * self._unit(2 + policy)

    def _worth(self, policy: int) -> Array:
        """The weighted return."""
        if self.per_decision:
            low, high = min(self.lowest, 0.0), max(self.highest, 0.0)
            middle, half = (low + high) / 2, (high - low) / 2
            return self.clip * (middle * self._unit(0) + half * self._unit(2 + policy))
        scaled = self.clip * self._unit(2 + self.policies + policy)
        return self.centre * self._weight(policy) + self.radius * scaled

    # The quantities.

    @property
    def logged(self) -> Form:
        """The mean return of users as they are."""
        return Form(
            self.centre * self._unit(0) + self.radius * self._unit(1),
            self._unit(0),
        )

    def policy(self, policy: int) -> Form:
        """The mean weighted return, divided by the number of users, or by the sum of weights."""
        divisor = self._weight(policy) if self.self_normalised else self._unit(0)
        return Form(self._worth(policy), divisor)

    def weight(self, policy: int) -> Form:
        """The mean clipped weight, which is 1 without a clip."""
        return Form(self._weight(policy), self._unit(0))

    def _with_loss(self, policy: int, each: float) -> Form:
        """The value if what the clip took off is worth `each`.

        It is E[rho_c F] + each (1 - E[rho_c]), where rho_c are clipped weights.
        """
        lost = self._unit(0) - self._weight(policy)
        return Form(self._worth(policy) + each * lost, self._unit(0))

    @property
    def counted(self) -> float:
        """How many users count, from noisy sums."""
        return float(self.row[0])

    @property
    def counted_noise(self) -> float:
        return float(self.noise[0])

    def above(self, policy: int) -> tuple[float, float]:
        """How many users have a weight above the clip, and the standard deviation of its noise."""
        place = len(self.row) - self.policies + policy
        return float(self.row[place]), float(self.noise[place])

    def effective_users(self, policy: int) -> float | None:
        """How many users with equal weights would be worth as much.

        It is (sum of weights)^2 / sum of their squares; None if the second moments were not
        released.
        """
        if self.moments is None or self.per_decision or self.counted <= 0:
            return None
        mean = max(float(self.row[2 + policy]), 0.0) / self.counted
        variance = float(self.moments[1 + policy, 1 + policy]) / self.counted
        return self.counted * mean**2 / max(variance + mean**2, 1e-300)

    def ratio(self, form: Form, lowest: float | None = None, highest: float | None = None) -> Ratio:
        """The estimate of a form, with its variances; by default within the range of returns."""
        variances = self.noise**2
        numerator = float(form.numerator @ self.row)
        denominator = float(form.denominator @ self.row)
        theta = numerator / denominator if denominator > 0 else 0.0
        return Ratio(
            numerator=numerator,
            denominator=denominator,
            numerator_noise=float(form.numerator**2 @ variances),
            denominator_noise=float(form.denominator**2 @ variances),
            shared_noise=float((form.numerator * form.denominator) @ variances),
            sampling=self._sampling(form.numerator - theta * form.denominator),
            lowest=self.lowest if lowest is None else lowest,
            highest=self.highest if highest is None else highest,
        )

    def _sampling(self, residual: Array) -> float:
        """The variance that drawing users adds to residual.row, which is zero for the mean row."""
        if self.moments is None:
            return math.inf
        direction = residual[1 : 1 + len(self.moments)].copy()
        direction[0] /= RETURN_SCALE
        return max(float(direction @ self.moments @ direction), 0.0)

    def difference(self, first: Form, second: Form) -> Ratio:
        """The first value minus the second one, to first order in the errors.

        It has the form of a ratio of which the denominator is 1.
        """
        ratios = [self.ratio(first), self.ratio(second)]
        clear = all(
            ratio.denominator > _CLEARLY_POSITIVE * math.sqrt(ratio.denominator_noise)
            for ratio in ratios
        )
        # The derivative of the difference by the row [size].
        derivative = np.zeros(len(self.row))
        if clear:
            for sign, form, ratio in zip((1.0, -1.0), (first, second), ratios, strict=True):
                theta = ratio.numerator / ratio.denominator
                residual = form.numerator - theta * form.denominator
                derivative += sign * residual / ratio.denominator
        width = self.highest - self.lowest
        return Ratio(
            numerator=ratios[0].value - ratios[1].value,
            denominator=1.0,
            numerator_noise=float(derivative**2 @ self.noise**2),
            denominator_noise=0.0,
            shared_noise=0.0,
            sampling=self._sampling(derivative) if clear else math.inf,
            lowest=-width,
            highest=width,
        )

    def value(self, policy: int) -> tuple[float, float]:
        """The estimate, and the standard deviation of its noise.

        The ratio of weighted importance sampling is shrunk to the centre where the noise is as
        large as the sum of weights, which it never is without noise.
        """
        ratio = self.ratio(self.policy(policy))
        denominator = max(ratio.denominator, 0.0)
        if denominator == 0:
            return self.centre, 0.0
        gain = 1.0
        if self.self_normalised:
            noise = math.sqrt(ratio.numerator_noise) / self.radius
            gain = denominator**2 / (denominator**2 + (noise / SPREAD) ** 2)
        value = self.centre + gain * (ratio.numerator / denominator - self.centre)
        value = min(max(value, self.lowest), self.highest)
        return value, gain * ratio.noise_std

    def interval(self, policy: int, z: float) -> tuple[float, float]:
        """Bounds of a policy's value, whatever the clip took off."""
        low = self._end(policy, None, z, side=-1)
        high = self._end(policy, None, z, side=1)
        return max(low, self.lowest), min(high, self.highest)

    def difference_interval(self, policy: int, other: int | None, z: float) -> tuple[float, float]:
        """Bounds of a policy's value minus another one's, or minus the logged policy's (None)."""
        width = self.highest - self.lowest
        against = self.logged if other is None else other
        low = self._end(policy, against, z, side=-1)
        high = self._end(policy, against, z, side=1)
        return max(low, -width), min(high, width)

    def _end(self, policy: int, against: "Form | int | None", z: float, side: int) -> float:
        """The lower (-1) or upper (1) end of an interval, with what the clip may have taken off."""
        # What is subtracted: nothing, a form, or a policy, which is best at its other end.
        subtracted: list[tuple[Form | None, float]] = [(None, 0.0)]
        if isinstance(against, int):
            subtracted = [*self._possible(against, z, -side)]
        elif against is not None:
            subtracted = [(against, 0.0)]
        ends = []
        for form, shift in self._possible(policy, z, side):
            for other, other_shift in subtracted:
                ratio = self.ratio(form) if other is None else self.difference(form, other)
                low, high = ratio.limits(z)
                ends.append((high if side > 0 else low) + shift - other_shift)
        # The first one is as if nothing had been clipped. Each of the others holds whatever was
        # clipped.
        if len(ends) == 1:
            return ends[0]
        return max(ends[0], min(ends[1:])) if side > 0 else min(ends[0], max(ends[1:]))

    def _possible(self, policy: int, z: float, side: int) -> list[tuple[Form, float]]:
        """The estimate as it is, then estimates that hold whatever was clipped.

        Each comes with what is added to it. With rho_c = min(rho, clip) and l = 1 - E[rho_c], the
        value is E[rho_c F] + l x for some x in the range of returns, because E[rho] = 1. Where no
        weight was above the clip, l = 0 and this is the textbook's estimate. Otherwise the end of
        the range is taken for x, and the estimate has its own error. Where noise may hide weights
        above the clip, or few were seen, l is at most clip times their share if these weights are
        at most twice the clip on average. Unless the mean weight contradicts that, the narrower of
        both is used.
        """
        central = self.policy(policy)
        count, noise = self.above(policy)
        if self.per_decision or (noise == 0 and count <= 0):
            return [(central, 0.0)]
        worst = self.highest if side > 0 else self.lowest
        extreme = self._with_loss(policy, worst)
        # The largest share of users with a weight above the clip, with room for noise and sampling.
        counted_above = max(count, 0.0)
        largest_count = counted_above + z * noise + z * math.sqrt(counted_above)
        share = largest_count / max(self.counted, 1.0)
        loss = min(self.clip * share, 1.0)
        mean_weight = self.ratio(self.weight(policy), 0.0, self.clip).value
        if count > z * noise and 1 - mean_weight > loss:
            return [(central, 0.0), (extreme, 0.0)]
        value = self.ratio(central).value if self.self_normalised else 0.0
        shift = loss * (worst - value)
        shift = max(shift, 0.0) if side > 0 else min(shift, 0.0)
        return [(central, 0.0), (central, shift), (extreme, 0.0)]
