"""LSVI-UCB [Luyo21, Alg. 2; Jin20] for linear MDPs, batched: the paper's calibration and tight.

This file joins the private side (`contributions`, `observed_rows`) and the public side (`planning`,
`function_planning`) under the agent's name. The name and the version of its identity are part of
ledger ids and saved states.

Prefix sums of Lambda go through a counter. At each change of policy the responses of all users so
far are computed again, from what is stored of them, and released with noise from one budget
(`SharedBudget`). Required for privacy: the shares of this budget, and how many responses there can
be, are fixed before the first user (`BatchPlan`, `ResponseBudget`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from confide.errors import InvalidParameter, PrivacyError
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round, Statistic
from confide.learning.arguments import check_choices, check_episodes_and_privacy
from confide.learning.learner import Learner
from confide.learning.resources import Footprint
from confide.linear_mdps.batches import BatchPlan, choose_batches, first_release, growing, static
from confide.linear_mdps.contributions import StoredTargets, StoredTransitions
from confide.linear_mdps.footprint import regression_footprint
from confide.linear_mdps.function_planning import (
    CentredFunctionRule,
    ObservedFeatures,
    PrintedFunctionRule,
)
from confide.linear_mdps.observed_rows import FeatureClip, ObservedRows, ObservedTargets
from confide.linear_mdps.planning import (
    BONUS_STANDARD_ERRORS,
    REWARD_RADIUS,
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
from confide.privatizers import Batches, ExpectedNoise, Schedule
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

# The share of the budget for Lambda and rewards in the tight form. The rest is for responses. The
# regret was flat between 0.5 and 0.65.
GRAM_SHARE = 0.6
# How strongly rewards count beside Lambda in the counter's query, kappa of `RegressionRows`. Chosen
# for a small regret on `latent` and `one-hot` (docs/agents/linear_mdps.md).
REWARD_BALANCE = 1.5
# The first batch of the tight form ends when a count of all its users is so many standard
# deviations of its noise, and has at least so many users per feature. Chosen as the number before.
FIRST_BATCH_DEVIATIONS = 10
FIRST_BATCH_USERS_PER_FEATURE = 4
_WHY_NOT_LOCAL = (
    "privacy must not be LocalDP, because LSVI-UCB cannot be made local: its responses "
    "sum phi (r + V(s')) are computed again whenever V changes, from data that a server under "
    "LocalDP must never see; sending features and rewards noised one by one multiplies the noise, "
    "and regret is linear. Whether a model-free algorithm can do better is open "
    "[Luyo21, Remark 5]. Use NextStateVI (next-state-vi), which asks each user once, or JointDP"
)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureKind:
    """What differs between numbered states and features of observations.

    `statistic` makes what users add to the prefix sums, for a bound and whether rewards are centred
    at 1/2. `rows` makes a store for the rows of so many users. `centred_rule` makes the rule of the
    tight form from a bonus scale, and `printed_rule` the paper's from a shift.
    """

    horizon: int
    dimension: int
    statistic: Callable[[RegressionRows, bool], Statistic]
    rows: Callable[[int], StoredRows]
    centred_rule: Callable[[float], Rule]
    printed_rule: Callable[[Shift], Rule]


def numbered_states(public: LinearMDPPublic) -> FeatureKind:
    """A table of features. Counts of transitions are stored, however many users there are."""
    phi = public.features

    def statistic(bound: RegressionRows, centred: bool) -> Statistic:
        # A constant is linear in the features of a linear MDP, so centred rewards are in +-1/2.
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
    """A function of observations. The rows of each user are stored."""
    clip = FeatureClip(public.horizon, public.actions, public.dimension, public.feature_norm)
    observed = ObservedFeatures(
        public.actions,
        public.dimension,
        public.feature_norm,
        public.terminal_reward,
        public.features,
        public.features_name,
    )
    return FeatureKind(
        public.horizon,
        public.dimension,
        lambda bound, centred: ObservedTargets(clip, bound, REWARD_RADIUS if centred else 0.0),
        lambda users: ObservedRows(clip, users),
        lambda scale: CentredFunctionRule(observed, scale),
        lambda shift: PrintedFunctionRule(observed, shift),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ValueRegressions:
    """Alg. 2 between two releases, and how the budget is divided between sums and responses.

    `loss` is that of all responses together, and `shares` are the shares of it that each of them
    gets. Both are fixed in advance.
    """

    kind: FeatureKind = field(repr=False)
    bound: RegressionRows
    rule: Rule
    statistic: Statistic = field(repr=False)
    batches: BatchPlan
    loss: Loss
    shares: Sequence[float]

    def is_due(self, sums: Released, shown: Array, shown_std: float, changes: int) -> bool:
        """Whether the policy changes now: decided by releases alone.

        `shown` are the prefix sums of the last change of policy.
        """
        if self.batches.growth is None or changes == 0:
            return True
        now = self.prefix_sums(sums.values, sums.noise.std)
        before = self.prefix_sums(shown, shown_std)
        return has_grown(now, before, self.batches.growth)

    def ask(self, sums: Released, ask: Ask) -> None:
        """Ask for a response for each step that needs one, from the last to the first."""

        def respond(target: ResponseTarget) -> ReleasedResponse:
            return ReleasedResponse(*ask(target.step, target.values, target.reward_weight))

        prefix_sums = self.prefix_sums(sums.values, sums.noise.std)
        backward_induction(self.rule, prefix_sums, self.kind.horizon, respond)

    def make_privatizer(self, bound: Bound, schedule: Schedule, **options: Any) -> Batches:
        """Prefix sums through a counter, and responses from what is stored of users."""
        rows = self.kind.rows(schedule.users)
        budget = ResponseBudget(self.loss, self.shares, self.responses, self.batches.switches)
        return ResponsePrivatizer(bound, schedule, rows, self, budget, **options)

    @property
    def responses(self) -> int:
        """How many responses a change of policy needs at most: those of the steps 0, 1, ..."""
        return self.rule.responses(self.kind.horizon)

    def prefix_sums(self, values: Array, noise_std: float) -> PrefixSums:
        gram, rewards = self.bound.unpack(values)
        return PrefixSums(gram, rewards, noise_std, noise_std / self.bound.balance)

    def plan(self, released: Released) -> Round:
        sums = self.prefix_sums(released.values[: self.bound.size], released.noise.std)
        answers = released.values[self.bound.size :]
        public = plan_round(self.rule, sums, answers, released.memory["seed"])
        return Round(public.policies, self.statistic, public.memory, public.signal)

    def describe(self) -> Description:
        calibration, planning = self.rule.describe()
        planning += (
            f"; {self.responses} responses computed again at each of at most "
            f"{self.batches.switches} changes of policy"
        )
        return Description(calibration, planning, self.bound.rows)


def tight(
    kind: FeatureKind,
    episodes: int,
    privacy: Request,
    batches: BatchPlan | None,
    *,
    bonus_scale: float | None,
) -> Calibration:
    """The calibration with the least noise that the guarantee needs.

    Lambda and rewards go through one counter, targets are within their public range, and later
    releases get more of the budget.
    """
    horizon = kind.horizon
    bound = RegressionRows(horizon, kind.dimension, 1.0, target=0.5, balance=REWARD_BALANCE)
    statistic = kind.statistic(bound, True)
    rule = kind.centred_rule(BONUS_STANDARD_ERRORS if bonus_scale is None else bonus_scale)
    total_loss: Loss = NO_PRIVACY
    sums_loss: Loss = NO_PRIVACY
    response_loss: Loss = NO_PRIVACY
    if not isinstance(privacy, NoPrivacy):
        total_loss = loss_for(privacy)
        sums_loss = share_of(total_loss, GRAM_SHARE)
        response_loss = share_of(total_loss, 1 - GRAM_SHARE)
    if batches is None:
        first = first_release(
            bound,
            sums_loss,
            episodes,
            privacy=privacy,
            deviations=FIRST_BATCH_DEVIATIONS,
            least=FIRST_BATCH_USERS_PER_FEATURE * kind.dimension,
        )
        batches = growing(episodes, first=first)
    if horizon == 1:
        # Rewards are all there is to learn, so there are no responses.
        algorithm = ValueRegressions(kind, bound, rule, statistic, batches, NO_PRIVACY, ())
        return _calibration(algorithm, None, total_loss)
    shares = batches.shares(horizon - 1)
    algorithm = ValueRegressions(kind, bound, rule, statistic, batches, response_loss, shares)
    return _calibration(algorithm, None, sums_loss)


def paper(
    kind: FeatureKind,
    episodes: int,
    privacy: Request,
    batches: BatchPlan | None,
    *,
    bonus_scale: float | None,
    failure: float,
) -> Calibration:
    """[Luyo21, E.1], [E.3] at delta = 0, and without noise Upsilon = 0."""
    horizon = kind.horizon
    dimension = kind.dimension
    releases = None if batches is None else batches.schedule.leaves
    setting = LinearSetting(episodes, horizon, dimension, failure, releases)
    constants = printed_linear(privacy, setting)
    if batches is None:
        batches = static(episodes, constants.batches)
    scale = 1.0 if bonus_scale is None else bonus_scale
    rule = kind.printed_rule(Shift(constants.regularizer, scale * constants.beta))
    bound = gram_rows(horizon, dimension)
    leaves = batches.schedule.leaves
    sums_loss, response_loss = constants.losses(
        privacy, horizon, dimension, leaves=leaves, changes=batches.switches
    )
    algorithm = ValueRegressions(
        kind,
        bound,
        rule,
        statistic=kind.statistic(bound, False),
        batches=batches,
        loss=response_loss,
        shares=batches.shares(horizon, [1.0] * batches.switches),
    )
    tree = None if isinstance(privacy, NoPrivacy) else Tree(leaves)
    whose_constants = OWN_CONSTANTS if is_pure(privacy) else ""
    return replace(_calibration(algorithm, tree, sums_loss), constants=whose_constants)


def _calibration(
    algorithm: ValueRegressions, counter: Factorisation | None, sums_loss: Loss
) -> Calibration:
    schedule = algorithm.batches.schedule
    return Calibration(algorithm, schedule, counter, sums_loss, algorithm.make_privatizer)


class LSVIUCB(Learner):
    """LSVI-UCB: optimistic least-squares value iteration in linear MDPs with unknown rewards.

    The features are a table for numbered states (`LinearMDP.public`), or a function of an
    observation (`GymProblem.public`, or a `FeaturesPublic` of your own), which may be continuous.

    Guarantee: joint DP for every user (`privacy`). delta = 0 gives Laplace noise.

    - What leaves: noisy prefix sums of Lambda (and rewards), through one counter, and at each
      change of policy one noisy response per step, sum phi (w r + y(V(s'))) over all users so far.
      Both are on one budget, divided in advance. Everything else (policies, times of changes, which
      responses are asked) is a function of these releases, of public choices and of a public seed.
    - What is private and stays: counts of users' transitions, or with features of observations the
      rows of each user: features of all actions at each step, action and reward. They are kept
      until the last change of policy, and are in saved states.
    - Whose data: a user is in one batch of the prefix sums and in all later responses. V is public
      when a response is asked, so the response is a sum over users of terms that are functions of
      one user's rows each, in the unit ball (proofs: `StoredTransitions`, `ObservedRows`). A user
      whose features cannot be computed contributes zero.
    - Joint: a user acts by a public policy on the user's own observations (billboard lemma), so all
      that others see is what leaves. A function of observations must not remember earlier calls:
      then one user's rows would depend on another user, and no guarantee would hold.

    `LocalDP` is refused: whether it can be kept is an open problem [Luyo21, Remark 5].

    `schedule` is a `Schedule` or a plan of batches (`confide.linear_mdps.batches`: static, growing,
    adaptive, one_by_one).

    Reference: [Luyo21, Alg. 2]; calibration="paper": E.1, with its static batches, the printed
    noise, shift and width (times `bonus_scale`). At delta = 0 the paper prints orders only (E.3),
    and the constants are ours (`printed.py`). The guarantee states the exact loss of the noise.
    Without noise this is batched LSVI-UCB [Jin20, Wang21].

    | Algorithm 2 | here |
    |---|---|
    | lambda, B, sigma_u, sigma_Lambda, Upsilon, c_K, beta "as in App. E.1" | `printed_linear` |
    | k_i = i ceil(K / B) + 1 | `batches.static` |
    | H trees with 2B nodes, noise (Z' + Z'^T) / 2 | `Tree` in `paper`; `central.CounterNoise` |
    | eta_h^i ~ N(0, sigma_u^2 I) | `stored_rows.SumsAndResponses`, by a `SharedBudget` |
    | observe D = {phi(s, a)}, take argmax_a Q(s, a) | `TabularPolicy.act`, `FeaturePolicy.act` |
    | send D and X = (s, a, r) | `observe`; `StoredTargets`, `ObservedTargets` |
    | if k = k_{b+1} - 1 | `ValueRegressions.is_due` |
    | for h = H, ..., 1 | `planning.backward_induction` |
    | Lambda = lambda I + sum phi phi^T | the prefix sums; lambda is in `Shift` |
    | ~Lambda = Lambda + (c_K + Upsilon) I + H_h | `planners.regression.Shift.estimate` |
    | u = sum phi (r + V(s')) | `StoredTransitions.response`, `ObservedRows.response` |
    | ~u = u + eta | `SumsAndResponses.close` |
    | ~w = ~Lambda^-1 ~u | `Shift.estimate` |
    | Q = clip(phi ~w + beta ||phi||, 0, H) | `PrintedRule.q_values` |
    | the same for observations | `PrintedFunctionRule.q_values` |
    | V = max_a Q | `NumberedStates.state_values`, `FunctionsOfFeatures.state_values` |

    Departures of "paper": c_K, chi, U_K and C are not in the copy of E.1 that we read
    (`printed.py`); the first policy has the shift on its diagonal, as all others; actions of equal
    Q are drawn at random; responses are released for targets (r + V) / (H + 1), with noise
    sigma_u / (H + 1). An episode that has ended is worth `terminal_reward` per step.

    Departures of "tight" (all for less noise at the same guarantee): rewards are in the counter's
    query, so that only values are asked about again; values are centred on their range, which is
    public, and the noise follows it; later responses, which serve more users, get more of the
    budget; batches grow by 1.3; eigenvalues are clipped at zero and a ridge of the size of the
    noise stands for the shift; in a table, entries of Lambda that must be zero keep no noise; the
    bonus is `bonus_scale` standard errors (0.2); the first batch plays at random. Regret is
    measured, not proved (docs/agents/linear_mdps.md).
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
    # Users' transitions are looked at again, so sums of several users are not enough.
    abilities = replace(Learner.abilities, sums=False)

    @classmethod
    def footprint(
        cls,
        sizes: ProblemSizes,
        *,
        episodes: int,
        privacy: Request,
        **options: Any,
    ) -> Footprint:
        return regression_footprint(sizes, episodes=episodes, privacy=privacy, **options)

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
            raise PrivacyError(_WHY_NOT_LOCAL)
        check_choices(calibration, bonus_scale, failure)
        batches = choose_batches(schedule, episodes)
        if isinstance(public, FeaturesPublic):
            # Users come as trajectories: nothing about them can be counted.
            self.abilities = replace(self.abilities, counts=False)
            kind = observed_features(public)
        else:
            kind = numbered_states(public)
        if calibration == "tight":
            made_calibration = tight(kind, episodes, privacy, batches, bonus_scale=bonus_scale)
        else:
            made_calibration = paper(
                kind, episodes, privacy, batches, bonus_scale=bonus_scale, failure=failure
            )
        assert isinstance(made_calibration.algorithm, ValueRegressions)
        identity = Identity(
            self.name,
            1,
            public=public,
            calibration=calibration,
            batches=made_calibration.algorithm.batches,
            bonus_scale=bonus_scale,
            failure=failure,
        )
        super().__init__(made_calibration, privacy=privacy, identity=identity, noise=noise)

    @property
    def algorithm(self) -> ValueRegressions:
        assert isinstance(self.calibration.algorithm, ValueRegressions)
        return self.calibration.algorithm

    @property
    def batches(self) -> BatchPlan:
        return self.algorithm.batches

    @property
    def loss(self) -> Loss | None:
        """The loss of prefix sums and responses together."""
        sums_loss = self.calibration.loss
        assert sums_loss is not None
        if not self.algorithm.shares:
            return sums_loss
        if NO_PRIVACY in (sums_loss, self.algorithm.loss):
            return NO_PRIVACY
        return compose([sums_loss, self.algorithm.loss])

    def describe(self) -> Description:
        description = super().describe()
        shares = self.algorithm.shares
        if isinstance(self.privacy, NoPrivacy) or not shares:
            return description
        least = self._response_noise_std(max(shares))
        most = self._response_noise_std(min(shares))
        noise = f"with noise of {least:.3g} to {most:.3g} times half their range"
        return replace(description, planning=f"{description.planning}, {noise}")

    def _response_noise_std(self, share: float) -> float:
        """The standard deviation of the noise on a response with this share of the budget."""
        additive = additive_noise(
            L2Ball(1.0, self.algorithm.kind.dimension),
            share_of(self.algorithm.loss, share),
            Relation(self.privacy.relation),
            Exact(1),
            discrete=False,
            users=1,
        )
        return additive.std

    def expected_noise(self) -> ExpectedNoise:
        """The noise of the counter, with the loss of prefix sums and responses together."""
        loss = self.loss
        assert loss is not None
        return replace(super().expected_noise(), loss=loss)

    @property
    def switches(self) -> int:
        """How often the policy was changed so far. Public."""
        return int(self.released().values[-1])

    @property
    def noise_level(self) -> NoiseLevel:
        """The noise of the newest prefix sums, also between two changes of policy."""
        privatizer = self._privatizer
        assert isinstance(privatizer, ResponsePrivatizer)
        return privatizer.release_sums().noise
