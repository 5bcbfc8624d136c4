"""Questions: our own learner for mixtures of known kernels, which asks each user little. Privacy is proved, regret is measured."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.arguments import check_asked, check_choices
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.learning.question import Question
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.mixtures import _question_kernels as _kernels
from confide.mixtures.footprint import questions_footprint
from confide.mixtures.linopt_vi import known_mixture
from confide.mixtures.question_contributions import Answers, AnswerSums
from confide.mixtures.question_history_planning import asked_now, in_words, removed
from confide.mixtures.question_memory_planning import (
    Sizes,
    evidence_in,
    fold_oldest,
    recall_answers,
    rounds_in,
)
from confide.mixtures.question_planning import (
    PRIOR,
    SMALL,
    Asked,
    Belief,
    Candidates,
    Evidence,
    believe,
    candidates,
    choose,
    evaluate,
    relevance,
)
from confide.mixtures.reward_question_planning import (
    RewardBelief,
    about_transitions,
    believe_rewards,
    expected_answer,
    joined,
    reward_relevance,
    visited,
    with_rewards,
)
from confide.mixtures.reward_question_planning import signs as reward_signs
from confide.mixtures.value_features import value_steps
from confide.planners.history import History
from confide.planners.reward_features import RewardFeatures, centred_rewards
from confide.planners.visits import with_open_round
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released
from confide.privacy.request import LocalDP, Request
from confide.privatizers import AtMost, ExpectedNoise, expected_noise
from confide.problems.linear_mixture import LinearMixturePublic
from confide.problems.sizes import ProblemSizes

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# weights that are played, the estimate and samples, and samples among which the most valuable one is
SAMPLES, HOPES = 4, 32
TIES = 1e-6  # differences of value that are none
FIRST, LEAST = 5, 0.3  # users of a round, at least; and against all users before it
# of a round's users, at most, for each of two policies that look for what is better
EXPLORERS = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Between two releases: estimate the weights from answers, draw plausible weights, plan for each, and decide what to ask next."""

    public: LinearMixturePublic
    episodes: int
    # of the noise on each answer, if 1, 2, ... questions are asked: on their sum over a round, or on each user's
    stds: Array
    each: bool  # whether every user's answers have noise of their own
    spread: float  # of the samples, against the posterior's standard deviation
    rewards: RewardFeatures | None  # of unknown rewards
    _kernels: Array = field(repr=False)  # [s, a, s', i]
    # how many numbers the users of a round contribute is decided from releases
    changing: ClassVar[bool] = True

    @property
    def bound(self) -> Answers:
        """Of a round that asks one question per step: how many it asks is decided from releases."""
        return Answers(value_steps(self.public.horizon))

    def plan(self, released: Released) -> Round:
        past = self._recall(released)
        rounds, (folded, folded_rewards) = rounds_in(past), evidence_in(past)
        about_weights = [about_transitions(asked, self.public.dimension) for asked in rounds]
        belief, first = believe(about_weights, folded, self._kernels, self.public.start)
        learned, first_rewards = self._learned(rounds, folded_rewards, belief)
        rng = np.random.default_rng([int(past["seed"]), released.generation])
        left = max(self.episodes - released.users, 1)
        rewards = self._rewards(learned, rng)
        values, _ = _kernels.best_policies(self._kernels, rewards, belief.weights[None])
        policies, hopes, matters = self._policies(belief, learned, rewards, rng)
        everything = belief if learned is None else joined(belief, learned)
        even = np.append(np.full(SAMPLES, 1 / SAMPLES), [0.0, 0.0])
        known = self._candidates(belief, learned, policies, even, matters, rng)
        users = self._users(released.users, left, everything, known.rows, known.steps)
        best = float(self.public.start @ values[0, 0])
        shares = self._shares(users, left, best, policies, hopes, belief.weights, rewards)
        known = self._candidates(belief, learned, policies, shares, matters, rng)
        asked = choose(everything, known, users, self._noise(users))
        steps, thetas = known.steps[asked], np.ascontiguousarray(known.thetas[asked])
        table = asked_now(
            past["table"],
            first=released.users + 1,
            users=users,
            shares=shares,
            steps=steps,
            thetas=thetas,
            removes=removed(
                everything, known, asked, users, float(self._noise(users)[len(asked) - 1])
            ),
            expected=users
            * self._expected(belief, learned, policies, shares, steps, thetas, known.rows[asked]),
        )
        past = with_open_round(
            fold_oldest(past, first, first_rewards), policies, shares, released.users
        )
        past = past.replace(open_steps=steps, open_thetas=thetas, table=table)
        shown = tuple(TabularPolicy(actions, self.public.actions) for actions in policies)
        signal = users * _clearest(everything, known.rows, known.steps)
        statistic = self._statistic(steps, thetas)
        return Round(
            shown,
            statistic,
            past.arrays,
            signal if released.generation else None,
            tuple(shares),
            (statistic.bound, users),
        )

    def _noise(self, users: int) -> Array:
        """Standard deviations of the noise on a round's sums, if 1, 2, ... questions are asked."""
        return np.asarray(self.stds * math.sqrt(users) if self.each else self.stds)

    @property
    def _usual(self) -> float:
        """Of the noise where one question is asked per step."""
        return float(self.stds[min(self.public.horizon - 1, len(self.stds)) - 1])

    @property
    def _steps(self) -> int:
        return value_steps(self.public.horizon)

    def _learned(
        self, rounds: list[Asked], folded: Evidence, belief: Belief
    ) -> tuple[RewardBelief | None, Evidence]:
        """What is known of unknown rewards, and the evidence to keep of them."""
        if self.rewards is None:
            return None, folded
        return believe_rewards(
            rounds, folded, self.rewards, belief, self._kernels, self.public.start
        )

    def _rewards(self, learned: RewardBelief | None, rng: np.random.Generator) -> Array:
        """Where actions are equally good they are played at random: there, too, users can show something."""
        known = self.public.rewards if learned is None else learned.rewards(learned.weights)
        assert known is not None
        return np.asarray(known + TIES * rng.random(known.shape))

    def _statistic(self, steps: Ints, thetas: Array) -> AnswerSums:
        """The table of answers to these questions, and which of them are about rewards."""
        tables, d = [], self.public.dimension
        for block, theta in zip(steps, thetas, strict=True):
            if block < self._steps:
                tables.append(_kernels.signs(self._kernels, np.ascontiguousarray(theta[:d]), SMALL))
            else:
                assert self.rewards is not None
                g = reward_signs(self.rewards, theta[None, : self.rewards.dimension])[0].astype(
                    np.int8
                )
                tables.append(np.repeat(g[:, :, None], self.public.states, axis=2))
        about = steps >= self._steps
        return AnswerSums(np.where(about, steps - self._steps, steps), np.stack(tables), about)

    def _candidates(
        self,
        belief: Belief,
        learned: RewardBelief | None,
        policies: Ints,
        shares: Array,
        matters: tuple[Array, Array],
        rng: np.random.Generator,
    ) -> Candidates:
        known = candidates(
            belief, policies, shares, matters[0], self._kernels, self.public.start, rng
        )
        if learned is None:
            return known
        visits = visited(policies, shares, belief.weights, self._kernels, self.public.start)
        return with_rewards(known, learned, visits, matters[1])

    def _expected(
        self,
        belief: Belief,
        learned: RewardBelief | None,
        policies: Ints,
        shares: Array,
        steps: Ints,
        thetas: Array,
        rows: Array,
    ) -> Array:
        """What one user answers to each question on average, by the estimate."""
        d, found = self.public.dimension, np.zeros(len(steps))
        for q, block in enumerate(steps):
            if learned is None or block < self._steps:
                found[q] = rows[q, :d] @ belief.weights[block]
            else:
                visits = visited(policies, shares, belief.weights, self._kernels, self.public.start)
                found[q] = expected_answer(
                    learned, thetas[q, : learned.weights.shape[1]], int(block) - self._steps, visits
                )
        return found

    def _policies(
        self, belief: Belief, learned: RewardBelief | None, rewards: Array, rng: np.random.Generator
    ) -> tuple[Ints, list[float], tuple[Array, Array]]:
        """Policies for the estimate and samples of the belief, and two explorers with what they hope for: the best sample, and optimism.

        And how much the choice between the best policies of plausible weights depends on the weights, and on the rewards, of each step.
        """
        drawn, paid = (
            belief.samples(SAMPLES, self.spread, rng),
            self._paid(learned, rewards, SAMPLES, self.spread, rng),
        )
        drawn[0], paid[0] = belief.weights, rewards
        _, played = self._best(drawn, paid)
        plausible = belief.samples(HOPES, 1.0, rng)
        values, others = self._best(plausible, self._paid(learned, rewards, HOPES, 1.0, rng))
        worth, most = values[:, 0] @ self.public.start, values.max()
        high = (
            rewards
            if learned is None
            else learned.hoped() + (rewards - learned.rewards(learned.weights))
        )
        # all of the simplex is in the prior's ellipsoid
        width = math.sqrt(PRIOR * (1 - 1 / self.public.dimension))
        hoped, hopeful = _kernels.hopeful(
            self._kernels, high, belief.weights, belief.covariance, width
        )
        policies = np.concatenate([played, others[worth.argmax()][None], hopeful[None]])
        hopes = [float(worth.max()), float(self.public.start @ hoped[0])]
        matters = relevance(
            _kernels.gradients(self._kernels, values, others, plausible, self.public.start) / most
        )
        if learned is None:
            return policies, hopes, (matters, np.zeros(0))
        each = np.array(
            [
                visited(one[None], np.ones(1), belief.weights, self._kernels, self.public.start)
                for one in others
            ]
        )
        return policies, hopes, (matters, reward_relevance(learned, each / most))

    def _paid(
        self,
        learned: RewardBelief | None,
        rewards: Array,
        count: int,
        spread: float,
        rng: np.random.Generator,
    ) -> Array:
        """Rewards [n, h, s, a]: plausible ones, where they are unknown."""
        if learned is None:
            return np.repeat(rewards[None], count, axis=0)
        return np.asarray(
            learned.samples(count, spread, rng) + (rewards - learned.rewards(learned.weights))
        )

    def _best(self, weights: Array, rewards: Array) -> tuple[Array, Ints]:
        """(values [n, h, s], actions [n, h, s]) of the best policies for weights [n, h, i] and rewards [n, h, s, a]."""
        found = [
            _kernels.best_policies(self._kernels, rewards[n], weights[n : n + 1])
            for n in range(len(weights))
        ]
        return np.concatenate([values for values, _ in found]), np.concatenate(
            [actions for _, actions in found]
        )

    def _users(self, served: int, left: int, belief: Belief, rows: Array, steps: Ints) -> int:
        """So many that the clearest question is as large as its noise, within limits: few releases, and none too late."""
        std = self._usual
        wanted, least = std / max(_clearest(belief, rows, steps), 1e-12), 3 * std
        if self.each:  # the noise of n users is sqrt(n) times that of one
            wanted, least = wanted**2, least**2
        most = served or self.episodes / 50
        return int(min(math.ceil(max(min(wanted, most), LEAST * served, FIRST, least)), left))

    def _shares(
        self,
        users: int,
        left: int,
        best: float,
        policies: Ints,
        hopes: list[float],
        weights: Array,
        rewards: Array,
    ) -> Array:
        """Explorers get users by what they could gain in all users to come, against what they lose by the estimate."""
        least = max(3.0, 2 * self._usual if not self.each else (2 * self._usual) ** 2) / 2
        explorers = []
        for actions, hope in zip(policies[SAMPLES:], hopes, strict=True):
            worth = evaluate(self._kernels, rewards, self.public.start, actions, weights)
            wanted = 0.005 * max(hope - best, 0.0) * left / max(best - worth, 1e-3)
            explorers.append(min(EXPLORERS * users, max(least, wanted)))
        return np.append(np.full(SAMPLES, (users - sum(explorers)) / SAMPLES), explorers) / users

    def questions(self, released: Released) -> list[Question]:
        """What was asked up to this release, and what was answered, in words."""
        return in_words(self._recall(released)["table"], self._kernels, self._steps, self.rewards)

    def asked(self, planned: Round) -> list[Question]:
        """The same with the questions of the round that was planned from it, which is still open."""
        return in_words(
            np.asarray(planned.memory["table"]), self._kernels, self._steps, self.rewards
        )

    def _recall(self, released: Released) -> History:
        public = self.public
        unknown = 0 if self.rewards is None else self.rewards.dimension
        sizes = Sizes(
            public.horizon,
            self._steps,
            public.states,
            public.actions,
            public.dimension,
            unknown,
            policies=SAMPLES + 2,
        )
        return recall_answers(released, sizes)

    def describe(self) -> Description:
        planning = f"policies for weights drawn from the posterior, {self.spread:g} x its standard deviation, and two explorers"
        return Description(
            "tight",
            f"{planning}; yes/no questions where the answer is most uncertain and matters most",
        )


def _clearest(belief: Belief, rows: Array, steps: Ints) -> float:
    """The largest standard deviation of a question's answer under the belief, per user; rounding may make the smallest ones negative."""
    return float(
        np.sqrt(max(np.einsum("qi,qij,qj->q", rows, belief.covariance[steps], rows).max(), 0.0))
    )


def _unknown_rewards(public: LinearMixturePublic) -> RewardFeatures | None:
    if public.rewards is not None:
        return None
    if public.reward_features is None:
        raise InvalidParameter(
            "QuestionsVI needs known rewards, or features in which they are linear"
        )
    return centred_rewards(public.reward_features)


def rounds_of(episodes: int) -> AtMost:
    """As many rounds as there can be, if each has at least the share LEAST of all users before it."""
    return AtMost(episodes, 8 + math.ceil(math.log(max(episodes / 30, 1.0)) / math.log(1 + LEAST)))


class QuestionsVI(Learner):
    """Value iteration on mixture weights that are learned from few yes/no questions per user, chosen from earlier releases.

    Guarantee: joint DP (`JointDP`) for every user, by one query per user: the answers to the questions of its round, under K-norm noise;
    or local DP (`LocalDP`), by one index from each user's device, which answers a few of them by randomized response (`SignReport`).
    The guarantee is pure, epsilon alone, also where delta > 0: for few numbers this noise is smaller than the Gaussian. Policies,
    questions and the sizes of rounds are functions of releases and of a public seed. PRIVACY IS PROVED; REGRET IS MEASURED
    (docs/mixtures.md), not proved.

    Unknown rewards, linear in public features, are learned from questions about them: whether the reward of a step was high in some states
    and low in others.

    Why it asks so little: at epsilon = 1 each number that a user sends costs noise on all of them, and most numbers that a user could send
    say nothing about what is still undecided. A question asks whether a transition speaks for one direction of the weights or against it.

    `bonus_scale` is the spread of the posterior samples in its standard deviations (default 0.4).
    """

    name = "questions-vi"
    profile = Profile(
        "posterior sampling on few yes/no questions per user, chosen from releases",
        family="mixture",
        paper="confide",
    )
    abilities = replace(Learner.abilities, questions=True)

    @classmethod
    def footprint(cls, sizes: ProblemSizes, *, episodes: int, **options: Any) -> Footprint:  # noqa: ARG003
        return questions_footprint(sizes, schedule=rounds_of(episodes))

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        bonus_scale: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        known_mixture(public, "QuestionsVI", rewards=False)
        if not isinstance(calibration, str) or calibration != "tight":
            raise InvalidParameter(
                f'QuestionsVI is in no paper: calibration must be "tight", got calibration={calibration!r}'
            )
        check_choices(calibration, bonus_scale)
        check_asked(episodes, privacy)
        schedule = rounds_of(episodes)
        steps, d = value_steps(public.horizon), public.dimension
        rewards = _unknown_rewards(public)
        unknown = 0 if rewards is None else rewards.dimension * public.horizon
        most = max((d - 1) * steps + unknown, 1)
        most = (
            most
            if privacy.epsilon == math.inf
            else min(most, 3 * (steps + (public.horizon if unknown else 0)))
        )
        stds = [
            expected_noise(Answers(D + 1), schedule, privacy=privacy, discrete=False).first
            for D in range(most)
        ]
        spread = 0.4 if bonus_scale is None else bonus_scale
        kernels = np.ascontiguousarray(np.moveaxis(public.kernels, 0, -1))
        algorithm = Questions(
            public, episodes, np.array(stds), isinstance(privacy, LocalDP), spread, rewards, kernels
        )
        identity = Identity(self.name, 1, public=public, spread=spread)
        super().__init__(
            Calibration(algorithm, schedule), privacy=privacy, identity=identity, noise=noise
        )

    def questions(self) -> list[Question]:
        """All questions so far, those of the open round included: what was asked, when, why, and what was answered. Public."""
        algorithm = self.algorithm
        assert isinstance(algorithm, Questions)
        over = self.users == self.episodes or self._privatizer.generation == self.schedule.leaves
        return (
            algorithm.questions(self.released()) if over else algorithm.asked(self.current_round())
        )

    def expected_noise(self) -> ExpectedNoise:
        """Of the first round at least, and of a round with as many questions as there can be at most."""
        algorithm = self.algorithm
        assert isinstance(algorithm, Questions)
        discrete = self.noise is not None and self.noise.discrete
        few, many = (
            expected_noise(Answers(asked), self.schedule, privacy=self.privacy, discrete=discrete)
            for asked in (1, len(algorithm.stds))
        )
        return replace(many, first=few.first)
