"""The inner loops of the buffered counter, over coordinates and buffers.

`tests/conformance/test_counters.py` compares them with the matrices of the factorisation. The
results of seeded runs depend on the order of the operations.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def encode(leaf: Array, buffers: Array, recipe: Array) -> Array:
    """Return the row of C x at time t [1, coordinate], and move the buffers on to t + 1.

    Shapes: leaf [coordinate], buffers [buffer, coordinate], recipe [weight or decay, buffer].
    """
    row = np.empty((1, leaf.size))
    row[0] = leaf
    for i in range(len(buffers)):
        weight = recipe[0, i]
        decay = recipe[1, i]
        for k in range(leaf.size):
            row[0, k] += weight * buffers[i, k]
            buffers[i, k] = decay * buffers[i, k] + leaf[k]
    return row


@njit
def energy(weights: Array, gaps: Array, terms: int) -> float:
    """The sum over j < terms of the squares of sum_i weights_i (1 - gaps_i)^j.

    It is summed over pairs: w_i w_k sum_j ((1 - g_i)(1 - g_k))^j, where the product of the decays
    is 1 - gap.
    """
    total = 0.0
    for i in range(gaps.size):
        for k in range(gaps.size):
            gap = gaps[i] + gaps[k] - gaps[i] * gaps[k]
            powers = -np.expm1(terms * np.log1p(-gap)) / gap if gap > 0.0 else terms
            total += weights[i] * weights[k] * powers
    return total


@njit
def decode(row: Array, buffers: Array, recipe: Array) -> Array:
    """Move the buffers to time t, and return the prefix sum B y at t [coordinate].

    Shapes: row [coordinate], buffers [buffer, coordinate], recipe [weight or decay, buffer].
    """
    prefix = np.zeros(row.size)
    for i in range(len(buffers)):
        weight = recipe[0, i]
        decay = recipe[1, i]
        for k in range(row.size):
            buffers[i, k] = decay * buffers[i, k] + row[k]
            prefix[k] += weight * buffers[i, k]
    return prefix
