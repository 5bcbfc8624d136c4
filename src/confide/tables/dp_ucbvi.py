"""DP-UCBVI [QiaoWang23]: optimistic value iteration with a Bernstein bonus, on private counts that are made consistent."""

from dataclasses import replace
from typing import Any

from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.privacy.request import LocalDP, Request
from confide.privatizers import Schedule
from confide.problems.sizes import ProblemSizes
from confide.problems.tabular import TabularPublic
from confide.tables.printed import DPUCBVIRule, TableSetting
from confide.tables.ucbvi import Choices, table_footprint


class DPUCBVI(Learner):
    """DP-UCBVI: optimistic value iteration, with a bonus that follows the variance of the next value.

    Guarantee: that of `UCBVI`, by the same query; so is the true epsilon of the printed noise.

    Reference: [QiaoWang23]; calibration="paper": the noise of `UCBVI`, rows of counts that are not negative and agree with the number of
    visits, and the printed bonus (`tables/printed.py`: read in a later paper of the authors in part, recalled and derived in part).
    `confide.explain` says from how many users on it lets learning start: on riverswim 3 billion at epsilon = 1.

    Departures: those of `UCBVI`; Q is computed from each release alone, not cut at that of the releases before; H^2 stands for a
    minimum with H^2 (`DPUCBVIRule`).
    """

    name = "dp-ucbvi"
    abilities = replace(Learner.abilities, counts=False)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return table_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: TabularPublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
    ) -> None:
        choices = Choices(
            "DP-UCBVI", episodes, privacy, calibration, schedule, bonus_scale, failure
        )

        def rule(setting: TableSetting, epsilon: float, learned: bool) -> DPUCBVIRule:
            return DPUCBVIRule(setting, epsilon, learned, local=isinstance(privacy, LocalDP))

        super().__init__(
            choices.calibrate(public, rule, factor=2.5, log=4e-4), privacy=privacy, noise=noise
        )
