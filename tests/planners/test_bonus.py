"""The bonus, by its formula."""

import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.planners import _regression_kernels as _kernels
from confide.planners.regression import NO_BONUS, Width, bonus
from confide.planners.regression import tight_width as tight

pytestmark = pytest.mark.kernels


def bonus_twin(X, inverse, scale, sampling, noise, factor, cap):
    solved = X @ inverse
    return (
        factor
        * scale
        * np.minimum(
            cap, np.sqrt(sampling * (X * solved).sum(axis=1) + noise * (solved**2).sum(axis=1))
        )
    )


def precision(rng, m):
    G = rng.normal(size=(m, 2 * m))
    return G @ G.T + np.eye(m)


@pytest.mark.parametrize("m", [1, 2, 5, 30])
def test_the_kernel_equals_its_twin(m):
    rng = np.random.default_rng(m)
    X, inverse = rng.normal(size=(40, m)), np.linalg.inv(precision(rng, m))
    for arguments in (
        (1.0, 0.25, 3.0, 0.1, 1.0),
        (4.0, 2.0, 0.0, 1.0, math.inf),
        (2.0, 0.0, 50.0, 0.3, 0.7),
    ):
        np.testing.assert_allclose(
            _kernels.bonus(X, inverse, arguments[0], arguments[1:]),
            bonus_twin(X, inverse, *arguments),
            rtol=1e-12,
        )


def test_the_formula_in_plain_numbers():
    """With L = 100 I and x of length 2, x^T L^-1 x = .04 and ||L^-1 x||^2 = .0004."""
    width = tight(target_std=0.5, response_noise=6.0, gram_noise=8.0)
    x = np.array([2.0, 0.0, 0.0])
    assert width.factor == 0.1
    assert bonus(x, 100 * np.eye(3), 3.0, width) == pytest.approx(
        0.1 * 3 * math.sqrt(0.25 * 0.04 + (36 + 16) * 0.0004)
    )
    assert bonus(x, 0.01 * np.eye(3), 3.0, width) == pytest.approx(0.1 * 3)
    paper = Width(7.0**2, 0.0, factor=1.0, cap=math.inf)
    assert bonus(x, 0.01 * np.eye(3), 1.0, paper) == pytest.approx(7 * math.sqrt(400.0))
    assert bonus(x, np.eye(3), 1.0, NO_BONUS) == 0.0


def test_many_rows_at_once():
    rng = np.random.default_rng(0)
    X, L, width = rng.normal(size=(6, 4, 3)), precision(rng, 3), Width(0.25, 2.0)
    made = bonus(X, L, 2.0, width)
    assert made.shape == (6, 4)
    assert made[5, 2] == pytest.approx(float(bonus(X[5, 2], L, 2.0, width)), rel=1e-14)
    np.testing.assert_array_equal(bonus(X.swapaxes(0, 1), L, 2.0, width), made.T)


def test_it_shrinks_with_data_and_grows_with_noise():
    rng = np.random.default_rng(1)
    X, L = rng.normal(size=(50, 4)), precision(rng, 4)
    width = tight(target_std=0.5, response_noise=1.0, gram_noise=1.0)
    noisier = tight(target_std=0.5, response_noise=1.0, gram_noise=2.0)
    now = bonus(X, L, 1.0, width)
    assert (bonus(X, 10 * L, 1.0, width) < now).all()
    assert (bonus(X, L, 1.0, noisier) >= now).all()
    assert (now <= 0.1).all() and (now > 0).all()


def test_gram_noise_moves_predictions_as_the_width_says():
    """v^T Z w has variance s^2 (||v||^2 ||w||^2 + (v.w)^2) / 2: s^2/4 per unit of ||v||^2 at ||w||^2 = 1/2, v orthogonal to w.

    20000 draws: the variance is known to 1 %, and 4 % off is a false alarm of less than 1e-4; a width wrong by 20 % would not pass.
    """
    rng = np.random.default_rng(2)
    Z = rng.normal(scale=3.0, size=(20_000, 3, 3))
    Z = (Z + Z.swapaxes(1, 2)) / 2
    v, w = np.array([0.0, 2.0, 0.0]), np.array([math.sqrt(0.5), 0.0, 0.0])
    assert (v @ Z @ w).var() == pytest.approx(
        tight(target_std=0.0, response_noise=0.0, gram_noise=3.0).noise * 4.0, rel=0.04
    )
    w = np.array([0.0, 1.0, 0.0])
    assert (v @ Z @ w).var() == pytest.approx(3.0**2 * 4.0, rel=0.04)


@pytest.mark.parametrize("name", ["sampling", "noise", "factor", "cap"])
def test_bad_widths_are_refused(name):
    for value in (-1.0, math.nan):
        with pytest.raises(InvalidParameter, match=f"{name} must not be negative"):
            Width(**{"sampling": 1.0, "noise": 1.0, name: value})


def test_bad_shapes_are_refused():
    with pytest.raises(InvalidParameter, match=r"precision must have shape \(3, 3\)"):
        bonus(np.ones((5, 3)), np.eye(2), 1.0, NO_BONUS)
