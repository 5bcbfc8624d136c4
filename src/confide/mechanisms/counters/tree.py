"""The binary tree, plain [Chan11, Dwork10] and refined [Honaker15].

Leaves 1..n; the node (i, j) of level i is the sum of the 2^i leaves that end at leaf j 2^i. A leaf is in at most one node per level,
and there are L = floor(log2 n) + 1 levels: L2 column norm sqrt(L), L1 column norm L, both attained by leaf 1.
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
    """Notes one node per leaf, the largest that it completes; a prefix is the sum of the nodes of t's binary digits."""

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
        nodes, level = memory["nodes"], _completed(t)
        nodes[level] = leaf + nodes[:level].sum(axis=0)
        nodes[:level] = 0
        row: npt.NDArray[Any] = nodes[level][None].copy()
        return row

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:
        nodes, level = memory["nodes"], _completed(t)
        nodes[level] = rows[0]
        nodes[:level] = 0
        total: Array = nodes.sum(axis=0)
        return total


@dataclass(frozen=True, slots=True)
class HonakerTree(Tree):
    """Notes every node, and refines each from below: a node and the sum of its two refined children are two independent
    measurements of the same sum, so they are averaged by inverse variance: v_0 = 1, 1/v_i = 1 + 1/(2 v_{i-1})."""

    name: ClassVar[str] = "honaker"

    def row_norm(self, t: int) -> float:
        t, variances = check_time(t, self.leaves), _refined_variances(self.levels)
        return math.sqrt(sum(variances[i] for i in range(self.levels) if t >> i & 1))

    def encode(self, t: int, leaf: npt.NDArray[Any], memory: Memory) -> npt.NDArray[Any]:
        nodes, level = memory["nodes"], _completed(t)
        rows = np.empty((level + 1, leaf.size), dtype=nodes.dtype)
        rows[0] = leaf
        for i in range(level):
            # the left sibling, complete since some time, and the node just completed
            rows[i + 1] = nodes[i] + rows[i]
        nodes[:level] = 0
        nodes[level] = rows[level]
        return rows

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:
        nodes, level = memory["nodes"], _completed(t)
        # the weight of a node's own measurement is v_i / 1
        weights = _refined_variances(self.levels)
        refined = rows[0]
        for i in range(1, level + 1):
            refined = weights[i] * rows[i] + (1 - weights[i]) * (nodes[i - 1] + refined)
        nodes[:level] = 0
        nodes[level] = refined
        total: Array = nodes.sum(axis=0)
        return total


def _completed(t: int) -> int:
    """The level of the largest node that leaf t completes: the number of trailing zeros of t."""
    return (t & -t).bit_length() - 1


def _refined_variances(levels: int) -> list[float]:
    variances = [1.0]
    for _ in range(1, levels):
        variances.append(1 / (1 + 1 / (2 * variances[-1])))
    return variances
