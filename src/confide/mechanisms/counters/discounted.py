"""Discounted sums: for whoever wants to know a rate and not a total."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, real, whole
from confide.errors import InvalidParameter
from confide.mechanisms.counters.counter import Memory, check_leaves, check_order, check_time
from confide.privacy.bounded import Array


@dataclass(frozen=True, slots=True)
class Discounted:
    """Release t is sum_{j <= t} ratio^(t - j) x_j with noise of its own: C is lower-triangular with geometric columns, and B = I.

    A = C is not the matrix of prefix sums, and nothing in the guarantee of a counter needs it to be: each row of C x is noised once.

    Why: with leaves that grow by a factor g, and ratio = 1/g, least squares over all releases knows the rate of the contributions with the
    noise (1 + 1/g) x sensitivity / mu on the whole past: 1.77 at g = 1.3. The prefix sums of the square root have 2.17 after 32 releases,
    and more after more.

    With `bits`, C has entries rounded up to multiples of 2^-bits, scaled to whole numbers (for secure noise). The leaves are kept for it:
    ratio times a sum is not whole, and rounding it would count a user more often than the columns of C say.
    """

    leaves: int
    ratio: float = 1 / 1.3
    bits: int | None = None
    name: ClassVar[str] = "discounted"

    def __post_init__(self) -> None:
        check_leaves(self.leaves)
        real("ratio", self.ratio, above=0, below=1)
        if self.bits is not None and not 4 <= whole("bits", self.bits) <= 30:
            raise InvalidParameter.of("bits", "must be between 4 and 30", got=f"{self.bits}")

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
        """What release t counts leaf 1, ..., t with."""
        check_time(t, self.leaves)
        return _column(self.leaves, self.ratio, self.bits)[:t][::-1] / self.coefficient

    def parameters(self) -> dict[str, Any]:
        return (
            {"ratio": self.ratio} if self.bits is None else {"ratio": self.ratio, "bits": self.bits}
        )

    def private_memory(self, size: int, dtype: type) -> Memory:
        return {
            "leaves" if self.integral else "sum": np.zeros(
                (self.leaves, size) if self.integral else size, dtype
            )
        }

    def public_memory(self, size: int) -> Memory:  # noqa: ARG002 - nothing to keep
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
    """The ratio for leaves of these sizes with the least noise on the rate, against the size of the past, at its worst release."""
    users = np.asarray(sizes, dtype=np.float64)
    past = np.cumsum(users)

    def worst(ratio: float) -> float:
        known = np.convolve(users, _column(len(users), ratio, None))[: len(users)]
        return Discounted(len(users), ratio).column_norm(2) * float(
            (past / np.sqrt(np.cumsum(known**2))).max()
        )

    return min((1 - float(gap) for gap in np.geomspace(0.9, 1 / (1 + len(users)), 60)), key=worst)


@lru_cache(maxsize=16)
def _column(leaves: int, ratio: float, bits: int | None) -> Array:
    exact: Array = np.power(ratio, np.arange(leaves, dtype=np.float64))
    return exact if bits is None else np.ceil(exact * 2.0**bits)
