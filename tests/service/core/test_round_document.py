"""Rounds as plain tables: policies act as those of the library."""

import json

import numpy as np
import pytest

from confide.errors import (
    InvalidParameter,
)
from confide.policy import (
    ContextPolicy,
    LinearPolicy,
    RandomPolicy,
    StochasticPolicy,
    TabularPolicy,
)
from confide.service.core.round_document import plain_policy
from confide.service.device.client import act


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        (TabularPolicy(np.array([[1, 0]]), 2), 1),
        (StochasticPolicy(np.array([[[0.0, 1.0]]])), 0),
        (LinearPolicy(np.array([[[2.0, 1.0]]])), [1.0, 3.0]),
        (ContextPolicy(np.array([1.0, 0.0]), np.array([[0.0, 9.0]])), [[1.0, 0.0], [0.0, 1.0]]),
        (ContextPolicy(np.array([1.0, 0.0])), [[1.0, 0.0], [0.0, 1.0]]),
    ],
    ids=["tabular", "stochastic", "linear", "context", "certain"],
)
def test_plain_policies_act_as_those_of_the_library(policy, state):
    plain = json.loads(json.dumps(plain_policy(policy)))
    if isinstance(policy, ContextPolicy):
        expected = policy.choose(np.array([state]))[0]
    else:
        expected = policy.act(
            0, np.array(state) if isinstance(state, list) else state, np.random.default_rng()
        )
    np.testing.assert_array_equal(act(plain, 0, state), expected)


@pytest.mark.parametrize(
    ("step", "state"), [(0, -1), (-1, 0), (0, 2), (1, 0), (0, True), (0, 2**63), (0, None)]
)
@pytest.mark.parametrize(
    "policy", [TabularPolicy(np.array([[1, 0]]), 2), StochasticPolicy(np.full((1, 2, 2), 0.5))]
)
def test_a_step_or_a_state_that_does_not_exist_has_no_action(policy, step, state):
    """Python counts negative indices from the end, so a state of -1 got the action of the last
    state.
    """
    with pytest.raises(InvalidParameter, match="must be"):
        act(plain_policy(policy), step, state)
    with pytest.raises(InvalidParameter, match="must be"):
        policy.act(step, state, np.random.default_rng())
    with pytest.raises(InvalidParameter, match="step must be at least 0"):
        act(plain_policy(LinearPolicy(np.array([[[2.0, 1.0]]]))), -1, [1.0, 3.0])


def test_random_and_unknown_policies():
    assert act(plain_policy(RandomPolicy(3)), 0, None) in range(3)
    with pytest.raises(InvalidParameter, match="knows no policy"):
        act({"kind": "other"}, 0, 0)
