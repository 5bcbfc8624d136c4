"""Private-UCB-VI [ChowdhuryZhou21], and what all optimistic learners of tables share: they differ in their bonus and in the printed
noise."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide._memory import refuse_more_than_available
from confide.errors import InvalidParameter
from confide.learning.arguments import check_asked, check_choices, choose_schedule
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.learning.resources import Footprint, numbers_of_users
from confide.mechanisms.counters import Tree
from confide.mechanisms.sources import NoiseSource
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released
from confide.privacy.loss import PureDP
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request
from confide.privatizers import Schedule, every_episode, geometric
from confide.problems.sizes import ProblemSizes, sizes_of
from confide.problems.tabular import TabularPublic
from confide.tables.contributions import BudgetedCounts, BudgetedVisits
from confide.tables.count_contributions import VisitCounts, Visits
from confide.tables.footprint import FEWER_STATES, TableSizes
from confide.tables.model_planning import Counts, posterior
from confide.tables.optimistic_planning import Bonus, Errors, Optimist, greedy
from confide.tables.printed import (
    MOST,
    AnyRule,
    DPUCBVIRule,
    OBIRule,
    TableSetting,
    UCBVIRule,
    bonus_of_one,
    starts,
)
from confide.tables.reward_planning import reward_posterior
from confide.tables.support_features import Support, layers_of, support_of

Array = npt.NDArray[np.float64]
# for a setting, an epsilon, and whether rewards are learned
MakeRule = Callable[[TableSetting, float, bool], AnyRule]
TIES = 1e-9  # differences of value that are none
# users of the first round, and how much longer each is than those before it
FIRST, GROWTH = 100, 1.2
BALANCE = 180 / 256  # of rewards against counts
# Of the estimate of memory and planning time, by `benchmarks/memory.py`: arrays as large as a release that exist at
# the peak (of printed counts, which have no posterior, fewer), and the time per number of a release and per cell of
# a backward induction.
ARRAYS, PRINTED_ARRAYS = 9, 4
SECONDS_PER_CELL = 4e-8
SECONDS_PER_SWEPT_CELL = 2e-9


def _optimist(public: TabularPublic, *, remaining: bool, known_last: bool) -> Optimist:
    H = public.horizon
    left = np.arange(H, 0, -1.0)
    ends = np.zeros(public.states, dtype=bool) if public.terminal is None else public.terminal
    return Optimist(
        left if remaining else np.full(H, float(H)), left - 1 if known_last else left, ends
    )


def _rewards(public: TabularPublic, learned: Array | None) -> Array:
    """[h, s, a], from what is known or from estimates [pair]."""
    if public.rewards is not None:
        return public.rewards
    assert learned is not None
    H, S, A = public.horizon, public.states, public.actions
    kept = np.clip(learned, 0.0, 1.0).reshape(-1, S, A)
    if public.terminal is not None:
        kept = np.where(public.terminal[None, :, None], public.terminal_reward, kept)
    return np.asarray(np.broadcast_to(kept, (H, S, A)))


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What one release says of the table, and what its next users contribute. Public."""

    optimist: Optimist
    probabilities: Array  # [pair, s']
    rewards: Array  # [h, s, a]
    bonus: Bonus
    statistic: Visits | BudgetedVisits
    signal: float | None = None

    def q_values(self, policy: Array | None = None) -> Array:
        return self.optimist.q_values(self.probabilities, self.rewards, self.bonus, policy)


@dataclass(frozen=True, slots=True, eq=False)
class PrintedTables:
    """Optimistic planning as printed: plain counts, and a bonus that covers their noise with high probability."""

    public: TabularPublic
    bound: VisitCounts
    rule: AnyRule
    factor: float  # of the bonus

    def known(self, released: Released) -> Knowledge:
        cells, visits, sums = self.bound.unpack(released.values)
        errors = self.rule.errors(released.users)
        if isinstance(self.rule, DPUCBVIRule) and visits is not None:
            cells = self.rule.consistent(cells, visits, errors) + errors.cell / (
                2 * self.public.states
            )
            visits = cells.sum(axis=1) - errors.cell / 2
        n = self.rule.totals(
            cells.sum(axis=1) if visits is None or isinstance(self.rule, OBIRule) else visits,
            errors,
        )
        made, divisor = self.rule.bonus(n, errors), np.maximum(n, 1.0)
        bonus = Bonus(self.factor * made.fixed, self.factor * made.slope, self.factor * made.spread)
        rewards = _rewards(self.public, None if sums is None else sums / divisor)
        optimist = _optimist(self.public, remaining=self.rule.remaining, known_last=False)
        return Knowledge(optimist, cells / divisor[:, None], rewards, bonus, Visits(self.bound))

    def plan(self, released: Released) -> Round:
        return greedy_round(self.known(released), released)

    def describe(self) -> Description:
        K, H = self.rule.setting.episodes, self.rule.setting.horizon
        said = f"a state and action that every user visits has the bonus {self.factor * bonus_of_one(self.rule):.3g} after {K:,} users"
        users = starts(self.rule)
        when = f"{users:,} users" if users <= MOST else f"some number of users above {MOST:.0e}"
        return Description(
            "paper", f"{said}; it is below H = {H}, so that learning can start, from {when} on"
        )


@dataclass(frozen=True, slots=True, eq=False)
class TightTables:
    """Optimistic planning on budgeted counts: the posterior mean of the table, and the paper's bonus with the release's own noise in
    it."""

    public: TabularPublic
    support: Support
    bound: BudgetedCounts
    rule: AnyRule
    factor: float
    log: float  # in place of the printed logarithm

    @property
    def _weight(self) -> float:
        return math.sqrt(
            1 / (self.public.horizon if self.support.layers == 1 else self.support.layers)
        )

    def known(self, released: Released) -> Knowledge:
        public, support = self.public, self.support
        statistic = BudgetedVisits(support, np.full(support.pairs, self._weight), self.bound)
        moves, sums = (part / self._weight for part in self.bound.unpack(released.values))
        noise = released.noise.std / self._weight
        known = posterior(Counts(moves, sums, np.full(support.pairs, noise)), support)
        learned = (
            reward_posterior(known, support, self.bound.balance).mean
            if self.bound.balance
            else None
        )
        errors = Errors(noise, noise, noise / (self.bound.balance or 1.0), self.log)
        made = self.rule.bonus(self.rule.totals(known.totals, errors), errors).by_steps_left(
            public.horizon, self.factor
        )
        optimist = _optimist(public, remaining=True, known_last=public.rewards is not None)
        signal = float(known.totals.mean()) * self._weight if released.generation else None
        return Knowledge(
            optimist,
            _dense(known.mean, support),
            _rewards(public, learned),
            made,
            statistic,
            signal,
        )

    def plan(self, released: Released) -> Round:
        return greedy_round(self.known(released), released)

    def describe(self) -> Description:
        return Description(
            "tight",
            f"bonus {self.factor:g} x the paper's, with the noise of the release in place of its bound",
        )


def _dense(model: Array, support: Support) -> Array:
    """[pair, s']"""
    table = np.zeros((support.pairs, support.states))
    table[np.repeat(np.arange(support.pairs), np.diff(support.indptr)), support.successors] = model
    return table


def greedy_round(known: Knowledge, released: Released) -> Round:
    seed, Q = released.memory["seed"], known.q_values()
    actions = greedy(Q, TIES, np.random.default_rng([int(seed), released.generation]))
    return Round(
        (TabularPolicy(actions, Q.shape[2]),), known.statistic, {"seed": seed}, known.signal
    )


@dataclass(frozen=True, slots=True)
class Choices:
    """The arguments that all of them share."""

    name: str
    episodes: int
    privacy: Request
    calibration: str
    schedule: Schedule | None
    bonus_scale: float | None
    failure: float

    def setting(self, public: TabularPublic) -> TableSetting:
        """Checks all of them."""
        if not isinstance(public, TabularPublic):
            raise InvalidParameter(
                f"{self.name} needs a table (TabularMDP.public), got {type(public).__name__}"
            )
        check_choices(self.calibration, self.bonus_scale, self.failure)
        check_asked(self.episodes, self.privacy)
        return TableSetting(
            self.episodes, public.horizon, public.states, public.actions, self.failure
        )

    def calibrate(
        self,
        public: TabularPublic,
        make_rule: MakeRule,
        *,
        factor: float,
        log: float = 1.0,
        layers: int | None = None,
    ) -> Calibration:
        """`factor` and `log`: of the tight bonus; `layers`: of the printed counts, None for one per step."""
        setting = self.setting(public)
        footprint = table_footprint(
            sizes_of(public),
            episodes=self.episodes,
            privacy=self.privacy,
            calibration=self.calibration,
            schedule=self.schedule,
            layers=layers,
        )
        refuse_more_than_available(
            footprint.memory(self.privacy, discrete=False), self.name, FEWER_STATES
        )
        epsilon = math.inf if isinstance(self.privacy, NoPrivacy) else self.privacy.epsilon
        rule = make_rule(setting, epsilon, public.rewards is None)
        if self.calibration == "tight":
            return tight(
                public, rule, self, factor if self.bonus_scale is None else self.bonus_scale, log
            )
        return paper(public, rule, self, public.horizon if layers is None else layers)


def table_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,
    calibration: str = "tight",
    schedule: Schedule | None = None,
    layers: int | None = None,
    **options: Any,  # noqa: ARG001 - they change nothing
) -> Footprint:
    """What the optimistic learners of tables need; `layers`: of the printed counts, None for one per step."""
    if calibration == "tight":
        table = TableSizes.of(sizes)
        chosen = choose_schedule(schedule, geometric(episodes, first=FIRST, ratio=GROWTH))
        released = table.released
        tree = None
        arrays = ARRAYS
    else:
        chosen = choose_schedule(schedule, every_episode(episodes))
        pairs = (layers or sizes.horizon) * sizes.states * sizes.actions
        released = pairs * (sizes.states + 1 + (not sizes.known_rewards))
        tree = None if isinstance(privacy, LocalDP | NoPrivacy) else Tree(chosen.leaves)
        arrays = PRINTED_ARRAYS
    numbers = arrays * released + numbers_of_users(chosen, sizes.horizon)
    swept = sizes.horizon * sizes.states**2 * sizes.actions
    seconds = 0.005 + SECONDS_PER_CELL * released + SECONDS_PER_SWEPT_CELL * swept
    return Footprint(released, numbers, seconds, chosen, tree)


def tight(
    public: TabularPublic, rule: AnyRule, choices: Choices, factor: float, log: float
) -> Calibration:
    """The statistic of TabularPSRL, and prefix sums through the counter with the least noise."""
    H, known = public.horizon, public.rewards is not None
    layers = layers_of(H, stationary=public.stationary, known_rewards=known)
    support = support_of(
        None, layers=layers, states=public.states, actions=public.actions, terminal=public.terminal
    )
    bound = BudgetedCounts(support.cells, support.pairs, H, 0.0 if known else BALANCE)
    schedule = choose_schedule(
        choices.schedule, geometric(choices.episodes, first=FIRST, ratio=GROWTH)
    )
    return Calibration(TightTables(public, support, bound, rule, factor, log), schedule)


def paper(public: TabularPublic, rule: AnyRule, choices: Choices, layers: int) -> Calibration:
    """Laplace noise of the printed scale: on the nodes of a tree over the releases, or on every message."""
    learned, local = public.rewards is None, isinstance(choices.privacy, LocalDP)
    # LDP-OBI sums transitions, and counts visits for rewards alone
    pairs = learned or not isinstance(rule, OBIRule)
    bound = VisitCounts(layers, public.states, public.actions, public.horizon, pairs, learned)
    schedule = choose_schedule(choices.schedule, every_episode(choices.episodes))
    factor = 1.0 if choices.bonus_scale is None else choices.bonus_scale
    algorithm = PrintedTables(public, bound, rule, factor)
    if isinstance(choices.privacy, NoPrivacy):
        return Calibration(algorithm, schedule)
    tree = None if local else Tree(schedule.leaves)
    sensitivity = bound.l1_sensitivity(Relation(choices.privacy.relation))
    return Calibration(
        algorithm,
        schedule,
        tree,
        PureDP(sensitivity * (tree.column_norm(1) if tree else 1.0) / rule.scale),
    )


class UCBVI(Learner):
    """Private-UCB-VI: optimistic value iteration on private counts of every step.

    Guarantee: joint DP for every user (`JointDP`), or local DP (`LocalDP`), by one query per user: all counts of the episode together.
    Actions are functions of releases and of a public seed. `NoPrivacy` is UCB-VI without noise.

    Reference: [ChowdhuryZhou21]; calibration="paper": the bonus and the Laplace noise of its central and local privatizers
    (`tables/printed.py`: recalled, not copied), a release per episode. The guarantee states the true epsilon of this noise, which under
    "replace" is larger than the printed one, by a factor of 2, or 4/3 where rewards are known: it is refused, and kept under "null".
    `confide.explain` says from how many users on its bonus lets learning start.

    Departures of "paper": rewards that are known are not counted; terminal states that are known have no bonus; Q is cut at zero from
    below; equal actions are told apart at random. Departures of "tight" (none needed for privacy): the budgeted counts of
    `TabularPSRL`, pooled over steps where they are alike; exact accounting of one query; releases on a geometric schedule through the
    counter with the least noise; the posterior mean of the table; the printed bonus with the standard deviation of the release's noise
    for its bound, a constant for its logarithm, in proportion to the steps left, times `bonus_scale`. Regret is measured, not proved
    (docs/tables.md).
    """

    name = "ucbvi"
    abilities = replace(Learner.abilities, counts=False)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return table_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: TabularPublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
    ) -> None:
        choices = Choices("UCB-VI", episodes, privacy, calibration, schedule, bonus_scale, failure)

        def rule(setting: TableSetting, epsilon: float, learned: bool) -> UCBVIRule:
            return UCBVIRule(setting, epsilon, learned, local=isinstance(privacy, LocalDP))

        super().__init__(
            choices.calibrate(public, rule, factor=0.02, log=50.0), privacy=privacy, noise=noise
        )
