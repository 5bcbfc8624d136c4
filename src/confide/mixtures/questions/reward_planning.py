"""Unknown rewards, learned from questions about them. All post-processing.

The mean reward of step h is offset(s, a) + phi(s, a).w_h, with w_h ~ N(0, variance I) before any answer. Question (h, v) asks about the
reward r of step h: the answer is r - 1/2 where v.phi(s, a) > 0, 1/2 - r where it is < 0, and 0 elsewhere. So the sum of a round's answers
has the mean sum_{s, a} n(s, a) g(s, a) (offset - 1/2 + phi.w_h), g the sign: linear in w_h, as for mixture weights.

Blocks: questions about the transitions of step h have number h, and those about the rewards of step h have number steps + h.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from confide.mixtures.questions.planning import (
    LEAST_RELEVANCE,
    SMALL,
    AnswerEvidence,
    AskedRound,
    CandidateQuestions,
    WeightBelief,
)
from confide.planners import _visit_kernels
from confide.planners.reward_features import RewardFeatures

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RewardBelief:
    """What is known of the rewards: w [h, j] and its covariance [h, j, j]."""

    features: RewardFeatures
    weights: Array
    covariance: Array
    roots: Array = field(repr=False)

    def rewards(self, weights: Array) -> Array:
        """Mean rewards [..., h, s, a] for w [..., h, j]."""
        return np.asarray(
            np.clip(
                self.features.offset + np.einsum("saj,...hj->...hsa", self.features.rows, weights),
                0.0,
                1.0,
            )
        )

    def samples(self, count: int, spread: float, rng: np.random.Generator) -> Array:
        """Plausible rewards [n, h, s, a]."""
        steps, j = self.weights.shape
        drawn = np.einsum("nhi,hij->nhj", rng.standard_normal((count, steps, j)), self.roots)
        return self.rewards(self.weights + spread * drawn)

    def hoped(self) -> Array:
        """One standard deviation above the mean [h, s, a], and at most 1."""
        variance = np.einsum(
            "sai,hij,saj->hsa", self.features.rows, self.covariance, self.features.rows
        )
        return np.asarray(
            np.minimum(self.rewards(self.weights) + np.sqrt(np.maximum(variance, 0.0)), 1.0)
        )


def variance_of(features: RewardFeatures) -> float:
    """Of the weights, before any answer: rewards then have a standard deviation of 1/2 on average."""
    return 0.25 / max(float((features.rows**2).sum(axis=-1).mean()), 1e-12)


def signs(features: RewardFeatures, directions: Array) -> Array:
    """g [q, s, a] for directions [q, j]: 1, -1 or 0."""
    said, size = (
        np.einsum("saj,qj->qsa", features.rows, directions),
        np.linalg.norm(features.rows, axis=-1),
    )
    return np.where(np.abs(said) > SMALL * size, np.sign(said), 0.0)


def believe_rewards(
    rounds: list[AskedRound],
    folded: AnswerEvidence,
    features: RewardFeatures,
    belief: WeightBelief,
    kernels: Array,
    start: Array,
) -> tuple[RewardBelief, AnswerEvidence]:
    """The belief after these rounds, and the evidence of the first of them on top of `folded`; visits are predicted with `belief`."""
    j, steps = folded.information.shape[1], len(belief.weights)
    first = AnswerEvidence(folded.precision.copy(), folded.information.copy())
    precision, information = (
        folded.precision + np.eye(j) / variance_of(features),
        folded.information.copy(),
    )
    for number, asked in enumerate(rounds):
        for h, visits in enumerate(
            visited(asked.policies, asked.users, belief.weights, kernels, start)
        ):
            here = asked.steps == steps + h
            if not here.any():
                continue
            gained = _evidence(
                signs(features, asked.thetas[here, :j]),
                visits,
                asked.answers[here],
                asked.std,
                features,
            )
            precision[h] += gained[0]
            information[h] += gained[1]
            if number == 0:
                first.precision[h] += gained[0]
                first.information[h] += gained[1]
    values, vectors = np.linalg.eigh(precision)
    covariance = (vectors / values[:, None]) @ vectors.transpose(0, 2, 1)
    roots = (vectors / np.sqrt(values)[:, None]) @ vectors.transpose(0, 2, 1)
    return RewardBelief(
        features, np.einsum("hij,hj->hi", covariance, information), covariance, roots
    ), first


def visited(policies: Ints, users: Array, weights: Array, kernels: Array, start: Array) -> Array:
    """Expected visits [h, s, a] of users [p] of policies [p, h, s], under the mixture with weights [h, i]."""
    at, found = np.tile(start, (len(users), 1)), []
    for h in range(policies.shape[1]):
        found.append(_visit_kernels.visits(policies[:, h], users, at, kernels.shape[1]))
        if h < len(weights):
            at = _visit_kernels.move(policies[:, h], at, np.tensordot(kernels, weights[h], axes=1))
    return np.array(found)


def _evidence(
    g: Array, visits: Array, answers: Array, std: float, features: RewardFeatures
) -> tuple[Array, Array]:
    """Precision and information; an answer has a second moment of 1/4 at most, and has it where rewards are 0 or 1."""
    M = np.einsum("qsa,sa,saj->qj", g, visits, features.rows)
    centred = answers - np.einsum("qsa,sa,sa->q", g, visits, features.offset - 0.5)
    sampling = np.einsum("qsa,rsa,sa->qr", g, g, visits) / 4
    R = sampling + (std**2 + 1e-3) * np.eye(len(answers))
    weighted = np.linalg.solve(R, M)
    return M.T @ weighted, weighted.T @ centred


def reward_relevance(learned: RewardBelief, plausible: Array) -> Array:
    """[h, j, j]: how much the choice between policies depends on rewards, for those with visits [n, h, s, a]; never nothing.

    A reward matters as far as plausible policies differ in how often they get it: the covariance of their values' gradients.
    """
    counted = np.einsum("nhsa,saj->nhj", plausible, learned.features.rows)
    differences = counted - counted.mean(axis=0)
    B = np.einsum("nhi,nhj->hij", differences, differences) / len(plausible)
    return np.asarray(B + LEAST_RELEVANCE * np.eye(B.shape[-1]))


def with_rewards(
    known: CandidateQuestions, learned: RewardBelief, visits: Array, matters: Array
) -> CandidateQuestions:
    """The candidates with questions about rewards, for one user with these visits [h, s, a]; `matters` is their relevance [h, j, j]."""
    H, j = learned.weights.shape
    steps, d = len(known.relevance), known.thetas.shape[1]
    width = max(d, j)
    relevance = np.zeros((steps + H, width, width))
    relevance[:steps, :d, :d], relevance[steps:, :j, :j] = known.relevance, matters
    of, thetas, rows = [known.steps], [_wide(known.thetas, width)], [_wide(known.rows, width)]
    for h in range(H):
        directions = _directions(learned.covariance[h], matters[h])
        M = np.einsum(
            "qsa,sa,saj->qj", signs(learned.features, directions), visits[h], learned.features.rows
        )
        of.append(np.full(len(directions), steps + h))
        thetas.append(_wide(directions, width))
        rows.append(_wide(M, width))
    return CandidateQuestions(
        np.concatenate(of), np.concatenate(thetas), np.concatenate(rows), relevance
    )


def _directions(C: Array, B: Array) -> Array:
    """Each feature by itself, those in which most is uncertain, and those in which that matters most."""
    values, vectors = np.linalg.eigh(B)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    found = np.concatenate(
        [np.eye(len(C)), np.linalg.eigh(C)[1].T, (C @ root @ np.linalg.eigh(root @ C @ root)[1]).T]
    )
    length = np.linalg.norm(found, axis=1)
    return np.asarray(found[length > 1e-12] / length[length > 1e-12, None])


def _wide(rows: Array, width: int) -> Array:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))


def joined(belief: WeightBelief, learned: RewardBelief) -> WeightBelief:
    """Both beliefs as blocks of one covariance, for the choice of questions."""
    (steps, d), (H, j) = belief.weights.shape, learned.weights.shape
    covariance = np.zeros((steps + H, max(d, j), max(d, j)))
    covariance[:steps, :d, :d], covariance[steps:, :j, :j] = belief.covariance, learned.covariance
    return replace(belief, covariance=covariance)


def about_transitions(asked: AskedRound, dimension: int) -> AskedRound:
    """The round with its questions about transitions alone: `believe` looks at no others, but at the length of their directions."""
    return replace(asked, thetas=np.ascontiguousarray(asked.thetas[:, :dimension]))


def expected_answer(learned: RewardBelief, direction: Array, step: int, visits: Array) -> float:
    """What one user with these visits [h, s, a] answers on average to a question about the rewards of a step."""
    g = signs(learned.features, direction[None])[0]
    return float((g * visits[step] * (learned.rewards(learned.weights)[step] - 0.5)).sum())
