"""UCRL-VTR+ [Luyo21, Alg. 3], as printed and with the least noise that the guarantee needs: rows weighted by estimated variances."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.arguments import check_choices, choose_schedule
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.mixtures.contributions import Both, PairedTargets, StackedRows, ValueTargets
from confide.mixtures.explorer_planning import SAID, served, targets, wider
from confide.mixtures.footprint import regression_footprint
from confide.mixtures.linopt_vi import BALANCE, known_mixture
from confide.mixtures.planning import optimistic
from confide.mixtures.printed import PrintedPlus, Setting, printed_plus
from confide.mixtures.value_features import (
    FeatureMap,
    SparseKernels,
    fitted,
    raw,
    reduced,
    sparse,
    value_steps,
)
from confide.mixtures.variance_planning import (
    largest_plausible,
    largest_possible,
    moment,
    variance_weights,
)
from confide.planners.regression import Repair, Shift, Width, mean_eigenvalue
from confide.privacy.bounded import Released
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule, every_episode, geometric
from confide.problems.linear_mixture import LinearMixturePublic
from confide.problems.sizes import ProblemSizes
from confide.statistics.bounds import RegressionRows

Array = npt.NDArray[np.float64]
# of the second regression: its noise is 8 times the first one's, and the first one's grows by 0.8 %
SHARE = 0.125


@dataclass(frozen=True, slots=True, eq=False)
class PrintedPlanning:
    """[Luyo21, Alg. 3] between two releases, with the printed shifts and widths; features are kernels / sqrt(d), values in [0, H]."""

    features: Array = field(repr=False)  # phi(s' | s, a) [i, s, a, s']
    rewards: Array = field(repr=False)
    constants: PrintedPlus
    bonus_scale: float = 1.0

    @property
    def bound(self) -> RegressionRows:
        return self.constants.bound

    def plan(self, released: Released) -> Round:
        H, d, n = len(self.rewards), len(self.features), self.bound.steps // 2
        Lambda, u = self.bound.unpack(released.values)
        check, hat, tilde = self.constants.widths(released.users + 1)
        unit = H**4 / d  # of the second regression: its rows come as sqrt(d) / H^2 times phi_{V^2}
        shifts = [self.constants.ridge + 2 * upsilon for upsilon in self.constants.upsilon]
        weighted, squares = Shift(shifts[0], hat * self.bonus_scale), Shift(shifts[1], tilde)
        first = weighted.estimate(Lambda[:n], u[:n], noise_std=released.noise.std)
        second = squares.estimate(
            unit * Lambda[n:], unit * u[n:], noise_std=unit * released.noise.std
        )
        coordinates = raw(d)
        seen = sparse(coordinates, self.features)
        plan = optimistic(
            seen,
            self.rewards,
            first,
            feature_map=coordinates,
            width=weighted.width(noise_std=0.0),
            ceiling=np.full(H, float(H)),
        )
        later = plan.values[1 : n + 1]
        mean = moment(
            coordinates, seen, later, first, Width(check**2, 0.0, factor=1.0, cap=math.inf)
        )
        square = moment(coordinates, seen, later**2, second, squares.width(noise_std=0.0))
        variances = np.maximum(H**2 / d, largest_plausible(mean, square, H))  # sbar^2
        one = replace(self.bound, steps=n)
        statistic = PairedTargets(
            self.bound,
            ValueTargets(one, coordinates, seen, plan.values, 1 / np.sqrt(variances)),
            ValueTargets(one, coordinates, seen, plan.values**2, math.sqrt(d) / H**2),
        )
        return Round(
            (plan.policy,),
            statistic,
            signal=mean_eigenvalue(Lambda[:n]) if released.generation else None,
        )

    def describe(self) -> Description:
        constants = self.constants
        first = Shift(
            constants.ridge + 2 * constants.upsilon[0], constants.widths(1)[1] * self.bonus_scale
        )
        return Description(
            "paper", f"{first.describe(self.bound.rows)} and growing", self.bound.rows
        )


@dataclass(frozen=True, slots=True, eq=False)
class VarianceAwarePlanning:
    """[Luyo21, Alg. 3] between two releases, with the means of `UCRLVTR`: reduced features, public weights, repaired eigenvalues."""

    kernels: Array = field(repr=False)
    rewards: Array = field(repr=False)
    features: FeatureMap
    bound: StackedRows
    regularizer: Repair
    schedule: Schedule

    def plan(self, released: Released) -> Round:
        (Lambda, u), (Lambda2, u2) = (
            part.unpack(values)
            for part, values in zip(
                (self.bound.first, self.bound.second),
                self.bound.split(released.values),
                strict=True,
            )
        )
        noise_std, noise2_std = released.noise.std, released.noise.std / self.bound.weight
        first = self.regularizer.estimate(Lambda, u, noise_std=noise_std)
        second = self.regularizer.estimate(Lambda2, u2, noise_std=noise2_std)
        width, width2 = (self.regularizer.width(noise_std=std) for std in (noise_std, noise2_std))
        seen = sparse(self.features, self.kernels)
        plan = optimistic(seen, self.rewards, first, feature_map=self.features, width=width)
        explorer = optimistic(
            seen, self.rewards, first, feature_map=self.features, width=wider(width)
        )
        later = scaled(targets(plan.values, explorer.values)[1 : self.bound.steps + 1])
        mean = moment(self.features, seen, later, first, width)
        square = moment(self.features, seen, later**2, second, width2)
        possible = largest_possible(self.kernels, later)
        variances = np.clip(
            largest_plausible(mean, square, 1.0), possible / len(self.kernels), possible
        )
        signal = np.maximum(np.trace(Lambda, axis1=1, axis2=2) / self.features.dimension, 1.0)
        weights = self._weights(seen, later, variances, width.noise / signal)
        statistic = Both(
            self.bound,
            ValueTargets(self.bound.first, self.features, seen, after_first(later), weights),
            ValueTargets(self.bound.second, self.features, seen, after_first(later**2)),
        )
        policies, shares = served(
            plan.policy, explorer.policy, self.schedule.times, released.generation
        )
        return Round(
            policies,
            statistic,
            signal=float(signal.mean()) if released.generation else None,
            shares=shares,
        )

    def _weights(self, seen: SparseKernels, later: Array, variances: Array, noise: Array) -> Array:
        features, fitting = fitted(self.features, seen, later, balance=self.bound.balance)
        return variance_weights(fitting, features.rows, variances, noise=noise)

    def describe(self) -> Description:
        planning = f"{self.regularizer.describe(self.bound.rows)}; rows weighted by estimated variances; {SAID}"
        return Description("tight", planning, self.bound.rows)


def scaled(values: Array) -> Array:
    """Each step's values [h, s] centred and scaled to [0, 1]: squares, and variances, are then on one scale."""
    low, span = values.min(axis=1, keepdims=True), np.ptp(values, axis=1)[:, None]
    return np.asarray((values - low) / np.where(span > 0, span, 1.0))


def after_first(later: Array) -> Array:
    """Values [h, s] after each step, as `ValueTargets` expects them: with the value at the first step, which nobody looks at, before."""
    return np.concatenate([np.zeros_like(later[:1]), later])


class UCRLVTRPlus(Learner):
    """UCRL-VTR+: value-targeted least squares weighted by estimated variances, and a second regression, on squared values, for these.

    Guarantee: as `UCRLVTR`'s: one query per user, of both regressions and all steps together. The variances, and so the weights, are
    functions of releases alone.

    Reference: [Luyo21, Alg. 3]; calibration="paper": Cor. 10 (joint), Cor. 11 (local), Remark 6 (delta = 0), with the printed noise,
    shifts and widths (that of the bonus times `bonus_scale`), a release per episode, and lambda = 1.

    Departures of "paper": Q is clipped at 0 from below; noise is symmetrised and in the coordinates of `svec`, and the shift is there from
    the first episode on, as in `UCRLVTR`; the updates of Alg. 3, damaged in print, are those of [Zhou21]: Lambda^ += sbar^-2 phi_V phi_V^T,
    u^ += sbar^-2 phi_V V(s'), Lambda~ += phi_{V^2} phi_{V^2}^T, u~ += phi_{V^2} V^2(s').

    Departures of "tight": those of `UCRLVTR`, for both regressions; values scaled to [0, 1] before they are squared; the second
    regression takes 1/8 of the sensitivity of the first, because variances need little accuracy; a variance is at most what is possible at
    (s, a) and at least 1/d of that; and inverse variances are used only as far as the noise leaves them worth it, because a row below the
    largest weight that the bound allows drowns in it (`planners.variance.variance_weights`).
    """

    name = "ucrl-vtr-plus"
    profile = Profile(
        "ucrl-vtr, with users weighted by the estimated variance of the next value",
        family="mixture",
        paper="Luyo21",
        known_rewards=True,
        stuck="more kernels than actions, or kernels that differ far from the start only",
    )

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return regression_footprint(
            sizes, episodes=episodes, privacy=privacy, regressions=2, **options
        )

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        noise: NoiseSource | None = None,
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
    ) -> None:
        known_mixture(public, "UCRL-VTR+")
        check_choices(calibration, bonus_scale, failure)
        times = choose_schedule(
            schedule, geometric(episodes) if calibration == "tight" else every_episode(episodes)
        )
        if calibration == "tight":
            made = tight(public, times, bonus_scale)
        else:
            made = paper(public, privacy, times, bonus_scale, failure)
        identity = Identity(
            self.name,
            1,
            public=public,
            calibration=calibration,
            bonus_scale=bonus_scale,
            failure=failure,
        )
        super().__init__(made, privacy=privacy, identity=identity, noise=noise)


def tight(
    public: LinearMixturePublic, schedule: Schedule, bonus_scale: float | None = None
) -> Calibration:
    assert public.rewards is not None
    features, n = reduced(public.dimension), value_steps(public.horizon)
    bound = StackedRows(n, features.dimension, BALANCE, n, features.dimension, BALANCE, SHARE)
    regularizer = Repair(BALANCE, 0.1 if bonus_scale is None else bonus_scale, simplex=features)
    return Calibration(
        VarianceAwarePlanning(
            public.kernels, public.rewards, features, bound, regularizer, schedule
        ),
        schedule,
    )


def paper(
    public: LinearMixturePublic,
    privacy: Request,
    schedule: Schedule,
    bonus_scale: float | None = None,
    failure: float = 0.1,
) -> Calibration:
    assert public.rewards is not None
    setting = Setting(schedule.users, public.horizon, public.dimension, failure, schedule.leaves)
    constants, scale = printed_plus(privacy, setting), 1.0 if bonus_scale is None else bonus_scale
    planning = PrintedPlanning(
        public.kernels / math.sqrt(public.dimension), public.rewards, constants, scale
    )
    tree = None if isinstance(privacy, LocalDP | NoPrivacy) else setting.tree
    return Calibration(planning, schedule, tree, constants.loss)
