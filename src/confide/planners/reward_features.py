"""Unknown rewards that are linear in known features, r(s, a) = varphi(s, a).theta with ||varphi|| <= 1 and r in [0, 1]. All public.

As for values, the parameter is learned around a public origin: theta = origin + theta', so that a reward r at (s, a) gives the row
varphi(s, a) with the target y = r - offset(s, a), offset = varphi.origin, whose mean is varphi.theta'.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RewardFeatures:
    """rows [s, a, j], origin [j]. Made by `raw_rewards` or `centred_rewards`."""

    rows: Array = field(repr=False)
    origin: Array = field(repr=False)

    @property
    def dimension(self) -> int:
        return int(self.rows.shape[-1])

    @property
    def offset(self) -> Array:
        """[s, a]"""
        return np.asarray(self.rows @ self.origin)

    @property
    def largest(self) -> Array:
        """Y(s, a), the largest |r - offset| of a reward in [0, 1]."""
        return np.maximum(np.abs(self.offset), np.abs(1 - self.offset))

    @property
    def pattern(self) -> Array:
        """[j, j]: 0 where no (s, a) has both features, so that Lambda is known to be zero there (one-hot: off the diagonal)."""
        size = np.abs(self.rows.reshape(-1, self.dimension))
        return np.asarray(size.T @ size > 0, dtype=float)


def raw_rewards(features: npt.ArrayLike) -> RewardFeatures:
    """The papers' rows: y = r in [0, 1]."""
    rows = np.ascontiguousarray(features, dtype=float)
    if (
        rows.ndim != 3
        or not np.isfinite(rows).all()
        or (np.linalg.norm(rows, axis=2) > 1 + 1e-9).any()
    ):
        raise InvalidParameter(
            f"reward features must be finite, of shape (states, actions, j) and norm at most 1, got {rows.shape}"
        )
    return RewardFeatures(rows, np.zeros(rows.shape[2]))


def centred_rewards(features: npt.ArrayLike) -> RewardFeatures:
    """The origin whose rewards are closest to 1/2 everywhere: |y| <= 1/2 if a constant is linear in the features, as for one-hot ones."""
    rows = raw_rewards(features).rows
    flat = rows.reshape(-1, rows.shape[2])
    return RewardFeatures(
        rows, np.asarray(np.linalg.lstsq(flat, np.full(len(flat), 0.5), rcond=None)[0])
    )
