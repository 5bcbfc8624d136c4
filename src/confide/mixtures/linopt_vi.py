"""Private-LinOpt-VI [Zhou22, Alg. 1, Def. 6.2]: optimistic value iteration on two private regressions, of values and of rewards.

With known rewards there is one regression only, and this is UCRL-VTR [Luyo21, Alg. 1]. LinOpt-PO plans otherwise from the same regressions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from confide.arguments import choice, has, shown
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Algorithm, Calibration, Description, Round, Statistic
from confide.learning.arguments import check_choices, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.counters import Tree
from confide.mechanisms.sources import NoiseSource
from confide.mechanisms.symmetric import ISOMETRIC, MIRRORED
from confide.mixtures.contributions import Both, StackedRows, ValueTargets
from confide.mixtures.explorer_planning import SAID
from confide.mixtures.footprint import regression_footprint
from confide.mixtures.printed import ROW_BOUNDS, paper_constants
from confide.mixtures.regression_planning import (
    Knowledge,
    MixturePlanner,
    RegressionSums,
    ValueRound,
    plan_round,
)
from confide.mixtures.requirements import (
    check_assumption_1,
    learned_coordinates,
    require_mixture,
)
from confide.mixtures.value_features import raw, value_steps
from confide.planners.regression import (
    MakeRegularizer,
    Proven,
    Regression,
    Regularizer,
    Repair,
    Shift,
)
from confide.planners.reward_features import centred_rewards, raw_rewards
from confide.privacy.bounded import Array, Bound, Released
from confide.privacy.loss import GaussianDP
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request
from confide.privatizers import Schedule, geometric
from confide.privatizers.schedule import one_tree
from confide.problems.feature_mixture import MixturePublic
from confide.problems.sizes import ProblemSizes
from confide.statistics.bounds import RegressionRows, WeightedRows
from confide.statistics.transitions import RewardTargets

# kappa for rows and targets of about the same size: how tight bounds split the noise between Lambda and u
BALANCE = 1.05
EXPLORATIONS = ("measured", "proven")
# of the reward rows beside the value rows: on lock-rewards regret is flat between 3/8 and 1
REWARD_WEIGHT = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Regressions:
    """Both regressions between two releases: from a release to what it says, and from values to the rows of the next users."""

    planner: MixturePlanner
    bound: RegressionRows | WeightedRows | StackedRows  # stacked: with rewards

    @property
    def value_bound(self) -> RegressionRows | WeightedRows:
        return self.bound.first if isinstance(self.bound, StackedRows) else self.bound

    def read(self, released: Released) -> Knowledge:
        noise_std, values = released.noise.std, released.values[: self.value_bound.size]
        transitions, rewards = RegressionSums(*self.value_bound.unpack(values), noise_std), None
        if isinstance(self.bound, StackedRows):
            _, values = self.bound.split(released.values)
            rewards = RegressionSums(
                *self.bound.second.unpack(values), noise_std / self.bound.weight
            )
        return self.planner.learn(transitions, rewards, released.generation)

    def round_of(self, planned: ValueRound) -> Round:
        """The planned round, with what its users contribute."""
        public = planned.public
        statistic = self.statistic(planned.values)
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
        words = planner.regularizer.describe(self.bound.rows)
        if planner.reward_regularizer is not None:
            words += "; the same for rewards"
        if not planner.plain and planner.explorers:
            words += f"; {SAID}"
        return Description("paper" if planner.plain else "tight", words, self.bound.rows)


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticValueIteration:
    """[Zhou22, Alg. 1] and, with known rewards, [Luyo21, Alg. 1] between two releases."""

    regressions: Regressions
    schedule: Schedule

    @property
    def bound(self) -> Bound:
        return self.regressions.bound

    def plan(self, released: Released) -> Round:
        known = self.regressions.read(released)
        planned = plan_round(self.regressions.planner, known, self.schedule, released.generation)
        return self.regressions.round_of(planned)

    def describe(self) -> Description:
        return self.regressions.describe()


MakeAlgorithm = Callable[[Regressions, Schedule], Algorithm]


@dataclass(frozen=True, slots=True)
class Choices:
    """The arguments that UCRL-VTR, LinOpt-VI and LinOpt-PO share."""

    episodes: int
    privacy: Request
    calibration: str = "tight"
    schedule: Schedule | None = None
    bonus_scale: float | None = None
    failure: float = 0.1
    regularizer: MakeRegularizer | None = None
    exploration: str = "measured"
    row_bound: str = ROW_BOUNDS[0]  # of [Zhou22]

    def __post_init__(self) -> None:
        choice("row_bound", self.row_bound, ROW_BOUNDS)
        if self.row_bound != ROW_BOUNDS[0] and self.calibration != "paper":
            raise InvalidParameter('row_bound is part of calibration="paper": omit row_bound')
        check_choices(self.calibration, self.bonus_scale, self.failure)
        if choice("exploration", self.exploration, EXPLORATIONS) == "proven":
            self._check_proven()
        if self.regularizer is not None and not callable(self.regularizer):
            raise InvalidParameter(
                f"regularizer must be a function of a regression, got regularizer={shown(self.regularizer)}"
            )
        if self.regularizer is not None and self.bonus_scale is not None:
            raise InvalidParameter("a custom regularizer determines the width: omit bonus_scale")

    def _check_proven(self) -> None:
        if (
            self.calibration != "tight"
            or self.bonus_scale is not None
            or self.regularizer is not None
        ):
            raise InvalidParameter(
                'exploration="proven" determines the width: omit calibration, bonus_scale and regularizer'
            )
        gaussian = not self.privacy.trust.devices and self.privacy.delta > 0
        if not (gaussian or isinstance(self.privacy, NoPrivacy)):
            raise InvalidParameter(
                'exploration="proven" is proved for Gaussian noise: use JointDP with delta > 0, or NoPrivacy'
            )

    @property
    def named_row_bound(self) -> dict[str, str]:
        """For an identity. The usual bound is not named, so saved states of it stay valid."""
        return {} if self.row_bound == ROW_BOUNDS[0] else {"row_bound": self.row_bound}

    def checked_regularizer(self) -> MakeRegularizer | None:
        """The caller's function, whose results are checked."""
        given = self.regularizer
        if given is None:
            return None

        def make(regression: Regression) -> Regularizer:
            what = "what the regularizer of a regression has"
            made: Regularizer = has(
                "regularizer(regression)", given(regression), ("estimate", "width"), what
            )
            return made

        return make

    def proven(self, regression: Regression, norm: float, problems: int, releases: int) -> Proven:
        """Rows and targets under fitting weights: ||(X, balance y / sqrt(2))|| <= 1; `norm` is the largest of theta."""
        m = regression.dimension
        span = 2 * math.sqrt(2) / regression.balance
        return Proven(
            m, regression.balance, span, norm, self.episodes, problems, releases, self.failure
        )

    def calibrate(self, public: MixturePublic, name: str, make: MakeAlgorithm) -> Calibration:
        """For LinOpt-VI and LinOpt-PO, which learn rewards where they are not known."""
        require_mixture(public, name, known_rewards=False)
        if public.rewards is None and public.reward_features is None:
            raise InvalidParameter(
                f"{name} needs known rewards, or features in which they are linear"
            )
        return (tight if self.calibration == "tight" else paper)(public, self, make)


def tight(public: MixturePublic, choices: Choices, make_algorithm: MakeAlgorithm) -> Calibration:
    """One joint query, rows in d - 1 dimensions under public weights, repaired eigenvalues, estimates on the simplex, a geometric schedule.

    Rewards, where they are learned, are centred at 1/2.
    """

    def repair(regression: Regression) -> Regularizer:
        scale = 0.1 if choices.bonus_scale is None else choices.bonus_scale
        return Repair(regression.balance, scale, simplex=regression.simplex)

    coordinates, H = learned_coordinates(public), public.horizon
    make, features = choices.checked_regularizer() or repair, coordinates.feature_map
    m, kappa = features.dimension, BALANCE
    schedule = choose_schedule(choices.schedule, geometric(choices.episodes))
    regression, proven = (
        Regression("transitions", m, kappa, simplex=coordinates.simplex),
        choices.exploration == "proven",
    )
    transitions = (
        choices.proven(regression, coordinates.largest_norm, value_steps(H), schedule.leaves)
        if proven
        else make(regression)
    )
    if public.rewards is not None:
        planner = MixturePlanner(
            public, features, transitions, explorers=not proven, unit=coordinates.unit
        )
        regressions = Regressions(planner, WeightedRows(value_steps(H), m, kappa))
        return Calibration(make_algorithm(regressions, schedule), schedule)
    if proven:
        raise InvalidParameter(
            'exploration="proven" needs known rewards: no width is proved for the rows of learned ones'
        )
    assert public.reward_features is not None
    varphi = centred_rewards(public.reward_features)
    kappa_r = BALANCE / float(varphi.largest.max())
    bound = StackedRows(value_steps(H), m, kappa, H, varphi.dimension, kappa_r, REWARD_WEIGHT)
    rewards = make(Regression("rewards", varphi.dimension, kappa_r))
    planner = MixturePlanner(public, features, transitions, varphi, rewards, unit=coordinates.unit)
    regressions = Regressions(planner, bound)
    return Calibration(make_algorithm(regressions, schedule), schedule)


def paper(public: MixturePublic, choices: Choices, make_algorithm: MakeAlgorithm) -> Calibration:
    """[Zhou22, Thm. 6.5], in units where all its noises are one number c = sigma_r, so that one counter of that scale adds them:

    X = phi_V / (sqrt(d1) H) and y = V / (sqrt(d1) H) with kappa = sqrt(d1) have ||X|| <= 1, kappa |y| <= 1, and the printed noise
    sigma_{p,1} / (d1 H^2) = c on Lambda and kappa sigma_{p,2} / (d1 H^2) = c on kappa u; rewards have kappa = 1. With ||phi_V|| <= H
    (Remark 6.6) the same with 1 in place of d1, for features that are divided by the bound on ||phi_v||.
    """
    unit = check_assumption_1(public, choices.row_bound)
    H, d1, privacy = public.horizon, public.dimension, choices.privacy
    varphi = None if public.rewards is not None else raw_rewards(public.reward_features)  # type: ignore[arg-type]
    d2 = varphi.dimension if varphi else 1
    found = paper_constants(
        privacy,
        episodes=choices.episodes,
        horizon=H,
        dimension=d1,
        reward_dimension=d2,
        failure=choices.failure,
        row_bound=choices.row_bound,
    )
    kappa = 1.0 if choices.row_bound == "H" else math.sqrt(d1)
    span = kappa * H

    def shift(regression: Regression) -> Regularizer:
        length, regularity, beta = (
            (span, found.transitions, found.beta_p)
            if regression.name == "transitions"
            else (1.0, found.rewards, found.beta_r)
        )
        scale = 1.0 if choices.bonus_scale is None else choices.bonus_scale
        return Shift(
            (regularity.lambda_min + regularity.lambda_max) / 2 / length**2, scale * beta / length
        )

    make = choices.checked_regularizer() or shift
    transitions, features = make(Regression("transitions", d1, kappa)), raw(d1, span)
    schedule = choose_schedule(choices.schedule, one_tree(choices.episodes))
    bound: RegressionRows | StackedRows
    # The printed noise is the same on every entry. Without noise the coordinates are those of the other agents.
    off_diagonal = ISOMETRIC if isinstance(privacy, NoPrivacy) else MIRRORED
    if varphi is None:
        bound = RegressionRows(
            value_steps(H), d1, 1.0, 1 / kappa, kappa, public.nonnegative, off_diagonal
        )
        planner = MixturePlanner(public, features, transitions, plain=True, unit=unit)
    else:
        positive = public.nonnegative and bool((varphi.rows >= 0).all())
        bound = StackedRows(
            value_steps(H),
            d1,
            kappa,
            H,
            d2,
            1.0,
            plain=True,
            nonnegative=positive,
            off_diagonal=off_diagonal,
        )
        rewards = make(Regression("rewards", d2, 1.0))
        planner = MixturePlanner(
            public, features, transitions, varphi, rewards, plain=True, unit=unit
        )
    algorithm = make_algorithm(Regressions(planner, bound), schedule)
    if isinstance(privacy, NoPrivacy):
        return Calibration(algorithm, schedule)
    tree = None if isinstance(privacy, LocalDP) else Tree(schedule.leaves)
    seen = tree.column_norm(2) if tree else 1.0
    loss = GaussianDP(bound.sensitivity(Relation(privacy.relation)) * seen / found.sigma_r)
    return Calibration(algorithm, schedule, tree, loss)


def value_iteration(regressions: Regressions, schedule: Schedule) -> OptimisticValueIteration:
    return OptimisticValueIteration(regressions, schedule)


class LinOptVI(Learner):
    """Private-LinOpt-VI: optimistic value iteration on two private regressions, of values and of rewards.

    Guarantee: joint DP for every user (`privacy`; `LocalDP` noises on the device), by one query per user: all steps of both regressions
    together, D^2 = (H - 1) D_p^2 + H w^2 D_r^2, w the split of the budget. Rewards are clipped to [0, 1] user by user. delta = 0 gives
    Laplace noise; `NoPrivacy` is the same algorithm without noise. The certificate states the epsilon of the noise that is added, also
    for calibration="paper", and a nominal epsilon that the printed constants do not keep is refused with the true one.

    Reference: [Zhou22, Alg. 1 (LinOpt-VI-Reg), Def. 6.2]; local: Remark 6.9, which prints no constants. With known rewards
    (`public.rewards`) there is one regression only. calibration="paper" needs ||w|| <= sqrt(d1) and ||phi_V|| <= sqrt(d1) H (Assumption 1).
    `row_bound="H"` assumes ||phi_V|| <= H instead (Remark 6.6), for features divided by `public.value_bound`, also for kernels.

    | line of Algorithm 1 | what | here |
    |---|---|---|
    | 1 | Lambda^1, u^1 | `Shift.estimate` adds 2 Sigma I; sums of nobody are zero |
    | 2 | for k = 1, ..., K | `Learner.next_batch` and `Learner.observe` |
    | 3 | V_{H+1} = 0 | `_kernels.optimistic` |
    | 4 | for h = H, ..., 1 | `_kernels.optimistic` |
    | 5, 6 | theta_p = Lambda_p^-1 u_p, theta_r = Lambda_r^-1 u_r | `MixturePlanner.learn` with the regularizer (`Shift`) |
    | 7 | phi = sum_s' psi V | `_kernels.value_features` |
    | 8 | Gamma_p = beta_p sqrt(phi^T Lambda_p^-1 phi) | `_kernels.optimistic`; beta_p in `printed.paper_constants` |
    | 9 | Gamma_r = beta_r sqrt(varphi^T Lambda_r^-1 varphi) | `planning.optimistic_rewards` |
    | 10 | Q = max(0, min(H - h + 1, ...)) | `_kernels.optimistic` |
    | 11, 12 | V = max_a Q, pi = argmax_a Q | `planning.optimistic` |
    | 13 | roll out a trajectory with pi | `OptimisticPlan.policy`, which the users of a release play |
    | 14 | statistics from the REGULARIZER | `ValueTargets`, `RewardTargets`, `StackedRows`; `CounterNoise` is the PRIVATIZER |

    Departures of "tight" (none needed for privacy): those of `UCRLVTR`; rewards centred at 1/2 and weighted by public weights; estimated
    rewards clipped to [0, 1]; entries of Lambda_r that the features make zero are set to zero. Regret is measured, not proved.
    Departures of "paper": statistics use phi^j of episode j, as the P-sums of Sec. 6.1 do and its definition of G does not, and Lambda
    starts at the shift; the last two users share a release, so that a tree over the episodes has the printed m levels; step H has no
    regression of values, because V_{H+1} = 0 makes its rows zero; there are no printed constants for delta = 0, which is refused. The noise
    has the printed standard deviation on every entry of a matrix, also off the diagonal.
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
        made = choices.calibrate(public, "LinOpt-VI", value_iteration)
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
        super().__init__(made, privacy=privacy, identity=identity, noise=noise)

    def describe(self) -> Description:
        said, same = super().describe(), "; rewards are known, so this is ucrl-vtr"
        known = (
            isinstance(self.algorithm, OptimisticValueIteration)
            and self.algorithm.regressions.planner.public.rewards is not None
        )
        return (
            replace(said, planning=said.planning + same)
            if known and said.calibration == "tight"
            else said
        )
