"""From noisy statistics to an estimate and a width: the changing regularizers of [Zhou22, Alg. 1], as a seam. All post-processing.

[Zhou22] solve with Lambda + H_k and u + h_k, where the regularizers H_k, h_k may be anything (noise included) whose size is bounded, and
the bound enters the width. Here the noise is in the release already, and a `Regularizer` decides what is done about it: which positive
definite matrix is solved with, and how wide the confidence set around the solution is. A regularizer of one's own is a class with two
methods, made for a `Regression`; it sees released statistics and the level of their noise, and nothing else. `Regularity` is what a proof
needs to know of it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.planners.bonus import Width, tight
from confide.planners.least_squares import Estimate, least_squares
from confide.planners.value_features import FeatureMap

Array = npt.NDArray[np.float64]


class Regularizer(Protocol):
    """What stands between a release and a plan."""

    def estimate(self, Lambda: Array, u: Array, *, noise_std: float) -> Estimate:
        """From Lambda [h, m, m] and u [h, m]; noise_std is that of a diagonal entry of Lambda."""

    def width(self, *, noise_std: float) -> Width:
        """How much is added for what is not known yet, in the coordinates of the rows."""


@dataclass(frozen=True, slots=True)
class Regression:
    """What a regularizer may know of the regression it is made for: X in R^dimension, y = X.theta + noise."""

    name: str  # transitions | rewards
    dimension: int
    balance: float  # kappa: u carries noise_std / kappa
    simplex: FeatureMap | None = None  # the coordinates of mixture weights, where theta stands for some


MakeRegularizer = Callable[[Regression], Regularizer]


@dataclass(frozen=True, slots=True)
class Regularity:
    """[Zhou22, Assumption 2]: lambda_min I <= Z <= lambda_max I and ||z||_{Z^-1} <= nu, for all episodes and steps with probability
    1 - failure, where Z = Lambda - sum X X^T and z = u - sum X y are all that a regularizer and the noise added to the exact sums."""

    lambda_min: float
    lambda_max: float
    nu: float

    def __post_init__(self) -> None:
        if not (0 < self.lambda_min <= self.lambda_max and self.nu >= 0):
            raise InvalidParameter(f"0 < lambda_min <= lambda_max and nu >= 0 must hold, got {self}")

    def beta(
        self, *, episodes: int, horizon: int, dimension: int, row_norm: float, span: float, parameter_norm: float, failure: float
    ) -> float:
        """The width of [Zhou22, Lemma 3.1]: ||theta - theta_hat||_Lambda <= beta, for targets in a range of length `span`."""
        K, H, d, L, alpha = episodes, horizon, dimension, row_norm, failure
        log_det = d * math.log1p(K * L**2 / (d * self.lambda_min))
        return span / 2 * math.sqrt(2 * math.log(H / alpha) + log_det) + parameter_norm * math.sqrt(self.lambda_max) + self.nu


@dataclass(frozen=True, slots=True)
class Repair:
    """Eigenvalues clipped at zero, a ridge of the size of the noise, and the simplex where the weights are known to lie on it.

    No regret is proved for it; it is what works. `balance` is the bound's kappa: u carries noise_std / kappa.
    """

    balance: float
    bonus_scale: float = 0.1
    ridge: float = 0.5
    target_std: float = 1.0
    simplex: FeatureMap | None = None  # the coordinates of mixture weights; None if they are not on the simplex

    def __post_init__(self) -> None:
        if not self.bonus_scale >= 0:
            raise InvalidParameter(f"bonus_scale must not be negative, got bonus_scale={self.bonus_scale}")

    def estimate(self, Lambda: Array, u: Array, *, noise_std: float) -> Estimate:
        on_simplex = self.simplex is not None
        return least_squares(Lambda, u, noise_std=noise_std, ridge=self.ridge, simplex=on_simplex, feature_map=self.simplex)

    def width(self, *, noise_std: float) -> Width:
        noise = noise_std / self.balance
        return tight(target_std=self.target_std, response_noise=noise, gram_noise=noise_std, factor=self.bonus_scale)


@dataclass(frozen=True, slots=True)
class Shift:
    """The papers': Lambda + shift I, where the shift outweighs the noise with high probability, and the width beta proved for it."""

    shift: float
    beta: float

    def estimate(self, Lambda: Array, u: Array, *, noise_std: float) -> Estimate:  # noqa: ARG002 - the shift was chosen before
        m = u.shape[-1]
        eigenvalues, vectors = np.linalg.eigh(Lambda + self.shift * np.eye(m))
        positive = np.maximum(eigenvalues, 1e-12 * self.shift)  # with probability 1 - failure nothing is changed here
        transposed = vectors.swapaxes(-1, -2)
        precision = (vectors * positive[..., None, :]) @ transposed
        weights = (vectors @ ((transposed @ u[..., None]) / positive[..., None]))[..., 0]
        return Estimate(weights, precision)

    def width(self, *, noise_std: float) -> Width:  # noqa: ARG002 - proved for the shift
        return Width(self.beta**2, 0.0, factor=1.0, cap=np.inf)
