"""Mixture weights from noisy sums of transition codes: generalised least squares, forward in time.

PUBLIC: everything here is post-processing of releases, so nothing in it can weaken the guarantee.
Estimates decide policies, which a device plans as its server did: both need the same version.

Let X be the sum of the codes c(s, a, s') that the users of round t have at step h, n_t(s, a) the
expected number of them who take a in s, and w the mixture weights of the step. With the mean codes
G(s, a) of `code_features`,

    E[X] = M_t w,    M_t = sum_{s, a} n_t(s, a) G(s, a).

The policies are public, and so is where episodes start. The state distributions at later steps are
predicted with the estimates for the steps before, and predicted again after each release.

Releases are discounted sums R_t = sum_{j <= t} r^(t - j) X_j + z_t (`Discounted`), with a ratio r
and noise z_t. So R_t - r R_{t-1} = X_t + z_t - r z_{t-1}, and neighbouring rounds share noise. With
z_{t-1} beside w in the state, Kalman's filter is the generalised least squares of all releases. It
begins with the prior N(1/d, I/d) on w, about that of a vector drawn evenly from the simplex. Sums
of separate rounds have r = 0, and a prefix sum is one round. Secure noise has coefficients that are
off by 2^-16 of a user, which is less than the sampling error of 2^30 users. The estimate is the
point of the simplex that is nearest in the metric of the precision.
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
# These variances keep covariances invertible without noise and without users. The second one is for
# each user; it keeps the condition of the precision within what doubles can tell.
MIN_VARIANCE = 1e-3
MIN_VARIANCE_PER_USER = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class FilterState:
    """What a filter knows after some rounds, of the weights and of the noise on the last release.

    Shapes: mean [h, d + c] and covariance [h, d + c, d + c], for d kernels and codes of c numbers.
    """

    mean: Array
    covariance: Array

    def copy(self) -> "FilterState":
        return FilterState(self.mean.copy(), self.covariance.copy())


def prior_state(steps: int, dimension: int, code_length: int) -> FilterState:
    """The state before the first release. Nothing was released, so there is no noise on it."""
    size = dimension + code_length
    mean = np.zeros((steps, size))
    mean[:, :dimension] = 1 / dimension
    covariance = np.zeros((steps, size, size))
    covariance[:, :dimension, :dimension] = np.eye(dimension) / dimension
    return FilterState(mean, covariance)


@dataclass(frozen=True, slots=True, eq=False)
class CodeSums:
    """The rounds that are looked at again.

    Shapes: sums [t, h, c] with noise of the standard deviations noise_stds [t]; round_of_policy [q]
    says in which of these rounds a policy served.
    """

    sums: Array
    noise_stds: Array
    round_of_policy: Ints


@dataclass(frozen=True, slots=True, eq=False)
class WeightPosterior:
    """What the releases say about the mixture weights.

    Shapes: weights [h, i] on the simplex, covariance [h, i, i] on vectors that sum to zero, states
    [h, q, s], the predicted state distributions of the policies. `signal` is the mean singular
    value of M, and `after_first` the state of the filter after the first of the rounds.
    """

    weights: Array
    covariance: Array
    states: Array
    signal: float
    after_first: FilterState


def estimate_posterior(
    rounds: CodeSums,
    served: ServedPolicies,
    before: FilterState,
    *,
    ratio: float,
    kernels: Array,
    codes: Array,
    code_means: Array,
    start: Array,
) -> WeightPosterior:
    """Estimate the weights from the rounds, and from the state of the filter before them.

    Shapes: kernels [i, s, a, s'], codes [s, a, s', c] and their means [s, a, c, i]. If `served` has
    visits before all of its policies, there is only one round, and they are its visits.
    """
    H = len(before.mean)
    d = len(kernels)
    weights = np.empty((H, d))
    covariance = np.empty((H, d, d))
    signals = np.empty(H)
    policy_states = np.empty((H, len(served.users), kernels.shape[1]))
    after_first = before.copy()
    states = np.tile(start, (len(served.users), 1))
    for h in range(H):
        policy_states[h] = states
        visits = _visits_of_rounds(rounds, served, h, states)
        M = np.tensordot(visits, code_means, axes=2)
        weights[h] = np.full(d, 1 / d)
        # The sampling covariance is first taken at equal weights, then at the estimate.
        for _ in range(2):
            transitions = mixture_transitions(kernels, weights[h])
            sampling = sampling_covariance(visits, M, transitions, codes, weights[h])
            means, covariances = _kernels.filter_rounds(
                rounds.sums[:, h],
                M,
                sampling,
                rounds.noise_stds**2,
                ratio,
                before.mean[h],
                before.covariance[h],
            )
            precision: Array = np.asarray(np.linalg.inv(covariances[-1, :d, :d]))
            precision = np.asarray((precision + precision.T) / 2)
            weights[h] = project_simplex(means[-1, :d], precision)
        covariance[h] = covariance_on_simplex(precision)
        has_rounds = len(means) > 1
        if has_rounds:
            after_first.mean[h] = means[1]
            after_first.covariance[h] = covariances[1]
        signals[h] = _mean_singular_value(M.sum(axis=0))
        transitions = mixture_transitions(kernels, weights[h])
        states = _visits.move(served.policies[:, h], states, transitions)
    return WeightPosterior(weights, covariance, policy_states, float(signals.mean()), after_first)


def _mean_singular_value(M: Array) -> float:
    """How strongly the sums of codes [c] depend on the weights: of M [c, i] on sums of zero."""
    varying = M - M.mean(axis=1, keepdims=True)
    singular_values = np.linalg.svd(varying, compute_uv=False)
    return float(singular_values.sum() / max(M.shape[1] - 1, 1))


def _visits_of_rounds(rounds: CodeSums, served: ServedPolicies, h: int, states: Array) -> Array:
    """How many users of each round take each action in each state [t, s, a]."""
    S, A = served.earlier.shape[1:]
    visits = np.zeros((len(rounds.sums), S, A))
    for t in range(len(visits)):
        is_here = rounds.round_of_policy == t
        policies = served.policies[is_here, h]
        visits[t] = _visits.visits(policies, served.users[is_here], states[is_here], A)
    if len(visits):
        visits[0] += served.earlier[h]
    return visits


def sampling_covariance(
    visits: Array, M: Array, transitions: Array, codes: Array, weights: Array
) -> Array:
    """The covariance [t, c, c] of the sums of codes of each round.

    It follows from the visits [t, s, a] of a round, so policies that go elsewhere have another one.
    """
    covariance = np.empty((len(M), M.shape[1], M.shape[1]))
    for t, (round_visits, mean) in enumerate(zip(visits, M @ weights, strict=True)):
        users = max(float(round_visits.sum()), 1.0)
        floor = (MIN_VARIANCE + MIN_VARIANCE_PER_USER * users) * np.eye(len(mean))
        moments = _visits.second_moments(round_visits, transitions, codes)
        covariance[t] = moments - np.outer(mean, mean) / users + floor
    return covariance


def covariance_on_simplex(precision: Array) -> Array:
    """The covariance on vectors that sum to zero: weights sum to one, so nothing else is uncertain.

    It is computed in a basis of these vectors. Rounding would decide the rank of a projected
    matrix, and what is not known yet must not be taken for known.
    """
    basis = null_space(np.ones((1, len(precision))))
    return np.asarray(basis @ np.linalg.inv(basis.T @ precision @ basis) @ basis.T)


def mixture_transitions(kernels: Array, weights: Array) -> Array:
    """sum_i w_i P_i [s, a, s']."""
    return np.tensordot(weights, kernels, axes=1)
