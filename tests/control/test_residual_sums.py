"""Residuals around a public guess: the clip, attacked."""

import numpy as np
import pytest

from confide.control.contributions import ResidualRows, Residuals
from confide.errors import InvalidParameter
from confide.policy import LinearPolicy
from confide.privacy import Relation
from confide.problems import oscillator
from confide.trajectory import Trajectories, counts_of_nobody

BOUND = ResidualRows(2, 1, 0.5)
GUESS = np.array([[0.3, 0.1], [-0.2, 0.4], [0.0, 0.3]])
SUMS = Residuals(BOUND, GUESS, clip=0.4, cap=1.5, reach=2.0)


def sent(states, inputs):
    states, inputs = np.array(states, dtype=float), np.array(inputs, dtype=float)
    return SUMS.contribution(
        Trajectories(states[None], inputs[None], np.zeros((1, len(inputs))))
    ).values


def test_the_sensitivity_of_each_part_alone_is_attained():
    """phi and -phi of residuals are 2 apart; orthogonal second moments sqrt(2).

    A clip that suits both at once is not in a user's hands.
    """
    loose = Residuals(BOUND, np.zeros((3, 2)), clip=0.4, cap=1e9, reach=2.0)

    def residuals(sign):
        states = np.array([[[1.0, 0.0], [sign * 5.0, 0.0]]])
        return BOUND.unpack(
            loose.contribution(Trajectories(states, np.zeros((1, 1, 1)), np.zeros((1, 1)))).values
        )[1]

    assert np.linalg.norm(residuals(1) - residuals(-1)) == pytest.approx(2.0, rel=1e-5)
    still = Residuals(BOUND, np.zeros((3, 2)), clip=1e9, cap=0.1, reach=2.0)

    def moments(axis):
        states = np.zeros((1, 2, 2))
        states[0, 0, axis] = 1.0
        return BOUND.unpack(
            still.contribution(Trajectories(states, np.zeros((1, 1, 1)), np.zeros((1, 1)))).values
        )[0]

    assert np.linalg.norm(moments(0) - moments(1)) == pytest.approx(np.sqrt(2), rel=1e-5)


def test_what_fits_is_summed():
    system = oscillator()
    users = system.sample(system.optimal_policy, 400, np.random.default_rng(0))
    wide = Residuals(BOUND, GUESS, clip=1e3, cap=1e3, reach=1e9)
    S, G = BOUND.unpack(wide.contribution(users).values)
    z = np.concatenate([users.states[:, :-1], users.actions], axis=2).reshape(-1, 3)
    after = users.states[:, 1:].reshape(-1, 2)
    np.testing.assert_allclose(1e3 * S, z.T @ z, atol=0.1)
    np.testing.assert_allclose(1e3 * G, z.T @ (after - z @ GUESS), atol=0.1)


def test_steps_beyond_reach_do_not_count_and_are_known_beforehand():
    far = [[1.0, 0.0], [1.2, 0.0], [1.0, 0.0], [0.5, 0.0]]  # 1, then 2.44 > 2
    cut = sent(far, [[0.0]] * 3)
    np.testing.assert_array_equal(cut, sent([*far[:2], [7.0, 7.0], [8.0, 0.0]], [[0.0]] * 3))


def test_wrong_shapes_are_refused_and_nan_contributes_zero():
    assert not sent([[np.nan, 0.0], [0.0, 0.0]], [[0.0]]).any()
    with pytest.raises(InvalidParameter, match="states and inputs must have shapes"):
        SUMS.contribution(Trajectories(np.zeros((1, 3, 5)), np.zeros((1, 2, 1)), np.zeros((1, 2))))
    with pytest.raises(InvalidParameter, match="expected trajectories, got counts"):
        SUMS.contribution(counts_of_nobody(3, 2))
    with pytest.raises(InvalidParameter, match="weight must be positive"):
        ResidualRows(2, 1, -0.1)


def test_residuals_alone_are_those_beside_second_moments():
    """Where the clip alone binds, they are the same numbers, in a unit ball of their own."""
    alone = ResidualRows(2, 1, 0.0)
    assert alone.size == 6 and alone.sensitivity(Relation.REPLACE) == pytest.approx(2.0, rel=1e-6)
    users = oscillator().sample(
        LinearPolicy(np.full((oscillator().horizon, 1, 2), 0.3)), 50, np.random.default_rng(0)
    )
    for clip in (0.05, 10.0):
        with_both = (
            Residuals(BOUND, np.zeros((3, 2)), clip=clip, cap=1e6, reach=2.0)
            .contribution(users)
            .values
        )
        only = (
            Residuals(alone, np.zeros((3, 2)), clip=clip, cap=1e-6, reach=2.0)
            .contribution(users)
            .values
        )
        np.testing.assert_array_equal(only, with_both[6:])
        assert alone.unpack(only)[0] is None


SCALES = np.array([1.0, 1.0, 8.0])


def test_scales_are_units_of_inputs():
    system = oscillator()
    users = system.sample(system.optimal_policy, 400, np.random.default_rng(0))
    wide, scaled = (
        Residuals(BOUND, GUESS, clip=1e3, cap=1e3, reach=1e9, scales=each)
        for each in (None, SCALES)
    )
    (S, G), (shown, residuals) = (
        BOUND.unpack(each.contribution(users).values) for each in (wide, scaled)
    )
    np.testing.assert_allclose(1e3 * shown / np.outer(SCALES, SCALES), 1e3 * S, atol=0.1)
    np.testing.assert_allclose(1e3 * residuals / SCALES[:, None], 1e3 * G, atol=0.1)
    for wrong in ([1.0, 1.0], [1.0, 1.0, 0.0], [2.0, 1.0, 1.0], [1.0, 1.0, np.inf]):
        with pytest.raises(
            InvalidParameter, match="scales must be 3 positive finite numbers, those of states 1"
        ):
            Residuals(BOUND, GUESS, clip=1.0, cap=1.0, reach=2.0, scales=np.array(wrong))
