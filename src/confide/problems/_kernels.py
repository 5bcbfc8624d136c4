"""The inner loops of exact planning and of sampling, over sparse rows.

Row r = (layer * S + s) * A + a of the transitions has the entries indptr[r]:indptr[r + 1] of
successors and their probabilities. The order in which random numbers are used decides the users of
a seed, so it must not change.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]


@njit
def expect(
    indptr: Ints, successors: Ints, probabilities: Array, first: int, rows: int, values: Array
) -> Array:
    """sum_s' P(s' | row) values[s'] for `rows` rows from `first` on."""
    result = np.empty(rows)
    for r in range(rows):
        total = 0.0
        for k in range(indptr[first + r], indptr[first + r + 1]):
            total += probabilities[k] * values[successors[k]]
        result[r] = total
    return result


@njit
def push(
    indptr: Ints, successors: Ints, probabilities: Array, first: int, masses: Array, states: int
) -> Array:
    """The distribution after one step from masses [row]."""
    result = np.zeros(states)
    for r in range(masses.size):
        if masses[r] != 0.0:
            for k in range(indptr[first + r], indptr[first + r + 1]):
                result[successors[k]] += masses[r] * probabilities[k]
    return result


@njit
def follow(
    indptr: Ints,
    successors: Ints,
    probabilities: Array,
    layer_rows: int,
    rewards: Array,
    actions: Ints,
) -> Array:
    """Values [h, s], h = 0..H, of the policy actions [h, s]."""
    H, S, A = rewards.shape
    values = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        for s in range(S):
            a = actions[h, s]
            row = h * layer_rows + s * A + a
            later = 0.0
            for k in range(indptr[row], indptr[row + 1]):
                later += probabilities[k] * values[h + 1, successors[k]]
            values[h, s] = rewards[h, s, a] + later
    return values


@njit
def walk(
    start: Array,
    indptr: Ints,
    successors: Ints,
    cumulative: Array,
    layer_rows: int,
    rewards: Array,
    bernoulli: bool,
    outcome_rewards: Array,
    actions: Ints,
    action_cumulative: Array,
    states_out: Ints,
    actions_out: Ints,
    rewards_out: Array,
    draws: Array,
) -> None:
    """Independent episodes of one policy.

    `actions` [h, s] are those of a deterministic policy, or -1 where an action is drawn from the
    cumulative weights [h, s, a]. Uniform `draws` [user, draw] are used one after the other: the
    start, and for each step the action (if it is drawn), the reward (if it is) and the next state.
    `outcome_rewards` [entry] are what each outcome earns. If there are none, rewards are their
    means, or 0 or 1 with these means if `bernoulli`.
    """
    users, H = actions_out.shape
    A = rewards.shape[2]
    for i in range(users):
        s = np.searchsorted(start, draws[i, 0], side="right")
        # The next of this user's draws.
        k = 1
        states_out[i, 0] = s
        for h in range(H):
            a = actions[h, s]
            if a < 0:
                a = 0
                while a < A - 1 and draws[i, k] >= action_cumulative[h, s, a]:
                    a += 1
                k += 1
            row = h * layer_rows + s * A + a
            reward = rewards[h, s, a]
            if bernoulli:
                reward = 1.0 if draws[i, k] < reward else 0.0
                k += 1
            # The first entry whose cumulative probability is above the draw, by bisection.
            low = indptr[row]
            high = indptr[row + 1] - 1
            while low < high:
                middle = (low + high) // 2
                if cumulative[middle] > draws[i, k]:
                    high = middle
                else:
                    low = middle + 1
            if outcome_rewards.size > 0:
                reward = outcome_rewards[low]
            s = successors[low]
            k += 1
            actions_out[i, h] = a
            rewards_out[i, h] = reward
            states_out[i, h + 1] = s


@njit
def draw_directions(out: Array, rng: np.random.Generator) -> None:
    """Uniform points of the unit sphere [point, n]."""
    for i in range(len(out)):
        _direction(out[i], rng)


@njit
def walk_linear(
    A: Array,
    B: Array,
    Q: Array,
    R: Array,
    gains: Array,
    starts: Array,
    radius: float,
    states_out: Array,
    inputs_out: Array,
    rewards_out: Array,
    rng: np.random.Generator,
) -> None:
    """Independent episodes of x' = A x + B u + w, u = K_h x, w uniform in the ball of that radius.

    `gains` [g, h, d, n] are those of each user, or one for all. Users start in `starts` [s, n], one
    after the other and again from the first. Without any they start on the unit sphere, at random.
    """
    users, H, d = inputs_out.shape
    n = A.shape[0]
    x = np.empty(n)
    moved = np.empty(n)
    u = np.empty(d)
    for i in range(users):
        user_gains = gains[i % len(gains)]
        if len(starts) == 0:
            _direction(x, rng)
        else:
            x[:] = starts[i % len(starts)]
        states_out[i, 0] = x
        for h in range(H):
            cost = 0.0
            for j in range(d):
                u[j] = 0.0
                for k in range(n):
                    u[j] += user_gains[h, j, k] * x[k]
            _direction(moved, rng)
            draw = rng.random()
            # A power takes three times as long as a square root.
            length = radius * (np.sqrt(draw) if n == 2 else draw ** (1.0 / n))
            for j in range(n):
                value = length * moved[j]
                for k in range(n):
                    value += A[j, k] * x[k]
                    cost += x[j] * Q[j, k] * x[k]
                for k in range(d):
                    value += B[j, k] * u[k]
                moved[j] = value
            for j in range(d):
                for k in range(d):
                    cost += u[j] * R[j, k] * u[k]
            inputs_out[i, h] = u
            rewards_out[i, h] = -cost
            x[:] = moved
            states_out[i, h + 1] = x


@njit
def _direction(out: Array, rng: np.random.Generator) -> None:
    """A uniform point of the unit sphere."""
    total = 0.0
    # A vector of nearly zero length has no direction, so it is drawn again.
    while total < 1e-200:
        total = 0.0
        for k in range(out.size):
            out[k] = rng.standard_normal()
            total += out[k] * out[k]
    length = np.sqrt(total)
    for k in range(out.size):
        out[k] /= length
