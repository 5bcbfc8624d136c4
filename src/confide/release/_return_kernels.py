"""The inner loop over logged trajectories: one return per user, clipped. Private."""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]


@njit
def scaled_returns(
    states: Ints,
    rewards: Array,
    trajectories: Ints,
    users: Ints,
    valid: Ints,
    S: int,
    discount: float,
    centre: float,
    radius: float,
) -> Array:
    """(1, the mean over trajectories of g) [user, 2], g = (discounted sum of rewards -
    centre)/radius, clipped to [-1, 1].

    A user with a row that makes no sense has (0, 0).
    """
    out = np.zeros((users.size - 1, 2))
    for u in range(users.size - 1):
        count = users[u + 1] - users[u]
        sane = valid[u] and count > 0
        for i in range(trajectories[users[u]], trajectories[users[u + 1]]):
            sane = sane and 0 <= states[i] < S and np.isfinite(rewards[i])
        if not sane:
            continue
        out[u, 0] = 1.0
        for t in range(users[u], users[u + 1]):
            G = 0.0
            for i in range(trajectories[t + 1] - 1, trajectories[t] - 1, -1):
                G = rewards[i] + discount * G
            g = (G - centre) / radius
            # A NaN, as of infinities that cancel, counts as -1.
            if not g > -1.0:
                g = -1.0
            out[u, 1] += min(g, 1.0) / count
    return out
