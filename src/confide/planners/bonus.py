"""How much is added for what is not known yet: functions of public quantities only. Privacy does not depend on the bonus.

No unreleased statistic may enter a bonus: [Chowdhury21]'s width reads the exact Z^T Z, which is a leak.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.planners import _kernels

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Width:
    """factor R min(cap, sqrt(sampling x^T L^-1 x + noise ||L^-1 x||^2)), in units where values have the range R.

    `tight` makes the one that works; the papers' beta sqrt(x^T L^-1 x) is Width(beta**2, 0.0, factor=1.0, cap=math.inf).
    """

    sampling: float  # sigma^2: the variance of a target
    noise: float  # the variance of the released noise along a unit vector
    factor: float = 0.1
    cap: float = 1.0

    def __post_init__(self) -> None:
        if self.sampling >= 0 and self.noise >= 0 and self.factor >= 0 and self.cap >= 0:
            return
        name = next(name for name in ("sampling", "noise", "factor", "cap") if not getattr(self, name) >= 0)
        raise InvalidParameter(f"{name} must not be negative, got {name}={getattr(self, name)}")


NO_BONUS = Width(0.0, 0.0, factor=0.0)


def tight(*, target_std: float, response_noise: float, gram_noise: float, factor: float = 0.1) -> Width:
    """c R min(1, sqrt(sigma^2 x^T L^-1 x + (s_u^2 + s_Lambda^2 / 4) ||L^-1 x||^2)).

    sigma = `target_std` (at most 1/2 for values scaled to [0, 1]), s_u = `response_noise`, s_Lambda = `gram_noise` (of a diagonal entry):
    v^T Z w of GOE noise Z with that diagonal has variance s^2 (||v||^2 ||w||^2 + (v.w)^2) / 2, so 1/4 stands for ||w||^2 about 1/2.
    """
    return Width(target_std**2, response_noise**2 + gram_noise**2 / 4, factor=factor)


def bonus(rows: Array, precision: Array, scale: float, width: Width) -> Array:
    """The bonus of each row x of rows [..., m], with precision L [m, m] and R = `scale`."""
    m = rows.shape[-1]
    if precision.shape != (m, m):
        raise InvalidParameter(f"precision must have shape ({m}, {m}) to fit the rows, got {precision.shape}")
    flat = np.ascontiguousarray(rows, dtype=float).reshape(-1, m)
    inverse = np.asarray(np.linalg.inv(precision), dtype=float)
    return _kernels.bonus(flat, inverse, float(scale), parameters(width)).reshape(rows.shape[:-1])


def parameters(width: Width) -> tuple[float, float, float, float]:
    """As the compiled loops want them."""
    return float(width.sampling), float(width.noise), float(width.factor), float(width.cap)
