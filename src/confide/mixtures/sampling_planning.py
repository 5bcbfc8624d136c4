"""The next round of posterior sampling: plausible weights, and the best policy for each of them.

PUBLIC: everything here is post-processing of releases and of a public seed. What leaves is the
round: policies, their shares and a memory. The order in which random numbers are drawn is part of
the results, because a device draws what its server drew. Constants decide how well the agent
learns, and not the guarantee.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.mixtures.explorer_planning import explorer_share
from confide.mixtures.likelihood_memory import (
    CodeSizes,
    code_sums_in,
    filter_state_in,
    fold_oldest,
    recall_rounds,
)
from confide.mixtures.likelihood_planning import WeightPosterior, estimate_posterior
from confide.mixtures.planning import optimistic
from confide.mixtures.questions._kernels import optimistic_policy
from confide.mixtures.value_features import SparseKernels
from confide.mixtures.weight_value_planning import value_rounds
from confide.planners.history import History
from confide.planners.policy_value import PlayedRound, RoundValues
from confide.planners.public_round import PublicRound
from confide.planners.regression import NO_BONUS, RegressionEstimate, project_simplex
from confide.planners.visits import recall_served_policies, with_open_round
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# Samples of the posterior per round. Fewer are less robust, more are slower and no better.
POLICIES = 4
# Differences of value below this are none, so actions are then chosen at random.
TIES = 1e-6
# How optimistic an explorer is, in standard deviations of the posterior. A matter of taste.
EXPLORER_STDS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class LikelihoodProblem:
    """All that is public before the first user.

    `release_times` are the numbers of users after which there is a release. `spread` is that of the
    samples, in standard deviations of the posterior.

    Shapes: kernels [i, s, a, s'] and, for compiled loops, kernels_by_transition [s, a, s', i];
    rewards [h, s, a], start [s], codes [s, a, s', c] and their means code_means [s, a, c, i].
    """

    sizes: CodeSizes
    release_times: tuple[int, ...]
    spread: float
    kernels: Array = field(repr=False)
    rewards: Array = field(repr=False)
    start: Array = field(repr=False)
    codes: Array = field(repr=False)
    code_means: Array = field(repr=False)
    sparse_kernels: SparseKernels = field(repr=False)
    kernels_by_transition: Array = field(repr=False)


def plan_round(problem: LikelihoodProblem, released: Released) -> PublicRound:
    """Decide from everything released so far whom which policy serves."""
    history = recall_rounds(released, problem.sizes)
    posterior = estimate_weights(problem, history)
    rng = np.random.default_rng([int(history["seed"]), released.generation])
    samples = draw_weights(posterior, problem.spread, rng)
    actions = [best_actions(problem, weights, rng) for weights in samples]
    exploring = explorer_share(problem.release_times, released.generation)
    shares = np.full(POLICIES, (1 - exploring) / POLICIES)
    if exploring:
        actions.append(optimistic_actions(problem, posterior, rng))
        shares = np.append(shares, exploring)
    history = fold_oldest(history, posterior, problem.sizes).remember_release(released)
    history = with_open_round(history, np.stack(actions), shares, released.users)
    policies = tuple(TabularPolicy(each, problem.sizes.actions) for each in actions)
    signal = posterior.signal if released.generation else None
    return PublicRound(policies, history.arrays, signal, tuple(map(float, shares)))


def estimate_weights(problem: LikelihoodProblem, history: History) -> WeightPosterior:
    return estimate_posterior(
        code_sums_in(history),
        recall_served_policies(history),
        filter_state_in(history),
        ratio=problem.sizes.ratio or 0.0,
        kernels=problem.kernels,
        codes=problem.codes,
        code_means=problem.code_means,
        start=problem.start,
    )


def draw_weights(posterior: WeightPosterior, spread: float, rng: np.random.Generator) -> Array:
    """Draw weights [sample, h, i] around the estimate, projected on the simplex."""
    H, d = posterior.weights.shape
    samples = np.empty((POLICIES, H, d))
    for h in range(H):
        # The square root is the symmetric one. Any other one depends on the eigenvectors, which
        # rounding decides where eigenvalues are equal, and a device must draw what its server drew.
        eigenvalues, vectors = np.linalg.eigh(posterior.covariance[h])
        root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
        normal = rng.standard_normal((POLICIES, d))
        samples[:, h] = posterior.weights[h] + spread * normal @ root
    return project_simplex(samples, np.broadcast_to(np.eye(d), (*samples.shape, d)))


def best_actions(problem: LikelihoodProblem, weights: Array, rng: np.random.Generator) -> Ints:
    """The actions [h, s] of the best policy for these weights [h, i]."""
    features = problem.sparse_kernels.feature_map
    m = features.dimension
    # Without a bonus the precision does not matter.
    precision = np.broadcast_to(np.eye(m), (len(weights), m, m))
    plan = optimistic(
        problem.sparse_kernels,
        undecided_rewards(problem, rng),
        RegressionEstimate(features.coordinates(weights), precision),
        feature_map=features,
        width=NO_BONUS,
    )
    return plan.policy.actions


def optimistic_actions(
    problem: LikelihoodProblem, posterior: WeightPosterior, rng: np.random.Generator
) -> Ints:
    """The actions [h, s] of an explorer, which is optimistic by `EXPLORER_STDS`.

    It never expects more than the best kernel allows.
    """
    _, actions = optimistic_policy(
        problem.kernels_by_transition,
        undecided_rewards(problem, rng),
        posterior.weights,
        posterior.covariance,
        EXPLORER_STDS,
    )
    return np.asarray(actions)


def undecided_rewards(problem: LikelihoodProblem, rng: np.random.Generator) -> Array:
    """The rewards [h, s, a], moved so little that only ties are decided by it.

    Actions that are equally good are then played at random: there, too, users can show something.
    """
    rewards: Array = problem.rewards + TIES * rng.random(problem.rewards.shape)
    return rewards


def value_policies(
    problem: LikelihoodProblem, released: Released, played: Sequence[PlayedRound]
) -> RoundValues:
    """What the model of this release says about the policies of all rounds, the open one last."""
    posterior = estimate_weights(problem, recall_rounds(released, problem.sizes))
    return value_rounds(
        played,
        posterior,
        rewards=problem.rewards,
        kernels=problem.kernels,
        codes=problem.codes,
        code_means=problem.code_means,
        start=problem.start,
    )
