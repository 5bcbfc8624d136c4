"""The two sides of the interface: bounded contributions, which are private, and releases.

`Bounded` is PRIVATE. The bound that clips a user's data makes it, and its repr hides the values.
`Released` is PUBLIC. Nothing noisy is returned without the `Guarantee` that covers it.

A bound leaves this file as its `identity` (in ledger ids, saved states and certificates). The kind
"l2-ball" and the names of its values are part of these and must stay. The clips and `real_numbers`
meet raw data: no value may ever make them raise an error, print or warn.
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
# Sensitivities do not depend on it. Taste: clips err by about 1e-15.
_ROUNDING = 1e-6
# A contribution in `L2Ball.contains` may be longer than the radius by this share. Taste, as above.
_ROUNDING_OF_NORM = 1e-12
# How far inside of the ball a scaled vector ends. Required for privacy: a norm in floating point is
# off by a few 1e-16, and the rounding towards zero that follows does the rest.
_SAFE_SHARE = 1 - 1e-15
# What planning keeps from one release to the next, by name. Public.
Memory = Mapping[str, npt.NDArray[Any]]


class Bound(Protocol):
    """A set that every single user's contribution is forced into, with its sensitivities.

    Both sensitivities are required for privacy. The docstring of each bound proves them, and
    `tests/conformance/test_bounds.py` searches for neighbours that are farther apart.
    """

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
        """The kind and the parameters. Equal bounds have the same identity, and others do not."""

    def sensitivity(self, relation: Relation) -> float:
        """The largest L2 distance between two neighbouring contributions."""

    def l1_sensitivity(self, relation: Relation) -> float:
        """The largest L1 distance between two neighbouring contributions."""

    def contains(self, values: Array) -> bool:
        """Whether one user's contribution [size] is in the set, up to rounding.

        It is not if no clip of this bound could yield it. If the set depends on a public table that
        the bound does not hold, only the part that the bound holds is checked.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Bounded:
    """The clipped contributions of `users` users, added up. PRIVATE.

    Every value is a whole multiple of the bound's grid. So sums are exact in whatever order they
    are taken (up to 2^29 users), and the sensitivity of a sum is that of one contribution in
    floating point, too. A single user's values are checked against the bound's set. Of a sum of
    many users only the largest value can be checked.

    These checks find mistakes in the code. Data that were clipped never fail them.

    Shapes: values [coordinate].
    """

    values: Array = field(repr=False)
    bound: Bound
    users: int = 1

    def __post_init__(self) -> None:
        try:
            # A copy, so that nobody else can write into it.
            values = np.array(self.values, dtype=float)
        except (TypeError, ValueError, OverflowError):
            # The text of NumPy's error would quote the data.
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
                "a contribution must come from the bound that clips it: "
                "its values are not on the bound's grid"
            )
        if largest > self.users * self.bound.largest * (1 + _ROUNDING):
            raise InvalidParameter(
                f"the values are too large for {self.users} users who were clipped by the bound"
            )
        # Whatever the data are, only code that forgot to clip gets here.
        if self.users == 1 and not self.bound.contains(values):
            raise InvalidParameter(
                "a user's contribution must come from the bound that clips it: "
                "it is not in the bound's set"
            )
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "users", int(self.users))

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """The values in whole steps of the bound's grid. PRIVATE.

        Sums of these are exact, in any order and in any language.
        """
        return np.rint(self.values / self.bound.grid).astype(np.int64)

    def __add__(self, other: "Bounded") -> "Bounded":
        if self.bound != private_kind("other", other, Bounded).bound:
            raise InvalidParameter("contributions under different bounds cannot be added")
        return Bounded(self.values + other.values, self.bound, self.users + other.users)


def clip_sum(total: Array, bound: Bound, users: int) -> Bounded:
    """Make a `Bounded` of the sum of `users` contributions that somebody else added up.

    No value of `total` makes this function raise. `Bounded` raises if a sum is too large, which is
    right where it shows a mistake in the code. Between a stored sum and its release it would be a
    leak, because then one person could decide whether there is a release. Here a sum that no
    `users` users can have is clipped instead.

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
    largest_sum = whole("users", users, at_least=0) * bound.largest * (1 + _ROUNDING)
    most_steps = math.floor(largest_sum / bound.grid)
    with np.errstate(all="ignore"):
        steps = np.trunc(np.where(np.isfinite(values), values, 0.0) / bound.grid)
    clipped = np.clip(steps, -most_steps, most_steps) * bound.grid
    if users == 1 and not bound.contains(clipped):
        clipped = np.zeros(bound.size)
    return Bounded(clipped, bound, users)


@dataclass(frozen=True, slots=True)
class NoiseLevel:
    """The noise in a release. Public.

    It is uncorrelated over the coordinates, and each has the standard deviation `std`. Gaussian and
    Laplace noise is independent. The coordinates of K-norm noise share a radius. For codebook
    messages `std` is the mean over all coordinates.

    `distribution` is "gaussian", "laplace", "cube", "ball", "codebook", "signs" or "none".
    """

    std: float
    distribution: str


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """The prefix sum over the first `users` users, after noise. PUBLIC.

    Planners accept this and nothing else. `generation` is how many releases the stream has made,
    including this one.

    Shapes: values [coordinate].
    """

    values: Array
    noise: NoiseLevel
    guarantee: Guarantee
    users: int
    generation: int
    memory: Memory = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class L2Ball:
    """Vectors of `size` coordinates and L2 norm at most `radius`.

    Sensitivity of a contribution v, which becomes v' when one user changes:

    - null: ||v - 0|| <= radius.
    - replace: ||v - v'|| <= ||v|| + ||v'|| <= 2 radius, attained by v' = -v.
    - In L1, both are at most sqrt(size) times as much, by Cauchy and Schwarz.

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
        longest = self.radius * (1 + _ROUNDING_OF_NORM)
        return float(np.linalg.norm(real_numbers(values))) <= longest

    def clip(self, values: Array) -> Bounded:
        """Scale one user's vector [size] into the ball. One that is not finite becomes zero."""
        vector = real_numbers(values)
        if vector.shape != (self.size,):
            raise InvalidParameter(
                f"a contribution must have shape ({self.size},), got {vector.shape}"
            )
        clipped = clip_rows(vector[None], self.radius)[0]
        return Bounded(np.trunc(clipped / self.grid) * self.grid, self)


def clip_rows(rows: Array, radius: float) -> Array:
    """Scale each row of rows [..., coordinate] to an L2 norm of at most `radius`, up to rounding.

    A row with a NaN or an infinity becomes zero. Each row is divided by its largest absolute value
    before squaring, so a value of 1e300 neither overflows nor passes.
    """
    # A warning of NumPy would be printed for some data and not for others.
    with np.errstate(all="ignore"):
        finite = np.isfinite(rows).all(axis=-1, keepdims=True)
        rows = np.where(finite, rows, 0.0)
        largest = np.abs(rows).max(axis=-1, keepdims=True)
        largest = np.where(largest > 0, largest, 1.0)
        unit = rows / largest
        norm = np.sqrt((unit * unit).sum(axis=-1, keepdims=True))
        scaled = unit * (radius * _SAFE_SHARE / np.where(norm > 0, norm, 1.0))
        clipped: Array = np.where(norm > radius / largest, scaled, rows)
    return clipped


def real_numbers(values: npt.ArrayLike) -> Array:
    """Private input as floats, element by element.

    What is no real number becomes NaN, and every clip turns NaN into zero. Nothing is refused, and
    no element decides what becomes of another. This matters because one user's text, null, complex
    number or 2**64 changes the type of a whole array. A conversion by type would let one user
    decide whether, or how, a batch is counted. For the same reason a number that is written as text
    becomes that number: NumPy turns all neighbours of a text into texts.
    """
    array = values if isinstance(values, np.ndarray) else _array(values)
    if array.dtype == np.float64:
        return array
    with np.errstate(all="ignore"):
        if array.dtype.kind in "biuf":
            return array.astype(float)
        if array.dtype.kind == "c":
            return np.where(array.imag == 0, array.real, math.nan).astype(float)
    if array.dtype.kind == "m":
        # NumPy turns the numbers beside a duration into durations of its unit.
        return np.where(np.isnat(array), math.nan, array.view(np.int64))
    numbers = [_number(element) for element in array.ravel().tolist()]
    return np.array(numbers, dtype=float).reshape(array.shape)


def _array(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """An array of what is in a list.

    If not all elements are real numbers, each stays as it is, before NumPy gives them one type.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            return array
        return np.array(values, dtype=object)
    except (TypeError, ValueError, OverflowError):
        # The lists have different lengths.
        raise InvalidParameter("a contribution must be a rectangular array") from None


def _number(element: Any) -> float:
    """One element as a float. What is no real number becomes NaN."""
    try:
        if isinstance(element, str | bytes):
            text = element.decode() if isinstance(element, bytes) else element
            return float(text == "True") if text in ("True", "False") else float(text)
        if isinstance(element, complex | np.complexfloating):
            return float(element.real) if element.imag == 0 else math.nan
        if isinstance(element, bool | int | float | np.bool_ | np.number):
            return float(element)
        return math.nan
    except (TypeError, ValueError, OverflowError):
        return math.nan


@lru_cache(maxsize=64)
def grid_for(largest: float) -> float:
    """The grid of a bound: about 2^-24 of the largest value, and a power of two.

    A sum of n contributions is a whole number of at most n 2^24 steps. It is exact in floating
    point as long as this is below 2^53, so for 2^29 users. A finer grid would allow fewer users. A
    coarser one would cost accuracy, because the sensitivity of a bound includes the rounding. The
    24 is a matter of taste between these two, and saved states and messages depend on it.
    """
    return 2.0 ** (math.ceil(math.log2(largest)) - 24)
