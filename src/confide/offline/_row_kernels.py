"""Projections of noisy counts, row by row. Row r has cells indptr[r]:indptr[r + 1]."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@njit
def project(counts: Array, totals: Array, indptr: Ints) -> Array:
    """The nearest counts (in Euclidean distance) that are not negative and add up to `totals`
    [row].
    """
    nearest = np.zeros(counts.size)
    for r in range(indptr.size - 1):
        first = indptr[r]
        last = indptr[r + 1]
        if first == last or totals[r] <= 0.0:
            continue
        ordered = np.sort(counts[first:last])
        above = 0.0
        level = 0.0
        for k in range(1, last - first + 1):
            above += ordered[ordered.size - k]
            if ordered[ordered.size - k] <= (above - totals[r]) / k:
                break
            level = (above - totals[r]) / k
        for k in range(first, last):
            nearest[k] = max(counts[k] - level, 0.0)
    return nearest
