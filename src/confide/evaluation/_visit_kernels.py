"""The inner loop over logged trajectories: sums of first-visit returns.

PRIVATE side. Returns are clipped and rounded before they are added. Sums are whole numbers, so they
are exact. What clips here is what the sensitivity of `FirstVisits` rests on;
tests/evaluation/test_visit_contributions.py compares with plain NumPy.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]


@njit
def acceptable(states: Ints, rewards: Array, first: int, last: int, S: int) -> bool:
    """Whether all rows of a user make sense: states that exist, rewards that are finite."""
    for i in range(first, last):
        if states[i] < 0 or states[i] >= S or not np.isfinite(rewards[i]):
            return False
    return True


@njit
def on_grid(value: float, centre: float, radius: float, steps: float) -> int:
    """A return, centred, scaled and clipped to [-1, 1], in steps of the grid.

    +-1 is on the grid, so rounding never leaves the clip. Returns of finite rewards may overflow to
    an infinity, which the clip takes, but not to a NaN.
    """
    scaled = (value - centre) / radius
    if not scaled > -1.0:
        scaled = -1.0
    return np.int64(np.rint(min(scaled, 1.0) * steps))  # type: ignore[return-value]


@njit
def add_trajectory(
    sums: Ints,
    states: Ints,
    returns: Ints,
    rows: Ints,
    visits: int,
    unit: int,
    square: float,
    steps: float,
) -> None:
    """Add one trajectory's (h, g, kappa (g^2 - 1/2)) at each of its first visits.

    `rows` and `returns` [visit] say which rows these are, and the returns there in steps of the
    grid.
    """
    for j in range(visits):
        s = states[rows[j]]
        sums[0, s] += unit
        sums[1, s] += returns[j]
        if square > 0.0:
            g = returns[j] / steps
            sums[2, s] += np.int64(np.rint(square * (g * g - 0.5) * steps))


@njit
def first_visits(
    states: Ints,
    rewards: Array,
    trajectories: Ints,
    users: Ints,
    valid: Ints,
    S: int,
    visits: int,
    cap: int,
    discount: float,
    centre: float,
    radius: float,
    steps: float,
    unit: int,
    square: float,
) -> Ints:
    """(counts, sums, squares) [3, s] in steps of the grid.

    Of each valid user the first `cap` trajectories count, and of each of these the first `visits`
    states. `steps` is one over the step of the grid, `unit` the scale h of counts in steps,
    `square` is kappa.
    """
    sums = np.zeros((3, S), np.int64)
    # The last trajectory that visited a state [state].
    stamp = np.full(S, -1)
    # The rows of a trajectory's first visits, and the returns from there on [visit].
    rows = np.empty(visits, np.int64)
    returns = np.empty(visits, np.int64)
    for u in range(users.size - 1):
        if not valid[u] or not acceptable(
            states, rewards, trajectories[users[u]], trajectories[users[u + 1]], S
        ):
            continue
        for t in range(users[u], min(users[u + 1], users[u] + cap)):
            start = trajectories[t]
            stop = trajectories[t + 1]
            visited = 0
            # Forward: which visits count depends on the past alone.
            for i in range(start, stop):
                if stamp[states[i]] != t:
                    stamp[states[i]] = t
                    rows[visited] = i
                    visited += 1
                    if visited == visits:
                        break
            # Backward, because powers of the discount would overflow on long trajectories.
            G = 0.0
            j = visited - 1
            for i in range(stop - 1, start - 1, -1):
                G = rewards[i] + discount * G
                if j >= 0 and i == rows[j]:
                    returns[j] = on_grid(G, centre, radius, steps)
                    j -= 1
            add_trajectory(sums, states, returns, rows, visited, unit, square, steps)
    return sums
