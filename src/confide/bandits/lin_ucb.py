"""LinUCB for contextual linear bandits: [Shariff18] (joint) and [Zheng20] (local) as printed, and with the least noise."""

import math
from dataclasses import dataclass, replace
from typing import Any

from confide.bandits.belief_planning import printed_round
from confide.bandits.contributions import PlayedContexts
from confide.bandits.lin_ts import ADDED, bandit_footprint, check_bandit, tight
from confide.bandits.printed import PrintedBandit, printed_bandit
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.arguments import check_asked, check_choices, choose_schedule
from confide.learning.learner import Calibration, Description, Learner, Round
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
    """Between two releases: the estimate after the printed shift, and the printed width around it."""

    public: LinearBanditPublic
    printed: PrintedBandit
    scale: float  # of the width

    @property
    def bound(self) -> RegressionRows:
        return self.printed.bound

    def plan(self, released: Released) -> Round:
        served = max(released.users, 1)
        gram, responses = self.bound.unpack(released.values)
        planned = printed_round(
            released,
            gram,
            responses,
            shift=self.printed.shift(served),
            width=lambda log_det: self.scale * self.printed.beta(log_det, served),
        )
        statistic = PlayedContexts(self.bound, self.public.actions)
        return Round(planned.policies, statistic, planned.memory, planned.signal)

    def describe(self) -> Description:
        made = self.printed
        widths = f"V + {made.shift(made.users):.3g} I after the last user, and the printed width"
        return Description(
            "paper", widths if self.scale == 1 else f"{widths} x {self.scale:g}", self.bound.rows
        )


def paper(
    public: LinearBanditPublic,
    *,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None,
    scale: float,
    failure: float,
) -> Calibration:
    """A release after every user, through a binary tree; with another schedule the tree is over its releases."""
    chosen = choose_schedule(schedule, one_tree(episodes))
    tree = Tree(chosen.leaves)
    made = printed_bandit(
        privacy, dimension=public.dimension, users=episodes, levels=tree.levels, failure=failure
    )
    algorithm = PrintedOptimism(public, made, scale)
    if isinstance(privacy, NoPrivacy):
        return Calibration(algorithm, chosen)
    if isinstance(privacy, LocalDP):
        return Calibration(algorithm, chosen, loss=made.loss(privacy, 1.0))
    return Calibration(algorithm, chosen, tree, made.loss(privacy, math.sqrt(tree.levels)))


class LinUCB(Learner):
    """LinUCB: each user gets the action with the largest estimated reward plus a bonus for what is not known yet.

    Guarantee: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, contexts, action and reward together, by one query per user
    (`PlayedContexts`). Policies are functions of releases alone.

    Reference: calibration="paper": [Shariff18, Alg. 1 and Sec. 4.2], a release per user through a binary tree, with the printed noise,
    shift and width (times `bonus_scale`); under `LocalDP` [Zheng20]. The guarantee states the exact loss of that noise, which is far
    less than what was asked for. Departures: rewards are centred, |y| <= 1/2 and ||theta|| <= 1/2; matrices carry noise in the isometric
    coordinates of `svec`; a user's y^2, which is not used, is not released; one counter; with another schedule the tree is over its
    releases; of [Zheng20] the width multiplies the norm of x, not its square.

    calibration="tight": the belief of `LinTS`, from discounted releases with the least noise, and a bonus of `bonus_scale` (0.3) standard
    errors in place of samples. Its regret is measured, not proved.
    """

    name = "lin-ucb"
    profile = Profile(
        "the best action by estimate and bonus; printed under joint and local privacy",
        family="linear bandit",
        paper="Shariff18",
    )
    # contexts are real numbers: there is nothing to count
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
        check_asked(episodes, privacy)
        check_choices(calibration, bonus_scale, failure)
        scale = (
            {"tight": ADDED, "paper": 1.0}[calibration]
            if bonus_scale is None
            else float(bonus_scale)
        )
        if calibration == "tight":
            made = tight(
                public,
                episodes=episodes,
                privacy=privacy,
                schedule=schedule,
                samples=False,
                spread=scale,
            )
        else:
            made = paper(
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
        super().__init__(made, privacy=privacy, identity=identity, noise=noise)
