"""Linear values from noisy statistics: a solution that trusts the data as far as noise allows.

Values are (V - c)/R = x_s.theta in public coordinates x [s, d], in which theta has a prior N(0, Q).
There must be something to fall back on where noise drowns the data, and intervals say so. All of
this is post-processing of a release, so nothing here can break a guarantee.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.parameters import SPREAD
from confide.evaluation.two_parts import Returns
from confide.privacy.bounded import Array
from confide.release.sums import LogSums

# Directions of features whose second moment is below this share of the largest are redundant.
# A matter of taste.
_REDUNDANT_BELOW = 1e-9
# How many numbers of a block of rows are held in memory at a time. A matter of taste.
_NUMBERS_IN_MEMORY = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class WhitenedFeatures:
    """Features in whitened coordinates: sum_s x_s x_s^T = (S/d) I.

    Redundant or badly scaled features therefore cost no noise. All of it is public.

    - `table` [s, d] are the coordinates x.
    - `weights` [s] are min(1, 1/||x_s||^2), times those that were given. They keep a rare feature
      from ruling the sensitivity, and a weighted regression estimates the same parameters.
    - `prior` [d, d] is SPREAD^2 (I + o o^T)/2 with x_s.o = 1, as nearly as features can: half of
      the variance is common to all states.
    - `back` [features, d] turns theta into parameters of the features.
    """

    table: Array = field(repr=False)
    weights: Array = field(repr=False)
    prior: Array = field(repr=False)
    back: Array = field(repr=False)


def whiten_features(features: npt.ArrayLike, weights: npt.ArrayLike | None) -> WhitenedFeatures:
    """Check features and weights, which are public, and change to whitened coordinates."""
    phi = np.ascontiguousarray(features, dtype=float)
    if phi.ndim != 2 or phi.size == 0 or not np.isfinite(phi).all() or not phi.any():
        raise InvalidParameter.of(
            "features",
            f"must be finite and not all zero, of shape (states, dimension), got shape {phi.shape}",
        )
    given = _given_weights(weights, len(phi))
    scale = np.abs(phi).max()
    scaled = phi / scale
    second_moments = scaled.T @ scaled / len(phi)
    diagonal = np.diag(second_moments)
    if (second_moments == np.diag(diagonal)).all():
        # The features are orthogonal already, as tables of states are: keep the zeros.
        kept = diagonal > _REDUNDANT_BELOW * second_moments.max()
        back = np.eye(len(second_moments))[:, kept] / np.sqrt(diagonal[kept])
    else:
        eigenvalues, vectors = np.linalg.eigh(second_moments)
        kept = eigenvalues > _REDUNDANT_BELOW * eigenvalues[-1]
        back = vectors[:, kept] / np.sqrt(eigenvalues[kept])
    back = back / (scale * np.sqrt(kept.sum()))
    table = phi @ back
    squared_lengths = (table**2).sum(axis=1)
    # The o of the class: what comes closest to a constant.
    constant = np.linalg.lstsq(table, np.ones(len(table)), rcond=None)[0]
    prior = SPREAD**2 * (np.eye(table.shape[1]) + np.outer(constant, constant)) / 2
    public_weights = given / given.max() / np.maximum(1.0, squared_lengths)
    return WhitenedFeatures(table, public_weights, prior, back)


def _given_weights(weights: npt.ArrayLike | None, states: int) -> Array:
    given = np.ones(states) if weights is None else np.asarray(weights, dtype=float)
    if given.shape != (states,) or not (
        np.isfinite(given).all() and (given >= 0).all() and given.any()
    ):
        raise InvalidParameter.of(
            "weights", f"must be {states} finite numbers, not negative and not all zero"
        )
    return given


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """theta = gain b, and what is wrong with it.

    The error of theta is gain e + (gain A - I) theta, where e is the error of b - A theta.
    `shrinkage` [d, d] is the covariance of (gain A - I) theta under the prior.
    """

    theta: Array
    gain: Array
    shrinkage: Array


def solve(A: Array, b: Array, *, variance: float, prior: Array) -> Solution:
    """The posterior mean of theta given b = A theta + e, e ~ N(0, variance I).

    The gain is Q A^T (A Q A^T + variance I)^-1 with Q = `prior`. A ridge adds the noise's size to
    every eigenvalue, and so shrinks as noise/eigenvalue. This shrinks as its square, and needs no
    repair where A is singular.
    """
    d = len(b)
    # Where there is no noise, this keeps the matrix regular.
    smallest = 1e-12 * max(float(np.abs(A).max()) ** 2, 1e-300) * float(np.trace(prior)) / d
    covariance = A @ prior @ A.T + max(variance, smallest) * np.eye(d)
    gain = np.asarray(np.linalg.solve(covariance, A @ prior).T, dtype=np.float64)
    bias = gain @ A - np.eye(d)
    return Solution(gain @ b, gain, bias @ prior @ bias.T)


def positive_part(A: Array) -> Array:
    """The nearest PSD matrix: a sum of x x^T was one before the noise."""
    eigenvalues, vectors = np.linalg.eigh(A)
    nearest: Array = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    return nearest


def linear_estimate(
    sums: LogSums,
    subject: str,
    features: WhitenedFeatures,
    solution: Solution,
    *,
    returns: Returns,
    noise: Array,
    sampling: Array | None,
    released: Mapping[str, Array],
    whole_range: bool = False,
) -> ValueEstimate:
    """Values and their errors, from theta and the errors of b - A theta.

    `noise` and `sampling` [d, d] are the covariances of these errors. An interval is about v =
    x.theta with error N(0, x^T (gain (noise + sampling) gain^T + shrinkage) x). A `ValueEstimate`
    takes it for a ratio v / 1 of which the denominator is known. `whole_range` says that no shorter
    interval would be honest.
    """
    x = features.table
    gain = solution.gain
    v = np.clip(x @ solution.theta, -1.0, 1.0)
    noise_std = np.sqrt(variances(x, gain @ noise @ gain.T))
    arrays = dict(released)
    if sampling is not None:
        if whole_range:
            variance = np.full(len(v), np.inf)
        else:
            variance = variances(x, gain @ sampling @ gain.T) + variances(x, solution.shrinkage)
        arrays |= {
            "counts": np.ones(len(v)),
            "sums": v,
            "count_std": np.zeros(len(v)),
            "sum_std": noise_std,
            "sampling_variance": variance,
        }
    return ValueEstimate(
        values=returns.centre + returns.radius * v,
        noise_std=returns.radius * noise_std,
        guarantee=sums.guarantee,
        certificate=sums.certificate(subject),
        lowest=returns.centre - returns.radius,
        highest=returns.centre + returns.radius,
        parameters=returns.radius * (features.back @ solution.theta),
        released=arrays,
    )


def variances(table: Array, matrix: Array) -> Array:
    """x^T M x for every state [s], at least zero: M may be an unbiased estimate that is not PSD."""
    of_states: Array = np.maximum(np.einsum("si,ij,sj->s", table, matrix, table), 0.0)
    return of_states


def residual_gain(unpack: Callable[[Array], tuple[Array, Array]], size: int, theta: Array) -> Array:
    """The matrix [size, d] that turns a row of statistics into its residual b - A theta.

    The residual is linear in the row. The matrix is made a block of rows at a time.
    """
    step = max(1, _NUMBERS_IN_MEMORY // len(theta) ** 2)
    gains = []
    for first in range(0, size, step):
        unit_rows = np.eye(min(step, size - first), size, first)
        A, b = unpack(unit_rows)
        gains.append(b - A @ theta)
    return np.concatenate(gains)
