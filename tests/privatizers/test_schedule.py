from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import InvalidParameter
from confide.privatizers import Schedule, custom, every, every_episode, geometric


@given(st.integers(1, 100_000), st.integers(1, 200), st.floats(1.01, 10))
def test_geometric_schedules_increase_and_end_at_the_last_episode(episodes, first, ratio):
    times = geometric(episodes, first=first, ratio=ratio).times
    assert times[-1] == episodes
    assert all(a < b for a, b in pairwise(times))
    assert times[0] == min(first, episodes)


def test_the_default_makes_32_releases_for_1e5_episodes():
    assert geometric(100_000).leaves == 32
    assert geometric(1_000_000).leaves == 41


def test_regular_schedules():
    assert list(every(3, 10).times) == [3, 6, 9, 10]
    assert list(every(5, 10).times) == [5, 10]
    assert list(every(20, 10).times) == [10]
    assert every_episode(10**9).leaves == 10**9  # nothing is stored per episode


@pytest.mark.parametrize("times", [[], [0, 1], [3, 2], [1, 1], range(10, 0, -1), [1.7, 3.2]])
def test_bad_times_are_refused(times):
    with pytest.raises(InvalidParameter):
        custom(times)


@pytest.mark.parametrize(
    "make",
    [
        lambda: every(0, 5),
        lambda: every_episode(0),
        lambda: geometric(5, ratio=1.0),
        lambda: geometric(5, first=0),
    ],
)
def test_bad_parameters_are_refused(make):
    with pytest.raises(InvalidParameter, match="must be"):
        make()


def test_a_schedule_is_a_value():
    assert custom([1, 2]) == Schedule((1, 2))
    assert hash(every_episode(5)) == hash(every_episode(5))
