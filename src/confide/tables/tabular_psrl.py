"""Posterior sampling on private counts: our own learner for tables of which nothing is known. Privacy is proved, regret is measured."""

from dataclasses import dataclass, replace
from typing import Any

from confide._memory import refuse_more_than_available
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.arguments import check_asked, check_choices, choose_schedule
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.learning.resources import Footprint, numbers_of_users
from confide.mechanisms.sources import NoiseSource, check_source
from confide.privacy.bounded import Released
from confide.privacy.request import Request
from confide.privatizers import Schedule, counter_of_rates, geometric
from confide.problems.sizes import ProblemSizes, sizes_of
from confide.problems.tabular import TabularPublic
from confide.tables.contributions import BudgetedCounts, BudgetedVisits
from confide.tables.footprint import STATE_SUPPORT, TableSizes
from confide.tables.model_planning import LARGE
from confide.tables.sampling_planning import SamplingProblem, plan_round, policies_of, window_of
from confide.tables.support_features import GivenSupport, Support, layers_of, support_of

FIRST = 100  # users of the first round
# of the number of users, from release to release; and for large tables, where planning takes long
GROWTH, FASTER = 1.2, 1.5
BALANCE = 180 / 256  # of rewards against counts
# Of the estimate of memory and planning time, by `benchmarks/memory.py`: arrays of one number per cell and copies of
# the policies of the kept releases that exist at the peak, and the time per drawn cell and per visited cell.
ARRAYS = 14
COPIES_OF_POLICIES = 3.2
SECONDS_PER_DRAW = 4.5e-8
SECONDS_PER_VISIT = 3e-9


def default_schedule(episodes: int, cells: int) -> Schedule:
    return geometric(episodes, first=FIRST, ratio=FASTER if cells > LARGE else GROWTH)


@dataclass(frozen=True, slots=True, eq=False)
class TableSampling:
    """Between two releases: a posterior of the table, models drawn from it, and the best policy for each."""

    problem: SamplingProblem
    bound: BudgetedCounts

    @property
    def support(self) -> Support:
        """What the estimate of an agent that exists reads: memory is in proportion to it."""
        return self.problem.support

    def plan(self, released: Released) -> Round:
        planned = plan_round(self.problem, released)
        public = planned.public
        statistic = BudgetedVisits(self.problem.support, planned.weights, self.bound)
        return Round(public.policies, statistic, public.memory, public.signal, public.shares)

    def describe(self) -> Description:
        return Description(
            "tight",
            f"the best policies for {self.problem.policies - 2} models from the posterior and for its mean; few users explore",
        )


class TabularPSRL(Learner):
    """Posterior sampling for tables, on sums of budgeted counts of transitions.

    Guarantee: joint DP (`JointDP`), local DP (`LocalDP`) or distributed DP (`DistributedDP`) for every user, by one query per user
    (`BudgetedCounts`): where the user went from each state and action, in counts whose squares sum to at most one, and where rewards are to
    be learned their sums; delta = 0 gives Laplace noise. Policies are functions of releases and of a public seed. PRIVACY IS PROVED; REGRET
    IS MEASURED (docs/tables.md), not proved.

    Nothing is known of the transitions, unless `support` says which states can follow a state and an action: a boolean array [s, a, s'] or
    [s, s'], or a list of (s, a, s'). At epsilon = 1 it is worth a factor of 4 to 9 in regret: most of the cost is telling the few
    states that follow from all others. A wrong support makes the learner wrong, and costs no privacy.
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
        **options: Any,  # noqa: ARG003 - they change nothing
    ) -> Footprint:
        table = TableSizes.of(sizes, support)
        policies = policies_of(table.cells)
        planned = policies * sizes.horizon * sizes.states
        kept_releases = window_of(table.released, planned) + 1
        chosen = choose_schedule(schedule, default_schedule(episodes, table.cells))
        numbers = (
            (ARRAYS + 2 * kept_releases) * table.released
            + COPIES_OF_POLICIES * kept_releases * planned
            + numbers_of_users(chosen, sizes.horizon, policies)
        )
        visited = (
            (kept_releases + 1)
            * policies
            * sizes.horizon
            * table.cells
            / (sizes.actions * table.layers)
        )
        seconds = 0.01 + SECONDS_PER_DRAW * policies * table.cells + SECONDS_PER_VISIT * visited
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
                f"TabularPSRL needs a table (TabularMDP.public), got {type(public).__name__}"
            )
        if not isinstance(calibration, str) or calibration != "tight":
            raise InvalidParameter(
                f'TabularPSRL is in no paper: calibration must be "tight", got calibration={calibration!r}'
            )
        check_choices(calibration, None)
        check_asked(episodes, privacy, distributed=True)
        discrete = noise is not None and check_source(noise).discrete
        footprint = self.footprint(
            sizes_of(public), episodes=episodes, privacy=privacy, support=support, schedule=schedule
        )
        refuse_more_than_available(
            footprint.memory(privacy, discrete=discrete), self.name, STATE_SUPPORT
        )
        H, known = public.horizon, public.rewards is not None
        layers = layers_of(H, stationary=public.stationary, known_rewards=known)
        cells = support_of(
            support,
            layers=layers,
            states=public.states,
            actions=public.actions,
            terminal=public.terminal,
        )
        bound = BudgetedCounts(cells.cells, cells.pairs, H, 0.0 if known else BALANCE)
        chosen = choose_schedule(schedule, default_schedule(episodes, cells.cells))
        counter, ratio = counter_of_rates(chosen, privacy)
        if ratio is None:
            raise InvalidParameter(
                f"TabularPSRL looks at all releases together, and {chosen.leaves} are too many: choose fewer"
            )
        problem = SamplingProblem(public, cells, bound.balance, bound.size, ratio)
        algorithm = TableSampling(problem, bound)
        identity = Identity(self.name, 1, public=public, support=[cells.indptr, cells.successors])
        super().__init__(
            Calibration(algorithm, chosen, counter), privacy=privacy, identity=identity, noise=noise
        )
