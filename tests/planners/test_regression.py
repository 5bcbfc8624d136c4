"""Least squares on noisy statistics, the exact projection on the simplex, and the bonus, by its
formula.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import InvalidParameter
from confide.mixtures.value_features import raw, reduced
from confide.planners import _regression_kernels as _kernels
from confide.planners.regression import (
    NO_BONUS,
    RegressionEstimate,
    Width,
    bonus,
    least_squares,
    project_simplex,
    ridge_size,
)
from confide.planners.regression import tight_width as tight

pytestmark = pytest.mark.kernels


def ill_conditioned(rng, d, exponent):
    """Eigenvalues from 1 to 10^exponent, in random directions."""
    Q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    P = (Q * 10 ** rng.uniform(0, exponent, size=d)) @ Q.T
    return (P + P.T) / 2


def targets(rng, d):
    """Inside, on the boundary, on a vertex, near and far outside."""
    return [
        rng.dirichlet(np.ones(d)),
        rng.dirichlet(np.full(d, 0.05)),
        np.eye(d)[rng.integers(d)],
        rng.normal(size=d),
        np.round(rng.normal(size=d)),
        1000 * rng.normal(size=d),
    ]


def kkt_residual(w, target, P):
    """How far g = P (w - target) is from being constant on the support and no smaller off it, per
    unit of the terms that make up g.
    """
    g = P @ (w - target)
    support = w > 0
    multipliers = g - g[support].mean()
    size = (np.abs(P) @ (np.abs(w) + np.abs(target))).max()
    return max(np.abs(multipliers[support]).max(), -multipliers.min()) / size


def project_twin(target, P):
    """Every face in turn: the best minimum that lies inside its face."""
    d = len(target)
    best = (math.inf, None)
    for size in range(1, d + 1):
        for face in map(list, itertools.combinations(range(d), size)):
            system = np.block(
                [
                    [P[np.ix_(face, face)], np.ones((size, 1))],
                    [np.ones((1, size)), np.zeros((1, 1))],
                ]
            )
            w = np.zeros(d)
            w[face] = np.linalg.solve(system, np.append(P[face] @ target, 1.0))[:size]
            if w.min() >= -1e-12:
                best = min(best, ((w - target) @ P @ (w - target), tuple(w)))
    return np.array(best[1])


@pytest.mark.parametrize("d", range(1, 31))
def test_projections_satisfy_the_optimality_conditions(d):
    rng = np.random.default_rng(d)
    for exponent in (0, 3, 6, 9, 12):
        for target in targets(rng, d):
            P = ill_conditioned(rng, d, exponent)
            w = project_simplex(target, P)
            assert w.min() >= 0 and abs(w.sum() - 1) < 1e-14
            assert kkt_residual(w, target, P) < 1e-12


def test_absolute_residuals_at_the_scale_of_real_statistics():
    """Up to 1e5 users with rows of norm one, weights a little outside the simplex: 1e-10 without
    any scaling.
    """
    rng = np.random.default_rng(0)
    for _ in range(300):
        d = int(rng.integers(2, 12))
        P = ill_conditioned(rng, d, 5)
        target = rng.dirichlet(np.ones(d)) + 0.3 * rng.normal(size=d)
        w = project_simplex(target, P)
        g = P @ (w - target)
        nu = g[w > 0].mean()
        assert np.abs(g - nu)[w > 0].max() < 1e-10 and (g - nu).min() > -1e-10


@pytest.mark.parametrize("d", [1, 2, 3, 5, 7])
def test_the_kernel_equals_its_twin(d):
    rng = np.random.default_rng(d)
    for exponent in (0, 2, 4):
        goals = np.array(targets(rng, d)[:5])
        P = np.array([ill_conditioned(rng, d, exponent) for _ in goals])
        expected = [project_twin(target, p) for target, p in zip(goals, P, strict=True)]
        np.testing.assert_allclose(_kernels.project(goals, P), expected, atol=1e-9)


def test_ties_end():
    for d in (2, 5, 16):
        for target in (
            np.zeros(d),
            np.ones(d),
            np.repeat([1.0, 0.0], [1, d - 1]),
            np.repeat([2.0, -1.0], [2, d - 2]),
        ):
            w = project_simplex(target, np.eye(d))
            assert kkt_residual(w, target, np.eye(d)) < 1e-14
    np.testing.assert_allclose(
        project_simplex(np.array([0.7, 0.7, -0.4]), np.eye(3)), [0.5, 0.5, 0.0], atol=1e-15
    )


@given(st.integers(2, 8), st.integers(0, 10**6))
def test_projection_properties(d, seed):
    rng = np.random.default_rng(seed)
    P = ill_conditioned(rng, d, 3)
    target = rng.normal(size=d)
    w = project_simplex(target, P)
    np.testing.assert_allclose(project_simplex(w, P), w, atol=1e-12)  # a projection
    np.testing.assert_allclose(project_simplex(target, 1e7 * P), w, atol=1e-9)  # whatever the units
    # what happens along 1 does not matter
    np.testing.assert_allclose(project_simplex(target, P + 5.0), w, atol=1e-9)
    others = rng.dirichlet(np.ones(d), size=50)
    assert ((others - w) @ P @ (w - target) > -1e-8).all()  # the angle at w is obtuse


def test_a_precision_that_is_singular_along_one():
    rng = np.random.default_rng(3)
    fm = reduced(6)
    inner = ill_conditioned(rng, 5, 3)
    target = rng.normal(size=6)
    P = fm.basis @ inner @ fm.basis.T
    w = project_simplex(target, P)
    assert kkt_residual(w, target, P) < 1e-12
    np.testing.assert_allclose(w, project_simplex(target, P + 10.0), atol=1e-10)


def test_batches_have_any_shape():
    rng = np.random.default_rng(4)
    P = np.array([[ill_conditioned(rng, 4, 2) for _ in range(3)] for _ in range(2)])
    w = rng.normal(size=(2, 3, 4))
    np.testing.assert_array_equal(project_simplex(w, P)[1, 2], project_simplex(w[1, 2], P[1, 2]))


def test_projections_refuse_what_has_no_unique_answer():
    with pytest.raises(InvalidParameter, match="positive definite"):
        project_simplex(np.zeros(3), np.diag([1.0, 0.0, 0.0]))
    with pytest.raises(InvalidParameter, match="finite"):
        project_simplex(np.array([np.nan, 0.0]), np.eye(2))
    with pytest.raises(InvalidParameter, match=r"got \(3,\) and \(2, 2\)"):
        project_simplex(np.zeros(3), np.eye(2))


def goe(rng, shape, m, s):
    Z = rng.normal(scale=s, size=(*shape, m, m))
    return (Z + Z.swapaxes(-1, -2)) / 2  # diagonal s^2, off the diagonal s^2 / 2


@pytest.mark.parametrize("m", [1, 2, 5, 30])
def test_repair_ridge_and_solution(m):
    """P has the eigenvectors of Lambda, the eigenvalues max(lambda, 0) + rho, and P theta = u."""
    rng = np.random.default_rng(m)
    Lambda = goe(rng, (2, 3), m, 20.0)
    u = rng.normal(size=(2, 3, m))
    estimate = least_squares(Lambda, u, noise_std=20.0, ridge=0.7)
    rho = max(1.0, 0.7 * 20 * math.sqrt(2 * m) / 2)
    np.testing.assert_allclose(
        np.einsum("...ij,...j->...i", estimate.precision, estimate.weights), u, atol=1e-10
    )
    expected = np.sort(np.maximum(np.linalg.eigvalsh(Lambda), 0) + rho, axis=-1)
    np.testing.assert_allclose(np.linalg.eigvalsh(estimate.precision), expected, rtol=1e-10)
    np.testing.assert_allclose(estimate.precision @ Lambda, Lambda @ estimate.precision, atol=1e-9)


def test_ridge_is_of_the_size_of_the_noise():
    assert ridge_size(8, noise_std=10.0, ridge=0.3) == pytest.approx(0.3 * 10 * 4 / 2)
    assert ridge_size(8, noise_std=0.1) == 1.0
    assert ridge_size(8, noise_std=0.0, floor=1e-6) == 1e-6
    rng = np.random.default_rng(0)
    norms = np.abs(np.linalg.eigvalsh(goe(rng, (20,), 200, 3.0))).max(axis=-1)
    assert norms.mean() == pytest.approx(3.0 * math.sqrt(2 * 200), rel=0.05)


def test_without_noise_it_is_ridge_regression():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 4))
    theta = rng.normal(size=4)
    y = X @ theta + 0.1 * rng.normal(size=500)
    estimate = least_squares(X.T @ X, X.T @ y, noise_std=0.0, floor=2.0)
    stacked = np.concatenate([X, math.sqrt(2.0) * np.eye(4)]), np.concatenate([y, np.zeros(4)])
    np.testing.assert_allclose(
        estimate.weights, np.linalg.lstsq(*stacked, rcond=None)[0], atol=1e-12
    )


def test_the_simplex_estimate_is_the_constrained_least_squares_solution():
    """||y - X w||^2 + rho ||w||^2 over the simplex, by the twin; and the same through the reduced
    coordinates.
    """
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 4))
    w = np.array([0.7, 0.3, 0.0, 0.0])
    Lambda = X.T @ X
    u = X.T @ (X @ [0.8, 0.4, -0.3, 0.1] + 0.1 * rng.normal(size=40))
    estimate = least_squares(Lambda, u, noise_std=0.0, simplex=True)
    free = least_squares(Lambda, u, noise_std=0.0)
    np.testing.assert_allclose(
        estimate.weights, project_twin(free.weights, free.precision), atol=1e-12
    )
    assert free.weights.min() < 0 <= estimate.weights.min()

    fm = reduced(4)
    Z = X @ fm.basis
    rest = X.mean(axis=1)
    gram = Z.T @ Z
    response = Z.T @ (X @ w + 0.01 * rng.normal(size=40) - rest)
    theta = least_squares(
        gram, response, noise_std=0.0, floor=1e-9, simplex=True, coordinates=fm
    ).weights
    mixture = fm.mixture(theta)
    assert mixture.min() > -1e-15 and abs(mixture.sum() - 1) < 1e-14
    np.testing.assert_allclose(mixture, w, atol=0.01)
    np.testing.assert_allclose(fm.coordinates(mixture), theta, atol=1e-15)


def test_estimates_of_a_batch_are_those_of_its_members():
    rng = np.random.default_rng(5)
    Lambda = goe(rng, (4,), 3, 5.0) + 10 * np.eye(3)
    u = rng.normal(scale=9.0, size=(4, 3))
    for choice in ({}, {"simplex": True}, {"simplex": True, "coordinates": reduced(4)}):
        estimate = least_squares(Lambda, u, noise_std=5.0, **choice)
        assert isinstance(estimate, RegressionEstimate)
        for h in range(4):
            one = least_squares(Lambda[h], u[h], noise_std=5.0, **choice)
            np.testing.assert_allclose(estimate.weights[h], one.weights, atol=1e-14)
            np.testing.assert_allclose(estimate.precision[h], one.precision, atol=1e-13)


@pytest.mark.parametrize(
    "wrong", [{"noise_std": -1.0}, {"noise_std": math.nan}, {"ridge": -0.1}, {"floor": 0.0}]
)
def test_bad_settings_are_refused(wrong):
    with pytest.raises(InvalidParameter, match=f"{next(iter(wrong))} must be"):
        least_squares(np.eye(2), np.ones(2), **{"noise_std": 1.0, **wrong})


def test_bad_shapes_are_refused():
    with pytest.raises(InvalidParameter, match=r"got \(3, 3\) and \(2,\)"):
        least_squares(np.eye(3), np.ones(2), noise_std=1.0)


@pytest.mark.parametrize("m", [1, 2, 4, 8, 9, 30])
def test_repaired_equals_its_twin(m):
    rng = np.random.default_rng(m)
    G = rng.normal(size=(6, m, m))
    u = rng.normal(size=(6, m))
    Lambda = (G + G.swapaxes(1, 2)) * np.logspace(-6, 6, 6)[:, None, None]
    Lambda[0] = np.diag(np.arange(m) - 1.0)  # no rotation is needed
    Lambda[1] = 1.0  # of rank one
    eigenvalues, vectors = np.linalg.eigh(Lambda)
    positive = np.maximum(eigenvalues, 0) + 0.7
    precision = vectors * positive[:, None] @ vectors.swapaxes(1, 2)
    theta, computed_precision = _kernels.solve_repaired(Lambda, u, 0.7)
    size = np.abs(Lambda).max(axis=(1, 2)) + 1
    np.testing.assert_array_less(
        np.abs(computed_precision - precision).max(axis=(1, 2)), 1e-13 * m * size
    )
    np.testing.assert_allclose(
        theta, np.linalg.solve(precision, u[..., None])[..., 0], rtol=1e-6, atol=1e-8
    )
    assert _kernels.mean_diagonal(Lambda) == pytest.approx(
        np.trace(Lambda, axis1=1, axis2=2).mean() / m
    )


@pytest.mark.parametrize("make", [raw, reduced])
def test_the_simplex_in_the_coordinates_of_a_feature_map(make):
    """Repaired, taken to the weights, projected there, and taken back: in one kernel as step by
    step.
    """
    rng = np.random.default_rng(3)
    fm = make(5)
    m = fm.dimension
    G = rng.normal(size=(7, m, m))
    Lambda = 30 * (G + G.swapaxes(1, 2))
    u = rng.normal(scale=40, size=(7, m))
    theta, precision = _kernels.solve_repaired(Lambda, u, 2.0)
    weights = project_simplex(fm.mixture(theta), fm.basis @ precision @ fm.basis.T)
    on_simplex, same_precision = _kernels.solve_on_simplex(Lambda, u, 2.0, fm.origin, fm.basis)
    np.testing.assert_allclose(on_simplex, fm.coordinates(weights), atol=1e-12)
    np.testing.assert_array_equal(same_precision, precision)


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
def test_the_kernel_of_the_bonus_equals_its_twin(m):
    rng = np.random.default_rng(m)
    X = rng.normal(size=(40, m))
    inverse = np.linalg.inv(precision(rng, m))
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
    X = rng.normal(size=(6, 4, 3))
    L = precision(rng, 3)
    width = Width(0.25, 2.0)
    widths = bonus(X, L, 2.0, width)
    assert widths.shape == (6, 4)
    assert widths[5, 2] == pytest.approx(float(bonus(X[5, 2], L, 2.0, width)), rel=1e-14)
    np.testing.assert_array_equal(bonus(X.swapaxes(0, 1), L, 2.0, width), widths.T)


def test_it_shrinks_with_data_and_grows_with_noise():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 4))
    L = precision(rng, 4)
    width = tight(target_std=0.5, response_noise=1.0, gram_noise=1.0)
    noisier = tight(target_std=0.5, response_noise=1.0, gram_noise=2.0)
    now = bonus(X, L, 1.0, width)
    assert (bonus(X, 10 * L, 1.0, width) < now).all()
    assert (bonus(X, L, 1.0, noisier) >= now).all()
    assert (now <= 0.1).all() and (now > 0).all()


def test_gram_noise_moves_predictions_as_the_width_says():
    """v^T Z w has variance s^2 (||v||^2 ||w||^2 + (v.w)^2) / 2: s^2/4 per unit of ||v||^2 at
    ||w||^2 = 1/2, v orthogonal to w.

    20000 draws: the variance is known to 1 %, and 4 % off is a false alarm of less than 1e-4; a
    width wrong by 20 % would not pass.
    """
    rng = np.random.default_rng(2)
    Z = rng.normal(scale=3.0, size=(20_000, 3, 3))
    Z = (Z + Z.swapaxes(1, 2)) / 2
    v = np.array([0.0, 2.0, 0.0])
    w = np.array([math.sqrt(0.5), 0.0, 0.0])
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


def test_bad_shapes_are_refused_by_the_bonus():
    with pytest.raises(InvalidParameter, match=r"precision must have shape \(3, 3\)"):
        bonus(np.ones((5, 3)), np.eye(2), 1.0, NO_BONUS)
