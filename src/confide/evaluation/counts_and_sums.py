"""Noisy counts and sums of first-visit returns, then shrinkage: one Gaussian query for all states together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from confide import arguments
from confide.arguments import choice
from confide.errors import InvalidParameter
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.estimator import Estimator
from confide.evaluation.options import CENTRE, FEATURES, Option
from confide.evaluation.parameters import (
    USUAL_VISITS,
    keep_returns,
    nobody,
    numbers,
    real,
    whole,
)
from confide.evaluation.plan import (
    ExpectedError,
    Population,
    checked_spread,
    checked_std,
    rehearsed,
    shares_of,
    shares_or_uniform,
)
from confide.evaluation.shrinkage import Ratios, Shrunk, empirical_bayes, fixed, standardised
from confide.evaluation.two_parts import Returns, release_logged_value, with_logged_value
from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits
from confide.identity import Identity
from confide.mechanisms.additive import least_noise
from confide.mechanisms.counters import Exact
from confide.privacy.bounded import Array
from confide.privacy.request import NoPrivacy, Request
from confide.privatizers import Share
from confide.release.logged_returns import LOGGED_SHARE
from confide.release.parameters import first_of_user, keep
from confide.release.question import check_request
from confide.release.sums import LogSource, LogSums

# Of squared returns in the query, beside returns.
SQUARES = 1.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CountsAndSums(Estimator):
    """The value of every state, from one noisy vector of counts n_s and sums of scaled returns g = (F - centre)/R, R = return_bound/2.

    Guarantee: the whole estimate satisfies `privacy`, for each user with all trajectories up to the log's cap; also for rewards and
    states that make no sense. Everything after the release is post-processing.

    Reference: ours, after [Balle16, Section 2.2]. What is released is linear in the users, so its sensitivity does not depend on how often
    a state is visited, and no smooth bound on it is needed.

    `visits` = K keeps the first K different states of a trajectory (all, if None): noise grows with sqrt(K). Values are about the visits
    that count, which is the same as all visits unless returns from a state depend on when it is reached, as in a log that is cut at a
    horizon. Returns are taken to be in [0, return_bound], or in centre +- return_bound/2, and clipped. `shrink`: "fixed" towards the
    centre, as if values were normal with standard deviation `prior_std` return_bound around it; "empirical-bayes" towards a mean, and
    `components` [states, k] that are public, with weights and spread read off the release. Sums of g^2 are released in the same query, so
    that intervals are narrow where returns vary little: the noise of the counts grows by 15 % (by 4 % if all states count). The value of
    the logged policy is released on its own share of the budget (`LOGGED_SHARE`).
    """

    about: ClassVar[str] = "the expected return from its state, as counted below,"
    states: int
    discount: float = 1.0
    return_bound: float
    visits: Annotated[
        int | None,
        Option(
            "number of different states counted per trajectory",
            at_least=1,
            default="20, or all states",
        ),
    ] = USUAL_VISITS
    shrink: Annotated[str, Option("shrink towards a fixed value (fixed), or empirical-bayes")] = (
        "fixed"
    )
    components: Annotated[Array | None, replace(FEATURES, name="features")] = None
    prior_std: Annotated[
        float,
        Option(
            "prior standard deviation of values around the centre, as a fraction of the return bound"
        ),
    ] = 0.3
    centre: Annotated[float | None, CENTRE] = None

    def __post_init__(self) -> None:
        choice("shrink", self.shrink, ("fixed", "empirical-bayes"))
        if self.shrink == "fixed" and self.components is not None:
            raise InvalidParameter('components are what shrink="empirical-bayes" shrinks to')
        keep_returns(self)
        keep(self, states=whole("states", self.states), prior_std=_prior_std(self.prior_std))
        if self.visits is not None:
            keep(self, visits=whole("visits", self.visits))
        if self.components is not None:
            keep(self, components=numbers("components", self.components))
        self.statistic()
        standardised(self.components, self.states)

    def identity(self) -> Identity:
        return Identity(
            "counts-and-sums",
            2,
            states=self.states,
            discount=self.discount,
            return_bound=self.return_bound,
            visits=self.visits,
            shrink=self.shrink,
            components=self.components,
            prior_std=self.prior_std,
            centre=self.centre,
        )

    def statistic(self, trajectories: int = 1, *, pure: bool = False) -> FirstVisitReturns:
        """What is added up over users. h is the largest that does not raise the L2 sensitivity (see `FirstVisits`); 1 for Laplace noise."""
        arguments.flag("pure", pure)
        K = self.states if self.visits is None else min(self.visits, self.states)
        balance = math.sqrt((3 if self.states == K else 1) - SQUARES**2 / 4)
        bound = FirstVisits(self.states, K, trajectories, 1.0 if pure else balance, SQUARES)
        return FirstVisitReturns(bound, self.discount, self._centre, self.return_bound / 2)

    def counted(self, trajectories: int, steps: int) -> str:
        arguments.whole("steps", steps, at_least=1)
        centre, R = self._centre, self.return_bound / 2
        kept = "all different states of a trajectory count"
        if self.visits is not None and self.visits < min(self.states, steps):
            kept = f"the first {self.visits} different states of a trajectory count, and values and intervals refer to those visits"
        clipped = f"returns are clipped to [{centre - R:g}, {centre + R:g}]"
        return f"{clipped}; {first_of_user(trajectories, steps)}; {kept}; {nobody(self.states)}"

    @property
    def _centre(self) -> float:
        return self.return_bound / 2 if self.centre is None else self.centre

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:
        bound = self._statistic_of(logs, privacy).bound
        return with_logged_value([Share(bound, 1.0, "first visits: counts and sums of returns")])

    @property
    def _returns(self) -> Returns:
        return Returns(self._centre, self.return_bound / 2)

    def _statistic_of(self, logs: LogSource, privacy: Request) -> FirstVisitReturns:
        return self.statistic(getattr(logs, "max_trajectories", 1), pure=is_pure(privacy))

    def answer(self, sums: LogSums) -> ValueEstimate:
        statistic = self._statistic_of(sums.logs, sums.privacy)
        bound = statistic.bound
        released = sums.release(statistic)
        counts, returns, squares = bound.unpack(released.values)
        assert squares is not None
        std = released.noise.std
        ratios = Ratios(counts, returns, squares, std / bound.count_unit, std)
        shrunk = self._shrunk(ratios)
        R = self.return_bound / 2
        public = {
            "counts": counts,
            "sums": returns,
            "count_std": np.full(self.states, ratios.count_std),
            "sum_std": np.full(self.states, ratios.sum_std),
            "sampling_variance": ratios.allowed_sampling_variance(shrunk.values),
            "target": self._centre + R * shrunk.target,
            "squares": squares,
        }
        public |= release_logged_value(
            sums, self._returns, states=self.states, discount=self.discount
        )
        return ValueEstimate(
            values=self._centre + R * shrunk.values,
            noise_std=R * shrunk.noise_std,
            guarantee=released.guarantee,
            certificate=sums.certificate(f"values of {self.states} states"),
            lowest=self._centre - R,
            highest=self._centre + R,
            released=public,
        )

    def _shrunk(self, ratios: Ratios) -> Shrunk:
        spread = 2 * self.prior_std  # in units of R
        if self.shrink == "fixed":
            return fixed(ratios, spread)
        return empirical_bayes(ratios, spread, standardised(self.components, self.states))

    def plan(
        self,
        users: int,
        privacy: Request,
        visit_shares: npt.ArrayLike | None = None,
        *,
        weights: npt.ArrayLike | None = None,
        return_std: npt.ArrayLike | None = None,
        spread: float | None = None,
        trajectories: int = 1,
    ) -> ExpectedError:
        """The error to expect, from public numbers: no data are looked at.

        `visit_shares` [s]: visits per user that count (uniform if None); `weights` [s] of the mean over states; `return_std`: how much
        returns of one state vary (the most that the clip allows, if None); `spread`: how far values are from what they are shrunk to, the
        centre or their mean (prior_std return_bound, if None). The estimator's own code is run on made-up releases of users like that.
        """
        users, trajectories = whole("users", users), whole("trajectories", trajectories)
        check_request(privacy)
        bound, R, prior = (
            self.statistic(trajectories, pure=is_pure(privacy)).bound,
            self.return_bound / 2,
            2 * self.prior_std,
        )
        shares, known = shares_or_uniform(visit_shares, self.states, bound.visits, trajectories)
        spread_g = prior if spread is None else checked_spread(spread, self.return_bound) / R
        vary = (
            None
            if return_std is None
            else checked_std(return_std, self.states, self.return_bound) / R
        )
        around = (
            spread_g if self.shrink == "fixed" else max(prior, spread_g)
        )  # a mean that values share matters if it is estimated
        population = Population(users * shares, vary, around, spread_g)
        # A part of the budget is for the value of the logged policy. Pure losses add up as they are.
        left = 1 - LOGGED_SHARE
        std = _noise_std(bound, privacy) / (left if is_pure(privacy) else math.sqrt(left))
        per_state, rmse, sampling = rehearsed(
            population, self._shrunk, (std / bound.count_unit, std), shares_of(weights, self.states)
        )
        assumed = (
            known,
            "returns have the largest variance that their range allows"
            if return_std is None
            else "returns vary as given",
            f"values are about {R * spread_g:.3g} from what they are shrunk to",
        )
        return ExpectedError(users, privacy, std, R * per_state, R * rmse, R * sampling, assumed)


def _prior_std(value: float) -> float:
    return real("prior_std", value, "positive, in units of return_bound", 1e-6, 1e6)


def is_pure(privacy: Request) -> bool:
    """Whether the request needs Laplace noise."""
    return privacy.delta == 0 and not isinstance(privacy, NoPrivacy)


def _noise_std(bound: FirstVisits, privacy: Request) -> float:
    return (
        0.0
        if isinstance(privacy, NoPrivacy)
        else least_noise(bound, privacy, Exact(1), discrete=False, users=1).std
    )
