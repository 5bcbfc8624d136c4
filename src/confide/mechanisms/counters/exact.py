"""Independent noise on every prefix sum."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.mechanisms.counters.counter import Memory, check_leaves, check_order, check_time
from confide.privacy.bounded import Array


@dataclass(frozen=True, slots=True)
class Exact:
    """C = A, B = I: exact without privacy; with one leaf the plain mechanism; with more, each release pays anew (the baseline)."""

    leaves: int
    name: ClassVar[str] = "exact"
    integral: ClassVar[bool] = True
    coefficient: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_leaves(self.leaves)

    def column_norm(self, order: int) -> float:
        return float(self.leaves) if check_order(order) == 1 else math.sqrt(self.leaves)

    def row_norm(self, t: int) -> float:
        check_time(t, self.leaves)
        return 1.0

    def parameters(self) -> dict[str, Any]:
        return {}

    def private_memory(self, size: int, dtype: type) -> Memory:
        return {"total": np.zeros(size, dtype)}

    def public_memory(self, size: int) -> Memory:  # noqa: ARG002 - nothing to keep
        return {}

    def encode(self, t: int, leaf: npt.NDArray[Any], memory: Memory) -> npt.NDArray[Any]:  # noqa: ARG002
        memory["total"] = memory["total"] + leaf
        return memory["total"][None]

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:  # noqa: ARG002
        total: Array = rows[0]
        return total
