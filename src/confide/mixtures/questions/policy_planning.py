"""Policies for the next round of questions: for the estimate, for samples of the belief, explorers.

PUBLIC: everything here is post-processing of releases and of a public seed. The order in which
random numbers are drawn is part of the results: a device draws what its server drew.
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.mixtures.questions import _kernels
from confide.mixtures.questions.memory_planning import (
    QuestionSizes,
    evidence_in,
    recall_answers,
    rounds_in,
)
from confide.mixtures.questions.planning import (
    EXPLORER_SAMPLES,
    PRIOR_PRECISION,
    AnswerEvidence,
    WeightBelief,
    estimate_weights,
    relevance_of_weights,
)
from confide.mixtures.questions.reward_planning import (
    RewardBelief,
    estimate_rewards,
    join_beliefs,
    predict_visits,
    relevance_of_rewards,
    without_reward_directions,
)
from confide.mixtures.value_features import value_steps
from confide.planners.history import History
from confide.planners.reward_features import RewardFeatures
from confide.privacy.bounded import Released

if TYPE_CHECKING:
    from confide.problems.linear_mixture import LinearMixturePublic

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# So many policies serve most users: that of the estimate and those of samples. Chosen for a small
# regret.
PLAYED_SAMPLES = 4
# Differences of value below this are none, so actions are then chosen at random.
TIES = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class QuestionProblem:
    """All that is public before the first user.

    `noise_stds` are the standard deviations of the noise on each answer if 1, 2, ... questions are
    asked. It is noise on the sum over a round, or with `noise_per_user` on each user's answers.
    `spread` is that of the samples, in standard deviations of the belief. `reward_features` are
    those of unknown rewards, and None where rewards are known. Kernels are P [s, a, s', i].
    """

    public: "LinearMixturePublic"
    episodes: int
    noise_stds: tuple[float, ...]
    noise_per_user: bool
    spread: float
    reward_features: RewardFeatures | None
    kernels: Array = field(repr=False)

    @property
    def steps(self) -> int:
        """Steps whose transitions matter."""
        return value_steps(self.public.horizon)

    @property
    def usual_noise_std(self) -> float:
        """The noise where one question is asked per step."""
        return self.noise_stds[min(self.public.horizon - 1, len(self.noise_stds)) - 1]

    def round_noise_stds(self, users: int) -> Array:
        """The noise on the sums of a round of so many users, if 1, 2, ... questions are asked."""
        stds = np.array(self.noise_stds)
        return np.asarray(stds * math.sqrt(users) if self.noise_per_user else stds)

    def recall(self, released: Released) -> History:
        """The rounds so far, the one that the release has just closed included."""
        public = self.public
        features = self.reward_features
        sizes = QuestionSizes(
            public.horizon,
            self.steps,
            public.states,
            public.actions,
            public.dimension,
            rewards=0 if features is None else features.dimension,
            policies=PLAYED_SAMPLES + 2,
        )
        return recall_answers(released, sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Beliefs:
    """The beliefs about the weights and, where they are unknown, about the rewards.

    `together` has both as blocks of one covariance, for the choice of questions.
    """

    weights: WeightBelief
    rewards: RewardBelief | None
    together: WeightBelief


@dataclass(frozen=True, slots=True, eq=False)
class RoundPolicies:
    """The policies of a round, and what follows from the policies that are plausible.

    `actions` [p, h, s] are those of the estimate, of samples, and of two explorers, which hope for
    `explorer_values`. `rewards` [h, s, a] were planned for, and `best_value` is the value of the
    best policy by the estimate. The relevances say how much the choice between plausible policies
    depends on the weights, and on the rewards, of each step.
    """

    actions: Ints
    explorer_values: list[float]
    rewards: Array
    best_value: float
    relevance: Array
    reward_relevance: Array


def estimate_beliefs(
    problem: QuestionProblem, history: History
) -> tuple[Beliefs, AnswerEvidence, AnswerEvidence]:
    """Return the beliefs, and the evidence with the oldest round: about weights, about rewards."""
    rounds = rounds_in(history)
    folded, folded_rewards = evidence_in(history)
    kernels = problem.kernels
    start = problem.public.start
    transition_rounds = [
        without_reward_directions(past_round, problem.public.dimension) for past_round in rounds
    ]
    weights, with_first = estimate_weights(transition_rounds, folded, kernels, start)
    if problem.reward_features is None:
        return Beliefs(weights, None, weights), with_first, folded_rewards
    rewards, with_first_rewards = estimate_rewards(
        rounds, folded_rewards, problem.reward_features, weights, kernels, start
    )
    together = join_beliefs(weights, rewards)
    return Beliefs(weights, rewards, together), with_first, with_first_rewards


def draw_policies(
    problem: QuestionProblem, beliefs: Beliefs, rng: np.random.Generator
) -> RoundPolicies:
    """Plan for the estimate, for samples of the belief, and for two explorers.

    The first explorer follows the most valuable of many plausible policies, and the second one is
    optimistic.
    """
    kernels = problem.kernels
    start = problem.public.start
    belief = beliefs.weights
    rewards = undecided_rewards(problem, beliefs.rewards, rng)
    estimated_values, _ = _kernels.best_policies(kernels, rewards, belief.weights[None])

    played_weights = belief.samples(PLAYED_SAMPLES, problem.spread, rng)
    played_rewards = sample_rewards(beliefs.rewards, rewards, PLAYED_SAMPLES, problem.spread, rng)
    played_weights[0] = belief.weights
    played_rewards[0] = rewards
    _, played_actions = best_policies(kernels, played_weights, played_rewards)

    weights = belief.samples(EXPLORER_SAMPLES, 1.0, rng)
    values, actions = best_policies(
        kernels, weights, sample_rewards(beliefs.rewards, rewards, EXPLORER_SAMPLES, 1.0, rng)
    )
    start_values = values[:, 0] @ start
    most_valuable = actions[start_values.argmax()]
    optimistic_value, optimistic_actions = plan_optimistically(problem, beliefs, rewards)

    scale = values.max()
    gradients = _kernels.value_gradients(kernels, values, actions, weights, start)
    reward_relevance = np.zeros(0)
    if beliefs.rewards is not None:
        visits = np.array(
            [
                predict_visits(policy[None], np.ones(1), belief.weights, kernels, start)
                for policy in actions
            ]
        )
        reward_relevance = relevance_of_rewards(beliefs.rewards, visits / scale)
    return RoundPolicies(
        np.concatenate([played_actions, most_valuable[None], optimistic_actions[None]]),
        [float(start_values.max()), optimistic_value],
        rewards,
        float(start @ estimated_values[0, 0]),
        relevance_of_weights(gradients / scale),
        reward_relevance,
    )


def plan_optimistically(
    problem: QuestionProblem, beliefs: Beliefs, rewards: Array
) -> tuple[float, Ints]:
    """The value that the optimistic explorer hopes for, and its actions [h, s].

    `rewards` [h, s, a] are the estimated ones, with ties broken at random.
    """
    if beliefs.rewards is not None:
        ties = rewards - beliefs.rewards.mean_rewards()
        rewards = beliefs.rewards.optimistic_rewards() + ties
    # All of the simplex is in the ellipsoid of this width under the prior.
    width = math.sqrt(PRIOR_PRECISION * (1 - 1 / problem.public.dimension))
    belief = beliefs.weights
    values, actions = _kernels.optimistic_policy(
        problem.kernels, rewards, belief.weights, belief.covariance, width
    )
    return float(problem.public.start @ values[0]), actions


def undecided_rewards(
    problem: QuestionProblem, belief: RewardBelief | None, rng: np.random.Generator
) -> Array:
    """The estimated rewards [h, s, a], moved so little that only ties are decided by it.

    Actions that are equally good are then played at random: there, too, users can show something.
    """
    rewards = problem.public.rewards if belief is None else belief.mean_rewards()
    assert rewards is not None
    return np.asarray(rewards + TIES * rng.random(rewards.shape))


def sample_rewards(
    belief: RewardBelief | None,
    rewards: Array,
    count: int,
    spread: float,
    rng: np.random.Generator,
) -> Array:
    """Plausible rewards [n, h, s, a], or `rewards` [h, s, a] n times where they are known."""
    if belief is None:
        return np.repeat(rewards[None], count, axis=0)
    ties = rewards - belief.mean_rewards()
    return np.asarray(belief.sample_rewards(count, spread, rng) + ties)


def best_policies(kernels: Array, weights: Array, rewards: Array) -> tuple[Array, Ints]:
    """(values [n, h, s], actions [n, h, s]) of the best policies.

    They are the best for weights [n, h, i] and rewards [n, h, s, a].
    """
    plans = [
        _kernels.best_policies(kernels, rewards[n], weights[n : n + 1]) for n in range(len(weights))
    ]
    values, actions = zip(*plans, strict=True)
    return np.concatenate(values), np.concatenate(actions)
