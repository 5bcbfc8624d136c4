"""The inner loop over logged trajectories: first-visit returns, clipped and rounded before they are added. Whole numbers, so exact."""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]


@njit
def acceptable(states: Ints, rewards: Array, first: int, last: int, S: int) -> bool:
    """Whether all rows of a user make sense: states that exist, rewards that are finite."""
    for i in range(first, last):  # noqa: SIM110
        if states[i] < 0 or states[i] >= S or not np.isfinite(rewards[i]):
            return False
    return True


@njit
def on_grid(value: float, centre: float, radius: float, steps: float) -> int:
    """A return, centred, scaled and clipped to [-1, 1], in steps of the grid: +-1 is on it, so rounding never leaves the clip.

    Returns of finite rewards may overflow to an infinity, which the clip takes, but not to a NaN.
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
    found: int,
    unit: int,
    square: float,
    steps: float,
) -> None:
    """One trajectory's (h, g, kappa (g^2 - 1/2)) at each of its `found` first visits."""
    for j in range(found):
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
    """(counts, sums, squares) [3, s] in steps of the grid: of each valid user's first `cap` trajectories the first `visits` states."""
    sums, stamp = np.zeros((3, S), np.int64), np.full(S, -1)
    rows, returns = np.empty(visits, np.int64), np.empty(visits, np.int64)
    for u in range(users.size - 1):
        if not valid[u] or not acceptable(
            states, rewards, trajectories[users[u]], trajectories[users[u + 1]], S
        ):
            continue
        for t in range(users[u], min(users[u + 1], users[u] + cap)):
            start, stop, found = trajectories[t], trajectories[t + 1], 0
            for i in range(start, stop):  # forward: which visits count depends on the past alone
                if stamp[states[i]] != t:
                    stamp[states[i]] = t
                    rows[found] = i
                    found += 1
                    if found == visits:
                        break
            G, j = 0.0, found - 1
            # backward: powers of the discount would overflow on long trajectories
            for i in range(stop - 1, start - 1, -1):
                G = rewards[i] + discount * G
                if j >= 0 and i == rows[j]:
                    returns[j] = on_grid(G, centre, radius, steps)
                    j -= 1
            add_trajectory(sums, states, returns, rows, found, unit, square, steps)
    return sums
