"""Private-OFU-RL [Chowdhury21] for linear quadratic control, with as little noise as the promise needs."""

from dataclasses import dataclass

import numpy as np

from confide.agents.learner import Learner, Round, check_asked, choose_schedule
from confide.errors import InvalidParameter
from confide.mechanisms.sources import NoiseSource
from confide.planners.lq_confidence import ConfidenceSet, confidence_set, response_weight
from confide.planners.optimistic_lq import lagrangian_bound, optimistic
from confide.policy import LinearPolicy
from confide.privacy.bounded import Released
from confide.privacy.request import NoPrivacy, Request
from confide.privatizers import Schedule, geometric
from confide.problems.lq import LQPublic
from confide.statistics.control_rows import ControlRows, ControlSums

REACH = 1.0  # the cap in units of 1 + s^2: regret is flat between .8 and 1.3


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticControl:
    """Between two releases: a confidence set, the cheapest system in it, and its gains."""

    public: LQPublic
    statistic: ControlSums
    releases: int
    failure: float
    proved: bool = True  # the width is for Gaussian noise, or none

    @property
    def bound(self) -> ControlRows:
        return self.statistic.bound

    def plan(self, released: Released) -> Round:
        public, known = self.public, self.confidence(released)
        found = optimistic(
            known.theta,
            known.V,
            known.beta,
            public.Q,
            public.R,
            public.horizon,
            public.noise_radius,
            bound=public.parameter_bound,
        )
        signal = float(known.V.trace() / len(known.V)) if released.generation else None
        return Round((_projected(found.policy, public.gain_bound),), self.statistic, {"seed": released.memory["seed"]}, signal)

    def confidence(self, released: Released) -> ConfidenceSet:
        S, C = self.bound.unpack(released.values)
        return confidence_set(
            S,
            C,
            noise=released.noise.std,
            weight=self.bound.weight,
            noise_radius=self.public.noise_radius,
            bound=self.public.parameter_bound,
            failure=self.failure,
            releases=self.releases,
        )

    def describe(self) -> dict[str, str]:
        holds = f"that holds with probability {1 - self.failure:g}" if self.proved else "that is not proved for Laplace noise"
        return {"calibration": "tight", "planning": f"the cheapest system of a confidence set {holds}"}


def _projected(policy: LinearPolicy, longest: float) -> LinearPolicy:
    """Gains no longer than gamma: [Chowdhury21, Lemma 2] assumes it, and it does not follow."""
    sizes = np.linalg.norm(policy.gains, 2, axis=(1, 2))
    return LinearPolicy(policy.gains * np.minimum(1.0, longest / np.maximum(sizes, 1e-300))[:, None, None])


class OFULQ(Learner):
    """Private-OFU-RL: the best controls for the cheapest system that is plausible, from private prefix sums of z z^T and z x'^T.

    Promise: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, by one query per user, all steps together (`ControlRows`), through
    one counter; delta = 0 gives Laplace noise, for which the width is not proved. Bounds are enforced by the clip, never assumed. Gains are
    functions of releases alone: they do not depend on a user's x_1, as (9) would have it.

    Reference: [Chowdhury21, Alg. 1]. Departures, each needed or for less noise at the same promise: the search (9) is done
    (`planners/optimistic_lq.py`), for x_1 uniform on the sphere; the width is a function of releases (the printed beta_k reads the exact
    Z^T Z: a leak) and holds with probability 1 - `failure` at all releases together; an episode is clipped as a whole by weights
    that are known before their noise, so that the width stays valid; K_h uses P_{h+1}; gains are projected; geometric releases.
    Of Assumption 1 privacy needs nothing. The width needs ||Theta||_F <= parameter_bound and ||w|| <= C_w. The printed constants are not
    built.
    """

    name = "ofu-lq"
    accepts_counts = False

    def __init__(
        self,
        public: LQPublic,
        *,
        episodes: int,
        privacy: Request,
        schedule: Schedule | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
    ) -> None:
        if not isinstance(public, LQPublic):
            raise InvalidParameter(
                f"{self.name} needs a linear system with quadratic costs (LQSystem.public), got {type(public).__name__}"
            )
        check_asked(episodes, privacy)
        if not 0 < failure < 1:
            raise InvalidParameter(f"failure must be in (0, 1), got failure={failure}")
        n, d, size = public.states, public.inputs, 1 + public.gain_bound**2
        weight = response_weight(n, d, public.parameter_bound, size)
        bound = ControlRows(n, d, REACH * (1 + weight**2), weight)
        chosen = choose_schedule(schedule, geometric(episodes))
        sums = ControlSums(bound, public.parameter_bound, public.noise_radius)
        proved = privacy.delta > 0 or isinstance(privacy, NoPrivacy)
        algorithm = OptimisticControl(public, sums, chosen.leaves, failure, proved)
        super().__init__(algorithm, chosen, privacy=privacy, noise=noise)

    def optimism(self) -> tuple[float, float]:
        """(the expected cost of the system that is planned for, a bound below which no plausible system is). Public."""
        assert isinstance(self.algorithm, OptimisticControl)
        public, known = self.algorithm.public, self.algorithm.confidence(self.released())
        costs = public.Q, public.R, public.horizon, public.noise_radius
        found = optimistic(known.theta, known.V, known.beta, *costs, bound=public.parameter_bound)
        return found.cost, lagrangian_bound(known.theta, known.V, known.beta, *costs).value
