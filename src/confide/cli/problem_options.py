"""The group of options that choose a problem, or turn an environment into one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from confide.cli.options import PROBLEM_PANEL, Horizon, ProblemSeed, RewardRange, Rewards

if TYPE_CHECKING:
    from confide.problems.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemOptions:
    """How a problem is made from its name."""

    PANEL: ClassVar = PROBLEM_PANEL

    problem_seed: ProblemSeed = 0
    horizon: Horizon = None
    rewards: Rewards = None
    reward_range: RewardRange = None
    features: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="For gym:ID: a function of an observation that returns a row of features for each "
            "action. Observations may then be continuous.",
            show_default=False,
        ),
    ] = None
    feature_norm: Annotated[
        float | None,
        typer.Option(
            help="Public bound on the norm of a row of features. Longer rows are clipped to it.",
            show_default="1",
        ),
    ] = None

    def make(self, problem: str) -> "Problem":
        from confide.problems.catalogue import make

        return make(
            problem,
            seed=self.problem_seed,
            horizon=self.horizon,
            rewards=self.rewards,
            reward_range=self.reward_range,
            features=self.features,
            feature_norm=self.feature_norm,
        )
