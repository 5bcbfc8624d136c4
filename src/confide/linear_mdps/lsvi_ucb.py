"""LSVI-UCB [Luyo21, Alg. 2; Jin20] for linear MDPs, batched: as printed, and with the least noise that the guarantee needs.

Prefix sums of Lambda go through a counter. At each change of policy the responses of all users so far are computed again, from counts of
their transitions, and released with noise from one budget (`SharedBudget`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter, PrivacyError
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.arguments import check_asked, check_choices, choose_schedule
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.learning.resources import Footprint, numbers_of_users
from confide.linear_mdps.batches import Batches, at_every, first_release, growing, static
from confide.linear_mdps.contributions import StoredTransitions
from confide.linear_mdps.planning import (
    Centred,
    Printed,
    Response,
    Rule,
    Sums,
    Target,
    growth,
    value_iteration,
)
from confide.linear_mdps.printed import LinearSetting, gram_rows, printed_linear
from confide.mechanisms.additive import additive_noise
from confide.mechanisms.counters import Exact, Tree
from confide.mechanisms.sources import NoiseSource
from confide.mechanisms.state import unpack
from confide.planners.regression import Shift, mean_eigenvalue
from confide.planners.reward_features import centred_rewards, raw_rewards
from confide.policy import StochasticPolicy, TabularPolicy
from confide.privacy.bounded import L2Ball, NoiseLevel, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee, billboard, no_guarantee
from confide.privacy.loss import NO_PRIVACY, Loss, compose, loss_for, share_of
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request, Trust
from confide.privatizers import ExpectedNoise, Schedule, Share, SharedBudget, geometric
from confide.problems.linear_mdp import LinearMDPPublic
from confide.problems.sizes import ProblemSizes
from confide.statistics.bounds import RegressionRows
from confide.statistics.transitions import RewardTargets
from confide.trajectory import Trajectories, TransitionCounts

Array = npt.NDArray[np.float64]


GRAM_SHARE = 0.6  # of the budget, for Lambda and rewards; regret is flat between .5 and .65
REWARD_BALANCE = 1.5  # kappa of rewards beside Lambda
# Of the estimate of planning time: one multiplication in a product of matrices, by `benchmarks/memory.py`.
SECONDS_PER_PRODUCT = 1e-9
TIES = 1e-7  # differences of value that are none
_LOCAL = (
    "LSVI-UCB cannot be made local: its responses sum phi (r + V(s')) are computed again whenever V changes, from data that a server under "
    "LocalDP must never see; sending features and rewards noised one by one multiplies the noise, and regret is linear. Whether a "
    "model-free algorithm can do better is open [Luyo21, Remark 5]. Use NextStateVI (next-state-vi), which asks each user once, or JointDP"
)


@dataclass(frozen=True, slots=True, eq=False)
class ValueRegressions:
    """Alg. 2 between two releases, and how the budget is divided between prefix sums and responses, in advance."""

    public: LinearMDPPublic
    bound: RegressionRows
    rule: Rule
    statistic: RewardTargets = field(repr=False)
    batches: Batches
    loss: Loss  # of all responses together
    shares: Sequence[float]  # of that loss, one for each response

    @property
    def responses(self) -> int:
        """How many responses a change of policy needs at most: of the steps 0, 1, ..."""
        return self.rule.responses(self.public.horizon)

    def sums(self, values: Array, std: float) -> Sums:
        gram, rewards = self.bound.unpack(values)
        return Sums(gram, rewards, std, std / self.bound.balance)

    def plan(self, released: Released) -> Round:
        d = self.public.dimension
        sums = self.sums(released.values[: self.bound.size], released.noise.std)
        responses = released.values[self.bound.size : -1].reshape(self.responses, d + 1)
        # nothing is known: everything is tried
        if released.values[-1] == 0 and not isinstance(self.rule, Printed):
            shape = self.public.horizon, self.public.states, self.public.actions
            uniform = StochasticPolicy(np.full(shape, 1 / shape[2]))
            return Round((uniform,), self.statistic, {"seed": released.memory["seed"]})

        def respond(target: Target) -> Response:
            return Response(responses[target.step, :d], float(responses[target.step, d]))

        return self.round_of(
            value_iteration(self.rule, sums, self.public.horizon, respond), sums, released
        )

    def round_of(self, Q: Array, sums: Sums, released: Released) -> Round:
        """The greedy policy; where actions are equally good, at random."""
        seed, switches = released.memory["seed"], int(released.values[-1])
        rng = np.random.default_rng([int(seed), switches])
        greedy = (Q + TIES * rng.random(Q.shape)).argmax(axis=2)
        signal = mean_eigenvalue(sums.gram) if switches else None
        return Round((TabularPolicy(greedy, Q.shape[2]),), self.statistic, {"seed": seed}, signal)

    def describe(self) -> Description:
        calibration, planning = self.rule.describe()
        planning += f"; {self.responses} responses computed again at each of at most {self.batches.switches} changes of policy"
        return Description(calibration, planning, self.bound.rows)


def tight(
    public: LinearMDPPublic,
    episodes: int,
    privacy: Request,
    batches: Batches | None,
    *,
    bonus_scale: float | None,
) -> Calibration:
    """Lambda and rewards through one counter, targets within their public range, more budget for later releases."""
    H, d, phi = public.horizon, public.dimension, public.features
    bound = RegressionRows(H, d, 1.0, target=0.5, balance=REWARD_BALANCE)
    statistic = RewardTargets(
        bound, centred_rewards(phi), 1.0
    )  # |y| <= 1/2: a constant is linear in the features of a linear MDP
    rule = Centred(phi, 0.2 if bonus_scale is None else bonus_scale)
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
        return Calibration(
            ValueRegressions(public, bound, rule, statistic, chosen, NO_PRIVACY, ()),
            chosen.schedule,
            loss=whole,
        )
    algorithm = ValueRegressions(
        public, bound, rule, statistic, chosen, responses, chosen.shares(H - 1)
    )
    return Calibration(algorithm, chosen.schedule, loss=gram)


def paper(
    public: LinearMDPPublic,
    episodes: int,
    privacy: Request,
    batches: Batches | None,
    *,
    bonus_scale: float | None,
    failure: float,
) -> Calibration:
    """[Luyo21, E.1], [E.3] at delta = 0, and without noise Upsilon = 0."""
    H, d, phi = public.horizon, public.dimension, public.features
    count = None if batches is None else batches.schedule.leaves
    made = printed_linear(privacy, LinearSetting(episodes, H, d, failure, count))
    chosen = batches or static(episodes, made.batches)
    scale = 1.0 if bonus_scale is None else bonus_scale
    rule, bound = Printed(phi, Shift(made.regularizer, scale * made.beta)), gram_rows(H, d)
    gram, responses = made.losses(
        privacy, H, d, leaves=chosen.schedule.leaves, changes=chosen.switches
    )
    statistic, shares = (
        RewardTargets(bound, raw_rewards(phi), 1.0),
        chosen.shares(H, [1.0] * chosen.switches),
    )
    tree = None if isinstance(privacy, NoPrivacy) else Tree(chosen.schedule.leaves)
    algorithm = ValueRegressions(public, bound, rule, statistic, chosen, responses, shares)
    return Calibration(algorithm, chosen.schedule, tree, gram)


class LSVIUCB(Learner):
    """LSVI-UCB: optimistic least-squares value iteration in linear MDPs with unknown rewards, batched.

    Guarantee: joint DP for every user (`privacy`): prefix sums of Lambda (and rewards) through one counter, and at each change of policy
    one noisy response per step, sum phi V(s') over all users so far; both on one budget, divided in advance. delta = 0 gives Laplace
    noise. Policies are functions of releases and of a public seed. Counts of users' transitions are kept, PRIVATE, until the last change
    of policy. `LocalDP` is refused: whether it can be kept is an open problem [Luyo21, Remark 5].

    `schedule` is a plan of batches (`confide.linear_mdps.batches`: static, growing, adaptive, one_by_one) or a `Schedule`.

    Reference: [Luyo21, Alg. 2]; calibration="paper": E.1, and E.3 at delta = 0, with its static batches, the printed noise, shift and width
    (times `bonus_scale`). The guarantee states the exact loss of that noise; constants that give more than requested are refused (those
    of E.3 are). Without noise this is batched LSVI-UCB [Jin20, Wang21].

    Departures of "paper": c_K, chi, U_K and C are not in E.1 (`luyo21_linear.py`); no response is asked for after the last batch.
    Departures of "tight" (all for less noise at the same guarantee): rewards are in the counter's query, so that only values are asked
    about again; values are centred on their range, which is public, and the noise follows it; later responses, which serve more users,
    get more of the budget; batches grow by 1.3; eigenvalues are clipped at zero and a ridge of the size of the noise stands for the
    shift; entries of Lambda that must be zero keep no noise; the bonus is `bonus_scale` standard errors (0.2). Regret is measured, not
    proved (docs/linear_mdps.md).
    """

    name = "lsvi-ucb"
    profile = Profile(
        "optimistic least-squares value iteration, in batches; joint privacy only",
        family="linear MDP",
        paper="Luyo21",
        local=False,
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
        schedule: Schedule | Batches | None = None,
        **options: Any,  # noqa: ARG003 - they change nothing
    ) -> Footprint:
        times = schedule.schedule if isinstance(schedule, Batches) else schedule
        chosen = choose_schedule(times, geometric(episodes))
        tree = (
            Tree(chosen.leaves)
            if calibration == "paper" and not isinstance(privacy, NoPrivacy)
            else None
        )
        matrices = sizes.horizon * sizes.dimension**2
        stored = min(episodes, sizes.states**2 * sizes.actions) * sizes.horizon
        features = sizes.states * sizes.actions * sizes.dimension
        numbers = (
            20 * matrices + 10 * stored + 4 * features + numbers_of_users(chosen, sizes.horizon)
        )
        seconds = 0.01 + SECONDS_PER_PRODUCT * sizes.dimension * (
            matrices + sizes.horizon * features
        )
        return Footprint(matrices // 2, numbers, seconds, chosen, tree)

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
            raise InvalidParameter(
                f"LSVI-UCB needs a linear MDP (LinearMDP.public), got {type(public).__name__}"
            )
        check_asked(episodes, privacy)
        if isinstance(privacy, LocalDP):
            raise PrivacyError(_LOCAL)
        check_choices(calibration, bonus_scale, failure)
        if not isinstance(schedule, Schedule | Batches | None):
            raise InvalidParameter(
                f"schedule must be a Schedule or a plan of batches, got {type(schedule).__name__}"
            )
        batches = at_every(schedule) if isinstance(schedule, Schedule) else schedule
        if batches is not None:
            choose_schedule(batches.schedule, Schedule((episodes,)))
        if calibration == "tight":
            made = tight(public, episodes, privacy, batches, bonus_scale=bonus_scale)
        else:
            made = paper(
                public, episodes, privacy, batches, bonus_scale=bonus_scale, failure=failure
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
        self._stored: StoredTransitions | None = StoredTransitions(
            public.features, public.horizon
        )  # until the last change of policy
        # prefix sums as of the last change
        self._shown = np.zeros(self.algorithm.bound.size), NoiseLevel(0.0, "none")
        # made then, with their standard deviations
        self._responses = np.zeros((self.algorithm.responses, public.dimension + 1))
        self._switches = 0
        self._planned: tuple[Array, Sums] | None = None

    @property
    def algorithm(self) -> ValueRegressions:
        assert isinstance(self.calibration.algorithm, ValueRegressions)
        return self.calibration.algorithm

    @property
    def batches(self) -> Batches:
        return self.algorithm.batches

    @cached_property
    def _budget(self) -> SharedBudget:
        """Of the responses."""
        _ = self._privatizer  # checks the noise
        assert self.noise is not None
        ball, query = (
            L2Ball(1.0, self.algorithm.public.dimension),
            "responses, computed again at each change of policy",
        )
        kinds = {share: Share(ball, share, query) for share in set(self.algorithm.shares)}
        shares = [kinds[share] for share in self.algorithm.shares]
        return SharedBudget(
            shares,
            privacy=self.privacy,
            noise=self.noise,
            users=self.episodes,
            loss=self.algorithm.loss,
        )

    @property
    def loss(self) -> Loss | None:
        gram, responses = self.calibration.loss, self.algorithm.loss
        assert gram is not None
        if NO_PRIVACY in (gram, responses) and (gram == NO_PRIVACY or self.algorithm.shares):
            return NO_PRIVACY
        return compose([gram, responses]) if self.algorithm.shares else gram

    @property
    def guarantee(self) -> Guarantee:
        return billboard(self._whole_guarantee)

    @cached_property
    def _whole_guarantee(self) -> Guarantee:
        """Of prefix sums and responses together. Made before the first user: constants that break the promise are refused here."""
        gram, budget = self._privatizer.guarantee, self._budget
        if isinstance(self.privacy, NoPrivacy):
            return no_guarantee(gram.users)
        together = compose([gram.loss, budget.loss()]) if len(budget) else gram.loss
        return Guarantee(together, self.privacy, Trust.CENTRAL, gram.users, gram.source)

    def mechanisms(self) -> list[Mechanism]:
        return [*super().mechanisms(), *self._budget.mechanisms()]

    def describe(self) -> Description:
        said, shares = super().describe(), self.algorithm.shares
        if isinstance(self.privacy, NoPrivacy) or not shares:
            return said
        ball, relation = (
            L2Ball(1.0, self.algorithm.public.dimension),
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
        self._check_durable()
        return self._switches

    def released(self) -> Released:
        """The prefix sums as of the last change of policy, the responses released then, and how often the policy was changed."""
        last, (values, level) = super().released(), self._shown
        everything = np.concatenate([values, self._responses.ravel(), [float(self._switches)]])
        return Released(
            everything, level, self._whole_guarantee, last.users, last.generation, last.memory
        )

    def current_round(self) -> Round:
        # planned when the responses were released: the same round
        if self._round is None and self._planned is not None:
            self._round = self.algorithm.round_of(*self._planned, self.released())
        return super().current_round()

    def _check_kept(self, users: Trajectories | TransitionCounts) -> None:
        if self._stored is not None:
            self._stored.check(users)

    def _keep(self, users: Trajectories | TransitionCounts) -> None:
        if self._stored is not None:
            self._stored.add(users)

    def _advance(self, before: int) -> None:
        if self._privatizer.generation > before and self._due():
            self._change_policy()
        if self.users == self.episodes or self._switches == self.batches.switches:
            self._stored = None  # no more responses
        super()._advance(before)

    def _due(self) -> bool:
        """Whether the policy changes now: decided by releases alone."""
        if self._stored is None or self.users == self.episodes:
            return False
        if self.batches.growth is None or self._switches == 0:
            return True
        now = self._privatizer.release()
        sums, last = (
            self.algorithm.sums(now.values, now.noise.std),
            self.algorithm.sums(self._shown[0], self._shown[1].std),
        )
        # of the noise: growth below it is noise drawn anew
        norm = now.noise.std * math.sqrt(2 * sums.gram.shape[-1])
        return growth(sums.gram, last.gram, ridge=1.0 + 2 * norm) > self.batches.growth

    def _change_policy(self) -> None:
        """Release a response for each step that needs one, from the last to the first, and plan with them."""
        stored, algorithm = self._stored, self.algorithm
        assert stored is not None
        now, skipped = self._privatizer.release(), len(self._responses)
        sums = algorithm.sums(now.values, now.noise.std)
        responses = np.zeros_like(self._responses)

        def respond(target: Target) -> Response:
            nonlocal skipped
            skipped -= 1
            made = self._budget.release(
                stored.response(target.step, target.values, target.reward_weight)
            )
            responses[target.step] = [*made.values, made.noise.std]
            return Response(made.values, made.noise.std)

        self._planned = (
            value_iteration(algorithm.rule, sums, algorithm.public.horizon, respond),
            sums,
        )
        # what was not needed is not saved up: shares belong to their place
        self._budget.skip(skipped)
        self._shown, self._responses, self._switches = (
            (now.values, now.noise),
            responses,
            self._switches + 1,
        )

    def _more_state(self) -> dict[str, npt.NDArray[Any]]:
        stored = (
            {}
            if self._stored is None
            else {f"stored.{key}": value for key, value in self._stored.arrays().items()}
        )
        switches = np.array([self._switches, self._shown[1].std])
        shown = {"shown": self._shown[0], "responses": self._responses, "switches": switches}
        return {"budget": np.frombuffer(self._budget.save(), dtype=np.uint8), **stored, **shown}

    def restore(self, data: bytes, *, released: int | None = None, resume: bool = False) -> None:
        super().restore(data, released=released, resume=resume)
        self._durable = False
        arrays = unpack(data, "learner", released=0).arrays
        self._budget.restore(arrays["budget"].tobytes())
        stored = {
            key.removeprefix("stored."): value
            for key, value in arrays.items()
            if key.startswith("stored.")
        }
        if not stored:
            self._stored = None
        elif self._stored is not None:
            self._stored.restore(stored)
        switches, std = arrays["switches"]
        self._switches, self._responses = int(switches), arrays["responses"]
        distribution = self._privatizer.release().noise.distribution if switches else "none"
        self._shown = arrays["shown"], NoiseLevel(float(std), distribution)
        self._durable = True
