"""Root-weighted counts against a plain twin; what is dropped, and what makes a user contribute
zero.
"""

import math
import pickle
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import InvalidParameter
from confide.offline.transition_contributions import RootCounts, RootTransitions
from confide.privacy import Relation
from confide.tables.support_features import support_of
from confide.trajectory import LoggedUsers

S, A, K = 3, 2, 4


def statistic(
    *,
    logged=S,
    ends=False,
    support=None,
    terminal=None,
    transitions=K,
    reward=0.5,
    starts=S,
    longest=100,
):
    size = logged + ends
    closed = np.append(
        np.zeros(logged, bool) if terminal is None else terminal, np.ones(int(ends), bool)
    )
    cells = support_of(support, layers=1, states=size, actions=A, terminal=closed)
    bound = RootCounts(cells.cells, cells.pairs, starts, transitions, 0.5, reward)
    return RootTransitions(bound, cells, logged, longest, 0.0, 1.0)


def logged(*users):
    """Users as lists of trajectories, these as lists of (state, action, reward)."""
    paths = [path for user in users for path in user]
    rows = [row for path in paths for row in path]
    states, actions, rewards = (
        np.array([row[i] for row in rows], kind) for i, kind in ((0, int), (1, int), (2, float))
    )
    ends = np.append(0, np.cumsum([len(path) for path in paths], dtype=int))
    return LoggedUsers(
        states,
        rewards,
        ends,
        np.append(0, np.cumsum([len(user) for user in users])),
        np.ones(len(users), bool),
        actions,
    )


def twin(users, *, ends=False, longest=100):
    """The definition: the first K transitions of each user, the i-th one of a row with sqrt(i) -
    sqrt(i - 1).
    """
    size = S + ends
    counts, totals, rewards, starts = (
        np.zeros((size, A, size)),
        np.zeros((size, A)),
        np.zeros((size, A)),
        np.zeros(S),
    )
    for user in users:
        path = [row for trajectory in user for row in trajectory]
        if not path or any(not (0 <= s < S and 0 <= a < A) for s, a, _ in path):
            continue
        starts[path[0][0]] += 1
        often, left = Counter(), K
        for trajectory in user:
            after = [row[0] for row in trajectory[1:]] + (
                [S] if ends and len(trajectory) < longest else []
            )
            for (s, a, r), there in zip(trajectory, after, strict=False):
                if left == 0:
                    break
                left -= 1
                often[s, a] += 1
                weight = math.sqrt(often[s, a]) - math.sqrt(often[s, a] - 1)
                counts[s, a, there] += weight
                totals[s, a] += weight
                rewards[s, a] += weight * min(max(r, -1), 1)
    return counts[: size - ends], totals, rewards, starts


rows = st.tuples(st.integers(0, S - 1), st.integers(0, A - 1), st.floats(-3, 3))
odd_rows = st.tuples(st.integers(-1, S), st.integers(-1, A), st.floats(-3, 3))
people = st.lists(
    st.lists(st.lists(rows, min_size=1, max_size=7), min_size=1, max_size=3), min_size=1, max_size=4
)
odd_people = st.lists(
    st.lists(st.lists(odd_rows, min_size=1, max_size=4), min_size=1, max_size=2),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(people | odd_people, st.booleans())
def test_counts_are_those_of_the_definition(users, ends):
    made = statistic(ends=ends, longest=6)
    counts, _, *others = made.bound.unpack(made.contribution(logged(*users)).values)
    found = counts, *others
    for got, expected in zip(found, twin(users, ends=ends, longest=6), strict=True):
        np.testing.assert_allclose(got, expected.ravel(), atol=1e-3)


@settings(max_examples=60, deadline=None)
@given(people, people)
def test_two_people_are_never_farther_apart_than_stated(first, second):
    made = statistic()
    one, two = (made.contribution(logged(*users[:1])).values for users in (first, second))
    assert np.linalg.norm(one - two) <= made.bound.sensitivity(Relation.REPLACE)
    assert np.linalg.norm(one) <= made.bound.sensitivity(Relation.NULL)


@pytest.mark.parametrize("reward", [0.0, 0.25, 0.5, 1.0])
def test_the_sensitivity_is_attained(reward):
    """Two people, each K times in one cell: of two rows if rewards weigh little, else of one row
    with opposite rewards.
    """
    made = statistic(reward=reward, transitions=9)
    stay = [(0, 0, 1.0)] * 10
    other = [(1, 1, -1.0)] * 10 if reward <= 0.5 else [(1, 0, -1.0), *[(0, 0, -1.0)] * 9]
    one, two = (made.contribution(logged([path])).values for path in (stay, other))
    assert np.linalg.norm(one) == pytest.approx(made.bound.sensitivity(Relation.NULL), rel=1e-3)
    if reward <= 0.5:
        assert np.linalg.norm(one - two) == pytest.approx(
            made.bound.sensitivity(Relation.REPLACE), rel=1e-3
        )


def test_what_cannot_follow_is_dropped_before_it_counts():
    support = np.zeros((S, A, S), bool)
    support[:, :, 0] = support[0, 0, 1] = True
    made = statistic(support=support)
    # 0 -> 2 cannot be
    path = [(0, 0, 0.0), (2, 0, 0.0), (0, 0, 0.0), (1, 0, 0.0), (0, 0, 0.0), (0, 0, 0.0)]
    counts, _, totals, _, _ = made.bound.unpack(made.contribution(logged([path])).values)
    assert totals.sum() == pytest.approx(
        1 + math.sqrt(2) + 1, abs=1e-3
    ) and counts.sum() == pytest.approx(totals.sum())


def test_a_transition_over_a_gap_does_not_count():
    """0 -> (lost) -> 2 is not 0 -> 2; the transitions beside the gap count as they did, and one
    more of the K can.
    """
    path = [(0, 0, 0.5), (2, 0, 0.5), (1, 0, 0.5), (0, 1, 0.5), (0, 0, 0.5)]
    users = logged([path, path])
    gaps = np.zeros(len(users.states), bool)
    gaps[[1, 6]] = True
    made = statistic(transitions=6, ends=True)
    counts, _, totals, rewards, starts = made.bound.unpack(
        made.contribution(replace(users, gaps=gaps)).values
    )
    cells = counts.reshape(S, A, S + 1)
    # the end after the first trajectory
    assert cells[0, 0, 2] == 0 and cells[0, 0, S] == pytest.approx(1, abs=1e-3)
    assert cells[2, 0, 1] == pytest.approx(math.sqrt(2), abs=1e-3)
    assert totals.sum() == pytest.approx(1 + 2 * math.sqrt(2) + 1, abs=1e-3)
    assert rewards.sum() == pytest.approx(totals.sum() / 2, abs=1e-3) and starts.tolist() == [
        1,
        0,
        0,
    ]


@settings(max_examples=60, deadline=None)
@given(people, st.integers(0, 2**32 - 1))
def test_a_gap_counts_like_the_start_of_another_trajectory(users, seed):
    rng = np.random.default_rng(seed)
    cut = [[[rng.random() < 0.3 for _ in path] for path in user] for user in users]
    marks = np.array(
        [mark and place > 0 for user in cut for path in user for place, mark in enumerate(path)]
    )
    pieces = [
        [piece for path, marked in zip(user, where, strict=True) for piece in _pieces(path, marked)]
        for user, where in zip(users, cut, strict=True)
    ]
    made = statistic()
    found = made.contribution(replace(logged(*users), gaps=marks)).values
    assert found.tobytes() == made.contribution(logged(*pieces)).values.tobytes()
    assert found.sum() <= made.bound.l1_sensitivity(Relation.NULL) * len(users)


def _pieces(path, marked):
    places = [0, *(place for place, mark in enumerate(marked) if mark and place > 0), len(path)]
    return [path[low:high] for low, high in pairwise(places)]


def test_nothing_is_counted_in_terminal_states():
    made = statistic(terminal=np.array([False, False, True]))
    counts = made.bound.unpack(
        made.contribution(logged([[(0, 0, 0.0), (2, 0, 0.0), (2, 0, 0.0)]])).values
    )[0]
    assert counts.sum() == 1


def test_users_who_are_not_valid_add_nothing_and_logs_without_actions_are_refused():
    made, plain = statistic(), logged([[(0, 0, 0.0), (1, 0, 0.0)]])
    assert (
        made.contribution(
            LoggedUsers(
                plain.states,
                plain.rewards,
                plain.trajectories,
                plain.users,
                ~plain.valid,
                plain.actions,
            )
        ).values.sum()
        == 0
    )
    with pytest.raises(InvalidParameter, match="no actions"):
        made.contribution(
            LoggedUsers(plain.states, plain.rewards, plain.trajectories, plain.users, plain.valid)
        )


def test_a_statistic_that_was_pickled_counts_the_same():
    made, users = statistic(), logged([[(0, 0, 0.3), (1, 0, 0.0)]])
    again = pickle.loads(pickle.dumps(made))
    assert again.contribution(users).values.tobytes() == made.contribution(users).values.tobytes()


def test_weights_must_be_on_the_grid():
    with pytest.raises(InvalidParameter, match="multiple of 1/256"):
        RootCounts(4, 2, 2, 3, 0.3)
