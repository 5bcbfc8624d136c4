"""From noisy answers to mixture weights, and from what is still uncertain to the next questions.

PUBLIC: everything here is post-processing of releases. Nothing in this file can weaken the
guarantee: its constants and formulas decide how well the agent learns, and may be changed freely.
Results are part of the memory of a round, so a server and its devices need the same version.

Question (h, theta) asks of the transition (s, a, s') of step h whether theta.P(s'|s, a) > 0, where
P(s'|s, a) is the vector [i] of all kernels' probabilities. The answer c(s, a, s') is 1/2, -1/2, or
0 if theta.P is almost zero. Let y be the sums of the answers of a round to its questions about
step h, n(s, a) the expected number of users who take a in s there, and w the weights of the step:

    E[y] = M w,    M = sum_{s, a} n(s, a) sum_s' c(s, a, s') P(s'|s, a)^T.

Policies are public, so n is predicted, forward in time, with the estimates for the steps before.
The estimate of w minimises, over the simplex,

    sum over rounds of (y - M w)^T R^-1 (y - M w)  +  3 ||w - 1/d||^2,

where R is the covariance of y: that of the noise, and that of sampling users at the estimate.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space

from confide.mixtures.questions import _kernels
from confide.planners import _visit_kernels
from confide.planners.regression import project_simplex

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# |theta.P| of at most this share of sum_i P_i is a rounding error, and is not answered.
SIGN_TOLERANCE = 1e-7
# The least relevance of any direction, in units of the largest value. What does not seem to matter
# may matter, so no direction has none. Lemma 1 of docs/agents/questions.md calls this number b_0.
MIN_RELEVANCE = 1e-4
# The precision of the prior, which is about that of a vector drawn evenly from the simplex.
# The proofs of docs/agents/questions.md use this number.
PRIOR_PRECISION = 3.0
# These variances keep R invertible without noise and without users. The second one is for each
# user; it keeps the condition of the precision within what doubles can tell.
MIN_VARIANCE = 1e-3
MIN_VARIANCE_PER_USER = 1e-6
# The variance of one user's answer is between 0 and 1/4. When questions are compared, it is taken
# to be this, as in Prop. 1 of docs/agents/questions.md.
TYPICAL_ANSWER_VARIANCE = 1 / 8
# So many weights are drawn, and the differences of all pairs are directions to ask about.
# A matter of taste.
COMPARED_SAMPLES = 4
# The first explorer follows the most valuable of so many plausible policies. A matter of taste.
EXPLORER_SAMPLES = 32


@dataclass(frozen=True, slots=True, eq=False)
class AskedRound:
    """One round of which everything is public: who was served how, what was asked and answered.

    Shapes: policies [p, h, s] served `users` [p]; questions (steps [q], thetas [q, i]) were
    answered with the sums `answers` [q], which carry noise of the standard deviation `noise_std`.
    """

    policies: Ints
    users: Array
    steps: Ints
    thetas: Array
    answers: Array
    noise_std: float


@dataclass(frozen=True, slots=True, eq=False)
class AnswerEvidence:
    """What rounds say whose visits are no longer predicted again, without the prior.

    Shapes: precision [h, i, i] = sum of M^T R^-1 M, information [h, i] = sum of M^T R^-1 y.
    """

    precision: Array
    information: Array

    def copy(self) -> "AnswerEvidence":
        return AnswerEvidence(self.precision.copy(), self.information.copy())


@dataclass(frozen=True, slots=True, eq=False)
class WeightBelief:
    """An estimate of the mixture weights, and how uncertain it is.

    Shapes: weights [h, i] on the simplex, precision [h, i, i]; covariance [h, i, i] on vectors that
    sum to zero, and `roots` [h, i, i], its symmetric square roots.
    """

    weights: Array
    precision: Array
    covariance: Array
    roots: Array = field(repr=False)

    def samples(self, count: int, spread: float, rng: np.random.Generator) -> Array:
        """Draw plausible weights [n, h, i].

        They are projected on the simplex in the metric of the precision. So a direction in which
        little is known does not move those in which much is known.
        """
        steps, d = self.weights.shape
        normal = rng.standard_normal((count, steps, d))
        normal_weights = self.weights + spread * np.einsum("nhi,hij->nhj", normal, self.roots)
        metric = np.broadcast_to(self.precision, (count, *self.precision.shape))
        return project_simplex(normal_weights, metric)


def estimate_weights(
    rounds: list[AskedRound], folded: AnswerEvidence, kernels: Array, start: Array
) -> tuple[WeightBelief, AnswerEvidence]:
    """Return the belief after these rounds, and the evidence to keep when the first one is dropped.

    `folded` is the evidence of the rounds before them, and what is returned is `folded` with that
    of the first round. Kernels are P [s, a, s', i].
    """
    steps, d = folded.information.shape
    belief = WeightBelief(
        weights=np.empty((steps, d)),
        precision=np.empty((steps, d, d)),
        covariance=np.empty((steps, d, d)),
        roots=np.empty((steps, d, d)),
    )
    with_first = folded.copy()
    # For each round the distributions [p, s] of the states before step h.
    states = [np.tile(start, (len(past_round.users), 1)) for past_round in rounds]
    # Weights sum to one, so only directions that sum to zero are uncertain.
    basis = null_space(np.ones((1, d)))
    for h in range(steps):
        equations = [
            answer_equations(past_round, at, h, kernels)
            for past_round, at in zip(rounds, states, strict=True)
        ]
        estimate = estimate_step(equations, folded, h, basis, kernels)
        if rounds:
            first_precision, first_information = estimate.evidence[0]
            with_first.precision[h] += first_precision
            with_first.information[h] += first_information
        belief.weights[h] = estimate.weights
        belief.precision[h] = estimate.precision
        belief.covariance[h] = estimate.covariance
        belief.roots[h] = estimate.root
        transitions = np.tensordot(kernels, estimate.weights, axes=1)
        states = [
            _visit_kernels.move(past_round.policies[:, h], at, transitions)
            for past_round, at in zip(rounds, states, strict=True)
        ]
    return belief, with_first


@dataclass(frozen=True, slots=True, eq=False)
class StepEstimate:
    """The estimated weights of one step, and the spectrum of their precision.

    The spectrum is that on vectors that sum to zero, because weights sum to one. `evidence` are
    (M^T R^-1 M, M^T R^-1 y) of each round.

    Shapes: weights [i], eigenvalues [i - 1], vectors [i, i - 1].
    """

    weights: Array
    eigenvalues: Array
    vectors: Array
    evidence: list[tuple[Array, Array]]

    @property
    def precision(self) -> Array:
        return precision_of(self.eigenvalues, self.vectors)

    @property
    def covariance(self) -> Array:
        return np.asarray((self.vectors / self.eigenvalues) @ self.vectors.T)

    @property
    def root(self) -> Array:
        """The symmetric square root of the covariance."""
        return np.asarray((self.vectors / np.sqrt(self.eigenvalues)) @ self.vectors.T)


def estimate_step(
    equations: list["AnswerEquations"],
    folded: AnswerEvidence,
    step: int,
    basis: Array,
    kernels: Array,
) -> StepEstimate:
    """Estimate the weights of a step; `basis` [i, i - 1] spans the vectors that sum to zero."""
    d = len(basis)
    weights = np.full(d, 1 / d)
    # R depends on the weights: it is first taken at equal weights, then at the estimate.
    for _ in range(2):
        evidence = [each.evidence(weights, kernels) for each in equations]
        precision = PRIOR_PRECISION * np.eye(d) + folded.precision[step]
        precision = precision + sum(each[0] for each in evidence)
        information = PRIOR_PRECISION / d + folded.information[step]
        information = information + sum(each[1] for each in evidence)
        eigenvalues, vectors = _spectrum(precision, basis)
        gradient = information - precision.sum(axis=1) / d
        unconstrained = np.full(d, 1 / d) + vectors @ (vectors.T @ gradient / eigenvalues)
        weights = project_simplex(unconstrained, precision_of(eigenvalues, vectors))
    return StepEstimate(weights, eigenvalues, vectors, evidence)


def precision_of(eigenvalues: Array, vectors: Array) -> Array:
    """The precision on vectors that sum to zero, and any positive one along the vector of ones."""
    return np.asarray((vectors * eigenvalues) @ vectors.T + PRIOR_PRECISION / len(vectors))


def _spectrum(precision: Array, basis: Array) -> tuple[Array, Array]:
    """Eigenvalues [d - 1] and eigenvectors [d, d - 1] on vectors that sum to zero.

    They are computed in a basis of these vectors. A pseudo-inverse of the projected matrix would
    have to decide its rank, and one rounding error that passes for an eigenvalue has the variance
    1e9. Evidence only adds to the prior, so an eigenvalue below it is a rounding error as well.
    """
    inner = basis.T @ precision @ basis
    eigenvalues, vectors = np.linalg.eigh((inner + inner.T) / 2)
    return np.maximum(eigenvalues, PRIOR_PRECISION), np.asarray(basis @ vectors)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerEquations:
    """What one round says about the weights of one step: answers = design w + an error.

    Shapes: design [q, i] is M, and `visits` [s, a] are the expected visits that it is made from.
    """

    thetas: Array
    visits: Array
    design: Array
    answers: Array
    noise_std: float

    def evidence(self, weights: Array, kernels: Array) -> tuple[Array, Array]:
        """(M^T R^-1 M, M^T R^-1 y), with R at these weights."""
        if not len(self.answers):
            return np.zeros((len(weights), len(weights))), np.zeros(len(weights))
        users = self.visits.sum()
        mean = self.design @ weights
        moments = _kernels.answer_moments(
            kernels, weights, self.thetas, self.visits, SIGN_TOLERANCE
        )
        sampling = moments - np.outer(mean, mean) / max(users, 1.0)
        variance = self.noise_std**2 + MIN_VARIANCE + MIN_VARIANCE_PER_USER * users
        weighted = np.linalg.solve(sampling + variance * np.eye(len(self.answers)), self.design)
        return self.design.T @ weighted, weighted.T @ self.answers


def answer_equations(
    past_round: AskedRound, states: Array, step: int, kernels: Array
) -> AnswerEquations:
    """The equations of a round at a step, for users in states with these distributions [p, s]."""
    is_here = past_round.steps == step
    actions = kernels.shape[1]
    visits = _visit_kernels.visits(past_round.policies[:, step], past_round.users, states, actions)
    thetas = np.ascontiguousarray(past_round.thetas[is_here])
    design = _kernels.mean_answers(kernels, thetas, visits, SIGN_TOLERANCE)
    return AnswerEquations(
        thetas, visits, design, past_round.answers[is_here], past_round.noise_std
    )


@dataclass(frozen=True, slots=True, eq=False)
class CandidateQuestions:
    """Questions that could be asked of users who follow given policies.

    Shapes: steps [q], thetas [q, i], and rows [q, i], the rows of M for one user. relevance
    [h, i, i] says how much the choice between plausible policies depends on the weights of step h.
    """

    steps: Ints
    thetas: Array
    rows: Array
    relevance: Array


def candidate_questions(
    belief: WeightBelief,
    policies: Ints,
    shares: Array,
    relevance: Array,
    kernels: Array,
    start: Array,
    rng: np.random.Generator,
) -> CandidateQuestions:
    """Propose three kinds of directions theta for each step.

    These are the directions in which most is uncertain, those in which uncertainty matters most to
    the choice of a policy, and the differences of plausible weights.
    """
    steps = len(belief.weights)
    states = np.tile(start, (len(policies), 1))
    samples = belief.samples(COMPARED_SAMPLES, 1.0, rng)
    thetas: list[Array] = []
    rows: list[Array] = []
    for h in range(steps):
        visits = _visit_kernels.visits(policies[:, h], shares, states, kernels.shape[1])
        step_thetas = _directions(belief.covariance[h], relevance[h], samples[:, h])
        thetas.append(step_thetas)
        rows.append(_kernels.mean_answers(kernels, step_thetas, visits, SIGN_TOLERANCE))
        transitions = np.tensordot(kernels, belief.weights[h], axes=1)
        states = _visit_kernels.move(policies[:, h], states, transitions)
    step_of_question = np.repeat(np.arange(steps), list(map(len, thetas)))
    return CandidateQuestions(
        step_of_question, np.concatenate(thetas), np.concatenate(rows), relevance
    )


def _directions(covariance: Array, relevance: Array, samples: Array) -> Array:
    """Directions [q, i] of length one for one step, given samples [n, i] of the weights."""
    # The first eigenvector is the vector of ones, along which nothing is uncertain.
    uncertain = np.linalg.eigh(covariance)[1].T[1:]
    root = _root(relevance)
    relevant = covariance @ root @ np.linalg.eigh(root @ covariance @ root)[1]
    differences = [
        samples[i] - samples[j] for i in range(len(samples)) for j in range(i + 1, len(samples))
    ]
    directions = np.concatenate([uncertain, relevant.T, differences])
    length = np.linalg.norm(directions, axis=1)
    is_long = length > max(1e-9 * length.max(), 1e-300)
    if not is_long.any():
        return np.ones((1, len(covariance)))
    return np.ascontiguousarray(directions[is_long] / length[is_long, None])


def relevance_of_weights(gradients: Array) -> Array:
    """B [h, i, i], the covariance of the gradients [n, h, i] of the values of n plausible policies.

    sum_h tr(B_h C_h) is, to first order, half the mean squared error of the difference between the
    values of two of these policies, if C_h is the covariance of the weights of step h.
    """
    d = gradients.shape[-1]
    sum_to_zero = np.eye(d) - 1 / d
    differences = (gradients - gradients.mean(axis=0)) @ sum_to_zero
    B = np.einsum("nhi,nhj->hij", differences, differences) / len(gradients)
    return np.asarray(B + MIN_RELEVANCE * sum_to_zero)


def _root(matrix: Array) -> Array:
    """The symmetric square root of a positive semidefinite matrix."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T)


def choose_questions(
    belief: WeightBelief, candidates: CandidateQuestions, users: float, noise_stds: Array
) -> Ints:
    """Choose what to ask so many users, greedily by how much uncertainty that matters it removes.

    If D questions are asked, each has noise of the standard deviation noise_stds[D - 1]: more
    questions have more noise each. A question with row m lowers the covariance C by
    C m m^T C / (m^T C m + noise + sampling). Returned are indices of candidates.
    """
    rows = users * candidates.rows
    best_gain = -1.0
    best_choice = np.zeros(0, dtype=np.int64)
    for count, std in enumerate(noise_stds, 1):
        variance = np.full(len(rows), std**2 + users * TYPICAL_ANSWER_VARIANCE)
        choice, gain = _kernels.choose_greedily(
            belief.covariance, candidates.relevance, rows, candidates.steps, variance, count
        )
        if gain > best_gain:
            best_gain = gain
            best_choice = choice
    return best_choice


def policy_value(
    kernels: Array, rewards: Array, start: Array, actions: Ints, weights: Array
) -> float:
    """The value of a policy with these actions [h, s] under the mixture with weights [h, i]."""
    states = np.arange(kernels.shape[0])
    values = np.zeros(kernels.shape[0])
    for h in range(len(rewards) - 1, -1, -1):
        # After the last step comes nothing.
        following: Array | float = 0.0
        if h < len(rewards) - 1:
            following = kernels[states, actions[h]] @ weights[h] @ values
        values = rewards[h, states, actions[h]] + following
    return float(start @ values)
