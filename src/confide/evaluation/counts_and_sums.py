"""Noisy counts and sums of first-visit returns, then shrinkage: one Gaussian query for all states.

`identity()` names the release in a ledger, and texts of queries are in certificates. What may be
changed freely is everything after `sums.release`: it is post-processing.
"""

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
    numbers,
    real,
    rule_for_unknown_states,
    whole,
)
from confide.evaluation.plan import (
    ExpectedError,
    Population,
    check_return_std,
    check_spread,
    simulate_errors,
    visit_shares_or_uniform,
    weights_or_uniform,
)
from confide.evaluation.shrinkage import (
    Ratios,
    Shrunk,
    empirical_bayes,
    shrink_to_centre,
    standardise,
)
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

# The scale of squared returns in the query, beside returns. A matter of taste: with 1 the noise of
# the counts grows by 15 %, or by 4 % if all states count.
SQUARES_SCALE = 1.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class CountsAndSums(Estimator):
    """The value of every state, from one noisy vector of counts and sums of scaled returns.

    The sums are of g = (F - centre)/R over first visits, where F is the return and R =
    return_bound/2.

    Guarantee: the whole estimate satisfies `privacy`, for each user with all trajectories up to the
    log's cap, also for rewards and states that make no sense. Everything after the release is
    post-processing.

    Reference: ours, after [Balle16, Section 2.2]. What is released is linear in the users, so its
    sensitivity does not depend on how often a state is visited, and no smooth bound on it is
    needed.

    - `visits` = K keeps the first K different states of a trajectory (all, if None): noise grows
      with sqrt(K). Values are about the visits that count. This is the same as all visits unless
      returns from a state depend on when it is reached, as in a log that is cut at a horizon.
    - Returns are taken to be in [0, return_bound], or in centre +- return_bound/2, and are clipped.
    - `shrink`: "fixed" shrinks towards the centre, as if values were normal around it with standard
      deviation `prior_std` return_bound. "empirical-bayes" shrinks towards a mean and public
      `components` [states, k], whose weights and spread are read off the release.

    Sums of g^2 are released in the same query, so that intervals are narrow where returns vary
    little. The value of the logged policy is released on its own share of the budget
    (`LOGGED_SHARE`).
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
            "prior standard deviation of values around the centre, "
            "as a fraction of the return bound"
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
        standardise(self.components, self.states)

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
        """What is added up over users. `pure` asks for the scales that suit Laplace noise.

        The scale h of the counts is the largest that does not raise the L2 sensitivity (see
        `FirstVisits`). For Laplace noise it is 1.
        """
        arguments.flag("pure", pure)
        K = self.states if self.visits is None else min(self.visits, self.states)
        count_scale = math.sqrt((3 if self.states == K else 1) - SQUARES_SCALE**2 / 4)
        if pure:
            count_scale = 1.0
        bound = FirstVisits(self.states, K, trajectories, count_scale, SQUARES_SCALE)
        return FirstVisitReturns(bound, self.discount, self._centre, self.return_bound / 2)

    def counted(self, trajectories: int, steps: int) -> str:
        arguments.whole("steps", steps, at_least=1)
        centre = self._centre
        R = self.return_bound / 2
        if self.visits is not None and self.visits < min(self.states, steps):
            visits = (
                f"the first {self.visits} different states of a trajectory count, "
                "and values and intervals refer to those visits"
            )
        else:
            visits = "all different states of a trajectory count"
        rules = [
            f"returns are clipped to [{centre - R:g}, {centre + R:g}]",
            first_of_user(trajectories, steps),
            visits,
            rule_for_unknown_states(self.states),
        ]
        return "; ".join(rules)

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
        # The bound has squares, because `SQUARES_SCALE` is positive.
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
        # In units of R.
        spread = 2 * self.prior_std
        if self.shrink == "fixed":
            return shrink_to_centre(ratios, spread)
        return empirical_bayes(ratios, spread, standardise(self.components, self.states))

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
        """The error to expect, from public numbers. No data are read.

        The estimator's own code is run on simulated releases of users with these properties:

        - `visit_shares` [s]: visits per user that count (uniform if None).
        - `weights` [s]: of the mean over states (equal if None).
        - `return_std`: how much returns of one state vary (the most that the clip allows, if None).
        - `spread`: how far values are from what they are shrunk to, the centre or their mean
          (prior_std return_bound, if None).
        """
        users = whole("users", users)
        trajectories = whole("trajectories", trajectories)
        check_request(privacy)
        bound = self.statistic(trajectories, pure=is_pure(privacy)).bound
        shares, about_shares = visit_shares_or_uniform(
            visit_shares, self.states, bound.visits, trajectories
        )
        # From here on in units of R.
        R = self.return_bound / 2
        prior = 2 * self.prior_std
        scaled_spread = prior if spread is None else check_spread(spread, self.return_bound) / R
        if return_std is None:
            scaled_std = None
            about_std = "returns have the largest variance that their range allows"
        else:
            scaled_std = check_return_std(return_std, self.states, self.return_bound) / R
            about_std = "returns vary as given"
        # A mean that values share matters only if it is estimated.
        root_mean_square = scaled_spread if self.shrink == "fixed" else max(prior, scaled_spread)
        population = Population(users * shares, scaled_std, root_mean_square, scaled_spread)
        std = _planned_noise_std(bound, privacy)
        errors = simulate_errors(
            population,
            self._shrunk,
            std / bound.count_unit,
            std,
            weights_or_uniform(weights, self.states),
        )
        about_spread = f"values are about {R * scaled_spread:.3g} from what they are shrunk to"
        return ExpectedError(
            users,
            privacy,
            noise_scale=std,
            state_rmse=R * errors.state_rmse,
            rmse=R * errors.rmse,
            sampling=R * errors.sampling,
            assumptions=(about_shares, about_std, about_spread),
        )


def _prior_std(value: float) -> float:
    return real("prior_std", value, "positive, in units of return_bound", 1e-6, 1e6)


def is_pure(privacy: Request) -> bool:
    """Whether the request needs Laplace noise."""
    return privacy.delta == 0 and not isinstance(privacy, NoPrivacy)


def _planned_noise_std(bound: FirstVisits, privacy: Request) -> float:
    """The standard deviation of the noise on the values of states, on their share of the budget."""
    if isinstance(privacy, NoPrivacy):
        return 0.0
    whole_budget = least_noise(bound, privacy, Exact(1), discrete=False, users=1).std
    # The rest is for the value of the logged policy. Pure losses add up as they are.
    share = 1 - LOGGED_SHARE
    return whole_budget / (share if is_pure(privacy) else math.sqrt(share))
