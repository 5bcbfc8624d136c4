"""DP-LSW and DP-LSL: smooth sensitivities against brute force, and the paper's constants."""

import math

import numpy as np
import pytest

from confide.audit.verify import verify
from confide.errors import InvalidParameter
from confide.evaluation import DPLSL, DPLSW, LSL, LSW
from confide.evaluation.smooth_release import log_concave_maximum, values_of
from confide.mechanisms.smooth import SmoothGaussian, smooth_alpha
from confide.privacy.assumption import Assumption
from confide.privacy.request import CentralDP
from confide.trajectory import LoggedUsers

FEATURES = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [1.0, -1.0]])


def neighbours(rng, states, m, top):
    """Two datasets of m trajectories that differ in one: who visits what, with which return.

    Extremes are likely.
    """
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
        users = 300
        counts = rng.integers(0, users, 5).astype(float)
        factor = rng.random()
        root = rng.random()
        beta = float(10 ** rng.uniform(-4, 0))
        values = [
            math.exp(-k * beta / 2)
            * (factor * math.sqrt(np.minimum(counts + k, users).sum()) + root)
            for k in range(users + 1)
        ]
        found_maximum = log_concave_maximum(values.__getitem__, users)
        assert found_maximum == pytest.approx(max(values), rel=1e-14)


def test_exact_alpha():
    # The printed constant is 122.4.
    assert round(smooth_alpha(0.1, 0.1, 5.815e-4, 40), 4) == 2.8473


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


@pytest.mark.parametrize("features", [None, FEATURES], ids=["table", "features"])
@pytest.mark.parametrize("kind", ["lsw", "lsl"])
def test_a_state_of_weight_zero_is_left_out_and_gets_no_value(kind, features):
    """What its visits and returns are changes neither the fit nor the noise.

    The other states are fitted as if it were not there.
    """
    w = np.array([1.0, 0.0, 0.8, 0.3])
    kept = w > 0
    rng = np.random.default_rng(4)
    counts, returns = rng.integers(1, 50, 4).astype(float), rng.random(4) * 10
    options = {"features": features, "return_bound": 1.0, "calibration": "paper"}
    fewer = options | {"features": None if features is None else features[kept]}
    if kind == "lsw":
        whole, part = (
            DPLSW(states=4, weights=w, **options),
            DPLSW(states=3, weights=w[kept], **fewer),
        )
    else:
        whole = DPLSL(states=4, weights=w, ridge=30.0, **options)
        part = DPLSL(states=3, weights=w[kept], ridge=30.0, **fewer)
    theta = whole.solve(counts, returns)
    np.testing.assert_allclose(theta, part.solve(counts[kept], returns[kept]))
    changed = counts + 30.0 * ~kept, returns + 5.0 * ~kept
    np.testing.assert_array_equal(whole.solve(*changed), theta)
    smooth = [
        each.smooth_sensitivity(c, 60, 0.01, printed=True)
        for each, c in ((whole, counts), (whole, changed[0]), (part, counts[kept]))
    ]
    assert smooth[0] == smooth[1] == pytest.approx(smooth[2])
    values = values_of(whole, theta)
    assert np.isnan(values).tolist() == [False, True, False, False]
    np.testing.assert_allclose(values[kept], values_of(part, theta))


def test_an_estimate_without_a_value_of_every_state_is_shown(tmp_path):
    from confide.report.values import ValueReport, record, rows, write_values

    log = _log()
    estimate = DPLSW(states=4, weights=np.array([1.0, 0.0, 0.8, 0.3]), return_bound=1.0).release(
        log, privacy=CentralDP(1.0, 1e-3), rng=np.random.default_rng(0)
    )
    shown = ValueReport(estimate, "values")
    assert "3 values" in repr(estimate)
    assert [row[0] for row in rows(shown)] == [0, 2, 3]
    assert record(shown)["values"][1] is None
    write_values(shown, tmp_path / "out")
    assert "nan" not in (tmp_path / "out" / "values.csv").read_text()


def test_the_supplements_constants():
    """The constants hold for epsilon up to 5.

    alpha = 15 sqrt(2 ln(4/delta)) / epsilon and
    beta = 2 ln 2 epsilon / (5 (sqrt(d) + sqrt(2 ln(4/delta)))^2).
    """
    mechanism = SmoothGaussian(1.0, 1e-5, 7, "supplement")
    root = np.sqrt(2 * np.log(4e5))
    assert mechanism.alpha == pytest.approx(15 * root)
    assert mechanism.beta == pytest.approx(2 * np.log(2) / (5 * (np.sqrt(7) + root) ** 2))
    assert mechanism.alpha > SmoothGaussian(1.0, 1e-5, 7, "paper").alpha
    with pytest.raises(InvalidParameter, match="at most 5 for the constants of the supplement"):
        SmoothGaussian(5.1, 1e-5, 7, "supplement")
    released = DPLSW(states=4, return_bound=1.0, calibration="supplement").release(
        _log(), privacy=CentralDP(1.0, 1e-3), rng=np.random.default_rng(0)
    )
    assert "supplement calibration" in released.certificate.document["subject"]
    verify(released.certificate)
    with pytest.raises(InvalidParameter, match="needs ridge >"):
        DPLSL(states=4, ridge=1.0, calibration="supplement", return_bound=1.0)


def _log():
    """100 users, each of whom visits all four states once and then gets 1."""
    states, rewards = np.tile(np.arange(4), 100), np.tile([0.0, 0.0, 0.0, 1.0], 100)
    return LogOf(
        LoggedUsers(
            states, rewards, np.arange(0, 401, 4), np.arange(101), np.ones(100, dtype=np.bool_)
        )
    )


class LogOf:
    assumptions, max_trajectories = (Assumption("simulated", "simulated"),), 1

    def __init__(self, block):
        self._block, self.users = block, block.count

    def blocks(self):
        yield self._block

    def total(self, statistic, *, progress=None):
        assert progress is None
        return statistic.contribution(self._block)
