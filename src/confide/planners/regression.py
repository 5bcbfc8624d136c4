"""Regularised least squares on released statistics: estimates, widths and bonuses. All post-processing.

Lambda = sum X X^T and u = sum X y come with noise, so Lambda may have negative eigenvalues. `least_squares` clips them at zero and adds a
ridge of the size of the noise; the papers shift all of Lambda by twice a bound on the noise ([Luyo21, Cor. 5]: 2 Upsilon).

A `Regularizer` [Zhou22, Alg. 1] decides which positive definite matrix is solved with, and how wide the confidence set around the solution
is. [Zhou22] solves with sum X X^T + Z and sum X y + z, where the regularizers Z (positive definite) and z may change with the episode and
may be noise. Their bounds (Assumption 2) enter the width. Here the noise is in the release already. A regularizer of your own is a class
with the methods of `Regularizer`, made for a `Regression`; it sees released statistics and the level of their noise, and nothing else.
`Regularity` is what a proof needs to know of it.

Bonuses are functions of public quantities only, and privacy does not depend on them. No unreleased statistic may enter a bonus:
[Chowdhury21]'s width reads the exact Z^T Z, which is a leak.
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
    """An affine map w = origin + basis theta, origin [i], basis [i, m] with orthonormal columns: the parameter theta stands for w."""

    @property
    def origin(self) -> Array: ...
    @property
    def basis(self) -> Array: ...


@dataclass(frozen=True, slots=True)
class Width:
    """factor R min(cap, sqrt(sampling x^T L^-1 x + noise ||L^-1 x||^2)), in units where values have the range R.

    `tight_width` makes the default; the papers' beta sqrt(x^T L^-1 x) is Width(beta**2, 0.0, factor=1.0, cap=math.inf).
    """

    sampling: float  # sigma^2: the variance of a target
    noise: float  # the variance of the released noise along a unit vector
    factor: float = 0.1
    cap: float = 1.0

    def __post_init__(self) -> None:
        if self.sampling >= 0 and self.noise >= 0 and self.factor >= 0 and self.cap >= 0:
            return
        name = next(
            name for name in ("sampling", "noise", "factor", "cap") if not getattr(self, name) >= 0
        )
        raise InvalidParameter.of(name, "must not be negative", got=f"{getattr(self, name)}")


NO_BONUS = Width(0.0, 0.0, factor=0.0)


def tight_width(
    *, target_std: float, response_noise: float, gram_noise: float, factor: float = 0.1
) -> Width:
    """c R min(1, sqrt(sigma^2 x^T L^-1 x + (s_u^2 + s_Lambda^2 / 4) ||L^-1 x||^2)).

    sigma = `target_std` (at most 1/2 for values scaled to [0, 1]), s_u = `response_noise`, s_Lambda = `gram_noise` (of a diagonal entry):
    v^T Z w of GOE noise Z with that diagonal has variance s^2 (||v||^2 ||w||^2 + (v.w)^2) / 2, so 1/4 stands for ||w||^2 about 1/2.
    """
    return Width(target_std**2, response_noise**2 + gram_noise**2 / 4, factor=factor)


def bonus(rows: Array, precision: Array, scale: float, width: Width) -> Array:
    """The bonus of each row x of rows [..., m], with precision L [m, m] and R = `scale`."""
    m = rows.shape[-1]
    if precision.shape != (m, m):
        raise InvalidParameter.of(
            "precision", f"must have shape ({m}, {m}) to fit the rows, got {precision.shape}"
        )
    flat = np.ascontiguousarray(rows, dtype=float).reshape(-1, m)
    inverse = np.asarray(np.linalg.inv(precision), dtype=float)
    return _kernels.bonus(flat, inverse, float(scale), parameters(width)).reshape(rows.shape[:-1])


def parameters(width: Width) -> tuple[float, float, float, float]:
    """As the compiled loops want them."""
    return float(width.sampling), float(width.noise), float(width.factor), float(width.cap)


@dataclass(frozen=True, slots=True, eq=False)
class RegressionEstimate:
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
    coordinates: Coordinates | None = None,
) -> RegressionEstimate:
    """theta = P^-1 u with P = (Lambda)_+ + rho I, from Lambda [..., m, m] and u [..., m].

    GOE noise with diagonal N(0, noise_std^2) has spectral norm about noise_std sqrt(2m); rho is `ridge` times half of that, at least
    `floor` (which is in the units of ||X||^2). 0.3 to 1.0 are good values of `ridge`.

    With `simplex` the estimate is the probability vector closest to P^-1 u in the norm of P, exactly: the constrained least squares
    solution. With `coordinates` the constraint is on the weights that theta stands for.
    """
    m = u.shape[-1]
    if Lambda.shape != (*u.shape, m) or m == 0:
        raise InvalidParameter(
            f"Lambda and u must have shapes (..., m, m) and (..., m), got {Lambda.shape} and {u.shape}"
        )
    rho = ridge_size(m, noise_std=noise_std, ridge=ridge, floor=floor)
    matrices, vectors = (
        np.ascontiguousarray(Lambda, dtype=float).reshape(-1, m, m),
        np.ascontiguousarray(u, dtype=float).reshape(-1, m),
    )
    if simplex:
        origin, basis = (
            (np.zeros(m), np.eye(m))
            if coordinates is None
            else (coordinates.origin, coordinates.basis)
        )
        theta, precision = _kernels.repaired_on_simplex(matrices, vectors, rho, origin, basis)
    else:
        theta, precision = _kernels.repaired(matrices, vectors, rho)
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


def ridge_size(
    dimension: int, *, noise_std: float, ridge: float = 0.5, floor: float = 1.0
) -> float:
    """rho = max(floor, ridge s sqrt(2m) / 2)."""
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
    if not (
        np.isfinite(weights).all() and (eigenvalues[..., 0] > 1e-15 * eigenvalues[..., -1]).all()
    ):
        raise InvalidParameter.of(
            "weights",
            "must be finite, and precision positive definite on the vectors that sum to zero",
        )
    flat = np.ascontiguousarray(weights, dtype=float).reshape(-1, d)
    return _kernels.project(
        flat, np.ascontiguousarray(precision, dtype=float).reshape(-1, d, d)
    ).reshape(weights.shape)


class Regularizer(Protocol):
    """What stands between a release and a plan."""

    def estimate(self, Lambda: Array, u: Array, *, noise_std: float) -> RegressionEstimate:
        """From Lambda [h, m, m] and u [h, m]; noise_std is that of a diagonal entry of Lambda."""

    def width(self, *, noise_std: float) -> Width:
        """How much is added for what is not known yet, in the coordinates of the rows."""

    def describe(self, rows: tuple[int, float]) -> str:
        """In words, for rows of this dimension and largest norm."""


@dataclass(frozen=True, slots=True)
class Regression:
    """What a regularizer may know of the regression it is made for: X in R^dimension, y = X.theta + noise."""

    name: str  # transitions | rewards
    dimension: int
    balance: float  # kappa: u carries noise_std / kappa
    # the coordinates of mixture weights, where theta stands for some
    simplex: Coordinates | None = None


MakeRegularizer = Callable[[Regression], Regularizer]


@dataclass(frozen=True, slots=True)
class Repair:
    """Eigenvalues clipped at zero, a ridge of the size of the noise, and the simplex where the weights are known to lie on it.

    No regret is proved for it; it is what works. `balance` is the bound's kappa: u carries noise_std / kappa.
    """

    balance: float
    bonus_scale: float = 0.1
    ridge: float = 0.5
    target_std: float = 1.0
    # the coordinates of mixture weights; None if they are not on the simplex
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
    """The papers': Lambda + shift I, where the shift outweighs the noise with high probability, and the width beta proved for it."""

    shift: float
    beta: float

    def estimate(self, Lambda: Array, u: Array, *, noise_std: float) -> RegressionEstimate:  # noqa: ARG002 - the shift was chosen before
        m = u.shape[-1]
        eigenvalues, vectors = np.linalg.eigh(Lambda + self.shift * np.eye(m))
        # with probability 1 - failure nothing is changed here
        positive = np.maximum(eigenvalues, 1e-12 * self.shift)
        transposed = vectors.swapaxes(-1, -2)
        precision = (vectors * positive[..., None, :]) @ transposed
        weights = (vectors @ ((transposed @ u[..., None]) / positive[..., None]))[..., 0]
        return RegressionEstimate(weights, precision)

    def width(self, *, noise_std: float) -> Width:  # noqa: ARG002 - proved for the shift
        return Width(self.beta**2, 0.0, factor=1.0, cap=np.inf)

    def describe(self, rows: tuple[int, float]) -> str:
        # k users' rows give eigenvalues k L^2 / m at best
        users = self.shift * rows[0] / rows[1] ** 2
        return f"Lambda + {self.shift:.3g} I, which takes {users:,.0f} users at best to outweigh; proved width beta = {self.beta:.3g}"


@dataclass(frozen=True, slots=True)
class Proven:
    """A shift and a width that are proved for the noise that was released, Gaussian (GOE on Lambda) or none.

    For all releases and problems together, with probability 1 - failure: ||noise on Lambda|| <= S = std (sqrt(2 m) + t) and ||noise on
    u|| <= N = std / balance (sqrt(m) + t), t^2 = 2 log(8 problems releases / failure) (E ||GOE|| <= sqrt(2 m) std, by Gaussian
    concentration). So Lambda + (2 S + 1) I has a regularizer between S + 1 and 3 S + 1 [Zhou22, Assumption 2], nu = N / sqrt(S + 1), and
    Lemma 3.1 with half of the failure probability gives the width: rows of norm at most one, targets in a range of length `span`,
    ||theta|| <= `parameter_norm`. The ridge of one also outweighs the rounding of contributions to their grid.
    """

    dimension: int
    balance: float
    span: float
    parameter_norm: float
    episodes: int
    problems: int  # regressions, one for each step
    releases: int
    failure: float

    def _noise(self, std: float) -> tuple[float, float]:
        """S and N."""
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
        return f"a shift that outweighs the released noise, and a proved width: at least {self.beta(0.0):.3g}, without noise"
