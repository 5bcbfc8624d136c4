"""Private-OFU-RL [Chowdhury21] for linear quadratic control, with the paper's calibration and with
the least noise that the guarantee needs.

- What leaves this file: the agent `ofu-lq`, whose `identity` names it in certificates and ledgers,
  and its description, which `confide.explain` prints.
- What may not be changed freely: `identity`; the paper's calibration, whose constants have golden
  values (tests/control/test_printed.py); and the clip (`ControlRows`), on which privacy rests.
- What may be changed freely: how gains are planned from a release (`optimistic_planning.py`). The
  width of the confidence set is proved, regret is measured (benchmarks/results/control.md).
"""

from dataclasses import dataclass, replace
from typing import Any

from confide.arguments import shown
from confide.control.contributions import ControlRows, ControlSums
from confide.control.footprint import control_footprint
from confide.control.optimistic_planning import (
    ConfidenceSet,
    confidence_set,
    lagrangian_bound,
    optimistic,
    plan_for_starts,
    plan_optimistically,
    printed_set,
    regularized_set,
    response_weight,
)
from confide.control.printed import PrintedControl, printed_control
from confide.control.regularizers import (
    ControlRegularizer,
    MakeControlRegularizer,
    check_regularized,
    make_regularizer,
)
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.mechanisms.counters import Tree
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Array, Released
from confide.privacy.request import NoPrivacy, Request
from confide.privatizers import Schedule, geometric
from confide.privatizers.schedule import one_tree
from confide.problems.lq import LQPublic
from confide.problems.sizes import ProblemSizes

# The cap in units of 1 + s^2, which is about the trace of one step. Chosen by measurement: regret
# is flat between 0.8 and 1.3. Privacy holds for any cap.
CAP_IN_STEPS = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticControl:
    """Between two releases: a confidence set, the cheapest system in it, and its gains."""

    public: LQPublic
    statistic: ControlSums
    releases: int
    # The probability with which the confidence set may miss the system.
    failure: float
    # Whether the width is proved. It is for Gaussian noise and for none, not for Laplace noise.
    proved: bool = True
    # The constants of the paper, or None for the tight calibration.
    printed: PrintedControl | None = None
    # The caller's own regularizer, in the place of ours.
    regularizer: ControlRegularizer | None = None

    @property
    def bound(self) -> ControlRows:
        return self.statistic.bound

    @property
    def plans_for_starts(self) -> bool:
        """Whether gains depend on where a user starts, as with the paper's calibration."""
        return self.printed is not None

    def plan(self, released: Released) -> Round:
        if self.printed is not None:
            rule = plan_for_starts(
                self.confidence(released),
                released,
                self._costs,
                bound=self.public.parameter_bound,
                gain_bound=self.public.gain_bound,
            )
            return Round(rule.policies, self.statistic, rule.memory, rule.signal)
        planned = plan_optimistically(
            self.confidence(released),
            released,
            self._costs,
            bound=self.public.parameter_bound,
            gain_bound=self.public.gain_bound,
            # Early plans are for systems that need not exist, so the first half does not warn.
            warns=2 * released.generation >= self.releases,
        )
        return Round(planned.policies, self.statistic, planned.memory, planned.signal)

    @property
    def _costs(self) -> tuple[Array, Array, int, float]:
        public = self.public
        return public.Q, public.R, public.horizon, public.noise_radius

    def confidence(self, released: Released) -> ConfidenceSet:
        """The confidence set for a release: of a regularizer, of the paper, or ours."""
        S, C = self.bound.unpack(released.values)
        constants = self.printed
        radius = self.public.noise_radius
        if self.regularizer is not None:
            V, U, regularity = check_regularized(
                self.regularizer.regularize(
                    S, C, noise_std=released.noise.std, episode=released.users + 1
                ),
                self.public.states,
                self.public.inputs,
            )
            return regularized_set(V, U, regularity, noise_radius=radius, failure=self.failure)
        if constants is not None:
            return printed_set(
                S,
                C,
                lambda_min=constants.lambda_min,
                lambda_max=constants.lambda_max,
                nu=constants.nu,
                noise_radius=radius,
                failure=self.failure,
            )
        return confidence_set(
            S,
            C,
            noise=released.noise.std,
            weight=self.bound.weight,
            noise_radius=radius,
            bound=self.public.parameter_bound,
            failure=self.failure,
            releases=self.releases,
        )

    def describe(self) -> Description:
        calibration = "tight" if self.printed is None else "paper"
        if self.regularizer is not None:
            start = "each user starts" if self.printed is not None else "a random start is"
            text = (
                f"the cheapest system, from where {start}, of the set of Lemma 1 with a custom "
                f"regularizer: {self.regularizer.describe()}"
            )
        elif self.printed is not None:
            text = (
                "for the state in which each user starts, the cheapest system of the printed "
                "confidence set, computed from releases; "
                "a user's gains depend on the user's start and must not be published"
            )
            if self.public.parameter_bound > 1:
                text += "; the printed width is proved for ||(A, B)||_F <= 1 only"
        else:
            text = "the cheapest system, for a random start, of a confidence set that "
            if self.proved:
                text += f"holds with probability {1 - self.failure:g}"
            else:
                text += "is not proved for Laplace noise"
        return Description(calibration, text)


def tight(
    public: LQPublic,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None,
    failure: float,
    regularizer: ControlRegularizer | None,
) -> Calibration:
    """The calibration with the least noise: one query, clipped as a whole.

    It goes through the counter with the least noise at geometric times.
    """
    n = public.states
    d = public.inputs
    # ||z||^2 if the state has length one and gains are as long as they may be.
    longest = 1 + public.gain_bound**2
    weight = response_weight(n, d, public.parameter_bound, longest)
    bound = ControlRows(n, d, CAP_IN_STEPS * (1 + weight**2), weight)
    chosen = choose_schedule(schedule, geometric(episodes))
    sums = ControlSums(bound, public.parameter_bound, public.noise_radius)
    proved = privacy.delta > 0 or isinstance(privacy, NoPrivacy)
    algorithm = OptimisticControl(
        public, sums, chosen.leaves, failure, proved, regularizer=regularizer
    )
    return Calibration(algorithm, chosen)


def paper(
    public: LQPublic,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None,
    failure: float,
    regularizer: ControlRegularizer | None,
) -> Calibration:
    """The calibration of [Chowdhury21, Sec. IV].

    What Assumption 1 bounds is clipped there: next states to length 1, an episode to H times one
    step.
    """
    constants = printed_control(privacy, public, episodes=episodes, failure=failure)
    chosen = choose_schedule(schedule, one_tree(episodes))
    algorithm = OptimisticControl(
        public,
        ControlSums(constants.bound, 0.0, 1.0),
        chosen.leaves,
        failure,
        printed=constants,
        regularizer=regularizer,
    )
    if isinstance(privacy, NoPrivacy):
        return Calibration(algorithm, chosen)
    tree = Tree(chosen.leaves)
    return Calibration(algorithm, chosen, tree, constants.loss(privacy, tree.column_norm(2)))


class OFULQ(Learner):
    """Private-OFU-RL: the best controls for the cheapest system that is plausible, from private
    prefix sums of z z^T and z x'^T.

    Guarantee: joint DP (`JointDP`) or local DP (`LocalDP`) for every user, by one query per user,
    all steps together (`ControlRows`), through one counter; delta = 0 gives Laplace noise, for
    which the width is not proved. Bounds are enforced by the clip, never assumed. The tight form
    plans for a random start, so its gains are functions of releases alone. With calibration="paper"
    it plans for the x_1 of each user, as (9) has it: the policy is a rule, `policy.for_start(x)`,
    that follows from releases alone and may be published. The gains of one user depend on this
    user's x_1, and must not be published.

    Reference: [Chowdhury21, Alg. 1]. What its lines do, and where:

    - line 1, the counters B_1 and B_2: one `Tree` for the joint query in `paper`, with the
      constants of `control/printed.py`
    - line 3, T_{1,k} and T_{2,k}: `privatizers/central.py`; `ControlRows.unpack` reads both from a
      release
    - line 4, the set C_k(alpha) of (7), (8) and Lemma 1: `printed_set` in
      `control/optimistic_planning.py`
    - line 5, the cheapest system from x_{k,1}, (9): `OptimisticPolicy.for_start`, with `search` in
      `planners/_optimistic_kernels.py`
    - line 7, u = K_h x, (3): `backward` in `planners/_riccati_kernels.py`; the user or the problem
      plays the gains
    - line 9, sums of z z^T and z x'^T: `ControlSums` in `control/contributions.py`

    calibration="paper": Sec. IV and Thm. 3, a release per episode through a binary tree, with the
    printed noise, shift and width. The guarantee states the exact loss of that noise. Constants
    that give more than requested are refused (from epsilon = 39.3 on, at gamma = 1.2 and delta =
    1e-5).

    `regularizer` makes the changing regularizers H_k and L_k of Sec. III-A your own: see
    `control/regularizers.py`. The noise of the calibration stays, and is a part of them.

    Departures of both calibrations:

    - The search (9) is local, with two starting points (`planners/_optimistic_kernels.py`).
    - The width is a function of releases. The printed beta_k reads the exact Z^T Z: a leak.
    - K_h uses P_{h+1}, and gains are projected to gamma.
    - Systems that are not controllable are searched, too.
    - B_2 counts z x'^T, as line 9 has it, and not z z^T as in Sec. III-B.

    Departures of "paper": one query for both counters, with the printed standard deviation of every
    entry; an episode that Assumption 1 forbids is clipped, at its bounds.

    Departures of "tight", for less noise at the same guarantee:

    - An episode is clipped as a whole, by weights that are known before their noise, so that the
      width stays valid.
    - The width holds with probability 1 - `failure` at all releases together.
    - The counter is the one with the least noise, and releases are geometric.

    Privacy needs nothing of Assumption 1. The width needs ||Theta||_F <= parameter_bound and ||w||
    <= C_w; the printed one needs Assumption 1.
    """

    name = "ofu-lq"
    profile = Profile(
        "optimistic control: optimal gains for the cheapest plausible system",
        family="linear control",
        paper="Chowdhury21",
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
        calibration: str = "tight",
        schedule: Schedule | None = None,
        failure: float = 0.1,
        regularizer: MakeControlRegularizer | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        if not isinstance(public, LQPublic):
            raise InvalidParameter(
                f"{self.name} needs a linear system with quadratic costs (LQSystem.public), got "
                f"{type(public).__name__}"
            )
        check_episodes_and_privacy(episodes, privacy)
        check_choices(calibration, None, failure)
        if regularizer is not None and not callable(regularizer):
            raise InvalidParameter(
                "regularizer must be a function of what is public about the system, got "
                f"regularizer={shown(regularizer)}"
            )
        own = None if regularizer is None else make_regularizer(regularizer, public)
        calibrate = tight if calibration == "tight" else paper
        calibrated = calibrate(public, episodes, privacy, schedule, failure, own)
        # A regularizer has no identity, because it is the user's own code. Whether there is one is
        # part of the agent's.
        named = {} if own is None else {"own_regularizer": True}
        identity = Identity(
            self.name, 1, public=public, calibration=calibration, failure=failure, **named
        )
        super().__init__(calibrated, privacy=privacy, identity=identity, noise=noise)

    def optimism(self, start: Array | None = None) -> tuple[float, float]:
        """(the expected cost of the system that is planned for, a bound below which no plausible
        system is).

        By default for a random start. For a user's own start the two numbers depend on this user,
        and must not be published.
        """
        assert isinstance(self.algorithm, OptimisticControl)
        plausible = self.algorithm.confidence(self.released())
        costs = self.algorithm._costs
        bound = self.algorithm.public.parameter_bound
        cheapest = optimistic(
            plausible.theta, plausible.V, plausible.beta, *costs, bound=bound, first=start
        )
        below = lagrangian_bound(plausible.theta, plausible.V, plausible.beta, *costs, first=start)
        return cheapest.cost, below.value
