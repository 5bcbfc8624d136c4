"""NextStateVI: our own agent for linear MDPs, on sums of where users went.

This file joins the private side (`contributions`) and the public side (`model_planning`) under the
agent's name. The name and the version of its identity are part of ledger ids, saved states and
messages. Privacy is proved, in `NextStateRows`. Regret is measured (docs/agents/linear_mdps.md).
"""

from dataclasses import dataclass, field
from typing import Any

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.linear_mdps.batches import first_release
from confide.linear_mdps.contributions import NextStateRows, NextStates
from confide.linear_mdps.footprint import model_footprint
from confide.linear_mdps.model_planning import (
    SAMPLES,
    FeatureTable,
    ModelProblem,
    plan_round,
    prepare_features,
)
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Released
from confide.privacy.loss import NO_PRIVACY, loss_for
from confide.privacy.request import NoPrivacy, Request
from confide.privatizers import Schedule, geometric
from confide.problems.linear_mdp import LinearMDPPublic
from confide.problems.sizes import ProblemSizes

# The numbers below were chosen for a small regret on `latent` and `one-hot`
# (docs/agents/linear_mdps.md).
# The spread of posterior samples, in standard errors of the sums.
SPREAD = 0.5
# The first round ends when a count of all its users is so many standard deviations of its noise,
# and has at least so many users per feature.
FIRST_ROUND_DEVIATIONS = 12
FIRST_ROUND_USERS_PER_FEATURE = 4


@dataclass(frozen=True, slots=True, eq=False)
class ModelSampling:
    """Plans a round from a release, and says what its users contribute."""

    problem: ModelProblem
    statistic: NextStates
    table: FeatureTable = field(repr=False)

    @property
    def bound(self) -> NextStateRows:
        return self.statistic.bound

    def plan(self, released: Released) -> Round:
        moves, rewards = self.bound.unpack(released.values)
        public = plan_round(
            released,
            moves,
            rewards,
            reward_weight=self.bound.weight,
            problem=self.problem,
            table=self.table,
        )
        return Round(public.policies, self.statistic, public.memory, public.signal, public.shares)

    def describe(self) -> Description:
        return Description(
            "tight",
            f"the best policies for an estimated model and {SAMPLES} samples, "
            f"{self.problem.spread:g} x the standard error of the sums",
        )


class NextStateVI(Learner):
    """Value iteration on a model of a linear MDP, learned from sums of where users went.

    Guarantee: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, by one query per user
    (`NextStateRows`): phi(s, a) at the place of s', and phi(s, a) (r - 1/2), all steps together.
    With delta = 0 the noise is Laplace noise. Policies are functions of releases and of a public
    seed. Nothing of the users is kept. PRIVACY IS PROVED; REGRET IS MEASURED
    (docs/agents/linear_mdps.md), not proved: there is no regret theorem for this agent.

    Why it beats LSVI-UCB at the same guarantee: the responses that LSVI-UCB computes again at every
    change of policy, sum phi V(s'), are linear in sum phi e_{s'}^T, which does not depend on V. So
    users are asked once, through one counter, and every V there will ever be is served by
    post-processing. And a model can be projected to where it must be (probabilities, rewards in
    [0, 1]). It needs states that can be listed: d S numbers per step. Where they cannot be listed,
    LSVI-UCB remains.

    Nothing about visits is released: they are predicted from the public policies, the start and the
    estimates. `bonus_scale` is the spread of the samples in standard errors of the sums (0.5). The
    users of a round are divided between the estimate's best policy and those of eight samples,
    whose share falls from all users to 3 %.
    """

    name = "next-state-vi"
    profile = Profile(
        "posterior sampling on private sums of next states, which must be few",
        family="linear MDP",
        paper="confide",
        stuck="rivers, sparse or random transitions, or absorbing states",
    )

    @classmethod
    def footprint(
        cls,
        sizes: ProblemSizes,
        *,
        episodes: int,
        privacy: Request,  # noqa: ARG003
        schedule: Schedule | None = None,
        **options: Any,  # noqa: ARG003 - other options change nothing here
    ) -> Footprint:
        return model_footprint(sizes, episodes=episodes, models=SAMPLES + 1, schedule=schedule)

    def __init__(
        self,
        public: LinearMDPPublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        if not isinstance(public, LinearMDPPublic):
            raise InvalidParameter(
                f"NextStateVI needs a linear MDP (LinearMDP.public), got {type(public).__name__}"
            )
        if not isinstance(calibration, str) or calibration != "tight":
            raise InvalidParameter(
                'calibration must be "tight" because NextStateVI is in no paper, '
                f"got calibration={calibration!r}"
            )
        check_choices(calibration, bonus_scale)
        check_episodes_and_privacy(episodes, privacy)
        statistic = NextStates(public.features, public.horizon)
        first = first_release(
            statistic.bound,
            NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy),
            episodes,
            privacy=privacy,
            deviations=FIRST_ROUND_DEVIATIONS,
            least=FIRST_ROUND_USERS_PER_FEATURE * public.dimension,
        )
        chosen = choose_schedule(schedule, geometric(episodes, first=first))
        spread = SPREAD if bonus_scale is None else bonus_scale
        problem = ModelProblem(
            public.horizon,
            public.states,
            public.actions,
            public.start,
            spread=spread,
            first_round=chosen.times[0],
        )
        algorithm = ModelSampling(problem, statistic, prepare_features(public.features))
        identity = Identity(self.name, 1, public=public, spread=spread)
        super().__init__(
            Calibration(algorithm, chosen), privacy=privacy, identity=identity, noise=noise
        )
