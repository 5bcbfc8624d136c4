"""The inner loops of planning on noisy counts of transitions.

The cells of pair p are indptr[p]:indptr[p + 1], as in `Support`. A plain NumPy or SciPy version of
each loop stands in tests/tables/test_model_planning.py.
"""

import math

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
# Predicted visits leave out states with a smaller probability. This saves time and changes nothing
# that matters.
SMALLEST_STATE_PROBABILITY = 1e-9
# `draw_probabilities` draws no count whose range is so many standard deviations away.
FAR_TAIL_STDS = 30.0
# Below this probability of the whole range, its nearer end is used.
SMALLEST_MASS = 1e-290


@njit
def visits(
    policies: Ints,
    start: Array,
    layers: int,
    actions: int,
    indptr: Ints,
    successors: Ints,
    probabilities: Array,
    rest: Array,
) -> Array:
    """Return how often each policy [q, h, s] is expected to visit each pair: [q, pair].

    `rest` [pair] is the probability that is spread evenly over all states. A state without cells
    ends the episode.
    """
    policy_count, horizon, states = policies.shape
    expected = np.zeros((policy_count, indptr.size - 1))
    for q in range(policy_count):
        here = start.copy()
        next_states = np.zeros(states)
        for h in range(horizon):
            if layers > 1 and h >= layers:
                break
            layer = h if layers > 1 else 0
            next_states[:] = 0.0
            spread_evenly = 0.0
            for s in range(states):
                if here[s] > SMALLEST_STATE_PROBABILITY:
                    pair = (layer * states + s) * actions + policies[q, h, s]
                    expected[q, pair] += here[s]
                    spread_evenly += here[s] * rest[pair]
                    for k in range(indptr[pair], indptr[pair + 1]):
                        next_states[successors[k]] += here[s] * probabilities[k]
            if spread_evenly > 0.0:
                next_states += spread_evenly / states
            here, next_states = next_states, here
    return expected


@njit
def best_actions(
    layers: int,
    indptr: Ints,
    successors: Ints,
    probabilities: Array,
    rest: Array,
    rewards: Array,
    optimistic_pairs: Bools,
) -> Ints:
    """Return the best actions [h, s] for rewards [h, s, a], by backward induction.

    A state without cells stays where it is. An optimistic pair [pair] leads to the best of the
    states that it may lead to.
    """
    horizon, states, action_count = rewards.shape
    actions = np.zeros((horizon, states), dtype=np.int64)
    later_values = np.zeros(states)
    values = np.zeros(states)
    for h in range(horizon - 1, -1, -1):
        mean_later = later_values.sum() / states
        max_later = later_values.max()
        layer = h if layers > 1 else 0
        for s in range(states):
            best = -1.0
            for a in range(action_count):
                value = rewards[h, s, a]
                if layers == 1 or h < layers:
                    pair = (layer * states + s) * action_count + a
                    first = indptr[pair]
                    end = indptr[pair + 1]
                    if rest[pair] > 0.0:
                        value += max_later if optimistic_pairs[pair] else rest[pair] * mean_later
                    elif first == end:
                        value += later_values[s]
                    elif optimistic_pairs[pair]:
                        value += later_values[successors[first:end]].max()
                    if not optimistic_pairs[pair]:
                        for k in range(first, end):
                            value += probabilities[k] * later_values[successors[k]]
                if value > best:
                    best = value
                    actions[h, s] = a
            values[s] = best
        later_values, values = values, later_values
    return actions


@njit
def thin_cells(
    indptr: Ints, successors: Ints, probabilities: Array, states: int, least: float
) -> tuple[Ints, Ints, Array, Array]:
    """Return the cells without those of probability below `least`, and what these have together.

    Only pairs that may lead anywhere are thinned. The result is indptr, successors, probabilities
    and the rest [pair].
    """
    pairs = indptr.size - 1
    kept_indptr = np.zeros(pairs + 1, dtype=np.int64)
    rest = np.zeros(pairs)
    for p in range(pairs):
        leads_anywhere = indptr[p + 1] - indptr[p] == states
        kept = 0
        for k in range(indptr[p], indptr[p + 1]):
            if leads_anywhere and probabilities[k] < least:
                rest[p] += probabilities[k]
            else:
                kept += 1
        kept_indptr[p + 1] = kept_indptr[p] + kept
    kept_successors = np.empty(kept_indptr[pairs], dtype=np.int64)
    kept_probabilities = np.empty(kept_indptr[pairs])
    n = 0
    for p in range(pairs):
        leads_anywhere = indptr[p + 1] - indptr[p] == states
        for k in range(indptr[p], indptr[p + 1]):
            if not (leads_anywhere and probabilities[k] < least):
                kept_successors[n] = successors[k]
                kept_probabilities[n] = probabilities[k]
                n += 1
    return kept_indptr, kept_successors, kept_probabilities, rest


@njit
def _normal_cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@njit
def _normal_mass(a: float, b: float) -> float:
    """Return P(a < Z < b), without a loss of digits in the upper tail."""
    if a < 0:
        return _normal_cdf(b) - _normal_cdf(a)
    return _normal_cdf(-a) - _normal_cdf(-b)


@njit
def spike_and_slab(
    counts: Array, noise: Array, totals: Array, slab: Array, indptr: Ints
) -> tuple[Array, Array]:
    """Return the probability [cell] that an exact count is not zero, and its mean then [cell].

    A priori an exact count is 0, or with probability slab [pair] uniform on [0, total]. The noise
    of a released count has the standard deviation noise [pair].
    """
    chances = np.zeros(counts.size)
    means = np.zeros(counts.size)
    for p in range(indptr.size - 1):
        std = noise[p]
        total = totals[p]
        for k in range(indptr[p], indptr[p + 1]):
            count = counts[k]
            if std <= 0.0:
                if count > 0.0:
                    chances[k] = 1.0
                    means[k] = count
                continue
            low = -count / std
            high = (total - count) / std
            mass = _normal_mass(low, high)
            density_at_0 = math.exp(-0.5 * low * low)
            spike = density_at_0 / math.sqrt(2.0 * math.pi) / std * (1.0 - slab[p])
            if mass < SMALLEST_MASS:
                # The released count is far outside of the range, so the nearer end is taken.
                if count > 0:
                    chances[k] = 1.0
                    means[k] = total
                continue
            chances[k] = slab[p] * mass / total / (slab[p] * mass / total + spike)
            density_difference = density_at_0 - math.exp(-0.5 * high * high)
            mean = count + std * density_difference / math.sqrt(2.0 * math.pi) / mass
            means[k] = min(max(mean, 0.0), total)
    return chances, means


@njit
def _draw_truncated_normal(a: float, b: float, rng: np.random.Generator) -> float:
    """Draw a standard normal between a and b, by rejection.

    In a tail the proposal is exponential. On a short interval it is uniform, and
    otherwise it is normal.
    """
    if a > 0 or b < 0:
        is_lower_tail = b < 0
        if is_lower_tail:
            a, b = -b, -a
        rate = 0.5 * (a + math.sqrt(a * a + 4.0))
        if rate * (b - a) < 1.5:
            z = a + (b - a) * rng.random()
            while rng.random() > math.exp(0.5 * (a * a - z * z)):
                z = a + (b - a) * rng.random()
        else:
            z = a + rng.standard_exponential() / rate
            while z > b or rng.random() > math.exp(-0.5 * (z - rate) ** 2):
                z = a + rng.standard_exponential() / rate
        return -z if is_lower_tail else z
    if b - a < 2.5:
        z = a + (b - a) * rng.random()
        while rng.random() > math.exp(-0.5 * z * z):
            z = a + (b - a) * rng.random()
        return z
    z = rng.standard_normal()
    while z < a or z > b:
        z = rng.standard_normal()
    return z


@njit
def draw_probabilities(
    counts: Array,
    noise: Array,
    totals: Array,
    chances: Array,
    indptr: Ints,
    rng: np.random.Generator,
) -> Array:
    """Draw transition probabilities [cell]: exact counts given the released ones, and then
    probabilities given the counts.

    Given counts n_k, the probabilities have a Dirichlet distribution. One cell of each pair, chosen
    at random, gets one count more, so that every cell of a pair can be drawn.
    """
    probabilities = np.zeros(counts.size)
    for p in range(indptr.size - 1):
        first = indptr[p]
        end = indptr[p + 1]
        std = noise[p]
        if first == end:
            continue
        total = 0.0
        for k in range(first, end):
            if chances[k] <= 0.0 or (chances[k] < 1.0 and rng.random() >= chances[k]):
                continue
            count = counts[k]
            if std > 0.0:
                low = -counts[k] / std
                high = (totals[p] - counts[k]) / std
                if high < -FAR_TAIL_STDS:
                    count = totals[p]
                elif low > FAR_TAIL_STDS:
                    count = 0.0
                else:
                    count = counts[k] + std * _draw_truncated_normal(low, high, rng)
            if count > 0.0:
                probabilities[k] = rng.standard_gamma(count)
                total += probabilities[k]
        random_cell = first + int(rng.random() * (end - first))
        one_count_more = rng.standard_exponential()
        probabilities[random_cell] += one_count_more
        total += one_count_more
        for k in range(first, end):
            probabilities[k] /= total
    return probabilities


@njit
def normalize_counts(counts: Array, indptr: Ints, prior: float) -> Array:
    """Return each pair's counts plus `prior` spread evenly, divided by their sum."""
    probabilities = np.zeros(counts.size)
    for p in range(indptr.size - 1):
        first = indptr[p]
        end = indptr[p + 1]
        total = prior
        for k in range(first, end):
            total += counts[k]
        for k in range(first, end):
            probabilities[k] = (counts[k] + prior / (end - first)) / total
    return probabilities
