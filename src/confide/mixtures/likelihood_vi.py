"""LikelihoodVI: our own agent for mixtures of known kernels, on sums of likelihood codes.

This file joins the private side (`code_contributions`) and the public side (`sampling_planning`)
under the agent's name. The name and the version of its identity are part of ledger ids, saved
states and messages. Privacy is proved, in `TableRows`. Regret is measured
(docs/agents/mixtures.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.mixtures.code_contributions import TableRows, TransitionSums
from confide.mixtures.code_features import best_codes, mean_codes
from confide.mixtures.explorer_planning import EXPLORERS_IN_WORDS
from confide.mixtures.footprint import likelihood_footprint
from confide.mixtures.likelihood_memory import CodeSizes
from confide.mixtures.requirements import require_mixture, require_simplex
from confide.mixtures.sampling_planning import (
    POLICIES,
    LikelihoodProblem,
    plan_round,
    value_policies,
)
from confide.mixtures.value_features import by_transition, reduced, sparse, value_steps
from confide.planners.policy_value import PlayedRound, RoundValues
from confide.privacy.bounded import Released
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule, counter_of_rates, geometric
from confide.problems.linear_mixture import LinearMixturePublic
from confide.problems.sizes import ProblemSizes

# The spread of posterior samples, in their standard deviations. Chosen for a small regret.
SPREAD = 0.35


@dataclass(frozen=True, slots=True, eq=False)
class PosteriorSampling:
    """Plans a round from a release, and says what its users contribute."""

    problem: LikelihoodProblem
    statistic: TransitionSums

    @property
    def bound(self) -> TableRows:
        return self.statistic.bound

    def plan(self, released: Released) -> Round:
        public = plan_round(self.problem, released)
        return Round(public.policies, self.statistic, public.memory, public.signal, public.shares)

    def valued(self, released: Released, played: Sequence[PlayedRound]) -> RoundValues:
        """The values of the policies of all rounds, the open one last, in this release's model."""
        return value_policies(self.problem, released, played)

    def describe(self) -> Description:
        return Description(
            "tight",
            "policies for weights drawn from the posterior, "
            f"{self.problem.spread:g} x its standard deviation; {EXPLORERS_IN_WORDS}",
        )


class LikelihoodVI(Learner):
    """Value iteration on mixture weights that are learned from sums of likelihood codes.

    Guarantee: joint DP (`JointDP`), local DP (`LocalDP`) or distributed DP (`DistributedDP`) for
    every user, by one query per user: the public code of each of the user's transitions
    (`mixtures/code_features.py`), all steps together. With delta = 0 the noise is Laplace noise.
    Policies are functions of releases and of a public seed. PRIVACY IS PROVED; REGRET IS MEASURED
    (docs/agents/mixtures.md), not proved: there is no regret theorem for this agent.

    Why it beats value-targeted regression at the same guarantee: a user sends d numbers per step,
    not d^2. And the code looks at all that a transition says about the kernels, not only at the
    value of the next state. Nothing about visits is released: they are predicted from the public
    policies, the start distribution and the estimates for earlier steps.

    `bonus_scale` is the spread of the posterior samples in their standard deviations (0.35). The
    users of a round are divided among four sampled policies. Diversity inside a round costs
    nothing, because policies are functions of releases. Up to 2 % of the users explore: samples
    alone never found what lies behind several apparently bad steps.
    """

    name = "likelihood-vi"
    profile = Profile(
        "posterior sampling on private sums of likelihood codes",
        family="mixture",
        paper="confide",
        known_rewards=True,
        kernels=True,
        stuck="kernels that differ far from the start only",
    )
    abilities = replace(Learner.abilities, distributed=True)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return likelihood_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        require_mixture(public, "LikelihoodVI")
        require_simplex(public, "LikelihoodVI")
        check_episodes_and_privacy(episodes, privacy, distributed=True)
        if not isinstance(calibration, str) or calibration != "tight":
            raise InvalidParameter(
                'LikelihoodVI is in no paper: calibration must be "tight", '
                f"got calibration={calibration!r}"
            )
        check_choices(calibration, bonus_scale)
        spread = SPREAD if bonus_scale is None else bonus_scale
        codes = best_codes(public.kernels, size=noise_follows(privacy))
        statistic = TransitionSums(codes, value_steps(public.horizon))
        chosen = choose_schedule(schedule, geometric(episodes))
        counter, discount_ratio = counter_of_rates(chosen, privacy)
        problem = likelihood_problem(public, statistic, chosen, discount_ratio, spread)
        super().__init__(
            Calibration(PosteriorSampling(problem, statistic), chosen, counter),
            privacy=privacy,
            identity=Identity(self.name, 1, public=public, spread=spread),
            noise=noise,
        )


def likelihood_problem(
    public: LinearMixturePublic,
    statistic: TransitionSums,
    schedule: Schedule,
    discount_ratio: float | None,
    spread: float,
) -> LikelihoodProblem:
    """All that is public before the first user, for planning."""
    sizes = CodeSizes(
        horizon=public.horizon,
        steps=statistic.bound.steps,
        states=public.states,
        actions=public.actions,
        dimension=public.dimension,
        code_length=statistic.bound.dimension,
        policies=POLICIES + 1,
        ratio=discount_ratio,
    )
    assert public.rewards is not None
    return LikelihoodProblem(
        sizes,
        tuple(schedule.times),
        spread,
        public.kernels,
        public.rewards,
        public.start,
        codes=statistic.table,
        code_means=mean_codes(statistic.table, public.kernels),
        sparse_kernels=sparse(reduced(public.dimension), public.kernels),
        kernels_by_transition=by_transition(public.kernels),
    )


def noise_follows(privacy: Request) -> str:
    """Which size of the codes the noise is in proportion to.

    Under `LocalDP` a codebook is used, and its noise follows the norm of a code. Additive noise
    follows the distance between two codes: Laplace noise that in L1, Gaussian noise that in L2.
    """
    if isinstance(privacy, LocalDP):
        return "radius"
    is_pure = privacy.delta == 0 and not isinstance(privacy, NoPrivacy)
    return "l1_diameter" if is_pure else "diameter"
