"""What planning remembers from one release to the next. All of it is public.

An agent declares the layout of its memory once: the names, the axes and the ranges of its arrays.
`Layout.recall` compares a memory with the layout. On a device, a server sends this memory, and
compiled loops use its numbers as indices without looking. So the whole memory is checked before
anything in it is used: this protects the device, and must not be weakened.

What leaves this file: the arrays of a memory, under their names, are in published releases and in
saved states. A layout that changes makes them unreadable, and nothing else.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.privacy.bounded import Released

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Reals:
    """An array of finite real numbers along these axes, all of them within the range.

    With `or_nan`, NaN stands for what is not known yet.
    """

    axes: tuple[str, ...] = ()
    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    not_all_zero: bool = False
    or_nan: bool = False

    dtype: ClassVar = np.dtype(np.float64)

    def contain(self, values: AnyArray, sizes: Mapping[str, int]) -> bool:  # noqa: ARG002
        """Whether all of these numbers are allowed."""
        if self.or_nan:
            values = values[~np.isnan(values)]
        in_range = (values >= self.at_least) & (values <= self.at_most) & np.isfinite(values)
        if self.above > -math.inf:
            in_range &= values > self.above
        if not in_range.all():
            return False
        return not self.not_all_zero or bool(values.any())


@dataclass(frozen=True, slots=True)
class Wholes:
    """An array of whole numbers along these axes, from 0 on.

    Indices are `below` the size of the axis that they name.
    """

    axes: tuple[str, ...] = ()
    below: str | None = None
    at_most: str | None = None

    dtype: ClassVar = np.dtype(np.int64)

    def contain(self, values: AnyArray, sizes: Mapping[str, int]) -> bool:
        """Whether all of these numbers are allowed, if the axes have these sizes."""
        in_range = values >= 0
        if self.below is not None:
            in_range &= values < sizes[self.below]
        if self.at_most is not None:
            in_range &= values <= sizes[self.at_most]
        return bool(in_range.all())


Arrays = dict[str, Reals | Wholes]
# Every memory has a public seed.
SEED: Arrays = {"seed": Wholes()}
# The last release, and the noise on each of its numbers: batches are differences of releases.
LAST_RELEASE: Arrays = {"last": Reals(("number",)), "last_std": Reals(at_least=0)}


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrays of a memory by name.

    Every memory also has a public seed, and the memory before the first round has nothing else.
    """

    arrays: Arrays

    def recall(
        self,
        released: Released,
        sizes: Mapping[str, int],
        at_most: Mapping[str, int] | None = None,
    ) -> "History":
        """Return the memory of a release, or refuse it unless all of it fits.

        `sizes` are the lengths of axes that the problem fixes. Any other axis is open: it has any
        length, up to `at_most` if it is named there, and the same length in all arrays. The size
        "users" is the number of users in the release.
        """
        memory = released.memory
        is_first = released.generation == 0
        expected = SEED if is_first else SEED | self.arrays
        # `_shape_fits` adds the lengths of open axes.
        lengths = {"users": released.users, **sizes}
        refuse_unless(
            set(memory) == set(expected)
            and all(_shape_fits(memory[name], each, lengths) for name, each in expected.items())
            and all(lengths.get(axis, 0) <= most for axis, most in (at_most or {}).items())
            and all(each.contain(memory[name], lengths) for name, each in expected.items())
        )
        arrays = dict(memory)
        if is_first:
            arrays = self._empty_arrays(sizes) | arrays
        return History(self, arrays)

    def along(self, axis: str) -> list[str]:
        """Return the names of the arrays that have one entry for each element of an axis."""
        return [name for name, each in self.arrays.items() if each.axes[:1] == (axis,)]

    def _empty_arrays(self, sizes: Mapping[str, int]) -> dict[str, AnyArray]:
        """Return zeros, without any entry along the open axes."""
        return {
            name: np.zeros([sizes.get(axis, 0) for axis in each.axes], dtype=each.dtype)
            for name, each in self.arrays.items()
        }


def _shape_fits(values: Any, expected: Reals | Wholes, lengths: dict[str, int]) -> bool:
    """Whether the type and the shape are as expected.

    The first array along an open axis decides how long the axis is, and adds it to `lengths`.
    """
    if not isinstance(values, np.ndarray) or values.dtype != expected.dtype:
        return False
    if values.ndim != len(expected.axes):
        return False
    return all(
        lengths.setdefault(axis, length) == length
        for axis, length in zip(expected.axes, values.shape, strict=True)
    )


def refuse_unless(fits: bool) -> None:
    """Refuse a memory. Call it for conditions that a layout cannot state."""
    if not fits:
        raise InvalidParameter("the memory of earlier rounds does not fit this problem")


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The arrays of a memory. Each change makes a new history."""

    layout: Layout
    arrays: Mapping[str, AnyArray]

    def __getitem__(self, name: str) -> AnyArray:
        return self.arrays[name]

    def count(self, axis: str) -> int:
        """Return how many entries there are along an open axis."""
        return len(self.arrays[self.layout.along(axis)[0]])

    def replace(self, **arrays: AnyArray) -> "History":
        """Return a history with these arrays in place of the old ones."""
        return replace(self, arrays={**self.arrays, **arrays})

    def append(self, axis: str, **entries: npt.ArrayLike) -> "History":
        """Add one more entry to each array along this axis."""
        names = self.layout.along(axis)
        return self.extend(axis, **{name: np.asarray(entries[name])[None] for name in names})

    def extend(self, axis: str, **entries: AnyArray) -> "History":
        """Add several more entries to each array along this axis."""
        names = self.layout.along(axis)
        return self.replace(
            **{name: np.concatenate([self.arrays[name], entries[name]]) for name in names}
        )

    def select(self, axis: str, chosen: slice | npt.NDArray[np.bool_]) -> "History":
        """Keep only the chosen entries along an axis."""
        return self.replace(**{name: self.arrays[name][chosen] for name in self.layout.along(axis)})

    def remember_release(self, released: Released) -> "History":
        """Remember this release as the last one, for the differences of later releases."""
        last_std = np.array(released.noise.std, dtype=np.float64)
        return self.replace(last=released.values, last_std=last_std)

    def without_last(self, released: Released) -> tuple[Array, float]:
        """Return the sums of the newest batch alone, and the variance of their noise.

        Releases are prefix sums, and `last` is the release before.
        """
        variance = released.noise.std**2 - float(self.arrays["last_std"]) ** 2
        return released.values - self.arrays["last"], max(variance, 0.0)
