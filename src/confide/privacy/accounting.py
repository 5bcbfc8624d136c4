"""The exact accounting of Gaussian noise: conversions between mu, epsilon and delta.

A Gaussian mechanism of L2 sensitivity D and standard deviation sigma is mu-GDP with
mu = D / sigma. Its privacy profile is [Balle18, Thm. 8]

    delta(epsilon) = Phi(a) - e^epsilon Phi(b),
    a = mu/2 - epsilon/mu,   b = -mu/2 - epsilon/mu

with the normal distribution function Phi and its density phi. Because phi(a) = e^epsilon phi(b),
this equals

    delta(epsilon) = phi(a) (m(-a) - m(-b))

with the Mills ratio m(x) = Phi(-x)/phi(x). The code uses this form, which neither overflows nor
cancels. In the code, `_mills` is m, and `density` is phi(a).

Guarantee: the two inverses round to the safe side. The mu that `gaussian_mu` returns never gives
more than delta, and the epsilon that `gaussian_epsilon` returns is never too small. Every
guarantee, certificate and ledger uses these functions, so a change of their last bits changes the
noise of every mechanism.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from confide.arguments import real
from confide.errors import InvalidParameter

# Below this mu the two Mills ratios are so close that their difference would cancel, so the slope
# is used instead. Measured: both ways agree to 1e-9 here (tests/privacy/test_accounting.py).
_SMALL_MU = 1e-5
# What `_delta_upper` adds for rounding, as a share of the number that `_delta` is computed from.
# Required for privacy. Measured against 70 digits: in 3,000 random cases with delta between 1e-15
# and 0.1 no mu gave more than delta. (In the far tails, below 1e-40, the error of `_delta` can be
# 15 times `_ROUNDING`.)
_ROUNDING_OF_SLOPE = 1e-9
_ROUNDING = 1e-15
_SQRT_2 = math.sqrt(2)
_SQRT_2PI = math.sqrt(2 * math.pi)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The smallest delta for which mu-GDP implies (epsilon, delta)-DP."""
    epsilon = real("epsilon", epsilon, at_least=0, finite=False)
    mu = real("mu", mu, at_least=0, finite=False)
    return _delta(epsilon, mu)


def _delta(epsilon: float, mu: float) -> float:
    """delta(epsilon) of the module's docstring, without checks and before rounding up."""
    if mu == 0 or epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    a = mu / 2 - epsilon / mu
    b = -mu / 2 - epsilon / mu
    density = math.exp(-a * a / 2) / _SQRT_2PI
    if mu < _SMALL_MU:
        # The difference of the Mills ratios is their slope in the middle, m'(x) = x m(x) - 1,
        # times the distance mu of the two points.
        middle = epsilon / mu
        return density * mu * (1 - middle * _mills(middle))
    if a <= 0:
        return density * (_mills(-a) - _mills(-b))
    # delta = (Phi(a) - Phi(b)) - (e^epsilon - 1) Phi(b).
    # The first difference does not cancel, because b < 0 < a.
    between = (math.erf(a / _SQRT_2) - math.erf(b / _SQRT_2)) / 2
    return between - density * _mills(-b) * -math.expm1(-epsilon)


def _delta_upper(epsilon: float, mu: float) -> float:
    """An upper bound on the true delta: `_delta`, and what rounding may have taken off it."""
    a = mu / 2 - epsilon / mu
    rounding = _ROUNDING
    if mu < _SMALL_MU:
        size = _delta(epsilon, mu)
        rounding = _ROUNDING_OF_SLOPE
    elif a <= 0:
        size = math.exp(-a * a / 2) / _SQRT_2PI * _mills(-a)
    else:
        size = min(1.0, mu)
    return _delta(epsilon, mu) + rounding * size


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP, rounded down."""
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
    """`gaussian_mu` for arguments that were checked."""
    largest_allowed, _ = bisect(lambda mu: _delta_upper(epsilon, mu) > delta, 1e-300, 1e10)
    return largest_allowed


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which mu-GDP implies (epsilon, delta)-DP, rounded up."""
    mu = real("mu", mu, at_least=0, finite=False)
    delta = real("delta", delta, at_least=0, below=1)
    return _epsilon(mu, delta)


@lru_cache(maxsize=4096)
def _epsilon(mu: float, delta: float) -> float:
    """`gaussian_epsilon` for arguments that were checked."""
    if mu == 0:
        return 0.0
    if delta == 0 or mu == math.inf:
        return math.inf
    if _delta_upper(0.0, mu) <= delta:
        return 0.0
    # The tail bound of the privacy loss: this epsilon is large enough.
    enough = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1e-300
    start = min(1e-300, enough)
    _, smallest_enough = bisect(
        lambda epsilon: _delta_upper(epsilon, mu) <= delta, start, 2 * enough
    )
    return smallest_enough


def _mills(x: float) -> float:
    """m(x) = Phi(-x)/phi(x)."""
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def bisect(true_above: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return two nearly equal numbers (low, high) between which `true_above` turns true.

    `true_above` must be False at `low` and True at `high`. The interval is halved on a logarithmic
    scale, so numbers of any size are found to the same relative precision of 1e-14.
    """
    while high / low > 1 + 1e-14:
        middle = math.sqrt(low) * math.sqrt(high)
        if middle <= low or middle >= high:
            break
        if true_above(middle):
            high = middle
        else:
            low = middle
    return low, high
