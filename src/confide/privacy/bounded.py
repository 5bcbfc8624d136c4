"""The two sides of the interface: bounded contributions, and releases.

`Bounded` is PRIVATE: it is made by the bound that clips, and hides its values in its repr. `Released` is PUBLIC: nothing noisy is
returned without the `Guarantee` that covers it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import private_kind, real, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.privacy import _kernels
from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Relation, parse_relation

Array = npt.NDArray[np.float64]
# A value may exceed the bound by this share of it, because clips compute in floating point.
_ROUNDING = 1e-6
# what planning keeps from one release to the next, by name. Public
Memory = Mapping[str, npt.NDArray[Any]]


class Bound(Protocol):
    """A set that every single user's contribution is forced into, with the sensitivities that follow from it."""

    @property
    def size(self) -> int:
        """How many coordinates a contribution has."""

    @property
    def largest(self) -> float:
        """The largest absolute value a coordinate can have."""

    @property
    def grid(self) -> float:
        """A power of two: contributions are rounded to whole multiples of it."""

    @property
    def about(self) -> str:
        """What a contribution is, in words."""

    def identity(self) -> Identity:
        """Its kind and parameters: equal bounds have the same identity, and others another one."""

    def sensitivity(self, relation: Relation) -> float:
        """The largest L2 distance between two neighbouring contributions."""

    def l1_sensitivity(self, relation: Relation) -> float:
        """The largest L1 distance between two neighbouring contributions."""

    def contains(self, values: Array) -> bool:
        """Whether one user's contribution [size] is in the set, up to rounding: what no clip of this bound could yield is not.

        Where the set depends on a public table that the bound does not hold, only what the bound knows of it is checked.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Bounded:
    """The clipped contributions of `users` users, added up. PRIVATE.

    Every value is a whole multiple of the bound's grid, so that sums are exact in whatever order they are taken (up to 2^29 users), and
    the sensitivity of a sum is that of one contribution in floating point, too. A single user's values are checked against the bound's
    set; of a sum of many users only the largest value can be.
    """

    values: Array = field(repr=False)
    bound: Bound
    users: int = 1

    def __post_init__(self) -> None:
        try:
            values = np.array(self.values, dtype=float)  # a copy: nobody else can write into it
        except (TypeError, ValueError, OverflowError):  # whose text would quote the data
            raise InvalidParameter("a contribution must be an array of real numbers") from None
        if values.shape != (self.bound.size,):
            raise InvalidParameter(
                f"a contribution must have shape ({self.bound.size},), got {values.shape}"
            )
        if (
            isinstance(self.users, bool)
            or not isinstance(self.users, int | np.integer)
            or self.users < 0
        ):
            raise InvalidParameter("a contribution must be of a whole number of users")
        largest = _kernels.largest_on_grid(values, self.bound.grid)
        if largest < 0:
            raise InvalidParameter(
                "a contribution must come from the bound that clips it: its values are not on the bound's grid"
            )
        if largest > self.users * self.bound.largest * (1 + _ROUNDING):
            raise InvalidParameter(
                f"the values are too large for {self.users} users who were clipped by the bound"
            )
        # only code that forgot to clip gets here, whatever the data are
        if self.users == 1 and not self.bound.contains(values):
            raise InvalidParameter(
                "a user's contribution must come from the bound that clips it: it is not in the bound's set"
            )
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "users", int(self.users))

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """In whole steps of the bound's grid: sums of these are exact, in any order and in any language. PRIVATE."""
        return np.rint(self.values / self.bound.grid).astype(np.int64)

    def __add__(self, other: "Bounded") -> "Bounded":
        if self.bound != private_kind("other", other, Bounded).bound:
            raise InvalidParameter("contributions under different bounds cannot be added")
        return Bounded(self.values + other.values, self.bound, self.users + other.users)


def clip_sum(total: Array, bound: Bound, users: int) -> Bounded:
    """The sum of the contributions of `users` users, added up by somebody else. Its values are never a reason to raise.

    `Bounded` raises if a sum is too large, which is right where it shows a mistake in the code. Between
    a stored sum and its release it would be a leak, because then one person could decide whether there
    is a release. Here a sum that no `users` users can have is clipped instead.

    - A sum of contributions that were clipped by `bound` stays as it is: each coordinate is a whole
      number of grid steps, and at most `users` times the largest value. So an honest service loses
      nothing, and the sensitivity of what it releases is that of one contribution.
    - Other sums are clipped coordinate by coordinate. |clip(x) - clip(y)| <= |x - y| in every
      coordinate, so two sums are never further apart than before, in L1 or in L2.
    - One user's sum is either a contribution or zero. Both are in the bound's set.
    """
    values = real_numbers(total)
    if values.shape != (bound.size,):
        raise InvalidParameter.of("total", f"must have shape ({bound.size},), got {values.shape}")
    most = math.floor(
        whole("users", users, at_least=0) * bound.largest * (1 + _ROUNDING) / bound.grid
    )
    with np.errstate(all="ignore"):
        steps = np.trunc(np.where(np.isfinite(values), values, 0.0) / bound.grid)
    clipped = np.clip(steps, -most, most) * bound.grid
    if users == 1 and not bound.contains(clipped):
        clipped = np.zeros(bound.size)
    return Bounded(clipped, bound, users)


@dataclass(frozen=True, slots=True)
class NoiseLevel:
    """The noise in a release: uncorrelated over the coordinates, each with this standard deviation. Public.

    Gaussian and Laplace noise is independent; the coordinates of K-norm noise share a radius. Of codebook messages this is the mean over
    all coordinates.
    """

    std: float
    distribution: str  # gaussian | laplace | cube | ball | codebook | signs | none


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """PUBLIC: the prefix sum over the first `users` users, after noise. Planners accept this and nothing else."""

    values: Array
    noise: NoiseLevel
    guarantee: Guarantee
    users: int
    generation: int  # how many releases the stream has made, this one included
    memory: Memory = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class L2Ball:
    """Vectors of `size` coordinates and L2 norm at most `radius`.

    Sensitivity: null: ||v - 0|| <= radius; replace: ||v - v'|| <= 2 radius, attained by v' = -v. In L1: sqrt(size) times as much.
    Values are rounded towards zero, which keeps them in the ball.
    """

    radius: float
    size: int

    def __post_init__(self) -> None:
        if not 1e-100 < real("radius", self.radius) < 1e100:
            raise InvalidParameter.of("radius", "must be positive and finite", got=f"{self.radius}")
        whole("size", self.size, at_least=1)

    def identity(self) -> Identity:
        return Identity("l2-ball", 1, radius=self.radius, size=self.size)

    @property
    def largest(self) -> float:
        return self.radius

    @property
    def about(self) -> str:
        return f"a vector of norm at most {self.radius:g}"

    @property
    def grid(self) -> float:
        return grid_for(self.radius)

    def sensitivity(self, relation: Relation) -> float:
        return self.radius * (1 if parse_relation(relation) == Relation.NULL else 2)

    def l1_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(self.size) * self.sensitivity(relation)

    def contains(self, values: Array) -> bool:
        return float(np.linalg.norm(real_numbers(values))) <= self.radius * (1 + 1e-12)

    def clip(self, values: Array) -> Bounded:
        """One user's vector, scaled into the ball; anything that is not finite contributes zero."""
        vector = real_numbers(values)
        if vector.shape != (self.size,):
            raise InvalidParameter(
                f"a contribution must have shape ({self.size},), got {vector.shape}"
            )
        return Bounded(
            np.trunc(clip_rows(vector[None], self.radius)[0] / self.grid) * self.grid, self
        )


def clip_rows(rows: Array, radius: float) -> Array:
    """Each row scaled to L2 norm at most `radius` (up to rounding); a row with a NaN or an infinity becomes zero.

    The scale is taken out before squaring, so that 1e300 neither overflows nor passes.
    """
    with np.errstate(all="ignore"):  # what is printed must not depend on the data
        finite = np.isfinite(rows).all(axis=-1, keepdims=True)
        rows = np.where(finite, rows, 0.0)
        largest = np.abs(rows).max(axis=-1, keepdims=True)
        largest = np.where(largest > 0, largest, 1.0)
        unit = rows / largest
        norm = np.sqrt((unit * unit).sum(axis=-1, keepdims=True))
        scaled = unit * (radius * (1 - 1e-15) / np.where(norm > 0, norm, 1.0))
        clipped: Array = np.where(norm > radius / largest, scaled, rows)
    return clipped


def real_numbers(values: npt.ArrayLike) -> Array:
    """Private input as floats, element by element: what is no real number becomes NaN, which every clip turns into zero.

    Nothing is refused, and no element decides what becomes of another: one user's text, null, complex number or 2**64 changes the type of
    a whole array, so that a conversion by type would let one user decide whether, or how, a batch is counted. For the same reason a number
    that was written as text, as NumPy does to all neighbours of a text, is that number.
    """
    array = values if isinstance(values, np.ndarray) else _array(values)
    if array.dtype == np.float64:
        return array
    with np.errstate(all="ignore"):
        if array.dtype.kind in "biuf":
            return array.astype(float)
        if array.dtype.kind == "c":
            return np.where(array.imag == 0, array.real, math.nan).astype(float)
    if array.dtype.kind == "m":  # numbers beside a duration are counted in its unit
        return np.where(np.isnat(array), math.nan, array.view(np.int64))
    numbers = [_number(element) for element in array.ravel().tolist()]
    return np.array(numbers, dtype=float).reshape(array.shape)


def _array(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Lists: if not all of their elements are real numbers, each as it is, before NumPy gives them one type."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            return array
        return np.array(values, dtype=object)
    except (TypeError, ValueError, OverflowError):  # ragged: no rectangle of numbers
        raise InvalidParameter("a contribution must be a rectangular array") from None


def _number(element: Any) -> float:
    """One element as a float, NaN for what is no real number."""
    try:
        if isinstance(element, str | bytes):
            text = element.decode() if isinstance(element, bytes) else element
            return float(text == "True") if text in ("True", "False") else float(text)
        if isinstance(element, complex | np.complexfloating):
            return float(element.real) if element.imag == 0 else math.nan
        return (
            float(element)
            if isinstance(element, bool | int | float | np.bool_ | np.number)
            else math.nan
        )
    except (TypeError, ValueError, OverflowError):
        return math.nan


@lru_cache(maxsize=64)
def grid_for(largest: float) -> float:
    """2^-24 of the largest value, as a power of two: fine enough to cost nothing, coarse enough for 2^29 users to add up exactly."""
    return 2.0 ** (math.ceil(math.log2(largest)) - 24)
