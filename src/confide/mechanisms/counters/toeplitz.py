"""The square root of the matrix of prefix sums [Fichtenberger23, Henzinger23]."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size
from confide.mechanisms.counters.counter import (
    Memory,
    check_bits,
    check_leaves,
    check_order,
    check_time,
)
from confide.privacy.bounded import Array


@dataclass(frozen=True, slots=True)
class Toeplitz:
    """C = B = A^(1/2), the square root of the matrix of prefix sums.

    It is a lower-triangular Toeplitz matrix with c_0 = 1 and c_j = c_{j-1} (2j - 1)/(2j).

    For few releases its noise is the closest to the optimum. Memory and time per leaf grow with the
    number of leaves. So it is meant for schedules with few releases, and not for a release after
    each episode.

    With `bits`, C has entries rounded up to multiples of 2^-bits, scaled to whole numbers, for
    secure noise, and B = A C^-1.
    """

    leaves: int
    bits: int | None = None
    name: ClassVar[str] = "toeplitz"

    def __post_init__(self) -> None:
        check_leaves(self.leaves)
        check_bits(self.bits)

    @property
    def integral(self) -> bool:
        return self.bits is not None

    @property
    def coefficient(self) -> float:
        return 1.0 if self.bits is None else 2.0**self.bits

    def column_norm(self, order: int) -> float:
        check_size(leaves=self.leaves)
        coder = _coder(self.leaves, self.bits)
        return float(coder.sum()) if check_order(order) == 1 else math.sqrt(float(coder @ coder))

    def row_norm(self, t: int) -> float:
        decoder = _decoder(self.leaves, self.bits)[: check_time(t, self.leaves)]
        return math.sqrt(float(decoder @ decoder))

    def parameters(self) -> dict[str, Any]:
        return {} if self.bits is None else {"bits": self.bits}

    def private_memory(self, size: int, dtype: type) -> Memory:
        return {"leaves": np.zeros((self.leaves, size), dtype)}

    def public_memory(self, size: int) -> Memory:
        return {"rows": np.zeros((self.leaves, size))}

    def encode(self, t: int, leaf: npt.NDArray[Any], memory: Memory) -> npt.NDArray[Any]:
        leaves = memory["leaves"]
        leaves[t - 1] = leaf
        coder = _coder(self.leaves, self.bits)[:t][::-1].astype(leaves.dtype)
        return (coder @ leaves[:t])[None]

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:
        memory["rows"][t - 1] = rows[0]
        # A reversed view would not be multiplied by BLAS.
        decoder = np.ascontiguousarray(_decoder(self.leaves, self.bits)[:t][::-1])
        total: Array = decoder @ memory["rows"][:t]
        return total


@lru_cache(maxsize=16)
def square_root(leaves: int) -> Array:
    """The first column of A^(1/2): the coefficients of (1 - x)^(-1/2)."""
    j = np.arange(1, leaves)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])


@lru_cache(maxsize=16)
def _coder(leaves: int, bits: int | None) -> Array:
    """The first column of C."""
    exact = square_root(leaves)
    return exact if bits is None else np.ceil(exact * 2.0**bits)


@lru_cache(maxsize=16)
def _decoder(leaves: int, bits: int | None) -> Array:
    """The first column of B = A C^-1: the prefix sums of the inverse power series of C."""
    if bits is None:
        return square_root(leaves)
    coder = _coder(leaves, bits)
    inverse = np.zeros(leaves)
    inverse[0] = 1 / coder[0]
    for j in range(1, leaves):
        inverse[j] = -(coder[1 : j + 1] @ inverse[:j][::-1]) / coder[0]
    return np.cumsum(inverse)
