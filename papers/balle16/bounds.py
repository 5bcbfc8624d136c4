"""The lemmas of [Balle16] and of its supplement as functions: what is printed, and what is true."""

import math
from functools import cache

import numpy as np

from confide.evaluation import LSL, LSW
from confide.mechanisms.smooth import smooth_delta
from confide.privacy.bounded import Array
from papers.balle16 import chain
from papers.balle16.search import neighbours


def main_text(epsilon: float, delta: float, dimension: int) -> tuple[float, float]:
    """(alpha, beta) of [Balle16, Lemma 1], for any epsilon and delta."""
    log = math.log(2 / delta)
    return 5 * math.sqrt(2 * log) / epsilon, epsilon / (4 * (dimension + log))


def supplement(epsilon: float, delta: float, dimension: int) -> tuple[float, float]:
    """(alpha, beta) of the supplement's Lemma 1, for epsilon <= 5 and beta <= ln 2."""
    root = math.sqrt(2 * math.log(4 / delta))
    return 15 * root / epsilon, 2 * math.log(2) * epsilon / (5 * (math.sqrt(dimension) + root) ** 2)


def true_epsilon(alpha: float, beta: float, delta: float, dimension: int) -> float:
    """The smallest epsilon for which noise alpha S(x) is (epsilon, delta)-DP."""
    if smooth_delta(0.0, alpha, beta, dimension) <= delta:
        return 0.0
    low = 0.0
    high = 1.0
    while smooth_delta(high, alpha, beta, dimension) > delta:
        low = high
        high = 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        if smooth_delta(middle, alpha, beta, dimension) <= delta:
            high = middle
        else:
            low = middle
    return high


@cache
def first_failure(delta: float, dimension: int) -> float:
    """The epsilon from which the constants of the main text give more than delta."""

    def fails(epsilon: float) -> bool:
        return smooth_delta(epsilon, *main_text(epsilon, delta, dimension), dimension) > delta

    low = 1.0
    high = 2.0
    while not fails(high):
        low = high
        high = 1.2 * high
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def lemma_10(a: float, b: float) -> tuple[float, float]:
    """max of e^(-bx)/(a - x)^2 over [0, a - 1]: (true, printed)."""
    true = max(1 / a**2, math.exp(-b * (a - 1)))
    if b < 2 / a:
        return true, 1 / a**2
    return true, math.exp(1 - a * b) if b > 2 else math.e**2 / 4 * b**2 * math.exp(-a * b)


def binomial(m: int, p: float) -> tuple[Array, Array]:
    """(0..m, their probabilities)."""
    from scipy.special import gammaln

    k = np.arange(m + 1, dtype=float)
    if p == 1:
        return k, (k == m).astype(float)
    logs = (
        gammaln(m + 1)
        - gammaln(k + 1)
        - gammaln(m - k + 1)
        + k * math.log(p)
        + (m - k) * math.log1p(-p)
    )
    return k, np.exp(logs)


def lemma_12(m: int, p: float, beta: float) -> tuple[float, float, float]:
    """E max_k e^(-k beta)/max(|X_s| - k, 1)^2, and two bounds on it.

    The first bound is the paper's. The second one has e^beta in place of e^2 beta^2/4.
    """
    k, weights = binomial(m, p)
    exact = float(
        weights @ np.maximum(1 / np.maximum(k, 1) ** 2, np.exp(-beta * np.maximum(k - 1, 0)))
    )
    return (
        exact,
        _occupancy_bound(m, p, math.e**2 * beta**2 / 4, beta),
        _occupancy_bound(m, p, math.exp(beta), beta),
    )


def theorem_13(users: int, runs: int = 50) -> tuple[float, float]:
    """The excess risk of DP-LSW and the bound, in units of alpha^2.

    They are for the chain as a table with w = 1 and epsilon = delta = .1.
    """
    beta = main_text(0.1, 0.1, chain.STATES)[1]
    model = chain.lsw()
    rng = np.random.default_rng(3)
    squared_sensitivities = [
        model.smooth_sensitivity(counts, users, beta, printed=True) ** 2
        for counts in _chain_counts(users, chain.STATES, runs, rng)
    ]
    bound = sum(
        _occupancy_bound(users, float(p), math.e**2 * beta**2 / 4, beta)
        for p in chain.STARTS["uniform"]
    )
    return chain.STATES * float(np.mean(squared_sensitivities)), chain.STATES * bound


def _occupancy_bound(m: int, p: float, factor: float, beta: float) -> float:
    return 6 / (p**2 * (m + 1) * (m + 2)) + factor * (1 - (1 - math.exp(-beta)) * p) ** m


def lemma_17(a: float, b: float, m: float) -> tuple[float, float]:
    """max of e^(-2bx)(a + x) over [0, m - a]: (true, printed)."""
    interior = math.exp(2 * a * b - 1) / (2 * b)
    end = m * math.exp(-2 * b * (m - a))
    true = a if 2 * a * b >= 1 else end if 2 * m * b <= 1 else interior
    return true, a if b < a / 2 else end if b > m / 2 else interior


def _chain_counts(users: int, states: int, runs: int, rng: np.random.Generator) -> Array:
    return np.cumsum(rng.multinomial(users, np.full(states, 1 / states), size=runs), axis=1).astype(
        float
    )


def excess_risk_lsl(users: int, world: str, ridge: float, runs: int = 200) -> float:
    """The excess risk of DP-LSL with the paper's constants [Lemma 16], in units of alpha^2.

    N = 40, table, rho = 1, F_max = 1, epsilon = delta = .1. In the world "chain" a user who visits
    a state visits all states after it. In the world "apart" each user visits one state.
    """
    N = chain.STATES
    rng = np.random.default_rng(4)
    beta = main_text(0.1, 0.1, N)[1]
    model = LSL(states=N, ridge=ridge, return_bound=1.0)
    apart = rng.multinomial(users, np.full(N, 1 / N), size=runs).astype(float)
    counts = _chain_counts(users, N, runs, rng) if world == "chain" else apart
    risks = [
        (ridge * N / 2 + n.sum())
        / users
        * model.smooth_sensitivity(n, users, beta, printed=True) ** 2
        for n in counts
    ]
    return float(np.mean(risks))


def theorem_19(users: int, world: str, ridge: float) -> float:
    """The bound on the same."""
    N = chain.STATES
    m = users
    beta = main_text(0.1, 0.1, N)[1]
    p = chain.STARTS["uniform"] if world == "chain" else np.full(N, 1 / N)
    both = np.minimum.outer(p, p) if world == "chain" else np.diag(p)
    apart = ~np.eye(N, dtype=np.bool_)
    rare = 1 / (2 * math.e * beta)
    one = (
        float(p.sum()) * (N / 2 + 2 * N)
        + ridge / m * N * N
        + N * rare / (2 * m) * float(((1 - p) ** m).sum())
    )
    two = m / ridge * float(p.sum()) ** 2
    crossed = both - np.outer(p, p) + rare * (p[:, None] - both) * (1 - p) ** (m - 1)
    three = (float((p - p**2).sum()) + float(crossed[apart].sum())) / ridge
    return (2 / (ridge - 1)) ** 2 * (one + two + three)


def search_sensitivity(kind: str, rounds: int, *, seed: int = 0) -> tuple[float, float]:
    """Compare random neighbours with the smooth sensitivity S.

    Return the largest move divided by S, and the largest |ln S^2 - ln S'^2| divided by beta. Both
    must be at most 1.
    """
    rng = np.random.default_rng(seed)
    beta = 0.1
    moved = 0.0
    changed = 0.0
    features = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, -1.0]])
    for i in range(rounds):
        phi = features if i % 2 else None
        norm = 1.0 if phi is None else float(np.linalg.norm(phi, 2))
        m = int(rng.integers(1, 9))
        ridge = float(norm**2 * rng.choice([1.001, 3.0, 100.0]))
        model = (
            LSW(states=4, features=phi, return_bound=1.0)
            if kind == "w"
            else LSL(states=4, features=phi, ridge=ridge, return_bound=1.0)
        )
        pair = neighbours(rng, 4, m, 1.0)
        bounds = [model.smooth_sensitivity(counts, m, beta, printed=True) for counts, _ in pair]
        gap = float(np.linalg.norm(model.solve(*pair[0]) - model.solve(*pair[1])))
        moved = max(moved, gap / min(bounds))
        changed = max(changed, abs(2 * math.log(bounds[0] / bounds[1])) / beta)
    return moved, changed
