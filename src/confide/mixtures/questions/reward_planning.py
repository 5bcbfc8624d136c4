"""Unknown rewards, learned from questions about them.

PUBLIC: everything here is post-processing of releases. Constants and formulas may be changed
freely, because they decide how well the agent learns and not what it reveals.

The mean reward of step h is offset(s, a) + phi(s, a).w_h, with w_h ~ N(0, variance I) before any
answer. Question (h, v) asks about the reward r of step h. With g(s, a) the sign of v.phi(s, a), the
answer is g (r - 1/2), and 0 where v.phi is almost zero. So the sum of the answers of a round has
the mean

    sum_{s, a} n(s, a) g(s, a) (offset(s, a) - 1/2 + phi(s, a).w_h),

if n(s, a) users are expected to take a in s. It is linear in w_h, as it is for mixture weights.

A *block* is what a question is about: block h < steps is the transition of step h, and block
steps + h is the reward of step h.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from confide.mixtures.questions.planning import (
    MIN_RELEVANCE,
    MIN_VARIANCE,
    SIGN_TOLERANCE,
    AnswerEvidence,
    AskedRound,
    CandidateQuestions,
    WeightBelief,
)
from confide.planners import _visit_kernels
from confide.planners.reward_features import RewardFeatures

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# Before any answer, rewards have this variance on average: a standard deviation of 1/2.
PRIOR_REWARD_VARIANCE = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class RewardBelief:
    """An estimate of the rewards, and how uncertain it is.

    Shapes: weights [h, j], covariance [h, j, j] and its symmetric square roots [h, j, j].
    """

    features: RewardFeatures
    weights: Array
    covariance: Array
    roots: Array = field(repr=False)

    def rewards_for(self, weights: Array) -> Array:
        """Mean rewards [..., h, s, a] for weights [..., h, j]."""
        linear = np.einsum("saj,...hj->...hsa", self.features.rows, weights)
        return np.asarray(np.clip(self.features.offset + linear, 0.0, 1.0))

    def mean_rewards(self) -> Array:
        """The estimated rewards [h, s, a]."""
        return self.rewards_for(self.weights)

    def sample_rewards(self, count: int, spread: float, rng: np.random.Generator) -> Array:
        """Draw plausible rewards [n, h, s, a]."""
        steps, j = self.weights.shape
        normal = rng.standard_normal((count, steps, j))
        deviations = np.einsum("nhi,hij->nhj", normal, self.roots)
        return self.rewards_for(self.weights + spread * deviations)

    def optimistic_rewards(self) -> Array:
        """Rewards [h, s, a] one standard deviation above the estimate, and at most 1."""
        rows = self.features.rows
        variance = np.einsum("sai,hij,saj->hsa", rows, self.covariance, rows)
        std = np.sqrt(np.maximum(variance, 0.0))
        return np.asarray(np.minimum(self.mean_rewards() + std, 1.0))


def prior_variance(features: RewardFeatures) -> float:
    """The variance of each weight before any answer."""
    mean_squared_norm = float((features.rows**2).sum(axis=-1).mean())
    return PRIOR_REWARD_VARIANCE / max(mean_squared_norm, 1e-12)


def reward_signs(features: RewardFeatures, directions: Array) -> Array:
    """g [q, s, a] for directions [q, j]: 1, -1, or 0 where v.phi is almost zero."""
    along = np.einsum("saj,qj->qsa", features.rows, directions)
    size = np.linalg.norm(features.rows, axis=-1)
    return np.where(np.abs(along) > SIGN_TOLERANCE * size, np.sign(along), 0.0)


def estimate_rewards(
    rounds: list[AskedRound],
    folded: AnswerEvidence,
    features: RewardFeatures,
    belief: WeightBelief,
    kernels: Array,
    start: Array,
) -> tuple[RewardBelief, AnswerEvidence]:
    """Return the belief after these rounds, and the evidence to keep when the first one is dropped.

    `folded` is the evidence of the rounds before them. Visits are predicted with `belief`.
    """
    j = folded.information.shape[1]
    steps = len(belief.weights)
    with_first = folded.copy()
    precision = folded.precision + np.eye(j) / prior_variance(features)
    information = folded.information.copy()
    for number, past_round in enumerate(rounds):
        visits = predict_visits(
            past_round.policies, past_round.users, belief.weights, kernels, start
        )
        for h, step_visits in enumerate(visits):
            is_here = past_round.steps == steps + h
            if not is_here.any():
                continue
            signs = reward_signs(features, past_round.thetas[is_here, :j])
            gained_precision, gained_information = _evidence(
                signs, step_visits, past_round.answers[is_here], past_round.noise_std, features
            )
            precision[h] += gained_precision
            information[h] += gained_information
            if number == 0:
                with_first.precision[h] += gained_precision
                with_first.information[h] += gained_information
    eigenvalues, vectors = np.linalg.eigh(precision)
    transposed = vectors.transpose(0, 2, 1)
    covariance = (vectors / eigenvalues[:, None]) @ transposed
    roots = (vectors / np.sqrt(eigenvalues)[:, None]) @ transposed
    weights = np.einsum("hij,hj->hi", covariance, information)
    return RewardBelief(features, weights, covariance, roots), with_first


def predict_visits(
    policies: Ints, users: Array, weights: Array, kernels: Array, start: Array
) -> Array:
    """Expected visits [h, s, a] of users [p] of policies [p, h, s], for mixture weights [h, i]."""
    states = np.tile(start, (len(users), 1))
    visits = []
    for h in range(policies.shape[1]):
        visits.append(_visit_kernels.visits(policies[:, h], users, states, kernels.shape[1]))
        if h < len(weights):
            transitions = np.tensordot(kernels, weights[h], axes=1)
            states = _visit_kernels.move(policies[:, h], states, transitions)
    return np.array(visits)


def _evidence(
    signs: Array, visits: Array, answers: Array, noise_std: float, features: RewardFeatures
) -> tuple[Array, Array]:
    """(M^T R^-1 M, M^T R^-1 y) of questions with these signs g [q, s, a].

    M [q, j] is the slope of the mean answers in w, y are the answers without what is known of them,
    and R is their covariance. The second moment of an answer is at most 1/4, which it has where
    rewards are 0 or 1.
    """
    M = np.einsum("qsa,sa,saj->qj", signs, visits, features.rows)
    centred = answers - np.einsum("qsa,sa,sa->q", signs, visits, features.offset - 0.5)
    sampling = np.einsum("qsa,rsa,sa->qr", signs, signs, visits) / 4
    R = sampling + (noise_std**2 + MIN_VARIANCE) * np.eye(len(answers))
    weighted = np.linalg.solve(R, M)
    return M.T @ weighted, weighted.T @ centred


def relevance_of_rewards(belief: RewardBelief, visits: Array) -> Array:
    """How much the choice between policies with visits [n, h, s, a] depends on rewards [h, j, j].

    A reward matters as far as plausible policies differ in how often they get it. So this is the
    covariance of the gradients of their values, and no direction has less than `MIN_RELEVANCE`.
    """
    gradients = np.einsum("nhsa,saj->nhj", visits, belief.features.rows)
    differences = gradients - gradients.mean(axis=0)
    B = np.einsum("nhi,nhj->hij", differences, differences) / len(visits)
    return np.asarray(B + MIN_RELEVANCE * np.eye(B.shape[-1]))


def add_reward_questions(
    candidates: CandidateQuestions, belief: RewardBelief, visits: Array, reward_relevance: Array
) -> CandidateQuestions:
    """Add questions about rewards, for one user with these visits [h, s, a].

    Directions of both kinds of questions get the same width, and are filled up with zeros.
    """
    horizon, j = belief.weights.shape
    steps = len(candidates.relevance)
    width = max(candidates.thetas.shape[1], j)
    blocks = [candidates.steps]
    thetas = [_widen(candidates.thetas, width)]
    rows = [_widen(candidates.rows, width)]
    for h in range(horizon):
        directions = _directions(belief.covariance[h], reward_relevance[h])
        signs = reward_signs(belief.features, directions)
        M = np.einsum("qsa,sa,saj->qj", signs, visits[h], belief.features.rows)
        blocks.append(np.full(len(directions), steps + h))
        thetas.append(_widen(directions, width))
        rows.append(_widen(M, width))
    relevance = _blocks(candidates.relevance, reward_relevance)
    return CandidateQuestions(
        np.concatenate(blocks), np.concatenate(thetas), np.concatenate(rows), relevance
    )


def _directions(covariance: Array, relevance: Array) -> Array:
    """Directions [q, j] of length one to ask about.

    These are each feature by itself, those in which most is uncertain, and those in which
    uncertainty matters most.
    """
    eigenvalues, vectors = np.linalg.eigh(relevance)
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
    uncertain = np.linalg.eigh(covariance)[1].T
    relevant = (covariance @ root @ np.linalg.eigh(root @ covariance @ root)[1]).T
    directions = np.concatenate([np.eye(len(covariance)), uncertain, relevant])
    length = np.linalg.norm(directions, axis=1)
    is_long = length > 1e-12
    return np.asarray(directions[is_long] / length[is_long, None])


def _widen(rows: Array, width: int) -> Array:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))


def _blocks(of_weights: Array, of_rewards: Array) -> Array:
    """Matrices [h, i, i] and [h, j, j] one after the other, filled up with zeros to one size."""
    steps, d, _ = of_weights.shape
    horizon, j, _ = of_rewards.shape
    width = max(d, j)
    both = np.zeros((steps + horizon, width, width))
    both[:steps, :d, :d] = of_weights
    both[steps:, :j, :j] = of_rewards
    return both


def join_beliefs(belief: WeightBelief, rewards: RewardBelief) -> WeightBelief:
    """The belief about the weights, with both covariances as blocks of one.

    It is for the choice of questions.
    """
    return replace(belief, covariance=_blocks(belief.covariance, rewards.covariance))


def without_reward_directions(past_round: AskedRound, dimension: int) -> AskedRound:
    """The round with directions as long as there are mixture weights.

    `estimate_weights` looks at questions about transitions alone, and this is their length.
    """
    return replace(past_round, thetas=np.ascontiguousarray(past_round.thetas[:, :dimension]))


def expected_reward_answer(
    belief: RewardBelief, direction: Array, step: int, visits: Array
) -> float:
    """What one user with these visits [h, s, a] answers on average about the rewards of a step."""
    signs = reward_signs(belief.features, direction[None])[0]
    return float((signs * visits[step] * (belief.mean_rewards()[step] - 0.5)).sum())
