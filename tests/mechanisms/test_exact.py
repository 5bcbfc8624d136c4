"""Exact draws from a stream of bytes: their probabilities, and that they are a function of the
stream.
"""

import itertools
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from confide.mechanisms.exact import ExactSource, below, discrete_gaussian, discrete_laplace
from confide.mechanisms.sources import noise_source


def even(seed):
    rng = np.random.default_rng(seed)
    return lambda limit: below(rng.bytes, limit)


def p_value(draws, weights):
    """Of a chi-square test on the whole numbers whose expected count is at least 10; all others are
    one class.
    """
    expected = {z: len(draws) * w / sum(weights.values()) for z, w in weights.items()}
    kept = [z for z, count in expected.items() if count >= 10]
    seen = [int((draws == z).sum()) for z in kept]
    rest = len(draws) - sum(expected[z] for z in kept)
    observed, expected_counts = (
        [*seen, len(draws) - sum(seen)],
        [*(expected[z] for z in kept), rest],
    )
    return float(stats.chisquare(observed, expected_counts).pvalue)


@pytest.mark.parametrize("scale", [0.3, 0.75, 3.0, 7.3])
def test_gaussian_draws_have_exactly_the_right_probabilities(scale):
    """6,000 draws against exp(-z^2 / (2 scale^2)): rejected at 1e-6 (false alarms). A scale that is
    20 % off is.
    """
    fair = even(0)
    draws = np.array([discrete_gaussian(fair, Fraction(scale)) for _ in range(6_000)])
    z = np.arange(-100, 101)
    assert (
        p_value(draws, dict(zip(z.tolist(), np.exp(-(z**2) / (2 * scale**2)), strict=True))) > 1e-6
    )
    assert (
        p_value(
            draws, dict(zip(z.tolist(), np.exp(-(z**2) / (2 * (0.8 * scale) ** 2)), strict=True))
        )
        < 1e-6
    )


@pytest.mark.parametrize("scale", [0.4, 1.5, 6.0])
def test_laplace_draws_have_exactly_the_right_probabilities(scale):
    """6,000 draws against exp(-|z| / scale): rejected at 1e-6 (false alarms). A scale that is 20 %
    off is.
    """
    fair = even(1)
    draws = np.array([discrete_laplace(fair, Fraction(scale)) for _ in range(6_000)])
    z = np.arange(-200, 201)
    assert p_value(draws, dict(zip(z.tolist(), np.exp(-abs(z) / scale), strict=True))) > 1e-6
    assert (
        p_value(draws, dict(zip(z.tolist(), np.exp(-abs(z) / (0.8 * scale)), strict=True))) < 1e-6
    )


def test_scales_of_devices():
    """4,000 draws at a scale of 3e6 steps: 6 standard errors of a standard deviation are 6.7 %; a
    20 % error is rejected.
    """
    source = ExactSource(np.random.default_rng(2).bytes)
    for draws, std in (
        (source.gaussian(3e6, 4_000), 3e6),
        (source.laplace(3e6, 4_000), 3e6 * 2**0.5),
    ):
        assert np.std(draws) == pytest.approx(std, rel=0.1)
        assert np.std(0.8 * draws) != pytest.approx(std, rel=0.1)
        assert abs(np.mean(draws)) < 6 * std / 4_000**0.5


def test_numbers_below_a_limit_by_their_first_bits():
    """Two bytes have nine bits that count; whole numbers that are not below the limit are drawn
    again.
    """
    stream = itertools.chain(b"\xff\xff\x80\x7f\x00\x00")
    assert [below(lambda n: bytes(itertools.islice(stream, n)), 257) for _ in range(2)] == [256, 0]
    assert below(lambda n: b"\x00" * n, 1) == 0
    even_six = even(3)
    counts = np.bincount([even_six(6) for _ in range(6_000)], minlength=6)
    assert stats.chisquare(counts).pvalue > 1e-6 and len(counts) == 6


def test_the_same_bytes_give_the_same_draws():
    one, other = (ExactSource(np.random.default_rng(5).bytes) for _ in range(2))
    for draw in ("gaussian", "laplace"):
        np.testing.assert_array_equal(
            getattr(one, draw)(1234.5, (2, 3)), getattr(other, draw)(1234.5, (2, 3))
        )
    assert one.choose(np.arange(8) < 2, 1.0) == other.choose(np.arange(8) < 2, 1.0)
    assert one.token(16) == other.token(16) != one.token(16)


def test_it_needs_no_opendp(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    source = ExactSource()
    assert (source.name, source.discrete, source.device().name) == ("secure", True, "secure")
    assert source.gaussian(2.0**20, 3).dtype == source.cube(4.0, (3, 2)).dtype == np.int64
    assert source.gaussian(2.0**30, 3).tolist() != source.gaussian(2.0**30, 3).tolist()


def test_it_agrees_with_opendp():
    """Two-sample chi-square on 4,000 draws of each, false alarms 1e-6."""
    one = ExactSource(np.random.default_rng(6).bytes).gaussian(2.5, 4_000)
    other = noise_source("secure").gaussian(2.5, 4_000)
    table = [
        [int((np.clip(draws, -6, 6) == z).sum()) for z in range(-6, 7)] for draws in (one, other)
    ]
    assert stats.chi2_contingency(table).pvalue > 1e-6
