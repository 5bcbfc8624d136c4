"""Independent noise on every leaf."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.mechanisms.counters.counter import Memory, check_leaves, check_time
from confide.privacy.bounded import Array


@dataclass(frozen=True, slots=True)
class Leaves:
    """C = I and B = A: each leaf is noised once, and prefix sums add up the noise of all leaves.

    It is for those who want the leaves themselves, as differences of prefix sums. They have the
    least noise there can be, because a user is counted once.
    """

    leaves: int
    name: ClassVar[str] = "leaves"
    integral: ClassVar[bool] = True
    coefficient: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_leaves(self.leaves)

    # It is one in every norm.
    def column_norm(self, order: int) -> float:  # noqa: ARG002
        return 1.0

    def row_norm(self, t: int) -> float:
        return math.sqrt(check_time(t, self.leaves))

    def parameters(self) -> dict[str, Any]:
        return {}

    # There is nothing to keep.
    def private_memory(self, size: int, dtype: type) -> Memory:  # noqa: ARG002
        return {}

    def public_memory(self, size: int) -> Memory:
        return {"total": np.zeros(size)}

    def encode(
        self,
        t: int,  # noqa: ARG002
        leaf: npt.NDArray[Any],
        memory: Memory,  # noqa: ARG002
    ) -> npt.NDArray[Any]:
        return leaf[None]

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:  # noqa: ARG002
        memory["total"] = memory["total"] + rows[0]
        total: Array = memory["total"]
        return total
