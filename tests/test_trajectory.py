"""Episodes as they come: of any length, with whatever is in them."""

import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.trajectory import Trajectories, collect


class Rude:
    def __iter__(self):
        raise RuntimeError("secret 42")

    def __len__(self):
        raise RuntimeError("secret 42")


def test_nobody_elses_episode_depends_on_what_one_user_sends():
    good = ([0, 1, 2], [0, 1], [0.5, 1.0])
    strange = [
        ("states", None, 3),
        ([0], [], []),
        ([0, 1, 2, 3, 4], [0] * 9, [1.0] * 9),
        (range(10**12), range(10**12), range(10**12)),
        (Rude(), [Rude(), 0], [1.0, "x"]),
        ([[0, 1], 1, 2], [0, 2**70], [np.timedelta64(1, "s"), 1.0]),
        5,
        None,
        (),
    ]
    alone = collect([good], 2)
    for other in strange:
        both = collect([good, other], 2)
        for part in ("states", "actions", "rewards"):
            assert np.array_equal(getattr(both, part)[:1], getattr(alone, part))
        assert both.users == 2 and both.horizon == 2


def test_vectors_have_their_public_shape():
    made = collect(
        [([[1, 2], [3, 4]], [[5]], [0.0]), ([[1, 2, 3], [3, "x"]], [[None]], [1.0])], 1, state_shape=(2,), action_shape=(1,)
    )
    assert np.array_equal(made.states[0], [[1, 2], [3, 4]]) and np.isnan(made.states[1, 0]).all()
    assert made.states[1, 1, 0] == 3 and np.isnan(made.states[1, 1, 1]) and np.isnan(made.actions[1]).all()


@pytest.mark.parametrize("wrong", [{"horizon": -1}, {"horizon": 1.5}, {"horizon": None}, {"state_shape": 3}, {"episodes": 5}])
def test_public_arguments_are_checked(wrong):
    with pytest.raises(InvalidParameter):
        collect(**({"episodes": [], "horizon": 2} | wrong))


def test_steps_that_are_missing_do_not_exist_and_more_are_left_out():
    made = Trajectories(np.array([[1, 2]]), np.array([[0, 1, 1]]), np.array([[0.0, 1.0]]))
    assert made.states.tolist() == [[1, 2, -1]] and made.actions.tolist() == [[0, 1]]
    made = Trajectories(np.array([[1.0]]), np.zeros((1, 0)), np.array([[0.5]]))
    assert np.isnan(made.states[0, 1]) and np.isnan(made.actions[0, 0])
    with pytest.raises(InvalidParameter, match="same users"):
        Trajectories(np.zeros((2, 3)), np.zeros((1, 2)), np.zeros((2, 2)))
    with pytest.raises(InvalidParameter, match="collect"):
        Trajectories([[0, 1], [0]], [[0], [0]], [[1.0], [1.0]])


@pytest.mark.parametrize(
    "part",
    [[1, 2, 3], [1.5, 2], [1, 2, 3, 4, 5, 6], [], [10**400, 1], [True, 2], [1, "2"], [1, None], (1, 2), [math.inf, math.nan]],
    ids=str,
)
def test_plain_lists_are_read_as_one_by_one(part):
    """The quick way for lists of numbers gives what a tuple of the same gives, which is read number by number."""
    quick, slow = (collect([(each, each, each)], 3) for each in (part, tuple(part)))
    for name in ("states", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(quick, name), getattr(slow, name))
