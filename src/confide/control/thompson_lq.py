"""Thompson sampling for linear quadratic control, from residuals.

Privacy is proved, regret is measured.

Users come in batches. The first batch runs the open loop (u = 0), which identifies A at no extra
cost. The second plays small gains of opposite signs, which identifies B. Later batches grow by
half. Each batch is released on its own, as residuals around the current estimate, clipped at what
such users are expected to send: so clips, and the noise with them, shrink as the estimate improves.
The size of the excitation is decided by what it may cost; it goes on, on top of safe gains, as long
as something can be gained.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from confide.control.adaptive_planning import POLICIES, ControlProblem, plan_batch
from confide.control.contributions import ResidualRows, Residuals
from confide.control.footprint import control_footprint
from confide.control.identification_planning import Costs
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.additive import least_noise
from confide.mechanisms.counters import Exact, Leaves
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Released
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule
from confide.problems.lq import LQPublic
from confide.problems.sizes import ProblemSizes

# Of second moments beside residuals.
WEIGHT = 0.3 * math.sqrt(2)
# Second moments are left out if the noise on residuals alone is below this share of that on both.
WORTH_LEAVING_OUT = 0.8
# Steps count up to this sum of ||x||^2: REACH with privacy, where far states need a large clip, and
# FAR without.
REACH = 2.0
FAR = 100.0
# With fewer times as many users as identification takes, nothing is explored, because it would cost
# more than it saves.
WORTH = 40
# The most releases. Time and memory grow with their square, and what devices download with their
# number.
MOST = 128


@dataclass(frozen=True, slots=True, eq=False)
class AdaptiveControl:
    """Between two releases: an estimate from all batches, gains for the next one, and what its
    users will be clipped at.
    """

    problem: ControlProblem
    bound: ResidualRows

    def plan(self, released: Released) -> Round:
        planned = plan_batch(self.problem, released)
        statistic = Residuals(
            self.bound,
            planned.guess,
            planned.clip,
            planned.cap,
            self.problem.costs.reach,
            planned.scales,
        )
        public = planned.public
        return Round(public.policies, statistic, public.memory, public.signal)

    def describe(self) -> Description:
        kind = (
            f"{self.problem.samples} samples, {self.problem.spread:g} x the posterior's standard "
            "deviation"
            if self.problem.samples
            else "its mean"
        )
        kind += (
            ", with excitation where it can be afforded"
            if self.problem.explores
            else ", without excitation"
        )
        return Description(
            "tight", f"cautious Riccati gains for a posterior of the dynamics: {kind}"
        )


def _noise_std(bound: ResidualRows, privacy: Request) -> float:
    return least_noise(bound, privacy, Exact(1), discrete=False, users=1).std


def residual_bound(public: LQPublic, privacy: Request) -> ResidualRows:
    """Second moments and residuals; residuals alone where K-norm noise on these few numbers is
    clearly less.
    """
    both, alone = (ResidualRows(public.states, public.inputs, weight) for weight in (WEIGHT, 0.0))
    # Whose noise is of another kind.
    if isinstance(privacy, NoPrivacy) or privacy.trust.devices:
        return both
    return (
        alone
        if _noise_std(alone, privacy) < WORTH_LEAVING_OUT * _noise_std(both, privacy)
        else both
    )


def control_schedule(
    bound: ResidualRows, privacy: Request, episodes: int, *, steerable: bool = True
) -> Schedule:
    """Batches of n_0 and n_1 users, then half as many more each time; one batch where
    identification would not pay.
    """
    n = bound.states
    p = bound.dimension
    if isinstance(privacy, NoPrivacy):
        first = 2 * n
        second = 2 * p + n
        ratio = 1.3
        worth = 4
    else:
        needed = 6 * _noise_std(bound, privacy) * math.sqrt(n)
        first = math.ceil(0.8 * needed)
        second = math.ceil(needed)
        # The noise of a batch grows with the root of its users.
        if isinstance(privacy, LocalDP):
            first = math.ceil(first**2 / 3)
            second = math.ceil(second**2 / 3)
        ratio = 1.5
        worth = WORTH
    if episodes < worth * (first + second) or not steerable:
        return Schedule((episodes,))
    times = [first, first + second]
    while times[-1] < episodes:
        times.append(min(episodes, max(times[-1] + 1, math.floor(ratio * times[-1]))))
    return Schedule(times)


def tight(
    public: LQPublic,
    name: str,
    *,
    episodes: int,
    privacy: Request,
    samples: int,
    spread: float,
    schedule: Schedule | None,
) -> Calibration:
    """Of both controllers: each batch is one leaf that is released on its own."""
    if not isinstance(public, LQPublic):
        raise InvalidParameter(
            f"{name} needs a linear system with quadratic costs (LQSystem.public), got "
            f"{type(public).__name__}"
        )
    check_episodes_and_privacy(episodes, privacy)
    bound = residual_bound(public, privacy)
    exact = isinstance(privacy, NoPrivacy)
    reach = FAR if exact else REACH
    costs = Costs(
        public.Q,
        public.R,
        public.horizon,
        public.noise_radius,
        public.parameter_bound,
        public.gain_bound,
        reach,
    )
    # Otherwise no input saves anything.
    steerable = public.horizon > 1 and bool(public.Q.any())
    default = control_schedule(bound, privacy, episodes, steerable=steerable)
    chosen = choose_schedule(schedule, default)
    if chosen.leaves > MOST:
        raise InvalidParameter(
            f"{name} takes at most {MOST} releases, got {chosen.leaves}: it plans from all of "
            "them, and devices would download all of them"
        )
    # With any schedule, later users must repay it.
    explores = default.leaves > 1 and chosen.leaves > 1
    problem = ControlProblem(
        costs,
        public.inputs,
        public.states,
        bound.weight,
        samples,
        spread,
        tuple(chosen.times),
        explores,
        exact,
    )
    return Calibration(
        AdaptiveControl(problem, bound),
        chosen,
        None if isinstance(privacy, LocalDP | NoPrivacy) else Leaves(chosen.leaves),
    )


class ThompsonLQ(Learner):
    """Posterior sampling on released residuals: six draws of the dynamics per batch, cautious gains
    for each.

    Guarantee: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, by one query per user
    (`ResidualRows`); delta = 0 gives Laplace noise. Each user is in one batch, which is released
    once. Bounds are enforced by clipping, never assumed. Gains are functions of releases and of a
    public seed, never of a user's x_1. PRIVACY IS PROVED; REGRET IS MEASURED: there is no theorem
    for this controller.

    Safety: systems are drawn from the posterior, and gains are played only if in nearly all of them
    they cost no more than the open loop (u = 0); draws are moved towards safer gains until that is
    so. Excitation is small enough to stay within 1.05 times the cost of the open loop, at any
    moment of a run, in 95 % of these systems, and to cost little of what later users could save.
    With fewer users than 40 times those of the first two batches there is none. This is as good as
    the posterior is: nothing is proved.

    `bonus_scale` is the spread of the draws in standard deviations of the posterior (0.4).
    """

    name = "thompson-lq"
    profile = Profile(
        "posterior sampling on private residuals", family="linear control", paper="confide"
    )
    # States are real numbers, so there is nothing to count.
    abilities = replace(Learner.abilities, counts=False)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return control_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: LQPublic,
        *,
        episodes: int,
        privacy: Request,
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        check_choices("tight", bonus_scale)
        spread = 0.4 if bonus_scale is None else bonus_scale
        calibrated = tight(
            public,
            self.name,
            episodes=episodes,
            privacy=privacy,
            samples=POLICIES,
            spread=spread,
            schedule=schedule,
        )
        identity = Identity(self.name, 1, public=public, spread=spread)
        super().__init__(calibrated, privacy=privacy, identity=identity, noise=noise)
