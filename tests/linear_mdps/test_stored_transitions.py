"""Stored transitions: whatever a user did, and whoever else is in the sums, one response moves by
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
from confide.linear_mdps.contributions import StoredTransitions
from confide.policy import uniform_policy
from confide.privacy import Relation
from confide.problems import latent
from confide.trajectory import Trajectories, TransitionCounts, counts_of_nobody

UNIT = 2**24
FEATURES = np.array(
    [
        [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]],  # phi and -phi
        [[0.6, -0.8, 0.0], [-0.6, 0.8, 0.0]],
        [[1.0, 1.0, 1.0], [0.01, -0.02, 0.0]],
    ]
)
# As long as features may be.
FEATURES[2, 0] *= (1 + 9e-10) / math.sqrt(3)
S, A, D = FEATURES.shape
WEIGHTS = (0.0, 0.3, 1.0)
VALUES = [
    np.array([1.0, -1.0, 0.123]),
    np.array([-1 / 3, 1 / 3, 1e-9]),
    np.array([7.0, -1e300, np.inf]),  # outside of [-1, 1 - w]
]
REWARDS = (-1e9, -0.5, 0.0, 1e-9, 1 / 3, 1.0, 1.7, 1e300, math.nan, math.inf, -math.inf)
USERS = list(itertools.product((-1, 0, 1, 2, 3), (-7, 0, 1, 2), (-1, 0, 1, 2, 99), REWARDS))
RELATIONS = (Relation.REPLACE, Relation.NULL)


def empty_store(features=FEATURES, steps=1):
    return StoredTransitions(features, steps)


def one(state, action, after, reward):
    return Trajectories(np.array([[state, after]]), np.array([[action]]), np.array([[reward]]))


def crowd(users, seed=0, states=S, actions=A):
    """So many users at one step, anywhere, with any rewards."""
    rng = np.random.default_rng(seed)
    rows = 60
    state, action, after = (rng.integers(size, size=rows) for size in (states, actions, states))
    counts = rng.multinomial(users, rng.dirichlet(np.ones(rows)))
    return TransitionCounts(
        np.zeros(rows, dtype=np.int64),
        state,
        action,
        after,
        rng.uniform(-0.1, 1.1, rows),
        counts,
        users,
        1,
    )


def expected_response(users, features, values, weight):
    """The same sum in floating point, from counts."""
    w = min(max(weight, 0.0), 1.0)
    y = np.clip(values, -1.0, 1 - weight)
    targets = w * np.clip(users.reward, 0, 1) + y[users.next_state]
    return (features[users.state, users.action] * (users.count * targets)[:, None]).sum(axis=0)


def steps_of(response):
    """A response in whole steps of the bound's grid."""
    assert response.bound.grid == 1 / UNIT
    whole = response.values * UNIT
    np.testing.assert_array_equal(whole, np.rint(whole))
    return whole.astype(np.int64)


def with_each_user(many):
    """What is stored of a crowd together with each one of USERS, and of a user who contributes
    nothing.
    """
    base = empty_store()
    base.add(many)
    saved = base.arrays()
    collected = []
    for user in [one(*each) for each in USERS] + [counts_of_nobody(1, 1)]:
        each = empty_store()
        each.restore(saved)
        each.add(user)
        collected.append(each)
    return collected


@pytest.mark.parametrize("users", [0, 1000, 10**6])
def test_no_two_neighbours_are_farther_apart_than_stated_and_some_are_that_far(users):
    """Brute force: 1100 users, each in place of any other and of nobody, in crowds of three sizes.
    Distances are exact, in whole steps.
    """
    stored = with_each_user(crowd(users))
    farthest = dict.fromkeys(RELATIONS, 0)
    bound = stored[0].bound
    stated = {relation: round(bound.sensitivity(relation) * UNIT) for relation in RELATIONS}
    assert stated == {Relation.REPLACE: 2 * UNIT, Relation.NULL: UNIT}
    for weight, values in itertools.product(WEIGHTS, VALUES):
        responses = [steps_of(each.response(0, values, weight)) for each in stored]
        different = np.unique(responses[:-1], axis=0)
        nobody = responses[-1]
        for relation, others in ((Relation.REPLACE, different), (Relation.NULL, nobody[None])):
            apart = different[:, None] - others[None]
            # At most 3 x 2^50: exact.
            squared = (apart**2).sum(axis=2).max()
            assert squared <= stated[relation] ** 2
            assert np.abs(apart).sum(axis=2).max() <= bound.l1_sensitivity(relation) * UNIT
            farthest[relation] = max(farthest[relation], math.isqrt(squared))
    for relation in RELATIONS:
        assert farthest[relation] >= 0.999 * stated[relation]


@given(
    st.integers(0, 2**20),
    st.lists(st.floats(-1.5, 1.5), min_size=3, max_size=3),
    st.floats(0, 1),
    st.lists(
        st.tuples(st.integers(-1, 3), st.integers(-1, 2), st.integers(-1, 3), st.floats()),
        min_size=2,
        max_size=2,
    ),
)
def test_whatever_the_crowd_leaves_to_be_rounded_neighbours_are_no_farther_apart(
    seed, values, weight, users
):
    """The crowd decides which way each sum is rounded: any crowd, any public question, any two
    users.
    """
    collected = []
    for user in users:
        each = empty_store()
        each.add(crowd(seed % 977, seed))
        each.add(one(*user))
        collected.append(steps_of(each.response(0, np.array(values), weight)))
    assert ((collected[0] - collected[1]) ** 2).sum() <= (2 * UNIT) ** 2


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("users", [1, 1000, 10**6])
def test_a_response_is_the_sum_that_it_stands_for(users, weight):
    """Up to 2^-20 of the largest sum that so many users can have: everything is rounded to 2^-24,
    and features are shortened by 6 of it.
    """
    each = empty_store()
    many = crowd(users, seed=1)
    each.add(many)
    for values in VALUES:
        response = each.response(0, values, weight)
        np.testing.assert_allclose(
            response.values,
            expected_response(many, FEATURES, values, weight),
            rtol=0,
            atol=users * 2.0**-20,
        )
        assert response.users == users
        assert response.bound == each.bound


def test_steps_are_kept_apart():
    world = latent(0, states=5, actions=2, horizon=3, dimension=3)
    rng = np.random.default_rng(0)
    users = world.count(uniform_policy(3, 5, 2), 4000, rng)
    each = empty_store(world.features, 3)
    values = np.linspace(-1, 0.5, 5)
    each.add(users)
    for step in range(3):
        at = users.step == step
        parts = (
            getattr(users, name)[at]
            for name in ("step", "state", "action", "next_state", "reward", "count")
        )
        exact = expected_response(TransitionCounts(*parts, 4000, 3), world.features, values, 0.5)
        np.testing.assert_allclose(
            each.response(step, values, 0.5).values, exact, atol=4000 * 2.0**-20
        )


def test_counts_and_trajectories_give_the_same_bits():
    world = latent(0, states=5, actions=2, horizon=3, dimension=3)
    rng = np.random.default_rng(1)
    users = world.sample(uniform_policy(3, 5, 2), 3000, rng)
    step = np.tile(np.arange(3), 3000)
    rows = (users.states[:, :-1], users.actions, users.states[:, 1:])
    state, action, after = (part.ravel().astype(np.int64) for part in rows)
    counted = TransitionCounts(
        step, state, action, after, users.rewards.ravel(), np.ones(9000, dtype=np.int64), 3000, 3
    )
    together, apart, by_count = (empty_store(world.features, 3) for _ in range(3))
    together.add(users)
    by_count.add(counted)
    for first in range(0, 3000, 1000):
        apart.add(users[first : first + 1000])
    values = rng.uniform(-1, 0.7, size=5)
    for other in (apart, by_count):
        for step in range(3):
            response = other.response(step, values, 0.3)
            np.testing.assert_array_equal(
                response.values, together.response(step, values, 0.3).values
            )
            assert response.users == 3000


NOWHERE = {
    "states that do not exist": one(-1, 0, 0, 1.0),
    "actions that do not exist": one(0, 2, 0, 1.0),
    "half a state": Trajectories(np.array([[0.5, 0.0]]), np.array([[0.0]]), np.ones((1, 1))),
    "no number": Trajectories(np.array([[np.nan, 0.0]]), np.array([[0.0]]), np.ones((1, 1))),
    "a later step": Trajectories(np.array([[-1, 0, 0]]), np.array([[0, 0]]), np.ones((1, 2))),
}


@pytest.mark.parametrize("user", NOWHERE.values(), ids=NOWHERE)
def test_what_makes_no_sense_adds_zero_and_is_still_a_user(user):
    each = empty_store()
    each.add(user)
    response = each.response(0, np.ones(S), 1.0)
    assert not response.values.any()
    assert response.users == each.users == 1


def test_each_half_of_a_step_counts_without_the_other():
    """A reward that is not finite leaves phi y(s'), and a next state that does not exist leaves w
    phi r.
    """
    without_reward = empty_store()
    without_next = empty_store()
    without_reward.add(one(0, 0, 1, math.nan))
    without_next.add(one(0, 0, 99, 1.0))
    values = np.array([0.0, -0.5, 0.0])
    np.testing.assert_allclose(
        without_reward.response(0, values, 0.25).values, [-0.5, 0, 0], atol=2.0**-20
    )
    np.testing.assert_allclose(
        without_next.response(0, values, 0.25).values, [0.25, 0, 0], atol=2.0**-20
    )


def test_rewards_are_clipped_user_by_user():
    each = empty_store()
    for reward in (1e300, -1e300):
        each.add(one(0, 0, 0, reward))
    np.testing.assert_allclose(each.response(0, np.zeros(S), 1.0).values, [1, 0, 0], atol=2.0**-20)


def test_half_a_billion_users_still_add_up_exactly():
    """2^29 - 1 of them, all alike, against whole numbers of any size: beyond that floating point
    has no room for single steps.
    """
    users = 2**29 - 1
    zero = np.zeros(1, dtype=np.int64)
    each = empty_store()
    each.add(TransitionCounts(zero, zero, zero, zero, np.ones(1), np.array([users]), users, 1))
    phi = int(each._features[0, 0])
    for weight, value in ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (0.3, 0.7), (1 / 3, -1 / 3)):
        w = int(weight * UNIT)
        y = math.trunc(min(value, 1 - w / UNIT) * UNIT)
        assert (
            int(steps_of(each.response(0, np.full(S, value), weight))[0])
            == phi * users * (y + w) // UNIT
        )
    with pytest.raises(InvalidParameter, match="users can be stored"):
        each.add(counts_of_nobody(2**31, 1))
    assert each.users == users


def test_large_tables_are_no_more_sensitive():
    """One user in each of 32 770 cells of a table, and one user more: what is carried over must not
    overflow where cells add up.
    """
    actions = 2**14 + 1
    state, action = np.indices((2, actions)).reshape(2, -1)

    def response(cells):
        each = empty_store(np.ones((2, actions, 1)))
        zeros = np.zeros(cells, dtype=np.int64)
        once = np.ones(cells, dtype=np.int64)
        each.add(
            TransitionCounts(
                zeros, state[:cells], action[:cells], zeros, np.zeros(cells), once, cells, 1
            )
        )
        each.add(counts_of_nobody(200_000 - cells, 1))
        return each.response(0, np.full(2, -1 / UNIT)).values[0]

    responses = [response(cells) for cells in (2**15, 2**15 + 1, 2**15 + 2)]
    assert max(abs(late - early) for early, late in itertools.pairwise(responses)) <= 1


def test_it_can_be_saved_and_restored():
    each = empty_store()
    other = empty_store()
    each.add(crowd(1000))
    saved = each.arrays()
    other.restore(saved)
    for array in saved.values():
        # What a state can hold.
        assert str(array.dtype) == "int64"
    each.add(crowd(50, seed=3))
    # It is a copy.
    assert other.users == 1000
    other.add(crowd(50, seed=3))
    np.testing.assert_array_equal(
        each.response(0, VALUES[0], 0.3).values, other.response(0, VALUES[0], 0.3).values
    )
    assert each.users == other.users == 1050


def test_it_cannot_be_copied_and_shows_no_data():
    each = empty_store()
    for _ in range(3):
        each.add(one(0, 0, 1, 0.123456))
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="save the agent instead"):
            way(each)
    assert repr(each) == str(each) == "StoredTransitions(3 users)"
    assert "0.12" not in repr(each.response(0, VALUES[0], 1.0))


def test_bad_features_are_refused():
    for wrong in (1 + 1e-6, math.nan, math.inf):
        features = FEATURES.copy()
        features[0, 0, 0] = wrong
        with pytest.raises(InvalidParameter, match="norm at most 1"):
            empty_store(features)


@pytest.mark.parametrize("count", [[2], [1, 1], [1, -1]])
def test_counts_are_of_users_with_one_transition_per_step(count):
    n = len(count)
    zeros = np.zeros(n, dtype=np.int64)
    with pytest.raises(InvalidParameter, match="at most one"):
        empty_store().add(
            TransitionCounts(zeros, zeros, zeros, zeros, np.zeros(n), np.array(count), 1, 1)
        )
