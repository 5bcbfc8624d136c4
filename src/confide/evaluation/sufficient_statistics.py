"""Linear policy evaluation from the noisy sufficient statistics of a regression on first-visit returns."""

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
    coordinates,
    estimate_of,
    positive_part,
    residual_gain,
    solve,
)
from confide.evaluation.options import CENTRE, FEATURES, INTERVAL_SHARE, WEIGHTS, Option
from confide.evaluation.parameters import USUAL_VISITS, nobody, numbers, whole
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

_BALANCES = tuple(2.0 ** (k / 2) for k in range(-4, 7))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SufficientStatistics(TwoReleases):
    """V(s) = c + R x_s.theta, theta from A = sum w x x^T and b = sum w x g over users' first visits, g = (F - c)/R.

    Guarantee: central, one user (all trajectories of one person), replaced or contributing zero; exact sums, one noisy release of (A, b)
    and one of residuals, on one budget.

    `features` [s, d] of finitely many states and `weights` [s] are public, and so is the range of returns, [0, return_bound] or
    centre +- return_bound/2. Of a user the first `visits` different states count. A user's contribution is bounded as a whole
    (`VisitRows`): the noise of A is GOE; entries of A that are zero for every state of the table are known to be, and keep no noise.

    Reference: [Balle16] perturbs the solution of this regression (DP-LSW, DP-LSL); this perturbs its statistics.
    Departures: theta is the posterior mean under a prior on values (`WhitenedFeatures`), which shrinks less than a ridge of the
    noise's size where the data are clear, and to the range's middle, or a common level, where they are not.

    Intervals add up the noise, what the prior may have shrunk, and the sampling error: a sandwich with one cluster per user from released
    second moments of residuals, on `interval_share` of the budget; with 0 there are none. They are about the best linear fit, which is the
    truth if the features can express it.
    """

    about: ClassVar[str] = (
        "the value in the best linear fit, which is the true value only if the features can express it,"
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
        coordinates(self.features, self.weights)  # checks both

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
        kept = "all different states of a user count, once each"
        if self.visits < min(states, trajectories * steps):
            kept = f"the first {self.visits} different states of a user count, once each, and values and intervals refer to those visits"
        return f"returns are clipped to {self._range}; {first_of_user(trajectories, steps)}; {kept}; {nobody(states)}"

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:  # noqa: ARG002
        where = coordinates(self.features, self.weights)
        shares = self._shares(
            self.statistic(where, Relation(privacy.relation)).bound,
            "first visits: sum w x x^T, sum w x g",
            Bands(BANDS, where.table.shape[1]),
        )
        return with_logged_value(shares)

    def answer(self, sums: LogSums) -> ValueEstimate:
        where = coordinates(self.features, self.weights)
        statistic = self.statistic(where, Relation(sums.privacy.relation))
        bound = statistic.bound
        answer = sums.release(statistic)
        A, b = bound.unpack(answer.values)
        # elsewhere A is zero, and the noise on it is known
        possible = np.abs(statistic.table).T @ np.abs(statistic.table) > 0
        s, kappa = answer.noise.std, bound.balance
        A = positive_part(np.where(possible, A, 0.0))
        prior_noise = _noise_of_product(where.prior, possible)
        solution = solve(
            A,
            b,
            variance=s**2 * (1 / kappa**2 + float(np.trace(prior_noise)) / len(b)),
            prior=where.prior,
        )
        theta = solution.theta
        noise: Array = s**2 * (
            np.eye(len(b)) / kappa**2 + _noise_of_product(np.outer(theta, theta), possible)
        )
        sampling = self._sampling(sums, statistic, solution)
        logged = release_logged_value(
            sums, self._returns, states=len(self.features), discount=self.discount
        )
        return estimate_of(
            sums,
            self.identity().kind,
            where,
            solution,
            returns=self._returns,
            noise=noise,
            sampling=sampling,
            released={"A": A, "b": b} | logged,
        )

    def statistic(self, where: WhitenedFeatures, relation: Relation) -> VisitSums:
        """What users contribute, with the balance of A and b that leaves the least noise in theta under the prior."""
        root = np.sqrt(where.weights)
        table = np.ascontiguousarray(where.table * root[:, None])
        possible = np.abs(table).T @ np.abs(table) > 0
        per_entry = float(np.trace(_noise_of_product(where.prior, possible))) / table.shape[1]

        def error(bound: VisitRows) -> float:
            worst: float = bound.sensitivity(relation) ** 2 * (1 / bound.balance**2 + per_entry)
            return worst

        bound = min(
            (visit_rows(table, root, self.visits, balance) for balance in _BALANCES), key=error
        )
        returns = self._returns
        return VisitSums(
            bound, table, root, self.visits, float(self.discount), returns.centre, returns.radius
        )

    def _sampling(self, sums: LogSums, statistic: VisitSums, solution: Solution) -> Array | None:
        if self.interval_share == 0:
            return None
        bound, theta = statistic.bound, solution.theta
        d, gain = len(theta), residual_gain(bound.unpack, bound.size, theta)
        longest = np.linalg.norm(statistic.table, axis=1) * (
            statistic.scales + np.abs(statistic.table @ theta)
        )
        top = float(np.sort(longest)[-self.visits :].sum())
        bands = ResidualBands(statistic, gain, np.zeros(d), top, Bands(BANDS, d))
        answer = sums.release(bands)
        return bands.assembled(answer.values, answer.noise.std)


def _noise_of_product(second: Array, possible: npt.NDArray[np.bool_]) -> Array:
    """E[N theta theta^T N] for unit GOE noise N on the possible entries and E[theta theta^T] = second."""
    spread = possible * np.diag(second)[None, :]
    result: Array = (np.diag(spread.sum(axis=1)) + possible * second) / 2
    return result
