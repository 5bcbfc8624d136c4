"""Private least-squares temporal differences: linear values from one step of look-ahead."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from confide.evaluation.contributions import Bands, ResidualBands
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.linear_values import (
    Solution,
    WhitenedFeatures,
    linear_estimate,
    residual_gain,
    solve,
    whiten_features,
)
from confide.evaluation.options import CENTRE, FEATURES, INTERVAL_SHARE, WEIGHTS, Option
from confide.evaluation.parameters import (
    USUAL_VISITS,
    numbers,
    positive,
    rule_for_unknown_states,
    whole,
)
from confide.evaluation.temporal_contributions import TemporalSums, check_radius, longest_steps
from confide.evaluation.two_parts import (
    BANDS,
    TwoReleases,
    release_logged_value,
    with_logged_value,
)
from confide.identity import Identity
from confide.privacy.bounded import Array, L2Ball
from confide.privacy.request import Request
from confide.privatizers import Share
from confide.release.parameters import first_of_user, keep
from confide.release.sums import LogSource, LogSums

# Intervals are given if all singular values of the released A are so many times the largest one of
# the noise alone, about 2 s sqrt(d). A matter of taste.
_CLEARLY_REGULAR = 1.5


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrivateLSTD(TwoReleases):
    """V(s) = c + R x_s.theta with A theta = b.

    A = sum w x (x - discount x')^T and b = sum w x y are sums over steps, and y is the centred
    reward.

    Guarantee: central, one user (all trajectories of one person), replaced or contributing zero;
    exact sums, one noisy release of (A, b) and one of residuals, on one budget.

    `features` [s, d] of finitely many states and `weights` [s] are public, and so is the range of
    returns, [0, return_bound] or centre +- return_bound/2. The last row of a trajectory is taken
    for its end: x' = 0. A user's steps count while the sum of their contributions is sure to stay
    within `norm` (`TemporalSums`). The default, sqrt(visits + 1) times the longest step, is what
    `visits` different states need in a table. For smooth features consecutive x nearly cancel, and
    a smaller norm keeps everything: choose it from public knowledge.

    Reference: [Bradtke96]; private evaluation by temporal differences is what [Balle16, Section 7]
    leaves for the future.

    Departures: as in `SufficientStatistics`, theta is the posterior mean under a prior on values. 1
    - discount and long ways to the reward make A nearly singular, and noise in it is what costs
    most. With few users values fall back to the common level.

    Intervals add up the noise, what the prior may have shrunk, and the sampling error from released
    second moments of users' residuals sum w x (y + discount x'.theta - x.theta), on
    `interval_share` of the budget; with 0 there are none. They are about the fixed point of the
    projected Bellman equation, which is the truth if the features can express it. Where noise might
    hide that A is singular, which the released A tells, no shorter interval would be honest, and
    they are the whole range.
    """

    about: ClassVar[str] = (
        "the fixed point of the projected Bellman equation, "
        "which is the true value only if the features can express it,"
    )
    features: Annotated[Array, FEATURES]
    discount: float = 1.0
    _: KW_ONLY
    return_bound: float = field(kw_only=True)
    visits: Annotated[
        int, Option("number of different states of a user that the norm has room for", at_least=1)
    ] = USUAL_VISITS
    norm: float | None = None
    weights: Annotated[Array | None, WEIGHTS] = None
    centre: Annotated[float | None, CENTRE] = None
    interval_share: Annotated[float, INTERVAL_SHARE] = 0.1

    def __post_init__(self) -> None:
        self._keep_shared()
        keep(self, visits=whole("visits", self.visits), features=numbers("features", self.features))
        if self.weights is not None:
            keep(self, weights=numbers("weights", self.weights))
        if self.norm is not None:
            keep(self, norm=positive("norm", self.norm))
        # This checks the rest.
        self.statistic(self._whitened)

    def identity(self) -> Identity:
        return Identity(
            "lstd",
            1,
            features=self.features,
            discount=self.discount,
            return_bound=self.return_bound,
            visits=self.visits,
            norm=self.norm,
            weights=self.weights,
            centre=self.centre,
            interval_share=self.interval_share,
        )

    def counted(self, trajectories: int, steps: int) -> str:
        radius = self.statistic(self._whitened).bound.radius
        norm = f"a norm of {radius:.3g}"
        if self.norm is None:
            norm += f", as much as {self.visits} different states need in a table"
        rules = [
            f"rewards are clipped to what returns in {self._range} allow",
            first_of_user(trajectories, steps),
            f"a user's steps count while their sum is sure to stay within {norm}",
            rule_for_unknown_states(len(self.features)),
        ]
        return "; ".join(rules)

    @property
    def _whitened(self) -> WhitenedFeatures:
        return whiten_features(self.features, self.weights)

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:  # noqa: ARG002
        features = self._whitened
        shares = self._shares(
            self.statistic(features).bound,
            "steps: sum w x (x - discount x')^T, sum w x y",
            Bands(BANDS, features.table.shape[1]),
        )
        return with_logged_value(shares)

    def answer(self, sums: LogSums) -> ValueEstimate:
        features = self._whitened
        statistic = self.statistic(features)
        answer = sums.release(statistic)
        A, b = statistic.unpack(answer.values)
        s = answer.noise.std
        kappa = statistic.balance
        d = len(b)
        # The variance of each entry of b - A theta, before theta is known.
        prior_variance = s**2 * (1 / kappa**2 + float(np.trace(features.prior)))
        solution = solve(A, b, variance=prior_variance, prior=features.prior)
        theta = solution.theta
        noise = s**2 * (1 / kappa**2 + float(theta @ theta)) * np.eye(d)
        smallest_singular_value = np.linalg.svd(A, compute_uv=False)[-1]
        may_be_singular = smallest_singular_value <= _CLEARLY_REGULAR * 2 * s * math.sqrt(d)
        sampling = self._sampling(sums, statistic, solution)
        logged = release_logged_value(
            sums, self._returns, states=len(self.features), discount=self.discount
        )
        return linear_estimate(
            sums,
            self.identity().kind,
            features,
            solution,
            returns=self._returns,
            noise=noise,
            sampling=sampling,
            released={"A": A, "b": b} | logged,
            whole_range=bool(may_be_singular),
        )

    def statistic(self, features: WhitenedFeatures) -> TemporalSums:
        """What users contribute.

        kappa = 1, because the rewards' part of a contribution is small beside the features'.
        """
        x = np.ascontiguousarray(features.table)
        z = np.ascontiguousarray(x * features.weights[:, None])
        kappa = 1.0
        reach = longest_steps(z, x, discount=self.discount, balance=kappa)
        norm = float(reach.max()) * math.sqrt(self.visits + 1) if self.norm is None else self.norm
        check_radius(norm, reach)
        d = x.shape[1]
        returns = self._returns
        return TemporalSums(
            L2Ball(norm, d * d + d),
            z,
            x,
            reach,
            kappa,
            float(self.discount),
            returns.centre,
            returns.radius,
        )

    def _sampling(self, sums: LogSums, statistic: TemporalSums, solution: Solution) -> Array | None:
        """The covariance [d, d] of b - A theta from drawing users; None without a budget for it."""
        if self.interval_share == 0:
            return None
        d = len(solution.theta)
        gain = residual_gain(statistic.unpack, statistic.bound.size, solution.theta)
        # No residual is longer than the longest row times the gain's norm.
        top = statistic.bound.radius * float(np.linalg.norm(gain, 2))
        bands = ResidualBands(statistic, gain, np.zeros(d), top, Bands(BANDS, d))
        answer = sums.release(bands)
        return bands.sum_filled_bands(answer.values, answer.noise.std)
