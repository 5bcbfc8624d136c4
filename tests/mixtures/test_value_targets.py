import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.mixtures.contributions import ValueTargets
from confide.mixtures.value_features import raw, reduced
from confide.problems import lock
from confide.statistics.bounds import RegressionRows, WeightedRows
from confide.statistics.transitions import _count_codes, valid_transitions
from confide.trajectory import Trajectories

PROBLEM = lock(0)
FEATURES = reduced(PROBLEM.public.dimension)
BOUND = WeightedRows(PROBLEM.horizon - 1, FEATURES.dimension, balance=1.05)
VALUES = np.vstack(
    [
        np.random.default_rng(0).uniform(0, 3, size=(PROBLEM.horizon, PROBLEM.states)),
        np.zeros(PROBLEM.states),
    ]
)
TARGETS = ValueTargets(BOUND, FEATURES, PROBLEM.kernels, VALUES)


def sample(users, seed=0):
    return PROBLEM.sample(PROBLEM.optimal_policy, users, np.random.default_rng(seed))


def test_counts_give_the_same_bits_as_trajectories():
    users = sample(200)
    counted = valid_transitions(users, PROBLEM.horizon, PROBLEM.states, PROBLEM.actions)
    assert counted.count.sum() == 200 * PROBLEM.horizon
    np.testing.assert_array_equal(
        TARGETS.contribution(counted).values, TARGETS.contribution(users).values
    )


def test_the_regression_is_right():
    """With many users, least squares on the exact sums gives the true weights: 2e6 users, tolerance
    0.02 (over 6 standard errors).
    """
    users = PROBLEM.count(PROBLEM.optimal_policy, 2_000_000, np.random.default_rng(1))
    Lambda, u = BOUND.unpack(TARGETS.contribution(users).values)
    for h in range(BOUND.steps):
        theta = np.linalg.lstsq(Lambda[h] + 1e-6 * np.eye(len(u[h])), u[h], rcond=None)[0]
        residual = Lambda[h] @ FEATURES.coordinates(PROBLEM.weights[h]) - u[h]
        assert np.linalg.norm(residual) < 0.02 * np.linalg.norm(u[h]) + 6 * np.sqrt(
            np.trace(Lambda[h])
        )
        assert np.isfinite(theta).all()


def test_the_papers_regression_is_right():
    """Features kernels / sqrt(d), no weights: nothing is clipped, and the parameter is sqrt(d) x
    the mixture (to 6 standard errors).
    """
    d = 5
    users = PROBLEM.count(PROBLEM.optimal_policy, 200_000, np.random.default_rng(1))
    bound = RegressionRows(
        BOUND.steps, d, row_norm=5.0, target=5.0, balance=np.sqrt(2), nonnegative=True
    )
    Lambda, u = bound.unpack(
        ValueTargets(bound, raw(d), PROBLEM.kernels / np.sqrt(d), VALUES, 1.0)
        .contribution(users)
        .values
    )
    for h in range(bound.steps):
        residual = Lambda[h] @ (np.sqrt(d) * PROBLEM.weights[h]) - u[h]
        assert np.linalg.norm(residual) < 6 * 3.0 * np.sqrt(np.trace(Lambda[h]))


def test_possible_transitions_are_never_clipped():
    """The public weights make every possible row fit: its squared norm, from the exact arithmetic,
    is at most one.
    """
    users = sample(500, seed=2)
    Lambda, _ = BOUND.unpack(TARGETS.contribution(users).values)
    assert (np.trace(Lambda, axis1=1, axis2=2) <= 500 * (1 + 1e-6)).all()


def test_counts_that_no_users_can_have_are_refused():
    bound = WeightedRows(2, 3)
    row = np.zeros((1, 3))
    for step, count, users in (
        ([0], [10**6], 1),
        ([0, 0, 0], [1, 1, 1], 1),
        ([-1], [1], 1),
        ([2], [1], 1),
        ([0], [-1], 1),
        ([0.5], [1], 1),
    ):
        with pytest.raises(InvalidParameter):
            bound.clip_and_add(
                step, np.repeat(row, len(step), axis=0), np.zeros(len(step)), count, users=users
            )


def test_private_text_contributes_zero_and_nothing_is_printed():
    text = Trajectories(np.array([["HIV-positive"] * 6]), np.zeros((1, 5)), np.zeros((1, 5)))
    assert not TARGETS.contribution(text).values.any()
    strange = np.array([[np.nan, np.inf, 1e300, -1.0, 2.5, 3.0]])
    with np.errstate(all="raise"):
        assert not TARGETS.contribution(
            Trajectories(strange, np.zeros((1, 5)), np.zeros((1, 5)))
        ).values.any()


def test_counting_with_and_without_sorting_is_the_same():
    codes = np.random.default_rng(0).integers(40, size=500)
    for size in (40, 501):
        present, count = _count_codes(codes, size)
        expected = np.unique(codes, return_counts=True)
        np.testing.assert_array_equal(present, expected[0])
        np.testing.assert_array_equal(count, expected[1])
