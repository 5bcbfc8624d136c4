"""Regularized least squares on released statistics: estimates, widths and bonuses.

All of it is post-processing of releases. So privacy does not depend on any number in this file, as
long as no unreleased statistic enters: [Chowdhury21]'s width reads the exact Z^T Z, which is a
leak.

Lambda = sum X X^T and u = sum X y come with noise, so Lambda may have negative eigenvalues.
`least_squares` clips them at zero and adds a ridge of the size of the noise. The papers shift all
of Lambda by twice a bound on the noise ([Luyo21, Cor. 5]: 2 Upsilon).

A `Regularizer` [Zhou22, Alg. 1] decides with which positive definite matrix the system is solved,
and how wide the confidence set around the solution is. [Zhou22] solves with sum X X^T + Z and
sum X y + z. The regularizers Z (positive definite) and z may change with the episode and may be
noise, and their bounds (Assumption 2) enter the width. Here the noise is in the release already.

A regularizer of your own is a class with the methods of `Regularizer`, made for a `Regression`. It
sees released statistics and the level of their noise, and nothing else. `Regularity` is what a
proof needs to know of it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.planners import _regression_kernels as _kernels
from confide.planners.regularity import Regularity

Array = npt.NDArray[np.float64]


class Coordinates(Protocol):
    """An affine map w = origin + basis theta, by which the parameter theta stands for w.

    Shapes: origin [i], basis [i, m] with orthonormal columns.
    """

    @property
    def origin(self) -> Array: ...
    @property
    def basis(self) -> Array: ...


@dataclass(frozen=True, slots=True)
class Width:
    """The width factor R min(cap, sqrt(sampling x^T L^-1 x + noise ||L^-1 x||^2)) at a row x.

    R is the range of values, and L the precision. `sampling` is sigma^2, the variance of a target,
    and `noise` is the variance of the released noise along a unit vector.

    `tight_width` makes the default. The papers' beta sqrt(x^T L^-1 x) is
    Width(beta**2, 0.0, factor=1.0, cap=math.inf).
    """

    sampling: float
    noise: float
    factor: float = 0.1
    cap: float = 1.0

    def __post_init__(self) -> None:
        for name in ("sampling", "noise", "factor", "cap"):
            value = getattr(self, name)
            if not value >= 0:
                raise InvalidParameter.of(name, "must not be negative", got=f"{value}")


NO_BONUS = Width(0.0, 0.0, factor=0.0)


def tight_width(
    *, target_std: float, response_noise: float, gram_noise: float, factor: float = 0.1
) -> Width:
    """Return the width of an estimate from releases.

    It is c R min(1, sqrt(sigma^2 x^T L^-1 x + (s_u^2 + s_Lambda^2 / 4) ||L^-1 x||^2)). c is
    `factor`. sigma is `target_std`, which is at most 1/2 for values scaled to [0, 1]. s_u is
    `response_noise`. s_Lambda is `gram_noise`, that of a diagonal entry. v^T Z w of GOE noise Z
    with this diagonal has the variance s^2 (||v||^2 ||w||^2 + (v.w)^2) / 2, so 1/4 stands for
    ||w||^2 of about 1/2.
    """
    return Width(target_std**2, response_noise**2 + gram_noise**2 / 4, factor=factor)


def bonus(rows: Array, precision: Array, scale: float, width: Width) -> Array:
    """Return the bonus of each row x of rows [..., m], with precision L [m, m] and R = `scale`."""
    m = rows.shape[-1]
    if precision.shape != (m, m):
        raise InvalidParameter.of(
            "precision", f"must have shape ({m}, {m}) to fit the rows, got {precision.shape}"
        )
    flat = np.ascontiguousarray(rows, dtype=float).reshape(-1, m)
    inverse = np.asarray(np.linalg.inv(precision), dtype=float)
    return _kernels.bonus(flat, inverse, float(scale), parameters(width)).reshape(rows.shape[:-1])


def parameters(width: Width) -> tuple[float, float, float, float]:
    """Return the numbers of a width as compiled loops take them."""
    return float(width.sampling), float(width.noise), float(width.factor), float(width.cap)


@dataclass(frozen=True, slots=True, eq=False)
class RegressionEstimate:
    """What releases say about the parameter of a regression. Public.

    Shapes: weights [..., m], precision [..., m, m]. The precision is the repaired Lambda plus the
    ridge, so it is positive definite.
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
    coordinates: Coordinates | None = None,
) -> RegressionEstimate:
    """Return theta = P^-1 u with P = (Lambda)_+ + rho I, from Lambda [..., m, m] and u [..., m].

    GOE noise with diagonal N(0, noise_std^2) has a spectral norm of about noise_std sqrt(2m). rho
    is `ridge` times half of that, and at least `floor`, which is in the units of ||X||^2. Good
    values of `ridge` are 0.3 to 1.0 (measured).

    With `simplex` the estimate is the probability vector closest to P^-1 u in the norm of P. This
    is exactly the constrained least-squares solution. With `coordinates` the constraint is on the
    weights that theta stands for.
    """
    m = u.shape[-1]
    if Lambda.shape != (*u.shape, m) or m == 0:
        raise InvalidParameter(
            "Lambda and u must have shapes (..., m, m) and (..., m), "
            f"got {Lambda.shape} and {u.shape}"
        )
    rho = ridge_size(m, noise_std=noise_std, ridge=ridge, floor=floor)
    matrices = np.ascontiguousarray(Lambda, dtype=float).reshape(-1, m, m)
    vectors = np.ascontiguousarray(u, dtype=float).reshape(-1, m)
    if simplex:
        origin = np.zeros(m) if coordinates is None else coordinates.origin
        basis = np.eye(m) if coordinates is None else coordinates.basis
        theta, precision = _kernels.solve_on_simplex(matrices, vectors, rho, origin, basis)
    else:
        theta, precision = _kernels.solve_repaired(matrices, vectors, rho)
    return RegressionEstimate(theta.reshape(u.shape), precision.reshape(Lambda.shape))


def optimistic_values(
    Lambda: Array,
    u: Array,
    rows: Array,
    *,
    noise_std: float,
    ridge: float,
    sampling: float,
    noise: float,
) -> tuple[Array, Array]:
    """Return values and standard errors [...] of rows [..., m].

    The estimate is the one that `least_squares` makes of Lambda [m, m] and u [m].
    """
    m = len(u)
    flat = np.ascontiguousarray(rows, dtype=float).reshape(-1, m)
    matrix = np.ascontiguousarray(Lambda, dtype=float)
    vector = np.ascontiguousarray(u, dtype=float)
    rho = ridge_size(m, noise_std=noise_std, ridge=ridge)
    value, error = _kernels.optimistic_values(matrix, vector, rho, flat, sampling, noise)
    return value.reshape(rows.shape[:-1]), error.reshape(rows.shape[:-1])


def mean_eigenvalue(Lambda: Array) -> float:
    """Return the mean eigenvalue of all matrices [n, m, m]: what stands against the noise."""
    return _kernels.mean_diagonal(Lambda)


def ridge_size(
    dimension: int, *, noise_std: float, ridge: float = 0.5, floor: float = 1.0
) -> float:
    """Return rho = max(floor, ridge s sqrt(2m) / 2) for m = `dimension` and s = `noise_std`."""
    if not 0 <= noise_std < math.inf:
        raise InvalidParameter.of(
            "noise_std", "must be finite and not negative", got=f"{noise_std}"
        )
    if not 0 <= ridge < math.inf:
        raise InvalidParameter.of("ridge", "must be finite and not negative", got=f"{ridge}")
    if not 0 < floor < math.inf:
        raise InvalidParameter.of("floor", "must be positive", got=f"{floor}")
    return max(floor, ridge * noise_std * math.sqrt(2 * dimension) / 2)


def project_simplex(weights: Array, precision: Array) -> Array:
    """Return the minimum of (w - weights)^T P (w - weights) over probability vectors w.

    Shapes: weights [..., d], precision P [..., d, d], which is symmetric. P must be positive
    definite on the vectors that sum to zero, and may be singular along 1.

    The minimum is exact. First-order methods stall if P is ill-conditioned, and what they leave
    undone becomes regret at every later step.
    """
    d = weights.shape[-1]
    if precision.shape != (*weights.shape, d) or d == 0:
        expected = f"(..., d) and (..., d, d), got {weights.shape} and {precision.shape}"
        raise InvalidParameter(f"weights and precision must have shapes {expected}")
    scale = np.trace(precision, axis1=-2, axis2=-1)[..., None, None] / d**2
    eigenvalues = np.linalg.eigvalsh(precision + scale)
    is_definite = (eigenvalues[..., 0] > 1e-15 * eigenvalues[..., -1]).all()
    if not (np.isfinite(weights).all() and is_definite):
        raise InvalidParameter.of(
            "weights",
            "must be finite, and precision positive definite on the vectors that sum to zero",
        )
    vectors = np.ascontiguousarray(weights, dtype=float).reshape(-1, d)
    matrices = np.ascontiguousarray(precision, dtype=float).reshape(-1, d, d)
    return _kernels.project(vectors, matrices).reshape(weights.shape)


class Regularizer(Protocol):
    """What stands between a release and a plan."""

    def estimate(self, Lambda: Array, u: Array, *, noise_std: float) -> RegressionEstimate:
        """Estimate from Lambda [h, m, m] and u [h, m].

        `noise_std` is that of a diagonal entry of Lambda.
        """

    def width(self, *, noise_std: float) -> Width:
        """Return how much is added for what is not known yet, in the coordinates of the rows."""

    def describe(self, rows: tuple[int, float]) -> str:
        """Say in words what it does, for rows of this dimension and largest norm."""


@dataclass(frozen=True, slots=True)
class Regression:
    """What a regularizer may know of its regression y = X.theta + noise, X in R^dimension.

    - `name` is "transitions" or "rewards".
    - `balance` is kappa: u carries noise of the standard deviation noise_std / kappa.
    - `simplex` are the coordinates of mixture weights, if theta stands for some.
    """

    name: str
    dimension: int
    balance: float
    simplex: Coordinates | None = None


MakeRegularizer = Callable[[Regression], Regularizer]


@dataclass(frozen=True, slots=True)
class Repair:
    """Eigenvalues clipped at zero, and a ridge of the size of the noise.

    If the weights are known to lie on the simplex, the estimate lies on it, too. No regret is
    proved for this regularizer. The default numbers were chosen by measurement. `balance` and
    `simplex` are those of `Regression`. `simplex` is None if the weights are not on the simplex.
    """

    balance: float
    bonus_scale: float = 0.1
    ridge: float = 0.5
    target_std: float = 1.0
    simplex: Coordinates | None = None

    def __post_init__(self) -> None:
        if not self.bonus_scale >= 0:
            raise InvalidParameter.of(
                "bonus_scale", "must not be negative", got=f"{self.bonus_scale}"
            )

    def estimate(self, Lambda: Array, u: Array, *, noise_std: float) -> RegressionEstimate:
        on_simplex = self.simplex is not None
        return least_squares(
            Lambda,
            u,
            noise_std=noise_std,
            ridge=self.ridge,
            simplex=on_simplex,
            coordinates=self.simplex,
        )

    def width(self, *, noise_std: float) -> Width:
        noise = noise_std / self.balance
        return tight_width(
            target_std=self.target_std,
            response_noise=noise,
            gram_noise=noise_std,
            factor=self.bonus_scale,
        )

    def describe(self, rows: tuple[int, float]) -> str:  # noqa: ARG002 - the same for all rows
        ridge = f"eigenvalues clipped at 0, ridge {self.ridge / 2:g} x the norm of the noise"
        return f"{ridge}; bonus {self.bonus_scale:g} x the standard error"


@dataclass(frozen=True, slots=True)
class Shift:
    """The regularizer of the papers: Lambda + shift I, and the width beta that is proved for it.

    The shift outweighs the noise with high probability.
    """

    shift: float
    beta: float

    def estimate(
        self,
        Lambda: Array,
        u: Array,
        *,
        noise_std: float,  # noqa: ARG002
    ) -> RegressionEstimate:
        m = u.shape[-1]
        eigenvalues, vectors = np.linalg.eigh(Lambda + self.shift * np.eye(m))
        # With probability 1 - failure nothing is changed here.
        positive = np.maximum(eigenvalues, 1e-12 * self.shift)
        transposed = vectors.swapaxes(-1, -2)
        precision = (vectors * positive[..., None, :]) @ transposed
        weights = (vectors @ ((transposed @ u[..., None]) / positive[..., None]))[..., 0]
        return RegressionEstimate(weights, precision)

    def width(self, *, noise_std: float) -> Width:  # noqa: ARG002 - proved for the shift
        return Width(self.beta**2, 0.0, factor=1.0, cap=np.inf)

    def describe(self, rows: tuple[int, float]) -> str:
        dimension, norm = rows
        # The rows of k users give eigenvalues of k norm^2 / dimension at best.
        users = self.shift * dimension / norm**2
        return (
            f"Lambda + {self.shift:.3g} I, which takes {users:,.0f} users at best to outweigh; "
            f"proved width beta = {self.beta:.3g}"
        )


@dataclass(frozen=True, slots=True)
class Proven:
    """A shift and a width that are proved for released noise: Gaussian (GOE on Lambda) or none.

    With probability 1 - failure, for all releases and problems together,

        ||noise on Lambda|| <= S = std (sqrt(2 m) + t)
        ||noise on u|| <= N = std / balance (sqrt(m) + t)

    where m is the dimension and t^2 = 2 log(8 problems releases / failure). This follows from E
    ||GOE|| <= sqrt(2 m) std by Gaussian concentration. So Lambda + (2 S + 1) I has a regularizer
    between S + 1 and 3 S + 1 [Zhou22, Assumption 2] with nu = N / sqrt(S + 1). Lemma 3.1 with half
    of the failure probability gives the width, for rows of norm at most one, targets in a range of
    length `span`, and ||theta|| <= `parameter_norm`. The ridge of one also outweighs the rounding
    of contributions to their grid. `problems` is the number of regressions, one for each step.
    """

    dimension: int
    balance: float
    span: float
    parameter_norm: float
    episodes: int
    problems: int
    releases: int
    failure: float

    def _noise(self, std: float) -> tuple[float, float]:
        """Return S and N."""
        t = math.sqrt(2 * math.log(8 * self.problems * self.releases / self.failure))
        m = self.dimension
        return std * (math.sqrt(2 * m) + t), std / self.balance * (math.sqrt(m) + t)

    def estimate(self, Lambda: Array, u: Array, *, noise_std: float) -> RegressionEstimate:
        return Shift(2 * self._noise(noise_std)[0] + 1.0, 0.0).estimate(
            Lambda, u, noise_std=noise_std
        )

    def beta(self, noise_std: float) -> float:
        S, N = self._noise(noise_std)
        return Regularity(S + 1.0, 3 * S + 1.0, N / math.sqrt(S + 1.0)).beta(
            episodes=self.episodes,
            horizon=self.problems,
            dimension=self.dimension,
            row_norm=1.0,
            span=self.span,
            parameter_norm=self.parameter_norm,
            failure=self.failure / 2,
        )

    def width(self, *, noise_std: float) -> Width:
        return Width(self.beta(noise_std) ** 2, 0.0, factor=1.0, cap=np.inf)

    def describe(self, rows: tuple[int, float]) -> str:  # noqa: ARG002 - the same for all rows
        return (
            "a shift that outweighs the released noise, and a proved width: "
            f"at least {self.beta(0.0):.3g}, without noise"
        )
