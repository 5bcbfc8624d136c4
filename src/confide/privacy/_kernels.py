"""The compiled check of a contribution, in one pass over its values.

`tests/privacy/test_bounded.py` compares it with NumPy. It is called for every contribution.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def largest_on_grid(values: Array, grid: float) -> float:
    """The largest absolute value, or -1 if a value is not a finite whole multiple of the grid."""
    largest = 0.0
    for value in values:
        if not np.isfinite(value) or np.rint(value / grid) * grid != value:
            return -1.0
        largest = max(largest, abs(value))
    return largest
