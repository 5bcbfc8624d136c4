"""A history of releases: a memory that does not fit its layout is refused, whatever is wrong with
it.
"""

from dataclasses import replace

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.planners.history import LAST_RELEASE, Layout, Reals, Wholes
from confide.privacy.bounded import NoiseLevel, Released
from confide.privacy.guarantee import no_guarantee

pytestmark = pytest.mark.kernels

LAYOUT = Layout(
    LAST_RELEASE
    | {
        "actions": Wholes(("round", "state"), below="action"),
        "users": Reals(("round",), at_least=0),
        "shares": Reals(("policy",), at_least=0, not_all_zero=True),
        "scales": Reals(("policy",), above=0, at_most=2),
        "answers": Reals(("round",), or_nan=True),
        "round_of_policy": Wholes(("policy",), below="round"),
        "total": Wholes(at_most="users"),
    }
)
SIZES = {"state": 3, "action": 2, "number": 4}
MEMORY = {
    "seed": np.array(7),
    "last": np.ones(4),
    "last_std": np.array(3.0),
    "actions": np.array([[0, 1, 0], [1, 1, 1]]),
    "users": np.array([5.0, 6.0]),
    "shares": np.array([0.0, 1.0, 0.5]),
    "scales": np.array([1.0, 2.0, 0.1]),
    "answers": np.array([1.0, np.nan]),
    "round_of_policy": np.array([0, 1, 1]),
    "total": np.array(11),
}
RELEASED = Released(np.full(4, 3.0), NoiseLevel(5.0, "gaussian"), no_guarantee(100), 20, 2, MEMORY)


def recall(memory):
    return LAYOUT.recall(replace(RELEASED, memory=memory), SIZES, {"round": 2})


@pytest.mark.parametrize(
    "change",
    [
        {"seed": np.array(-1)},
        {"seed": np.array(0.5)},
        {"last": None},
        {"last": [1.0] * 4},
        {"last": np.ones(4, dtype=np.float32)},
        {"last": np.ones(4, dtype=complex)},
        {"last": np.ones((4, 1))},
        {"last": np.array([np.inf, 0, 0, 0])},
        {"last_std": np.array(-1.0)},
        {"last_std": np.array([3.0])},
        {"actions": np.array([[0, 1, 0], [1, 2, 1]])},
        {"actions": np.array([[0, 1, 0], [1, -1, 1]])},
        {"actions": np.zeros((2, 3))},
        {"actions": np.zeros((2, 4), dtype=np.int64)},
        {"actions": np.zeros((1, 3), dtype=np.int64)},
        {"actions": np.zeros((2, 3), dtype=object)},
        {"users": np.array([5.0, np.nan])},
        {"users": np.array([5.0, -1.0])},
        {"shares": np.zeros(3)},
        {"scales": np.zeros(3)},
        {"scales": np.array([1.0, 1.0, 2.5])},
        {"answers": np.array([1.0, np.inf])},
        {"round_of_policy": np.array([0, 1, 2])},
        {"total": np.array(21)},
        {"total": np.array(2.0)},
        {"another": np.zeros(1)},
    ],
    ids=str,
)
def test_a_memory_that_does_not_fit_is_refused(change):
    recall(MEMORY)
    with pytest.raises(InvalidParameter, match="does not fit this problem"):
        recall(MEMORY | change)


@pytest.mark.parametrize("name", MEMORY)
def test_a_memory_must_be_complete(name):
    with pytest.raises(InvalidParameter, match="does not fit this problem"):
        recall({other: values for other, values in MEMORY.items() if other != name})


def test_an_open_axis_has_a_largest_length():
    with pytest.raises(InvalidParameter, match="does not fit this problem"):
        LAYOUT.recall(RELEASED, SIZES, {"round": 1})


def test_the_first_memory_is_the_seed_alone():
    first = replace(RELEASED, generation=0, memory={"seed": np.array(7)})
    history = LAYOUT.recall(first, SIZES)
    assert history["actions"].shape == (0, 3) and history["last"].tolist() == [0.0] * 4
    assert set(history.arrays) == set(MEMORY) and history["seed"] == 7
    for wrong in (replace(first, memory=MEMORY), replace(first, generation=1)):
        with pytest.raises(InvalidParameter, match="does not fit this problem"):
            LAYOUT.recall(wrong, SIZES)


def test_entries_are_appended_and_selected_along_their_axis():
    history = recall(MEMORY)
    longer = history.append("round", actions=[0, 0, 0], users=7.0, answers=0.0)
    assert longer.count("round") == 3 and longer["users"].tolist() == [5.0, 6.0, 7.0]
    assert longer.count("policy") == 3 and history.count("round") == 2
    later = longer.select("round", slice(1, None))
    assert later["users"].tolist() == [6.0, 7.0] and later["actions"].tolist()[1] == [0, 0, 0]
    kept = history.select("policy", history["round_of_policy"] > 0)
    assert kept["scales"].tolist() == [2.0, 0.1] and kept.count("round") == 2


def test_the_last_batch_alone_is_the_difference_of_two_releases():
    history = recall(MEMORY)
    values, variance = history.without_last(RELEASED)
    assert values.tolist() == [2.0] * 4 and variance == 16.0
    after = history.remember_release(RELEASED)
    assert after["last"].tolist() == [3.0] * 4 and after["last_std"] == 5.0
    assert after.without_last(RELEASED)[1] == 0.0
