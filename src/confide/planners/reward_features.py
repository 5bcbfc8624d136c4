"""Unknown rewards that are linear in known features. All of it is public.

r(s, a) = varphi(s, a).theta with ||varphi|| <= 1 and r in [0, 1]. The parameter is learned around a
public origin: theta = origin + theta'. A reward r at (s, a) gives the row varphi(s, a) with the
target y = r - offset(s, a), where offset = varphi.origin. The mean of the target is varphi.theta'.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RewardFeatures:
    """Features varphi as `rows` [s, a, j], and the `origin` [j] of the parameter.

    `raw_rewards` and `centred_rewards` make it.
    """

    rows: Array = field(repr=False)
    origin: Array = field(repr=False)

    @property
    def dimension(self) -> int:
        return int(self.rows.shape[-1])

    @property
    def offset(self) -> Array:
        """The reward at the origin [s, a]."""
        return np.asarray(self.rows @ self.origin)

    @property
    def largest(self) -> Array:
        """The largest |r - offset| [s, a] of a reward in [0, 1]."""
        return np.maximum(np.abs(self.offset), np.abs(1 - self.offset))

    @property
    def pattern(self) -> Array:
        """1 where some (s, a) has both features, and 0 elsewhere [j, j].

        Lambda is known to be zero where this is 0. With one-hot features this is everywhere off
        the diagonal.
        """
        sizes = np.abs(self.rows.reshape(-1, self.dimension))
        return np.asarray(sizes.T @ sizes > 0, dtype=float)


def raw_rewards(features: npt.ArrayLike) -> RewardFeatures:
    """Return the features with origin zero, as in the papers: the target is r in [0, 1]."""
    rows = np.ascontiguousarray(features, dtype=float)
    fits = rows.ndim == 3 and bool(np.isfinite(rows).all())
    # Norms may exceed one by rounding.
    if not fits or (np.linalg.norm(rows, axis=2) > 1 + 1e-9).any():
        raise InvalidParameter(
            "reward features must be finite, of shape (states, actions, j) and norm at most 1, "
            f"got {rows.shape}"
        )
    return RewardFeatures(rows, np.zeros(rows.shape[2]))


def centred_rewards(features: npt.ArrayLike) -> RewardFeatures:
    """Return the features with the origin whose rewards are closest to 1/2 everywhere.

    If a constant is linear in the features, as it is in one-hot features, then |y| <= 1/2.
    """
    rows = raw_rewards(features).rows
    flat = rows.reshape(-1, rows.shape[2])
    origin = np.linalg.lstsq(flat, np.full(len(flat), 0.5), rcond=None)[0]
    return RewardFeatures(rows, np.asarray(origin))
