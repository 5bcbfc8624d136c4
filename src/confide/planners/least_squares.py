"""Regularised least squares on released statistics: all post-processing.

Lambda = sum X X^T and u = sum X y come with noise, so Lambda may have negative eigenvalues. They are clipped at zero and a ridge of the
size of the noise is added, where the papers shift all of Lambda by twice a bound on the noise ([Luyo21, Cor. 5]: 2 Upsilon).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.planners import _least_squares_kernels as _kernels
from confide.planners.value_features import FeatureMap, raw

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """What releases say about the parameter of a regression. Public.

    Shapes: weights [..., m], precision [..., m, m] (the repaired Lambda plus the ridge: positive definite).
    """

    weights: Array
    precision: Array


def least_squares(
    Lambda: Array,
    u: Array,
    *,
    noise_std: float,
    ridge: float = 0.5,
    floor: float = 1.0,
    simplex: bool = False,
    feature_map: FeatureMap | None = None,
) -> Estimate:
    """theta = P^-1 u with P = (Lambda)_+ + rho I, from Lambda [..., m, m] and u [..., m].

    GOE noise with diagonal N(0, noise_std^2) has spectral norm about noise_std sqrt(2m); rho is `ridge` times half of that, at least
    `floor` (which is in the units of ||X||^2). 0.3 to 1.0 are good values of `ridge`.

    With `simplex` the estimate is the probability vector closest to P^-1 u in the norm of P, exactly: the constrained least squares
    solution. With a `feature_map` the constraint is on the mixture weights that theta stands for.
    """
    m = u.shape[-1]
    if Lambda.shape != (*u.shape, m) or m == 0:
        raise InvalidParameter(f"Lambda and u must have shapes (..., m, m) and (..., m), got {Lambda.shape} and {u.shape}")
    rho = ridge_size(m, noise_std=noise_std, ridge=ridge, floor=floor)
    matrices, vectors = (
        np.ascontiguousarray(Lambda, dtype=float).reshape(-1, m, m),
        np.ascontiguousarray(u, dtype=float).reshape(-1, m),
    )
    if simplex:
        weights = feature_map or raw(m)
        theta, precision = _kernels.repaired_on_simplex(matrices, vectors, rho, weights.origin, weights.basis)
    else:
        theta, precision = _kernels.repaired(matrices, vectors, rho)
    return Estimate(theta.reshape(u.shape), precision.reshape(Lambda.shape))


def optimistic_values(
    Lambda: Array, u: Array, rows: Array, *, noise_std: float, ridge: float, sampling: float, noise: float
) -> tuple[Array, Array]:
    """Values and standard errors [...] of rows [..., m] under the estimate that `least_squares` makes of Lambda [m, m] and u [m]."""
    m = len(u)
    flat = np.ascontiguousarray(rows, dtype=float).reshape(-1, m)
    matrix, vector = np.ascontiguousarray(Lambda, dtype=float), np.ascontiguousarray(u, dtype=float)
    rho = ridge_size(m, noise_std=noise_std, ridge=ridge)
    value, error = _kernels.optimistic_values(matrix, vector, rho, flat, sampling, noise)
    return value.reshape(rows.shape[:-1]), error.reshape(rows.shape[:-1])


def mean_eigenvalue(Lambda: Array) -> float:
    """Of all matrices [n, m, m] together: what stands against the noise."""
    return _kernels.mean_diagonal(Lambda)


def ridge_size(dimension: int, *, noise_std: float, ridge: float = 0.5, floor: float = 1.0) -> float:
    """rho = max(floor, ridge s sqrt(2m) / 2)."""
    if not 0 <= noise_std < math.inf:
        raise InvalidParameter(f"noise_std must be finite and not negative, got noise_std={noise_std}")
    if not 0 <= ridge < math.inf:
        raise InvalidParameter(f"ridge must be finite and not negative, got ridge={ridge}")
    if not 0 < floor < math.inf:
        raise InvalidParameter(f"floor must be positive, got floor={floor}")
    return max(floor, ridge * noise_std * math.sqrt(2 * dimension) / 2)


def project_simplex(weights: Array, precision: Array) -> Array:
    """argmin (w - weights)^T P (w - weights) over probability vectors w, exactly; weights [..., d], precision [..., d, d] symmetric.

    P must be positive definite on 1-perp; along 1 it may be singular. Exact, because first-order methods stall on ill-conditioned P, and
    what they leave undone becomes regret at every later step.
    """
    d = weights.shape[-1]
    if precision.shape != (*weights.shape, d) or d == 0:
        expected = f"(..., d) and (..., d, d), got {weights.shape} and {precision.shape}"
        raise InvalidParameter(f"weights and precision must have shapes {expected}")
    scale = np.trace(precision, axis1=-2, axis2=-1)[..., None, None] / d**2
    eigenvalues = np.linalg.eigvalsh(precision + scale)
    if not (np.isfinite(weights).all() and (eigenvalues[..., 0] > 1e-15 * eigenvalues[..., -1]).all()):
        raise InvalidParameter("weights must be finite, and precision positive definite on the vectors that sum to zero")
    flat = np.ascontiguousarray(weights, dtype=float).reshape(-1, d)
    return _kernels.project(flat, np.ascontiguousarray(precision, dtype=float).reshape(-1, d, d)).reshape(weights.shape)
