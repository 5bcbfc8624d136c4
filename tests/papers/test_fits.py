"""Exponents of formulas and of samples."""

import numpy as np
import pytest

from papers.fits import exponent, fit_growth, plain

pytestmark = pytest.mark.long


def test_exponent_of_a_power():
    assert exponent(lambda x: 7 * x**1.75, 1e10) == pytest.approx(1.75)
    assert exponent(lambda x: x**0.5 * np.log(x), 1e100) == pytest.approx(0.5, abs=0.01)


def test_fitted_over_the_whole_window():
    x = [10, 100, 1000, 10_000]
    rng = np.random.default_rng(0)
    table = np.array([[n**0.6 * (1 + 0.02 * rng.standard_normal()) for n in x] for _ in range(8)])
    slope = fit_growth(x, table)
    assert slope.start == 10 and slope.end == 10_000
    assert abs(slope.slope - 0.6) < 5 * slope.error
    assert slope.verdict(0.7) == "below"
    assert plain(slope) == f"{slope.slope:.2f} ± {slope.error:.2f}"
    assert plain(fit_growth(x, table[:1])) == f"{fit_growth(x, table[:1]).slope:.2f}"
