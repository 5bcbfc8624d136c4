"""The accounting of distributed noise: a sum of discrete Gaussian variables, each drawn on another device.

The sum of `terms` discrete Gaussian variables of variance parameter s^2 (in steps of the lattice) is not a discrete Gaussian, but close to
one. With tau = 10 sum_{k < terms} exp(-2 pi^2 s^2 k / (k + 1)), a query of L2 sensitivity D (in steps) in `size` coordinates has the
Renyi divergence

    min{ alpha D^2 / (2 terms s^2) + tau size,  (alpha / 2) (D / (sqrt(terms) s) + tau sqrt(size))^2 },   s >= 1/2      [Kairouz21]

More terms than that add independent noise, which is post-processing. The divergence is converted by

    epsilon = divergence + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1)                                     [Canonne20]

at the best alpha; any alpha gives a valid epsilon, so that an inexact minimum is safe.
"""

import math
from functools import lru_cache

import numpy as np

from confide.arguments import real, whole
from confide.errors import InvalidParameter
from confide.privacy.accounting import bisect
from confide.privacy.bounded import Array

LEAST_SHARE = math.sqrt(2)  # the smallest share of noise that is used, in steps: s^2 >= 2 makes tau 3e-8
_SMALLEST = 0.5  # the bound is proved from here on
_EXACT_TERMS = 4096
_ORDERS = np.logspace(-4, 12, 321)  # alpha - 1


def distance_from_gaussian(share: float, terms: int) -> float:
    """tau: the logarithm of the sum's probabilities differs from a discrete Gaussian's by tau / 2 at most. Rounded up."""
    k = np.arange(1.0, min(terms, _EXACT_TERMS))
    summed = float(np.exp(-2 * math.pi**2 * share**2 * k / (k + 1)).sum())
    more = max(0, terms - _EXACT_TERMS)  # terms decrease in k: the others are at most as large as the last one that was added
    return 10 * (summed + more * (math.exp(-2 * math.pi**2 * share**2 * k[-1] / (k[-1] + 1)) if more else 0.0))


def sum_divergence(alpha: Array, share: float, terms: int, sensitivity: float, size: int) -> Array:
    """The Renyi divergence of these orders between two neighbouring sums; `share` and `sensitivity` are in steps of the lattice."""
    tau, mu = distance_from_gaussian(share, terms), sensitivity / (share * math.sqrt(terms))
    bound: Array = np.minimum(alpha * mu**2 / 2 + tau * size, alpha / 2 * (mu + tau * math.sqrt(size)) ** 2)
    return bound


def sum_epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    """The epsilon at `delta` of a sum that has at least so many shares of noise. Infinite where the bound is not proved."""
    share, sensitivity = real("share", share, above=0), real("sensitivity", sensitivity, at_least=0)
    whole("terms", terms, at_least=1), whole("size", size, at_least=1), real("delta", delta, above=0, below=1)
    return _epsilon(share, int(terms), sensitivity, int(size), float(delta))


@lru_cache(maxsize=4096)
def _epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    if share < _SMALLEST:
        return math.inf
    orders = _ORDERS
    for _ in range(3):  # finer around the best order
        alpha = 1 + orders
        converted = (
            sum_divergence(alpha, share, terms, sensitivity, size) + np.log(orders / alpha) - np.log(delta * alpha) / orders
        )
        best = int(np.argmin(converted))
        orders = np.geomspace(orders[max(best - 1, 0)], orders[min(best + 1, len(orders) - 1)], 101)
    return max(0.0, float(converted[best]))


@lru_cache(maxsize=4096)
def least_share(epsilon: float, delta: float, terms: int, sensitivity: float, size: int) -> float:
    """The smallest share, in steps of the lattice, with which `terms` of them give (epsilon, delta)-DP; never less than LEAST_SHARE."""
    if sum_epsilon(LEAST_SHARE, terms, sensitivity, size, delta) <= epsilon:
        return LEAST_SHARE
    most = 2.0**61 / math.sqrt(terms)
    if sum_epsilon(most, terms, sensitivity, size, delta) > epsilon:
        raise InvalidParameter(f"epsilon={epsilon:g} at delta={delta:g} needs noise that does not fit into 64 bits")
    _, high = bisect(lambda share: sum_epsilon(share, terms, sensitivity, size, delta) <= epsilon, LEAST_SHARE, most)
    return high
