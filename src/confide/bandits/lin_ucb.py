"""LinUCB for contextual linear bandits: the paper's calibration and the tight form.

The paper's calibration is [Shariff18] under joint privacy and [Zheng20] under local privacy. Names
and versions of identities are part of ledger ids, saved states and messages.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from confide.bandits.belief_planning import printed_round
from confide.bandits.contributions import PlayedContexts
from confide.bandits.lin_ts import BONUS_SPREAD, bandit_footprint, calibrate_tight, check_bandit
from confide.bandits.printed import PrintedBandit, printed_bandit
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.counters import Tree
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Released
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule
from confide.privatizers.schedule import one_tree
from confide.problems.bandit import LinearBanditPublic
from confide.problems.sizes import ProblemSizes
from confide.statistics.bounds import RegressionRows


@dataclass(frozen=True, slots=True, eq=False)
class PrintedOptimism:
    """Plans a round from the estimate after the paper's shift, with the paper's width around it."""

    public: LinearBanditPublic
    printed: PrintedBandit
    # The factor of the paper's width.
    scale: float

    @property
    def bound(self) -> RegressionRows:
        return self.printed.bound

    def plan(self, released: Released) -> Round:
        users = max(released.users, 1)
        gram, responses = self.bound.unpack(released.values)
        public = printed_round(
            released,
            gram,
            responses,
            shift=self.printed.shift(users),
            width=lambda log_determinant: self.scale * self.printed.beta(log_determinant, users),
        )
        statistic = PlayedContexts(self.bound, self.public.actions)
        return Round(public.policies, statistic, public.memory, public.signal)

    def describe(self) -> Description:
        last_shift = self.printed.shift(self.printed.users)
        planning = f"V + {last_shift:.3g} I after the last user, and the width of the paper"
        if self.scale != 1:
            planning += f" x {self.scale:g}"
        return Description("paper", planning, self.bound.rows)


def calibrate_as_in_paper(
    public: LinearBanditPublic,
    *,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None,
    scale: float,
    failure: float,
) -> Calibration:
    """Return the papers' calibration: a release after every user, through a binary tree.

    With another schedule, the tree is over its releases.
    """
    chosen = choose_schedule(schedule, one_tree(episodes))
    tree = Tree(chosen.leaves)
    printed = printed_bandit(
        privacy, dimension=public.dimension, users=episodes, levels=tree.levels, failure=failure
    )
    algorithm = PrintedOptimism(public, printed, scale)
    if isinstance(privacy, NoPrivacy):
        return Calibration(algorithm, chosen)
    if isinstance(privacy, LocalDP):
        return Calibration(algorithm, chosen, loss=printed.loss(privacy, 1.0))
    return Calibration(algorithm, chosen, tree, printed.loss(privacy, math.sqrt(tree.levels)))


class LinUCB(Learner):
    """LinUCB: each user gets the action with the largest estimated reward plus a bonus.

    Guarantee: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, by one query per user
    (`PlayedContexts`). It protects contexts, action and reward together. Policies are functions of
    releases alone.

    Reference: calibration="paper" is [Shariff18, Alg. 1 and Sec. 4.2], and [Zheng20] under
    `LocalDP`. There is a release per user through a binary tree, with the noise, the shift and the
    width of the paper. `bonus_scale` multiplies the width. The guarantee states the exact loss of
    that noise, which is far less than what was requested.

    Departures: rewards are centred, so |y| <= 1/2 and ||theta|| <= 1/2. Matrices carry noise in the
    isometric coordinates of `svec`. A user's y^2 is not released, because it is not used. There is
    one counter. With another schedule, the tree is over its releases. The width of [Zheng20]
    multiplies the norm of x, not its square.

    calibration="tight" uses the belief of `LinTS`, from discounted releases with the least noise.
    In place of samples it adds a bonus of `bonus_scale` (0.3) standard errors. Its regret is
    measured, not proved.
    """

    name = "lin-ucb"
    profile = Profile(
        "the best action by estimate and bonus; printed under joint and local privacy",
        family="linear bandit",
        paper="Shariff18",
    )
    # Contexts are real numbers, so there are no states to count.
    abilities = replace(Learner.abilities, counts=False)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return bandit_footprint(
            sizes, episodes=episodes, privacy=privacy, copies_of_contexts=2.4, **options
        )

    def __init__(
        self,
        public: LinearBanditPublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
    ) -> None:
        check_bandit(public, self.name)
        check_episodes_and_privacy(episodes, privacy)
        check_choices(calibration, bonus_scale, failure)
        if bonus_scale is not None:
            scale = float(bonus_scale)
        else:
            scale = BONUS_SPREAD if calibration == "tight" else 1.0
        if calibration == "tight":
            calibrated = calibrate_tight(
                public,
                episodes=episodes,
                privacy=privacy,
                schedule=schedule,
                samples=False,
                spread=scale,
            )
        else:
            calibrated = calibrate_as_in_paper(
                public,
                episodes=episodes,
                privacy=privacy,
                schedule=schedule,
                scale=scale,
                failure=failure,
            )
        identity = Identity(
            self.name, 1, public=public, calibration=calibration, scale=scale, failure=failure
        )
        super().__init__(calibrated, privacy=privacy, identity=identity, noise=noise)
