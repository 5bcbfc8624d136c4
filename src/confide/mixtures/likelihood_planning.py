"""Mixture weights from noisy sums of transition codes: generalised least squares, forward in time. All post-processing.

The sum of the codes of step h has mean M_h w_h, M_h = sum_{s, a} n_h(s, a) G(s, a), where n_h(s, a) users are expected to take a in s. The
policies are public, and so is where episodes start; the state distributions at later steps are predicted with the estimates for the steps
before, and predicted again after each release. The estimate minimises

    (S_h - M_h w)^T R_h^-1 (S_h - M_h w) + d ||w - 1/d||^2

over the simplex, exactly; R_h is the released noise plus the sampling covariance under the estimate. d is about the precision that a
weight vector drawn evenly from the simplex has.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space

from confide.planners import _visit_kernels as _kernels
from confide.planners.regression import project_simplex
from confide.planners.visits import Served

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """What is known of the weights. Public.

    Shapes: weights [h, i] on the simplex, covariance [h, i, i] (on vectors that sum to zero), states [h, q, s] the predicted state
    distributions, signal: the mean singular value of M.
    """

    weights: Array
    covariance: Array
    states: Array
    signal: float


def posterior(
    sums: Array, served: Served, *, noise_std: float, kernels: Array, codes: Array, code_means: Array, start: Array
) -> Posterior:
    """From sums [h, c] with noise on each number; codes [s, a, s', c] with their means [s, a, c, i]."""
    H, d = len(sums), len(kernels)
    weights, covariance, signals = np.empty((H, d)), np.empty((H, d, d)), np.empty(H)
    states = np.empty((H, len(served.users), kernels.shape[1]))
    at = np.tile(start, (len(served.users), 1))
    for h in range(H):
        states[h] = at
        expected = served.earlier[h] + _kernels.visits(served.policies[:, h], served.users, at, kernels.shape[2])
        M = np.tensordot(expected, code_means, axes=2)
        weights[h], covariance[h] = _solve(sums[h], M, expected, noise_std**2, kernels, codes)
        signals[h] = np.linalg.svd(M - M.mean(axis=1, keepdims=True), compute_uv=False).sum() / max(d - 1, 1)
        at = _kernels.move(served.policies[:, h], at, mixture(kernels, weights[h]))
    return Posterior(weights, covariance, states, float(signals.mean()))


def _solve(sums: Array, M: Array, expected: Array, noise: float, kernels: Array, codes: Array) -> tuple[Array, Array]:
    """Twice: the sampling covariance is first taken at equal weights, then at the estimate."""
    d = len(kernels)
    w, users = np.full(d, 1 / d), max(expected.sum(), 1.0)
    precision = d * np.eye(d)
    for _ in range(2):
        mean = M @ w
        sampling = _kernels.second_moments(expected, mixture(kernels, w), codes) - np.outer(mean, mean) / users
        # without noise and without users R would be singular; 1e-6 per user keeps the precision's condition in what doubles can tell
        R = sampling + (noise + 1e-3 + 1e-6 * users) * np.eye(len(sums))
        weighted = np.linalg.solve(R, M)
        precision = M.T @ weighted + d * np.eye(d)
        precision = np.asarray((precision + precision.T) / 2)
        w = project_simplex(np.asarray(np.linalg.solve(precision, weighted.T @ sums + 1.0)), precision)
    return w, _within(precision)


def _within(precision: Array) -> Array:
    """The covariance on vectors that sum to zero: weights sum to one, so nothing else is uncertain.

    In a basis, because the rank of a projected matrix is decided by rounding: what is not known yet must not be taken for known.
    """
    basis = null_space(np.ones((1, len(precision))))
    return np.asarray(basis @ np.linalg.inv(basis.T @ precision @ basis) @ basis.T)


def mixture(kernels: Array, weights: Array) -> Array:
    """sum_i w_i P_i [s, a, s']."""
    return np.tensordot(weights, kernels, axes=1)
