"""The inner loops of the buffered counter, over coordinates and buffers."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def encode(leaf: Array, buffers: Array, recipe: Array) -> Array:
    """The row of C x at time t, and the buffers [buffer, coordinate] moved on to t + 1; recipe is [weights, decays]."""
    row = np.empty((1, leaf.size))
    row[0] = leaf
    for i in range(len(buffers)):
        weight, decay = recipe[0, i], recipe[1, i]
        for k in range(leaf.size):
            row[0, k] += weight * buffers[i, k]
            buffers[i, k] = decay * buffers[i, k] + leaf[k]
    return row


@njit
def energy(weights: Array, gaps: Array, terms: int) -> float:
    """sum_{j < terms} of the squares of sum_i weights_i (1 - gaps_i)^j: over pairs, w_i w_k sum_j ((1 - g_i)(1 - g_k))^j."""
    total = 0.0
    for i in range(gaps.size):
        for k in range(gaps.size):
            gap = gaps[i] + gaps[k] - gaps[i] * gaps[k]
            total += (
                weights[i]
                * weights[k]
                * (-np.expm1(terms * np.log1p(-gap)) / gap if gap > 0.0 else terms)
            )
    return total


@njit
def decode(row: Array, buffers: Array, recipe: Array) -> Array:
    """The prefix sum B y at time t, with the buffers [buffer, coordinate] moved to t."""
    prefix = np.zeros(row.size)
    for i in range(len(buffers)):
        weight, decay = recipe[0, i], recipe[1, i]
        for k in range(row.size):
            buffers[i, k] = decay * buffers[i, k] + row[k]
            prefix[k] += weight * buffers[i, k]
    return prefix
