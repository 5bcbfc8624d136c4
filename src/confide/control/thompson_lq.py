"""Thompson sampling for linear quadratic control: our own. Privacy is proved, regret is measured."""

from confide.control.residual_control import POLICIES, Controller
from confide.learning.arguments import check_choices
from confide.mechanisms.sources import NoiseSource
from confide.privacy.request import Request
from confide.privatizers import Schedule
from confide.problems.lq import LQPublic


class ThompsonLQ(Controller):
    """Posterior sampling on released residuals: six draws of the dynamics per leaf, cautious gains for each.

    Promise: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, by one query per user (`ResidualRows`); delta = 0 gives Laplace
    noise. Each user is in one leaf, which is released once. Bounds are enforced by clipping, never assumed. Gains are functions of
    releases and of a public seed, never of a user's x_1. PRIVACY IS PROVED; REGRET IS MEASURED: there is no theorem for this controller.

    The gate: systems are drawn from the posterior, and gains are played only if in nearly all of them they cost no more than doing nothing;
    draws are moved to safer gains until that is so. Inputs that are tried in order to learn are as small as it takes to stay within 1.05
    times the cost of doing nothing, at any moment of a run, in 95 % of these systems, and to cost little of what users to come could gain.
    With fewer users than 40 times those of the first two leaves nobody tries any. It is as good as the posterior is: nothing is proved.

    `bonus_scale` is the spread of the draws in standard deviations of the posterior (0.4).
    """

    name = "thompson-lq"

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
        super().__init__(
            public, episodes=episodes, privacy=privacy, samples=POLICIES, spread=spread, schedule=schedule, noise=noise
        )
