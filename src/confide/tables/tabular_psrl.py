"""TabularPSRL: posterior sampling for tabular MDPs whose transitions are unknown.

This file joins the private side (`contributions`) and the public side (`sampling_planning`) under
the agent's name. The name and the version of its identity are part of ledger ids, saved states
and messages. Privacy is proved, in `BudgetedCounts`. Regret is measured, on docs/agents/tabular.md.
"""

from dataclasses import dataclass, replace
from typing import Any

from confide._memory import refuse_more_than_available
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint, numbers_of_users
from confide.mechanisms.sources import NoiseSource, check_source
from confide.privacy.bounded import Released
from confide.privacy.request import Request
from confide.privatizers import Schedule, counter_of_rates, geometric
from confide.problems.sizes import ProblemSizes, sizes_of
from confide.problems.tabular import TabularPublic
from confide.tables.contributions import BudgetedCounts, BudgetedVisits
from confide.tables.footprint import STATE_SUPPORT, TableSizes
from confide.tables.model_planning import LARGE_TABLE_CELLS
from confide.tables.sampling_planning import (
    SamplingProblem,
    kept_releases,
    plan_round,
    policies_per_round,
)
from confide.tables.support_features import GivenSupport, Support, layers_of, support_of

# The default schedule, chosen by measurement: the users of the first round, and the factor by which
# the number of all users grows from release to release.
FIRST_ROUND = 100
GROWTH = 1.2
# In large tables planning takes long, so there are fewer releases.
LARGE_TABLE_GROWTH = 1.5
# The factor of rewards against counts in the released sums, chosen by measurement.
REWARD_SCALE = 180 / 256
# The following numbers were measured by `benchmarks/memory.py`. At the peak, so many arrays with
# one number per cell exist, and so many copies of the policies of the kept releases.
ARRAYS = 14
COPIES_OF_POLICIES = 3.2
SECONDS_PER_DRAW = 4.5e-8
SECONDS_PER_VISIT = 3e-9


def default_schedule(episodes: int, cells: int) -> Schedule:
    growth = LARGE_TABLE_GROWTH if cells > LARGE_TABLE_CELLS else GROWTH
    return geometric(episodes, first=FIRST_ROUND, ratio=growth)


@dataclass(frozen=True, slots=True, eq=False)
class TableSampling:
    """Plans a round from a release, and says how its users are counted."""

    problem: SamplingProblem
    bound: BudgetedCounts

    @property
    def support(self) -> Support:
        """The support, from which the memory of an existing agent is estimated."""
        return self.problem.support

    def plan(self, released: Released) -> Round:
        table_round = plan_round(self.problem, released)
        public = table_round.public
        statistic = BudgetedVisits(self.problem.support, table_round.weights, self.bound)
        return Round(public.policies, statistic, public.memory, public.signal, public.shares)

    def describe(self) -> Description:
        return Description(
            "tight",
            f"the best policies for {self.problem.policies - 2} models from the posterior "
            "and for its mean; few users explore",
        )


class TabularPSRL(Learner):
    """Posterior sampling for tabular MDPs, on noisy sums of budgeted counts of transitions.

    Guarantee: joint DP (`JointDP`), local DP (`LocalDP`) or distributed DP (`DistributedDP`) for
    every user, by one query per user (`BudgetedCounts`). The query says how often the user went
    from each state and action to each successor, in counts whose squares sum to at most one. Where
    rewards are learned, it also has their sums. Policies are functions of releases and of a public
    seed. With delta = 0 the noise is Laplace noise. Privacy is proved. Regret is measured
    (docs/agents/tabular.md), not proved.

    Transitions are unknown, unless `support` says which states can follow a state and an action.
    It is a boolean array [s, a, s'] or [s, s'], or a list of (s, a, s'). At epsilon = 1 a support
    divides the regret by 4 to 9, because most users are needed to tell the few possible successors
    from all others. A wrong support makes the agent learn wrongly, and costs no privacy.
    """

    name = "tabular-psrl"
    profile = Profile(
        "posterior sampling on private counts of transitions; needs to know nothing of them",
        family="table",
        paper="confide",
    )
    abilities = replace(Learner.abilities, counts=False, distributed=True)

    @classmethod
    def footprint(
        cls,
        sizes: ProblemSizes,
        *,
        episodes: int,
        privacy: Request,
        support: Any = None,
        schedule: Schedule | None = None,
        **options: Any,  # noqa: ARG003 - other options change nothing here
    ) -> Footprint:
        table = TableSizes.of(sizes, support)
        policies = policies_per_round(table.cells)
        planned_actions = policies * sizes.horizon * sizes.states
        # The release that has just come is there before the oldest one is folded away.
        releases = kept_releases(table.released, planned_actions) + 1
        chosen = choose_schedule(schedule, default_schedule(episodes, table.cells))
        numbers = (
            (ARRAYS + 2 * releases) * table.released
            + COPIES_OF_POLICIES * releases * planned_actions
            + numbers_of_users(chosen, sizes.horizon, policies)
        )
        cells_per_step = table.cells / (sizes.actions * table.layers)
        visited_cells = (releases + 1) * policies * sizes.horizon * cells_per_step
        seconds_of_draws = SECONDS_PER_DRAW * policies * table.cells
        seconds = 0.01 + seconds_of_draws + SECONDS_PER_VISIT * visited_cells
        counter, _ = counter_of_rates(chosen, privacy)
        return Footprint(table.released, numbers, seconds, chosen, counter)

    def __init__(
        self,
        public: TabularPublic,
        *,
        episodes: int,
        privacy: Request,
        support: GivenSupport = None,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        if not isinstance(public, TabularPublic):
            raise InvalidParameter(
                "public must be the public part of a tabular MDP (TabularMDP.public), "
                f"got {type(public).__name__}"
            )
        if not isinstance(calibration, str) or calibration != "tight":
            raise InvalidParameter(
                'calibration must be "tight" because TabularPSRL is in no paper, '
                f"got calibration={calibration!r}"
            )
        check_choices(calibration, None)
        check_episodes_and_privacy(episodes, privacy, distributed=True)
        discrete = noise is not None and check_source(noise).discrete
        footprint = self.footprint(
            sizes_of(public), episodes=episodes, privacy=privacy, support=support, schedule=schedule
        )
        refuse_more_than_available(
            footprint.memory(privacy, discrete=discrete), self.name, STATE_SUPPORT
        )
        known_rewards = public.rewards is not None
        layers = layers_of(
            public.horizon, stationary=public.stationary, known_rewards=known_rewards
        )
        cells = support_of(
            support,
            layers=layers,
            states=public.states,
            actions=public.actions,
            terminal=public.terminal,
        )
        reward_scale = 0.0 if known_rewards else REWARD_SCALE
        bound = BudgetedCounts(cells.cells, cells.pairs, public.horizon, reward_scale)
        chosen = choose_schedule(schedule, default_schedule(episodes, cells.cells))
        counter, discount_ratio = counter_of_rates(chosen, privacy)
        if discount_ratio is None:
            raise InvalidParameter(
                f"schedule must have fewer releases, got {chosen.leaves}: "
                "TabularPSRL looks at all releases together"
            )
        problem = SamplingProblem(public, cells, reward_scale, bound.size, discount_ratio)
        algorithm = TableSampling(problem, bound)
        identity = Identity(self.name, 1, public=public, support=[cells.indptr, cells.successors])
        super().__init__(
            Calibration(algorithm, chosen, counter), privacy=privacy, identity=identity, noise=noise
        )
