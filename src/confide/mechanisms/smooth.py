"""Gaussian noise with a data-dependent scale, for a smooth bound on the local sensitivity.

The scale is calibrated exactly. The answer f(x) in R^d leaves as f(x) + N(0, sigma_x^2 I) with
sigma_x = alpha S(x). S bounds the local L2 sensitivity at both ends of every pair of neighbours,
and changes slowly:

    ||f(x) - f(x')|| <= min(S(x), S(x')),
    |ln S(x)^2 - ln S(x')^2| <= beta.                                   [Balle16, Lemma 1]

`beta` is the smoothness of S^2, that is of the VARIANCE, as in the paper:
S(x)^2 = max_k e^(-k beta) (local sensitivity at distance k)^2. Somebody who smooths S itself, as
[Nissim07] does, must do so with beta/2.

What this gives is the largest hockey-stick divergence H, to the base e^epsilon, of the law P from
the law Q, whose densities are p and q:

    P = N(m1, s1^2 I),   Q = N(m2, s2^2 I),
    |m1 - m2| <= min(s1, s2)/alpha   and   |ln(s2/s1)| <= beta/2.

The largest is taken over all such pairs, in both orders. In units of s1 let s1 = 1, s2 = r, m1 = 0
and m2 = D. In the code, d is `dimension`, D is `distance`, r is `r`, and ln r is `logs`.

* The largest D is the worst. The optimal test A = {p > e^epsilon q} is, for r > 1, a ball around c
  = D/(1 - r^2), which lies on the other side of 0 than D. For r < 1 it is the outside of a ball
  around c, which lies beyond D. For r = 1 it is a half-space that faces away from D. By the
  envelope theorem dH/dD = -e^epsilon dQ(A)/dD with A held fixed. As D grows, the mean of Q moves
  away from c (r > 1) or towards it (r < 1), so Q(A) falls and H rises.
* The worst r is searched for. It is mostly the corner r = e^(-beta/2). But since D is bounded by
  the smaller of the two deviations, there is a kink at r = 1, which is the worst where the noise is
  small.
* H is computed by splitting z into the axis through the means and the length t of the rest, which
  is chi distributed with d - 1 degrees of freedom under P. Given t, it is the divergence of two
  normals on the line, to the base e^epsilon q(t)/p(t): two tails, in closed form. The integral over
  t is smooth up to the radius R of the ball, where the ends of the interval meet. t = R sin(angle)
  makes it smooth there too, and Gauss-Legendre integration converges geometrically. (The noncentral
  chi-square distribution that the ball suggests has the noncentrality (D/(1 - r^2))^2, about
  1/beta^2: SciPy's series fails by beta = 1e-6.)

What leaves this file are released values, and the calibration in certificates. alpha and beta are
required for privacy. Private values and the scale of their noise must never reach an error.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, gammainc, gammaincc, gammainccinv, gammaincinv, gammaln, ndtr

from confide.arguments import choice, real, whole
from confide.errors import InvalidParameter, PrivacyError, PromiseBroken
from confide.mechanisms.precise import grid_below, noisy, round_to_grid, standard_normals
from confide.mechanisms.sources import NoiseSource
from confide.privacy.accounting import gaussian_mu
from confide.privacy.bounded import Array
from confide.privacy.loss import ApproxDP

# This probability is left out at either end of the integral, and added to the result. Required for
# privacy.
_NEGLECTED = 1e-40
# This share of the result is added to it. Required for privacy, and measured against 60-digit
# arithmetic: it is 1e4 times the largest error that was seen, and 10 times the error at d = 1e6.
_SLACK = 1e-9
# Above this beta, delta is 1 except for 1e-40. Proved.
_LARGEST_BETA = 200.0
# The range of alpha in which divergences are computed. Taste: below it, delta is stated as 1.
_SMALLEST_ALPHA = 1e-100
_LARGEST_ALPHA = 1e9
# The points at which the worst r is searched. The grid holds both ends and the middle exactly,
# where the corners and the kink are. Taste: it is refined around the worst point.
_GRID = np.arange(-16, 17) / 16
# The search ends when the points are this close, relative to beta. Taste.
_SEARCH_WIDTH = 1e-6
# How many nodes the integral has in the search, and for the result. Measured: `_SLACK` is the
# error.
_SCAN_NODES = 64
_NODES = 128
# A radius that is longer than so many times the longest likely t is cut off. Taste.
_REACH = 8
# e^700 is near the largest floating-point number.
_LARGEST_EXPONENT = 700.0
# A smooth sensitivity may be below its public bound by this share, because it is computed in
# floating point. Taste.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class SmoothCalibration:
    """Public constants of the noise.

    The standard deviation is alpha S(x), and between neighbours S^2 changes by at most a factor of
    e^beta.
    """

    alpha: float
    beta: float


@dataclass(frozen=True, slots=True)
class SmoothGaussian:
    """One answer with noise proportional to a smooth bound on its local sensitivity.

    Guarantee: (epsilon, delta)-DP for the neighbours under which S is a smooth bound with this
    `beta` (|ln S^2 - ln S'^2| <= beta). S must keep that for every pair of data sets, or the
    guarantee is void. With secure noise it also holds in this arithmetic, up to 1e-35 in delta
    (`mechanisms/precise.py`). The standard deviation of the noise depends on the data. It is as
    private as they are, and neither the release, whose grid is public, nor an error tells it.

    Reference: [Balle16, Lemma 1], which quotes the 2011 preprint of [Nissim07]. [Nissim07] for
    smooth sensitivity.

    Departures: `tight` takes alpha from the exact divergence (proof above) and not from tail
    bounds. The lemma's alpha is 4 to 300 times too large for epsilon <= 5, and too small for a
    large epsilon. `paper` keeps the printed constants if they give the (epsilon, delta) that they
    state, and `supplement` keeps those that the supplement proves for epsilon <= 5.
    """

    epsilon: float
    delta: float
    dimension: int
    calibration: str = "tight"
    _constants: SmoothCalibration = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        calibrations: dict[str, Callable[[float, float, int], SmoothCalibration]] = {
            "tight": calibrate,
            "paper": paper_calibration,
            "supplement": supplement_calibration,
        }
        choice("calibration", self.calibration, calibrations)
        _require_public(self.epsilon, self.dimension, self.delta)
        constants = calibrations[self.calibration](self.epsilon, self.delta, self.dimension)
        object.__setattr__(self, "_constants", constants)

    @property
    def alpha(self) -> float:
        return self._constants.alpha

    @property
    def beta(self) -> float:
        return self._constants.beta

    @property
    def loss(self) -> ApproxDP:
        """(epsilon, delta), and nothing smaller.

        No single pair of distributions dominates all others, so composition knows this pair of
        numbers only.
        """
        return ApproxDP(self.epsilon, self.delta)

    def grid(self, least: float) -> float:
        """The grid that releases are rounded to, where `least` is public.

        No smooth sensitivity is below `least`.
        """
        if not 0 < least < math.inf:
            raise InvalidParameter(
                f"the least smooth sensitivity must be positive and finite, got {least}"
            )
        return grid_below(self.alpha * least)

    def release(
        self, values: Array, smooth_sensitivity: float, noise: NoiseSource, *, least: float
    ) -> Array:
        """Add noise to values [dimension], and return the public result.

        The values are PRIVATE, and so is their smooth sensitivity, which is at least `least`. The
        noisy values are whole multiples of `grid(least)`, whatever the scale of the noise is.
        """
        grid = self.grid(least)
        try:
            exact = np.asarray(values, dtype=np.float64)
            sensitivity = float(smooth_sensitivity)
        except (TypeError, ValueError, OverflowError):
            # The text of the error would quote the data.
            raise PrivacyError(
                "values and their smooth sensitivity must be real numbers; nothing was released"
            ) from None
        if exact.shape != (self.dimension,):
            raise InvalidParameter.of(
                "values", f"must have shape ({self.dimension},), got {exact.shape}"
            )
        sigma = self.alpha * sensitivity
        is_within_bounds = least * (1 - _ROUNDING) <= sensitivity and sigma < math.inf
        if not (is_within_bounds and np.isfinite(exact).all()):
            raise PrivacyError(
                "values must be finite and their smooth sensitivity within its public bounds; "
                "nothing was released"
            )
        # The source draws standard noise. It must not learn sigma, because it might put it into an
        # error of its own.
        try:
            with np.errstate(over="ignore"):
                if noise.discrete:
                    released = noisy(exact, sigma, standard_normals(self.dimension), grid)
                else:
                    on_the_reals = exact + sigma * noise.gaussian(1.0, self.dimension)
                    released = round_to_grid(on_the_reals, grid)
        except OverflowError:
            raise PrivacyError("the noisy values overflow; nothing was released") from None
        if not np.isfinite(released).all():
            raise PrivacyError("the noisy values overflow; nothing was released")
        return released


def smooth_delta(epsilon: float, alpha: float, beta: float, dimension: int) -> float:
    """The smallest delta for which noise alpha S(x), with S^2 beta-smooth, is (epsilon, delta)-DP.

    It is rounded up.
    """
    _require_public(epsilon, dimension)
    if not alpha > 0:
        raise InvalidParameter.of("alpha", "must be positive", got=f"{alpha}")
    if not (beta >= 0 and math.isfinite(beta)):
        raise InvalidParameter.of("beta", "must be non-negative and finite", got=f"{beta}")
    if beta > _LARGEST_BETA or alpha < _SMALLEST_ALPHA:
        return 1.0
    if alpha == math.inf:
        return _round_up(_change_of_variance(epsilon, beta, dimension))

    def divergence(logs: Array, nodes: int) -> Array:
        largest_distance = np.minimum(1.0, np.exp(logs)) / alpha
        return _divergence(epsilon, largest_distance, logs, dimension, nodes)

    # The logarithms of r = s2/s1.
    logs = beta / 2 * _GRID
    corners = (logs[0], 0.0, logs[-1])
    while True:
        worst = logs[divergence(logs, _SCAN_NODES).argmax()]
        width = logs[1] - logs[0]
        if worst in corners or width <= _SEARCH_WIDTH * beta:
            break
        logs = worst + width * _GRID
    coarse = float(divergence(np.array([worst]), _NODES)[0])
    fine = float(divergence(np.array([worst]), 2 * _NODES)[0])
    return _round_up(fine + abs(fine - coarse))


@lru_cache(maxsize=1024)
def smooth_alpha(epsilon: float, delta: float, beta: float, dimension: int) -> float:
    """The smallest alpha for which noise alpha S(x), with S^2 beta-smooth, is (epsilon, delta)-DP.

    It is rounded up.
    """
    _require_public(epsilon, dimension, delta)
    # At beta = 0 this is the plain Gaussian mechanism, and any other beta needs at least as much.
    least = (1 - 1e-6) / gaussian_mu(epsilon, delta)
    most = _LARGEST_ALPHA * max(1.0, least)
    _, smallest_enough = _bracket(
        lambda alpha: smooth_delta(epsilon, alpha, beta, dimension) <= delta, least, most
    )
    if smallest_enough == math.inf:
        raise InvalidParameter(
            f"beta must be below {largest_beta(epsilon, delta, dimension)} at epsilon={epsilon}, "
            f"delta={delta}, dimension={dimension}, got beta={beta}: "
            "the change of variance alone gives a larger delta, however large the noise"
        )
    return smallest_enough


@lru_cache(maxsize=1024)
def largest_beta(epsilon: float, delta: float, dimension: int) -> float:
    """The beta below which some alpha is (epsilon, delta)-DP, rounded down.

    At alpha = infinity the variance alone tells x from x'.
    """
    _require_public(epsilon, dimension, real("delta", delta, above=0, below=1))
    low, _ = _bracket(
        lambda beta: _round_up(_change_of_variance(epsilon, beta, dimension)) > delta,
        1e-20,
        _LARGEST_BETA,
    )
    return min(low, _LARGEST_BETA)


@lru_cache(maxsize=1024)
def calibrate(epsilon: float, delta: float, dimension: int) -> SmoothCalibration:
    """The tight calibration: half the largest beta, and the smallest alpha for it.

    The half is a matter of taste: alpha grows little up to there, and steeply beyond.
    """
    beta = largest_beta(epsilon, delta, dimension) / 2
    return SmoothCalibration(smooth_alpha(epsilon, delta, beta, dimension), beta)


@lru_cache(maxsize=1024)
def paper_calibration(epsilon: float, delta: float, dimension: int) -> SmoothCalibration:
    """The printed constants [Balle16, Lemma 1 of the main text].

    They are refused if they do not give (epsilon, delta), which happens at a large epsilon.
    """
    _require_public(epsilon, dimension, delta)
    if epsilon == 0:
        raise InvalidParameter.of(
            "epsilon", "must be positive for the constants of [Balle16, Lemma 1]", got="0"
        )
    alpha = 5 * math.sqrt(2 * math.log(2 / delta)) / epsilon
    beta = epsilon / (4 * (dimension + math.log(2 / delta)))
    true_delta = smooth_delta(epsilon, alpha, beta, dimension)
    if true_delta > delta:
        raise PromiseBroken(
            f"the constants of [Balle16, Lemma 1] give delta={true_delta:.6g} at "
            f"epsilon={epsilon:g} and dimension={dimension}, "
            f'more than the requested delta={delta:g}; use calibration="tight"'
        )
    return SmoothCalibration(alpha, beta)


def supplement_calibration(epsilon: float, delta: float, dimension: int) -> SmoothCalibration:
    """The constants that the supplement of [Balle16] proves in its Lemma 1.

    They are for epsilon <= 5 and beta <= ln 2.
    """
    _require_public(epsilon, dimension, delta)
    if not 0 < epsilon <= 5:
        raise InvalidParameter.of(
            "epsilon",
            "must be above 0 and at most 5 for the constants of the supplement of [Balle16]",
            got=f"{epsilon:g}",
        )
    root = math.sqrt(2 * math.log(4 / delta))
    alpha = 15 * root / epsilon
    beta = 2 * math.log(2) * epsilon / (5 * (math.sqrt(dimension) + root) ** 2)
    true_delta = smooth_delta(epsilon, alpha, beta, dimension)
    if true_delta > delta:
        raise PromiseBroken(
            f"the constants of the supplement of [Balle16] give delta={true_delta:.6g} at "
            f"epsilon={epsilon:g} and dimension={dimension}, "
            f'more than the requested delta={delta:g}; use calibration="tight"'
        )
    return SmoothCalibration(alpha, beta)


# At r = 1 the ball is infinite.
@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def _divergence(epsilon: float, distance: Array, logs: Array, dimension: int, nodes: int) -> Array:
    """H_{e^epsilon}(N(0, I) || N(distance, r^2 I)) for each r = exp(logs) and its distance > 0.

    `distance`, `logs` and the result are arrays [r]. The symbols are those of the module's
    docstring.
    """
    # The degrees of freedom of t, the length off the axis.
    freedom = dimension - 1
    r = np.exp(logs)
    # 1/r^2 - 1. Where it is positive, the ball is the outside of A.
    curvature = np.expm1(-2 * logs)
    # (curvature R)^2. If it is negative, A is empty.
    square = np.square(distance / r) + 2 * curvature * (epsilon - dimension * logs)
    root = np.sqrt(np.maximum(square, 0.0))
    if freedom == 0:
        on_line = _on_the_line(np.full_like(r, epsilon), root, logs, distance)
        return np.where(square > 0, on_line, 0.0)
    radius = root / np.abs(curvature)
    inside = _integral_in_the_ball(epsilon, distance, logs, freedom, nodes, root, radius)
    # Where r < 1, A holds the whole line beyond the ball.
    p_beyond = gammaincc(freedom / 2, np.square(radius) / 2)
    q_beyond = gammaincc(freedom / 2, np.square(radius / r) / 2)
    beyond = p_beyond - np.exp(epsilon + np.log(q_beyond))
    result: Array = np.where(square > 0, inside + np.where(curvature > 0, beyond, 0.0), 0.0)
    return result


def _integral_in_the_ball(
    epsilon: float,
    distance: Array,
    logs: Array,
    freedom: int,
    nodes: int,
    root: Array,
    radius: Array,
) -> Array:
    """The part of H with t below the radius of the ball [r], by Gauss-Legendre over the angle.

    `freedom`, `root` and `radius` are those of `_divergence`.
    """
    curvature = np.expm1(-2 * logs)
    # t is between these two, except with a probability of twice _NEGLECTED.
    shortest = math.sqrt(2 * gammaincinv(freedom / 2, _NEGLECTED))
    longest = math.sqrt(2 * gammainccinv(freedom / 2, _NEGLECTED))
    reach = np.minimum(radius, _REACH * longest)
    start = np.arcsin(np.minimum(shortest / reach, 1.0))
    stop = np.arcsin(np.minimum(longest / reach, 1.0))
    points, weights = _gauss_legendre(nodes)
    # From here on arrays are [r, node].
    angle = ((start + stop)[:, None] + (stop - start)[:, None] * points) / 2
    sine = np.sin(angle)
    cosine = np.cos(angle)
    t = reach[:, None] * sine
    log_density = (
        (freedom - 1) * np.log(t)
        - t * t / 2
        - (freedom / 2 - 1) * math.log(2)
        - gammaln(freedom / 2)
    )
    # ln(e^epsilon q(t)/p(t))
    threshold = (epsilon - freedom * logs)[:, None] - t * t * curvature[:, None] / 2
    # curvature sqrt(R^2 - t^2), without cancellation.
    part = (reach / radius)[:, None]
    root_at_t = root[:, None] * np.sqrt(np.square(cosine) + (1 - part * part) * np.square(sine))
    on_line = _on_the_line(threshold, root_at_t, logs[:, None], distance[:, None])
    # dt = reach cos(angle) d(angle).
    integrand = np.exp(log_density) * on_line * reach[:, None] * cosine
    integral: Array = integrand @ weights * (stop - start) / 2
    return integral


def _on_the_line(threshold: Array, root: Array, logs: Array, distance: Array) -> Array:
    """H_{e^threshold}(N(0, 1) || N(distance, r^2)) for two normals on the line.

    `root` is the root of the discriminant of p = e^threshold q. The set A lies below `near` or
    above `far` (r < 1), or between -`far` and `near` (r > 1). At its ends p = e^threshold q, which
    turns e^threshold Q into p times a Mills ratio. So a large threshold does not overflow, and the
    tails do not cancel.
    """
    r = np.exp(logs)
    curvature = np.expm1(-2 * logs)
    pivot = distance / np.square(r) + root
    near = (np.square(distance / r) + 2 * (logs - threshold)) / pivot
    far = np.abs(pivot / curvature)
    standard = (near - distance) / r
    by_mills = r * _density(near) * _mills(-np.minimum(standard, 0.0))
    directly = np.exp(np.minimum(threshold, _LARGEST_EXPONENT)) * ndtr(standard)
    below = ndtr(near) - np.where(standard > 0, directly, by_mills)
    outward = np.where(curvature > 0, 1.0, -1.0)
    beyond = ndtr(-far) - r * _density(far) * _mills((far - outward * distance) / r)
    result: Array = below + outward * beyond
    return result


def _change_of_variance(epsilon: float, beta: float, dimension: int) -> float:
    """delta at alpha = infinity, where only the variances differ.

    Both corners are compared, and nothing between, because common noise turns a ratio r into one
    that is nearer to 1.
    """
    if beta == 0:
        return 0.0
    shape = dimension / 2
    # At r = e^(-beta/2), p is larger than e^epsilon q outside of a ball. This is R^2/2.
    half_square = (epsilon + shape * beta) / math.expm1(beta)
    p_outside = float(gammaincc(shape, half_square))
    q_outside = float(gammaincc(shape, half_square * math.exp(beta)))
    delta = p_outside - _times_exp(q_outside, epsilon)
    if shape * beta > epsilon:
        # At r = e^(beta/2), p is larger inside of a ball, if it is larger anywhere.
        half_square = (shape * beta - epsilon) / -math.expm1(-beta)
        p_inside = float(gammainc(shape, half_square))
        q_inside = float(gammainc(shape, half_square * math.exp(-beta)))
        delta = max(delta, p_inside - _times_exp(q_inside, epsilon))
    return delta


def _times_exp(probability: float, epsilon: float) -> float:
    """e^epsilon times a probability. The caller knows that this is at most 1."""
    if probability <= 0:
        return 0.0
    return math.exp(min(0.0, epsilon + math.log(probability)))


def _bracket(true_above: Callable[[float], bool], low: float, limit: float) -> tuple[float, float]:
    """Return two nearly equal numbers (low, high) between which `true_above` turns true.

    `true_above` must be False at `low`. If it does not turn true below `limit`, high is infinite.
    """
    high = 2 * low
    while not true_above(high):
        low = high
        high = 2 * high
        if low > limit:
            return low, math.inf
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        if true_above(middle):
            high = middle
        else:
            low = middle
    return low, high


def _round_up(delta: float) -> float:
    # Something overflowed, and 1 is a valid delta for everything.
    if math.isnan(delta):
        return 1.0
    return min(1.0, max(delta, 0.0) * (1 + _SLACK) + 2 * _NEGLECTED)


def _require_public(epsilon: float, dimension: int, delta: float | None = None) -> None:
    """Check the public parameters that most functions here have."""
    real("epsilon", epsilon, at_least=0)
    whole("dimension", dimension, at_least=1)
    if delta is not None:
        real("delta", delta, above=0, below=1)


@lru_cache(maxsize=8)
def _gauss_legendre(nodes: int) -> tuple[Array, Array]:
    """The points in [-1, 1] and the weights, both [node]."""
    return np.polynomial.legendre.leggauss(nodes)


def _density(z: Array) -> Array:
    """The density of the standard normal distribution."""
    density: Array = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return density


def _mills(x: Array) -> Array:
    """The Mills ratio Phi(-x) / phi(x) of the standard normal distribution."""
    ratio: Array = math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
    return ratio
