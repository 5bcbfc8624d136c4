"""The inner loops over logged users: one row of sums per user, from rows of public tables.

PRIVATE side. What clips here is what the sensitivities in the files of contributions rest on. The
files in tests/evaluation compare these loops with plain NumPy.
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
    fine = True
    for i in range(first, last):
        fine = fine and 0 <= states[i] < S and np.isfinite(rewards[i])
    return fine


@njit
def acceptable_actions(actions: Ints, probabilities: Array, first: int, last: int, A: int) -> bool:
    """Whether all actions exist, with probabilities in (0, 1]."""
    fine = True
    for i in range(first, last):
        fine = fine and 0 <= actions[i] < A and 0.0 < probabilities[i] <= 1.0
    return fine


@njit
def clip(value: float, largest: float) -> float:
    """Clip to [-largest, largest]. A NaN (0 times a return that overflowed) becomes -largest."""
    return min(value, largest) if value > -largest else -largest


@njit
def add_visit(sums: Array, x: Array, y: float) -> None:
    """Add (svec(x x^T), x y) to `sums`."""
    m = x.size
    k = 0
    for i in range(m):
        # Features are often sparse.
        if x[i] == 0.0:
            k += m - i
            continue
        for j in range(i, m):
            sums[k] += x[i] * x[j] * (1.0 if i == j else np.sqrt(2.0))
            k += 1
    for i in range(m):
        sums[k + i] += x[i] * y


@njit
def visit_sums(
    states: Ints,
    rewards: Array,
    trajectories: Ints,
    users: Ints,
    valid: Ints,
    X: Array,
    v: Array,
    visits: int,
    discount: float,
    centre: float,
    radius: float,
) -> Array:
    """sum (svec(x x^T), x v g) over a user's first `visits` different states [user, coordinate].

    g is the clipped return from there on. A state counts once for a user, at its first visit in the
    first trajectory that has it. A state with x = 0 does not count at all.
    """
    S, m = X.shape
    out = np.zeros((users.size - 1, m * (m + 1) // 2 + m))
    # The last user who visited a state, and whether a state does not count [state].
    stamp = np.full(S, -1)
    silent = np.empty(S, np.bool_)
    for s in range(S):
        silent[s] = not np.any(X[s])
    # The rows of a trajectory's first visits [visit].
    rows = np.empty(visits, np.int64)
    for u in range(users.size - 1):
        if not valid[u] or not acceptable(
            states, rewards, trajectories[users[u]], trajectories[users[u + 1]], S
        ):
            continue
        left = visits
        for t in range(users[u], users[u + 1]):
            start = trajectories[t]
            stop = trajectories[t + 1]
            visited = 0
            # Forward: which visits count depends on the past alone.
            for i in range(start, stop):
                if visited == left:
                    break
                s = states[i]
                if stamp[s] != u and not silent[s]:
                    stamp[s] = u
                    rows[visited] = i
                    visited += 1
            left -= visited
            # Backward, because powers of the discount would overflow on long trajectories.
            G = 0.0
            j = visited - 1
            for i in range(stop - 1, start - 1, -1):
                G = rewards[i] + discount * G
                if j >= 0 and i == rows[j]:
                    add_visit(out[u], X[states[i]], v[states[i]] * clip((G - centre) / radius, 1.0))
                    j -= 1
    return out


@njit
def norm_of(sums: Array) -> float:
    square = 0.0
    for value in sums:
        square += value * value
    return np.sqrt(square)  # type: ignore[no-any-return]


@njit
def add_to(sums: Array, k: int, value: float) -> float:
    """Add to sums[k], and return by how much its square has grown."""
    before: float = sums[k]
    sums[k] = before + value
    return value * (2.0 * before + value)


@njit
def temporal_sums(
    states: Ints,
    rewards: Array,
    trajectories: Ints,
    users: Ints,
    valid: Ints,
    Z: Array,
    X: Array,
    reach: Array,
    norm: float,
    balance: float,
    discount: float,
    centre: float,
    radius: float,
) -> Array:
    """sum (z (x - discount x')^T, balance z y) over a user's steps [user, coordinate].

    Steps count until the next one might leave the ball of radius `norm`. `reach` [state] is how
    long a step from there can be at most. The end of a trajectory has x' = 0. The square of the
    norm is kept up step by step, and taken anew at the end.
    """
    S, m = X.shape
    out = np.zeros((users.size - 1, m * m + m))
    difference = np.empty(m)
    for u in range(users.size - 1):
        if not valid[u] or not acceptable(
            states, rewards, trajectories[users[u]], trajectories[users[u + 1]], S
        ):
            continue
        sums = out[u]
        square = 0.0
        going = True
        for t in range(users[u], users[u + 1]):
            start = trajectories[t]
            stop = trajectories[t + 1]
            for i in range(start, stop):
                s = states[i]
                # This is known before the step is taken.
                going = going and np.sqrt(max(square, 0.0)) + reach[s] <= norm
                if not going:
                    break
                ends = i == stop - 1
                difference[:] = X[s]
                if not ends:
                    difference -= discount * X[states[i + 1]]
                y = (rewards[i] - centre + (0.0 if ends else discount * centre)) / radius
                y = balance * clip(y, 1.0 if ends else 1.0 + discount)
                for a in range(m):
                    if Z[s, a] != 0.0:
                        for b in range(m):
                            square += add_to(sums, a * m + b, Z[s, a] * difference[b])
                        square += add_to(sums, m * m + a, Z[s, a] * y)
            if not going:
                break
        # Required for privacy: rounding may add up in very many steps.
        size = norm_of(sums)
        if size > norm:
            sums *= norm / size
    return out


@njit
def weighted_returns(
    states: Ints,
    rewards: Array,
    actions: Ints,
    probabilities: Array,
    trajectories: Ints,
    users: Ints,
    valid: Ints,
    policies: Array,
    discount: float,
    limit: float,
    centre: float,
    radius: float,
    per_decision: bool,
    middle: float,
    half: float,
) -> Array:
    """A user's mean over trajectories of (1, g, a_k, b_k, e_k) [user, 2 + 3 k].

    `ReturnRow` and `WeightedReturns` define these numbers. A user with a row that makes no sense
    has zeros.
    """
    K, H, S, A = policies.shape
    out = np.zeros((users.size - 1, 2 + 3 * K))
    largest_log = np.log(limit)
    for u in range(users.size - 1):
        first = trajectories[users[u]]
        last = trajectories[users[u + 1]]
        count = users[u + 1] - users[u]
        if not valid[u] or count == 0 or not acceptable(states, rewards, first, last, S):
            continue
        sane = True
        for t in range(users[u], users[u + 1]):
            sane = sane and (H == 1 or trajectories[t + 1] - trajectories[t] <= H)
        if not sane or not acceptable_actions(actions, probabilities, first, last, A):
            continue
        out[u, 0] = 1.0
        for t in range(users[u], users[u + 1]):
            start = trajectories[t]
            stop = trajectories[t + 1]
            G = 0.0
            for i in range(stop - 1, start - 1, -1):
                G = rewards[i] + discount * G
            g = clip((G - centre) / radius, 1.0)
            out[u, 1] += g / count
            for k in range(K):
                log_weight = 0.0
                # Rewards, each with the weight of the decisions up to it.
                decided = 0.0
                power = 1.0
                above = False
                for i in range(start, stop):
                    p = policies[k, 0 if H == 1 else i - start, states[i], actions[i]]
                    log_weight += np.log(p) - np.log(probabilities[i]) if p > 0.0 else -np.inf
                    # Products that equal the limit are not above it, whatever rounding does.
                    above = log_weight > largest_log + 1e-9 or (per_decision and above)
                    decided += power * np.exp(min(log_weight, largest_log)) * rewards[i]
                    power *= discount
                a = np.exp(min(log_weight, largest_log)) / limit
                b = a * g
                if per_decision:
                    b = clip((decided / limit - middle) / half, 1.0)
                if above:
                    a = 1.0
                    b = b if per_decision else g
                    out[u, 2 + 2 * K + k] += 1.0 / count
                out[u, 2 + k] += a / count
                out[u, 2 + K + k] += b / count
    return out


@njit
def rounded_sum(rows: Array, grid: float) -> Array:
    """Each user's row in steps of the grid, rounded, then added up: whole numbers, so exact."""
    sums = np.zeros(rows.shape[1])
    for u in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            sums[k] += np.rint(rows[u, k] / grid)
    return sums


@njit
def band_sums(
    rows: Array, gain: Array, offset: Array, top: float, ratio: float, bands: int, grid: float
) -> Array:
    """svec(g g^T) / level^2 of each user's g = offset + row gain, in the band of its norm.

    The sums [band, coordinate] are in steps of the grid. g is scaled to norm at most `top`. Band j
    holds norms up to level = top ratio^j that are not in the next band, and the last one everything
    below. g is computed user by user, in one order: a library's matrix product may round
    differently in other company.
    """
    m = offset.size
    sums = np.zeros((bands, m * (m + 1) // 2))
    g = np.empty(m)
    for u in range(rows.shape[0]):
        g[:] = offset
        for k in range(rows.shape[1]):
            if rows[u, k] != 0.0:
                for i in range(m):
                    g[i] += rows[u, k] * gain[k, i]
        largest = 0.0
        finite = True
        for i in range(m):
            finite = finite and np.isfinite(g[i])
            largest = max(largest, abs(g[i]))
        if not finite or largest == 0.0:
            continue
        # The scale is taken out before squaring, which might overflow.
        g /= largest
        norm = norm_of(g)
        size = min(largest * norm, top)
        band = 0
        level = top
        while band < bands - 1 and size <= level * ratio:
            level *= ratio
            band += 1
        g *= min(size / level, 1.0) / norm
        k = 0
        for i in range(m):
            for j in range(i, m):
                sums[band, k] += np.rint(g[i] * g[j] * (1.0 if i == j else np.sqrt(2.0)) / grid)
                k += 1
    return sums
