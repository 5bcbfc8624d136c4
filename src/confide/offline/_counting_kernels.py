"""The inner loop over logged trajectories: weighted counts of rows and transitions, in whole
numbers, so that sums are exact.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]
# A reward of one.
FINE = 2**20
# A weight of one.
PART = 2**8


# The check of a user stands in each file of kernels that needs it, under its own name, because a
# kernel may call kernels of its own file only: a cached kernel does not notice that one in another
# file has changed. The three copies (_counting_kernels, _gain_kernels, _return_kernels) must agree
# about which users contribute zero.
@njit
def acceptable(
    states: Ints, actions: Ints, rewards: Array, first: int, last: int, S: int, A: int
) -> bool:
    """Whether all rows of a user make sense: states and actions that exist, rewards that are
    finite.
    """
    for i in range(first, last):
        if (
            states[i] < 0
            or states[i] >= S
            or actions[i] < 0
            or actions[i] >= A
            or not np.isfinite(rewards[i])
        ):
            return False
    return True


@njit
def reward_in_steps(value: float, centre: float, inverse: float) -> int:
    """A reward, centred, divided by the radius and clipped to [-1, 1], in steps of 1 / FINE,
    rounded towards zero.
    """
    scaled = (value - centre) * inverse
    if not scaled > -1.0:
        scaled = -1.0
    return int(min(scaled, 1.0) * FINE)


@njit
def cell_of(successors: Ints, low: int, high: int, after: int, S: int) -> int:
    """Where a pair with cells low <= k < high counts this successor; -1 if it cannot follow."""
    if high - low == S:
        return low + after
    high -= 1
    while low < high:
        middle = (low + high) // 2
        if successors[middle] >= after:
            high = middle
        else:
            low = middle + 1
    return low if low == high and successors[low] == after else -1


@njit
def successor(states: Ints, gaps: Ints, i: int, stop: int, end: int, ended: bool) -> int:
    """The state after row i of a trajectory that stops before row `stop`; -1 if it is not known."""
    if i + 1 == stop:
        return end if ended else -1
    return -1 if gaps.size > 0 and gaps[i + 1] else states[i + 1]


@njit
def add_totals(sums: Ints, indptr: Ints, cuts: int, total: int) -> None:
    """The totals of rows, cut rows included, where they are in `sums`."""
    rows = indptr.size - 1
    cells = indptr[rows]
    first = cells + (rows if cuts > 0 else 0)
    for row in range(rows):
        for cell in range(indptr[row], indptr[row + 1]):
            sums[first + row] += sums[cell] // PART * total
        if cuts > 0:
            sums[first + row] += sums[cells + row] // PART * total


@njit
def count(
    states: Ints,
    actions: Ints,
    rewards: Array,
    trajectories: Ints,
    users: Ints,
    valid: Ints,
    gaps: Ints,
    logged: int,
    choices: int,
    indptr: Ints,
    successors: Ints,
    weights: Ints,
    longest: int,
    cuts: int,
    total: int,
    reward: int,
    centre: float,
    radius: float,
    starts: int,
    sums: Ints,
) -> None:
    """Add up all users in `sums`, which are zero: cells, then cut rows (cuts > 0), row totals
    (total > 0), row sums of rewards (reward > 0) and first states.

    States that may be logged are 0..logged - 1; with one more, the end, the last row of a
    trajectory of fewer than `longest` rows leads to it. A row whose successor is not known is cut:
    another last row; a row before missing steps (gaps [i], if there are any, says that steps are
    missing before row i); and a row of a terminal state, which has no cells, and after which
    nothing of its trajectory counts. weights [i] is the weight of the i-th visit to a row, in steps
    of the grid, and a multiple of PART, so that totals are exact; weights.size - 1 rows of a user
    count.
    """
    rows = indptr.size - 1
    inverse = 1.0 / radius
    S = rows // choices
    K = weights.size - 1
    cells = indptr[rows]
    row_totals = cells + (rows if cuts > 0 else 0)
    sums_of_rewards = row_totals + (rows if total > 0 else 0)
    first_states = sums_of_rewards + (rows if reward > 0 else 0)
    often = np.zeros(rows, np.int32)
    touched = np.zeros(K, np.int64)
    for u in range(valid.size):
        begin = trajectories[users[u]]
        finish = trajectories[users[u + 1]]
        if (
            not valid[u]
            or begin == finish
            or not acceptable(states, actions, rewards, begin, finish, logged, choices)
        ):
            continue
        if starts > 0:
            sums[first_states + states[begin]] += starts
        counted = 0
        for t in range(users[u], users[u + 1]):
            start = trajectories[t]
            stop = trajectories[t + 1]
            ended = logged < S and stop - start < longest
            for i in range(start, stop):
                if counted == K:
                    break
                row = states[i] * choices + actions[i]
                terminal = indptr[row] == indptr[row + 1]
                after = -1 if terminal else successor(states, gaps, i, stop, logged, ended)
                if after < 0:
                    cell = cells + row if cuts > 0 else -1
                else:
                    cell = cell_of(successors, indptr[row], indptr[row + 1], after, S)
                if cell >= 0:
                    touched[counted] = row
                    counted += 1
                    often[row] += 1
                    weight = weights[often[row]]
                    sums[cell] += weight
                    if reward > 0:
                        x = reward_in_steps(rewards[i], centre, inverse)
                        size = (weight // PART * reward * abs(x)) // FINE
                        sums[sums_of_rewards + row] += size if x > 0 else -size
                if terminal:
                    break
        for k in range(counted):
            often[touched[k]] = 0
    if total > 0:
        add_totals(sums, indptr, cuts, total)
