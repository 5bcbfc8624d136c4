"""The inner loops of planning on noisy counts of transitions. Pair p has cells indptr[p]:indptr[p + 1]."""

import math

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_FAINT = 1e-9  # probabilities that predicted visits leave out


@njit
def visits(
    policies: Ints,
    start: Array,
    layers: int,
    choices: int,
    indptr: Ints,
    successors: Ints,
    probabilities: Array,
    rest: Array,
) -> Array:
    """How often each policy [q, h, s] is expected to be in each pair [q, pair]; a state without cells ends the episode.

    rest [pair] is the probability that is spread evenly over all states.
    """
    Q, H, S = policies.shape
    expected = np.zeros((Q, indptr.size - 1))
    for q in range(Q):
        at, moved = start.copy(), np.zeros(S)
        for h in range(H):
            if layers > 1 and h >= layers:
                break
            moved[:] = 0.0
            spread = 0.0
            for s in range(S):
                if at[s] > _FAINT:
                    pair = ((h if layers > 1 else 0) * S + s) * choices + policies[q, h, s]
                    expected[q, pair] += at[s]
                    spread += at[s] * rest[pair]
                    for k in range(indptr[pair], indptr[pair + 1]):
                        moved[successors[k]] += at[s] * probabilities[k]
            if spread > 0.0:
                moved += spread / S
            at, moved = moved, at
    return expected


@njit
def best_actions(
    layers: int,
    indptr: Ints,
    successors: Ints,
    probabilities: Array,
    rest: Array,
    rewards: Array,
    hopeful: Bools,
) -> Ints:
    """Actions [h, s] by backward induction for rewards [h, s, a]; a state without cells stays where it is. A `hopeful` pair leads to the
    best of the states that it may lead to."""
    H, S, A = rewards.shape
    actions = np.zeros((H, S), dtype=np.int64)
    later, now = np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        average, highest = later.sum() / S, later.max()
        for s in range(S):
            best = -1.0
            for a in range(A):
                value = rewards[h, s, a]
                if layers == 1 or h < layers:
                    pair = ((h if layers > 1 else 0) * S + s) * A + a
                    if rest[pair] > 0.0:
                        value += highest if hopeful[pair] else rest[pair] * average
                    elif indptr[pair] == indptr[pair + 1]:
                        value += later[s]
                    elif hopeful[pair]:
                        value += later[successors[indptr[pair] : indptr[pair + 1]]].max()
                    if not hopeful[pair]:
                        for k in range(indptr[pair], indptr[pair + 1]):
                            value += probabilities[k] * later[successors[k]]
                if value > best:
                    best, actions[h, s] = value, a
            now[s] = best
        later, now = now, later
    return actions


@njit
def thinned(
    indptr: Ints, successors: Ints, probabilities: Array, states: int, least: float
) -> tuple[Ints, Ints, Array, Array]:
    """The cells of pairs that may lead anywhere, without those of probability below `least`; and what these have together [pair]."""
    pairs = indptr.size - 1
    starts, rest = np.zeros(pairs + 1, dtype=np.int64), np.zeros(pairs)
    for p in range(pairs):
        full, kept = indptr[p + 1] - indptr[p] == states, 0
        for k in range(indptr[p], indptr[p + 1]):
            if full and probabilities[k] < least:
                rest[p] += probabilities[k]
            else:
                kept += 1
        starts[p + 1] = starts[p] + kept
    left, chances, n = np.empty(starts[pairs], dtype=np.int64), np.empty(starts[pairs]), 0
    for p in range(pairs):
        full = indptr[p + 1] - indptr[p] == states
        for k in range(indptr[p], indptr[p + 1]):
            if not (full and probabilities[k] < least):
                left[n], chances[n] = successors[k], probabilities[k]
                n += 1
    return starts, left, chances, rest


@njit
def _cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@njit
def _inside(a: float, b: float) -> float:
    """P(a < Z < b), without losing it in a tail."""
    return _cdf(b) - _cdf(a) if a < 0 else _cdf(-a) - _cdf(-b)


@njit
def spike_and_slab(
    counts: Array, noise: Array, totals: Array, slab: Array, indptr: Ints
) -> tuple[Array, Array]:
    """For noisy counts [cell]: the probability that a cell is no zero, and its mean then.

    A count is 0, or with probability slab [pair] uniform on [0, total]; noise [pair] is the standard deviation of what is added to it.
    """
    chances, means = np.zeros(counts.size), np.zeros(counts.size)
    for p in range(indptr.size - 1):
        s, N = noise[p], totals[p]
        for k in range(indptr[p], indptr[p + 1]):
            y = counts[k]
            if s <= 0.0:
                chances[k], means[k] = (1.0, y) if y > 0.0 else (0.0, 0.0)
                continue
            a, b = -y / s, (N - y) / s
            F = _inside(a, b)
            spike = math.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi) / s * (1.0 - slab[p])
            if F < 1e-290:  # far outside: at the nearer end
                chances[k], means[k] = (1.0, N) if y > 0 else (0.0, 0.0)
                continue
            chances[k] = slab[p] * F / N / (slab[p] * F / N + spike)
            tails = math.exp(-0.5 * a * a) - math.exp(-0.5 * b * b)
            means[k] = min(max(y + s * tails / math.sqrt(2.0 * math.pi) / F, 0.0), N)
    return chances, means


@njit
def _truncated(a: float, b: float, rng: np.random.Generator) -> float:
    """A standard normal between a and b, by rejection."""
    if a > 0 or b < 0:
        flip = b < 0
        if flip:
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
        return -z if flip else z
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
def draw(
    counts: Array,
    noise: Array,
    totals: Array,
    chances: Array,
    indptr: Ints,
    rng: np.random.Generator,
) -> Array:
    """Transition probabilities [cell], drawn: the counts given what was released, probabilities given the counts."""
    drawn = np.zeros(counts.size)
    for p in range(indptr.size - 1):
        first, last, s = indptr[p], indptr[p + 1], noise[p]
        if first == last:
            continue
        total = 0.0
        for k in range(first, last):
            if chances[k] <= 0.0 or (chances[k] < 1.0 and rng.random() >= chances[k]):
                continue
            n = counts[k]
            if s > 0.0:
                a, b = -counts[k] / s, (totals[p] - counts[k]) / s
                n = (
                    totals[p]
                    if b < -30.0
                    else 0.0
                    if a > 30.0
                    else counts[k] + s * _truncated(a, b, rng)
                )
            if n > 0.0:
                drawn[k] = rng.standard_gamma(n)
                total += drawn[k]
        k = first + int(rng.random() * (last - first))
        more = rng.standard_exponential()
        drawn[k] += more
        total += more
        for k in range(first, last):
            drawn[k] /= total
    return drawn


@njit
def normalised(counts: Array, indptr: Ints, prior: float) -> Array:
    """Each pair's counts plus `prior` spread evenly, divided by their sum."""
    result = np.zeros(counts.size)
    for p in range(indptr.size - 1):
        first, last = indptr[p], indptr[p + 1]
        total = prior
        for k in range(first, last):
            total += counts[k]
        for k in range(first, last):
            result[k] = (counts[k] + prior / (last - first)) / total
    return result
