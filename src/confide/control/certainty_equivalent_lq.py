"""Certainty equivalence for linear quadratic control: our own.

Privacy is proved, regret is measured (benchmarks/results/control.md). What leaves this file is the
agent `certainty-equivalent-lq`, whose `identity` names it in certificates and ledgers. All the rest
is in `thompson_lq.py`.
"""

from dataclasses import replace
from typing import Any

from confide.control.footprint import control_footprint
from confide.control.thompson_lq import tight
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.privacy.request import Request
from confide.privatizers import Schedule
from confide.problems.lq import LQPublic
from confide.problems.sizes import ProblemSizes


class CertaintyEquivalentLQ(Learner):
    """The cautious gains of the posterior's mean, without draws.

    Excitation, guarantee and safety are those of `ThompsonLQ`.
    """

    name = "certainty-equivalent-lq"
    profile = Profile(
        "cautious gains for the posterior mean of thompson-lq",
        family="linear control",
        paper="confide",
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
        noise: NoiseSource | None = None,
    ) -> None:
        calibration = tight(
            public,
            self.name,
            episodes=episodes,
            privacy=privacy,
            samples=0,
            spread=0.0,
            schedule=schedule,
        )
        identity = Identity(self.name, 1, public=public)
        super().__init__(calibration, privacy=privacy, identity=identity, noise=noise)
