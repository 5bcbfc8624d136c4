"""The inner loops over logged users, one row of sums per user: rows of public tables, added up along trajectories."""

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
def clip(value: float, largest: float) -> float:
    """To [-largest, largest]; a NaN (0 times a return that overflowed) to the lower end."""
    return min(value, largest) if value > -largest else -largest


@njit
def add_visit(sums: Array, x: Array, y: float) -> None:
    """(svec(x x^T), x y) onto `sums`."""
    m, k = x.size, 0
    for i in range(m):
        if x[i] == 0.0:  # features are often sparse
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
    """sum (svec(x x^T), x v g) over a user's first `visits` different states [user, coordinate], g the clipped return from there on.

    A state counts once for a user, at its first visit in the first trajectory that has it; a state with x = 0 does not count at all.
    """
    S, m = X.shape
    out = np.zeros((users.size - 1, m * (m + 1) // 2 + m))
    stamp, rows, silent = np.full(S, -1), np.empty(visits, np.int64), np.empty(S, np.bool_)
    for s in range(S):
        silent[s] = not np.any(X[s])
    for u in range(users.size - 1):
        if not valid[u] or not acceptable(
            states, rewards, trajectories[users[u]], trajectories[users[u + 1]], S
        ):
            continue
        left = visits
        for t in range(users[u], users[u + 1]):
            start, stop, found = trajectories[t], trajectories[t + 1], 0
            for i in range(start, stop):  # forward: which visits count depends on the past alone
                if found == left:
                    break
                s = states[i]
                if stamp[s] != u and not silent[s]:
                    stamp[s] = u
                    rows[found] = i
                    found += 1
            left -= found
            G, j = 0.0, found - 1
            # backward: powers of the discount would overflow on long trajectories
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
    """Onto sums[k]; by how much its square has grown."""
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
    """sum (z (x - discount x')^T, balance z y) over a user's steps [user, coordinate], until the next one might leave the ball.

    `reach` [state] is how long a step from there can be at most; the end of a trajectory has x' = 0. The norm is kept up step by step,
    and taken anew at the end.
    """
    S, m = X.shape
    out, difference = np.zeros((users.size - 1, m * m + m)), np.empty(m)
    for u in range(users.size - 1):
        if not valid[u] or not acceptable(
            states, rewards, trajectories[users[u]], trajectories[users[u + 1]], S
        ):
            continue
        sums, square, going = out[u], 0.0, True
        for t in range(users[u], users[u + 1]):
            start, stop = trajectories[t], trajectories[t + 1]
            for i in range(start, stop):
                s = states[i]
                # known before the step is taken
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
        size = norm_of(sums)
        if size > norm:  # by what rounding has added up to, in very many steps
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
    """A user's mean over trajectories of (1, g, a_k, b_k, e_k) [user, 2 + 3 k], as `ReturnRow` and `WeightedReturns` define them.

    A user with a row that makes no sense has zeros.
    """
    K, H, S, A = policies.shape
    out = np.zeros((users.size - 1, 2 + 3 * K))
    most = np.log(limit)
    for u in range(users.size - 1):
        first, last = trajectories[users[u]], trajectories[users[u + 1]]
        count = users[u + 1] - users[u]
        if not valid[u] or count == 0 or not acceptable(states, rewards, first, last, S):
            continue
        sane = True
        for t in range(users[u], users[u + 1]):
            for i in range(trajectories[t], trajectories[t + 1]):
                step = i - trajectories[t]
                sane = (
                    sane
                    and 0 <= actions[i] < A
                    and 0.0 < probabilities[i] <= 1.0
                    and (H == 1 or step < H)
                )
        if not sane:
            continue
        out[u, 0] = 1.0
        for t in range(users[u], users[u + 1]):
            start, stop = trajectories[t], trajectories[t + 1]
            G = 0.0
            for i in range(stop - 1, start - 1, -1):
                G = rewards[i] + discount * G
            g = clip((G - centre) / radius, 1.0)
            out[u, 1] += g / count
            for k in range(K):
                log_weight, decided, power, above = 0.0, 0.0, 1.0, False
                for i in range(start, stop):
                    p = policies[k, 0 if H == 1 else i - start, states[i], actions[i]]
                    log_weight += np.log(p) - np.log(probabilities[i]) if p > 0.0 else -np.inf
                    # Products that equal the limit are not above it, whatever rounding does.
                    above = log_weight > most + 1e-9 or (per_decision and above)
                    decided += power * np.exp(min(log_weight, most)) * rewards[i]
                    power *= discount
                a = np.exp(min(log_weight, most)) / limit
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
    """svec(g g^T) / level^2 of each user's g = offset + row gain, in the band of its norm [band, coordinate], in steps of the grid.

    g is scaled to norm at most `top`. Band j holds norms up to level = top ratio^j that are not in the next band; the last one everything
    below. g is computed user by user, in one order: a library's matrix product may round differently in other company.
    """
    m = offset.size
    sums, g = np.zeros((bands, m * (m + 1) // 2)), np.empty(m)
    for u in range(rows.shape[0]):
        g[:] = offset
        for k in range(rows.shape[1]):
            if rows[u, k] != 0.0:
                for i in range(m):
                    g[i] += rows[u, k] * gain[k, i]
        largest, finite = 0.0, True
        for i in range(m):
            finite = finite and np.isfinite(g[i])
            largest = max(largest, abs(g[i]))
        if not finite or largest == 0.0:
            continue
        g /= largest  # the scale is taken out before squaring
        norm = norm_of(g)
        size, band, level, k = min(largest * norm, top), 0, top, 0
        while band < bands - 1 and size <= level * ratio:
            level *= ratio
            band += 1
        g *= min(size / level, 1.0) / norm
        for i in range(m):
            for j in range(i, m):
                sums[band, k] += np.rint(g[i] * g[j] * (1.0 if i == j else np.sqrt(2.0)) / grid)
                k += 1
    return sums
