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
    """C = A and B = I: every prefix sum gets noise of its own.

    Without privacy the sums are exact. With one leaf this is the plain mechanism. With more leaves
    a user is in several noisy sums and pays for each of them, so it serves as a baseline.
    """

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

    # There is nothing to keep.
    def public_memory(self, size: int) -> Memory:  # noqa: ARG002
        return {}

    def encode(
        self,
        t: int,  # noqa: ARG002
        leaf: npt.NDArray[Any],
        memory: Memory,
    ) -> npt.NDArray[Any]:
        memory["total"] = memory["total"] + leaf
        return memory["total"][None]

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:  # noqa: ARG002
        total: Array = rows[0]
        return total
