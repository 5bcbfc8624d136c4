import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.mechanisms.counters import Toeplitz
from confide.mechanisms.counters.toeplitz import square_root


@pytest.mark.parametrize(
    ("n", "expected"),
    [(32, 2.167), (1000, 3.265), (10_000, 3.998), (100_000, 4.731), (1_000_000, 5.464)],
)
def test_sums_of_squares(n, expected):
    assert round(float((square_root(n) ** 2).sum()), 3) == expected
    assert round(Toeplitz(n).column_norm(2) * Toeplitz(n).row_norm(n), 3) == expected


def test_rounded_coefficients_cost_next_to_nothing():
    rounded, exact = Toeplitz(200, bits=16), Toeplitz(200)
    ratio = (
        rounded.column_norm(2)
        * rounded.row_norm(200)
        / (exact.column_norm(2) * exact.row_norm(200))
    )
    assert ratio == pytest.approx(1.0, abs=1e-3)


def test_the_square_root_squares_to_prefix_sums():
    c = square_root(300)
    np.testing.assert_allclose(np.convolve(c, c)[:300], 1.0, rtol=1e-12)


def test_bits_are_checked():
    with pytest.raises(InvalidParameter, match="bits must be between 4 and 30, got bits=40"):
        Toeplitz(3, bits=40)
