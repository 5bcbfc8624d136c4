"""What users contribute to the counts of a table, in whole numbers."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Ints = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]
BUDGET = 2**40  # one, in the units of costs
# a cost times this is the square of a weight, in steps of the grid: 2^48 = (2^24)^2 is one
SHIFT = 2**8
FINE = 2**20  # a reward of one
PART = 2**8  # a balance of one


@njit
def budgeted(
    states: Ints,
    actions: Ints,
    rewards: Array,
    layers: int,
    choices: int,
    indptr: Ints,
    successors: Ints,
    costs: Ints,
    balance: int,
    sums: Ints,
) -> None:
    """Add what each user contributes to `sums`: the cells, and with balance > 0 behind them the rewards of each pair.

    A step counts if its pair has a cost, and the user's budget can pay it; otherwise, and where the step makes no sense, nothing happens.
    A pair that counts for the c-th time adds floor(sqrt(c cost)) - floor(sqrt((c - 1) cost)), in steps of the grid: c times give
    floor(sqrt(c cost)). These roots are exact: the numbers are at most 2^48.
    """
    users, horizon = actions.shape
    S = (indptr.size - 1) // (layers * choices)
    last = indptr[indptr.size - 1]
    often, touched = np.zeros(indptr.size - 1, dtype=np.int64), np.zeros(horizon, dtype=np.int64)
    for i in range(users):
        spent, counted = 0, 0
        for h in range(horizon if layers == 1 else min(layers, horizon)):
            s, a, after = states[i, h], actions[i, h], states[i, h + 1]
            if s < 0 or s >= S or a < 0 or a >= choices or after < 0 or after >= S:
                continue
            pair = ((h if layers > 1 else 0) * S + s) * choices + a
            cost = costs[pair]
            if cost <= 0 or spent + cost > BUDGET:
                continue
            low, high = indptr[pair], indptr[pair + 1] - 1
            while low < high:
                middle = (low + high) // 2
                if successors[middle] >= after:
                    high = middle
                else:
                    low = middle + 1
            if (
                low > high
                or successors[low] != after
                or (balance > 0 and not np.isfinite(rewards[i, h]))
            ):
                continue
            spent += cost
            c = often[pair] + 1
            often[pair], touched[counted] = c, pair
            counted += 1
            weight = np.int64(np.sqrt(float(c * cost * SHIFT))) - np.int64(
                np.sqrt(float((c - 1) * cost * SHIFT))
            )
            sums[low] += weight
            if balance > 0:
                reward = np.int64(min(max(rewards[i, h], 0.0), 1.0) * FINE)
                sums[last + pair] += weight * balance * reward // (FINE * PART)
        for k in range(counted):
            often[touched[k]] = 0
