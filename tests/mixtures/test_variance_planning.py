import numpy as np
import pytest

from confide.mixtures.value_features import raw, reduced, sparse
from confide.mixtures.variance_planning import (
    Moment,
    estimate_moment,
    largest_plausible,
    largest_possible,
    variance_weights,
)
from confide.planners.regression import NO_BONUS, RegressionEstimate, Width
from confide.problems import rand

PROBLEM = rand(0)
VALUES = np.random.default_rng(0).uniform(size=(4, PROBLEM.states))


def truth(features):
    weights = features.coordinates(PROBLEM.weights[:4])
    return RegressionEstimate(weights, np.tile(np.eye(features.dimension), (4, 1, 1)))


@pytest.mark.parametrize("features", [raw(5), reduced(5)])
def test_moments_at_the_truth_give_the_true_variance(features):
    moments = [
        estimate_moment(features, PROBLEM.kernels, V, truth(features), NO_BONUS)
        for V in (VALUES, VALUES**2)
    ]
    P = np.einsum("hi,isat->hsat", PROBLEM.weights[:4], PROBLEM.kernels)
    mean = np.einsum("hsat,ht->hsa", P, VALUES)
    np.testing.assert_allclose(moments[0].mean, mean, atol=1e-12)
    exact = np.einsum("hsat,ht->hsa", P, VALUES**2) - mean**2
    np.testing.assert_allclose(largest_plausible(*moments, 1.0), exact, atol=1e-12)
    assert (exact <= largest_possible(sparse(features, PROBLEM.kernels), VALUES) + 1e-12).all()


def test_errors_are_the_width_and_capped_one_by_one():
    """[Luyo21, Alg. 3]: E = min(B^2, 2 B e_1) + min(B^2, e_2), with moments clipped to what is
    possible.
    """
    moment = estimate_moment(
        raw(5), PROBLEM.kernels, VALUES, truth(raw(5)), Width(4.0, 0.0, factor=1.0, cap=np.inf)
    )
    rows = np.einsum("isat,ht->hsai", PROBLEM.kernels, VALUES)
    np.testing.assert_allclose(moment.error, 2 * np.linalg.norm(rows, axis=-1))
    one = Moment(np.array([[[7.0]]]), np.array([[[0.5]]]))
    two = Moment(np.array([[[99.0]]]), np.array([[[1e9]]]))
    assert largest_plausible(one, two, 3.0).item() == pytest.approx((9 - 9) + 3 + 9)


def test_weights_are_inverse_variances_only_where_noise_lets_them():
    fitting = np.ones((1, 2, 2))
    rows = np.ones((1, 2, 2, 1))
    variances = np.array([[[0.04, 0.04], [0.04, 0.24]]])
    np.testing.assert_array_equal(
        variance_weights(fitting, rows, variances, noise=np.array([1e6])), fitting
    )
    np.testing.assert_array_equal(
        variance_weights(fitting, rows, np.full((1, 2, 2), 0.1), noise=np.zeros(1)), fitting
    )
    quiet = variance_weights(fitting, rows, variances, noise=np.zeros(1))
    np.testing.assert_allclose(quiet[0], [[1, 1], [1, np.sqrt(0.09 / 0.24)]])
    assert not variance_weights(
        np.zeros((1, 2, 2)), rows, np.zeros((1, 2, 2)), noise=np.zeros(1)
    ).any()


def test_that_is_the_best_weighting():
    """No weights within the cap learn more: 500 random ones, against c = min(1/G, tau / v) at the
    tau of the optimum.
    """
    rng = np.random.default_rng(0)
    x2 = rng.uniform(0.1, 1, 20)
    v = rng.uniform(0.01, 0.25, 20)
    cap = rng.uniform(0.5, 2, 20)
    s2 = 0.3

    def information(c):
        return (c @ x2) ** 2 / ((c**2 * v) @ x2 + s2)

    best = cap
    for _ in range(200):
        best = np.minimum(cap, ((best**2 * v) @ x2 + s2) / (best @ x2) / v)
    assert (best < cap).any()
    assert all(
        information(best) >= information(np.minimum(cap, best * rng.lognormal(0, 0.3, 20)))
        for _ in range(500)
    )
