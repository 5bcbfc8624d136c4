"""LSVI-UCB [Luyo21, Alg. 2; Jin20] for linear MDPs, batched: as printed, and with the least noise that the guarantee needs.

Prefix sums of Lambda go through a counter. At each change of policy the responses of all users so far are computed again, from what is
stored of them, and released with noise from one budget (`SharedBudget`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confide.errors import InvalidParameter, PrivacyError
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round, Statistic
from confide.learning.arguments import check_choices, check_episodes_and_privacy, choose_schedule
from confide.learning.learner import Learner
from confide.learning.resources import NUMBERS_PER_STEP, Footprint, numbers_of_users
from confide.linear_mdps.batches import BatchPlan, at_every, first_release, growing, static
from confide.linear_mdps.contributions import StoredTargets, StoredTransitions
from confide.linear_mdps.function_planning import (
    CentredFunctionRule,
    ObservedFeatures,
    PrintedFunctionRule,
)
from confide.linear_mdps.observed_rows import FeatureClip, ObservedRows, ObservedTargets
from confide.linear_mdps.planning import (
    CentredRule,
    PrefixSums,
    PrintedRule,
    ReleasedResponse,
    ResponseTarget,
    Rule,
    backward_induction,
    has_grown,
    plan_round,
)
from confide.linear_mdps.printed import (
    OWN_CONSTANTS,
    LinearSetting,
    gram_rows,
    is_pure,
    printed_linear,
)
from confide.mechanisms.additive import additive_noise
from confide.mechanisms.counters import Exact, Factorisation, Tree
from confide.mechanisms.sources import NoiseSource
from confide.planners.regression import Shift
from confide.planners.reward_features import centred_rewards, raw_rewards
from confide.privacy.bounded import Array, Bound, L2Ball, NoiseLevel, Released
from confide.privacy.loss import NO_PRIVACY, Loss, compose, loss_for, share_of
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request
from confide.privatizers import Batches, ExpectedNoise, Schedule, geometric
from confide.privatizers.stored_rows import (
    Ask,
    ResponseBudget,
    ResponsePrivatizer,
    StoredRows,
)
from confide.problems.linear_mdp import LinearMDPPublic
from confide.problems.observations import FeaturesPublic
from confide.problems.sizes import ProblemSizes
from confide.statistics.bounds import RegressionRows
from confide.statistics.transitions import RewardTargets

GRAM_SHARE = 0.6  # of the budget, for Lambda and rewards; regret is flat between .5 and .65
REWARD_BALANCE = 1.5  # kappa of rewards beside Lambda
# Of the estimate of planning time: one multiplication in a product of matrices, by `benchmarks/memory.py`.
SECONDS_PER_PRODUCT = 1e-9
# Features of users who are sampled together (`GymProblem.chunk`), and how many copies of them exist while they are clipped.
SHOWN_TOGETHER = 2**23
COPIES_OF_FEATURES = 6
_LOCAL = (
    "LSVI-UCB cannot be made local: its responses sum phi (r + V(s')) are computed again whenever V changes, from data that a server under "
    "LocalDP must never see; sending features and rewards noised one by one multiplies the noise, and regret is linear. Whether a "
    "model-free algorithm can do better is open [Luyo21, Remark 5]. Use NextStateVI (next-state-vi), which asks each user once, or JointDP"
)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureKind:
    """What differs between numbered states and features of observations: statistics, stored rows and rules."""

    horizon: int
    dimension: int
    # the statistic of users, for a bound and whether rewards are centred
    statistic: Callable[[RegressionRows, bool], Statistic]
    rows: Callable[[int], StoredRows]
    centred: Callable[[float], Rule]
    printed: Callable[[Shift], Rule]


def numbered_states(public: LinearMDPPublic) -> FeatureKind:
    """A table of features: counts of transitions are stored, and their size does not depend on the number of users."""
    phi = public.features

    def statistic(bound: RegressionRows, centred: bool) -> Statistic:
        # |y| <= 1/2: a constant is linear in the features of a linear MDP
        rewards = centred_rewards(phi) if centred else raw_rewards(phi)
        return StoredTargets(RewardTargets(bound, rewards, 1.0))

    return FeatureKind(
        public.horizon,
        public.dimension,
        statistic,
        lambda users: StoredTransitions(phi, public.horizon),  # noqa: ARG005
        lambda scale: CentredRule(phi, scale),
        lambda shift: PrintedRule(phi, shift),
    )


def observed_features(public: FeaturesPublic) -> FeatureKind:
    """A function of observations: the rows of each user are stored."""
    norm, end = public.feature_norm, public.terminal_reward
    clip = FeatureClip(public.horizon, public.actions, public.dimension, norm)
    observed = ObservedFeatures(
        public.actions, public.dimension, norm, end, public.features, public.features_name
    )
    return FeatureKind(
        public.horizon,
        public.dimension,
        lambda bound, centred: ObservedTargets(clip, bound, 0.5 if centred else 0.0),
        lambda users: ObservedRows(clip, users),
        lambda scale: CentredFunctionRule(observed, scale),
        lambda shift: PrintedFunctionRule(observed, shift),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ValueRegressions:
    """Alg. 2 between two releases, and how the budget is divided between prefix sums and responses, in advance."""

    setting: FeatureKind = field(repr=False)
    bound: RegressionRows
    rule: Rule
    statistic: Statistic = field(repr=False)
    batches: BatchPlan
    loss: Loss  # of all responses together
    shares: Sequence[float]  # of that loss, one for each response

    def is_due(self, sums: Released, shown: Array, shown_std: float, changes: int) -> bool:
        """Whether the policy changes now: decided by releases alone."""
        if self.batches.growth is None or changes == 0:
            return True
        now = self.sums(sums.values, sums.noise.std)
        return has_grown(now, self.sums(shown, shown_std), self.batches.growth)

    def ask(self, sums: Released, ask: Ask) -> None:
        """A response for each step that needs one, from the last to the first."""

        def respond(target: ResponseTarget) -> ReleasedResponse:
            return ReleasedResponse(*ask(target.step, target.values, target.reward_weight))

        prefix = self.sums(sums.values, sums.noise.std)
        backward_induction(self.rule, prefix, self.setting.horizon, respond)

    def make_privatizer(self, bound: Bound, schedule: Schedule, **options: Any) -> Batches:
        """Prefix sums through a counter, and responses from what is stored of users."""
        rows = self.setting.rows(schedule.users)
        budget = ResponseBudget(self.loss, self.shares, self.responses, self.batches.switches)
        return ResponsePrivatizer(bound, schedule, rows, self, budget, **options)

    @property
    def responses(self) -> int:
        """How many responses a change of policy needs at most: of the steps 0, 1, ..."""
        return self.rule.responses(self.setting.horizon)

    def sums(self, values: Array, std: float) -> PrefixSums:
        gram, rewards = self.bound.unpack(values)
        return PrefixSums(gram, rewards, std, std / self.bound.balance)

    def plan(self, released: Released) -> Round:
        sums = self.sums(released.values[: self.bound.size], released.noise.std)
        answers = released.values[self.bound.size :]
        planned = plan_round(self.rule, sums, answers, released.memory["seed"])
        return Round(planned.policies, self.statistic, planned.memory, planned.signal)

    def describe(self) -> Description:
        calibration, planning = self.rule.describe()
        planning += f"; {self.responses} responses computed again at each of at most {self.batches.switches} changes of policy"
        return Description(calibration, planning, self.bound.rows)


def tight(
    setting: FeatureKind,
    episodes: int,
    privacy: Request,
    batches: BatchPlan | None,
    *,
    bonus_scale: float | None,
) -> Calibration:
    """Lambda and rewards through one counter, targets within their public range, more budget for later releases."""
    H, d = setting.horizon, setting.dimension
    bound = RegressionRows(H, d, 1.0, target=0.5, balance=REWARD_BALANCE)
    statistic = setting.statistic(bound, True)
    rule = setting.centred(0.2 if bonus_scale is None else bonus_scale)
    whole = NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy)
    gram, responses = (
        (whole, whole)
        if whole == NO_PRIVACY
        else (share_of(whole, GRAM_SHARE), share_of(whole, 1 - GRAM_SHARE))
    )
    chosen = batches or growing(
        episodes,
        first=first_release(bound, gram, episodes, privacy=privacy, deviations=10, least=4 * d),
    )
    if H == 1:  # rewards are all there is to learn
        no_responses = ValueRegressions(setting, bound, rule, statistic, chosen, NO_PRIVACY, ())
        return _calibration(no_responses, None, whole)
    algorithm = ValueRegressions(
        setting, bound, rule, statistic, chosen, responses, chosen.shares(H - 1)
    )
    return _calibration(algorithm, None, gram)


def paper(
    setting: FeatureKind,
    episodes: int,
    privacy: Request,
    batches: BatchPlan | None,
    *,
    bonus_scale: float | None,
    failure: float,
) -> Calibration:
    """[Luyo21, E.1], [E.3] at delta = 0, and without noise Upsilon = 0."""
    H, d = setting.horizon, setting.dimension
    count = None if batches is None else batches.schedule.leaves
    made = printed_linear(privacy, LinearSetting(episodes, H, d, failure, count))
    chosen = batches or static(episodes, made.batches)
    scale = 1.0 if bonus_scale is None else bonus_scale
    rule, bound = setting.printed(Shift(made.regularizer, scale * made.beta)), gram_rows(H, d)
    gram, responses = made.losses(
        privacy, H, d, leaves=chosen.schedule.leaves, changes=chosen.switches
    )
    statistic, shares = setting.statistic(bound, False), chosen.shares(H, [1.0] * chosen.switches)
    tree = None if isinstance(privacy, NoPrivacy) else Tree(chosen.schedule.leaves)
    algorithm = ValueRegressions(setting, bound, rule, statistic, chosen, responses, shares)
    made_by = OWN_CONSTANTS if is_pure(privacy) else ""
    return replace(_calibration(algorithm, tree, gram), constants=made_by)


def _calibration(
    algorithm: ValueRegressions, counter: Factorisation | None, loss: Loss
) -> Calibration:
    """`loss` is that of the prefix sums."""
    schedule = algorithm.batches.schedule
    return Calibration(algorithm, schedule, counter, loss, algorithm.make_privatizer)


class LSVIUCB(Learner):
    """LSVI-UCB: optimistic least-squares value iteration in linear MDPs with unknown rewards, batched.

    The features are a table for numbered states (`LinearMDP.public`), or a function of an observation
    (`GymProblem.public`, or a `FeaturesPublic` of your own), which may be continuous.

    Guarantee: joint DP for every user (`privacy`). delta = 0 gives Laplace noise.

    - What leaves: noisy prefix sums of Lambda (and rewards), through one counter, and at each change of
      policy one noisy response per step, sum phi (w r + y(V(s'))) over all users so far. Both are on
      one budget, divided in advance. Everything else (policies, times of changes, which responses are
      asked) is a function of these releases, of public choices and of a public seed.
    - What is private and stays: counts of users' transitions, or with features of observations the
      rows of each user: features of all actions at each step, action and reward. They are kept until
      the last change of policy, and are in saved states.
    - Whose data: a user is in one batch of the prefix sums and in all later responses. V is public
      when a response is asked, so the response is a sum over users of terms that are functions of one
      user's rows each, in the unit ball (proofs: `StoredTransitions`, `ObservedRows`). A user whose
      features cannot be computed contributes zero.
    - Joint: a user acts by a public policy on the user's own observations (billboard lemma), so all
      that others see is what leaves. A function of observations must not remember earlier calls:
      then one user's rows would depend on another user, and no guarantee would hold.

    `LocalDP` is refused: whether it can be kept is an open problem [Luyo21, Remark 5].

    `schedule` is a plan of batches (`confide.linear_mdps.batches`: static, growing, adaptive, one_by_one) or a `Schedule`.

    Reference: [Luyo21, Alg. 2]; calibration="paper": E.1, with its static batches, the printed noise, shift and width (times
    `bonus_scale`). At delta = 0 the paper prints orders only (E.3), and the constants are ours (`printed.py`). The guarantee states the
    exact loss of the noise. Without noise this is batched LSVI-UCB [Jin20, Wang21].

    | Algorithm 2 | here |
    |---|---|
    | lambda, B, sigma_u, sigma_Lambda, Upsilon, c_K, beta "as in App. E.1" | `printed.printed_linear` |
    | k_i = i ceil(K / B) + 1 | `batches.static` |
    | H trees with 2B nodes, noise (Z' + Z'^T) / 2 | `paper`: `Tree`; `privatizers.central.CounterNoise` |
    | eta_h^i ~ N(0, sigma_u^2 I) | `privatizers.stored_rows.SumsAndResponses`, by a `SharedBudget` |
    | observe D = {phi(s, a)}, take argmax_a Q(s, a) | `TabularPolicy.act`, `FeaturePolicy.act` |
    | send D and X = (s, a, r) | `observe`; `StoredTargets`, `ObservedTargets` |
    | if k = k_{b+1} - 1 | `ValueRegressions.is_due` |
    | for h = H, ..., 1 | `planning.backward_induction` |
    | Lambda = lambda I + sum phi phi^T | the prefix sums; lambda is in `Shift` |
    | ~Lambda = Lambda + (c_K + Upsilon) I + H_h | `planners.regression.Shift.estimate` |
    | u = sum phi (r + V(s')) | `StoredTransitions.response`, `ObservedRows.response` |
    | ~u = u + eta | `SumsAndResponses.close` |
    | ~w = ~Lambda^-1 ~u | `Shift.estimate` |
    | Q = clip(phi ~w + beta ||phi||, 0, H), V = max_a Q | `PrintedRule.q_values`, `PrintedFunctionRule.q_values` |

    Departures of "paper": c_K, chi, U_K and C are not in the copy of E.1 that we read (`printed.py`); the first policy has the shift on its
    diagonal, as all others; actions of equal Q are drawn at random; responses are released for targets (r + V) / (H + 1), with noise
    sigma_u / (H + 1). An episode that has ended is worth `terminal_reward` per step.
    Departures of "tight" (all for less noise at the same guarantee): rewards are in the counter's query, so that only values are asked
    about again; values are centred on their range, which is public, and the noise follows it; later responses, which serve more users,
    get more of the budget; batches grow by 1.3; eigenvalues are clipped at zero and a ridge of the size of the noise stands for the
    shift; in a table, entries of Lambda that must be zero keep no noise; the bonus is `bonus_scale` standard errors (0.2); the first
    batch plays at random. Regret is measured, not proved (docs/agents/linear_mdps.md).
    """

    name = "lsvi-ucb"
    profile = Profile(
        "optimistic least-squares value iteration, in batches; joint privacy only",
        family="linear MDP",
        paper="Luyo21",
        local=False,
        observations=True,
        stuck="rivers, detours, sparse or random transitions, or absorbing states",
    )
    abilities = replace(Learner.abilities, sums=False)  # counts of transitions are looked at again

    @classmethod
    def footprint(
        cls,
        sizes: ProblemSizes,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | BatchPlan | None = None,
        **options: Any,  # noqa: ARG003 - they change nothing
    ) -> Footprint:
        times = schedule.schedule if isinstance(schedule, BatchPlan) else schedule
        chosen = choose_schedule(times, geometric(episodes))
        tree = (
            Tree(chosen.leaves)
            if calibration == "paper" and not isinstance(privacy, NoPrivacy)
            else None
        )
        matrices = sizes.horizon * sizes.dimension**2
        numbers = 20 * matrices + numbers_of_users(chosen, sizes.horizon)
        if sizes.family == FeaturesPublic.family:
            shown = sizes.actions * sizes.dimension
            # Of each user and step: features in four bytes each, an action and a reward.
            numbers += episodes * sizes.horizon * (shown // 2 + 2)
            users = numbers_of_users(chosen, sizes.horizon) // NUMBERS_PER_STEP
            together = min(users * shown, SHOWN_TOGETHER)
            numbers += COPIES_OF_FEATURES * together
            products = episodes * sizes.horizon * shown * (sizes.dimension + 1)
        else:
            features = sizes.states * sizes.actions * sizes.dimension
            stored = min(episodes, sizes.states**2 * sizes.actions) * sizes.horizon
            numbers += 10 * stored + 4 * features
            products = sizes.dimension * (matrices + sizes.horizon * features)
        seconds = 0.01 + SECONDS_PER_PRODUCT * products
        return Footprint(matrices // 2, numbers, seconds, chosen, tree)

    def __init__(
        self,
        public: LinearMDPPublic | FeaturesPublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | BatchPlan | None = None,
        bonus_scale: float | None = None,
        failure: float = 0.1,
        noise: NoiseSource | None = None,
    ) -> None:
        if not isinstance(public, LinearMDPPublic | FeaturesPublic):
            raise InvalidParameter(
                "LSVI-UCB needs a linear MDP (LinearMDP.public) or features of observations "
                f"(GymProblem.public), got {type(public).__name__}"
            )
        check_episodes_and_privacy(episodes, privacy)
        if isinstance(privacy, LocalDP):
            raise PrivacyError(_LOCAL)
        check_choices(calibration, bonus_scale, failure)
        if not isinstance(schedule, Schedule | BatchPlan | None):
            raise InvalidParameter(
                f"schedule must be a Schedule or a plan of batches, got {type(schedule).__name__}"
            )
        batches = at_every(schedule) if isinstance(schedule, Schedule) else schedule
        if batches is not None:
            choose_schedule(batches.schedule, Schedule((episodes,)))
        if isinstance(public, FeaturesPublic):
            # Users come as trajectories: nothing about them can be counted.
            self.abilities = replace(self.abilities, counts=False)
            setting = observed_features(public)
        else:
            setting = numbered_states(public)
        if calibration == "tight":
            made = tight(setting, episodes, privacy, batches, bonus_scale=bonus_scale)
        else:
            made = paper(
                setting, episodes, privacy, batches, bonus_scale=bonus_scale, failure=failure
            )
        assert isinstance(made.algorithm, ValueRegressions)
        identity = Identity(
            self.name,
            1,
            public=public,
            calibration=calibration,
            batches=made.algorithm.batches,
            bonus_scale=bonus_scale,
            failure=failure,
        )
        super().__init__(made, privacy=privacy, identity=identity, noise=noise)

    @property
    def algorithm(self) -> ValueRegressions:
        assert isinstance(self.calibration.algorithm, ValueRegressions)
        return self.calibration.algorithm

    @property
    def batches(self) -> BatchPlan:
        return self.algorithm.batches

    @property
    def loss(self) -> Loss | None:
        gram, responses = self.calibration.loss, self.algorithm.loss
        assert gram is not None
        if NO_PRIVACY in (gram, responses) and (gram == NO_PRIVACY or self.algorithm.shares):
            return NO_PRIVACY
        return compose([gram, responses]) if self.algorithm.shares else gram

    def describe(self) -> Description:
        said, shares = super().describe(), self.algorithm.shares
        if isinstance(self.privacy, NoPrivacy) or not shares:
            return said
        ball, relation = (
            L2Ball(1.0, self.algorithm.setting.dimension),
            Relation(self.privacy.relation),
        )
        least, most = (
            additive_noise(
                ball,
                share_of(self.algorithm.loss, share),
                relation,
                Exact(1),
                discrete=False,
                users=1,
            ).std
            for share in (max(shares), min(shares))
        )
        return replace(
            said,
            planning=f"{said.planning}, with noise of {least:.3g} to {most:.3g} times half their range",
        )

    def expected_noise(self) -> ExpectedNoise:
        """The counter's; the loss is that of prefix sums and responses together."""
        together = self.loss
        assert together is not None
        return replace(super().expected_noise(), loss=together)

    @property
    def switches(self) -> int:
        """How often the policy was changed so far. Public."""
        return int(self.released().values[-1])

    @property
    def noise_level(self) -> NoiseLevel:
        """Of the newest prefix sums, also between two changes of policy."""
        privatizer = self._privatizer
        assert isinstance(privatizer, ResponsePrivatizer)
        return privatizer.release_sums().noise
