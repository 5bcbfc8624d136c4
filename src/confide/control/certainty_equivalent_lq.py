"""Certainty equivalence for linear quadratic control: our own. Privacy is proved, regret is measured."""

from confide.control.residual_control import Controller
from confide.mechanisms.sources import NoiseSource
from confide.privacy.request import Request
from confide.privatizers import Schedule
from confide.problems.lq import LQPublic


class CertaintyEquivalentLQ(Controller):
    """The cautious gains of the posterior's mean, without draws. Inputs to learn from are tried as by `ThompsonLQ`; promise and gate are
    the same."""

    name = "certainty-equivalent-lq"

    def __init__(
        self,
        public: LQPublic,
        *,
        episodes: int,
        privacy: Request,
        schedule: Schedule | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        super().__init__(public, episodes=episodes, privacy=privacy, samples=0, spread=0.0, schedule=schedule, noise=noise)
