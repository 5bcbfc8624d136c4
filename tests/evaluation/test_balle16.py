"""DP-LSW and DP-LSL: smooth sensitivities against brute force, and the paper's constants."""

import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.evaluation import DPLSL, DPLSW, LSL, LSW
from confide.evaluation.smooth_release import concave_maximum
from confide.mechanisms.smooth import smooth_alpha

FEATURES = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, -1.0]])


def neighbours(rng, states, m, top):
    """Two datasets of m trajectories that differ in one: who visits what, with which return. Extremes are likely."""
    visits, returns = (
        rng.random((m + 1, states)) < rng.random(),
        rng.choice([0.0, 1.0, rng.random()], (m + 1, states)) * top,
    )
    if rng.random() < 0.5:
        visits[-2:] = rng.random(2)[:, None] < 0.8
    kept = [np.r_[: m - 1, last] for last in (m - 1, m)]
    return [
        (visits[rows].sum(axis=0).astype(float), (visits * returns)[rows].sum(axis=0))
        for rows in kept
    ]


@pytest.mark.parametrize("features", [None, FEATURES], ids=["table", "features"])
@pytest.mark.parametrize("kind", ["w", "l-printed", "l-tight"])
def test_smooth_sensitivity_bounds_every_neighbour_and_changes_slowly(features, kind):
    rng, beta, closest = np.random.default_rng(0), 0.1, 0.0
    weights = np.array([1.0, 0.5, 0.8, 0.3])
    common = {"states": 4, "features": features, "weights": weights, "return_bound": 2.0}
    norm = 1.0 if features is None else np.linalg.norm(features, 2)
    for _ in range(800):
        m = int(rng.integers(1, 9))
        model = (
            LSW(**common)
            if kind == "w"
            else LSL(**common, ridge=float(norm**2 * rng.choice([1.001, 3.0, 100.0])))
        )
        pair = neighbours(rng, 4, m, 2.0)
        answers = [model.solve(*data) for data in pair]
        bounds = [
            model.smooth_sensitivity(data[0], m, beta, printed=kind == "l-printed") for data in pair
        ]
        gap = float(np.linalg.norm(answers[0] - answers[1]))
        assert gap <= min(bounds) * (1 + 1e-9)
        assert abs(2 * math.log(bounds[0] / bounds[1])) <= beta * (1 + 1e-9)
        closest = max(closest, gap / min(bounds))
    # unequal weights leave a gap
    assert closest > (0.6 if kind == "w" and features is None else 0.2)


def test_a_small_ridge_is_allowed_with_the_tight_bound():
    rng = np.random.default_rng(1)
    for _ in range(500):
        model = LSL(states=4, ridge=float(10 ** rng.uniform(-3, 2)), return_bound=1.0)
        m = int(rng.integers(1, 6))
        pair = neighbours(rng, 4, m, 1.0)
        answers = [model.solve(*data) for data in pair]
        bounds = [model.smooth_sensitivity(data[0], m, 0.05, printed=False) for data in pair]
        assert np.linalg.norm(answers[0] - answers[1]) <= min(bounds)
    with pytest.raises(InvalidParameter, match="rho"):
        DPLSL(states=4, ridge=1.0, calibration="paper", return_bound=1.0)
    DPLSL(states=4, ridge=1.0, return_bound=1.0)


def test_psi_needs_no_scan():
    """[Balle16, Alg. 1] scans all k; the candidates 0 and n_s - 1 give the same maximum."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        counts = np.floor(rng.gamma(1.0, 60.0, 6))
        w, beta = rng.random(6) + 0.1, float(10 ** rng.uniform(-3, 0))
        scan = max(
            math.exp(-k * beta) * (w / np.maximum(counts - k, 1) ** 2).sum()
            for k in range(int(counts.max()) + 3)
        )
        model = LSW(states=6, weights=w, return_bound=1.0)
        assert model.smooth_sensitivity(counts, 1000, beta, printed=False) == pytest.approx(
            math.sqrt(scan / w.min()), rel=1e-12
        )


def test_ternary_search_finds_the_maximum():
    rng = np.random.default_rng(3)
    for _ in range(100):
        counts, m = rng.integers(0, 300, 5).astype(float), 300
        c, root, beta = rng.random(), rng.random(), float(10 ** rng.uniform(-4, 0))
        value = lambda k: (  # noqa: E731
            math.exp(-k * beta / 2) * (c * math.sqrt(np.minimum(counts + k, m).sum()) + root)  # noqa: B023
        )
        assert concave_maximum(value, m) == pytest.approx(
            max(value(k) for k in range(m + 1)), rel=1e-14
        )


def test_exact_alpha():
    assert round(smooth_alpha(0.1, 0.1, 5.815e-4, 40), 4) == 2.8473  # the printed one: 122.4


def test_fits_with_features_solve_their_equations():
    rng = np.random.default_rng(4)
    counts, returns = rng.integers(1, 50, 4).astype(float), rng.random(4) * 10
    w = np.array([1.0, 0.5, 0.8, 0.3])
    theta = LSW(states=4, features=FEATURES, weights=w, return_bound=1.0).solve(counts, returns)
    # [Balle16, (8)]
    np.testing.assert_allclose(
        FEATURES.T @ (w * (returns / counts - FEATURES @ theta)), 0, atol=1e-9
    )
    theta = LSL(states=4, features=FEATURES, weights=w, ridge=3.0, return_bound=1.0).solve(
        counts, returns
    )
    # (12)
    np.testing.assert_allclose(
        FEATURES.T @ (w * (returns - counts * (FEATURES @ theta))) - 1.5 * theta, 0, atol=1e-9
    )


def test_parameters_are_checked():
    for wrong in (
        {"features": np.ones((4, 2))},
        {"features": np.ones((3, 1))},
        {"weights": np.zeros(4)},
        {"calibration": "loose"},
    ):
        with pytest.raises(InvalidParameter):
            DPLSW(**{"states": 4, "return_bound": 1.0} | wrong)
    with pytest.raises(InvalidParameter):
        DPLSL(states=4, ridge=0.0, return_bound=1.0)
