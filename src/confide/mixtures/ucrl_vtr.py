"""UCRL-VTR [Luyo21, Alg. 1], as printed and with as little noise as the promise needs."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.learning.arguments import check_choices, choose_schedule
from confide.learning.learner import Learner, Round
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import NoiseSource
from confide.mixtures.contributions import ValueTargets
from confide.mixtures.planning import optimistic
from confide.mixtures.printed import Setting, printed, value_steps
from confide.mixtures.regressions import BALANCE, default_schedule, known_mixture
from confide.mixtures.value_features import FeatureMap, SparseKernels, raw, reduced, sparse
from confide.planners.regression import Regularizer, Repair, Shift, mean_eigenvalue
from confide.privacy.bounded import Released
from confide.privacy.loss import Loss
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule
from confide.problems.linear_mixture import LinearMixturePublic
from confide.statistics.bounds import RegressionRows, WeightedRows

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """All that is chosen before the data, besides the algorithm itself."""

    features: FeatureMap
    bound: RegressionRows | WeightedRows
    regularizer: Regularizer
    schedule: Schedule
    counter: Factorisation | None = None  # None: the one with the least noise
    loss: Loss | None = None  # None: what was asked for; printed constants really give another
    unit: float = 1.0  # features are kernels / unit
    weights: float | None = None  # of rows: None for the public ones that make every possible row fit the bound
    ceiling: Array | None = field(default=None, repr=False)  # of Q_h [h]


def tight(public: LinearMixturePublic, schedule: Schedule, *, bonus_scale: float | None = None) -> Calibration:
    """One joint query, rows in d - 1 dimensions under public weights, repaired eigenvalues, estimates on the simplex."""
    features = reduced(public.dimension)
    bound = WeightedRows(value_steps(public.horizon), features.dimension, balance=BALANCE)
    regularizer = Repair(bound.balance, 0.1 if bonus_scale is None else bonus_scale, simplex=features)
    return Calibration(features, bound, regularizer, schedule)


def paper(
    public: LinearMixturePublic, privacy: Request, schedule: Schedule, *, bonus_scale: float | None = None, failure: float = 0.1
) -> Calibration:
    """[Luyo21, Cor. 5] (joint), [Cor. 6] (local), [C.4] (delta = 0), and without noise Upsilon = 0."""
    H, d = public.horizon, public.dimension
    setting = Setting(schedule.users, H, d, failure, schedule.leaves)
    made = printed(privacy, setting)
    regularizer = Shift(made.ridge + 2 * made.upsilon, made.beta * (1.0 if bonus_scale is None else bonus_scale))
    through_tree = not isinstance(privacy, LocalDP | NoPrivacy)
    return Calibration(
        raw(d),
        made.bound,
        regularizer,
        schedule,
        counter=setting.tree if through_tree else None,
        loss=made.loss,
        unit=math.sqrt(d),
        weights=1.0,
        ceiling=np.full(H, float(H)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ValueTargetedPlanning:
    """[Luyo21, Alg. 1] between two releases: regularised least squares, optimistic backward induction, and the rows of the next users."""

    kernels: Array = field(repr=False)  # phi(s' | s, a) [i, s, a, s']
    rewards: Array = field(repr=False)
    features: FeatureMap
    bound: RegressionRows | WeightedRows
    regularizer: Regularizer
    weights: float | None = None
    ceiling: Array | None = field(default=None, repr=False)

    _seen: SparseKernels = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_seen", sparse(self.features, self.kernels))

    def plan(self, released: Released) -> Round:
        Lambda, u = self.bound.unpack(released.values)
        noise_std = released.noise.std
        estimate, width = self.regularizer.estimate(Lambda, u, noise_std=noise_std), self.regularizer.width(noise_std=noise_std)
        plan = optimistic(self._seen, self.rewards, estimate, feature_map=self.features, width=width, ceiling=self.ceiling)
        statistic = ValueTargets(self.bound, self.features, self._seen, plan.values, self.weights)
        return Round((plan.policy,), statistic, signal=mean_eigenvalue(Lambda) if released.generation else None)


class UCRLVTR(Learner):
    """UCRL-VTR: optimistic planning on value-targeted least squares, from private prefix sums.

    Promise: joint DP for every user (`privacy`), by one query per user (all steps together) through one counter; under `LocalDP` the same
    query, noised on the user's device; delta = 0 gives Laplace noise. Actions are functions of releases alone. `NoPrivacy` is the same
    algorithm without noise.

    Reference: [Luyo21, Alg. 1]; calibration="paper": Cor. 5, Cor. 6 and C.4, with Q clipped to [0, H], a release per episode, and the
    printed noise, shift and width (times `bonus_scale`). The guarantee states what that noise really gives, and constants that give more
    than was asked for are refused with that number: at delta = 0 those of C.4 are, except in small problems (`confide.explain` says so
    before a run).

    Departures of "paper": Q is clipped at 0 from below, without which the printed sensitivity is false; matrices carry noise in the
    isometric coordinates of `svec`, with the printed standard deviations; the shift is there from the first episode on; with another
    schedule the tree, and K_0, are over its releases. Departures of "tight" (each for less noise at the same promise, none needed for
    privacy): exact accounting of one joint query instead of composition over steps; GOE noise; values centred and scaled to [0, 1] and
    mixture weights on the simplex, so that rows live in d - 1 dimensions; public weights per (s, a); releases on a geometric schedule, each
    batch one leaf of the counter with the least noise; eigenvalues clipped at zero and a ridge of the size of the noise instead of the
    shift 2 Upsilon; estimates projected on the simplex; a bonus from released quantities, scaled by `bonus_scale`. Its regret is measured,
    not proved.
    """

    name = "ucrl-vtr"

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
    ) -> None:
        known_mixture(public, "UCRL-VTR")
        check_choices(calibration, bonus_scale, failure)
        assert public.rewards is not None
        times = choose_schedule(schedule, default_schedule(calibration, episodes))
        if calibration == "tight":
            chosen = tight(public, times, bonus_scale=bonus_scale)
        else:
            chosen = paper(public, privacy, times, bonus_scale=bonus_scale, failure=failure)
        super().__init__(
            ValueTargetedPlanning(
                public.kernels / chosen.unit,
                public.rewards,
                chosen.features,
                chosen.bound,
                chosen.regularizer,
                chosen.weights,
                chosen.ceiling,
            ),
            chosen.schedule,
            privacy=privacy,
            noise=noise,
            counter=chosen.counter,
            loss=chosen.loss,
        )
