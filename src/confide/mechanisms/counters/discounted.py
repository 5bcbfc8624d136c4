"""Discounted sums: for whoever wants to know a rate and not a total."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, real
from confide.mechanisms.counters.counter import (
    Memory,
    check_bits,
    check_leaves,
    check_order,
    check_time,
)
from confide.privacy.bounded import Array


@dataclass(frozen=True, slots=True)
class Discounted:
    """Discounted sums: release t is sum_{j <= t} ratio^(t - j) x_j with noise of its own.

    C is lower triangular with geometric columns, and B = I. A = C is not the matrix of prefix sums.
    Nothing in the guarantee of a counter needs it to be, because each row of C x is noised once.

    Why: leaves may grow by a factor g. With ratio = 1/g, least squares over all releases estimates
    the rate of the contributions with the noise (1 + 1/g) sensitivity / mu on the whole past, which
    is 1.77 sensitivity / mu at g = 1.3. The prefix sums of the square root have 2.17 after 32
    releases, and more after more.

    With `bits`, C has entries rounded up to multiples of 2^-bits, scaled to whole numbers, for
    secure noise. All leaves are kept for this. The ratio times a sum is not whole, and rounding it
    would count a user more often than the columns of C say.
    """

    leaves: int
    # The default is that of schedules that grow by 1.3. Taste.
    ratio: float = 1 / 1.3
    bits: int | None = None
    name: ClassVar[str] = "discounted"

    def __post_init__(self) -> None:
        check_leaves(self.leaves)
        real("ratio", self.ratio, above=0, below=1)
        check_bits(self.bits)

    @property
    def integral(self) -> bool:
        return self.bits is not None

    @property
    def coefficient(self) -> float:
        return 1.0 if self.bits is None else 2.0**self.bits

    def column_norm(self, order: int) -> float:
        check_size(leaves=self.leaves)
        column = _column(self.leaves, self.ratio, self.bits)
        return float(column.sum()) if check_order(order) == 1 else math.sqrt(float(column @ column))

    def row_norm(self, t: int) -> float:
        check_time(t, self.leaves)
        return 1 / self.coefficient

    def weights(self, t: int) -> Array:
        """The weights of leaf 1, ..., t in release t."""
        check_time(t, self.leaves)
        return _column(self.leaves, self.ratio, self.bits)[:t][::-1] / self.coefficient

    def parameters(self) -> dict[str, Any]:
        if self.bits is None:
            return {"ratio": self.ratio}
        return {"ratio": self.ratio, "bits": self.bits}

    def private_memory(self, size: int, dtype: type) -> Memory:
        if self.integral:
            return {"leaves": np.zeros((self.leaves, size), dtype)}
        return {"sum": np.zeros(size, dtype)}

    # There is nothing to keep.
    def public_memory(self, size: int) -> Memory:  # noqa: ARG002
        return {}

    def encode(self, t: int, leaf: npt.NDArray[Any], memory: Memory) -> npt.NDArray[Any]:
        if not self.integral:
            memory["sum"] = self.ratio * memory["sum"] + leaf
            row: npt.NDArray[Any] = memory["sum"][None]
            return row
        leaves = memory["leaves"]
        leaves[t - 1] = leaf
        column = _column(self.leaves, self.ratio, self.bits)[:t][::-1].astype(leaves.dtype)
        return (column @ leaves[:t])[None]

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:  # noqa: ARG002
        last: Array = rows[0] / self.coefficient
        return last


def best_ratio(sizes: npt.ArrayLike) -> float:
    """The ratio with the least noise on the rate, for leaves of these sizes.

    The noise is that on the whole past, at the worst release. The 60 ratios that are tried are a
    matter of taste.
    """
    users = np.asarray(sizes, dtype=np.float64)
    past_users = np.cumsum(users)

    def worst_noise(ratio: float) -> float:
        discounted_users = np.convolve(users, _column(len(users), ratio, None))[: len(users)]
        noise_of_releases = past_users / np.sqrt(np.cumsum(discounted_users**2))
        return Discounted(len(users), ratio).column_norm(2) * float(noise_of_releases.max())

    gaps = np.geomspace(0.9, 1 / (1 + len(users)), 60)
    return min((1 - float(gap) for gap in gaps), key=worst_noise)


@lru_cache(maxsize=16)
def _column(leaves: int, ratio: float, bits: int | None) -> Array:
    """The first column of C, which all others are shifted copies of."""
    exact: Array = np.power(ratio, np.arange(leaves, dtype=np.float64))
    return exact if bits is None else np.ceil(exact * 2.0**bits)
