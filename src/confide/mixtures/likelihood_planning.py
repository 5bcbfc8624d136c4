"""Mixture weights from noisy sums of transition codes: generalised least squares, forward in time. All post-processing.

The sum of the codes that the users of round t have at step h has mean M_t w, M_t = sum_{s, a} n_t(s, a) G(s, a), where n_t(s, a) users are
expected to take a in s. The policies are public, and so is where episodes start; the state distributions at later steps are predicted with
the estimates for the steps before, and predicted again after each release.

Releases are discounted sums R_t = sum_{j <= t} r^(t - j) X_j + z_t (`Discounted`), so that the leaf R_t - r R_{t-1} is X_t + z_t - r
z_{t-1}: neighbouring rounds share noise. With z_{t-1} beside w in the state, Kalman's filter is the generalised least squares of all
releases; a prior N(1/d, I/d) on w, about that of a vector drawn evenly from the simplex, begins it. Independent leaves are r = 0, and a
prefix sum is one leaf. Whole coefficients (secure noise) are off by 2^-16 of a user: less than the sampling error of 2^30 users. The
estimate is the point of the simplex that is nearest in the metric of the precision.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space

from confide.mixtures import _likelihood_kernels as _kernels
from confide.planners import _visit_kernels as _visits
from confide.planners.regression import project_simplex
from confide.planners.visits import ServedPolicies

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class FilterState:
    """What rounds that are no longer looked at said: mean [h, d + c] and covariance of the weights and of the noise on the last release."""

    mean: Array
    covariance: Array


def prior(steps: int, dimension: int, codes: int) -> FilterState:
    """Before the first release: nothing was released, so there is no noise on it."""
    known = np.zeros((steps, dimension + codes))
    known[:, :dimension] = 1 / dimension
    covariance = np.zeros((steps, dimension + codes, dimension + codes))
    covariance[:, :dimension, :dimension] = np.eye(dimension) / dimension
    return FilterState(known, covariance)


@dataclass(frozen=True, slots=True, eq=False)
class CodeSums:
    """Rounds that are looked at again: sums [t, h, c] with noise stds [t], round of each policy [q] of those that were served."""

    sums: Array
    stds: Array
    rounds: Ints


@dataclass(frozen=True, slots=True, eq=False)
class WeightPosterior:
    """What is known of the weights. Public.

    Shapes: weights [h, i] on the simplex, covariance [h, i, i] (on vectors that sum to zero), states [h, q, s] the predicted state
    distributions, signal: the mean singular value of M. `first` is the evidence with the first of the rounds.
    """

    weights: Array
    covariance: Array
    states: Array
    signal: float
    first: FilterState


def posterior(
    leaves: CodeSums,
    served: ServedPolicies,
    before: FilterState,
    *,
    ratio: float,
    kernels: Array,
    codes: Array,
    code_means: Array,
    start: Array,
) -> WeightPosterior:
    """From the rounds and the evidence before them; codes [s, a, s', c] with their means [s, a, c, i]. Visits before all of them, if
    there are any, are those of the only leaf."""
    H, d = len(before.mean), len(kernels)
    weights, covariance, signals = np.empty((H, d)), np.empty((H, d, d)), np.empty(H)
    states = np.empty((H, len(served.users), kernels.shape[1]))
    first = FilterState(before.mean.copy(), before.covariance.copy())
    at = np.tile(start, (len(served.users), 1))
    for h in range(H):
        states[h] = at
        expected = _expected(leaves, served, h, at)
        M = np.tensordot(expected, code_means, axes=2)
        known = before.mean[h], before.covariance[h]
        weights[h] = np.full(d, 1 / d)
        # the sampling covariance is first taken at equal weights, then at the estimate
        for _ in range(2):
            noise = sampling(expected, M, mixture(kernels, weights[h]), codes, weights[h])
            means, covariances = _kernels.filtered(
                leaves.sums[:, h], M, noise, leaves.stds**2, ratio, *known
            )
            precision: Array = np.asarray(np.linalg.inv(covariances[-1, :d, :d]))
            precision = np.asarray((precision + precision.T) / 2)
            weights[h] = project_simplex(means[-1, :d], precision)
        covariance[h] = within(precision)
        if len(means) > 1:
            first.mean[h], first.covariance[h] = means[1], covariances[1]
        whole = M.sum(axis=0)
        signals[h] = np.linalg.svd(
            whole - whole.mean(axis=1, keepdims=True), compute_uv=False
        ).sum() / max(d - 1, 1)
        at = _visits.move(served.policies[:, h], at, mixture(kernels, weights[h]))
    return WeightPosterior(weights, covariance, states, float(signals.mean()), first)


def _expected(leaves: CodeSums, served: ServedPolicies, h: int, at: Array) -> Array:
    """How many users of each round take each action in each state [t, s, a]."""
    S, A = served.earlier.shape[1:]
    expected = np.zeros((len(leaves.sums), S, A))
    for t in range(len(expected)):
        mine = leaves.rounds == t
        expected[t] = _visits.visits(served.policies[mine, h], served.users[mine], at[mine], A)
    if len(expected):
        expected[0] += served.earlier[h]
    return expected


def sampling(expected: Array, M: Array, transitions: Array, codes: Array, weights: Array) -> Array:
    """The covariance [t, c, c] of the sums of codes of each round: policies that go elsewhere have another one."""
    covariance = np.empty((len(M), M.shape[1], M.shape[1]))
    for t, (visits, mean) in enumerate(zip(expected, M @ weights, strict=True)):
        users = max(float(visits.sum()), 1.0)
        # without noise and without users it would be singular; 1e-6 per user keeps the precision's condition in what doubles can tell
        floor = (1e-3 + 1e-6 * users) * np.eye(len(mean))
        covariance[t] = (
            _visits.second_moments(visits, transitions, codes)
            - np.outer(mean, mean) / users
            + floor
        )
    return covariance


def within(precision: Array) -> Array:
    """The covariance on vectors that sum to zero: weights sum to one, so nothing else is uncertain.

    In a basis, because the rank of a projected matrix is decided by rounding: what is not known yet must not be taken for known.
    """
    basis = null_space(np.ones((1, len(precision))))
    return np.asarray(basis @ np.linalg.inv(basis.T @ precision @ basis) @ basis.T)


def mixture(kernels: Array, weights: Array) -> Array:
    """sum_i w_i P_i [s, a, s']."""
    return np.tensordot(weights, kernels, axes=1)
