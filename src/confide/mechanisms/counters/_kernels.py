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
def decode(row: Array, buffers: Array, recipe: Array) -> Array:
    """The prefix sum B y at time t, with the buffers [buffer, coordinate] moved to t."""
    prefix = np.zeros(row.size)
    for i in range(len(buffers)):
        weight, decay = recipe[0, i], recipe[1, i]
        for k in range(row.size):
            buffers[i, k] = decay * buffers[i, k] + row[k]
            prefix[k] += weight * buffers[i, k]
    return prefix
