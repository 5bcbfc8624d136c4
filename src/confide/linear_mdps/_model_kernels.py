"""The inner loops of fitting a model of a linear MDP. PUBLIC: they see releases, and no user."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def project_rows(rows: Array) -> Array:
    """Each row [n, s] moved to the nearest probability vector."""
    n, S = rows.shape
    projected = np.empty((n, S))
    for i in range(n):
        descending = np.sort(rows[i])[::-1]
        total = 0.0
        shift = 0.0
        for k in range(S):
            total += descending[k]
            candidate = (total - 1.0) / (k + 1)
            if descending[k] > candidate:
                shift = candidate
        for k in range(S):
            projected[i, k] = max(rows[i, k] - shift, 0.0)
    return projected


@njit
def project_to_unit_interval(theta: Array, covariance: Array, rows: Array) -> Array:
    """The vector x nearest to theta [i] with 0 <= row.x <= 1 for all rows [n, i].

    Near is meant in the norm of the inverse covariance. Hildreth's method moves one multiplier at a
    time, until none moves x.row by more than 1e-6, and at most 100 times round. Both numbers are
    matters of taste.
    """
    n, d = rows.shape
    x = theta.copy()
    spread = rows @ covariance
    low = np.zeros(n)
    high = np.zeros(n)
    for _ in range(100):
        largest_move = 0.0
        for k in range(n):
            size = 0.0
            value = 0.0
            for i in range(d):
                size += spread[k, i] * rows[k, i]
                value += rows[k, i] * x[i]
            if size <= 0.0:
                continue
            # How much more the lower constraint pushes, and the upper one.
            up = max(low[k] - value / size, 0.0) - low[k]
            down = max(high[k] + (value + up * size - 1.0) / size, 0.0) - high[k]
            low[k] += up
            high[k] += down
            largest_move = max(largest_move, abs((up - down) * size))
            for i in range(d):
                x[i] += (up - down) * spread[k, i]
        if largest_move < 1e-6:
            break
    return x
