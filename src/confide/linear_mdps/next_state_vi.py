"""Next-state value iteration: our own learner for linear MDPs. Privacy is proved, regret is measured."""

from dataclasses import dataclass, field
from typing import Any

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint, numbers_of_users
from confide.linear_mdps.batches import first_release
from confide.linear_mdps.contributions import NextStateRows, NextStates
from confide.linear_mdps.model_planning import (
    SAMPLES,
    FeatureTable,
    ModelProblem,
    plan_round,
    table_of,
)
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Released
from confide.privacy.loss import NO_PRIVACY, loss_for
from confide.privacy.request import NoPrivacy, Request
from confide.privatizers import Schedule, geometric
from confide.problems.linear_mdp import LinearMDPPublic
from confide.problems.sizes import ProblemSizes

# Of the estimate of planning time: for one transition probability of one model, by `benchmarks/memory.py`.
SECONDS_PER_NUMBER = 2e-8


@dataclass(frozen=True, slots=True, eq=False)
class ModelSampling:
    """Between two releases: a model from the sums, samples around it, and the best policy for each."""

    problem: ModelProblem
    statistic: NextStates
    table: FeatureTable = field(repr=False)

    @property
    def bound(self) -> NextStateRows:
        return self.statistic.bound

    def plan(self, released: Released) -> Round:
        moves, rewards = self.bound.unpack(released.values)
        planned = plan_round(
            released,
            moves,
            rewards,
            reward_weight=self.bound.weight,
            problem=self.problem,
            table=self.table,
        )
        return Round(
            planned.policies, self.statistic, planned.memory, planned.signal, planned.shares
        )

    def describe(self) -> Description:
        spread = f"{self.problem.spread:g} x the standard error of the sums"
        planning = f"the best policies for an estimated model and {SAMPLES} samples, {spread}"
        return Description("tight", planning)


class NextStateVI(Learner):
    """Value iteration on a model of a linear MDP that is learned from sums of where users went, with posterior sampling.

    Guarantee: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, by one query per user (`NextStateRows`): phi(s, a) at the
    place of s', and phi(s, a) (r - 1/2), all steps together; delta = 0 gives Laplace noise. Policies are functions of releases and of a
    public seed. Nothing of the users is kept. PRIVACY IS PROVED; REGRET IS MEASURED
    (docs/agents/linear_mdps.md), not proved: there is no regret
    theorem for this learner.

    Why it beats LSVI-UCB at the same promise: the responses that LSVI recomputes at every change of policy, sum phi V(s'), are linear in
    sum phi e_{s'}^T, which does not depend on V. So users are asked once, through one counter, and every V there will ever be is served by
    post-processing; and a model can be projected to what is known of it (probabilities, rewards in [0, 1]). It needs states that can be
    listed: d S numbers per step. Where they cannot be, LSVI-UCB remains.

    Nothing about visits is released: they are predicted from the public policies, the start and the estimates. `bonus_scale` is the spread
    of the samples in standard errors of the sums (0.5). Users of a round are divided between the estimate's best policy and those of eight
    samples, whose share falls from all to 3 %.
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
        **options: Any,  # noqa: ARG003 - they change nothing
    ) -> Footprint:
        chosen = choose_schedule(schedule, geometric(episodes))
        released = sizes.horizon * sizes.dimension * (sizes.states + 1)
        models = (SAMPLES + 1) * sizes.horizon * sizes.states**2 * sizes.actions
        numbers = models + 10 * released + numbers_of_users(chosen, sizes.horizon)
        return Footprint(released, numbers, 0.02 + SECONDS_PER_NUMBER * models, chosen)

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
                f'NextStateVI is in no paper: calibration must be "tight", got calibration={calibration!r}'
            )
        check_choices(calibration, bonus_scale)
        check_episodes_and_privacy(episodes, privacy)
        statistic = NextStates(public.features, public.horizon)
        whole = NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy)
        soon = first_release(
            statistic.bound,
            whole,
            episodes,
            privacy=privacy,
            deviations=12,
            least=4 * public.dimension,
        )
        default = geometric(episodes, first=soon)
        chosen = choose_schedule(schedule, default)
        spread = 0.5 if bonus_scale is None else bonus_scale
        problem = ModelProblem(
            public.horizon,
            public.states,
            public.actions,
            public.start,
            spread=spread,
            first=chosen.times[0],
        )
        algorithm = ModelSampling(problem, statistic, table_of(public.features))
        identity = Identity(self.name, 1, public=public, spread=spread)
        super().__init__(
            Calibration(algorithm, chosen), privacy=privacy, identity=identity, noise=noise
        )
