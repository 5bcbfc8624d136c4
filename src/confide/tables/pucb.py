"""PUCB [Vietri20]: the first private learner of tables, as printed and with the least noise that the guarantee needs."""

from dataclasses import replace
from typing import Any

from confide.errors import PrivacyError
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.privacy.request import LocalDP, Request
from confide.privatizers import Schedule
from confide.problems.sizes import ProblemSizes
from confide.problems.tabular import TabularPublic
from confide.tables.printed import PUCBRule
from confide.tables.ucbvi import Choices, table_footprint


class PUCB(Learner):
    """PUCB: optimistic value iteration on private counters.

    Guarantee: joint DP for every user (`JointDP`), by one query per user: all counts of the episode together. Actions are functions of
    releases and of a public seed. calibration="tight" also keeps `LocalDP`, for which the paper has no constants.

    Reference: [Vietri20]; calibration="paper": a binary tree over the episodes for every count, each with epsilon / (3 H), and the
    printed bonus (`tables/printed.py`: recalled, not copied). The guarantee states the true epsilon of this noise. Under "replace" it
    is twice the printed one (4/3 where rewards are known) and is refused: a user who is replaced leaves H cells of each kind, and
    enters H others. Under "null" it is kept. `confide.explain` says from how many users on the bonus lets learning start: on riverswim
    15 million at epsilon = 1.

    Departures of both calibrations: those of `UCBVI`.
    """

    name = "pucb"
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
        choices = Choices("PUCB", episodes, privacy, calibration, schedule, bonus_scale, failure)
        choices.setting(public)
        if calibration == "paper" and isinstance(privacy, LocalDP):
            raise PrivacyError(
                '[Vietri20] has no constants for LocalDP: use calibration="tight", or LDP-OBI (ldp-obi)'
            )
        super().__init__(
            choices.calibrate(public, PUCBRule, factor=0.01, log=200.0),
            privacy=privacy,
            noise=noise,
        )
