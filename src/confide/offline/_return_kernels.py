"""The loop over logged trajectories for returns: of whole trajectories, and from the first visit to
each state on.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]


# The check of a user stands in each file of kernels that needs it, under its own name, because a
# kernel may call kernels of its own file only: a cached kernel does not notice that one in another
# file has changed. The three copies (_counting_kernels, _gain_kernels, _return_kernels) must agree
# about which users contribute zero.
@njit
def makes_sense(
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
def last_known(
    states: Ints, gaps: Ints, terminal: Ints, begin: int, end: int, longest: int, ends: bool
) -> tuple[int, bool]:
    """The row after the last one that is known of a trajectory, and whether nothing follows it.

    A trajectory is known up to `longest` rows, and up to the first missing step. It is over at a
    terminal state, after `longest` rows, and, if `ends`, with its last row.
    """
    whole = min(end, begin + longest)
    for i in range(begin, whole):
        if i > begin and gaps.size > 0 and gaps[i]:
            return i, False
        if terminal[states[i]]:
            return i + 1, True
    return whole, ends or whole - begin == longest


@njit
def scaled_steps(value: float, centre: float, radius: float, steps: float) -> int:
    """A return, centred, divided by the radius and clipped to [-1, 1], in steps of the grid."""
    scaled = (value - centre) / radius
    if not scaled > -1.0:
        scaled = -1.0
    return np.int64(np.rint(min(scaled, 1.0) * steps))  # type: ignore[return-value]


@njit
def add(sums: Ints, place: int, g: int, unit: int, square: float, steps: float) -> None:
    """One row (h, g, kappa (g^2 - 1/2))."""
    sums[0, place] += unit
    sums[1, place] += g
    share = g / steps
    sums[2, place] += np.int64(np.rint(square * (share * share - 0.5) * steps))


@njit
def first_visit_returns(
    states: Ints,
    actions: Ints,
    rewards: Array,
    trajectories: Ints,
    users: Ints,
    valid: Ints,
    gaps: Ints,
    terminal: Ints,
    choices: int,
    public_rewards: Array,
    low: float,
    high: float,
    discount: float,
    rest: Array,
    ends: bool,
    visits: int,
    centre: float,
    radius: float,
    steps: float,
    unit: int,
    square: float,
    sums: Ints,
) -> None:
    """Add up in sums [3, s] the first trajectory of each user: returns from the first visit on to
    the first `visits` different states.

    With visits = 0 there is one place, and g is the mean return of a user's trajectories. rest [k]
    stands for what k more steps pay where it is not known what followed; rest.size - 1 rows of a
    trajectory count.
    """
    S = terminal.size
    longest = rest.size - 1
    stamp = np.full(S, -1)
    rows = np.empty(max(visits, 1), np.int64)
    for u in range(valid.size):
        begin = trajectories[users[u]]
        finish = trajectories[users[u + 1]]
        if (
            not valid[u]
            or begin == finish
            or not makes_sense(states, actions, rewards, begin, finish, S, choices)
        ):
            continue
        total = 0.0
        met = 0
        for t in range(users[u], users[u + 1] if visits == 0 else users[u] + 1):
            start = trajectories[t]
            end = trajectories[t + 1]
            if start == end:
                continue
            stop, over = last_known(states, gaps, terminal, start, end, longest, ends)
            place = 0
            for i in range(start, stop):
                if place == visits:
                    break
                if stamp[states[i]] != u:
                    stamp[states[i]] = u
                    rows[place] = i
                    place += 1
            G = 0.0 if over else rest[longest - (stop - start)]
            for i in range(stop - 1, start - 1, -1):
                s = states[i]
                paid = min(max(rewards[i], low), high)
                if public_rewards.size > 0:
                    paid = public_rewards[s, actions[i]]
                G = paid + discount * G
                if place > 0 and rows[place - 1] == i:
                    place -= 1
                    add(sums, s, scaled_steps(G, centre, radius, steps), unit, square, steps)
            total = total + G
            met = met + 1
        if visits == 0 and met > 0:
            add(sums, 0, scaled_steps(total / met, centre, radius, steps), unit, square, steps)
