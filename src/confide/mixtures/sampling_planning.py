"""The next round of posterior sampling: weights from the sums of codes, plausible weights around them, and the best policy for each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.mixtures.explorer_planning import explored
from confide.mixtures.likelihood_memory import (
    CodeSizes,
    evidence_in,
    fold_oldest,
    leaves_in,
    recall_rounds,
)
from confide.mixtures.likelihood_planning import WeightPosterior, posterior
from confide.mixtures.planning import optimistic
from confide.mixtures.questions._kernels import hopeful
from confide.mixtures.value_features import SparseKernels
from confide.mixtures.weight_value_planning import valued
from confide.planners.history import History
from confide.planners.policy_value import PlayedRound, RoundValues
from confide.planners.public_round import PublicRound
from confide.planners.regression import NO_BONUS, RegressionEstimate, project_simplex
from confide.planners.visits import recall_served_policies, with_open_round
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released

Array = npt.NDArray[np.float64]
# samples of the posterior per round: fewer are less robust, more are slower and no better
POLICIES = 4
TIES = 1e-6  # differences of value that are none
HOPE = 2.0  # standard deviations of the posterior, for an explorer


@dataclass(frozen=True, slots=True, eq=False)
class LikelihoodProblem:
    """All that is public before the first user."""

    shape: CodeSizes
    times: tuple[int, ...]  # of releases
    spread: float  # of the samples, against the posterior's standard deviation
    kernels: Array = field(repr=False)  # [i, s, a, s']
    rewards: Array = field(repr=False)
    start: Array = field(repr=False)
    codes: Array = field(repr=False)  # [s, a, s', c]
    code_means: Array = field(repr=False)  # [s, a, c, i]
    sparse_kernels: SparseKernels = field(repr=False)
    kernels_by_transition: Array = field(repr=False)  # [s, a, s', i]


def plan_round(problem: LikelihoodProblem, released: Released) -> PublicRound:
    """Decide the next round from everything released so far: who is served how."""
    history = recall_rounds(released, problem.shape)
    known = estimate_weights(problem, history)
    rng = np.random.default_rng([int(history["seed"]), released.generation])
    samples = draw_weights(known, problem.spread, rng)
    actions = [best_actions(problem, weights, rng) for weights in samples]
    explorer_share = explored(problem.times, released.generation)
    shares = np.full(POLICIES, (1 - explorer_share) / POLICIES)
    if explorer_share:
        actions.append(optimistic_actions(problem, known, rng))
        shares = np.append(shares, explorer_share)
    history = fold_oldest(history, known, problem.shape).remember_release(released)
    history = with_open_round(history, np.stack(actions), shares, released.users)
    policies = tuple(TabularPolicy(each, problem.shape.actions) for each in actions)
    signal = known.signal if released.generation else None
    return PublicRound(policies, history.arrays, signal, tuple(map(float, shares)))


def estimate_weights(problem: LikelihoodProblem, history: History) -> WeightPosterior:
    return posterior(
        leaves_in(history),
        recall_served_policies(history),
        evidence_in(history),
        ratio=problem.shape.ratio or 0.0,
        kernels=problem.kernels,
        codes=problem.codes,
        code_means=problem.code_means,
        start=problem.start,
    )


def draw_weights(known: WeightPosterior, spread: float, rng: np.random.Generator) -> Array:
    """Weights [sample, h, i] around the estimate, projected on the simplex."""
    H, d = known.weights.shape
    drawn = np.empty((POLICIES, H, d))
    for h in range(H):
        # the symmetric root: any other one depends on the eigenvectors, which rounding decides where eigenvalues are equal, and a
        # device must draw what the server draws
        eigenvalues, vectors = np.linalg.eigh(known.covariance[h])
        root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
        even = rng.standard_normal((POLICIES, d))
        drawn[:, h] = known.weights[h] + spread * even @ root
    return project_simplex(drawn, np.broadcast_to(np.eye(d), (*drawn.shape, d)))


def best_actions(
    problem: LikelihoodProblem, weights: Array, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """The best policy for these weights [h, s]."""
    features = problem.sparse_kernels.feature_map
    m = features.dimension
    certain = RegressionEstimate(
        features.coordinates(weights), np.broadcast_to(np.eye(m), (len(weights), m, m))
    )
    rewards = undecided_rewards(problem, rng)
    return optimistic(
        problem.sparse_kernels, rewards, certain, feature_map=features, width=NO_BONUS
    ).policy.actions


def optimistic_actions(
    problem: LikelihoodProblem, known: WeightPosterior, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """An explorer's policy: optimistic by two standard deviations of the posterior, but never more than the best kernel allows."""
    rewards = undecided_rewards(problem, rng)
    _, actions = hopeful(
        problem.kernels_by_transition, rewards, known.weights, known.covariance, HOPE
    )
    return np.asarray(actions)


def undecided_rewards(problem: LikelihoodProblem, rng: np.random.Generator) -> Array:
    """Rewards for which actions that are equally good are played at random: there, too, users can show something."""
    rewards: Array = problem.rewards + TIES * rng.random(problem.rewards.shape)
    return rewards


def value_policies(
    problem: LikelihoodProblem, released: Released, played: Sequence[PlayedRound]
) -> RoundValues:
    """What the model of this release says about the policies of all rounds so far, the one that it opens included."""
    known = estimate_weights(problem, recall_rounds(released, problem.shape))
    return valued(
        played,
        known,
        rewards=problem.rewards,
        kernels=problem.kernels,
        codes=problem.codes,
        code_means=problem.code_means,
        start=problem.start,
    )
