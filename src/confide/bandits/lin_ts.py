"""Thompson sampling for contextual linear bandits, on discounted releases. Privacy is proved, regret is measured."""

from dataclasses import dataclass, replace
from typing import Any

from confide.bandits.belief_planning import (
    believe,
    combined,
    mean_visits,
    optimistic_round,
    random_round,
    recall_releases,
    sampled_round,
)
from confide.bandits.contributions import PlayedContexts
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.arguments import check_asked, check_choices, choose_schedule
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.planners.public_round import PublicRound
from confide.privacy.bounded import Released
from confide.privacy.request import Request
from confide.privatizers import Schedule, counter_of_rates, geometric
from confide.problems.bandit import CENTRE, LinearBanditPublic
from confide.problems.sizes import ProblemSizes
from confide.statistics.bounds import RegressionRows

POLICIES = 16  # per round
# users of the first round, and growth of their number from release to release
FIRST, GROWTH = 50, 1.3
# Of the estimate of planning time: one multiplication in a product of matrices, by `benchmarks/memory.py`.
SECONDS_PER_PRODUCT = 2e-9
BALANCE = 2.0  # kappa: of x y against x x^T
# standard deviations of the belief: around which samples lie, and that a bonus adds
SAMPLED, ADDED = 0.2, 0.3


@dataclass(frozen=True, slots=True, eq=False)
class BanditPlanning:
    """Between two releases: a belief about the weights, and policies from it, by samples or by a bonus."""

    public: LinearBanditPublic
    bound: RegressionRows
    ratio: float  # of the releases; 0: rounds are differences of releases
    samples: bool
    spread: float  # in standard deviations of the belief

    def plan(self, released: Released) -> Round:
        planned = self._plan_publicly(released)
        statistic = PlayedContexts(self.bound, self.public.actions)
        return Round(planned.policies, statistic, planned.memory, planned.signal)

    def _plan_publicly(self, released: Released) -> PublicRound:
        dimension, generation = self.public.dimension, released.generation
        history = recall_releases(released, differences=self.ratio == 0)
        if generation == 0:
            return random_round(history, generation, dimension=dimension, policies=POLICIES)
        sums, noise = combined(history, self.ratio, 1 / dimension)
        (gram,), (responses,) = self.bound.unpack(sums)
        belief = believe(gram, responses, noise=noise, balance=self.bound.balance)
        signal = mean_visits(gram)
        if not self.samples:
            return optimistic_round(history, belief, signal=signal, spread=self.spread)
        return sampled_round(
            history, generation, belief, signal=signal, spread=self.spread, policies=POLICIES
        )

    def describe(self) -> Description:
        how = (
            f"{POLICIES - 1} samples within {self.spread:g} x its standard deviation, and its mean"
        )
        if not self.samples:
            how = f"its mean, with a bonus of {self.spread:g} x the standard error"
        return Description(
            "tight", f"a belief about the weights from all releases: {how}", self.bound.rows
        )


def check_bandit(public: Any, name: str) -> None:
    if not isinstance(public, LinearBanditPublic):
        raise InvalidParameter(
            f"{name} needs a contextual bandit (LinearBandit.public), got {type(public).__name__}"
        )


def tight(
    public: LinearBanditPublic,
    *,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None,
    samples: bool,
    spread: float,
) -> Calibration:
    """One query per user, on discounted releases at geometric times."""
    chosen = choose_schedule(schedule, geometric(episodes, first=FIRST, ratio=GROWTH))
    counter, ratio = counter_of_rates(chosen, privacy)
    if ratio is None:
        raise InvalidParameter(
            f"all releases are looked at together, and {chosen.leaves} are too many: choose fewer"
        )
    bound = RegressionRows(1, public.dimension, 1.0, CENTRE, BALANCE)
    return Calibration(BanditPlanning(public, bound, ratio, samples, spread), chosen, counter)


def bandit_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None = None,
    copies_of_contexts: float = 0.6,
    **options: Any,  # noqa: ARG001 - they change nothing
) -> Footprint:
    """`copies_of_contexts` are made of the contexts of the whole population, when the value of a policy is computed."""
    chosen = choose_schedule(schedule, geometric(episodes, first=FIRST, ratio=GROWTH))
    counter, _ = counter_of_rates(chosen, privacy)
    matrix = sizes.dimension**2
    released = matrix // 2 + 2 * sizes.dimension
    contexts = sizes.population * sizes.actions * sizes.dimension
    numbers = (20 + chosen.leaves) * matrix + copies_of_contexts * contexts
    seconds = 0.01 + SECONDS_PER_PRODUCT * sizes.dimension * matrix
    return Footprint(released, numbers, seconds, chosen, counter)


class LinTS(Learner):
    """Thompson sampling: each user gets the best of its own actions for weights that were drawn from the current belief.

    Guarantee: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, contexts, action and reward together, by one query per user
    (`PlayedContexts`); delta = 0 gives the K-norm or Laplace mechanism. Policies are functions of releases and of a public seed; which
    action they choose for a user depends on that user's own contexts, and is seen by that user alone. PRIVACY IS PROVED; REGRET IS
    MEASURED (docs/bandits.md), not proved.

    `bonus_scale` is the spread of the samples in standard deviations of the belief (0.2; 0 plays the mean).
    """

    name = "lin-ts"
    profile = Profile(
        "posterior sampling on private sums of contexts and rewards",
        family="linear bandit",
        paper="confide",
    )
    # contexts are real numbers: there is nothing to count
    abilities = replace(Learner.abilities, counts=False)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return bandit_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: LinearBanditPublic,
        *,
        episodes: int,
        privacy: Request,
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        check_bandit(public, self.name)
        check_asked(episodes, privacy)
        check_choices("tight", bonus_scale)
        spread = SAMPLED if bonus_scale is None else float(bonus_scale)
        made = tight(
            public,
            episodes=episodes,
            privacy=privacy,
            schedule=schedule,
            samples=True,
            spread=spread,
        )
        identity = Identity(self.name, 1, public=public, spread=spread)
        super().__init__(made, privacy=privacy, identity=identity, noise=noise)
