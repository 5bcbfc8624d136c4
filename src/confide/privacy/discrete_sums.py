"""The accounting of distributed noise: a sum of discrete Gaussian variables, each drawn on another device.

The sum of `terms` discrete Gaussian variables of variance parameter s^2 (in steps of the lattice) is not a discrete Gaussian, but close to
one: the logarithms of their probabilities differ by tau / 2 at most, tau = 10 sum_{k < terms} exp(-2 pi^2 s^2 k / (k + 1)), for s >= 1/2
[Kairouz21]. More terms add independent noise, which is post-processing. There are two bounds on what a query of L2 sensitivity D (in
steps) in `size` coordinates loses, with S = sqrt(terms) s and mu = D / S, and the smaller one counts.

1. Its Renyi divergence is at most min{alpha mu^2 / 2 + tau size, (alpha / 2) (mu + tau sqrt(size))^2} [Kairouz21], and epsilon is
   divergence + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1) at the best alpha [Canonne20]; any alpha is valid. It holds on every
   lattice, and asks for 9 % more noise than a Gaussian mechanism at epsilon = 1, delta = 1e-5.

2. On a fine lattice the sum is nearly a rounded Gaussian variable, and rounding z + N(0, S^2) for whole z is post-processing of a
   mu-GDP mechanism. Rounded to z, a Gaussian variable has the probability phi(z) times the mean of exp(-z u / S^2 - u^2 / (2 S^2)) over
   |u| <= 1/2, which is between exp(-1 / (8 S^2)) and sinh(a) / a <= exp(a^2 / 6), a = z / (2 S^2); the discrete Gaussian has phi(z) / C
   with 1 <= C <= 1 + 3 exp(-2 pi^2 S^2). So the logarithms of the probabilities of the sum and of the rounded variable differ by
   kappa = tau / 2 + (R^2 + 3) / (24 S^2) + 3 exp(-2 pi^2 S^2) at most in each coordinate, wherever |z| <= R S. Outside, for z or for z
   moved by D, is a coordinate with probability 2 exp(-(R - mu)^2 / 2) at most, because a sum of discrete Gaussians is sub-Gaussian
   [Canonne20]. Hence delta(epsilon) <= exp(size kappa) delta_mu(epsilon - 2 size kappa) + 2 size exp(-(R - mu)^2 / 2), with the
   profile delta_mu of mu-GDP.
"""

import math
from functools import lru_cache

import numpy as np

from confide.arguments import real, whole
from confide.errors import InvalidParameter
from confide.privacy.accounting import bisect, gaussian_epsilon
from confide.privacy.bounded import Array

# the smallest share of noise that is used, in steps: s^2 >= 2 makes tau 3e-8
LEAST_SHARE = math.sqrt(2)
_SMALLEST = 0.5  # the bound is proved from here on
_EXACT_TERMS = 4096
_TAIL = 2.0**-20  # the part of delta that is for sums far outside
_ORDERS = np.logspace(-4, 12, 321)  # alpha - 1


def distance_from_gaussian(share: float, terms: int) -> float:
    """tau: the logarithm of the sum's probabilities differs from a discrete Gaussian's by tau / 2 at most. Rounded up."""
    k = np.arange(1.0, min(terms, _EXACT_TERMS))
    summed = float(np.exp(-2 * math.pi**2 * share**2 * k / (k + 1)).sum())
    # terms decrease in k: the others are at most as large as the last one that was added
    more = max(0, terms - _EXACT_TERMS)
    return 10 * (
        summed
        + more * (math.exp(-2 * math.pi**2 * share**2 * k[-1] / (k[-1] + 1)) if more else 0.0)
    )


def sum_divergence(alpha: Array, share: float, terms: int, sensitivity: float, size: int) -> Array:
    """The Renyi divergence of these orders between two neighbouring sums; `share` and `sensitivity` are in steps of the lattice."""
    tau, mu = distance_from_gaussian(share, terms), sensitivity / (share * math.sqrt(terms))
    bound: Array = np.minimum(
        alpha * mu**2 / 2 + tau * size, alpha / 2 * (mu + tau * math.sqrt(size)) ** 2
    )
    return bound


def sum_epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    """The epsilon at `delta` of a sum that has at least so many shares of noise. Infinite where the bound is not proved."""
    share, sensitivity = real("share", share, above=0), real("sensitivity", sensitivity, at_least=0)
    (
        whole("terms", terms, at_least=1),
        whole("size", size, at_least=1),
        real("delta", delta, above=0, below=1),
    )
    return _epsilon(share, int(terms), sensitivity, int(size), float(delta))


@lru_cache(maxsize=4096)
def _epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    if share < _SMALLEST:
        return math.inf
    return min(
        renyi_epsilon(share, terms, sensitivity, size, delta),
        rounded_epsilon(share, terms, sensitivity, size, delta),
    )


def rounded_epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    """By the distance from a rounded Gaussian variable: the second bound."""
    S = share * math.sqrt(terms)
    mu, tail = sensitivity / S, delta * _TAIL
    R = mu + math.sqrt(2 * math.log(2 * size / tail))
    kappa = size * (
        distance_from_gaussian(share, terms) / 2
        + (R**2 + 3) / (24 * S**2)
        + 3 * math.exp(-2 * math.pi**2 * S**2)
    )
    left = (delta - tail) * math.exp(-kappa)
    return 2 * kappa + gaussian_epsilon(mu, left) if left > 0 else math.inf


def renyi_epsilon(share: float, terms: int, sensitivity: float, size: int, delta: float) -> float:
    """By the Renyi divergence: the first bound."""
    orders = _ORDERS
    for _ in range(3):  # finer around the best order
        alpha = 1 + orders
        converted = (
            sum_divergence(alpha, share, terms, sensitivity, size)
            + np.log(orders / alpha)
            - np.log(delta * alpha) / orders
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
        raise InvalidParameter(
            f"epsilon={epsilon:g} at delta={delta:g} needs noise that does not fit into 64 bits"
        )
    _, high = bisect(
        lambda share: sum_epsilon(share, terms, sensitivity, size, delta) <= epsilon,
        LEAST_SHARE,
        most,
    )
    return high
