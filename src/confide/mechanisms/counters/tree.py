"""The binary tree, plain [Chan11, Dwork10] and refined [Honaker15].

The leaves are 1, ..., n. The node (i, j) of level i is the sum of the 2^i leaves that end at leaf j
2^i. A leaf is in at most one node per level, and there are L = floor(log2 n) + 1 levels (`levels`).
So the L2 norm of a column of C is at most sqrt(L), and its L1 norm at most L. Leaf 1 attains both.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.mechanisms.counters.counter import Memory, check_leaves, check_order, check_time
from confide.privacy.bounded import Array


@dataclass(frozen=True, slots=True)
class Tree:
    """The plain tree: each leaf makes one row of C x, the largest node that it completes.

    A prefix sum is the sum of the nodes of t's binary digits.
    """

    leaves: int
    name: ClassVar[str] = "tree"
    integral: ClassVar[bool] = True
    coefficient: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_leaves(self.leaves)

    @property
    def levels(self) -> int:
        return self.leaves.bit_length()

    def column_norm(self, order: int) -> float:
        return float(self.levels) if check_order(order) == 1 else math.sqrt(self.levels)

    def row_norm(self, t: int) -> float:
        return math.sqrt(check_time(t, self.leaves).bit_count())

    def parameters(self) -> dict[str, Any]:
        return {}

    def private_memory(self, size: int, dtype: type) -> Memory:
        return {"nodes": np.zeros((self.levels, size), dtype)}

    def public_memory(self, size: int) -> Memory:
        return {"nodes": np.zeros((self.levels, size))}

    def encode(self, t: int, leaf: npt.NDArray[Any], memory: Memory) -> npt.NDArray[Any]:
        nodes = memory["nodes"]
        level = _completed_level(t)
        nodes[level] = leaf + nodes[:level].sum(axis=0)
        nodes[:level] = 0
        row: npt.NDArray[Any] = nodes[level][None].copy()
        return row

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:
        nodes = memory["nodes"]
        level = _completed_level(t)
        nodes[level] = rows[0]
        nodes[:level] = 0
        total: Array = nodes.sum(axis=0)
        return total


@dataclass(frozen=True, slots=True)
class HonakerTree(Tree):
    """The refined tree: every node is a row of C x, and improves from the nodes below it.

    A node and the sum of its two refined children are two independent measurements of the same sum.
    They are averaged by inverse variance. For unit noise on each node, the variances v_i of refined
    nodes of level i follow from v_0 = 1 and 1/v_i = 1 + 1/(2 v_{i-1}).
    """

    name: ClassVar[str] = "honaker"

    def row_norm(self, t: int) -> float:
        t = check_time(t, self.leaves)
        variances = _refined_variances(self.levels)
        return math.sqrt(sum(variances[i] for i in range(self.levels) if t >> i & 1))

    def encode(self, t: int, leaf: npt.NDArray[Any], memory: Memory) -> npt.NDArray[Any]:
        nodes = memory["nodes"]
        level = _completed_level(t)
        rows = np.empty((level + 1, leaf.size), dtype=nodes.dtype)
        rows[0] = leaf
        for i in range(level):
            # A node is the sum of its left child, which was complete before, and of its right
            # child, which this leaf has completed.
            rows[i + 1] = nodes[i] + rows[i]
        nodes[:level] = 0
        nodes[level] = rows[level]
        return rows

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:
        nodes = memory["nodes"]
        level = _completed_level(t)
        # The weight of a node's own measurement, of variance 1, is v_i.
        weights = _refined_variances(self.levels)
        refined = rows[0]
        for i in range(1, level + 1):
            refined = weights[i] * rows[i] + (1 - weights[i]) * (nodes[i - 1] + refined)
        nodes[:level] = 0
        nodes[level] = refined
        total: Array = nodes.sum(axis=0)
        return total


def _completed_level(t: int) -> int:
    """The level of the largest node that leaf t completes: the number of trailing zeros of t."""
    return (t & -t).bit_length() - 1


def _refined_variances(levels: int) -> list[float]:
    """v_0, v_1, ... of `HonakerTree`."""
    variances = [1.0]
    for _ in range(1, levels):
        variances.append(1 / (1 + 1 / (2 * variances[-1])))
    return variances
