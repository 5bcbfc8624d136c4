"""From noisy answers to mixture weights, and from what is still uncertain to the next questions. All post-processing.

Question (h, theta) asks about the transition (s, a, s') of step h whether theta.P(s'|s, a) > 0, P(s'|s, a) the vector of all kernels'
probabilities. The sum of the answers y of a round has mean M w_h, M = sum_{s, a} n(s, a) sum_s' c(s, a, s') P(s'|s, a)^T, c = +-1/2 is
the answer and n(s, a) users are expected to take a in s. Policies are public, so visits are predicted, forward in time, with the estimates
for the steps before. The estimate minimises, over the simplex,

    sum over rounds of (y - M w)^T R^-1 (y - M w)  +  3 ||w - 1/d||^2,        R = noise + sampling covariance at the estimate
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space

from confide.mixtures.likelihood_planning import mixture
from confide.mixtures.questions import _kernels
from confide.planners import _visit_kernels
from confide.planners.regression import project_simplex

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SMALL = 1e-7  # |theta.P| below this share of sum_i P_i says nothing
LEAST_RELEVANCE = 1e-4  # of any direction, in units of the largest value
PRIOR = 3.0  # precision: about that of a vector drawn evenly from the simplex


@dataclass(frozen=True, slots=True, eq=False)
class AskedRound:
    """One round, all of it public: policies [p, h, s] served users [p], who were asked (steps [q], thetas [q, i]) and answered y [q]."""

    policies: Ints
    users: Array
    steps: Ints
    thetas: Array
    answers: Array
    std: float


@dataclass(frozen=True, slots=True, eq=False)
class AnswerEvidence:
    """Of rounds whose visits are no longer predicted anew: precision [h, i, i] and information [h, i], without the prior."""

    precision: Array
    information: Array


@dataclass(frozen=True, slots=True, eq=False)
class WeightBelief:
    """What is known of the weights: weights [h, i] on the simplex, precision and covariance [h, i, i] (on vectors that sum to zero)."""

    weights: Array
    precision: Array
    covariance: Array
    roots: Array = field(repr=False)  # symmetric ones of the covariance

    def samples(self, count: int, spread: float, rng: np.random.Generator) -> Array:
        """Plausible weights [n, h, i]: projected in the metric of the precision, so that what is unknown does not spoil what is known."""
        steps, d = self.weights.shape
        drawn = self.weights + spread * np.einsum(
            "nhi,hij->nhj", rng.standard_normal((count, steps, d)), self.roots
        )
        return project_simplex(
            drawn, np.broadcast_to(self.precision, (count, *self.precision.shape))
        )


def believe(
    rounds: list[AskedRound], folded: AnswerEvidence, kernels: Array, start: Array
) -> tuple[WeightBelief, AnswerEvidence]:
    """The belief after these rounds, and the evidence of the first of them on top of `folded`. kernels [s, a, s', i]."""
    steps, d = folded.information.shape
    weights, (precision, covariance, roots) = np.empty((steps, d)), np.empty((3, steps, d, d))
    first = AnswerEvidence(folded.precision.copy(), folded.information.copy())
    at = [np.tile(start, (len(asked.users), 1)) for asked in rounds]
    basis = null_space(np.ones((1, d)))
    for h in range(steps):
        rows = [_row(asked, states, h, kernels) for asked, states in zip(rounds, at, strict=True)]
        w = np.full(d, 1 / d)
        # the sampling covariance is first taken at equal weights, then at the estimate
        for _ in range(2):
            parts = [_evidence(row, w, kernels) for row in rows]
            P = PRIOR * np.eye(d) + folded.precision[h] + sum(part[0] for part in parts)
            b = PRIOR / d + folded.information[h] + sum(part[1] for part in parts)
            values, vectors = _spectrum(P, basis)
            free = np.full(d, 1 / d) + vectors @ (vectors.T @ (b - P.sum(axis=1) / d) / values)
            # along 1 any positive number will do
            metric = (vectors * values) @ vectors.T + PRIOR / d
            w = project_simplex(free, metric)
        if parts:
            first.precision[h] += parts[0][0]
            first.information[h] += parts[0][1]
        weights[h], precision[h] = w, metric
        covariance[h], roots[h] = (
            (vectors / values) @ vectors.T,
            (vectors / np.sqrt(values)) @ vectors.T,
        )
        transitions = np.tensordot(kernels, w, axes=1)
        at = [
            _visit_kernels.move(asked.policies[:, h], states, transitions)
            for asked, states in zip(rounds, at, strict=True)
        ]
    return WeightBelief(weights, precision, covariance, roots), first


def _spectrum(precision: Array, basis: Array) -> tuple[Array, Array]:
    """Eigenvalues [d - 1] and eigenvectors [d, d - 1] on vectors that sum to zero: weights sum to one, so nothing else is uncertain.

    In a basis: the rank of a projected matrix is decided by rounding, and one rounding error too many has the variance 1e9. Evidence only
    adds to the prior, so an eigenvalue below it is a rounding error as well.
    """
    inner = basis.T @ precision @ basis
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    return np.maximum(values, PRIOR), np.asarray(basis @ vectors)


# thetas, visits, M, answers and the noise of one round at one step
_Row = tuple[Array, Array, Array, Array, float]


def _row(asked: AskedRound, states: Array, step: int, kernels: Array) -> _Row:
    here = asked.steps == step
    visits = _visit_kernels.visits(asked.policies[:, step], asked.users, states, kernels.shape[1])
    thetas = np.ascontiguousarray(asked.thetas[here])
    return (
        thetas,
        visits,
        _kernels.means(kernels, thetas, visits, SMALL),
        asked.answers[here],
        asked.std,
    )


def _evidence(row: _Row, weights: Array, kernels: Array) -> tuple[Array, Array]:
    thetas, visits, M, answers, std = row
    if not len(answers):
        return np.zeros((len(weights), len(weights))), np.zeros(len(weights))
    mean = M @ weights
    sampling = _kernels.moments(kernels, weights, thetas, visits, SMALL) - np.outer(
        mean, mean
    ) / max(visits.sum(), 1.0)
    # without noise and without users R would be singular; 1e-6 per user keeps the precision's condition in what doubles can tell
    R = sampling + (std**2 + 1e-3 + 1e-6 * visits.sum()) * np.eye(len(answers))
    weighted = np.linalg.solve(R, M)
    return M.T @ weighted, weighted.T @ answers


@dataclass(frozen=True, slots=True, eq=False)
class CandidateQuestions:
    """Questions that could be asked of users who follow given policies: steps [q], thetas [q, i], and rows M [q, i] for one user.

    relevance [h, i, i] is how much the choice between plausible policies depends on the weights of step h.
    """

    steps: Ints
    thetas: Array
    rows: Array
    relevance: Array


def candidates(
    belief: WeightBelief,
    policies: Ints,
    shares: Array,
    relevance: Array,
    kernels: Array,
    start: Array,
    rng: np.random.Generator,
) -> CandidateQuestions:
    """Directions in which the belief is uncertain, in which values depend on it, and in which two samples differ."""
    steps, d = belief.weights.shape
    at = np.tile(start, (len(policies), 1))
    drawn = belief.samples(4, 1.0, rng)
    pairs = [(i, j) for i in range(3) for j in range(i + 1, 4)]
    found: list[tuple[Array, Array]] = []
    for h in range(steps):
        visits = _visit_kernels.visits(policies[:, h], shares, at, kernels.shape[1])
        C, root = belief.covariance[h], _root(relevance[h])
        useful = C @ root @ np.linalg.eigh(root @ C @ root)[1]
        thetas = np.concatenate(
            [np.linalg.eigh(C)[1].T[1:], useful.T, [drawn[i, h] - drawn[j, h] for i, j in pairs]]
        )
        length = np.linalg.norm(thetas, axis=1)
        long = length > max(1e-9 * length.max(), 1e-300)
        thetas = (
            np.ascontiguousarray(thetas[long] / length[long, None])
            if long.any()
            else np.ones((1, d))
        )
        found.append((thetas, _kernels.means(kernels, thetas, visits, SMALL)))
        at = _visit_kernels.move(
            policies[:, h], at, np.tensordot(kernels, belief.weights[h], axes=1)
        )
    of = np.repeat(np.arange(steps), [len(thetas) for thetas, _ in found])
    return CandidateQuestions(
        of, np.concatenate([t for t, _ in found]), np.concatenate([m for _, m in found]), relevance
    )


def relevance(gradients: Array) -> Array:
    """B [h, i, i]: the covariance of the gradients [n, h, i] of n plausible policies, and never nothing: what does not seem to matter may.

    tr(B C) over all steps is half the mean squared error of the difference between two of these policies' values, to first order.
    """
    d = gradients.shape[-1]
    within = np.eye(d) - 1 / d
    differences = (gradients - gradients.mean(axis=0)) @ within
    B = np.einsum("nhi,nhj->hij", differences, differences) / len(gradients)
    return np.asarray(B + LEAST_RELEVANCE * within)


def _root(B: Array) -> Array:
    values, vectors = np.linalg.eigh(B)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def choose(belief: WeightBelief, known: CandidateQuestions, users: float, stds: Array) -> Ints:
    """The questions to ask of so many users, when D of them have noise stds[D - 1]: greedily, by how much the variance that matters falls.

    A question with row m lowers the covariance C by C m m^T C / (m^T C m + noise + sampling). More questions have more noise each.
    """
    rows, best, asked = users * known.rows, -1.0, np.zeros(0, dtype=np.int64)
    for D, std in enumerate(stds, 1):
        noise = np.full(len(rows), std**2 + users / 8)
        picked, gain = _kernels.greedy(
            belief.covariance, known.relevance, rows, known.steps, noise, D
        )
        if gain > best:
            best, asked = gain, picked
    return asked


def evaluate(kernels: Array, rewards: Array, start: Array, actions: Ints, weights: Array) -> float:
    """The value of a policy [h, s] under the mixture with weights [h, i]."""
    values, every = np.zeros(kernels.shape[0]), np.arange(kernels.shape[0])
    for h in range(len(rewards) - 1, -1, -1):
        values = rewards[h, every, actions[h]] + (
            kernels[every, actions[h]] @ weights[h] @ values if h < len(rewards) - 1 else 0.0
        )
    return float(start @ values)


__all__ = [
    "AnswerEvidence",
    "AskedRound",
    "CandidateQuestions",
    "WeightBelief",
    "believe",
    "candidates",
    "choose",
    "evaluate",
    "mixture",
]
