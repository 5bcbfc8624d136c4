"""What a proof needs to know about a regularizer and the noise. Public."""

import math
from dataclasses import dataclass

from confide.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Regularity:
    """[Zhou22, Assumption 2]: lambda_min I <= Z <= lambda_max I and ||z||_{Z^-1} <= nu.

    This holds for all episodes and steps with probability 1 - failure. Z = Lambda - sum X X^T and
    z = u - sum X y are what a regularizer and the noise added to the exact sums.
    """

    lambda_min: float
    lambda_max: float
    nu: float

    def __post_init__(self) -> None:
        if not (0 < self.lambda_min <= self.lambda_max and self.nu >= 0):
            raise InvalidParameter(
                f"0 < lambda_min <= lambda_max and nu >= 0 must hold, got {self}"
            )

    def beta(
        self,
        *,
        episodes: int,
        horizon: int,
        dimension: int,
        row_norm: float,
        span: float,
        parameter_norm: float,
        failure: float,
    ) -> float:
        """Return the width of [Zhou22, Lemma 3.1]: ||theta - theta_hat||_Lambda <= beta.

        It is for targets in a range of length `span`.
        """
        largest_growth = episodes * row_norm**2 / (dimension * self.lambda_min)
        log_det = dimension * math.log1p(largest_growth)
        return (
            span / 2 * math.sqrt(2 * math.log(horizon / failure) + log_det)
            + parameter_norm * math.sqrt(self.lambda_max)
            + self.nu
        )
