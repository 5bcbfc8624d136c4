"""LDP-OBI [Garcelon21]: optimistic backward induction on messages that are noised on the users' devices."""

from dataclasses import replace
from typing import Any

from confide.errors import PrivacyError
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule
from confide.problems.sizes import ProblemSizes
from confide.problems.tabular import TabularPublic
from confide.tables.printed import OBIRule
from confide.tables.ucbvi import Choices, table_footprint


class LDPOBI(Learner):
    """LDP-OBI: optimistic backward induction on locally private sums of visits over an episode.

    Guarantee: local DP for every user (`LocalDP`), by one message per user. calibration="tight" also keeps `JointDP`, for which the
    paper has no constants.

    Reference: [Garcelon21]; calibration="paper": Laplace noise 6 H / epsilon on every number, and the printed bonus (`tables/printed.py`:
    recalled in part, derived in part). Its epsilon is true: a user who is replaced changes three kinds of sums by at most 2 H each in
    L1. Where rewards are known only one kind is sent, and a third of epsilon is spent. `confide.explain` says from how many users on
    the bonus lets learning start: on riverswim 4e8 at epsilon = 1.

    Departures of "paper": those of `UCBVI`; a table whose steps differ has sums for each step. Departures of "tight": those of `UCBVI`;
    messages are made by a codebook, whose noise is several times less.
    """

    name = "ldp-obi"
    abilities = replace(Learner.abilities, counts=False)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return table_footprint(
            sizes,
            episodes=episodes,
            privacy=privacy,
            layers=1 if sizes.stationary else None,
            **options,
        )

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
        choices = Choices("LDP-OBI", episodes, privacy, calibration, schedule, bonus_scale, failure)
        choices.setting(public)
        if calibration == "paper" and not isinstance(privacy, LocalDP | NoPrivacy):
            raise PrivacyError(
                '[Garcelon21] has constants for LocalDP alone: use calibration="tight", or PUCB (pucb)'
            )
        layers = 1 if public.stationary else None
        super().__init__(
            choices.calibrate(public, OBIRule, factor=0.02, layers=layers),
            privacy=privacy,
            noise=noise,
        )
