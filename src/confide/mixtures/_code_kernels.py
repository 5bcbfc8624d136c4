"""The inner loop over pairs of transition codes."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@njit
def diameters(points: Array) -> tuple[float, float]:
    """The largest L2 and L1 distance between two rows."""
    n, m = points.shape
    longest, longest_l1 = 0.0, 0.0
    for i in range(n):
        for j in range(i):
            squares, sizes = 0.0, 0.0
            for k in range(m):
                difference = points[i, k] - points[j, k]
                squares += difference * difference
                sizes += abs(difference)
            longest, longest_l1 = max(longest, squares), max(longest_l1, sizes)
    return np.sqrt(longest), longest_l1
