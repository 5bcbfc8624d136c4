"""The inner loop of fitting transitions."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def project_rows(rows: Array) -> Array:
    """Each row [n, s] moved to the nearest probability vector."""
    n, S = rows.shape
    result = np.empty((n, S))
    for i in range(n):
        descending = np.sort(rows[i])[::-1]
        total, shift = 0.0, 0.0
        for k in range(S):
            total += descending[k]
            candidate = (total - 1.0) / (k + 1)
            if descending[k] > candidate:
                shift = candidate
        for k in range(S):
            result[i, k] = max(rows[i, k] - shift, 0.0)
    return result


@njit
def within_unit(theta: Array, covariance: Array, rows: Array) -> Array:
    """The vector nearest to theta [i], in the norm of the inverse covariance, with 0 <= row.theta <= 1 for all rows [n, i].

    Hildreth's method: multipliers one at a time, until nothing moves by more than 1e-6, and at most 100 times round.
    """
    n, d = rows.shape
    x, spread = theta.copy(), rows @ covariance
    low, high = np.zeros(n), np.zeros(n)
    for _ in range(100):
        moved = 0.0
        for k in range(n):
            size = 0.0
            value = 0.0
            for i in range(d):
                size += spread[k, i] * rows[k, i]
                value += rows[k, i] * x[i]
            if size <= 0.0:
                continue
            # how much more the lower constraint pushes, and the upper one
            up = max(low[k] - value / size, 0.0) - low[k]
            down = max(high[k] + (value + up * size - 1.0) / size, 0.0) - high[k]
            low[k] += up
            high[k] += down
            moved = max(moved, abs((up - down) * size))
            for i in range(d):
                x[i] += (up - down) * spread[k, i]
        if moved < 1e-6:
            break
    return x
