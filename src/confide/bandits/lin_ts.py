"""LinTS: Thompson sampling for contextual linear bandits, on discounted releases.

This file joins the private side (`contributions`) and the public side (`belief_planning`). `LinUCB`
in the tight form uses the same parts. Names and versions of identities are part of ledger ids,
saved states and messages. Privacy is proved, in `RegressionRows`. Regret is measured, on
docs/agents/bandits.md.
"""

from dataclasses import dataclass, replace
from typing import Any

from confide.bandits.belief_planning import (
    combine_releases,
    estimate_belief,
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
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.planners.public_round import PublicRound
from confide.privacy.bounded import Released
from confide.privacy.request import Request
from confide.privatizers import Schedule, counter_of_rates, geometric
from confide.problems.bandit import CENTRE, LinearBanditPublic
from confide.problems.sizes import ProblemSizes
from confide.statistics.bounds import RegressionRows

# The following constants were chosen by measurement on the instances of
# benchmarks/results/bandits.md. Privacy does not depend on them.

# Policies per round: samples of the belief, and its mean.
POLICIES = 16
# The default schedule: the users of the first round, and the factor by which the number of all
# users grows from release to release.
FIRST_ROUND = 50
GROWTH = 1.3
# kappa, the factor of x y against x x^T in the released sums.
BALANCE = 2.0
# `LinTS` draws samples around the mean with this multiple of the belief's standard deviation.
SAMPLE_SPREAD = 0.2
# `LinUCB` adds a bonus of so many standard errors.
BONUS_SPREAD = 0.3

# The time of one multiplication in a product of matrices, measured by `benchmarks/memory.py`.
SECONDS_PER_PRODUCT = 2e-9


@dataclass(frozen=True, slots=True, eq=False)
class BanditPlanning:
    """Plans a round from the belief about the weights.

    The round has policies for samples of the belief, or one policy with a bonus.
    """

    public: LinearBanditPublic
    bound: RegressionRows
    # The factor by which the counter discounts a round from release to release. Zero means that
    # rounds are differences of releases.
    discount_ratio: float
    # Whether policies come from samples (`LinTS`). Otherwise there is one with a bonus (`LinUCB`).
    samples: bool
    # How far samples or the bonus reach, in standard deviations of the belief.
    spread: float

    def plan(self, released: Released) -> Round:
        public = self._plan_publicly(released)
        statistic = PlayedContexts(self.bound, self.public.actions)
        return Round(public.policies, statistic, public.memory, public.signal)

    def _plan_publicly(self, released: Released) -> PublicRound:
        dimension = self.public.dimension
        generation = released.generation
        history = recall_releases(released, differences=self.discount_ratio == 0)
        if generation == 0:
            return random_round(history, generation, dimension=dimension, policies=POLICIES)
        # A context has norm at most one, so one of its numbers has a variance of about 1 / d.
        sums, noise = combine_releases(history, self.discount_ratio, 1 / dimension)
        (gram,), (responses,) = self.bound.unpack(sums)
        belief = estimate_belief(gram, responses, noise=noise, balance=self.bound.balance)
        signal = mean_visits(gram)
        if not self.samples:
            return optimistic_round(history, belief, signal=signal, spread=self.spread)
        return sampled_round(
            history, generation, belief, signal=signal, spread=self.spread, policies=POLICIES
        )

    def describe(self) -> Description:
        policies = (
            f"{POLICIES - 1} samples within {self.spread:g} x its standard deviation, and its mean"
        )
        if not self.samples:
            policies = f"its mean, with a bonus of {self.spread:g} x the standard error"
        planning = f"a belief about the weights from all releases: {policies}"
        return Description("tight", planning, self.bound.rows)


def default_schedule(episodes: int) -> Schedule:
    return geometric(episodes, first=FIRST_ROUND, ratio=GROWTH)


def check_bandit(public: Any, name: str) -> None:
    if not isinstance(public, LinearBanditPublic):
        raise InvalidParameter(
            "public must be the public part of a contextual bandit (LinearBandit.public), "
            f"got {type(public).__name__} for {name}"
        )


def calibrate_tight(
    public: LinearBanditPublic,
    *,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None,
    samples: bool,
    spread: float,
) -> Calibration:
    """Return one query per user, on discounted releases at geometric times."""
    chosen = choose_schedule(schedule, default_schedule(episodes))
    counter, discount_ratio = counter_of_rates(chosen, privacy)
    if discount_ratio is None:
        raise InvalidParameter(
            f"schedule must have fewer releases, got {chosen.leaves}: "
            "this agent looks at all releases together"
        )
    bound = RegressionRows(1, public.dimension, 1.0, CENTRE, BALANCE)
    planning = BanditPlanning(public, bound, discount_ratio, samples, spread)
    return Calibration(planning, chosen, counter)


def bandit_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None = None,
    copies_of_contexts: float = 0.6,
    **options: Any,  # noqa: ARG001 - other options change nothing here
) -> Footprint:
    """Return the memory and the planning time of the agents for bandits.

    When the value of a policy is computed, `copies_of_contexts` are made of the contexts of the
    whole population.
    """
    chosen = choose_schedule(schedule, default_schedule(episodes))
    counter, _ = counter_of_rates(chosen, privacy)
    matrix_entries = sizes.dimension**2
    released = matrix_entries // 2 + 2 * sizes.dimension
    context_numbers = sizes.population * sizes.actions * sizes.dimension
    numbers = (20 + chosen.leaves) * matrix_entries + copies_of_contexts * context_numbers
    seconds = 0.01 + SECONDS_PER_PRODUCT * sizes.dimension * matrix_entries
    return Footprint(released, numbers, seconds, chosen, counter)


class LinTS(Learner):
    """Thompson sampling: each user gets the best action for weights drawn from the current belief.

    Guarantee: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, by one query per user
    (`PlayedContexts`). It protects contexts, action and reward together. With delta = 0 the noise
    comes from the K-norm or the Laplace mechanism. Policies are functions of releases and of a
    public seed. Which action a policy chooses for a user depends on that user's own contexts, and
    only that user sees it. Privacy is proved. Regret is measured (docs/agents/bandits.md), not
    proved.

    `bonus_scale` is the spread of the samples in standard deviations of the belief. The default is
    0.2, and 0 plays the mean.
    """

    name = "lin-ts"
    profile = Profile(
        "posterior sampling on private sums of contexts and rewards",
        family="linear bandit",
        paper="confide",
    )
    # Contexts are real numbers, so there are no states to count.
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
        check_episodes_and_privacy(episodes, privacy)
        check_choices("tight", bonus_scale)
        spread = SAMPLE_SPREAD if bonus_scale is None else float(bonus_scale)
        calibrated = calibrate_tight(
            public,
            episodes=episodes,
            privacy=privacy,
            schedule=schedule,
            samples=True,
            spread=spread,
        )
        identity = Identity(self.name, 1, public=public, spread=spread)
        super().__init__(calibrated, privacy=privacy, identity=identity, noise=noise)
