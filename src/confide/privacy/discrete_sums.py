"""The accounting of distributed noise: a sum of discrete Gaussian variables of many devices.

Symbols of the proofs, and their names in the code:

    s      `share`        the scale of one device's noise, in steps of the lattice
    n      `terms`        how many devices add such a share to the sum
    D      `sensitivity`  the L2 sensitivity of the query, in steps of the lattice
    d      `size`         the number of coordinates
    S      `scale`        sqrt(n) s, the scale of the noise in the sum
    mu     `mu`           D / S
    tau    `distance_from_gaussian(share, terms)`

The sum of n discrete Gaussian variables of variance parameter s^2 is not a discrete Gaussian, but
close to one: the logarithms of their probabilities differ by at most tau / 2 with

    tau = 10 sum_{k < n} exp(-2 pi^2 s^2 k / (k + 1)),   for s >= 1/2 [Kairouz21].

More terms add independent noise, which is post-processing. There are two bounds on the privacy
loss. Both are valid, so the smaller one counts.

1. `renyi_epsilon`. The Renyi divergence of order alpha is at most

       min{alpha mu^2 / 2 + tau d, (alpha / 2) (mu + tau sqrt(d))^2}                    [Kairouz21],

   and epsilon is divergence + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1) [Canonne20]. Any
   alpha is valid, and the best one is searched. The bound holds on every lattice. At epsilon = 1
   and delta = 1e-5 it asks for 9 % more noise than a Gaussian mechanism.

2. `rounded_epsilon`. On a fine lattice the sum is nearly a rounded Gaussian variable. Rounding
   z + N(0, S^2) for whole z is post-processing of a mu-GDP mechanism, so only the distance from it
   has to be paid for.

   - The rounded Gaussian variable is z with the probability phi(z) times the mean of
     exp(-z u / S^2 - u^2 / (2 S^2)) over |u| <= 1/2. This mean is at least exp(-1 / (8 S^2)) and at
     most sinh(a) / a <= exp(a^2 / 6) with a = z / (2 S^2).
   - The discrete Gaussian variable is z with the probability phi(z) / C, where
     1 <= C <= 1 + 3 exp(-2 pi^2 S^2).
   - So the logarithms of the probabilities of the sum and of the rounded variable differ in each
     coordinate by at most

         kappa = tau / 2 + (R^2 + 3) / (24 S^2) + 3 exp(-2 pi^2 S^2)

     wherever |z| <= R S. In the code, R is `reach` and d kappa is `distance`.
   - A coordinate is outside of this range, for z or for z moved by D, with a probability of at most
     2 exp(-(R - mu)^2 / 2), because a sum of discrete Gaussians is sub-Gaussian [Canonne20].

   With the profile delta_mu of mu-GDP this gives

       delta(epsilon) <= exp(d kappa) delta_mu(epsilon - 2 d kappa) + 2 d exp(-(R - mu)^2 / 2).

   R is chosen so that the last term is the share `_TAIL` of delta.

Both bounds are required for privacy. `tests/privacy/test_discrete_sums.py` compares them with exact
probabilities.
"""

import math
from functools import lru_cache

import numpy as np

from confide.arguments import real, whole
from confide.errors import InvalidParameter
from confide.privacy.accounting import bisect, gaussian_epsilon
from confide.privacy.bounded import Array

# The smallest share of noise that is used, in steps of the lattice. Taste: s^2 = 2 makes tau 3e-8.
LEAST_SHARE = math.sqrt(2)
# The bounds are proved for shares from here on. Required for privacy.
_SMALLEST_PROVED_SHARE = 0.5
# So many terms of tau are added one by one. The others are bounded by the last one. Taste.
_EXACT_TERMS = 4096
# The share of delta that pays for sums far outside, in the second bound. Taste: any is valid.
_TAIL = 2.0**-20
# The values of alpha - 1 that are tried, and how the search goes on around the best one. Taste: any
# alpha is valid.
_ORDERS = np.logspace(-4, 12, 321)
_ROUNDS_OF_SEARCH = 3
_ORDERS_PER_ROUND = 101


def distance_from_gaussian(share: float, terms: int) -> float:
    """tau, rounded up.

    The logarithm of the sum's probabilities differs from a discrete Gaussian's by at most tau / 2.
    """
    k = np.arange(1.0, min(terms, _EXACT_TERMS))
    exact_part = float(np.exp(-2 * math.pi**2 * share**2 * k / (k + 1)).sum())
    # The terms decrease in k. So the others are at most as large as the last one that was added.
    remaining_terms = max(0, terms - _EXACT_TERMS)
    last = 0.0
    if remaining_terms:
        last = math.exp(-2 * math.pi**2 * share**2 * k[-1] / (k[-1] + 1))
    return 10 * (exact_part + remaining_terms * last)


def sum_divergence(alpha: Array, share: float, terms: int, sensitivity: float, size: int) -> Array:
    """The Renyi divergence of these orders [order] between two neighbouring sums.

    `share` and `sensitivity` are in steps of the lattice.
    """
    tau = distance_from_gaussian(share, terms)
    mu = sensitivity / (share * math.sqrt(terms))
    bound: Array = np.minimum(
        alpha * mu**2 / 2 + tau * size, alpha / 2 * (mu + tau * math.sqrt(size)) ** 2
    )
    return bound


def sum_epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    """The epsilon at `delta` of a sum that has at least so many shares of noise.

    It is infinite where the bounds are not proved.
    """
    share = real("share", share, above=0)
    sensitivity = real("sensitivity", sensitivity, at_least=0)
    whole("terms", terms, at_least=1)
    whole("size", size, at_least=1)
    real("delta", delta, above=0, below=1)
    return _epsilon(share, int(terms), sensitivity, int(size), float(delta))


@lru_cache(maxsize=4096)
def _epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    if share < _SMALLEST_PROVED_SHARE:
        return math.inf
    return min(
        renyi_epsilon(share, terms, sensitivity, size, delta),
        rounded_epsilon(share, terms, sensitivity, size, delta),
    )


def rounded_epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    """The second bound: by the distance from a rounded Gaussian variable."""
    scale = share * math.sqrt(terms)
    mu = sensitivity / scale
    tail = delta * _TAIL
    # 2 d exp(-(reach - mu)^2 / 2) = tail
    reach = mu + math.sqrt(2 * math.log(2 * size / tail))
    distance = size * (
        distance_from_gaussian(share, terms) / 2
        + (reach**2 + 3) / (24 * scale**2)
        + 3 * math.exp(-2 * math.pi**2 * scale**2)
    )
    gaussian_part_of_delta = (delta - tail) * math.exp(-distance)
    if gaussian_part_of_delta <= 0:
        return math.inf
    return 2 * distance + gaussian_epsilon(mu, gaussian_part_of_delta)


def renyi_epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    """The first bound: by the Renyi divergence, at the best order that is found."""
    orders = _ORDERS
    for _ in range(_ROUNDS_OF_SEARCH):
        alpha = 1 + orders
        epsilons = (
            sum_divergence(alpha, share, terms, sensitivity, size)
            + np.log(orders / alpha)
            - np.log(delta * alpha) / orders
        )
        best = int(np.argmin(epsilons))
        lowest = orders[max(best - 1, 0)]
        highest = orders[min(best + 1, len(orders) - 1)]
        orders = np.geomspace(lowest, highest, _ORDERS_PER_ROUND)
    return max(0.0, float(epsilons[best]))


@lru_cache(maxsize=4096)
def least_share(epsilon: float, delta: float, terms: int, sensitivity: float, size: int) -> float:
    """The smallest share with which `terms` of them give (epsilon, delta)-DP.

    It is in steps of the lattice, and never less than LEAST_SHARE.
    """
    if sum_epsilon(LEAST_SHARE, terms, sensitivity, size, delta) <= epsilon:
        return LEAST_SHARE
    # Larger noise does not fit into integers of 64 bits.
    largest = 2.0**61 / math.sqrt(terms)
    if sum_epsilon(largest, terms, sensitivity, size, delta) > epsilon:
        raise InvalidParameter(
            f"epsilon={epsilon:g} at delta={delta:g} needs noise that does not fit into 64 bits"
        )
    _, smallest_enough = bisect(
        lambda share: sum_epsilon(share, terms, sensitivity, size, delta) <= epsilon,
        LEAST_SHARE,
        largest,
    )
    return smallest_enough
