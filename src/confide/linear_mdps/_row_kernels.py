"""The sum over stored users of phi(s, a) (w r + y), in whole numbers. PRIVATE.

Required for privacy: the term of one user is bounded here (`ObservedRows` has the proof).
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SmallInts = npt.NDArray[np.int32]


@njit
def best_value(
    rows: SmallInts,
    unit: float,
    weights: Array,
    widths: Array,
    offset: float,
    top: float,
    ended: float,
) -> float:
    """The largest clip(offset + <weights, x> + ||widths x||, 0, top) of the rows x [a, i].

    Rows are in units of 1 / unit. If all of them are zero, the value is `ended`.
    """
    A, d = rows.shape
    best = -1.0
    is_over = True
    for a in range(A):
        score = offset
        for i in range(d):
            if rows[a, i] != 0:
                is_over = False
            score += weights[i] * (rows[a, i] / unit)
        square = 0.0
        for k in range(widths.shape[0]):
            along = 0.0
            for i in range(d):
                along += widths[k, i] * (rows[a, i] / unit)
            square += along * along
        best = max(best, min(max(score + np.sqrt(square), 0.0), top))
    return ended if is_over else best


@njit
def add_responses(
    total: Ints,
    chosen: SmallInts,
    rewards: Ints,
    following: SmallInts,
    reward_weight: int,
    unit: int,
    weights: Array,
    widths: Array,
    value_numbers: tuple[float, float, float],
    scale: tuple[float, float],
) -> None:
    """Add the term of each user, phi (w r + y), to `total` [i].

    phi = chosen [n, i], r = rewards [n], and y is a function of following [n, a, i].
    Everything is in units of 1 / unit. A user's target is between -unit and unit, and each
    coordinate of a user's term is rounded towards zero, so the term is no longer than phi. No
    floating-point number of one user meets one of another.
    """
    offset, top, ended = value_numbers
    middle, radius = scale
    n, d = chosen.shape
    has_values = following.shape[1] > 0
    for user in range(n):
        target = reward_weight * rewards[user] // unit
        if has_values:
            value = best_value(following[user], float(unit), weights, widths, offset, top, ended)
            y = (value - middle) / radius
            # Everything that is no number in this range becomes one.
            if not y > -1.0:
                y = -1.0
            y = min(y, 1.0 - reward_weight / unit)
            target += int(y * unit)
        for i in range(d):
            product = chosen[user, i] * target
            whole = abs(product) // unit
            total[i] += whole if product > 0 else -whole
