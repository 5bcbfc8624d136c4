"""LSVI-UCB [Luyo21, Alg. 2; Jin20] for linear MDPs, batched: as printed, and with as little noise as the promise needs."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.agents.batches import Batches, at_every, first_release, growing, static
from confide.agents.learner import Round, check_asked, choose_schedule
from confide.agents.luyo21_linear import LinearSetting, gram_rows, printed_linear
from confide.agents.mixtures import check_choices
from confide.agents.stored_learner import Budget, StoredLearner
from confide.errors import InvalidParameter, PrivacyError
from confide.mechanisms.counters import Tree
from confide.mechanisms.sources import NoiseSource
from confide.planners.least_squares import mean_eigenvalue
from confide.planners.regularizers import Shift
from confide.planners.reward_features import centred_rewards, raw_rewards
from confide.planners.value_regression import Answer, Centred, Printed, Question, Rule, Sums, answered
from confide.policy import StochasticPolicy, TabularPolicy
from confide.privacy.bounded import Released
from confide.privacy.loss import NO_PRIVACY, loss_for, share_of
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule
from confide.problems.linear_mdp import LinearMDPPublic
from confide.statistics.bounds import RegressionRows
from confide.statistics.reward_rows import RewardTargets

Array = npt.NDArray[np.float64]
GRAM_SHARE = 0.6  # of the budget, for Lambda and rewards; regret is flat between .5 and .65
REWARD_BALANCE = 1.5  # kappa of rewards beside Lambda
TIES = 1e-7  # differences of value that are none
_LOCAL = (
    "LSVI-UCB cannot be made local: its responses sum phi (r + V(s')) are computed again whenever V changes, from data that a server under "
    "LocalDP must never see; sending features and rewards noised one by one multiplies the noise, and regret is linear. Whether a "
    "model-free algorithm can do better is open [Luyo21, Remark 5]. Use NextStateVI (next-state-vi), which asks each user once, or JointDP"
)


@dataclass(frozen=True, slots=True, eq=False)
class ValueRegressions:
    """Alg. 2 between two releases."""

    public: LinearMDPPublic
    bound: RegressionRows
    rule: Rule
    statistic: RewardTargets = field(repr=False)

    @property
    def horizon(self) -> int:
        return self.public.horizon

    @property
    def asked_steps(self) -> int:
        return self.rule.asked_steps(self.horizon)

    def sums(self, values: Array, std: float) -> Sums:
        gram, rewards = self.bound.unpack(values)
        return Sums(gram, rewards, std, std / self.bound.balance)

    def plan(self, released: Released) -> Round:
        d, steps = self.public.dimension, self.asked_steps
        sums = self.sums(released.values[: self.bound.size], released.noise.std)
        answers = released.values[self.bound.size : -1].reshape(steps, d + 1)
        if released.values[-1] == 0 and not isinstance(self.rule, Printed):  # nothing is known: everything is tried
            shape = self.public.horizon, self.public.states, self.public.actions
            uniform = StochasticPolicy(np.full(shape, 1 / shape[2]))
            return Round((uniform,), self.statistic, {"seed": released.memory["seed"]})

        def told(question: Question) -> Answer:
            return Answer(answers[question.step, :d], float(answers[question.step, d]))

        return self.round_of(answered(self.rule, sums, self.horizon, told), sums, released)

    def round_of(self, Q: Array, sums: Sums, released: Released) -> Round:
        """The greedy policy; where actions are equally good, at random."""
        seed, switches = released.memory["seed"], int(released.values[-1])
        rng = np.random.default_rng([int(seed), switches])
        greedy = (Q + TIES * rng.random(Q.shape)).argmax(axis=2)
        signal = mean_eigenvalue(sums.gram) if switches else None
        return Round((TabularPolicy(greedy, Q.shape[2]),), self.statistic, {"seed": seed}, signal)

    def describe(self) -> dict[str, str]:
        calibration, planning = self.rule.describe()
        return {"calibration": calibration, "planning": planning}


def tight(
    public: LinearMDPPublic, episodes: int, privacy: Request, batches: Batches | None, bonus_scale: float | None
) -> tuple[ValueRegressions, Batches, Budget]:
    """Lambda and rewards through one counter, values asked about within their public range, more budget for later releases."""
    H, d, phi = public.horizon, public.dimension, public.features
    bound = RegressionRows(H, d, 1.0, target=0.5, balance=REWARD_BALANCE)
    statistic = RewardTargets(
        bound, centred_rewards(phi), 1.0
    )  # a constant is linear in the features of a linear MDP: |y| <= 1/2
    rule = Centred(phi, 0.2 if bonus_scale is None else bonus_scale)
    whole = NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy)
    gram, responses = (whole, whole) if whole == NO_PRIVACY else (share_of(whole, GRAM_SHARE), share_of(whole, 1 - GRAM_SHARE))
    chosen = batches or growing(episodes, first=first_release(bound, gram, episodes, privacy=privacy, deviations=10, least=4 * d))
    budget = Budget(gram, responses, chosen.shares(H - 1)) if H > 1 else Budget(whole, NO_PRIVACY, ())  # nothing to ask
    return ValueRegressions(public, bound, rule, statistic), chosen, budget


def paper(
    public: LinearMDPPublic,
    episodes: int,
    privacy: Request,
    batches: Batches | None,
    *,
    bonus_scale: float | None,
    failure: float,
) -> tuple[ValueRegressions, Batches, Budget]:
    """[Luyo21, E.1], [E.3] at delta = 0, and without noise Upsilon = 0."""
    H, d, phi = public.horizon, public.dimension, public.features
    count = None if batches is None else batches.schedule.leaves
    made = printed_linear(privacy, LinearSetting(episodes, H, d, failure, count))
    chosen = batches or static(episodes, made.batches)
    scale = 1.0 if bonus_scale is None else bonus_scale
    rule, bound = Printed(phi, Shift(made.regularizer, scale * made.beta)), gram_rows(H, d)
    statistic = RewardTargets(bound, raw_rewards(phi), 1.0)
    shares = chosen.shares(H, [1.0] * chosen.switches)
    losses = made.losses(privacy, H, d, leaves=chosen.schedule.leaves, changes=chosen.switches)
    tree = None if isinstance(privacy, NoPrivacy) else Tree(chosen.schedule.leaves)
    return ValueRegressions(public, bound, rule, statistic), chosen, Budget(*losses, shares, tree)


class LSVIUCB(StoredLearner):
    """LSVI-UCB: optimistic least-squares value iteration in linear MDPs with unknown rewards, batched.

    Promise: joint DP for every user (`privacy`): prefix sums of Lambda (and rewards) through one counter, and at each change of policy one
    noisy response per step, sum phi V(s') over all users so far; both on one budget, divided in advance. delta = 0 gives Laplace noise.
    Policies are functions of releases and of a public seed. Counts of users' transitions are kept, PRIVATE, until the last change of
    policy. `LocalDP` is refused: whether it can be kept is an open problem [Luyo21, Remark 5].

    `schedule` is a plan of batches (`confide.agents.batches`: static, growing, adaptive, one_by_one) or a `Schedule`.

    Reference: [Luyo21, Alg. 2]; calibration="paper": E.1, and E.3 at delta = 0, with its static batches, the printed noise, shift and width
    (times `bonus_scale`). The guarantee states what that noise really gives; constants that give more than was asked for are refused (those
    of E.3 are). Without noise this is batched LSVI-UCB [Jin20, Wang21].

    Departures of "paper": c_K, chi, U_K and C are not in E.1 (`luyo21_linear.py`); no response is asked for after the last batch.
    Departures of "tight" (all for less noise at the same promise): rewards are in the counter's query, so that only values are asked about
    again; values are centred on their range, which is public, and the noise follows it; later responses, which serve more users, get more
    of the budget; batches grow by 1.3; eigenvalues are clipped at zero and a ridge of the size of the noise stands for the shift;
    entries of Lambda that must be zero keep no noise; the bonus is `bonus_scale` standard errors (0.2). Regret is measured, not proved
    (docs/linear_mdps.md).
    """

    name = "lsvi-ucb"

    def __init__(
        self,
        public: LinearMDPPublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | Batches | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
    ) -> None:
        if not isinstance(public, LinearMDPPublic):
            raise InvalidParameter(f"LSVI-UCB needs a linear MDP (LinearMDP.public), got {type(public).__name__}")
        check_asked(episodes, privacy)
        if isinstance(privacy, LocalDP):
            raise PrivacyError(_LOCAL)
        check_choices(calibration, bonus_scale, failure)
        if not isinstance(schedule, Schedule | Batches | None):
            raise InvalidParameter(f"schedule must be a Schedule or a plan of batches, got {type(schedule).__name__}")
        batches = at_every(schedule) if isinstance(schedule, Schedule) else schedule
        if batches is not None:
            choose_schedule(batches.schedule, Schedule((episodes,)))
        if calibration == "tight":
            made = tight(public, episodes, privacy, batches, bonus_scale)
        else:
            made = paper(public, episodes, privacy, batches, bonus_scale=bonus_scale, failure=failure)
        super().__init__(*made, privacy=privacy, noise=noise)
