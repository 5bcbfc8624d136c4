"""Discounted sums: the noise on the rate, and whole coefficients."""

import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.mechanisms.counters import Discounted, Leaves, Toeplitz, dense, noise_on_rate


def effective(counter):
    return noise_on_rate(counter, 1.3 ** np.arange(counter.leaves))


def test_the_noise_on_a_rate_is_that_of_least_squares():
    """2000 releases of noise alone: the estimate of the rate, on the whole past, within 5 s.e. of
    the stated deviation.
    """
    counter, users, rng = Discounted(8), 1.3 ** np.arange(8), np.random.default_rng(0)
    _, coder = dense(counter)
    mean = coder @ users
    estimates = (
        rng.normal(0, counter.column_norm(2), size=(2000, 8)) @ mean / (mean @ mean) * users.sum()
    )
    assert np.std(estimates) == pytest.approx(
        noise_on_rate(counter, users), rel=5 / math.sqrt(4000)
    )


def test_the_noise_on_a_rate_is_what_the_formula_says():
    assert effective(Discounted(32)) == pytest.approx(1 + 1 / 1.3, rel=2e-3)
    assert effective(Discounted(32, bits=16)) == pytest.approx(effective(Discounted(32)), rel=1e-3)
    assert effective(Toeplitz(32)) == pytest.approx(1.96, abs=0.01)
    assert effective(Leaves(32)) == pytest.approx(2.77, abs=0.01)


@pytest.mark.parametrize("bits", [None, 12])
def test_the_weights_are_the_rows_of_the_coder(bits):
    counter = Discounted(9, 0.6, bits)
    _, coder = dense(counter)
    for t in range(1, 10):
        np.testing.assert_allclose(counter.weights(t), coder[t - 1, :t] / counter.coefficient)


def test_a_flooring_accumulator_would_count_users_too_often():
    """Why the leaves are kept for whole coefficients: an accumulator that is rounded down moves by
    up to one more at each release.
    """
    first, other = [1 << 20, 0, 0, 0, 0, 0], [(1 << 20) + 1, 0, 0, 0, 0, 0]

    def floored(leaves):
        total, seen = 0, []
        for leaf in leaves:
            total = total * 10 // 13 + leaf
            seen.append(total)
        return np.array(seen)

    apart = [
        np.linalg.norm(floored(np.array(first) + k) - floored(np.array(other) + k))
        for k in range(200)
    ]
    assert max(apart) > Discounted(6, 10 / 13).column_norm(2)


def test_arguments_are_checked():
    for ratio in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InvalidParameter, match="ratio"):
            Discounted(3, ratio)
    with pytest.raises(InvalidParameter, match="bits"):
        Discounted(3, bits=40)
