"""LSVI-UCB [Luyo21, Alg. 2; Jin20] for linear MDPs, batched: as printed, and with as little noise as the guarantee needs.

Prefix sums of Lambda go through a counter. At each change of policy the responses of all users so far are computed again, from counts of
their transitions, and released with noise from one budget (`SharedBudget`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide._digest import digest
from confide.errors import InvalidParameter, PrivacyError
from confide.learning.arguments import check_asked, check_choices, choose_schedule
from confide.learning.learner import Learner, Round
from confide.linear_mdps.batches import Batches, at_every, first_release, growing, static
from confide.linear_mdps.contributions import StoredTransitions
from confide.linear_mdps.planning import Answer, Centred, Printed, Question, Rule, Sums, answered, growth
from confide.linear_mdps.printed import LinearSetting, gram_rows, printed_linear
from confide.mechanisms.counters import Factorisation, Tree
from confide.mechanisms.sources import NoiseSource
from confide.mechanisms.state import unpack
from confide.planners.regression import Shift, mean_eigenvalue
from confide.planners.reward_features import centred_rewards, raw_rewards
from confide.policy import StochasticPolicy, TabularPolicy
from confide.privacy.bounded import Bound, NoiseLevel, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee, billboard, no_guarantee
from confide.privacy.loss import NO_PRIVACY, Loss, compose, loss_for, share_of
from confide.privacy.request import LocalDP, NoPrivacy, Request, Trust
from confide.privatizers import Questions, Schedule
from confide.problems.linear_mdp import LinearMDPPublic
from confide.statistics.bounds import RegressionRows
from confide.statistics.transitions import RewardTargets
from confide.trajectory import Trajectories, TransitionCounts

Array = npt.NDArray[np.float64]


class Asking(Protocol):
    """An algorithm that plans by asking: see `linear_mdps/planning.py`."""

    @property
    def bound(self) -> Bound: ...
    @property
    def rule(self) -> Rule: ...
    @property
    def horizon(self) -> int: ...
    @property
    def asked_steps(self) -> int:
        """How many questions a change of policy asks at most: of the steps 0, 1, ..."""

    def sums(self, values: Array, std: float) -> Sums: ...
    def plan(self, released: Released) -> Round: ...
    def round_of(self, Q: Array, sums: Sums, released: Released) -> Round:
        """What `plan` does after it has been told all answers."""


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """How the loss is divided, in advance."""

    gram: Loss  # of all prefix sums
    responses: Loss  # of all answers
    shares: Sequence[float]  # of the latter, one for each question
    counter: Factorisation | None = None  # of prefix sums; None: the one with the least noise


class StoredLearner(Learner):
    """Between releases as every `Learner`; at each change of policy it asks about all users so far, a step at a time.

    What is kept of users is PRIVATE: counts of transitions (`StoredTransitions`), until the last change of policy, then nothing.
    A release is: the prefix sums as of the last change, the answers given then, and the standard deviations of their noise.
    """

    def __init__(
        self, algorithm: Asking, batches: Batches, budget: Budget, *, privacy: Request, noise: NoiseSource | None = None
    ) -> None:
        super().__init__(algorithm, batches.schedule, privacy=privacy, noise=noise, counter=budget.counter, loss=budget.gram)
        self.asking, self.batches, self.budget = algorithm, batches, budget
        self._stored: StoredTransitions | None = StoredTransitions(algorithm.rule.features, algorithm.horizon)
        self._ball = self._stored.bound
        self._shown = np.zeros(algorithm.bound.size), NoiseLevel(0.0, "none")  # as of the last change
        self._answers = np.zeros((algorithm.asked_steps, algorithm.rule.features.shape[2] + 1))
        self._switches = 0
        self._planned: tuple[Array, Sums] | None = None
        self._made_questions: Questions | None = None

    @property
    def settings(self) -> str:
        return digest((super().settings, self.batches, self.budget))

    @property
    def _questions(self) -> Questions:
        if self._made_questions is None:
            _ = self._privatizer  # checks the noise
            assert self.noise is not None
            self._made_questions = Questions(
                self._ball,
                self.budget.shares,
                loss=self.budget.responses,
                privacy=self.privacy,
                users=self.episodes,
                noise=self.noise,
            )
        return self._made_questions

    @property
    def loss(self) -> Loss | None:
        parts = [self.budget.gram, self.budget.responses] if len(self.budget.shares) else [self.budget.gram]
        return NO_PRIVACY if NO_PRIVACY in parts else compose(parts)

    @property
    def guarantee(self) -> Guarantee:
        return billboard(self._whole_guarantee)

    @cached_property
    def _whole_guarantee(self) -> Guarantee:
        """Of prefix sums and answers together. Made before the first user is served: constants that break the promise are refused here."""
        gram, questions = self._privatizer.guarantee, self._questions
        if isinstance(self.privacy, NoPrivacy):
            return no_guarantee(gram.users)
        together = compose([gram.loss, questions.loss()]) if len(questions) else gram.loss
        return Guarantee(together, self.privacy, Trust.CENTRAL, gram.users, gram.source)

    def mechanisms(self) -> list[Mechanism]:
        return [*super().mechanisms(), *self._questions.mechanisms("responses, asked again at each change of policy")]

    @property
    def switches(self) -> int:
        """How often the policy was changed so far. Public."""
        self._check_durable()
        return self._switches

    def released(self) -> Released:
        last, (values, level) = super().released(), self._shown
        everything = np.concatenate([values, self._answers.ravel(), [float(self._switches)]])
        return Released(everything, level, self._whole_guarantee, last.users, last.generation, last.memory)

    def current_round(self) -> Round:
        if self._round is None and self._planned is not None:  # asking was planning: the same round, without doing it again
            self._round = self.asking.round_of(*self._planned, self.released())
        return super().current_round()

    def _check_kept(self, users: Trajectories | TransitionCounts) -> None:
        if self._stored is not None:
            self._stored.check(users)

    def _keep(self, users: Trajectories | TransitionCounts) -> None:
        if self._stored is not None:
            self._stored.add(users)

    def _advance(self, before: int) -> None:
        if self._privatizer.generation > before and self._due():
            self._ask_again()
        if self.users == self.episodes or self._switches == self.batches.switches:
            self._stored = None  # nobody will ask again
        super()._advance(before)

    def _due(self) -> bool:
        """Whether the policy changes now: decided by releases alone."""
        if self._stored is None or self.users == self.episodes:
            return False
        if self.batches.growth is None or self._switches == 0:
            return True
        now = self._privatizer.release()
        sums, last = self.asking.sums(now.values, now.noise.std), self.asking.sums(self._shown[0], self._shown[1].std)
        norm = now.noise.std * math.sqrt(
            2 * sums.gram.shape[-1]
        )  # of the noise: below it a direction has not grown, it was drawn anew
        return growth(sums.gram, last.gram, ridge=1.0 + 2 * norm) > self.batches.growth

    def _ask_again(self) -> None:
        stored = self._stored
        assert stored is not None
        now, skipped = self._privatizer.release(), len(self._answers)
        sums = self.asking.sums(now.values, now.noise.std)
        answers = np.zeros_like(self._answers)

        def ask(question: Question) -> Answer:
            nonlocal skipped
            skipped -= 1
            values, std = self._questions.ask(stored.response(question.step, question.values, question.reward_weight))
            answers[question.step] = [*values, std]
            return Answer(values, std)

        self._planned = answered(self.asking.rule, sums, self.asking.horizon, ask), sums
        self._questions.skip(skipped)  # what was not worth asking is not saved up: shares belong to their place
        self._shown, self._answers, self._switches = (now.values, now.noise), answers, self._switches + 1

    def _more_state(self) -> dict[str, npt.NDArray[Any]]:
        stored = {} if self._stored is None else {f"stored.{key}": value for key, value in self._stored.arrays().items()}
        shown = {"shown": self._shown[0], "answers": self._answers, "switches": np.array([self._switches, self._shown[1].std])}
        return {"questions": np.frombuffer(self._questions.save(), dtype=np.uint8), **stored, **shown}

    def restore(self, data: bytes, *, released: int | None = None) -> None:
        super().restore(data, released=released)
        self._durable = False
        arrays = unpack(data, "learner", released=0).arrays
        self._questions.restore(arrays["questions"].tobytes())
        stored = {key.removeprefix("stored."): value for key, value in arrays.items() if key.startswith("stored.")}
        if not stored:
            self._stored = None
        elif self._stored is not None:
            self._stored.restore(stored)
        switches, std = arrays["switches"]
        self._switches, self._answers = int(switches), arrays["answers"]
        distribution = self._privatizer.release().noise.distribution if switches else "none"
        self._shown = arrays["shown"], NoiseLevel(float(std), distribution)
        self._durable = True


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

    `schedule` is a plan of batches (`confide.linear_mdps.batches`: static, growing, adaptive, one_by_one) or a `Schedule`.

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
