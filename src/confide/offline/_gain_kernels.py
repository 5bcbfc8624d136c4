"""The loops over logged trajectories for improvement bounds: gains over the logged policy, and
returns.
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
def sensible(
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
def before_gap(gaps: Ints, begin: int, stop: int) -> int:
    """The first row of a trajectory before which steps are missing, or `stop`.

    Without a column of steps `gaps` is empty.
    """
    for i in range(begin + 1, stop if gaps.size > 0 else begin):
        if gaps[i]:
            return i
    return stop


@njit
def reward_of(
    public_rewards: Array, state: int, action: int, logged: float, low: float, high: float
) -> float:
    """The public reward, or the logged one, clipped."""
    return (
        float(public_rewards[state, action])
        if public_rewards.size > 0
        else min(max(logged, low), high)
    )


@njit
def gains(
    states: Ints,
    actions: Ints,
    rewards: Array,
    probabilities: Array,
    trajectories: Ints,
    users: Ints,
    valid: Ints,
    gaps: Ints,
    target: Array,
    changed: Ints,
    terminal: Ints,
    public_rewards: Array,
    low: float,
    high: float,
    discount: float,
    rest: Array,
    ends: bool,
    share: float,
    clip: float,
) -> Array:
    """sum_t discount^t r_t (min(rho_t, clip) - 1) of each user's first trajectory [user], up to
    rest.size - 1 steps.

    rest[k] is the most that k more steps can earn, so -rest[k] the least that they can add. It is
    added where a trajectory stops early in a state that is not terminal, and stopping is no end; or
    where steps are missing before row i (`gaps` [i]), because nothing is known from there on. A
    user whose data make no sense has zero.
    """
    S, A = target.shape
    horizon = rest.size - 1
    out = np.zeros(valid.size)
    for u in range(valid.size):
        begin = trajectories[users[u]]
        finish = trajectories[users[u + 1]]
        if (
            not valid[u]
            or begin == finish
            or not sensible(states, actions, rewards, begin, finish, S, A)
        ):
            continue
        whole = min(trajectories[users[u] + 1], begin + horizon)
        stop = before_gap(gaps, begin, whole)
        log_weight = 0.0
        power = 1.0
        total = 0.0
        sane = True
        over = ends and stop == whole
        for i in range(begin, stop):
            s = states[i]
            a = actions[i]
            p = probabilities[i]
            if not 0.0 < p <= 1.0:
                sane = False
                break
            if changed[s]:
                # The cap keeps the logarithm finite.
                ratio = min(1.0 - share + share * target[s, a] / p, 1e300)
                log_weight += np.log(ratio) if ratio > 0.0 else -np.inf
            r = reward_of(public_rewards, s, a, rewards[i], low, high)
            total += power * r * (np.exp(min(log_weight, np.log(clip))) - 1.0)
            power *= discount
            if terminal[s]:
                over = True
                break
        if sane:
            out[u] = total if over else total - power * rest[horizon - (stop - begin)]
    return out


@njit
def returns(
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
    missing: float,
) -> Array:
    """The return of each user's first trajectory [user], up to rest.size - 1 steps; rest[k] is the
    most that k more steps can add.

    Where a trajectory stops early in a state that is not terminal, and stopping is no end, or where
    steps are missing before row i (`gaps` [i]), the most that could have followed is added. A user
    whose data make no sense has `missing`.
    """
    S = terminal.size
    horizon = rest.size - 1
    out = np.full(valid.size, missing)
    for u in range(valid.size):
        begin = trajectories[users[u]]
        finish = trajectories[users[u + 1]]
        if (
            not valid[u]
            or begin == finish
            or not sensible(states, actions, rewards, begin, finish, S, choices)
        ):
            continue
        whole = min(trajectories[users[u] + 1], begin + horizon)
        stop = before_gap(gaps, begin, whole)
        total = 0.0
        power = 1.0
        over = ends and stop == whole
        for i in range(begin, stop):
            total += power * reward_of(public_rewards, states[i], actions[i], rewards[i], low, high)
            power *= discount
            if terminal[states[i]]:
                over = True
                break
        if not over:
            total += power * rest[horizon - (stop - begin)]
        out[u] = total
    return out
