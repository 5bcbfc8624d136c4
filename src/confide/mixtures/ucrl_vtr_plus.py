"""Privacy-preserving UCRL-VTR+ [Luyo21, Alg. 3; Zhou21], as printed and with the least noise that the guarantee needs.

Rows are weighted by estimated variances.
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
from confide.mixtures.explorer_planning import SAID
from confide.mixtures.footprint import regression_footprint
from confide.mixtures.linopt_vi import BALANCE
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

# of the second regression: its noise is 8 times the first one's, and the first one's grows by 0.8 %
SHARE = 0.125


@dataclass(frozen=True, slots=True, eq=False)
class PrintedPlanning:
    """[Luyo21, Alg. 3] between two releases, with the printed shifts and widths."""

    problem: PrintedProblem
    constants: PrintedPlus

    @property
    def bound(self) -> RegressionRows:
        return self.constants.bound

    def plan(self, released: Released) -> Round:
        n, noise_std = self.bound.steps // 2, released.noise.std
        gram, responses = self.bound.unpack(released.values)
        planned = plan_as_printed(
            self.problem,
            RegressionSums(gram[:n], responses[:n], noise_std),
            RegressionSums(gram[n:], responses[n:], noise_std),
            released.generation,
            self.constants.widths(released.users + 1),
        )
        seen, one = self.problem.features, replace(self.bound, steps=n)
        unit = math.sqrt(self.problem.dimension) / len(self.problem.rewards) ** 2
        statistic = PairedTargets(
            self.bound,
            ValueTargets(one, seen.feature_map, seen, planned.values, planned.weights),
            ValueTargets(one, seen.feature_map, seen, planned.squares, unit),
        )
        public = planned.public
        return Round(public.policies, statistic, public.memory, public.signal)

    def describe(self) -> Description:
        first = Shift(
            self.problem.shifts[0], self.constants.widths(1)[1] * self.problem.bonus_scale
        )
        return Description(
            "paper", f"{first.describe(self.bound.rows)} and growing", self.bound.rows
        )


@dataclass(frozen=True, slots=True, eq=False)
class VarianceAwarePlanning:
    """[Luyo21, Alg. 3] between two releases, with the means of `UCRLVTR`."""

    problem: VarianceProblem
    bound: StackedRows

    def plan(self, released: Released) -> Round:
        first, second = self.bound.split(released.values)
        noise_std, seen = released.noise.std, self.problem.features
        planned = plan_round(
            self.problem,
            RegressionSums(*self.bound.first.unpack(first), noise_std),
            RegressionSums(*self.bound.second.unpack(second), noise_std / self.bound.weight),
            released.generation,
        )
        statistic = Both(
            self.bound,
            ValueTargets(self.bound.first, seen.feature_map, seen, planned.values, planned.weights),
            ValueTargets(self.bound.second, seen.feature_map, seen, planned.squares),
        )
        public = planned.public
        return Round(public.policies, statistic, public.memory, public.signal, public.shares)

    def describe(self) -> Description:
        repaired = self.problem.regularizer.describe(self.bound.rows)
        planning = f"{repaired}; rows weighted by estimated variances; {SAID}"
        return Description("tight", planning, self.bound.rows)


class UCRLVTRPlus(Learner):
    """UCRL-VTR+: value-targeted least squares weighted by estimated variances, and a second regression, on squared values, for these.

    Guarantee: as `UCRLVTR`'s: one query per user, of both regressions and all steps together. The variances, and so the weights, are
    functions of releases alone.

    Reference: [Luyo21, Alg. 3]; calibration="paper": Cor. 10 (joint), Cor. 11 (local), Remark 6 (delta = 0), with the printed noise,
    shifts and widths (that of the bonus times `bonus_scale`), a release per episode, and lambda = 1. For delta = 0 the constants are ours,
    as in `UCRLVTR`.

    | Algorithm 3 | here |
    |---|---|
    | input: K, H, d, epsilon, delta, p, C_w | as in `UCRLVTR` |
    | lambda = 1, widths beta check, hat, tilde as in (6), (7) | `printed.printed_plus`, `PrintedPlus.widths` |
    | Lambda^, Lambda~ start at lambda I | `Shift.estimate` adds lambda I |
    | receive w^, w~, Lambda^, Lambda~ | `PrintedPlanning.plan`: both parts of one release |
    | Q^ = min(H, r + phi_V.w^ + beta^ ||phi_V||), V^ = max_a Q^ | `planning.optimistic` |
    | a = argmax_a Q^(s, a) | `OptimisticPlan.policy` |
    | the variance of V^, [.]_{[0,H^2]} - [.]^2_{[0,H]} | `variance_planning.moment`, `largest_plausible` |
    | E = min(H^2, 2 H beta check ...) + min(H^2, beta tilde ...) | `variance_planning.largest_plausible` |
    | sbar = sqrt(max(H^2 / d, variance + E)) | `variance_aware_planning.plan_as_printed` |
    | send sbar^-2 phi_V phi_V^T, sbar^-2 phi_V V(s') | `PairedTargets.first`: rows with the weights 1 / sbar |
    | send phi_{V^2} phi_{V^2}^T, phi_{V^2} V^2(s') | `PairedTargets.second` |
    | D^1, D^2, f, g: the prefixes of trees, and 2 Upsilon I | `privatizers.central.CounterNoise`; `Shift` |
    | Lambda^, Lambda~, w^, w~ of the next episode | `CentralPrivatizer.release`, `PrintedPlanning.plan` |

    Departures of "paper": Q is clipped at 0 from below; noise is symmetrised and in the coordinates of `svec`, and the shift is there from
    the first episode on, as in `UCRLVTR`. The updates of Alg. 3, damaged in the copy that was read, are those of its privacy proof (D.4)
    and of [Zhou21]: Lambda^ += sbar^-2 phi_V phi_V^T, u^ += sbar^-2 phi_V V(s'), Lambda~ += phi_{V^2} phi_{V^2}^T, u~ += phi_{V^2} V^2(s').

    Departures of "tight": those of `UCRLVTR`, for both regressions; values scaled to [0, 1] before they are squared; the second
    regression takes 1/8 of the sensitivity of the first, because variances need little accuracy; a variance is at most what is possible at
    (s, a) and at least 1/d of that; and inverse variances are used only as far as the noise leaves them worth it, because a row below the
    largest weight that the bound allows drowns in it (`mixtures.variance_planning.variance_weights`).
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
    public: MixturePublic, schedule: Schedule, bonus_scale: float | None = None
) -> Calibration:
    assert public.rewards is not None
    coordinates, n = learned_coordinates(public), value_steps(public.horizon)
    features = coordinates.feature_map
    bound = StackedRows(n, features.dimension, BALANCE, n, features.dimension, BALANCE, SHARE)
    scale = 0.1 if bonus_scale is None else bonus_scale
    regularizer = Repair(BALANCE, scale, simplex=coordinates.simplex)
    problem = VarianceProblem(
        sparse(features, known_features(public, coordinates.unit)),
        public.rewards,
        regularizer,
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
    assert public.rewards is not None
    setting = setting_of(public, schedule, failure)
    constants, scale = printed_plus(privacy, setting), 1.0 if bonus_scale is None else bonus_scale
    features = known_features(public, public.value_bound)
    shift, second_shift = (constants.ridge + 2 * upsilon for upsilon in constants.upsilon)
    problem = PrintedProblem(
        sparse(raw(public.dimension), features), public.rewards, (shift, second_shift), scale
    )
    planning = PrintedPlanning(problem, constants)
    tree = None if isinstance(privacy, LocalDP | NoPrivacy) else setting.tree
    return Calibration(planning, schedule, tree, constants.loss, constants=whose_constants(privacy))
