"""The two sides of the seam: what a user may contribute, and what may leave.

`Bounded` is PRIVATE: it is made by the bound that clips, and hides its values in its repr. `Released` is PUBLIC: nothing noisy is
returned without the `Guarantee` that covers it.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Relation

Array = npt.NDArray[np.float64]


class Bound(Protocol):
    """A set that every single user's contribution is forced into, with the sensitivities that follow from it."""

    @property
    def size(self) -> int:
        """How many coordinates a contribution has."""

    @property
    def largest(self) -> float:
        """The largest absolute value a coordinate can have."""

    def sensitivity(self, relation: Relation) -> float:
        """The largest L2 distance between two neighbouring contributions."""

    def l1_sensitivity(self, relation: Relation) -> float:
        """The largest L1 distance between two neighbouring contributions."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounded:
    """The clipped contributions of `users` users, added up. PRIVATE."""

    values: Array = field(repr=False)
    bound: Bound
    users: int = 1

    def __add__(self, other: "Bounded") -> "Bounded":
        if self.bound != other.bound:
            raise InvalidParameter("contributions under different bounds cannot be added")
        return Bounded(self.values + other.values, self.bound, self.users + other.users)


@dataclass(frozen=True, slots=True)
class NoiseLevel:
    """The noise in a release: independent over the coordinates, each with this standard deviation. Public."""

    std: float
    distribution: str  # gaussian | laplace | none


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """PUBLIC: the prefix sum over the first `users` users, after noise. Planners accept this and nothing else."""

    values: Array
    noise: NoiseLevel
    guarantee: Guarantee
    users: int
    generation: int  # how many releases the stream has made, this one included


@dataclass(frozen=True, slots=True)
class L2Ball:
    """Vectors of `size` coordinates and L2 norm at most `radius`.

    Sensitivity: null: ||v - 0|| <= radius; replace: ||v - v'|| <= 2 radius, attained by v' = -v. In L1: sqrt(size) times as much.
    """

    radius: float
    size: int

    def __post_init__(self) -> None:
        if not (self.radius > 0 and math.isfinite(self.radius)):
            raise InvalidParameter(f"radius must be positive and finite, got radius={self.radius}")
        if self.size < 1:
            raise InvalidParameter(f"size must be at least 1, got size={self.size}")

    @property
    def largest(self) -> float:
        return self.radius

    def sensitivity(self, relation: Relation) -> float:
        return self.radius * (2 if relation is Relation.REPLACE else 1)

    def l1_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(self.size) * self.sensitivity(relation)

    def clip(self, values: Array) -> Bounded:
        """One user's vector, scaled into the ball; anything that is not finite contributes zero."""
        if np.shape(values) != (self.size,):
            raise InvalidParameter(f"a contribution must have shape ({self.size},), got {np.shape(values)}")
        return Bounded(clip_rows(np.asarray(values, dtype=float)[None], self.radius)[0], self)


def clip_rows(rows: Array, radius: float) -> Array:
    """Each row scaled to L2 norm at most `radius`; a row with a NaN or an infinity becomes zero.

    The scale is taken out before squaring, so that 1e300 neither overflows nor passes; and the test comes again after the
    scaling, because norm * (radius / norm) may round up by one unit in the last place.
    """
    finite = np.isfinite(rows).all(axis=-1, keepdims=True)
    rows = np.where(finite, rows, 0.0)
    largest = np.abs(rows).max(axis=-1, keepdims=True)
    unit = rows / np.where(largest > 0, largest, 1.0)
    norm = np.sqrt((unit * unit).sum(axis=-1, keepdims=True))
    outside = norm > radius / np.where(largest > 0, largest, 1.0)
    scaled = np.where(outside, unit * (radius / np.where(norm > 0, norm, 1.0)), rows)
    excess = np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True)) > radius
    return np.where(excess, scaled * (1 - 1e-15), scaled)
