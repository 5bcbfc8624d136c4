"""The next round of questions: which policy serves whom, and what users are asked.

PUBLIC: everything here is post-processing of releases and of a public seed. So the constants decide
how well the agent learns, and none of them the guarantee. What leaves is the round: policies, their
shares, the questions, the number of users, and a memory with the layout of `memory_planning`. The
order in which random numbers are drawn is part of the results: a device draws what its server drew.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.learning.question import Question
from confide.mixtures.questions import _kernels
from confide.mixtures.questions.history_planning import (
    in_words,
    removed_uncertainty,
    with_new_questions,
)
from confide.mixtures.questions.memory_planning import fold_oldest
from confide.mixtures.questions.planning import (
    SIGN_TOLERANCE,
    CandidateQuestions,
    WeightBelief,
    candidate_questions,
    choose_questions,
    policy_value,
)
from confide.mixtures.questions.policy_planning import (
    PLAYED_SAMPLES,
    Beliefs,
    QuestionProblem,
    RoundPolicies,
    draw_policies,
    estimate_beliefs,
)
from confide.mixtures.questions.reward_planning import (
    add_reward_questions,
    expected_reward_answer,
    predict_visits,
    reward_signs,
)
from confide.planners.public_round import PublicRound
from confide.planners.visits import with_open_round
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Signs = npt.NDArray[np.int8]
# The numbers below were chosen for a small regret. Where nothing else is said, no table compares
# them with others.
# A round has at least so many users.
MIN_USERS = 5
# A round has at least this share of all users before it. So the number of rounds grows as the
# logarithm of all users (docs/agents/questions.md, consistency).
MIN_GROWTH = 0.3
# The first round has at most all users divided by this number, unless noise needs more.
FIRST_ROUND_DIVISOR = 50
# A round has at least this number times as many users as its noise has standard deviations.
MIN_NOISE_STDS = 3
# Each of the two explorers serves at most this share of a round's users. Lemma 2 of
# docs/agents/questions.md uses this number and the next one.
MAX_EXPLORER_SHARE = 0.1
# What an explorer may lose, as a share of what it could gain in all users to come.
EXPLORATION_RATE = 0.005
# An explorer serves at least half as many users as this times the noise, and half of so many users.
EXPLORER_NOISE_STDS = 2
MIN_EXPLORED_USERS = 3.0
# An explorer is taken to lose at least so much per user. It keeps a quotient finite.
MIN_EXPLORER_LOSS = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class QuestionRound:
    """A round of `users` users, who are asked about `steps` [q].

    The answer to question q is half of signs[q, s, a, s']. Where `about_rewards` [q], it is
    signs[q, s, a, 0] (r - 1/2).
    """

    public: PublicRound
    users: int
    steps: Ints
    signs: Signs
    about_rewards: npt.NDArray[np.bool_]


def plan_round(problem: QuestionProblem, released: Released) -> QuestionRound:
    """Decide from everything released so far who is served how, and what they are asked."""
    history = problem.recall(released)
    beliefs, oldest, oldest_rewards = estimate_beliefs(problem, history)
    rng = np.random.default_rng([int(history["seed"]), released.generation])
    policies = draw_policies(problem, beliefs, rng)
    users_left = max(problem.episodes - released.users, 1)

    # The size of the round follows from how clear its best question would be without explorers.
    without_explorers = np.append(np.full(PLAYED_SAMPLES, 1 / PLAYED_SAMPLES), [0.0, 0.0])
    trial = propose_questions(problem, beliefs, policies, without_explorers, rng)
    clearest = clearest_answer(beliefs.together, trial)
    users = round_size(problem, clearest, released.users, users_left)

    shares = explorer_shares(problem, beliefs, policies, users, users_left)
    candidates = propose_questions(problem, beliefs, policies, shares, rng)
    chosen = choose_questions(beliefs.together, candidates, users, problem.round_noise_stds(users))
    table = table_with_round(
        problem,
        history["table"],
        beliefs,
        policies,
        shares,
        candidates,
        chosen,
        released.users,
        users,
    )
    steps = candidates.steps[chosen]
    thetas = np.ascontiguousarray(candidates.thetas[chosen])
    history = fold_oldest(history, oldest, oldest_rewards)
    history = with_open_round(history, policies.actions, shares, released.users)
    history = history.replace(open_steps=steps, open_thetas=thetas, table=table)
    signal = users * clearest_answer(beliefs.together, candidates)
    public = PublicRound(
        tuple(TabularPolicy(actions, problem.public.actions) for actions in policies.actions),
        history.arrays,
        signal if released.generation else None,
        tuple(shares),
    )
    about_rewards = steps >= problem.steps
    step_of_block = np.where(about_rewards, steps - problem.steps, steps)
    signs = answer_signs(problem, steps, thetas)
    return QuestionRound(public, users, step_of_block, signs, about_rewards)


def table_with_round(
    problem: QuestionProblem,
    table: Array,
    beliefs: Beliefs,
    policies: RoundPolicies,
    shares: Array,
    candidates: CandidateQuestions,
    chosen: Ints,
    served: int,
    users: int,
) -> Array:
    """The table of all questions, with the chosen ones for the `users` after the first `served`."""
    noise_std = float(problem.round_noise_stds(users)[len(chosen) - 1])
    mean_answers = expected_answers(problem, beliefs, policies.actions, shares, candidates, chosen)
    return with_new_questions(
        table,
        first=served + 1,
        users=users,
        shares=shares,
        steps=candidates.steps[chosen],
        thetas=candidates.thetas[chosen],
        removes=removed_uncertainty(beliefs.together, candidates, chosen, users, noise_std),
        expected=users * mean_answers,
    )


def propose_questions(
    problem: QuestionProblem,
    beliefs: Beliefs,
    policies: RoundPolicies,
    shares: Array,
    rng: np.random.Generator,
) -> CandidateQuestions:
    """Questions that could be asked of users whom these policies serve in these shares."""
    belief = beliefs.weights
    kernels = problem.kernels
    start = problem.public.start
    candidates = candidate_questions(
        belief, policies.actions, shares, policies.relevance, kernels, start, rng
    )
    if beliefs.rewards is None:
        return candidates
    visits = predict_visits(policies.actions, shares, belief.weights, kernels, start)
    return add_reward_questions(candidates, beliefs.rewards, visits, policies.reward_relevance)


def clearest_answer(belief: WeightBelief, candidates: CandidateQuestions) -> float:
    """The largest standard deviation of a question's mean answer under the belief, per user."""
    rows = candidates.rows
    variances = np.einsum("qi,qij,qj->q", rows, belief.covariance[candidates.steps], rows)
    # Rounding may make the smallest variances negative.
    return float(np.sqrt(max(variances.max(), 0.0)))


def round_size(problem: QuestionProblem, clearest: float, served: int, users_left: int) -> int:
    """So many users that the clearest answer is as large as its noise, within limits.

    The limits make releases few, and none too late.
    """
    std = problem.usual_noise_std
    wanted = std / max(clearest, 1e-12)
    least = MIN_NOISE_STDS * std
    if problem.noise_per_user:
        # The noise of n users is sqrt(n) times that of one.
        wanted = wanted**2
        least = least**2
    most = served or problem.episodes / FIRST_ROUND_DIVISOR
    users = max(min(wanted, most), MIN_GROWTH * served, MIN_USERS, least)
    return int(min(math.ceil(users), users_left))


def explorer_shares(
    problem: QuestionProblem,
    beliefs: Beliefs,
    policies: RoundPolicies,
    users: int,
    users_left: int,
) -> Array:
    """The shares of the users whom each policy serves, the two explorers last.

    An explorer serves users by what it could gain in all users to come, against what it loses by
    the estimate.
    """
    start = problem.public.start
    noise = EXPLORER_NOISE_STDS * problem.usual_noise_std
    least = max(MIN_EXPLORED_USERS, noise**2 if problem.noise_per_user else noise) / 2
    explored = []
    for actions, hoped_value in zip(
        policies.actions[PLAYED_SAMPLES:], policies.explorer_values, strict=True
    ):
        value = policy_value(
            problem.kernels, policies.rewards, start, actions, beliefs.weights.weights
        )
        gain = max(hoped_value - policies.best_value, 0.0)
        loss = max(policies.best_value - value, MIN_EXPLORER_LOSS)
        wanted = EXPLORATION_RATE * gain * users_left / loss
        explored.append(min(MAX_EXPLORER_SHARE * users, max(least, wanted)))
    others = np.full(PLAYED_SAMPLES, (users - sum(explored)) / PLAYED_SAMPLES)
    return np.append(others, explored) / users


def expected_answers(
    problem: QuestionProblem,
    beliefs: Beliefs,
    actions: Ints,
    shares: Array,
    candidates: CandidateQuestions,
    chosen: Ints,
) -> Array:
    """What one user answers to each chosen question on average, by the estimate."""
    weights = beliefs.weights.weights
    rewards = beliefs.rewards
    d = problem.public.dimension
    expected = np.zeros(len(chosen))
    for place, q in enumerate(chosen):
        block = candidates.steps[q]
        if rewards is None or block < problem.steps:
            expected[place] = candidates.rows[q, :d] @ weights[block]
        else:
            visits = predict_visits(actions, shares, weights, problem.kernels, problem.public.start)
            direction = candidates.thetas[q, : rewards.weights.shape[1]]
            step = int(block) - problem.steps
            expected[place] = expected_reward_answer(rewards, direction, step, visits)
    return expected


def answer_signs(problem: QuestionProblem, blocks: Ints, thetas: Array) -> Signs:
    """The signs [q, s, a, s'] of the answers to questions about these blocks [q]."""
    d = problem.public.dimension
    features = problem.reward_features
    signs = []
    for block, theta in zip(blocks, thetas, strict=True):
        if block < problem.steps:
            direction = np.ascontiguousarray(theta[:d])
            signs.append(_kernels.answer_signs(problem.kernels, direction, SIGN_TOLERANCE))
        else:
            assert features is not None
            of_reward = reward_signs(features, theta[None, : features.dimension])[0].astype(np.int8)
            signs.append(np.repeat(of_reward[:, :, None], problem.public.states, axis=2))
    return np.stack(signs)


def questions_until(problem: QuestionProblem, released: Released) -> list[Question]:
    """What was asked up to this release, and what was answered, in words."""
    return questions_in(problem, problem.recall(released)["table"])


def questions_in(problem: QuestionProblem, table: npt.NDArray[np.generic]) -> list[Question]:
    """What a table of the memory says, in words."""
    return in_words(np.asarray(table), problem.kernels, problem.steps, problem.reward_features)
