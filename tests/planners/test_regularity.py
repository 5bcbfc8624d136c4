"""Regularizers: what they solve, and that the width of [Zhou22, Lemma 3.1] covers the truth."""

import mpmath
import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.planners.regression import Repair, Shift
from confide.planners.regularity import Regularity

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(
    "setting",
    [
        (10**5, 5, 5, 0.1, 40.0, 120.0, 3.5),
        (1000, 3, 8, 0.05, 1.0, 1.0, 0.0),
        (64, 10, 2, 0.01, 1e6, 3e6, 700.0),
    ],
)
def test_lemma_3_1(setting):
    K, H, d, alpha, least, most, nu = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        log = mpmath.log(1 + K * mp(H) ** 2 / mp(least))
        beta_p = (
            mp(H) / 2 * mpmath.sqrt(2 * mpmath.log(H / mp(alpha)) + d * log)
            + mpmath.sqrt(d * mp(most))
            + mp(nu)
        )
        log = mpmath.log(1 + K / (d * mp(least)))
        beta_r = (
            mpmath.sqrt(2 * mpmath.log(H / mp(alpha)) + d * log) / 2
            + mpmath.sqrt(d * mp(most))
            + mp(nu)
        )
    shared = {
        "episodes": K,
        "horizon": H,
        "dimension": d,
        "parameter_norm": np.sqrt(d),
        "failure": alpha,
    }
    regularity = Regularity(least, most, nu)
    assert regularity.beta(row_norm=np.sqrt(d) * H, span=H, **shared) == pytest.approx(
        float(beta_p), rel=1e-12
    )
    assert regularity.beta(row_norm=1.0, span=1.0, **shared) == pytest.approx(
        float(beta_r), rel=1e-12
    )


def test_the_width_covers_the_truth():
    """200 regressions with noise and a shift that keep Assumption 2: the true parameter is in every
    confidence set (failure 0.1).
    """
    rng = np.random.default_rng(0)
    d = 3
    K = 400
    shift = 60.0
    for _ in range(200):
        theta = rng.uniform(0, 0.5, size=d)
        X = rng.uniform(0, 1 / np.sqrt(3), size=(K, d))
        y = (rng.uniform(size=K) < X @ theta).astype(float)
        Z = rng.normal(size=(d, d))
        Z = (Z + Z.T) * 5 / np.linalg.norm(Z + Z.T, 2)
        z = rng.normal(size=d)
        Lambda = X.T @ X + Z
        u = X.T @ y + z
        regularity = Regularity(shift - 5, shift + 5, np.linalg.norm(z) / np.sqrt(shift - 5))
        beta = regularity.beta(
            episodes=K,
            horizon=1,
            dimension=d,
            row_norm=1.0,
            span=1.0,
            parameter_norm=np.linalg.norm(theta),
            failure=0.1,
        )
        estimate = Shift(shift, beta).estimate(Lambda, u, noise_std=1.0)
        error = theta - estimate.weights
        assert np.sqrt(error @ estimate.precision @ error) <= beta
        np.testing.assert_allclose(estimate.precision @ estimate.weights, u, atol=1e-9)


def test_repair_solves_what_is_left_after_the_noise():
    Lambda = np.diag([100.0, -3.0])[None]
    u = np.array([[50.0, 2.0]])
    estimate = Repair(1.0, ridge=1.0).estimate(Lambda, u, noise_std=0.0)
    np.testing.assert_allclose(estimate.weights, [[50 / 101, 2.0]])
    assert Repair(2.0, 0.3).width(noise_std=4.0).noise == pytest.approx(2.0**2 + 4.0**2 / 4)


def test_an_irregular_regularity_is_refused():
    for wrong in ((0.0, 1.0, 0.0), (2.0, 1.0, 0.0), (1.0, 1.0, -1.0), (1.0, float("nan"), 0.0)):
        with pytest.raises(InvalidParameter, match="lambda_min"):
            Regularity(*wrong)
