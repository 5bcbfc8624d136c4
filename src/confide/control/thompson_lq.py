"""Thompson sampling for linear quadratic control, from residuals.

Privacy is proved, regret is measured (benchmarks/results/control.md).

- What leaves this file: the agent `thompson-lq`, whose `identity` names it in certificates and
  ledgers. `certainty_equivalent_lq.py` uses the same calibration.
- What may not be changed freely: names and numbers in `identity`; and that each user is in one
  batch, which is released once, because the guarantee rests on it.
- What may be changed freely: the schedule and the numbers below. They depend on public numbers
  alone, so privacy holds for any of them. Golden files notice a change, and regret must then be
  measured again.

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

# None of the numbers below matters for privacy. benchmarks/results/control.md shows the regret with
# them; where nothing else is said, it does not compare other numbers.
# The weight of second moments beside residuals, in one query.
MOMENTS_WEIGHT = 0.3 * math.sqrt(2)
# Second moments are left out if the noise on residuals alone is below this share of that on both.
WORTH_LEAVING_OUT = 0.8
# Steps of a user count up to this sum of ||x||^2. With privacy it is small, because far states need
# a large clip.
PRIVATE_REACH = 2.0
EXACT_REACH = 100.0
# Exploration costs more than it saves if there are fewer users than so many times those of the
# first two batches. Then nothing is explored. The second number is for runs without privacy.
WORTHWHILE_USERS = 40
WORTHWHILE_USERS_EXACT = 4
# How many times as many users have been served at the end of a batch as at the end of the one
# before.
BATCH_GROWTH = 1.5
BATCH_GROWTH_EXACT = 1.3
# The most releases. Time and memory grow with their square, and what devices download with their
# number. A matter of taste.
MOST_RELEASES = 128
# The spread of the draws, in standard deviations of the posterior, if nobody says otherwise.
USUAL_SPREAD = 0.4


@dataclass(frozen=True, slots=True, eq=False)
class AdaptiveControl:
    """Between two releases: an estimate from all batches, gains for the next one, and what its
    users will be clipped at.
    """

    problem: ControlProblem
    bound: ResidualRows

    def plan(self, released: Released) -> Round:
        """The policies of the next batch, and the statistic that its users are asked for."""
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
        problem = self.problem
        if problem.samples:
            systems = (
                f"{problem.samples} samples, {problem.spread:g} x the posterior's standard "
                "deviation"
            )
        else:
            systems = "its mean"
        if problem.explores:
            excitation = "with excitation where it can be afforded"
        else:
            excitation = "without excitation"
        return Description(
            "tight",
            f"cautious Riccati gains for a posterior of the dynamics: {systems}, {excitation}",
        )


def _noise_std(bound: ResidualRows, privacy: Request) -> float:
    """The standard deviation of the noise on one batch."""
    return least_noise(bound, privacy, Exact(1), discrete=False, users=1).std


def residual_bound(public: LQPublic, privacy: Request) -> ResidualRows:
    """What a user is asked for: second moments and residuals, or residuals alone.

    They are asked for alone where K-norm noise on these few numbers is clearly less.
    """
    both = ResidualRows(public.states, public.inputs, MOMENTS_WEIGHT)
    residuals_alone = ResidualRows(public.states, public.inputs, 0.0)
    # Devices add noise of another kind.
    if isinstance(privacy, NoPrivacy) or privacy.trust.devices:
        return both
    if _noise_std(residuals_alone, privacy) < WORTH_LEAVING_OUT * _noise_std(both, privacy):
        return residuals_alone
    return both


def control_schedule(
    bound: ResidualRows, privacy: Request, episodes: int, *, steerable: bool = True
) -> Schedule:
    """Two batches that identify the system, and then batches that grow.

    There is one batch where identification would not pay.
    """
    first, second = _identification_batches(bound, privacy)
    exact = isinstance(privacy, NoPrivacy)
    growth = BATCH_GROWTH_EXACT if exact else BATCH_GROWTH
    worthwhile_users = WORTHWHILE_USERS_EXACT if exact else WORTHWHILE_USERS
    if episodes < worthwhile_users * (first + second) or not steerable:
        return Schedule((episodes,))
    times = [first, first + second]
    while times[-1] < episodes:
        next_time = max(times[-1] + 1, math.floor(growth * times[-1]))
        times.append(min(episodes, next_time))
    return Schedule(times)


def _identification_batches(bound: ResidualRows, privacy: Request) -> tuple[int, int]:
    """How many users identify A, in the open loop, and how many identify B.

    With privacy they are so many that their sums outweigh the noise of a release, by about six
    standard deviations.
    """
    n = bound.states
    if isinstance(privacy, NoPrivacy):
        return 2 * n, 2 * bound.dimension + n
    needed = 6 * _noise_std(bound, privacy) * math.sqrt(n)
    first = math.ceil(0.8 * needed)
    second = math.ceil(needed)
    if isinstance(privacy, LocalDP):
        # The noise of a batch grows with the root of its users.
        first = math.ceil(first**2 / 3)
        second = math.ceil(second**2 / 3)
    return first, second


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
    """The calibration of both controllers: each batch is one leaf that is released on its own."""
    if not isinstance(public, LQPublic):
        raise InvalidParameter(
            f"{name} needs a linear system with quadratic costs (LQSystem.public), got "
            f"{type(public).__name__}"
        )
    check_episodes_and_privacy(episodes, privacy)
    bound = residual_bound(public, privacy)
    exact = isinstance(privacy, NoPrivacy)
    costs = Costs(
        Q=public.Q,
        R=public.R,
        horizon=public.horizon,
        noise_radius=public.noise_radius,
        bound=public.parameter_bound,
        gain_bound=public.gain_bound,
        reach=EXACT_REACH if exact else PRIVATE_REACH,
    )
    # In other systems no input saves anything.
    steerable = public.horizon > 1 and bool(public.Q.any())
    default = control_schedule(bound, privacy, episodes, steerable=steerable)
    chosen = choose_schedule(schedule, default)
    if chosen.leaves > MOST_RELEASES:
        raise InvalidParameter(
            f"{name} takes at most {MOST_RELEASES} releases, got {chosen.leaves}: it plans from "
            "all of them, and devices would download all of them"
        )
    problem = ControlProblem(
        costs=costs,
        inputs=public.inputs,
        states=public.states,
        weight=bound.weight,
        samples=samples,
        spread=spread,
        times=tuple(chosen.times),
        # With any schedule, later users must repay what exploration costs.
        explores=default.leaves > 1 and chosen.leaves > 1,
        exact=exact,
    )
    counter = None if isinstance(privacy, LocalDP | NoPrivacy) else Leaves(chosen.leaves)
    return Calibration(AdaptiveControl(problem, bound), chosen, counter)


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
        spread = USUAL_SPREAD if bonus_scale is None else bonus_scale
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
