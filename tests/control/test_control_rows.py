"""Sums of z z^T and z x'^T: the trace clip, attacked."""

import numpy as np
import pytest

from confide.control.contributions import ControlRows, ControlSums
from confide.errors import InvalidParameter
from confide.privacy.request import Relation
from confide.problems import oscillator
from confide.trajectory import Trajectories

BOUND = ControlRows(2, 1, cap=3.0, weight=0.7)
SUMS = ControlSums(BOUND, gain=1.0, shock=0.1)


def episode(states, inputs):
    states, inputs = np.array(states, dtype=float), np.array(inputs, dtype=float)
    return Trajectories(states[None], inputs[None], np.zeros((1, len(inputs))))


def sent(states, inputs):
    return SUMS.contribution(episode(states, inputs)).values


def test_what_fits_is_not_clipped_and_sums_add_up():
    system = oscillator()
    bound = ControlRows(2, 1, cap=100.0, weight=0.7)
    sums = ControlSums(bound, gain=1.0, shock=0.1)
    users = system.sample(system.optimal_policy, 300, np.random.default_rng(0))
    S, C = bound.unpack(sums.contribution(users).values)
    z = np.concatenate([users.states[:, :-1], users.actions], axis=2).reshape(-1, 3)
    after = users.states[:, 1:].reshape(-1, 2)
    np.testing.assert_allclose(S, z.T @ z, atol=1e-2)
    np.testing.assert_allclose(C, z.T @ after, atol=1e-2)
    halves = sums.contribution(users[:100]) + sums.contribution(users[100:])
    assert halves.values.tobytes() == sums.contribution(users).values.tobytes()


def test_weights_are_decided_before_the_next_state_is_seen():
    """Two episodes that differ in the last state alone have the same S: nothing is thrown away
    because of what came out.
    """
    start = [[1.0, 1.0], [0.9, -0.5], [0.3, 0.2]]
    one, other = (
        BOUND.unpack(sent([*start[:2], last], [[0.4], [0.3]])) for last in (start[2], [-1.0, 0.9])
    )
    np.testing.assert_array_equal(one[0], other[0])
    assert (one[1] != other[1]).any()


def test_wrong_shapes_are_refused_and_nan_contributes_zero():
    assert not sent([[np.nan, 0.0], [0.0, 0.0]], [[0.0]]).any()
    with pytest.raises(InvalidParameter, match="states and inputs must have shapes"):
        SUMS.contribution(Trajectories(np.zeros((1, 3, 5)), np.zeros((1, 2, 1)), np.zeros((1, 2))))
    with pytest.raises(InvalidParameter, match="cap must be between"):
        ControlRows(2, 1, cap=0.0)
    with pytest.raises(InvalidParameter, match="must have finite bounds"):
        ControlSums(BOUND, np.inf, 0.1)


@pytest.mark.parametrize("shock", [0.0, 1e-170])
@pytest.mark.parametrize("size", [0.0, 1e-170, 1.0])
def test_a_user_at_rest_does_not_stop_the_sums_of_others(shock, size):
    """Whether it runs at all must not depend on one person: a system without noise, somebody who
    does nothing, a cap that is used up.
    """
    quiet = ControlSums(BOUND, gain=1.0, shock=shock)
    for states in (np.full((4, 2), size), np.array([[9.0, 0], [9, 0], [size, 0], [0, 0]])):
        found = quiet.contribution(episode(states, np.zeros((3, 1)))).values
        assert np.isfinite(found).all() and np.linalg.norm(found) <= BOUND.sensitivity(
            Relation.NULL
        )
