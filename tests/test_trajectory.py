"""Episodes as they come: of any length, with whatever is in them."""

import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.statistics.transitions import valid_transitions
from confide.trajectory import LoggedUsers, Trajectories, TransitionCounts, collect


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
    trajectories = collect(
        [([[1, 2], [3, 4]], [[5]], [0.0]), ([[1, 2, 3], [3, "x"]], [[None]], [1.0])],
        1,
        state_shape=(2,),
        action_shape=(1,),
    )
    assert (
        np.array_equal(trajectories.states[0], [[1, 2], [3, 4]])
        and np.isnan(trajectories.states[1, 0]).all()
    )
    assert (
        trajectories.states[1, 1, 0] == 3
        and np.isnan(trajectories.states[1, 1, 1])
        and np.isnan(trajectories.actions[1]).all()
    )


@pytest.mark.parametrize(
    "wrong",
    [{"horizon": -1}, {"horizon": 1.5}, {"horizon": None}, {"state_shape": 3}, {"episodes": 5}],
)
def test_public_arguments_are_checked(wrong):
    with pytest.raises(InvalidParameter):
        collect(**({"episodes": [], "horizon": 2} | wrong))


def test_steps_that_are_missing_do_not_exist_and_more_are_left_out():
    trajectories = Trajectories(np.array([[1, 2]]), np.array([[0, 1, 1]]), np.array([[0.0, 1.0]]))
    assert trajectories.states.tolist() == [[1, 2, -1]] and trajectories.actions.tolist() == [
        [0, 1]
    ]
    trajectories = Trajectories(np.array([[1.0]]), np.zeros((1, 0)), np.array([[0.5]]))
    assert np.isnan(trajectories.states[0, 1]) and np.isnan(trajectories.actions[0, 0])
    with pytest.raises(InvalidParameter, match="same users"):
        Trajectories(np.zeros((2, 3)), np.zeros((1, 2)), np.zeros((2, 2)))
    with pytest.raises(InvalidParameter, match="collect"):
        Trajectories([[0, 1], [0]], [[0], [0]], [[1.0], [1.0]])


@pytest.mark.parametrize(
    "part",
    [
        [1, 2, 3],
        [1.5, 2],
        [1, 2, 3, 4, 5, 6],
        [],
        [10**400, 1],
        [True, 2],
        [1, "2"],
        [1, None],
        (1, 2),
        [math.inf, math.nan],
    ],
    ids=str,
)
def test_plain_lists_are_read_as_one_by_one(part):
    """The quick way for lists of numbers gives what a tuple of the same gives, which is read number
    by number.
    """
    quick, slow = (collect([(each, each, each)], 3) for each in (part, tuple(part)))
    for name in ("states", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(quick, name), getattr(slow, name))


def logged(**changes):
    """Three rows of two trajectories of two users."""
    given = {
        "states": np.array([0, 1, 2]),
        "rewards": np.zeros(3),
        "trajectories": np.array([0, 2, 3]),
    }
    given |= {"users": np.array([0, 1, 2]), "valid": np.ones(2, bool)}
    return LoggedUsers(**given | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # The differences of these offsets overflow and look non-negative. A compiled loop that used
        # them would crash.
        (
            {"trajectories": np.array([0, 2**63 - 1, -(2**63), 3]), "users": np.array([0, 2, 3])},
            "never decrease",
        ),
        ({"trajectories": np.array([0, 5, 3])}, "never decrease"),
        ({"trajectories": np.array([0, 5, 3], dtype=np.uint64)}, "never decrease"),
        ({"trajectories": np.array([0, 2**64 - 1, 3], dtype=np.uint64)}, "at most 2"),
        ({"trajectories": np.array([1, 2, 3])}, "begin with 0"),
        ({"trajectories": np.array([0, 2, 4])}, "end with the number of rows, 3"),
        ({"trajectories": np.array([0.0, 2.0, 3.0])}, "whole numbers, got the type float64"),
        ({"trajectories": np.array([[0, 2, 3]])}, r"one dimension, got shape \(1, 3\)"),
        ({"trajectories": []}, "begin with 0"),
        ({"users": np.array([0, 1])}, "end with the number of trajectories, 2"),
        ({"users": None}, "one dimension"),
        ({"valid": np.ones(3, bool)}, "valid must have one entry for each of the 2 users, got 3"),
        ({"rewards": np.zeros(2)}, "rewards must have one entry for each of the 3 states, got 2"),
        ({"actions": np.zeros((3, 1), int)}, "actions must be an array of one dimension"),
        ({"states": iter([0, 1, 2])}, "states must be an array of one dimension"),
        ({"states": [[0], [1, 2]]}, "states must be an array of one dimension"),
    ],
)
def test_the_structure_of_a_log_is_checked_before_compiled_loops_read_it(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        logged(**changes)


@pytest.mark.parametrize(
    "states",
    [
        [0, 1, 2],
        np.array([0, 1, 2], dtype=np.uint8),
        np.array([0, 1, 2], dtype=">i8"),
        np.array([0.0, 1.0, 2.0]),
        np.arange(6)[::2] // 2,
        np.ma.array([0, 1, 2]),
    ],
)
def test_harmless_types_are_converted(states):
    users = logged(
        states=states,
        trajectories=[0, 2, 3],
        users=np.array([0, 1, 2], dtype=np.uint16),
        valid=[True, 1],
    )
    for name, dtype in {
        "states": np.int64,
        "trajectories": np.int64,
        "users": np.int64,
        "valid": np.bool_,
    }.items():
        column = getattr(users, name)
        assert type(column) is np.ndarray and column.dtype == dtype and column.flags.c_contiguous
    assert users.states.tolist() == [0, 1, 2] and users.valid.all()


def test_values_of_users_never_raise():
    """A state that is no whole number does not exist, and a reward that is no number is NaN: their
    users contribute zero.
    """
    users = logged(
        states=[0, "x", 2.5], rewards=[None, 2**70, 1j], actions=np.array([np.nan, -np.inf, 2**63])
    )
    assert users.states.tolist() == [0, -1, -1] and users.actions.tolist() == [-1, -1, -1]
    assert np.isnan(users.rewards[[0, 2]]).all() and users.rewards[1] == 2.0**70
    assert logged(valid=[None, "x"]).valid.tolist() == [False, False]
    assert logged(gaps=[None, 0, 1]).gaps.tolist() == [True, False, True]


def counted(**changes):
    given = {"step": np.array([0, 1]), "state": np.array([0, 1]), "action": np.array([0, 0])}
    given |= {
        "next_state": np.array([1, 2]),
        "reward": np.zeros(2),
        "count": np.array([3, 3]),
        "users": 3,
        "horizon": 2,
    }
    return TransitionCounts(**given | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": np.array([3, 4])}, "count must be between 0 and [0-9]+, the number of users"),
        ({"count": np.array([3, -1])}, "count must be between 0 and [0-9]+, the number of users"),
        ({"count": np.array([3.0, 3.0])}, "count must be an array of whole numbers"),
        ({"count": np.array([3])}, "the same length"),
        ({"state": np.zeros((2, 1), int)}, "state must be an array of one dimension"),
        ({"users": 2**63}, "users must be at most"),
        ({"users": "3"}, "users must be a whole number"),
        ({"horizon": -1}, "horizon must be at least 0"),
    ],
)
def test_the_structure_of_counts_is_checked(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        counted(**changes)


def test_counted_transitions_of_steps_that_do_not_exist_are_left_out():
    counts = counted(step=[0, "x"], reward=[None, 1.0], count=np.array([3, 3], dtype=np.uint8))
    assert counts.step.tolist() == [0, -1] and counts.count.dtype == np.int64
    assert valid_transitions(counts, 2, 3, 1).step.tolist() == [0]
    with pytest.raises(InvalidParameter, match="at most one transition per step"):
        valid_transitions(counted(step=[0, 0]), 2, 3, 1)


@pytest.mark.parametrize("users", [0, "x", None, slice("a", "b"), [0], slice(None, None, 0)])
def test_trajectories_are_taken_by_slices(users):
    with pytest.raises(InvalidParameter, match="slice"):
        Trajectories(np.zeros((2, 2)), np.zeros((2, 1)), np.zeros((2, 1)))[users]
