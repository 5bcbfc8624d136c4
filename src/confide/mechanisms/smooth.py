"""Gaussian noise with a data-dependent scale, calibrated exactly to a smooth bound on the local sensitivity.

The answer f(x) in R^d leaves as f(x) + N(0, sigma_x^2 I) with sigma_x = alpha S(x). S bounds the local L2 sensitivity, at both ends
of every pair of neighbours, and changes slowly:

    ||f(x) - f(x')|| <= min(S(x), S(x'))   and   |ln S(x)^2 - ln S(x')^2| <= beta                          [Balle16, Lemma 1]

`beta` is the smoothness of S^2, that is of the VARIANCE, as in the paper: S(x)^2 = max_k e^(-k beta) (local sensitivity at distance
k)^2. Whoever smooths S itself, as [Nissim07] does, must do so with beta/2.

What this gives is the largest hockey-stick divergence H of N(m1, s1^2 I) from N(m2, s2^2 I) to base e^epsilon, over all pairs with
|m1 - m2| <= min(s1, s2)/alpha and |ln(s2/s1)| <= beta/2, in both orders. In units of s1 let s1 = 1, s2 = r, m1 = 0, m2 = D.

* The largest D is the worst. The optimal test A = {p > e^epsilon q} is, for r > 1, a ball around c = D/(1 - r^2), on the other side
  of 0 than D; for r < 1 the outside of a ball around c, which lies beyond D; for r = 1 a half-space that faces away from D. By the
  envelope theorem dH/dD = -e^epsilon dQ(A)/dD with A held fixed. As D grows the mean of Q moves away from c (r > 1) or towards it
  (r < 1), so that Q(A) falls and H rises.
* The worst r is searched for. It is mostly the corner r = e^(-beta/2); but since D is bounded by the smaller of the two deviations
  there is a kink at r = 1, which is the worst where the noise is small.
* H splits z into the axis through the means and the length t of the rest, chi distributed with d - 1 degrees of freedom under p.
  Given t, it is that of two normals on the line, to the base e^epsilon q(t)/p(t): two tails, in closed form. The integral over t is
  smooth up to the radius R of the ball, where the ends of the interval meet; t = R sin(angle) makes it smooth there too, and
  Gauss-Legendre converges geometrically. (The noncentral chi-square that the ball suggests has noncentrality (D/(1 - r^2))^2, about
  1/beta^2: SciPy's series fails by beta = 1e-6.)
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

_NEGLECTED = 1e-40  # probability left out at either end of the integral, and added to the result
# relative, added to the result: 1e4 times the error seen against 60-digit arithmetic, 10 times at d = 1e6
_SLACK = 1e-9
_LARGEST_BETA = 200.0  # above, delta is 1 but for 1e-40
_SMALLEST_ALPHA, _LARGEST_ALPHA = 1e-100, 1e9
_GRID = np.arange(-16, 17) / 16  # holds both ends and the middle exactly
_SCAN_NODES, _NODES = 64, 128


@dataclass(frozen=True, slots=True)
class SmoothCalibration:
    """Public constants: noise of standard deviation alpha S(x), where S^2 changes by a factor e^beta at most between neighbours."""

    alpha: float
    beta: float


@dataclass(frozen=True, slots=True)
class SmoothGaussian:
    """One answer with noise proportional to a smooth bound on its local sensitivity.

    Guarantee: (epsilon, delta)-DP for the neighbours under which S is a smooth bound with this `beta` (|ln S^2 - ln S'^2| <= beta); S
    must keep that for every pair of datasets, or the guarantee is void. With secure noise also in this arithmetic, up to 1e-35 in delta
    (`mechanisms/precise.py`). The deviation of the noise depends on the data: it is as private as they are, and neither the release, whose
    grid is public, nor an error tells it.

    Reference: [Balle16, Lemma 1], which quotes the 2011 preprint of [Nissim07]; [Nissim07] for smooth sensitivity.

    Departures: `tight` takes alpha from the exact divergence (proof above) and not from tail bounds: the lemma's alpha is 4 to 300 times
    too large for epsilon <= 5, too small for a large one. `paper` keeps the printed constants wherever they keep the promise, and
    `supplement` those that the supplement proves for epsilon <= 5.
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
        object.__setattr__(
            self,
            "_constants",
            calibrations[self.calibration](self.epsilon, self.delta, self.dimension),
        )

    @property
    def alpha(self) -> float:
        return self._constants.alpha

    @property
    def beta(self) -> float:
        return self._constants.beta

    @property
    def loss(self) -> ApproxDP:
        """Nothing smaller: no one pair of distributions dominates all others, so that composition knows this pair of numbers only."""
        return ApproxDP(self.epsilon, self.delta)

    def grid(self, least: float) -> float:
        """What releases are rounded to, if no smooth sensitivity is below `least`, which is public."""
        if not 0 < least < math.inf:
            raise InvalidParameter(
                f"the least smooth sensitivity must be positive and finite, got {least}"
            )
        return grid_below(self.alpha * least)

    def release(
        self, values: Array, smooth_sensitivity: float, noise: NoiseSource, *, least: float
    ) -> Array:
        """values [dimension], PRIVATE, and their smooth sensitivity, PRIVATE and at least `least` -> the noisy values, public.

        They are whole multiples of `grid(least)`, whatever the scale of the noise.
        """
        grid = self.grid(least)
        try:
            exact, sensitivity = np.asarray(values, dtype=np.float64), float(smooth_sensitivity)
        except (TypeError, ValueError, OverflowError):  # whose text would quote the data
            raise PrivacyError(
                "values and their smooth sensitivity must be real numbers; nothing was released"
            ) from None
        if exact.shape != (self.dimension,):
            raise InvalidParameter.of(
                "values", f"must have shape ({self.dimension},), got {exact.shape}"
            )
        sigma = self.alpha * sensitivity
        if not (
            least * (1 - 1e-9) <= sensitivity and sigma < math.inf and np.isfinite(exact).all()
        ):
            raise PrivacyError(
                "values must be finite and their smooth sensitivity within its public bounds; nothing was released"
            )
        # The source draws standard noise: it must not learn sigma either, which it might put into an error of its own.
        try:
            with np.errstate(over="ignore"):
                if noise.discrete:
                    released = noisy(exact, sigma, standard_normals(self.dimension), grid)
                else:
                    released = round_to_grid(
                        exact + sigma * noise.gaussian(1.0, self.dimension), grid
                    )
        except OverflowError:
            raise PrivacyError("the noisy values overflow; nothing was released") from None
        if not np.isfinite(released).all():
            raise PrivacyError("the noisy values overflow; nothing was released")
        return released


def smooth_delta(epsilon: float, alpha: float, beta: float, dimension: int) -> float:
    """The smallest delta for which noise alpha S(x), with S^2 beta-smooth, is (epsilon, delta)-DP; rounded up."""
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
        return _divergence(epsilon, np.minimum(1.0, np.exp(logs)) / alpha, logs, dimension, nodes)

    logs = beta / 2 * _GRID  # of r = s2/s1
    corners = (logs[0], 0.0, logs[-1])
    while True:
        best, width = logs[divergence(logs, _SCAN_NODES).argmax()], logs[1] - logs[0]
        if best in corners or width <= 1e-6 * beta:
            break
        logs = best + width * _GRID
    coarse, fine = (float(divergence(np.array([best]), nodes)[0]) for nodes in (_NODES, 2 * _NODES))
    return _round_up(fine + abs(fine - coarse))


@lru_cache(maxsize=1024)
def smooth_alpha(epsilon: float, delta: float, beta: float, dimension: int) -> float:
    """The smallest alpha for which noise alpha S(x), with S^2 beta-smooth, is (epsilon, delta)-DP; rounded up."""
    _require_public(epsilon, dimension, delta)
    # even at beta = 0, the plain Gaussian mechanism
    least = (1 - 1e-6) / gaussian_mu(epsilon, delta)
    most = _LARGEST_ALPHA * max(1.0, least)
    _, high = _bracket(
        lambda alpha: smooth_delta(epsilon, alpha, beta, dimension) <= delta, least, most
    )
    if high == math.inf:
        raise InvalidParameter(
            f"beta must be below {largest_beta(epsilon, delta, dimension)} at epsilon={epsilon}, delta={delta}, dimension={dimension}, "
            f"got beta={beta}: the change of variance alone gives a larger delta, however large the noise"
        )
    return high


@lru_cache(maxsize=1024)
def largest_beta(epsilon: float, delta: float, dimension: int) -> float:
    """The beta below which some alpha is (epsilon, delta)-DP: with alpha = infinity the variance alone tells x from x'; rounded down."""
    _require_public(epsilon, dimension, real("delta", delta, above=0, below=1))
    low, _ = _bracket(
        lambda beta: _round_up(_change_of_variance(epsilon, beta, dimension)) > delta,
        1e-20,
        _LARGEST_BETA,
    )
    return min(low, _LARGEST_BETA)


@lru_cache(maxsize=1024)
def calibrate(epsilon: float, delta: float, dimension: int) -> SmoothCalibration:
    """Half the largest beta, and the smallest alpha for it: alpha grows little up to there, and steeply beyond."""
    beta = largest_beta(epsilon, delta, dimension) / 2
    return SmoothCalibration(smooth_alpha(epsilon, delta, beta, dimension), beta)


@lru_cache(maxsize=1024)
def paper_calibration(epsilon: float, delta: float, dimension: int) -> SmoothCalibration:
    """The printed constants [Balle16, Lemma 1 of the main text], refused where they break their promise (a large epsilon)."""
    _require_public(epsilon, dimension, delta)
    if epsilon == 0:
        raise InvalidParameter.of(
            "epsilon", "must be positive for the constants of [Balle16, Lemma 1]", got="0"
        )
    alpha = 5 * math.sqrt(2 * math.log(2 / delta)) / epsilon
    beta = epsilon / (4 * (dimension + math.log(2 / delta)))
    true = smooth_delta(epsilon, alpha, beta, dimension)
    if true > delta:
        raise PromiseBroken(
            f"the constants of [Balle16, Lemma 1] give delta={true:.6g} at epsilon={epsilon:g} and dimension={dimension}, "
            f'more than the requested delta={delta:g}; use calibration="tight"'
        )
    return SmoothCalibration(alpha, beta)


def supplement_calibration(epsilon: float, delta: float, dimension: int) -> SmoothCalibration:
    """The constants that the supplement of [Balle16] proves in its Lemma 1, for epsilon <= 5 and beta <= ln 2."""
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
    true = smooth_delta(epsilon, alpha, beta, dimension)
    if true > delta:
        raise PromiseBroken(
            f"the constants of the supplement of [Balle16] give delta={true:.6g} at epsilon={epsilon:g} and dimension={dimension}, "
            f'more than the requested delta={delta:g}; use calibration="tight"'
        )
    return SmoothCalibration(alpha, beta)


@np.errstate(divide="ignore", over="ignore", invalid="ignore")  # r = 1: the ball is infinite
def _divergence(epsilon: float, distance: Array, logs: Array, dimension: int, nodes: int) -> Array:
    """H_{e^epsilon}(N(0, I) || N(distance, r^2 I)) for each r = exp(logs) and its distance > 0, all in one array."""
    free = dimension - 1  # degrees of freedom of t, off the axis
    # 1/r^2 - 1: the ball is the outside of A where it is positive
    r, curvature = np.exp(logs), np.expm1(-2 * logs)
    # (curvature R)^2; negative: A is empty
    square = np.square(distance / r) + 2 * curvature * (epsilon - dimension * logs)
    root = np.sqrt(np.maximum(square, 0.0))
    if free == 0:
        return np.where(
            square > 0, _on_the_line(np.full_like(r, epsilon), root, logs, distance), 0.0
        )
    shortest, longest = (
        math.sqrt(2 * gammaincinv(free / 2, _NEGLECTED)),
        math.sqrt(2 * gammainccinv(free / 2, _NEGLECTED)),
    )
    radius = root / np.abs(curvature)
    reach = np.minimum(radius, 8 * longest)
    start, stop = (
        np.arcsin(np.minimum(shortest / reach, 1.0)),
        np.arcsin(np.minimum(longest / reach, 1.0)),
    )
    points, weights = _gauss_legendre(nodes)
    angle = ((start + stop)[:, None] + (stop - start)[:, None] * points) / 2
    sine, cosine, part = np.sin(angle), np.cos(angle), (reach / radius)[:, None]
    t = reach[:, None] * sine
    log_density = (
        (free - 1) * np.log(t) - t * t / 2 - (free / 2 - 1) * math.log(2) - gammaln(free / 2)
    )
    # ln(e^epsilon q(t)/p(t))
    threshold = (epsilon - free * logs)[:, None] - t * t * curvature[:, None] / 2
    root_at_t = root[:, None] * np.sqrt(np.square(cosine) + (1 - part * part) * np.square(sine))
    on_line = _on_the_line(threshold, root_at_t, logs[:, None], distance[:, None])
    inside = (
        (np.exp(log_density) * on_line * reach[:, None] * cosine) @ weights * (stop - start) / 2
    )
    # beyond the ball, where r < 1, A holds the whole line
    p_beyond, q_beyond = (
        gammaincc(free / 2, np.square(radius) / 2),
        gammaincc(free / 2, np.square(radius / r) / 2),
    )
    beyond = p_beyond - np.exp(epsilon + np.log(q_beyond))
    result: Array = np.where(square > 0, inside + np.where(curvature > 0, beyond, 0.0), 0.0)
    return result


def _on_the_line(threshold: Array, root: Array, logs: Array, distance: Array) -> Array:
    """H_{e^threshold}(N(0, 1) || N(distance, r^2)), where root is that of the discriminant of p = e^threshold q.

    A is what lies below `near` or above `far` (r < 1), or between -`far` and `near` (r > 1). At the ends p = e^threshold q, which turns
    e^threshold Q into p times a Mills ratio: a large threshold does not overflow, nor do the tails cancel.
    """
    r, curvature = np.exp(logs), np.expm1(-2 * logs)
    pivot = distance / np.square(r) + root
    near = (np.square(distance / r) + 2 * (logs - threshold)) / pivot
    far = np.abs(pivot / curvature)
    standard = (near - distance) / r
    by_mills = r * _density(near) * _mills(-np.minimum(standard, 0.0))
    below = ndtr(near) - np.where(
        standard > 0, np.exp(np.minimum(threshold, 700.0)) * ndtr(standard), by_mills
    )
    outward = np.where(curvature > 0, 1.0, -1.0)
    beyond = ndtr(-far) - r * _density(far) * _mills((far - outward * distance) / r)
    result: Array = below + outward * beyond
    return result


def _change_of_variance(epsilon: float, beta: float, dimension: int) -> float:
    """delta at alpha = infinity. Both corners, nothing between: common noise makes a ratio nearer to 1 out of one farther from it."""
    if beta == 0:
        return 0.0
    shape = dimension / 2
    # R^2/2 at r = e^(-beta/2): p is the larger outside
    half_square = (epsilon + shape * beta) / math.expm1(beta)
    delta = float(gammaincc(shape, half_square)) - _times_exp(
        float(gammaincc(shape, half_square * math.exp(beta))), epsilon
    )
    if shape * beta > epsilon:
        # at r = e^(beta/2): p is the larger inside, if anywhere
        half_square = (shape * beta - epsilon) / -math.expm1(-beta)
        core = float(gammainc(shape, half_square)) - _times_exp(
            float(gammainc(shape, half_square * math.exp(-beta))), epsilon
        )
        delta = max(delta, core)
    return delta


def _times_exp(probability: float, epsilon: float) -> float:
    """e^epsilon probability, known to be at most 1."""
    return math.exp(min(0.0, epsilon + math.log(probability))) if probability > 0 else 0.0


def _bracket(true_above: Callable[[float], bool], low: float, limit: float) -> tuple[float, float]:
    """Nearly equal numbers around the point where `true_above` turns true; the upper one is infinite if that is not below `limit`."""
    high = 2 * low
    while not true_above(high):
        low, high = high, 2 * high
        if low > limit:
            return low, math.inf
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if true_above(middle) else (middle, high)
    return low, high


def _round_up(delta: float) -> float:
    if math.isnan(delta):  # something overflowed: 1 is always true
        return 1.0
    return min(1.0, max(delta, 0.0) * (1 + _SLACK) + 2 * _NEGLECTED)


def _require_public(epsilon: float, dimension: int, delta: float | None = None) -> None:
    real("epsilon", epsilon, at_least=0)
    whole("dimension", dimension, at_least=1)
    if delta is not None:
        real("delta", delta, above=0, below=1)


@lru_cache(maxsize=8)
def _gauss_legendre(nodes: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(nodes)


def _density(z: Array) -> Array:
    result: Array = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return result


def _mills(x: Array) -> Array:
    result: Array = math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
    return result
