"""Private-LinOpt-PO [Zhou22, Alg. 2, Def. 6.3]: optimistic policy optimisation.

This file joins the regressions of `linopt_vi` and the public side (`policy_planning`) under the
agent's name. The name and the version of its identity are part of ledger ids, saved states and
messages. Transitions and rewards may both be unknown.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from confide.arguments import real
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Description, Round
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.mixtures.footprint import regression_footprint
from confide.mixtures.linopt_vi import Regressions, calibrate
from confide.mixtures.policy_planning import PolicySteps, plan_round
from confide.mixtures.regression_choices import Choices
from confide.mixtures.value_features import ROW_BOUNDS
from confide.planners.regression import MakeRegularizer
from confide.privacy.bounded import Bound, Released
from confide.privacy.request import Request
from confide.privatizers import Schedule
from confide.problems.feature_mixture import MixturePublic
from confide.problems.sizes import ProblemSizes

# The tight form's step per user, eta, and how much of the old logits is kept in each step. Both
# were chosen for a small regret on lock, lock-rewards and rand.
STEP = 1.0
KEEP = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticPolicyOptimisation:
    """[Zhou22, Alg. 2] between two releases. The policy is the memory: logits [h, s, a]."""

    regressions: Regressions
    schedule: Schedule
    steps: PolicySteps

    @property
    def bound(self) -> Bound:
        return self.regressions.bound

    def plan(self, released: Released) -> Round:
        estimates = self.regressions.read(released)
        value_round = plan_round(
            self.regressions.planner, estimates, self.schedule, released, self.steps
        )
        return self.regressions.round_of(value_round)

    def describe(self) -> Description:
        description = self.regressions.describe()
        policies = f"softmax policies, step {self.steps.size:.3g} per user"
        return replace(description, planning=f"{description.planning}; {policies}")


class LinOptPO(Learner):
    """Private-LinOpt-PO: optimistic evaluation of a stochastic policy, and mirror-descent steps.

    Both follow from two private regressions, of values and of rewards.

    Guarantee: that of `LinOptVI`, by the same query. Only what is planned from releases differs.

    Reference: [Zhou22, Alg. 2 (LinOpt-PO-Reg), Def. 6.3], eta = sqrt(2 ln A / (H T)), T = K H;
    local: Remark 6.9, which prints no constants. With known rewards (`public.rewards`) there is one
    regression only. `row_bound` is that of `LinOptVI`.

    | line of Algorithm 2 | what | here |
    |---|---|---|
    | 1 | Lambda^1, u^1 | `Shift.estimate` adds 2 Sigma I; sums of nobody are zero |
    | 2 | pi^1 is uniform | `policy_planning.plan_round`: logits of zero |
    | 3 | for k = 1, ..., K | `Learner.next_batch` and `Learner.observe` |
    | 4, 5 | V_{H+1} = 0; for h = H, ..., 1 | `policy_planning.evaluate` |
    | 6, 7 | theta_p, theta_r | `MixturePlanner.learn` with the regularizer (`Shift`) |
    | 8 | phi = sum_s' psi V | `_kernels.value_features` |
    | 9, 10 | Gamma_p, Gamma_r | `planners.regression.bonus`, `planning.optimistic_rewards` |
    | 11, 12 | Q = max(0, min(H - h + 1, ...)), V = <Q, pi> | `policy_planning.evaluate` |
    | 13 | roll out a trajectory with pi | `ValueRound.public`, a `StochasticPolicy` |
    | 14 | statistics from the REGULARIZER | as in `LinOptVI` |
    | 15 | pi' ~ pi exp(eta Q) | `planners.mirror_descent.improve` in `plan_round` |
    | 15 | eta | `paper_step` |

    Departures of "tight": those of `LinOptVI`; a round of n users counts as n episodes, so that its
    step is n eta; eta = 1 (`step`), where the printed one, made for the worst case, loses some
    6,000 users of lock to caution at K = 1e5; pi^(1/4) in place of pi in each step, because
    releases are prefix sums: the newest Q knows all that the older ones did, with less noise; the
    policy is improved by a release before it is served, not after. Regret is measured, not proved.
    Departures of "paper": those of `LinOptVI`.
    """

    name = "linopt-po"
    profile = Profile(
        "linopt-vi with policy optimisation: softmax policies, improved step by step",
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
        step: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
        regularizer: MakeRegularizer | None = None,
        row_bound: str = ROW_BOUNDS[0],
    ) -> None:
        if step is not None:
            real("step", step, above=0)

        def policy_optimisation(
            regressions: Regressions, schedule: Schedule
        ) -> OptimisticPolicyOptimisation:
            if calibration == "tight":
                steps = PolicySteps(step or STEP, KEEP, ahead=True)
            else:
                eta = paper_step(episodes, public.horizon, public.actions)
                steps = PolicySteps(step or eta, keep=1.0, ahead=False)
            return OptimisticPolicyOptimisation(regressions, schedule, steps)

        choices = Choices(
            episodes,
            privacy,
            calibration,
            schedule,
            bonus_scale,
            failure,
            regularizer,
            row_bound=row_bound,
        )
        identity = Identity(
            self.name,
            1,
            public=public,
            calibration=calibration,
            bonus_scale=bonus_scale,
            step=step,
            failure=failure,
            own_regularizer=regularizer is not None,
            **choices.named_row_bound,
        )
        super().__init__(
            calibrate(public, choices, "LinOpt-PO", policy_optimisation),
            privacy=privacy,
            identity=identity,
            noise=noise,
        )


def paper_step(episodes: int, horizon: int, actions: int) -> float:
    """eta = sqrt(2 ln A / (H T)), T = K H [Zhou22, proof of Thm. 5.1]."""
    return math.sqrt(2 * math.log(actions) / (horizon * episodes * horizon))
