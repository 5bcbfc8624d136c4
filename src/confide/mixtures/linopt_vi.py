"""Private-LinOpt-VI [Zhou22, Alg. 1, Def. 6.2]: optimistic value iteration on two regressions.

This file joins the private side (`contributions`) and the public side (`regression_planning`) under
the agent's name. The name and the version of its identity are part of ledger ids, saved states and
messages.

The two private regressions are those of values and of rewards. With known rewards there is one
regression only, and this is UCRL-VTR [Luyo21, Alg. 1]. LinOpt-PO plans otherwise from the same
regressions. Both have their code here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Algorithm, Calibration, Description, Round, Statistic
from confide.learning.arguments import choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.counters import Tree
from confide.mechanisms.sources import NoiseSource
from confide.mechanisms.symmetric import ISOMETRIC, MIRRORED
from confide.mixtures.contributions import Both, StackedRows, ValueTargets
from confide.mixtures.explorer_planning import EXPLORERS_IN_WORDS
from confide.mixtures.footprint import regression_footprint
from confide.mixtures.printed import PaperConstants, paper_constants
from confide.mixtures.regression_choices import Choices
from confide.mixtures.regression_planning import (
    MixtureEstimates,
    MixturePlanner,
    RegressionSums,
    ValueRound,
    plan_round,
)
from confide.mixtures.requirements import check_assumption_1, learned_coordinates, require_mixture
from confide.mixtures.value_features import ROW_BOUNDS, raw, value_steps
from confide.planners.regression import (
    MakeRegularizer,
    Proven,
    Regression,
    Regularizer,
    Repair,
    Shift,
)
from confide.planners.reward_features import RewardFeatures, centred_rewards, raw_rewards
from confide.privacy.bounded import Array, Bound, Released
from confide.privacy.loss import GaussianDP
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request
from confide.privatizers import Schedule, geometric
from confide.privatizers.schedule import one_tree
from confide.problems.feature_mixture import MixturePublic
from confide.problems.sizes import ProblemSizes
from confide.statistics.bounds import RegressionRows, WeightedRows
from confide.statistics.transitions import RewardTargets

# kappa for rows and targets of about the same size: how tight bounds split the noise between Lambda
# and u. Chosen for a small regret.
BALANCE = 1.05
# How strongly the rows of rewards count beside those of values. On lock-rewards the regret is flat
# between 3/8 and 1.
REWARD_WEIGHT = 0.5
# The bonus of the tight form is this times a standard error. Chosen for a small regret on lock and
# rand.
BONUS_SCALE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Regressions:
    """Both regressions between two releases.

    They turn a release into what it says, and values into the rows of the next users. The bound is
    stacked if rewards are learned.
    """

    planner: MixturePlanner
    bound: RegressionRows | WeightedRows | StackedRows

    @property
    def value_bound(self) -> RegressionRows | WeightedRows:
        return self.bound.first if isinstance(self.bound, StackedRows) else self.bound

    def read(self, released: Released) -> MixtureEstimates:
        noise_std = released.noise.std
        value_sums = released.values[: self.value_bound.size]
        transitions = RegressionSums(*self.value_bound.unpack(value_sums), noise_std)
        rewards = None
        if isinstance(self.bound, StackedRows):
            _, reward_sums = self.bound.split(released.values)
            reward_noise_std = noise_std / self.bound.weight
            rewards = RegressionSums(*self.bound.second.unpack(reward_sums), reward_noise_std)
        return self.planner.learn(transitions, rewards, released.generation)

    def round_of(self, value_round: ValueRound) -> Round:
        """The planned round, with what its users contribute."""
        public = value_round.public
        statistic = self.statistic(value_round.values)
        return Round(public.policies, statistic, public.memory, public.signal, public.shares)

    def statistic(self, values: Array) -> Statistic:
        """What users contribute who are served by a plan with these values [h, s]."""
        planner = self.planner
        weights = 1.0 if planner.plain else None
        transitions = ValueTargets(
            self.value_bound, planner.features, planner.kernels, values, weights
        )
        if not isinstance(self.bound, StackedRows):
            return transitions
        assert planner.reward_features is not None
        rewards = RewardTargets(self.bound.second, planner.reward_features, weights)
        return Both(self.bound, transitions, rewards)

    def describe(self) -> Description:
        planner = self.planner
        planning = planner.regularizer.describe(self.bound.rows)
        if planner.reward_regularizer is not None:
            planning += "; the same for rewards"
        if not planner.plain and planner.explorers:
            planning += f"; {EXPLORERS_IN_WORDS}"
        return Description("paper" if planner.plain else "tight", planning, self.bound.rows)


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticValueIteration:
    """[Zhou22, Alg. 1] and, with known rewards, [Luyo21, Alg. 1] between two releases."""

    regressions: Regressions
    schedule: Schedule

    @property
    def bound(self) -> Bound:
        return self.regressions.bound

    def plan(self, released: Released) -> Round:
        estimates = self.regressions.read(released)
        value_round = plan_round(
            self.regressions.planner, estimates, self.schedule, released.generation
        )
        return self.regressions.round_of(value_round)

    def describe(self) -> Description:
        return self.regressions.describe()


MakeAlgorithm = Callable[[Regressions, Schedule], Algorithm]


def value_iteration(regressions: Regressions, schedule: Schedule) -> OptimisticValueIteration:
    return OptimisticValueIteration(regressions, schedule)


def calibrate(
    public: MixturePublic, choices: Choices, name: str, make_algorithm: MakeAlgorithm
) -> Calibration:
    """The calibration of LinOpt-VI and LinOpt-PO, which learn rewards where they are not known."""
    require_mixture(public, name, known_rewards=False)
    if public.rewards is None and public.reward_features is None:
        raise InvalidParameter(f"{name} needs known rewards, or features in which they are linear")
    if choices.calibration == "tight":
        return tight(public, choices, make_algorithm)
    return paper(public, choices, make_algorithm)


def tight(public: MixturePublic, choices: Choices, make_algorithm: MakeAlgorithm) -> Calibration:
    """The calibration with the least noise that the guarantee needs.

    One joint query, rows in d - 1 dimensions under public weights, repaired eigenvalues, estimates
    on the simplex, and a geometric schedule. Rewards, where they are learned, are centred at 1/2.
    """

    def repair(regression: Regression) -> Regularizer:
        scale = BONUS_SCALE if choices.bonus_scale is None else choices.bonus_scale
        return Repair(regression.balance, scale, simplex=regression.simplex)

    make_regularizer = choices.checked_regularizer() or repair
    coordinates = learned_coordinates(public)
    features = coordinates.feature_map
    steps = value_steps(public.horizon)
    schedule = choose_schedule(choices.schedule, geometric(choices.episodes))
    regression = Regression("transitions", features.dimension, BALANCE, simplex=coordinates.simplex)
    transitions: Regularizer
    if choices.is_proven:
        norm = coordinates.largest_norm
        transitions = proven_regularizer(choices, regression, norm, steps, schedule.leaves)
    else:
        transitions = make_regularizer(regression)
    bound: WeightedRows | StackedRows
    if public.rewards is not None:
        planner = MixturePlanner(
            public,
            features,
            transitions,
            explorers=not choices.is_proven,
            unit=coordinates.unit,
        )
        bound = WeightedRows(steps, features.dimension, BALANCE)
    else:
        if choices.is_proven:
            raise InvalidParameter(
                'exploration="proven" needs known rewards: '
                "no width is proved for the rows of learned ones"
            )
        rewards = centred_rewards(public.reward_features)  # type: ignore[arg-type]
        reward_balance = BALANCE / float(rewards.largest.max())
        planner = MixturePlanner(
            public,
            features,
            transitions,
            reward_features=rewards,
            reward_regularizer=make_regularizer(
                Regression("rewards", rewards.dimension, reward_balance)
            ),
            unit=coordinates.unit,
        )
        bound = StackedRows(
            steps,
            features.dimension,
            BALANCE,
            public.horizon,
            rewards.dimension,
            reward_balance,
            REWARD_WEIGHT,
        )
    return Calibration(make_algorithm(Regressions(planner, bound), schedule), schedule)


def proven_regularizer(
    choices: Choices, regression: Regression, norm: float, problems: int, releases: int
) -> Proven:
    """The regularizer with a proved width, for parameters of at most this norm.

    Rows and targets have the fitting weights, so ||(X, balance y / sqrt(2))|| <= 1.
    """
    return Proven(
        dimension=regression.dimension,
        balance=regression.balance,
        span=2 * math.sqrt(2) / regression.balance,
        parameter_norm=norm,
        episodes=choices.episodes,
        problems=problems,
        releases=releases,
        failure=choices.failure,
    )


def paper(public: MixturePublic, choices: Choices, make_algorithm: MakeAlgorithm) -> Calibration:
    """[Zhou22, Thm. 6.5], with one noise c = sigma_r for all statistics, which one counter adds.

    This needs other units. X = phi_V / (sqrt(d1) H) and y = V / (sqrt(d1) H) with
    kappa = sqrt(d1) have ||X|| <= 1 and kappa |y| <= 1. Then the printed noise is
    sigma_{p,1} / (d1 H^2) = c on Lambda and kappa sigma_{p,2} / (d1 H^2) = c on kappa u. Rewards
    have kappa = 1. With ||phi_V|| <= H (Remark 6.6) it is the same with 1 in place of d1, for
    features that are divided by the bound on ||phi_v||.
    """
    unit = check_assumption_1(public, choices.row_bound)
    d1 = public.dimension
    rewards = None
    if public.rewards is None:
        rewards = raw_rewards(public.reward_features)  # type: ignore[arg-type]
    privacy = choices.privacy
    constants = paper_constants(
        privacy,
        episodes=choices.episodes,
        horizon=public.horizon,
        dimension=d1,
        reward_dimension=1 if rewards is None else rewards.dimension,
        failure=choices.failure,
        row_bound=choices.row_bound,
    )
    kappa = 1.0 if choices.row_bound == "H" else math.sqrt(d1)
    span = kappa * public.horizon
    make_regularizer = choices.checked_regularizer() or printed_shift(choices, constants, span)
    transition_regularizer = make_regularizer(Regression("transitions", d1, kappa))
    reward_regularizer = None
    if rewards is not None:
        reward_regularizer = make_regularizer(Regression("rewards", rewards.dimension, 1.0))
    planner = MixturePlanner(
        public,
        raw(d1, span),
        transition_regularizer,
        rewards,
        reward_regularizer,
        plain=True,
        unit=unit,
    )
    schedule = choose_schedule(choices.schedule, one_tree(choices.episodes))
    bound = plain_rows(public, rewards, kappa, privacy)
    algorithm = make_algorithm(Regressions(planner, bound), schedule)
    if isinstance(privacy, NoPrivacy):
        return Calibration(algorithm, schedule)
    tree = None if isinstance(privacy, LocalDP) else Tree(schedule.leaves)
    column_norm = 1.0 if tree is None else tree.column_norm(2)
    sensitivity = bound.sensitivity(Relation(privacy.relation))
    loss = GaussianDP(sensitivity * column_norm / constants.sigma_r)
    return Calibration(algorithm, schedule, tree, loss)


def plain_rows(
    public: MixturePublic, rewards: RewardFeatures | None, kappa: float, privacy: Request
) -> RegressionRows | StackedRows:
    """The bound on the paper's rows, which is stacked if rewards are learned."""
    d1 = public.dimension
    steps = value_steps(public.horizon)
    # The printed noise is the same on every entry of a matrix. Without noise the coordinates are
    # those of the other agents.
    off_diagonal = ISOMETRIC if isinstance(privacy, NoPrivacy) else MIRRORED
    if rewards is None:
        return RegressionRows(steps, d1, 1.0, 1 / kappa, kappa, public.nonnegative, off_diagonal)
    return StackedRows(
        steps,
        d1,
        kappa,
        public.horizon,
        rewards.dimension,
        1.0,
        plain=True,
        nonnegative=public.nonnegative and bool((rewards.rows >= 0).all()),
        off_diagonal=off_diagonal,
    )


def printed_shift(choices: Choices, constants: PaperConstants, span: float) -> MakeRegularizer:
    """The shift and the width that are printed, for transitions in units of `span`."""
    scale = 1.0 if choices.bonus_scale is None else choices.bonus_scale

    def make(regression: Regression) -> Regularizer:
        if regression.name == "transitions":
            length = span
            regularity = constants.transitions
            beta = constants.beta_p
        else:
            length = 1.0
            regularity = constants.rewards
            beta = constants.beta_r
        shift = (regularity.lambda_min + regularity.lambda_max) / 2
        return Shift(shift / length**2, scale * beta / length)

    return make


class LinOptVI(Learner):
    """Private-LinOpt-VI: optimistic value iteration on two private regressions.

    They are the regressions of values and of rewards.

    Guarantee: joint DP for every user (`privacy`; `LocalDP` noises on the device), by one query per
    user: all steps of both regressions together, D^2 = (H - 1) D_p^2 + H w^2 D_r^2, where w is the
    split of the budget. Rewards are clipped to [0, 1] user by user. delta = 0 gives Laplace noise;
    `NoPrivacy` is the same algorithm without noise. The certificate states the epsilon of the noise
    that is added, also for calibration="paper", and a nominal epsilon that the printed constants do
    not keep is refused with the true one.

    Reference: [Zhou22, Alg. 1 (LinOpt-VI-Reg), Def. 6.2]; local: Remark 6.9, which prints no
    constants. With known rewards (`public.rewards`) there is one regression only.
    calibration="paper" needs ||w|| <= sqrt(d1) and ||phi_V|| <= sqrt(d1) H (Assumption 1).
    `row_bound="H"` assumes ||phi_V|| <= H instead (Remark 6.6), for features divided by
    `public.value_bound`, also for kernels.

    | line of Algorithm 1 | what | here |
    |---|---|---|
    | 1 | Lambda^1, u^1 | `Shift.estimate` adds 2 Sigma I; sums of nobody are zero |
    | 2 | for k = 1, ..., K | `Learner.next_batch` and `Learner.observe` |
    | 3 | V_{H+1} = 0 | `_kernels.optimistic` |
    | 4 | for h = H, ..., 1 | `_kernels.optimistic` |
    | 5 | theta_p = Lambda_p^-1 u_p | `MixturePlanner.learn` with the regularizer (`Shift`) |
    | 6 | theta_r = Lambda_r^-1 u_r | `MixturePlanner.learn` with the regularizer (`Shift`) |
    | 7 | phi = sum_s' psi V | `_kernels.value_features` |
    | 8 | Gamma_p = beta_p sqrt(phi^T Lambda_p^-1 phi) | `_kernels.optimistic` |
    | 8 | beta_p | `printed.paper_constants` |
    | 9 | Gamma_r = beta_r sqrt(varphi^T Lambda_r^-1 varphi) | `planning.optimistic_rewards` |
    | 10 | Q = max(0, min(H - h + 1, ...)) | `_kernels.optimistic` |
    | 11, 12 | V = max_a Q, pi = argmax_a Q | `planning.optimistic` |
    | 13 | roll out a trajectory with pi | `OptimisticPlan.policy`, played by a release's users |
    | 14 | statistics from the REGULARIZER | `ValueTargets`, `RewardTargets`, `StackedRows` |
    | 14 | the PRIVATIZER | `central.CounterNoise` |

    Departures of "tight" (none needed for privacy): those of `UCRLVTR`; rewards centred at 1/2 and
    weighted by public weights; estimated rewards clipped to [0, 1]; entries of Lambda_r that the
    features make zero are set to zero. Regret is measured, not proved.

    Departures of "paper": statistics use phi^j of episode j, as the P-sums of Sec. 6.1 do and its
    definition of G does not, and Lambda starts at the shift; the last two users share a release, so
    that a tree over the episodes has the printed m levels; step H has no regression of values,
    because V_{H+1} = 0 makes its rows zero; there are no printed constants for delta = 0, which is
    refused. The noise has the printed standard deviation on every entry of a matrix, also off the
    diagonal.
    """

    name = "linopt-vi"
    profile = Profile(
        "optimistic value iteration; can also learn rewards",
        family="mixture",
        paper="Zhou22",
        stuck="more kernels than actions",
    )

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return regression_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: MixturePublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
        regularizer: MakeRegularizer | None = None,
        exploration: str = "measured",
        row_bound: str = ROW_BOUNDS[0],
    ) -> None:
        choices = Choices(
            episodes,
            privacy,
            calibration,
            schedule,
            bonus_scale,
            failure,
            regularizer,
            exploration,
            row_bound,
        )
        identity = Identity(
            self.name,
            1,
            public=public,
            calibration=calibration,
            bonus_scale=bonus_scale,
            failure=failure,
            own_regularizer=regularizer is not None,
            exploration=exploration,
            **choices.named_row_bound,
        )
        super().__init__(
            calibrate(public, choices, "LinOpt-VI", value_iteration),
            privacy=privacy,
            identity=identity,
            noise=noise,
        )

    def describe(self) -> Description:
        description = super().describe()
        algorithm = self.algorithm
        has_known_rewards = (
            isinstance(algorithm, OptimisticValueIteration)
            and algorithm.regressions.planner.public.rewards is not None
        )
        if not has_known_rewards or description.calibration != "tight":
            return description
        planning = f"{description.planning}; rewards are known, so this is ucrl-vtr"
        return replace(description, planning=planning)
