"""Linear values from noisy statistics: public coordinates, a solution that trusts the data as far as noise allows, and its error.

Values are (V - c)/R = x_s.theta in public coordinates x [s, d] in which theta has a prior N(0, Q): there must be something to fall back on
where noise drowns the data, and intervals say so. All of this is post-processing.
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

_RANK = 1e-9  # relative: directions of features below this are taken to be redundant
_BLOCK = 2**22  # numbers of a block


@dataclass(frozen=True, slots=True, eq=False)
class WhitenedFeatures:
    """Features in whitened coordinates: sum_s x_s x_s^T = (S/d) I, so that redundant or badly scaled features cost no noise.

    `weights` [s] are public: min(1, 1/||x_s||^2), times those that were given. They keep a rare feature from ruling the sensitivity, and a
    weighted regression estimates the same parameters. `prior` [d, d] is SPREAD^2 (I + o o^T)/2 with x_s.o = 1, as nearly as features can:
    half of the variance is common to all states.
    """

    table: Array = field(repr=False)  # x [s, d]
    weights: Array = field(repr=False)
    prior: Array = field(repr=False)
    back: Array = field(repr=False)  # [features, d]: theta -> parameters of the features


def coordinates(features: npt.ArrayLike, weights: npt.ArrayLike | None) -> WhitenedFeatures:
    phi = np.ascontiguousarray(features, dtype=float)
    if phi.ndim != 2 or phi.size == 0 or not np.isfinite(phi).all() or not phi.any():
        raise InvalidParameter.of(
            "features",
            f"must be finite and not all zero, of shape (states, dimension), got shape {phi.shape}",
        )
    given = np.ones(len(phi)) if weights is None else np.asarray(weights, dtype=float)
    if given.shape != (len(phi),) or not (
        np.isfinite(given).all() and (given >= 0).all() and given.any()
    ):
        raise InvalidParameter.of(
            "weights", f"must be {len(phi)} finite numbers, not negative and not all zero"
        )
    scale = np.abs(phi).max()
    second = (phi / scale).T @ (phi / scale) / len(phi)
    # already orthogonal, as tables of states are: keep the zeros
    if (second == np.diag(np.diag(second))).all():
        kept = np.diag(second) > _RANK * second.max()
        back = np.eye(len(second))[:, kept] / np.sqrt(np.diag(second)[kept])
    else:
        values, vectors = np.linalg.eigh(second)
        kept = values > _RANK * values[-1]
        back = vectors[:, kept] / np.sqrt(values[kept])
    back = back / (scale * np.sqrt(kept.sum()))
    table = phi @ back
    squares = (table**2).sum(axis=1)
    one = np.linalg.lstsq(table, np.ones(len(table)), rcond=None)[0]
    prior = SPREAD**2 * (np.eye(table.shape[1]) + np.outer(one, one)) / 2
    return WhitenedFeatures(table, given / given.max() / np.maximum(1.0, squares), prior, back)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """theta = gain b, and what is wrong with it: error = gain e + (gain A - I) theta, e the error of b - A theta."""

    theta: Array
    gain: Array
    shrunk: Array  # covariance of (gain A - I) theta under the prior


def solve(A: Array, b: Array, *, variance: float, prior: Array) -> Solution:
    """The posterior mean of theta given b = A theta + e, e ~ N(0, variance I): gain = Q A^T (A Q A^T + variance I)^-1.

    A ridge adds the noise's size to every eigenvalue, and so shrinks as noise/eigenvalue; this shrinks as its square, and needs no repair
    where A is singular.
    """
    d = len(b)
    floor = 1e-12 * max(float(np.abs(A).max()) ** 2, 1e-300) * float(np.trace(prior)) / d
    gain = np.asarray(
        np.linalg.solve(A @ prior @ A.T + max(variance, floor) * np.eye(d), A @ prior).T,
        dtype=np.float64,
    )
    left = gain @ A - np.eye(d)
    return Solution(gain @ b, gain, left @ prior @ left.T)


def positive_part(A: Array) -> Array:
    """The nearest PSD matrix: a sum of x x^T was one before the noise."""
    values, vectors = np.linalg.eigh(A)
    result: Array = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return result


def estimate_of(
    sums: LogSums,
    subject: str,
    where: WhitenedFeatures,
    solution: Solution,
    *,
    returns: Returns,
    noise: Array,
    sampling: Array | None,
    released: Mapping[str, Array],
    whole_range: bool = False,
) -> ValueEstimate:
    """Values and their errors, from theta and the covariances of b - A theta.

    An interval is about v = x.theta with error N(0, x^T (gain (noise + sampling) gain^T + shrunk) x): for `ValueEstimate` a ratio v / 1
    of which the denominator is known. `whole_range`: nothing less can be promised.
    """
    radius, gain, x = returns.radius, solution.gain, where.table
    v = np.clip(x @ solution.theta, -1.0, 1.0)
    noise_std = np.sqrt(variances(x, gain @ noise @ gain.T))
    held = dict(released)
    if sampling is not None:
        spread = variances(x, gain @ sampling @ gain.T) + variances(x, solution.shrunk)
        spread = np.full(len(v), np.inf) if whole_range else spread
        one = np.ones(len(v))
        held |= {
            "counts": one,
            "sums": v,
            "count_std": 0 * one,
            "sum_std": noise_std,
            "sampling_variance": spread,
        }
    return ValueEstimate(
        values=returns.centre + radius * v,
        noise_std=radius * noise_std,
        guarantee=sums.guarantee,
        certificate=sums.certificate(subject),
        lowest=returns.centre - radius,
        highest=returns.centre + radius,
        parameters=radius * (where.back @ solution.theta),
        released=held,
    )


def variances(table: Array, matrix: Array) -> Array:
    """x^T M x for every state, at least zero: M may be an unbiased estimate that is not PSD."""
    result: Array = np.maximum(np.einsum("si,ij,sj->s", table, matrix, table), 0.0)
    return result


def residual_gain(unpack: Callable[[Array], tuple[Array, Array]], size: int, theta: Array) -> Array:
    """The residual b - A theta of a row of statistics is linear in the row: the matrix [size, d] of that map, a block of rows at a time."""
    step = max(1, _BLOCK // len(theta) ** 2)
    blocks = (np.eye(min(step, size - start), size, start) for start in range(0, size, step))
    return np.concatenate([b - A @ theta for A, b in map(unpack, blocks)])
