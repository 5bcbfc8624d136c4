"""Posterior sampling on private counts: our own learner for tables of which nothing is known. Privacy is proved, regret is measured."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide._memory import refuse_more_than_available
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.arguments import check_asked, check_choices, choose_schedule
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.learning.resources import Footprint, numbers_of_users
from confide.mechanisms.sources import NoiseSource, check_source
from confide.planners.history import History
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released
from confide.privacy.request import Request
from confide.privatizers import Schedule, counter_of_rates, geometric
from confide.privatizers.schedule import divided
from confide.problems.sizes import ProblemSizes, sizes_of
from confide.problems.tabular import TabularPublic
from confide.tables.contributions import BudgetedCounts, BudgetedVisits
from confide.tables.footprint import STATE_SUPPORT, TableSizes
from confide.tables.model_planning import (
    LARGE,
    append_round,
    best_policy,
    drawn,
    estimate,
    expected_visits,
    folded,
    posterior,
    predicted,
    recall_rounds,
    untried,
)
from confide.tables.reward_planning import reward_posterior
from confide.tables.support_features import Support, layers_of, support_of

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
POLICIES, FEWER = 17, 9  # per round, one of them for explorers; and for large tables
FIRST = 100  # users of the first round
# of the number of users, from release to release; and for large tables, where planning takes long
GROWTH, FASTER = 1.2, 1.5
# users, until whom explorers are as many as the users of another policy; then they grow as the root of all users
EXPLORED = 500
# from and to: the share of the drawn model in each policy but the last; the rest is the mean
TEMPERS = 0.25, 1.0
BALANCE = 180 / 256  # of rewards against counts
SPENT = 0.7  # of the budget, by a typical user of a table where episodes may end early
RARE, FLAT = 0.02, 0.2  # there pairs of v visits weigh (v + RARE)^-FLAT
HEAVIEST = 0.49  # the largest squared weight: every user counts at least twice
TIES = 1e-9  # differences of value that are none
WINDOW, NUMBERS = 12, 2**22  # releases that are kept as they are, and their numbers together
# Of the estimate of memory and planning time, by `benchmarks/memory.py`: arrays of one number per cell and copies of
# the policies of the kept releases that exist at the peak, and the time per drawn cell and per visited cell.
ARRAYS = 14
COPIES_OF_POLICIES = 3.2
SECONDS_PER_DRAW = 4.5e-8
SECONDS_PER_VISIT = 3e-9


def policies_of(cells: int) -> int:
    """How many policies a round has."""
    return FEWER if cells > LARGE else POLICIES


def window_of(released: int, planned: int) -> int:
    """How many releases are kept as they are, for so many released numbers and planned actions per round."""
    return max(3, min(WINDOW, NUMBERS // (released + planned)))


def default_schedule(episodes: int, cells: int) -> Schedule:
    return geometric(episodes, first=FIRST, ratio=FASTER if cells > LARGE else GROWTH)


@dataclass(frozen=True, slots=True, eq=False)
class TableSampling:
    """Between two releases: a posterior of the table, models drawn from it, and the best policy for each."""

    public: TabularPublic
    support: Support
    bound: BudgetedCounts
    ratio: float  # of the releases; 0: rounds are differences of releases

    @property
    def policies(self) -> int:
        return policies_of(self.support.cells)

    @property
    def window(self) -> int:
        return window_of(self.bound.size, self.policies * self.public.horizon * self.public.states)

    def plan(self, released: Released) -> Round:
        H, S, A = self.public.horizon, self.public.states, self.public.actions
        history = recall_rounds(
            released, self.support, policies=self.policies, horizon=H, window=self.window
        )
        rng = np.random.default_rng([int(history["seed"]), released.generation])
        signal = None
        if released.generation == 0:
            shown = rng.integers(A, size=(self.policies, H, S))
        else:
            before = int(history["total"])
            users = np.array(divided(released.users - before, self._shares(before)), dtype=float)
            history = append_round(history, released, users, differences=self.ratio == 0)
            shown, history, signal = self._learn(history, rng)
        shares = self._shares(released.users)
        statistic = BudgetedVisits(
            self.support, self._weights(history["model"], shown, shares), self.bound
        )
        history = history.replace(
            shown=shown, counted=statistic.weights, total=np.array(released.users)
        )
        policies = tuple(TabularPolicy(actions, A) for actions in shown)
        return Round(policies, statistic, history.arrays, signal, shares)

    def _shares(self, users: int) -> tuple[float, ...]:
        """Of each policy, after so many users. The last but one explores: its users grow as the root of all users."""
        return (*(1.0,) * (self.policies - 2), min(1.0, np.sqrt(EXPLORED / max(users, 1))), 1.0)

    def _learn(self, history: History, rng: np.random.Generator) -> tuple[Ints, History, float]:
        support, start = self.support, self.public.start
        # predictions of the last model, and of the one that follows from them
        for _ in range(1 if support.cells > LARGE else 2):
            history = predicted(history, support, start)
            known = posterior(estimate(history, support, self.ratio, self.bound.balance), support)
            history = history.replace(model=known.mean)
        history = folded(history, support, self.ratio, self.window)
        earned = (
            reward_posterior(known, support, self.bound.balance) if self.bound.balance else None
        )
        shown = []
        for temper in (*np.linspace(*TEMPERS, self.policies - 2), 0.0):
            model = temper * drawn(known, support, rng) + (1 - temper) * known.mean
            rewards = temper * earned.drawn(rng) + (1 - temper) * earned.mean if earned else None
            shown.append(best_policy(model, self._rewards(rewards, rng), support))
        hopeful = untried(known, support)
        best = np.where(hopeful, 1.0, earned.mean) if earned else None
        # the mean stays last
        shown.insert(-1, best_policy(known.mean, self._rewards(best, rng), support, hopeful))
        return np.stack(shown), history, float(history["means"][-1].mean())

    def _rewards(self, learned: Array | None, rng: np.random.Generator) -> Array:
        """[h, s, a]. Where actions are equally good, one of them at random: there, too, users can show something."""
        H, S, A = self.public.horizon, self.public.states, self.public.actions
        known = self.public.rewards
        if known is None:
            assert learned is not None
            earned = np.where(self.support.open, learned, self.public.terminal_reward)
            known = np.broadcast_to(earned.reshape(self.support.layers, S, A), (H, S, A))
        rewards: Array = known + TIES * rng.random((H, S, A))
        return rewards

    def _weights(self, model: Array, shown: Ints, shares: tuple[float, ...]) -> Array:
        """Where all episodes are equally long every step is paid for. Where they may end early, those of a typical user are."""
        open_ = self.support.open
        if open_.all():
            steps = self.public.horizon if self.support.layers == 1 else self.support.layers
            return np.full(open_.shape, np.sqrt(1 / steps))
        v = (
            np.average(
                expected_visits(shown, model, self.support, self.public.start),
                axis=0,
                weights=shares,
            )
            * open_
        )
        even = (v + RARE) ** -FLAT
        squared = np.minimum(SPENT * even / max(float(v @ even), 1e-12), HEAVIEST)
        return np.where(open_, np.sqrt(squared), 0.0)

    def describe(self) -> Description:
        return Description(
            "tight",
            f"the best policies for {self.policies - 2} models from the posterior and for its mean; few users explore",
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
        support: npt.ArrayLike | None = None,
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
        algorithm = TableSampling(public, cells, bound, ratio)
        identity = Identity(self.name, 1, public=public, support=[cells.indptr, cells.successors])
        super().__init__(
            Calibration(algorithm, chosen, counter), privacy=privacy, identity=identity, noise=noise
        )
