"""Private-UCB-PO [ChowdhuryZhou21]: policy optimisation on the counts of Private-UCB-VI."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confide.arguments import real
from confide.errors import InvalidParameter
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.planners.mirror_descent import improve, softmax
from confide.policy import StochasticPolicy
from confide.privacy.bounded import Bound, Released
from confide.privacy.request import LocalDP, Request
from confide.privatizers import Schedule
from confide.problems.sizes import ProblemSizes
from confide.problems.tabular import TabularPublic
from confide.tables.printed import TableSetting, UCBVIRule
from confide.tables.ucbvi import Choices, PrintedTables, TightTables, table_footprint

STEP, KEEP = 1.0, 0.25  # of "tight", as in linopt-po


@dataclass(frozen=True, slots=True, eq=False)
class PolicyTables:
    """Between two releases: the policy is evaluated optimistically, and moved towards what looks better. Its logits are the memory.

    A round of n users is n episodes of the paper with the same Q: pi' ~ pi^keep exp(n eta Q), where the paper has keep = 1.
    """

    tables: PrintedTables | TightTables
    step: float  # eta, per user
    keep: float

    @property
    def bound(self) -> Bound:
        return self.tables.bound

    def plan(self, released: Released) -> Round:
        known = self.tables.known(released)
        logits = np.zeros(known.rewards.shape)
        if released.generation:
            logits, total = released.memory["logits"], released.memory["total"]
            if (
                logits.shape != known.rewards.shape
                or not np.isfinite(logits).all()
                or not 0 <= int(total) <= released.users
            ):
                raise InvalidParameter("the memory of earlier rounds does not fit this problem")
            logits = self.keep * logits
            logits = improve(
                logits, known.q_values(softmax(logits)), self.step * (released.users - int(total))
            )
        memory = {"logits": logits, "total": np.array(released.users)}
        return Round((StochasticPolicy(softmax(logits)),), known.statistic, memory, known.signal)

    def describe(self) -> Description:
        said = self.tables.describe()
        return replace(
            said, planning=f"{said.planning}; softmax policies, step {self.step:.3g} per user"
        )


class UCBPO(Learner):
    """Private-UCB-PO: optimistic evaluation of a stochastic policy and mirror-descent steps, on the private counts of `UCBVI`.

    Guarantee: that of `UCBVI`, by the same query; only what is planned from the releases differs. So is the true epsilon
    of the printed noise.

    Reference: [ChowdhuryZhou21]; calibration="paper": the bonus with sqrt(2 S) times the width for sampling, eta = sqrt(2 ln A / (H^2 K)).

    Departures: those of `UCBVI`; the policy is improved by a release before the next users are served. "tight": eta = 1 (`step`)
    and pi^(1/4) in place of pi, as in `LinOptPO`, because releases are prefix sums.
    """

    name = "ucbpo"
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
        step: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
    ) -> None:
        if step is not None:
            real("step", step, above=0)
        choices = Choices("UCB-PO", episodes, privacy, calibration, schedule, bonus_scale, failure)

        def rule(setting: TableSetting, epsilon: float, learned: bool) -> UCBVIRule:
            return UCBVIRule(
                setting, epsilon, learned, local=isinstance(privacy, LocalDP), policies=True
            )

        made = choices.calibrate(public, rule, factor=0.02, log=5.0)
        assert isinstance(made.algorithm, PrintedTables | TightTables)
        usual, keep = (
            (STEP, KEEP)
            if calibration == "tight"
            else (paper_step(episodes, public.horizon, public.actions), 1.0)
        )
        algorithm = PolicyTables(made.algorithm, step or usual, keep)
        super().__init__(
            Calibration(algorithm, made.schedule, made.counter, made.loss),
            privacy=privacy,
            noise=noise,
        )


def paper_step(episodes: int, horizon: int, actions: int) -> float:
    """eta = sqrt(2 ln A / (H^2 K))."""
    return math.sqrt(2 * math.log(actions) / (horizon**2 * episodes))
