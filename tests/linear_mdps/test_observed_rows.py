"""Stored rows of features: whatever a user shows, and whoever else is stored, one response moves by
no more than is stated.
"""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import InvalidParameter, PrivacyError
from confide.linear_mdps.observed_rows import UNIT, FeatureClip, ObservedRows, ObservedTargets
from confide.linear_mdps.value_features import FeatureTarget, FeatureValues
from confide.privacy import Relation
from confide.privacy.bounded import real_numbers
from confide.statistics.bounds import RegressionRows
from confide.trajectory import Trajectories

H = 2
A = 2
D = 3
NORM = 2.5
CLIP = FeatureClip(H, A, D, NORM)
RELATIONS = (Relation.REPLACE, Relation.NULL)
WEIGHTS = (0.0, 0.3, 1.0)
# Rows of norm NORM (signed ones, too), shorter ones, and what no clip may let through.
DIRECTIONS = [
    np.array(row, dtype=float) * NORM
    for row in ([1, 0, 0], [-1, 0, 0], [0.6, -0.8, 0], [-0.6, 0.8, 0], [0, 0, 0.01], [0, 0, 0])
]
DIRECTIONS += [np.full(3, (1 + 9e-10) / math.sqrt(3)) * NORM, np.full(3, 1e300)]
DIRECTIONS += [np.array([math.nan, 0, 0]), np.array([math.inf, 0, 0]), np.array([1e9, -1e9, 0])]
REWARDS = (-1e9, 0.0, 1e-9, 1 / 3, 1.0, 1e300, math.nan, math.inf)
ACTIONS = (0, 1, 2, -1, 0.5, math.nan)


def function(weights, widths, offset=0.0, top=4.0, ended=0.0):
    return FeatureValues(np.array(weights), np.array(widths), offset, top, ended)


TARGETS = [
    FeatureTarget(None),
    FeatureTarget(function([3.0, -1.0, 0.5], np.eye(3)), 2.0, 2.0),
    # far outside of [-1, 1 - w], and on its ends
    FeatureTarget(function([1e9, 0.0, 0.0], np.zeros((0, 3)), top=1e12), 0.0, 1.0),
    FeatureTarget(function([-1e300, 1e300, 0.0], 1e200 * np.eye(3), top=1e300), 5.0, 1e-3),
    FeatureTarget(function([0.0, 0.0, 0.0], np.zeros((0, 3)), offset=1.0, ended=-7.0), 1.0, 0.5),
]


def one(row, action, after, reward):
    """A user at the first step, whose next observation has one row twice."""
    states = np.zeros((1, H + 1, A, D))
    states[0, 0] = row
    states[0, 1] = after
    return Trajectories(states, np.array([[action, 0]]), np.array([[reward, 0.0]]))


USERS = [
    one(row, action, after, reward)
    for row, after, reward in itertools.product(DIRECTIONS, DIRECTIONS, REWARDS[::2])
    for action in ((0, 1) if reward == 1.0 else (0,))
] + [one(DIRECTIONS[0], action, DIRECTIONS[1], 1.0) for action in ACTIONS]


def crowd(users, seed=0):
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(users, H + 1, A, D)) * NORM
    return Trajectories(states, rng.integers(A, size=(users, H)), rng.normal(size=(users, H)))


def whole(response):
    """A response in whole steps of the bound's grid."""
    assert response.bound.grid == 1 / UNIT
    steps = np.rint(response.values * UNIT)
    np.testing.assert_array_equal(response.values * UNIT, steps)
    return steps.astype(np.int64)


def store_users(*groups):
    rows = ObservedRows(CLIP, 2000)
    for group in groups:
        rows.add(CLIP.rows(group))
    return rows


@pytest.mark.parametrize("others", [0, 200])
def test_no_two_neighbours_are_farther_apart_than_stated_and_some_are_that_far(others):
    """Brute force: 500 users, each in place of any other and of nobody, in two crowds.

    Distances are exact, in whole steps.
    """
    together = crowd(others)
    farthest = dict.fromkeys(RELATIONS, 0)
    bound = store_users().bound
    stated = {relation: round(bound.sensitivity(relation) * UNIT) for relation in RELATIONS}
    assert stated == {Relation.REPLACE: 2 * UNIT, Relation.NULL: UNIT}
    for weight, target in itertools.product(WEIGHTS, TARGETS):
        base = whole(store_users(together).response(0, target, weight))
        different = np.unique(
            [whole(store_users(together, user).response(0, target, weight)) for user in USERS],
            axis=0,
        )
        for relation, neighbours in ((Relation.REPLACE, different), (Relation.NULL, base[None])):
            apart = different[:, None] - neighbours[None]
            squared = int((apart**2).sum(axis=2).max())
            assert squared <= stated[relation] ** 2
            assert np.abs(apart).sum(axis=2).max() <= bound.l1_sensitivity(relation) * UNIT
            farthest[relation] = max(farthest[relation], math.isqrt(squared))
    for relation in RELATIONS:
        assert farthest[relation] >= 0.999 * stated[relation]


anything = st.floats(allow_nan=True, allow_infinity=True)
rows_of_anything = st.lists(anything, min_size=A * D, max_size=A * D)


@given(
    st.integers(0, 50),
    st.lists(
        st.tuples(rows_of_anything, rows_of_anything, anything, anything), min_size=2, max_size=2
    ),
    st.lists(st.floats(-1e6, 1e6), min_size=D, max_size=D),
    st.floats(0, 1),
    st.floats(1e-6, 1e6),
)
def test_any_two_users_in_any_crowd(seed, users, weights, reward_weight, radius):
    target = FeatureTarget(function(weights, np.eye(D), offset=0.5), 0.3, radius)
    collected = []
    for now, after, action, reward in users:
        states = np.zeros((1, H + 1, A, D))
        states[0, 0] = np.reshape(now, (A, D))
        states[0, 1] = np.reshape(after, (A, D))
        user = Trajectories(states, np.array([[action, 0.0]]), np.array([[reward, 0.0]]))
        response = store_users(crowd(seed % 7, seed), user).response(0, target, reward_weight)
        collected.append(whole(response))
    assert ((collected[0] - collected[1]) ** 2).sum() <= (2 * UNIT) ** 2


def test_the_sums_of_neighbours_are_no_farther_apart_than_stated():
    """phi phi^T and phi (r - 1/2) of all steps: the brute force of users, all alike at both
    steps.
    """
    bound = RegressionRows(H, D, 1.0, target=0.5, balance=1.5)
    statistic = ObservedTargets(CLIP, bound, 0.5)
    sent = []
    for row, reward in itertools.product(DIRECTIONS, REWARDS):
        states = np.zeros((1, H + 1, A, D))
        states[0, :H] = row
        user = Trajectories(states, np.zeros((1, H)), np.full((1, H), reward))
        sent.append(statistic.contribution(user).values)
    different = np.unique(sent, axis=0)
    apart = different[:, None] - different[None]
    assert np.sqrt((apart**2).sum(axis=2)).max() <= bound.sensitivity(Relation.REPLACE)
    assert np.abs(apart).sum(axis=2).max() <= bound.l1_sensitivity(Relation.REPLACE)
    assert np.sqrt((apart**2).sum(axis=2)).max() >= 0.9 * bound.sensitivity(Relation.REPLACE)
    assert np.sqrt((different**2).sum(axis=1)).max() <= bound.sensitivity(Relation.NULL)


def expected_response(users, step, target, reward_weight):
    """The same sum in floating point, user by user."""
    total = np.zeros(D)
    for u in range(users.users):
        rows = users.states[u] / NORM
        rows = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1.0)
        value = target.values
        y = 0.0
        if value is not None and step + 1 < H:
            scores = rows[step + 1] @ value.weights + value.offset
            scores = scores + np.linalg.norm(rows[step + 1] @ value.widths.T, axis=-1)
            best = np.clip(scores, 0.0, value.top).max()
            best = best if rows[step + 1].any() else value.ended
            y = np.clip((best - target.middle) / target.radius, -1.0, 1 - reward_weight)
        reward = np.clip(users.rewards[u, step], 0.0, 1.0)
        total += rows[step, int(users.actions[u, step])] * (reward_weight * reward + y)
    return total


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("step", range(H))
def test_a_response_is_the_sum_that_it_stands_for(step, weight):
    """Also for users whose episode ended after the first step."""
    users = crowd(200)
    users.states[::5, 1:] = 0.0
    users.rewards[::5, 1:] = 0.0
    rows = store_users(users)
    for target in TARGETS[:3]:
        response = rows.response(step, target, weight)
        np.testing.assert_allclose(
            response.values, expected_response(users, step, target, weight), rtol=0, atol=200 * 3e-7
        )
        assert response.users == 200


def test_users_at_a_time_or_together_give_the_same_bits():
    users = crowd(300)
    together = store_users(users)
    apart = store_users(*(users[i : i + 1] for i in range(300)))
    for step, target in itertools.product(range(H), TARGETS):
        np.testing.assert_array_equal(
            together.response(step, target, 0.3).values, apart.response(step, target, 0.3).values
        )


def test_a_row_is_clipped_in_whole_numbers():
    """Nothing that the clip lets through is longer than UNIT, computed exactly."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2000, H + 1, A, D)) * 10.0 ** rng.uniform(-300, 300, (2000, 1, 1, 1))
    ordinary = rng.normal(size=(500, H + 1, A, D))
    states[:500] = ordinary / np.linalg.norm(ordinary, axis=-1, keepdims=True) * NORM
    zeros = np.zeros((2000, H))
    rows = CLIP.rows(Trajectories(states, zeros, zeros)).features.astype(object)
    assert max((rows**2).sum(axis=-1).ravel()) <= UNIT**2


def test_it_can_be_saved_and_restored():
    rows = store_users(crowd(50))
    other = store_users()
    saved = rows.arrays()
    assert {str(array.dtype) for array in saved.values()} == {"uint8", "int64"}
    other.restore(saved)
    for each in (rows, other):
        each.add(CLIP.rows(crowd(20, seed=3)))
        assert each.users == 70
    np.testing.assert_array_equal(
        rows.response(0, TARGETS[1], 0.3).values, other.response(0, TARGETS[1], 0.3).values
    )


def test_it_cannot_be_copied_and_shows_no_data():
    rows = store_users(crowd(3))
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="save the agent instead"):
            way(rows)
    assert repr(rows) == str(rows) == "ObservedRows(3 users)"
    assert "array" not in repr(CLIP.rows(crowd(3)))


def test_questions_that_are_no_numbers_are_refused():
    rows = store_users(crowd(3))
    for wrong in (
        FeatureTarget(function([math.nan, 0, 0], np.eye(3))),
        FeatureTarget(function([0, 0, 0], np.full((3, 3), math.inf))),
        FeatureTarget(function([0, 0, 0], np.eye(3)), 0.0, 0.0),
        FeatureTarget(function([0, 0, 0], np.eye(2))),
        FeatureTarget(function([0, 0], np.eye(2))),
    ):
        with pytest.raises(InvalidParameter):
            rows.response(0, wrong)
    with pytest.raises(InvalidParameter, match="users can be stored"):
        ObservedRows(CLIP, 2**29)
    full = ObservedRows(CLIP, 3)
    with pytest.raises(InvalidParameter, match="at most 3 users"):
        full.add(CLIP.rows(crowd(4)))


def test_texts_and_objects_of_a_user_are_no_numbers():
    states = np.zeros((2, H + 1, A, D), dtype=object)
    states[0, 0, 0, 0] = "nothing"
    states[1, 0, 0, 0] = 1.0
    users = Trajectories(states, np.zeros((2, H)), np.zeros((2, H)))
    rows = CLIP.rows(users).features
    assert not rows[0].any()
    assert rows[1].any()
    assert math.isnan(real_numbers(states)[0, 0, 0, 0])
