"""Optimistic agents for tabular MDPs. They are one agent, and differ in the bonus of their papers.

This file joins the private side (`contributions`) and the public side (`optimistic_planning`) under
the agents' names. The names and versions of their identities are part of ledger ids, saved states
and messages. Rules may be changed freely: privacy does not depend on them.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from confide._memory import refuse_more_than_available
from confide.arguments import real
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Released
from confide.privacy.request import Request
from confide.privatizers import Schedule
from confide.problems.sizes import ProblemSizes, sizes_of
from confide.problems.tabular import TabularPublic
from confide.tables import bonus_planning
from confide.tables.bonus_planning import BonusFormula
from confide.tables.contributions import BudgetedCounts, BudgetedVisits
from confide.tables.footprint import FEWER_STATES, optimistic_footprint, optimistic_schedule
from confide.tables.optimistic_planning import OptimisticPlanner, plan_round
from confide.tables.support_features import layers_of, support_of

# The factor of rewards against counts in the released sums, chosen by measurement. Both have the
# same noise.
REWARD_SCALE = 180 / 256
# The default step of mirror descent per user, chosen by measurement.
POLICY_STEP = 1.0


@dataclass(frozen=True, slots=True)
class OptimisticRule:
    """What distinguishes one optimistic agent for tabular MDPs from another.

    The factor and the constant were chosen on the instances of docs/agents/tabular.md.
    """

    paper: str
    bonus: BonusFormula
    # The factor of the bonus.
    factor: float
    # A constant that replaces the paper's logarithm.
    log: float


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticTables:
    """Plans the policy that is best if every pair is worth its estimate and a bonus."""

    paper: str
    planner: OptimisticPlanner
    bound: BudgetedCounts
    # The step of mirror descent per user. None means the greedy policy.
    step: float | None = None

    def plan(self, released: Released) -> Round:
        moves, rewards = self.bound.unpack(released.values)
        public = plan_round(self.planner, moves, rewards, released, self.step)
        statistic = BudgetedVisits(self.planner.support, self.planner.visit_weights(), self.bound)
        return Round(public.policies, statistic, public.memory, public.signal)

    def describe(self) -> Description:
        planning = (
            f"bonus {self.planner.factor:g} x the paper's, "
            "with the noise of the release in place of its bound"
        )
        if self.step is not None:
            planning += f"; softmax policies, step {self.step:.3g} per user"
        return Description("tight", planning)


def calibrate(
    name: str,
    rule: OptimisticRule,
    public: TabularPublic,
    *,
    episodes: int,
    privacy: Request,
    calibration: str,
    schedule: Schedule | None,
    bonus_scale: float | None,
    step: float | None = None,
) -> Calibration:
    """Return the statistic of `TabularPSRL`, and the schedule of releases.

    The privatizer then chooses the counter whose prefix sums have the least noise.
    """
    if not isinstance(public, TabularPublic):
        raise InvalidParameter(
            "public must be the public part of a tabular MDP (TabularMDP.public), "
            f"got {type(public).__name__} for {name}"
        )
    check_choices(calibration, bonus_scale)
    if calibration == "paper":
        raise InvalidParameter(
            f'{name} has no calibration="paper", because nobody has compared its constants '
            f'with the text of [{rule.paper}]: use calibration="tight"'
        )
    check_episodes_and_privacy(episodes, privacy)
    footprint = optimistic_footprint(
        sizes_of(public), episodes=episodes, privacy=privacy, schedule=schedule
    )
    refuse_more_than_available(footprint.memory(privacy, discrete=False), name, FEWER_STATES)
    known_rewards = public.rewards is not None
    layers = layers_of(public.horizon, stationary=public.stationary, known_rewards=known_rewards)
    support = support_of(
        None,
        layers=layers,
        states=public.states,
        actions=public.actions,
        terminal=public.terminal,
    )
    reward_scale = 0.0 if known_rewards else REWARD_SCALE
    bound = BudgetedCounts(support.cells, support.pairs, public.horizon, reward_scale)
    factor = rule.factor if bonus_scale is None else bonus_scale
    planner = OptimisticPlanner(public, support, reward_scale, rule.bonus, factor, rule.log)
    chosen = choose_schedule(schedule, optimistic_schedule(episodes))
    return Calibration(OptimisticTables(rule.paper, planner, bound, step), chosen)


class OptimisticLearner(Learner):
    """Optimistic value iteration on budgeted counts.

    `PUCB`, `UCBVI`, `LDPOBI` and `DPUCBVI` are such agents, each with the bonus of its paper.

    Guarantee: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, by one query per user:
    the budgeted counts of the whole episode. Policies are functions of releases and of a public
    seed. `NoPrivacy` is the same agent without noise.

    Departures from the papers (none is needed for privacy): the statistic is the one of
    `TabularPSRL`, pooled over steps if they are alike. Releases follow a geometric schedule. The
    table is estimated by the mean of its posterior. The bonus has the standard deviation of the
    noise in place of the paper's bound on it, and a constant in place of the logarithm. It is
    proportional to the steps left, and is multiplied by `bonus_scale`. Regret is measured, not
    proved (docs/agents/tabular.md).
    """

    rule: ClassVar[OptimisticRule]
    abilities = replace(Learner.abilities, counts=False)
    calibrations = ("tight",)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return optimistic_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: TabularPublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        calibrated = calibrate(
            self.name,
            self.rule,
            public,
            episodes=episodes,
            privacy=privacy,
            calibration=calibration,
            schedule=schedule,
            bonus_scale=bonus_scale,
        )
        identity = Identity(self.name, 1, public=public, bonus_scale=bonus_scale)
        super().__init__(calibrated, privacy=privacy, identity=identity, noise=noise)


class PUCB(OptimisticLearner):
    """PUCB: the first private agent for tabular MDPs.

    Guarantee and departures: `OptimisticLearner`.

    Reference: [Vietri20], whose bonus we recalled.
    """

    name = "pucb"
    profile = Profile(
        "optimistic value iteration on private counts", family="table", paper="Vietri20"
    )
    rule = OptimisticRule("Vietri20", bonus_planning.vietri20_bonus, factor=0.01, log=200.0)


class UCBVI(OptimisticLearner):
    """Private-UCB-VI: a bonus for each noisy count. Guarantee and departures: `OptimisticLearner`.

    Reference: [ChowdhuryZhou21], whose bonus we recalled.
    """

    name = "ucbvi"
    profile = Profile("pucb with another bonus", family="table", paper="ChowdhuryZhou21")
    rule = OptimisticRule(
        "ChowdhuryZhou21", bonus_planning.chowdhury_zhou21_bonus, factor=0.02, log=50.0
    )


class LDPOBI(OptimisticLearner):
    """LDP-OBI: optimistic backward induction on messages from devices.

    Guarantee and departures: `OptimisticLearner`.

    Reference: [Garcelon21], whose bonus we recalled. The paper is about `LocalDP`. This agent also
    runs under `JointDP`.
    """

    name = "ldp-obi"
    profile = Profile(
        "optimistic backward induction on noisy messages", family="table", paper="Garcelon21"
    )
    rule = OptimisticRule("Garcelon21", bonus_planning.garcelon21_bonus, factor=0.02, log=1.0)


class DPUCBVI(OptimisticLearner):
    """DP-UCBVI: a bonus that follows the variance of the next value.

    Guarantee and departures: `OptimisticLearner`.

    Reference: [QiaoWang23], whose bonus we recalled. One departure more: H^2 stands for a minimum
    with H^2 in the bonus.
    """

    name = "dp-ucbvi"
    profile = Profile(
        "ucbvi with a bonus that follows the variance of the next value",
        family="table",
        paper="QiaoWang23",
    )
    rule = OptimisticRule("QiaoWang23", bonus_planning.qiao_wang23_bonus, factor=2.5, log=4e-4)


class UCBPO(Learner):
    """Private-UCB-PO: optimistic evaluation of a stochastic policy, and steps of mirror descent.

    Guarantee and departures: those of `OptimisticLearner`, by the same query.

    Reference: [ChowdhuryZhou21], whose bonus we recalled. Two departures more: the policy is
    improved by each release before the next users are served, and moves from its fourth root (the
    paper: from itself) because releases are prefix sums. `step` is the step size per user.
    """

    name = "ucbpo"
    profile = Profile(
        "ucbvi with policy optimisation: softmax policies, improved step by step",
        family="table",
        paper="ChowdhuryZhou21",
    )
    rule = OptimisticRule(
        "ChowdhuryZhou21", bonus_planning.chowdhury_zhou21_policy_bonus, factor=0.02, log=5.0
    )
    abilities = OptimisticLearner.abilities
    calibrations = ("tight",)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return optimistic_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: TabularPublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        step: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        if step is not None:
            real("step", step, above=0)
        calibrated = calibrate(
            self.name,
            self.rule,
            public,
            episodes=episodes,
            privacy=privacy,
            calibration=calibration,
            schedule=schedule,
            bonus_scale=bonus_scale,
            step=step or POLICY_STEP,
        )
        identity = Identity(self.name, 1, public=public, bonus_scale=bonus_scale, step=step)
        super().__init__(calibrated, privacy=privacy, identity=identity, noise=noise)
