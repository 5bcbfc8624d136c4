"""The inner loop over pairs of transition codes. PUBLIC.

Required for privacy: what it returns is the sensitivity of codes.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def diameters(points: Array) -> tuple[float, float]:
    """The largest L2 and L1 distance between two rows."""
    n, m = points.shape
    largest_square = 0.0
    largest_l1 = 0.0
    for i in range(n):
        for j in range(i):
            square = 0.0
            l1 = 0.0
            for k in range(m):
                difference = points[i, k] - points[j, k]
                square += difference * difference
                l1 += abs(difference)
            largest_square = max(largest_square, square)
            largest_l1 = max(largest_l1, l1)
    return np.sqrt(largest_square), largest_l1
