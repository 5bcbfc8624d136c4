"""Linear policy evaluation from the noisy sufficient statistics of a regression.

The regression is that of first-visit returns on public features.

`identity()` names the release in a ledger, and texts of queries are in certificates. What may be
changed freely is everything after `sums.release`: it is post-processing.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from confide.evaluation.contributions import Bands, ResidualBands
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.linear_values import (
    Solution,
    WhitenedFeatures,
    linear_estimate,
    positive_part,
    residual_gain,
    solve,
    whiten_features,
)
from confide.evaluation.options import CENTRE, FEATURES, INTERVAL_SHARE, WEIGHTS, Option
from confide.evaluation.parameters import USUAL_VISITS, numbers, rule_for_unknown_states, whole
from confide.evaluation.row_contributions import VisitRows, VisitSums, visit_rows
from confide.evaluation.two_parts import (
    BANDS,
    TwoReleases,
    release_logged_value,
    with_logged_value,
)
from confide.identity import Identity
from confide.privacy.bounded import Array
from confide.privacy.request import Relation, Request
from confide.privatizers import Share
from confide.release.parameters import first_of_user, keep
from confide.release.sums import LogSource, LogSums

# Scales kappa of b beside A that are tried. A matter of taste: any of them is private.
_BALANCES = tuple(2.0 ** (k / 2) for k in range(-4, 7))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SufficientStatistics(TwoReleases):
    """V(s) = c + R x_s.theta, with theta from sums over users' first visits.

    The sums are A = sum w x x^T and b = sum w x g, where g = (F - c)/R.

    Guarantee: central, one user (all trajectories of one person), replaced or contributing zero;
    exact sums, one noisy release of (A, b) and one of residuals, on one budget.

    `features` [s, d] of finitely many states and `weights` [s] are public, and so is the range of
    returns, [0, return_bound] or centre +- return_bound/2. Of a user the first `visits` different
    states count. A user's contribution is bounded as a whole (`VisitRows`): the noise of A is GOE.
    Entries of A that are zero for every state of the table are known to be, and keep no noise.

    Reference: [Balle16] perturbs the solution of this regression (DP-LSW, DP-LSL); this perturbs
    its statistics.

    Departures: theta is the posterior mean under a prior on values (`WhitenedFeatures`), which
    shrinks less than a ridge of the noise's size where the data are clear, and to the range's
    middle, or a common level, where they are not.

    Intervals add up the noise, what the prior may have shrunk, and the sampling error: a sandwich
    with one cluster per user from released second moments of residuals, on `interval_share` of the
    budget; with 0 there are none. They are about the best linear fit, which is the truth if the
    features can express it.
    """

    about: ClassVar[str] = (
        "the value in the best linear fit, "
        "which is the true value only if the features can express it,"
    )
    features: Annotated[Array, FEATURES]
    discount: float = 1.0
    _: KW_ONLY
    return_bound: float = field(kw_only=True)
    visits: Annotated[int, Option("number of different states counted per user", at_least=1)] = (
        USUAL_VISITS
    )
    weights: Annotated[Array | None, WEIGHTS] = None
    centre: Annotated[float | None, CENTRE] = None
    interval_share: Annotated[float, INTERVAL_SHARE] = 0.1

    def __post_init__(self) -> None:
        self._keep_shared()
        keep(self, visits=whole("visits", self.visits), features=numbers("features", self.features))
        if self.weights is not None:
            keep(self, weights=numbers("weights", self.weights))
        # This checks both.
        whiten_features(self.features, self.weights)

    def identity(self) -> Identity:
        return Identity(
            "sufficient-statistics",
            1,
            features=self.features,
            discount=self.discount,
            return_bound=self.return_bound,
            visits=self.visits,
            weights=self.weights,
            centre=self.centre,
            interval_share=self.interval_share,
        )

    def counted(self, trajectories: int, steps: int) -> str:
        states = len(self.features)
        visits = "all different states of a user count, once each"
        if self.visits < min(states, trajectories * steps):
            visits = (
                f"the first {self.visits} different states of a user count, once each, "
                "and values and intervals refer to those visits"
            )
        rules = [
            f"returns are clipped to {self._range}",
            first_of_user(trajectories, steps),
            visits,
            rule_for_unknown_states(states),
        ]
        return "; ".join(rules)

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:  # noqa: ARG002
        features = whiten_features(self.features, self.weights)
        shares = self._shares(
            self.statistic(features, Relation(privacy.relation)).bound,
            "first visits: sum w x x^T, sum w x g",
            Bands(BANDS, features.table.shape[1]),
        )
        return with_logged_value(shares)

    def answer(self, sums: LogSums) -> ValueEstimate:
        features = whiten_features(self.features, self.weights)
        statistic = self.statistic(features, Relation(sums.privacy.relation))
        bound = statistic.bound
        answer = sums.release(statistic)
        A, b = bound.unpack(answer.values)
        d = len(b)
        s = answer.noise.std
        kappa = bound.balance
        possible = _possible_entries(statistic.table)
        A = positive_part(np.where(possible, A, 0.0))
        # The variance of each entry of b - A theta, before theta is known.
        prior_noise = _noise_of_product(features.prior, possible)
        prior_variance = s**2 * (1 / kappa**2 + float(np.trace(prior_noise)) / d)
        solution = solve(A, b, variance=prior_variance, prior=features.prior)
        theta = solution.theta
        product_noise = _noise_of_product(np.outer(theta, theta), possible)
        noise: Array = s**2 * (np.eye(d) / kappa**2 + product_noise)
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
        )

    def statistic(self, features: WhitenedFeatures, relation: Relation) -> VisitSums:
        """What users contribute.

        The balance of A and b is the one that leaves the least noise in theta under the prior.
        """
        root = np.sqrt(features.weights)
        table = np.ascontiguousarray(features.table * root[:, None])
        prior_noise = _noise_of_product(features.prior, _possible_entries(table))
        noise_per_entry = float(np.trace(prior_noise)) / table.shape[1]

        def noise_in_theta(bound: VisitRows) -> float:
            of_both: float = 1 / bound.balance**2 + noise_per_entry
            return bound.sensitivity(relation) ** 2 * of_both

        bounds = (visit_rows(table, root, self.visits, balance) for balance in _BALANCES)
        returns = self._returns
        return VisitSums(
            min(bounds, key=noise_in_theta),
            table,
            root,
            self.visits,
            float(self.discount),
            returns.centre,
            returns.radius,
        )

    def _sampling(self, sums: LogSums, statistic: VisitSums, solution: Solution) -> Array | None:
        """The covariance [d, d] of b - A theta from drawing users; None without a budget for it."""
        if self.interval_share == 0:
            return None
        bound = statistic.bound
        theta = solution.theta
        d = len(theta)
        gain = residual_gain(bound.unpack, bound.size, theta)
        # The longest residual of a visit to each state [s], and of a user with the longest visits.
        largest_error = statistic.scales + np.abs(statistic.table @ theta)
        of_a_visit = np.linalg.norm(statistic.table, axis=1) * largest_error
        top = float(np.sort(of_a_visit)[-self.visits :].sum())
        bands = ResidualBands(statistic, gain, np.zeros(d), top, Bands(BANDS, d))
        answer = sums.release(bands)
        return bands.sum_filled_bands(answer.values, answer.noise.std)


def _possible_entries(table: Array) -> npt.NDArray[np.bool_]:
    """Which entries of A [d, d] may be other than zero. The others are released as noise alone."""
    possible: npt.NDArray[np.bool_] = np.abs(table).T @ np.abs(table) > 0
    return possible


def _noise_of_product(second: Array, possible: npt.NDArray[np.bool_]) -> Array:
    """E[N theta theta^T N], N unit GOE noise on the possible entries, E[theta theta^T] = second."""
    variances = possible * np.diag(second)[None, :]
    expected: Array = (np.diag(variances.sum(axis=1)) + possible * second) / 2
    return expected
