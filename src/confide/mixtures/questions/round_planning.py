"""The next round of questions: what answers say, policies for plausible weights, how many users come, and what they are asked.

All post-processing.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.learning.question import Question
from confide.mixtures.questions import _kernels
from confide.mixtures.questions.history_planning import asked_now, in_words, removed
from confide.mixtures.questions.memory_planning import (
    Sizes,
    evidence_in,
    fold_oldest,
    recall_answers,
    rounds_in,
)
from confide.mixtures.questions.planning import (
    PRIOR,
    SMALL,
    AnswerEvidence,
    CandidateQuestions,
    WeightBelief,
    believe,
    candidates,
    choose,
    evaluate,
    relevance,
)
from confide.mixtures.questions.reward_planning import (
    RewardBelief,
    about_transitions,
    believe_rewards,
    expected_answer,
    joined,
    reward_relevance,
    visited,
    with_rewards,
)
from confide.mixtures.questions.reward_planning import signs as reward_signs
from confide.mixtures.value_features import value_steps
from confide.planners.history import History
from confide.planners.public_round import PublicRound
from confide.planners.reward_features import RewardFeatures
from confide.planners.visits import with_open_round
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released

if TYPE_CHECKING:
    from confide.problems.linear_mixture import LinearMixturePublic

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# weights that are played, the estimate and samples, and samples among which the most valuable one is
SAMPLES, HOPES = 4, 32
TIES = 1e-6  # differences of value that are none
FIRST, LEAST = 5, 0.3  # users of a round, at least; and against all users before it
# of a round's users, at most, for each of two policies that look for what is better
EXPLORERS = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class QuestionProblem:
    """All that is public before the first user."""

    public: "LinearMixturePublic"
    episodes: int
    # of the noise on each answer, if 1, 2, ... questions are asked: on their sum over a round, or on each user's
    stds: tuple[float, ...]
    each: bool  # whether every user's answers have noise of their own
    spread: float  # of the samples, against the posterior's standard deviation
    reward_features: RewardFeatures | None  # of unknown rewards
    kernels: Array = field(repr=False)  # [s, a, s', i]

    @property
    def steps(self) -> int:
        return value_steps(self.public.horizon)

    @property
    def usual_noise(self) -> float:
        """Where one question is asked per step."""
        return self.stds[min(self.public.horizon - 1, len(self.stds)) - 1]

    def noise(self, users: int) -> Array:
        """Standard deviations of the noise on a round's sums, if 1, 2, ... questions are asked."""
        stds = np.array(self.stds)
        return np.asarray(stds * math.sqrt(users) if self.each else stds)

    def recall(self, released: Released) -> History:
        public = self.public
        unknown = 0 if self.reward_features is None else self.reward_features.dimension
        sizes = Sizes(
            public.horizon,
            self.steps,
            public.states,
            public.actions,
            public.dimension,
            unknown,
            policies=SAMPLES + 2,
        )
        return recall_answers(released, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class QuestionRound:
    """A round of so many users, who are asked about `steps` [q]: signs [q, s, a, s'] are the answers, and `about_rewards` [q] says of what.

    The answer to a question about a reward is signs[q, s, a, 0] times the reward's.
    """

    public: PublicRound
    users: int
    steps: Ints
    signs: npt.NDArray[np.int8]
    about_rewards: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Beliefs:
    """About the weights and, where they are unknown, about the rewards."""

    weights: WeightBelief
    rewards: RewardBelief | None
    # as blocks of one covariance, for the choice of questions
    together: WeightBelief


@dataclass(frozen=True, slots=True, eq=False)
class Policies:
    """actions [p, h, s] for the estimate and samples of the belief, and for two explorers with what they hope for.

    Also the rewards [h, s, a] that were planned for, the value of the best policy by the estimate, and how much the choice between the best
    policies of plausible weights depends on the weights, and on the rewards, of each step.
    """

    actions: Ints
    hopes: list[float]
    rewards: Array
    best: float
    relevance: Array
    reward_relevance: Array


def plan_round(problem: QuestionProblem, released: Released) -> QuestionRound:
    """Decide the next round from everything released so far: who is served how, and what they are asked."""
    history = problem.recall(released)
    beliefs, oldest, oldest_rewards = estimate_beliefs(problem, history)
    rng = np.random.default_rng([int(history["seed"]), released.generation])
    policies = draw_policies(problem, beliefs, rng)
    users_left = max(problem.episodes - released.users, 1)

    # The size of the round follows from how clear its best question would be if explorers served nobody.
    without_explorers = np.append(np.full(SAMPLES, 1 / SAMPLES), [0.0, 0.0])
    trial = propose_questions(problem, beliefs, policies, without_explorers, rng)
    users = round_size(problem, clearest(beliefs.together, trial), released.users, users_left)

    shares = explorer_shares(problem, beliefs, policies, users, users_left)
    questions = propose_questions(problem, beliefs, policies, shares, rng)
    chosen = choose(beliefs.together, questions, users, problem.noise(users))
    table = table_with(
        problem,
        history["table"],
        beliefs,
        policies,
        shares,
        questions,
        chosen,
        released.users,
        users,
    )
    steps, thetas = questions.steps[chosen], np.ascontiguousarray(questions.thetas[chosen])
    history = fold_oldest(history, oldest, oldest_rewards)
    history = with_open_round(history, policies.actions, shares, released.users)
    history = history.replace(open_steps=steps, open_thetas=thetas, table=table)
    served = tuple(TabularPolicy(each, problem.public.actions) for each in policies.actions)
    signal = users * clearest(beliefs.together, questions)
    public = PublicRound(
        served, history.arrays, signal if released.generation else None, tuple(shares)
    )
    about_rewards = steps >= problem.steps
    of_step = np.where(about_rewards, steps - problem.steps, steps)
    signs = answer_signs(problem, steps, thetas)
    return QuestionRound(public, users, of_step, signs, about_rewards)


def estimate_beliefs(
    problem: QuestionProblem, history: History
) -> tuple[Beliefs, AnswerEvidence, AnswerEvidence]:
    """And the evidence to keep of the oldest round, about weights and about rewards."""
    rounds, (folded, folded_rewards) = rounds_in(history), evidence_in(history)
    about_weights = [about_transitions(asked, problem.public.dimension) for asked in rounds]
    kernels, start = problem.kernels, problem.public.start
    weights, first = believe(about_weights, folded, kernels, start)
    if problem.reward_features is None:
        return Beliefs(weights, None, weights), first, folded_rewards
    rewards, first_rewards = believe_rewards(
        rounds, folded_rewards, problem.reward_features, weights, kernels, start
    )
    return Beliefs(weights, rewards, joined(weights, rewards)), first, first_rewards


def draw_policies(problem: QuestionProblem, beliefs: Beliefs, rng: np.random.Generator) -> Policies:
    """The explorers follow the best policy of the best sample, and optimism."""
    kernels, start = problem.kernels, problem.public.start
    belief, learned = beliefs.weights, beliefs.rewards
    rewards = undecided_rewards(problem, learned, rng)
    estimated, _ = _kernels.best_policies(kernels, rewards, belief.weights[None])
    drawn = belief.samples(SAMPLES, problem.spread, rng)
    paid = plausible_rewards(learned, rewards, SAMPLES, problem.spread, rng)
    drawn[0], paid[0] = belief.weights, rewards
    _, played = best_policies(kernels, drawn, paid)
    plausible = belief.samples(HOPES, 1.0, rng)
    values, others = best_policies(
        kernels, plausible, plausible_rewards(learned, rewards, HOPES, 1.0, rng)
    )
    worth, most = values[:, 0] @ start, values.max()
    high = rewards
    if learned is not None:
        high = learned.hoped() + (rewards - learned.rewards(learned.weights))
    # all of the simplex is in the prior's ellipsoid
    width = math.sqrt(PRIOR * (1 - 1 / problem.public.dimension))
    hoped, hopeful = _kernels.hopeful(kernels, high, belief.weights, belief.covariance, width)
    matters_rewards = np.zeros(0)
    if learned is not None:
        each = np.array(
            [visited(one[None], np.ones(1), belief.weights, kernels, start) for one in others]
        )
        matters_rewards = reward_relevance(learned, each / most)
    return Policies(
        np.concatenate([played, others[worth.argmax()][None], hopeful[None]]),
        [float(worth.max()), float(start @ hoped[0])],
        rewards,
        float(start @ estimated[0, 0]),
        relevance(_kernels.gradients(kernels, values, others, plausible, start) / most),
        matters_rewards,
    )


def undecided_rewards(
    problem: QuestionProblem, learned: RewardBelief | None, rng: np.random.Generator
) -> Array:
    """Where actions are equally good they are played at random: there, too, users can show something."""
    known = problem.public.rewards if learned is None else learned.rewards(learned.weights)
    assert known is not None
    return np.asarray(known + TIES * rng.random(known.shape))


def plausible_rewards(
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


def best_policies(kernels: Array, weights: Array, rewards: Array) -> tuple[Array, Ints]:
    """(values [n, h, s], actions [n, h, s]) of the best policies for weights [n, h, i] and rewards [n, h, s, a]."""
    found = [
        _kernels.best_policies(kernels, rewards[n], weights[n : n + 1]) for n in range(len(weights))
    ]
    values, actions = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(actions)


def propose_questions(
    problem: QuestionProblem,
    beliefs: Beliefs,
    policies: Policies,
    shares: Array,
    rng: np.random.Generator,
) -> CandidateQuestions:
    """Questions that could be asked of users who are served by these policies in these shares."""
    belief, kernels, start = beliefs.weights, problem.kernels, problem.public.start
    known = candidates(belief, policies.actions, shares, policies.relevance, kernels, start, rng)
    if beliefs.rewards is None:
        return known
    visits = visited(policies.actions, shares, belief.weights, kernels, start)
    return with_rewards(known, beliefs.rewards, visits, policies.reward_relevance)


def clearest(belief: WeightBelief, questions: CandidateQuestions) -> float:
    """The largest standard deviation of a question's answer under the belief, per user; rounding may make the smallest ones negative."""
    rows, steps = questions.rows, questions.steps
    return float(
        np.sqrt(max(np.einsum("qi,qij,qj->q", rows, belief.covariance[steps], rows).max(), 0.0))
    )


def round_size(problem: QuestionProblem, clear: float, served: int, users_left: int) -> int:
    """So many that the clearest question is as large as its noise, within limits: few releases, and none too late."""
    std = problem.usual_noise
    wanted, least = std / max(clear, 1e-12), 3 * std
    if problem.each:  # the noise of n users is sqrt(n) times that of one
        wanted, least = wanted**2, least**2
    most = served or problem.episodes / 50
    return int(min(math.ceil(max(min(wanted, most), LEAST * served, FIRST, least)), users_left))


def explorer_shares(
    problem: QuestionProblem, beliefs: Beliefs, policies: Policies, users: int, users_left: int
) -> Array:
    """Explorers get users by what they could gain in all users to come, against what they lose by the estimate."""
    std, best, start = problem.usual_noise, policies.best, problem.public.start
    least = max(3.0, 2 * std if not problem.each else (2 * std) ** 2) / 2
    explorers = []
    for actions, hope in zip(policies.actions[SAMPLES:], policies.hopes, strict=True):
        worth = evaluate(problem.kernels, policies.rewards, start, actions, beliefs.weights.weights)
        wanted = 0.005 * max(hope - best, 0.0) * users_left / max(best - worth, 1e-3)
        explorers.append(min(EXPLORERS * users, max(least, wanted)))
    return np.append(np.full(SAMPLES, (users - sum(explorers)) / SAMPLES), explorers) / users


def table_with(
    problem: QuestionProblem,
    table: Array,
    beliefs: Beliefs,
    policies: Policies,
    shares: Array,
    questions: CandidateQuestions,
    chosen: Ints,
    served: int,
    users: int,
) -> Array:
    """The table of all questions, with those that were chosen for the users after the first `served` ones."""
    std = float(problem.noise(users)[len(chosen) - 1])
    return asked_now(
        table,
        first=served + 1,
        users=users,
        shares=shares,
        steps=questions.steps[chosen],
        thetas=questions.thetas[chosen],
        removes=removed(beliefs.together, questions, chosen, users, std),
        expected=users
        * expected_answers(problem, beliefs, policies.actions, shares, questions, chosen),
    )


def expected_answers(
    problem: QuestionProblem,
    beliefs: Beliefs,
    actions: Ints,
    shares: Array,
    questions: CandidateQuestions,
    chosen: Ints,
) -> Array:
    """What one user answers to each question on average, by the estimate."""
    belief, learned = beliefs.weights, beliefs.rewards
    d, found = problem.public.dimension, np.zeros(len(chosen))
    for at, q in enumerate(chosen):
        block = questions.steps[q]
        if learned is None or block < problem.steps:
            found[at] = questions.rows[q, :d] @ belief.weights[block]
        else:
            visits = visited(actions, shares, belief.weights, problem.kernels, problem.public.start)
            direction = questions.thetas[q, : learned.weights.shape[1]]
            found[at] = expected_answer(learned, direction, int(block) - problem.steps, visits)
    return found


def answer_signs(problem: QuestionProblem, steps: Ints, thetas: Array) -> npt.NDArray[np.int8]:
    """The table [q, s, a, s'] of answers to these questions."""
    tables, d, features = [], problem.public.dimension, problem.reward_features
    for block, theta in zip(steps, thetas, strict=True):
        if block < problem.steps:
            tables.append(_kernels.signs(problem.kernels, np.ascontiguousarray(theta[:d]), SMALL))
        else:
            assert features is not None
            g = reward_signs(features, theta[None, : features.dimension])[0].astype(np.int8)
            tables.append(np.repeat(g[:, :, None], problem.public.states, axis=2))
    return np.stack(tables)


def questions_until(problem: QuestionProblem, released: Released) -> list[Question]:
    """What was asked up to this release, and what was answered, in words."""
    return questions_in(problem, problem.recall(released)["table"])


def questions_in(problem: QuestionProblem, table: npt.NDArray[np.generic]) -> list[Question]:
    """What a table of the memory says, in words."""
    return in_words(np.asarray(table), problem.kernels, problem.steps, problem.reward_features)
