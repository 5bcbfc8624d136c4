"""Privacy-preserving UCRL-VTR+ [Luyo21, Alg. 3; Zhou21], in the paper's calibration and tight.

This file joins the private side (`contributions`) and the public side (`variance_aware_planning`)
under the agent's name. The name and the version of its identity are part of ledger ids, saved
states and messages. Rows are weighted by estimated variances, which follow from releases.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.mixtures.contributions import Both, PairedTargets, StackedRows, ValueTargets
from confide.mixtures.explorer_planning import EXPLORERS_IN_WORDS
from confide.mixtures.footprint import regression_footprint
from confide.mixtures.linopt_vi import BALANCE, BONUS_SCALE
from confide.mixtures.printed import PrintedPlus, printed_plus, setting_of, whose_constants
from confide.mixtures.regression_planning import RegressionSums
from confide.mixtures.requirements import learned_coordinates, require_mixture
from confide.mixtures.value_features import known_features, raw, sparse, value_steps
from confide.mixtures.variance_aware_planning import (
    PrintedProblem,
    VarianceProblem,
    plan_as_printed,
    plan_round,
)
from confide.planners.regression import Repair, Shift
from confide.privacy.bounded import Released
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule, every_episode, geometric
from confide.problems.feature_mixture import MixturePublic
from confide.problems.sizes import ProblemSizes
from confide.statistics.bounds import RegressionRows

# How strongly the second regression counts beside the first one. So its noise is 8 times that of
# the first one, which grows by 0.8 %. Variances need little accuracy.
SQUARES_WEIGHT = 0.125


@dataclass(frozen=True, slots=True, eq=False)
class PrintedPlanning:
    """[Luyo21, Alg. 3] between two releases, with the printed shifts and widths."""

    problem: PrintedProblem
    constants: PrintedPlus

    @property
    def bound(self) -> RegressionRows:
        return self.constants.bound

    def plan(self, released: Released) -> Round:
        # The first half of the problems regress values, and the second half their squares.
        steps = self.bound.steps // 2
        noise_std = released.noise.std
        gram, responses = self.bound.unpack(released.values)
        weighted_round = plan_as_printed(
            self.problem,
            RegressionSums(gram[:steps], responses[:steps], noise_std),
            RegressionSums(gram[steps:], responses[steps:], noise_std),
            released.generation,
            self.constants.widths(released.users + 1),
        )
        features = self.problem.features
        coordinates = features.feature_map
        half = replace(self.bound, steps=steps)
        horizon = len(self.problem.rewards)
        squares_scale = math.sqrt(self.problem.dimension) / horizon**2
        statistic = PairedTargets(
            self.bound,
            ValueTargets(
                half, coordinates, features, weighted_round.values, weighted_round.weights
            ),
            ValueTargets(half, coordinates, features, weighted_round.squares, squares_scale),
        )
        public = weighted_round.public
        return Round(public.policies, statistic, public.memory, public.signal)

    def describe(self) -> Description:
        _, beta_hat, _ = self.constants.widths(1)
        first_shift = Shift(self.problem.shifts[0], beta_hat * self.problem.bonus_scale)
        planning = f"{first_shift.describe(self.bound.rows)} and growing"
        return Description("paper", planning, self.bound.rows)


@dataclass(frozen=True, slots=True, eq=False)
class VarianceAwarePlanning:
    """[Luyo21, Alg. 3] between two releases, with the means of `UCRLVTR`."""

    problem: VarianceProblem
    bound: StackedRows

    def plan(self, released: Released) -> Round:
        values, squares = self.bound.split(released.values)
        noise_std = released.noise.std
        squares_noise_std = noise_std / self.bound.weight
        weighted_round = plan_round(
            self.problem,
            RegressionSums(*self.bound.first.unpack(values), noise_std),
            RegressionSums(*self.bound.second.unpack(squares), squares_noise_std),
            released.generation,
        )
        features = self.problem.features
        coordinates = features.feature_map
        statistic = Both(
            self.bound,
            ValueTargets(
                self.bound.first,
                coordinates,
                features,
                weighted_round.values,
                weighted_round.weights,
            ),
            ValueTargets(self.bound.second, coordinates, features, weighted_round.squares),
        )
        public = weighted_round.public
        return Round(public.policies, statistic, public.memory, public.signal, public.shares)

    def describe(self) -> Description:
        repaired = self.problem.regularizer.describe(self.bound.rows)
        planning = f"{repaired}; rows weighted by estimated variances; {EXPLORERS_IN_WORDS}"
        return Description("tight", planning, self.bound.rows)


class UCRLVTRPlus(Learner):
    """UCRL-VTR+: value-targeted least squares that is weighted by estimated variances.

    A second regression, on squared values, estimates the variances.

    Guarantee: as that of `UCRLVTR`: one query per user, of both regressions and all steps together.
    The variances, and so the weights, are functions of releases alone.

    Reference: [Luyo21, Alg. 3]; calibration="paper": Cor. 10 (joint), Cor. 11 (local), Remark 6
    (delta = 0), with the printed noise, shifts and widths (that of the bonus times `bonus_scale`),
    a release per episode, and lambda = 1. For delta = 0 the constants are ours, as in `UCRLVTR`.

    | Algorithm 3 | here |
    |---|---|
    | input: K, H, d, epsilon, delta, p, C_w | as in `UCRLVTR` |
    | lambda = 1 | `printed.printed_plus` |
    | widths beta check, hat, tilde as in (6), (7) | `PrintedPlus.widths` |
    | Lambda^, Lambda~ start at lambda I | `Shift.estimate` adds lambda I |
    | receive w^, w~, Lambda^, Lambda~ | `PrintedPlanning.plan`: both parts of one release |
    | Q^ = min(H, r + phi_V.w^ + beta^ ||phi_V||), V^ = max_a Q^ | `planning.optimistic` |
    | a = argmax_a Q^(s, a) | `OptimisticPlan.policy` |
    | the moments of V^ and of (V^)^2 | `variance_planning.estimate_moment` |
    | the variance of V^, [.]_{[0,H^2]} - [.]^2_{[0,H]} | `variance_planning.largest_plausible` |
    | E = min(H^2, 2 H beta check ...) + min(H^2, beta tilde ...) | `largest_plausible` |
    | sbar = sqrt(max(H^2 / d, variance + E)) | `variance_aware_planning.plan_as_printed` |
    | send sbar^-2 phi_V phi_V^T, sbar^-2 phi_V V(s') | `PairedTargets.first`: weights 1 / sbar |
    | send phi_{V^2} phi_{V^2}^T, phi_{V^2} V^2(s') | `PairedTargets.second` |
    | D^1, D^2, f, g: the prefixes of trees, and 2 Upsilon I | `central.CounterNoise`; `Shift` |
    | Lambda^, Lambda~, w^, w~ of the next episode | `PrintedPlanning.plan` |

    Departures of "paper": Q is clipped at 0 from below; noise is symmetrised and in the coordinates
    of `svec`, and the shift is there from the first episode on, as in `UCRLVTR`. The updates of
    Alg. 3, damaged in the copy that was read, are those of its privacy proof (D.4) and of [Zhou21]:
    Lambda^ += sbar^-2 phi_V phi_V^T, u^ += sbar^-2 phi_V V(s'),
    Lambda~ += phi_{V^2} phi_{V^2}^T, u~ += phi_{V^2} V^2(s').

    Departures of "tight": those of `UCRLVTR`, for both regressions; values scaled to [0, 1] before
    they are squared; the second regression takes 1/8 of the sensitivity of the first, because
    variances need little accuracy; a variance is at most what is possible at (s, a) and at least
    1/d of that; and inverse variances are used only as far as the noise leaves them worth it,
    because a row below the largest weight that the bound allows drowns in it
    (`variance_planning.variance_weights`).
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
        public: MixturePublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        noise: NoiseSource | None = None,
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
    ) -> None:
        require_mixture(public, "UCRL-VTR+")
        check_choices(calibration, bonus_scale, failure)
        if calibration == "tight":
            chosen = choose_schedule(schedule, geometric(episodes))
            calibrated = tight(public, chosen, bonus_scale)
        else:
            chosen = choose_schedule(schedule, every_episode(episodes))
            calibrated = paper(public, privacy, chosen, bonus_scale, failure)
        identity = Identity(
            self.name,
            1,
            public=public,
            calibration=calibration,
            bonus_scale=bonus_scale,
            failure=failure,
        )
        super().__init__(calibrated, privacy=privacy, identity=identity, noise=noise)


def tight(
    public: MixturePublic, schedule: Schedule, bonus_scale: float | None = None
) -> Calibration:
    """The calibration with the least noise that the guarantee needs."""
    assert public.rewards is not None
    coordinates = learned_coordinates(public)
    features = coordinates.feature_map
    steps = value_steps(public.horizon)
    m = features.dimension
    bound = StackedRows(steps, m, BALANCE, steps, m, BALANCE, SQUARES_WEIGHT)
    scale = BONUS_SCALE if bonus_scale is None else bonus_scale
    problem = VarianceProblem(
        sparse(features, known_features(public, coordinates.unit)),
        public.rewards,
        Repair(BALANCE, scale, simplex=coordinates.simplex),
        BALANCE,
        tuple(schedule.times),
    )
    return Calibration(VarianceAwarePlanning(problem, bound), schedule)


def paper(
    public: MixturePublic,
    privacy: Request,
    schedule: Schedule,
    bonus_scale: float | None = None,
    failure: float = 0.1,
) -> Calibration:
    """[Luyo21, Cor. 10] (joint), [Cor. 11] (local), [Remark 6] (delta = 0)."""
    assert public.rewards is not None
    setting = setting_of(public, schedule, failure)
    constants = printed_plus(privacy, setting)
    features = known_features(public, public.value_bound)
    # Lambda is shifted by lambda + 2 Upsilon in each regression.
    first_upsilon, second_upsilon = constants.upsilon
    shifts = (constants.ridge + 2 * first_upsilon, constants.ridge + 2 * second_upsilon)
    problem = PrintedProblem(
        sparse(raw(public.dimension), features),
        public.rewards,
        shifts,
        1.0 if bonus_scale is None else bonus_scale,
    )
    tree = None if isinstance(privacy, LocalDP | NoPrivacy) else setting.tree
    return Calibration(
        PrintedPlanning(problem, constants),
        schedule,
        tree,
        constants.loss,
        constants=whose_constants(privacy),
    )
