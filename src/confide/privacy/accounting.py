"""The exact accounting of Gaussian noise.

A Gaussian mechanism of L2 sensitivity D and standard deviation sigma is mu-GDP with mu = D / sigma, and its privacy profile is

    delta(epsilon) = Phi(a) - e^epsilon Phi(b),   a = mu/2 - epsilon/mu,   b = -mu/2 - epsilon/mu       [Balle18, Thm. 8]

Since phi(a) = e^epsilon phi(b), this is phi(a) (m(-a) - m(-b)) with the Mills ratio m(x) = Phi(-x)/phi(x): the form used here,
which neither overflows nor cancels. The two inverses round to the safe side: the mu returned never gives more than delta,
the epsilon returned is never too small.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from confide.arguments import real
from confide.errors import InvalidParameter

_SMALL = 1e-5
_SQRT_2 = math.sqrt(2)
_SQRT_2PI = math.sqrt(2 * math.pi)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The smallest delta for which mu-GDP implies (epsilon, delta)-DP."""
    return _delta(
        real("epsilon", epsilon, at_least=0, finite=False), real("mu", mu, at_least=0, finite=False)
    )


def _delta(epsilon: float, mu: float) -> float:
    if mu == 0 or epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    density = math.exp(-a * a / 2) / _SQRT_2PI
    # the difference of Mills ratios by their slope, m'(x) = x m(x) - 1, in the middle
    if mu < _SMALL:
        middle = epsilon / mu
        return density * mu * (1 - middle * _mills(middle))
    if a <= 0:
        return density * (_mills(-a) - _mills(-b))
    # (Phi(a) - Phi(b)) - (e^epsilon - 1) Phi(b), where the first difference does not cancel because b < 0 < a
    return (math.erf(a / _SQRT_2) - math.erf(b / _SQRT_2)) / 2 - density * _mills(-b) * -math.expm1(
        -epsilon
    )


def _delta_upper(epsilon: float, mu: float) -> float:
    """gaussian_delta, and what rounding may have taken off it."""
    a = mu / 2 - epsilon / mu
    if mu < _SMALL:
        size, rounding = _delta(epsilon, mu), 1e-9
    elif a <= 0:
        size, rounding = math.exp(-a * a / 2) / _SQRT_2PI * _mills(-a), 1e-15
    else:
        size, rounding = min(1.0, mu), 1e-15
    return _delta(epsilon, mu) + rounding * size


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP."""
    if real("delta", delta, at_least=0, below=1) == 0:
        raise InvalidParameter.of(
            "delta",
            "must be in (0, 1) for Gaussian noise",
            got="0",
            advice="; delta=0 needs Laplace noise",
        )
    return _mu(real("epsilon", epsilon, at_least=0), float(delta))


@lru_cache(maxsize=4096)
def _mu(epsilon: float, delta: float) -> float:
    low, _ = bisect(lambda mu: _delta_upper(epsilon, mu) > delta, 1e-300, 1e10)
    return low


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which mu-GDP implies (epsilon, delta)-DP."""
    return _epsilon(
        real("mu", mu, at_least=0, finite=False), real("delta", delta, at_least=0, below=1)
    )


@lru_cache(maxsize=4096)
def _epsilon(mu: float, delta: float) -> float:
    if mu == 0:
        return 0.0
    if delta == 0 or mu == math.inf:
        return math.inf
    if _delta_upper(0.0, mu) <= delta:
        return 0.0
    # the tail bound of the privacy loss
    enough = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1e-300
    _, high = bisect(
        lambda epsilon: _delta_upper(epsilon, mu) <= delta, min(1e-300, enough), 2 * enough
    )
    return high


def _mills(x: float) -> float:
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def bisect(true_above: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Neighbouring floats (or nearly) around the point where `true_above` turns true; geometric, so that scale does not matter."""
    while high / low > 1 + 1e-14:
        middle = math.sqrt(low) * math.sqrt(high)
        if middle <= low or middle >= high:
            break
        if true_above(middle):
            high = middle
        else:
            low = middle
    return low, high
