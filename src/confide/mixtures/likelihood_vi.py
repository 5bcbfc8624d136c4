"""Likelihood moments: our own learner for mixtures of known kernels. Privacy is proved, regret is measured."""

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
from confide.mixtures.code_features import best_codes, means
from confide.mixtures.explorer_planning import SAID
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


@dataclass(frozen=True, slots=True, eq=False)
class PosteriorSampling:
    """Between two releases: estimate the weights from the sums of codes, draw plausible weights around them, plan for each."""

    problem: LikelihoodProblem
    statistic: TransitionSums

    @property
    def bound(self) -> TableRows:
        return self.statistic.bound

    def plan(self, released: Released) -> Round:
        planned = plan_round(self.problem, released)
        return Round(
            planned.policies, self.statistic, planned.memory, planned.signal, planned.shares
        )

    def valued(self, released: Released, played: Sequence[PlayedRound]) -> RoundValues:
        """What the model of this release says about the policies of all rounds so far, the one that it opens included."""
        return value_policies(self.problem, released, played)

    def describe(self) -> Description:
        planning = f"policies for weights drawn from the posterior, {self.problem.spread:g} x its standard deviation"
        return Description("tight", f"{planning}; {SAID}")


class LikelihoodVI(Learner):
    """Value iteration on mixture weights that are learned from sums of likelihood codes, with posterior sampling.

    Guarantee: joint DP (`JointDP`), local DP (`LocalDP`) or distributed DP (`DistributedDP`) for every user, by one query per user: the
    public code of each of its transitions (`mixtures/code_features.py`), all steps together; delta = 0 gives Laplace noise. Policies are
    functions of releases and of a public seed. PRIVACY IS PROVED; REGRET IS MEASURED
    (docs/agents/mixtures.md), not proved: there is no regret
    theorem for this learner.

    Why it beats value-targeted regression at the same guarantee: a user sends d numbers per step, not d^2, and the code looks at all that a
    transition says about the kernels, not only at the value of the next state. Nothing about visits is released: they are predicted from
    the public policies, the start distribution and the estimates for earlier steps.

    `bonus_scale` is the spread of the posterior samples in its standard deviations (default 0.35). The users of a round are divided among
    four sampled policies: diversity inside a round costs nothing, since policies are functions of releases. Up to 2 % of the users explore:
    samples alone never found what lies behind several apparently bad steps.
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
                f'LikelihoodVI is in no paper: calibration must be "tight", got calibration={calibration!r}'
            )
        check_choices(calibration, bonus_scale)
        spread = 0.35 if bonus_scale is None else bonus_scale
        codes = best_codes(public.kernels, size=_size(privacy))
        statistic = TransitionSums(codes, value_steps(public.horizon))
        chosen = choose_schedule(schedule, geometric(episodes))
        counter, ratio = counter_of_rates(chosen, privacy)
        shape = CodeSizes(
            public.horizon,
            statistic.bound.steps,
            public.states,
            public.actions,
            public.dimension,
            statistic.bound.dimension,
            POLICIES + 1,
            ratio,
        )
        assert public.rewards is not None
        problem = LikelihoodProblem(
            shape,
            tuple(chosen.times),
            spread,
            public.kernels,
            public.rewards,
            public.start,
            codes=statistic.table,
            code_means=means(statistic.table, public.kernels),
            sparse_kernels=sparse(reduced(public.dimension), public.kernels),
            kernels_by_transition=by_transition(public.kernels),
        )
        algorithm = PosteriorSampling(problem, statistic)
        identity = Identity(self.name, 1, public=public, spread=spread)
        super().__init__(
            Calibration(algorithm, chosen, counter), privacy=privacy, identity=identity, noise=noise
        )


def _size(privacy: Request) -> str:
    """What the noise is in proportion to: of a codebook the norm of a code, of additive noise a distance between two."""
    if isinstance(privacy, LocalDP):
        return "radius"
    return (
        "l1_diameter" if privacy.delta == 0 and not isinstance(privacy, NoPrivacy) else "diameter"
    )
