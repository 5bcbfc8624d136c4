"""The inner loops of the buffered counter, over coordinates and buffers."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def encode(leaf: Array, buffers: Array, decays: Array, weights: Array) -> Array:
    """The row of C x at time t, and the buffers [buffer, coordinate] moved on to t + 1."""
    row = np.empty((1, leaf.size))
    row[0] = leaf
    for i in range(decays.size):
        for k in range(leaf.size):
            row[0, k] += weights[i] * buffers[i, k]
            buffers[i, k] = decays[i] * buffers[i, k] + leaf[k]
    return row


@njit
def decode(row: Array, buffers: Array, decays: Array, weights: Array) -> Array:
    """The prefix sum B y at time t, with the buffers [buffer, coordinate] moved to t."""
    prefix = np.zeros(row.size)
    for i in range(decays.size):
        for k in range(row.size):
            buffers[i, k] = decays[i] * buffers[i, k] + row[k]
            prefix[k] += weights[i] * buffers[i, k]
    return prefix
