"""Counts what users contribute to a tabular MDP, in whole numbers.

Devices compute the same numbers (`clients/typescript`), so the constants are part of the messages.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Ints = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]
# A user's whole budget, in the units of costs.
BUDGET = 2**40
# A cost times this number is the square of a weight in steps of the grid, where one is 2**24 steps.
STEPS_PER_COST = 2**8
# A reward of one, in the units in which rewards are counted.
REWARD_UNITS = 2**20
# A reward scale of one, in the units in which the statistic states it.
SCALE_UNITS = 2**8


@njit
def budgeted_counts(
    states: Ints,
    actions: Ints,
    rewards: Array,
    layers: int,
    action_count: int,
    indptr: Ints,
    successors: Ints,
    costs: Ints,
    reward_scale: int,
    sums: Ints,
) -> None:
    """Add what each user contributes to `sums`: the cells, then sums of rewards by pair.

    Sums of rewards exist if reward_scale > 0. A step counts if it can exist, and if its pair has a
    cost that the user's budget can still pay. Other steps contribute nothing.

    If a pair counts for the c-th time, floor(sqrt(c w)) - floor(sqrt((c - 1) w)) steps of the grid
    are added, where w is the cost times STEPS_PER_COST. So c visits add floor(sqrt(c w)) together.
    These roots are exact because the numbers are at most 2**48.
    """
    users, horizon = actions.shape
    state_count = (indptr.size - 1) // (layers * action_count)
    cells = indptr[indptr.size - 1]
    times_counted = np.zeros(indptr.size - 1, dtype=np.int64)
    counted_pairs = np.zeros(horizon, dtype=np.int64)
    for i in range(users):
        spent = 0
        counted_steps = 0
        for h in range(horizon if layers == 1 else min(layers, horizon)):
            state = states[i, h]
            action = actions[i, h]
            successor = states[i, h + 1]
            if not (0 <= state < state_count and 0 <= successor < state_count):
                continue
            if not 0 <= action < action_count:
                continue
            layer = h if layers > 1 else 0
            pair = (layer * state_count + state) * action_count + action
            cost = costs[pair]
            if cost <= 0 or spent + cost > BUDGET:
                continue
            # Binary search. In a function of its own it would take 30 % longer (measured).
            cell = indptr[pair]
            last_cell = indptr[pair + 1] - 1
            while cell < last_cell:
                middle = (cell + last_cell) // 2
                if successors[middle] >= successor:
                    last_cell = middle
                else:
                    cell = middle + 1
            if cell > last_cell or successors[cell] != successor:
                continue
            if reward_scale > 0 and not np.isfinite(rewards[i, h]):
                continue
            spent += cost
            count = times_counted[pair] + 1
            times_counted[pair] = count
            counted_pairs[counted_steps] = pair
            counted_steps += 1
            weight = np.int64(np.sqrt(float(count * cost * STEPS_PER_COST)))
            weight -= np.int64(np.sqrt(float((count - 1) * cost * STEPS_PER_COST)))
            sums[cell] += weight
            if reward_scale > 0:
                reward = np.int64(min(max(rewards[i, h], 0.0), 1.0) * REWARD_UNITS)
                scaled_reward = weight * reward_scale * reward
                sums[cells + pair] += scaled_reward // (REWARD_UNITS * SCALE_UNITS)
        for step in range(counted_steps):
            times_counted[counted_pairs[step]] = 0
