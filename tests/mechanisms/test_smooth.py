"""The exact profile of Gaussian noise under smooth sensitivity, against other arithmetic, sampling
and its own inverse.
"""

import math
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import InvalidParameter, PrivacyError, PromiseBroken
from confide.mechanisms.smooth import (
    SmoothCalibration,
    SmoothGaussian,
    _divergence,
    calibrate,
    largest_beta,
    paper_calibration,
    smooth_alpha,
    smooth_delta,
)
from confide.mechanisms.sources import FastSource, SecureSource
from confide.privacy.accounting import gaussian_delta, gaussian_mu
from confide.privacy.loss import ApproxDP

epsilons, alphas = st.floats(0.01, 20), st.floats(0.05, 100)
betas, dimensions = st.floats(1e-7, 2), st.integers(1, 200)


def divergence(epsilon: float, distance: float, log_ratio: float, dimension: int) -> float:
    return float(
        _divergence(epsilon, np.array([distance]), np.array([log_ratio]), dimension, 128)[0]
    )


def reference(epsilon: float, distance: float, log_ratio: float, dimension: int) -> float:
    """60 digits, and the other order of integration: along the axis, the odd dimension making the
    rest's chi-square elementary.
    """
    with mpmath.workdps(60):
        e, D, log = mpmath.mpf(epsilon), mpmath.mpf(distance), mpmath.mpf(log_ratio)
        r, pairs = mpmath.exp(log), (dimension - 1) // 2
        shrink = 1 - r * r
        centre, square = (
            D / shrink,
            2 * (e - dimension * log + D * D / (2 * shrink)) * r * r / shrink,
        )
        if square <= 0:
            return 0.0
        radius = mpmath.sqrt(square)

        def within(rest: Any) -> Any:
            """The probability of a chi-square variable (2 pairs degrees) below 2 rest."""
            term = total = mpmath.mpf(1)
            for j in range(1, pairs):
                term *= rest / j
                total += term
            return 1 - mpmath.exp(-rest) * total

        def ball(mean: Any, s: Any) -> Any:
            if pairs == 0:
                return mpmath.ncdf((centre + radius - mean) / s) - mpmath.ncdf(
                    (centre - radius - mean) / s
                )
            low, high = max(centre - radius, mean - 16 * s), min(centre + radius, mean + 16 * s)
            if high <= low:
                return mpmath.mpf(0)
            return mpmath.quad(
                lambda z: (
                    mpmath.npdf(z, mean, s) * within((square - (z - centre) ** 2) / (2 * s * s))
                ),
                mpmath.linspace(low, high, 41),
                method="gauss-legendre",
            )

        p, q = ball(mpmath.mpf(0), mpmath.mpf(1)), ball(D, r)
        return float(p - mpmath.exp(e) * q if r > 1 else (1 - p) - mpmath.exp(e) * (1 - q))


@pytest.mark.parametrize(
    ("epsilon", "distance", "log_ratio", "dimension"),
    [
        (0.1, 0.35, -0.02, 41),
        (0.1, 0.35, 0.02, 41),
        (0.1, 0.351, -2.9e-4, 41),
        (1.0, 0.25, -0.025, 11),
        (1.0, 0.25, 0.1, 41),
        (1.0, 0.01, -0.05, 21),
        (5.0, 1.2, -0.5, 3),
        (0.0, 0.3, 0.05, 9),
        (0.5, 0.05, -0.02, 101),
        (8.0, 0.3, -0.3, 5),
        (55.0, 1.0, -1.7, 1),
        (0.2, 1.0, 0.4, 1),
    ],
)
def test_divergence_agrees_with_60_digits(
    epsilon: float, distance: float, log_ratio: float, dimension: int
) -> None:
    expected = reference(epsilon, distance, log_ratio, dimension)
    assert expected > 1e-9
    assert divergence(epsilon, distance, log_ratio, dimension) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("log_ratio", "dimension"), [(-0.1, 4), (0.1, 4), (-0.02, 40), (0.02, 40)])
def test_divergence_agrees_with_sampling(log_ratio: float, dimension: int) -> None:
    """E_p (1 - e^epsilon q/p)^+ from 2e5 draws; false alarms beyond 5 standard errors: 6e-7. A
    distance 20 % off is rejected.
    """
    epsilon, distance, n, r = 0.2, 0.6, 200_000, math.exp(log_ratio)
    z = np.random.default_rng(5).standard_normal((n, dimension))
    moved = z.copy()
    moved[:, 0] -= distance
    loss = dimension * log_ratio + (moved**2).sum(axis=1) / (2 * r * r) - (z**2).sum(axis=1) / 2
    sample = np.maximum(0.0, -np.expm1(epsilon - loss))
    error = sample.std() / math.sqrt(n)
    assert abs(sample.mean() - divergence(epsilon, distance, log_ratio, dimension)) < 5 * error
    assert (
        abs(sample.mean() - divergence(epsilon, 0.8 * distance, log_ratio, dimension)) > 5 * error
    )


@pytest.mark.parametrize("dimension", [1, 2, 40, 3000])
@pytest.mark.parametrize(("epsilon", "alpha"), [(0.1, 2.85), (1.0, 4.0), (5.0, 1.0), (20.0, 0.2)])
def test_without_change_of_variance_it_is_the_gaussian_mechanism(
    epsilon: float, alpha: float, dimension: int
) -> None:
    plain = gaussian_delta(epsilon, 1 / alpha)
    assert smooth_delta(epsilon, alpha, 0.0, dimension) == pytest.approx(plain, rel=2e-9)
    # The noncentral chi-square distribution is of no use for these.
    for beta in (1e-8, 1e-12, 1e-300):
        assert (
            plain
            <= smooth_delta(epsilon, alpha, beta, dimension)
            == pytest.approx(plain, rel=3e4 * beta + 2e-9)
        )


def test_infinite_alpha_is_the_limit_of_large_ones() -> None:
    for epsilon, beta, dimension in [
        (0.1, 0.07, 40),
        (1.0, 0.1, 1),
        (0.0, 0.05, 7),
        (3.0, 1.0, 12),
        (800.0, 9.0, 300),
    ]:
        limit = smooth_delta(epsilon, math.inf, beta, dimension)
        assert limit > 1e-12
        assert smooth_delta(epsilon, 1e7, beta, dimension) == pytest.approx(limit, rel=1e-7)


def test_worst_ratio_is_not_always_a_corner() -> None:
    epsilon, alpha, beta, dimension = 0.016, 1.0168, 0.0014, 103
    corners = [
        divergence(epsilon, min(1, math.exp(log)) / alpha, log, dimension)
        for log in (-beta / 2, beta / 2)
    ]
    assert smooth_delta(epsilon, alpha, beta, dimension) > max(corners) + 1e-4


@settings(max_examples=150, deadline=None)
@given(epsilons, alphas, betas, dimensions, st.floats(-1, 1), st.floats(0.01, 1))
def test_no_allowed_pair_is_worse(
    epsilon: float, alpha: float, beta: float, dimension: int, place: float, share: float
) -> None:
    log_ratio = place * beta / 2
    one = divergence(epsilon, share * min(1.0, math.exp(log_ratio)) / alpha, log_ratio, dimension)
    assert min(one, 1.0) <= smooth_delta(epsilon, alpha, beta, dimension) + 1e-13


@settings(max_examples=150, deadline=None)
@given(epsilons, alphas, betas, dimensions, st.floats(1.0001, 10))
def test_monotone(epsilon: float, alpha: float, beta: float, dimension: int, factor: float) -> None:
    delta = smooth_delta(epsilon, alpha, beta, dimension)
    allowed = delta * (1 + 2e-9) + 1e-15
    assert 0 <= delta <= 1
    assert smooth_delta(epsilon, alpha * factor, beta, dimension) <= allowed
    assert smooth_delta(epsilon, alpha, beta / factor, dimension) <= allowed
    assert smooth_delta(epsilon * factor, alpha, beta, dimension) <= allowed
    assert gaussian_delta(epsilon, 1 / alpha) <= allowed


@settings(max_examples=50, deadline=None)
@given(epsilons, st.floats(-12, -0.5), dimensions, st.floats(0, 0.95))
def test_round_trip(epsilon: float, log10_delta: float, dimension: int, share: float) -> None:
    delta = 10**log10_delta
    beta = share * largest_beta(epsilon, delta, dimension)
    alpha = smooth_alpha(epsilon, delta, beta, dimension)
    assert delta * (1 - 1e-7) <= smooth_delta(epsilon, alpha, beta, dimension) <= delta
    assert smooth_delta(epsilon, alpha * (1 - 1e-6), beta, dimension) > delta
    assert alpha >= (1 - 1e-8) / gaussian_mu(epsilon, delta)


def test_golden_values_of_the_chain() -> None:
    """epsilon = delta = 0.1, 40 states [Balle16, Sec. 6]. 5.815e-4 is the beta of the paper's
    lemma: half the largest is 66 times that.
    """
    assert paper_calibration(0.1, 0.1, 40).beta == pytest.approx(5.815e-4, rel=1e-4)
    assert math.ceil(smooth_alpha(0.1, 0.1, 5.815e-4, 40) * 1e4) == 28473
    assert largest_beta(0.1, 0.1, 40) == pytest.approx(0.0772267, rel=1e-6)
    tight = calibrate(0.1, 0.1, 40)
    assert tight.beta == largest_beta(0.1, 0.1, 40) / 2
    assert tight.alpha == pytest.approx(3.2937065, rel=1e-7)


def test_beta_is_that_of_the_variance() -> None:
    """With beta of the deviation the same constants would give .729 (and alpha = 2.8478 above)."""
    # [Balle16, Lemma 1]
    alpha, beta = 5 * math.sqrt(2 * math.log(20)) / 55, 55 / (4 * (1 + math.log(20)))
    assert smooth_delta(55, alpha, beta, 1) == pytest.approx(0.132093, rel=1e-5)
    assert smooth_delta(55, alpha, 2 * beta, 1) == pytest.approx(0.729499, rel=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "dimension", "factor"),
    [
        (0.01, 0.1, 40, 321),
        (0.1, 0.1, 40, 43.0),
        (1, 0.1, 40, 11.24),
        (1, 1e-5, 40, 6.39),
        (1, 1e-5, 1, 5.77),
        (5, 1e-5, 1, 4.60),
        (5, 1e-9, 1, 4.36),
    ],
)
def test_printed_constants_are_loose(
    epsilon: float, delta: float, dimension: int, factor: float
) -> None:
    paper = paper_calibration(epsilon, delta, dimension)
    assert paper.alpha == pytest.approx(5 * math.sqrt(2 * math.log(2 / delta)) / epsilon)
    assert paper.alpha / smooth_alpha(epsilon, delta, paper.beta, dimension) == pytest.approx(
        factor, rel=3e-3
    )


def test_printed_constants_are_refused_where_they_fail() -> None:
    paper_calibration(50, 0.1, 1)
    with pytest.raises(PromiseBroken, match=r"delta=0\.132093 at epsilon=55"):
        paper_calibration(55, 0.1, 1)
    with pytest.raises(PromiseBroken, match="delta=1 "):
        paper_calibration(1e5, 0.1, 1)
    with pytest.raises(PromiseBroken):
        SmoothGaussian(55, 0.1, 1, calibration="paper")
    assert SmoothGaussian(55, 0.1, 1).loss == ApproxDP(55, 0.1)


def test_too_large_a_beta_is_refused_with_the_largest() -> None:
    largest = largest_beta(0.1, 0.1, 40)
    with pytest.raises(InvalidParameter, match=f"beta must be below {largest}"):
        smooth_alpha(0.1, 0.1, 1.001 * largest, 40)
    assert smooth_alpha(0.1, 0.1, 0.999 * largest, 40) < 100
    assert (
        smooth_delta(0.1, math.inf, largest, 40)
        <= 0.1
        < smooth_delta(0.1, math.inf, largest * (1 + 1e-6), 40)
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "dimension"),
    [(1, 1e-5, 10**6), (2000, 1e-5, 300), (1, 1e-30, 4), (0, 1e-6, 5), (3, 0.9, 10)],
)
def test_extreme_requests(epsilon: float, delta: float, dimension: int) -> None:
    c = calibrate(epsilon, delta, dimension)
    assert delta * (1 - 1e-6) < smooth_delta(epsilon, c.alpha, c.beta, dimension) <= delta
    assert (
        smooth_delta(epsilon, 1e-200, c.beta, dimension)
        == smooth_delta(epsilon, c.alpha, 1e9, dimension)
        == 1.0
    )


@pytest.mark.parametrize(
    "arguments",
    [
        (-1.0, 0.1, 3),
        (math.inf, 0.1, 3),
        (math.nan, 0.1, 3),
        (1.0, 0.0, 3),
        (1.0, 1.0, 3),
        (1.0, math.nan, 3),
        (1.0, 0.1, 0),
        (1.0, 0.1, 2.5),
    ],
)
def test_public_parameters_are_checked(arguments: tuple[float, float, int]) -> None:
    for function in (calibrate, paper_calibration, largest_beta, SmoothGaussian):
        with pytest.raises(InvalidParameter):
            function(*arguments)


def test_more_public_parameters_are_checked() -> None:
    for alpha, beta in [
        (0.0, 0.1),
        (-1.0, 0.1),
        (math.nan, 0.1),
        (1.0, -0.1),
        (1.0, math.inf),
        (1.0, math.nan),
    ]:
        with pytest.raises(InvalidParameter):
            smooth_delta(1.0, alpha, beta, 3)
    with pytest.raises(InvalidParameter, match="calibration"):
        SmoothGaussian(1.0, 0.1, 3, calibration="loose")
    with pytest.raises(InvalidParameter, match="positive"):
        paper_calibration(0.0, 0.1, 3)


class Recorder:
    """Fast noise that notes what it was asked for."""

    name = "recorder"
    discrete = False

    def __init__(self, seed: int = 0) -> None:
        self._fast, self.calls = FastSource(np.random.default_rng(seed)), list[tuple[float, int]]()

    def gaussian(self, scale: float, size: int) -> npt.NDArray[Any]:
        self.calls.append((scale, size))
        return self._fast.gaussian(scale, size)

    def laplace(self, scale: float, size: int) -> npt.NDArray[Any]:
        raise AssertionError(
            f"the noise of this release is Gaussian, not Laplace ({scale}, {size})"
        )

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None: ...


def test_noise_follows_the_smooth_sensitivity_and_nobody_is_told() -> None:
    """4e4 coordinates: the mean square is within 5 standard deviations (false alarms 6e-7) of alpha
    S; 20 % less is rejected.
    """
    mechanism, source, n = SmoothGaussian(1.0, 1e-5, 40_000), Recorder(), 40_000
    exact, secret = np.linspace(-3, 3, n), 0.123456
    noise = mechanism.release(exact, secret, source, least=secret) - exact
    squares = float((noise**2).mean())
    assert abs(squares / (mechanism.alpha * secret) ** 2 - 1) < 5 * math.sqrt(2 / n)
    assert abs(squares / (0.8 * mechanism.alpha * secret) ** 2 - 1) > 5 * math.sqrt(2 / n)
    assert source.calls == [(1.0, n)]
    assert "123456" not in repr(mechanism)
    np.testing.assert_allclose(
        noise + exact, mechanism.release(exact, secret, Recorder(), least=secret), rtol=1e-12
    )
    assert exact[0] == -3


@pytest.mark.parametrize(
    "secret", [math.nan, math.inf, -math.inf, -0.7171, 0.0, 1e308, "x7171", None, 10**400, 7171j]
)
def test_a_bad_smooth_sensitivity_releases_nothing_and_tells_nothing(secret: Any) -> None:
    source = Recorder()
    with pytest.raises(PrivacyError, match="nothing was released") as caught:
        SmoothGaussian(0.01, 1e-5, 2).release(np.array([0.0, 1.0]), secret, source, least=1e-300)
    assert "71" not in str(caught.value) and "nan" not in str(caught.value)
    assert source.calls == []


@pytest.mark.parametrize(
    "values",
    [
        [math.nan, 7171.0],
        [math.inf, 7171.0],
        [-math.inf, 7171.0],
        ["secret", "7171"],
        [7171, [1, 2]],
    ],
)
def test_bad_values_release_nothing_and_tell_nothing(values: list[Any]) -> None:
    source = Recorder()
    mechanism = SmoothGaussian(1.0, 1e-5, 2)
    with pytest.raises(PrivacyError, match="nothing was released") as caught:
        mechanism.release(values, 1.0, source, least=1.0)  # type: ignore[arg-type]
    assert "7171" not in str(caught.value) and "secret" not in str(caught.value)
    assert source.calls == []


def test_overflow_shape_and_lattice_are_refused() -> None:
    mechanism = SmoothGaussian(1.0, 1e-5, 3)
    with pytest.raises(PrivacyError, match="overflow"):
        mechanism.release(np.full(3, 1.7e308), 1e307, Recorder(), least=1e306)
    with pytest.raises(InvalidParameter, match=r"shape \(3,\), got \(2,\)"):
        mechanism.release(np.zeros(2), 1.0, Recorder(), least=1.0)
    for least in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidParameter, match="least smooth sensitivity"):
            mechanism.release(np.zeros(3), 1.0, Recorder(), least=least)
    with pytest.raises(PrivacyError, match="nothing was released"):
        mechanism.release(np.zeros(3), 0.5, Recorder(), least=1.0)


def test_secure_noise_is_normal_on_a_grid_that_does_not_know_the_scale() -> None:
    """4e3 coordinates: the mean square within 5 standard deviations (false alarms 6e-7), and 20 %
    less is rejected.
    """
    n = 4_000
    mechanism, secure = SmoothGaussian(1.0, 1e-5, n), SecureSource(lattice=False)
    exact, grid = np.linspace(-3, 3, n), mechanism.grid(1e-3)
    for sensitivity in (1e-3, 0.7, 40.0):
        released = mechanism.release(exact, sensitivity, secure, least=1e-3)
        assert np.array_equal(np.rint(released / grid) * grid, released)
        squares = float(((released - exact) ** 2).mean()) / (mechanism.alpha * sensitivity) ** 2
        assert abs(squares - 1) < 5 * math.sqrt(2 / n) < abs(squares / 0.64 - 1)


@pytest.mark.parametrize("secure", [False, True])
def test_low_bits_tell_nothing(secure: bool) -> None:
    """The attack of [Mironov12] on two neighbours with values 0 and 1. In doubles 1 + z is a whole
    multiple of 2^-53, and z is often not: what is not tells the neighbours apart, at every epsilon.
    After rounding to the public grid nothing is."""
    mechanism, rng, runs = SmoothGaussian(1.0, 1e-6, 1), np.random.default_rng(0), 500
    # Here S = 1.
    sigma = mechanism.alpha

    def fine(values: npt.NDArray[np.float64]) -> int:
        """How many are not whole multiples of 2^-53."""
        return int((np.fmod(values, 2.0**-53) != 0).sum())

    draws = sigma * rng.normal(size=20_000)
    # delta is at least .01 before rounding
    assert fine(draws + 1) == 0 and fine(draws) > 0.01 * len(draws)
    source = SecureSource(lattice=False) if secure else FastSource(rng)
    for value in (0.0, 1.0):
        released = np.array(
            [mechanism.release(np.array([value]), 1.0, source, least=1.0)[0] for _ in range(runs)]
        )
        assert (np.fmod(released, mechanism.grid(1.0)) == 0).all() and fine(released) == 0


def test_audit() -> None:
    """The optimal test on the worst two neighbours, 3e4 releases each: delta as claimed; with 3/4
    of the noise it is refuted.

    Bounds 5 standard errors wide: false alarms 3e-7.
    """
    epsilon, delta, d, n = 0.5, 0.1, 3, 30_000
    mechanism = SmoothGaussian(epsilon, delta, d)
    # S = 1 and e^(-beta/2), at that distance
    here, there = np.zeros(d), np.array([math.exp(-mechanism.beta / 2), 0.0, 0.0])

    def lower_bound(share: float) -> tuple[float, float]:
        source = FastSource(np.random.default_rng(11))
        s1, s2 = mechanism.alpha * share, mechanism.alpha * share * there[0]
        outside = []
        for exact, sensitivity in ((here, share), (there, share * there[0])):
            z = np.array(
                [mechanism.release(exact, sensitivity, source, least=0.5) for _ in range(n)]
            )
            loss = (
                d * math.log(s2 / s1)
                + ((z - there) ** 2).sum(1) / (2 * s2**2)
                - (z**2).sum(1) / (2 * s1**2)
            )
            outside.append(float((loss > epsilon).mean()))
        p, q = outside
        return p - math.exp(epsilon) * q, math.sqrt(
            (p * (1 - p) + math.exp(2 * epsilon) * q * (1 - q)) / n
        )

    epsilon_below, error = lower_bound(1.0)
    assert abs(epsilon_below - delta) < 5 * error
    epsilon_below, error = lower_bound(0.75)
    assert epsilon_below - 5 * error > delta


def test_calibrations_are_values() -> None:
    assert calibrate(1.0, 1e-5, 7) is calibrate(1.0, 1e-5, 7)
    assert (
        SmoothGaussian(1.0, 1e-5, 7)
        == SmoothGaussian(1.0, 1e-5, 7)
        != SmoothGaussian(1.0, 1e-5, 7, "paper")
    )
    paper = SmoothGaussian(1.0, 1e-5, 7, "paper")
    assert SmoothCalibration(paper.alpha, paper.beta) == paper_calibration(1.0, 1e-5, 7)
