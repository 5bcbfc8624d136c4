import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import InvalidParameter
from confide.mixtures.contributions import Both, StackedRows, ValueTargets
from confide.mixtures.value_features import reduced
from confide.planners.reward_features import centred_rewards, raw_rewards
from confide.privacy import Relation
from confide.problems import lock_rewards
from confide.statistics.bounds import WeightedRows
from confide.statistics.transitions import RewardTargets
from confide.trajectory import Trajectories, TransitionCounts

PROBLEM = lock_rewards(0, states=6, actions=2, horizon=3, jump=2)
VARPHI = centred_rewards(PROBLEM.public.reward_features)
BOUND = StackedRows(2, 2, 1.05, 3, 3, 2.1, 0.5)
VALUES = np.vstack([np.random.default_rng(0).uniform(0, 3, size=(3, 6)), np.zeros(6)])
REWARDS = RewardTargets(BOUND.second, VARPHI)
STATISTIC = Both(BOUND, ValueTargets(BOUND.first, reduced(3), PROBLEM.kernels, VALUES), REWARDS)


def sample(users, seed=0):
    return PROBLEM.sample(PROBLEM.optimal_policy, users, np.random.default_rng(seed))


def counted(users):
    """With the rewards, which differ between users in the same transition."""
    s, a, after, r = users.states[:, :-1], users.actions, users.states[:, 1:], users.rewards
    h = np.broadcast_to(np.arange(users.horizon), r.shape)
    different, count = np.unique(
        np.stack([x.ravel() for x in (h, s, a, after, r)], axis=1), axis=0, return_counts=True
    )
    step, state, action, next_state = different[:, :4].astype(np.int64).T
    return TransitionCounts(
        step, state, action, next_state, different[:, 4], count, users.users, users.horizon
    )


@pytest.mark.parametrize("relation", list(Relation))
def test_the_weight_splits_one_budget(relation):
    """D^2 = (H - 1) D_p^2 + w^2 H D_r^2."""
    parts = [BOUND.first.sensitivity(relation), BOUND.second.sensitivity(relation)]
    assert BOUND.sensitivity(relation) == pytest.approx(math.hypot(parts[0], 0.5 * parts[1]))
    values = np.arange(BOUND.size, dtype=float)
    first, second = BOUND.split(values)
    np.testing.assert_array_equal(np.concatenate([first, 0.5 * second]), values)
    step = 2 if relation is Relation.REPLACE else 1
    assert BOUND.sensitivity(relation) == pytest.approx(math.sqrt(step * (2 + 0.25 * 3)), rel=1e-5)


@settings(max_examples=50)
@given(st.floats(allow_nan=True, allow_infinity=True))
def test_rewards_are_clipped_and_what_is_no_number_contributes_zero(reward):
    def sent(r):
        user = Trajectories(
            np.array([[5, 0, 3, 1]]), np.zeros((1, 3), dtype=int), np.array([[r, 0.0, 1.0]])
        )
        return REWARDS.contribution(user).values

    expected = sent(min(max(reward, 0.0), 1.0)) if math.isfinite(reward) else sent(math.nan)
    np.testing.assert_array_equal(sent(reward), expected)
    assert not sent(math.nan)[: BOUND.second.size // 3].any()


def test_users_one_by_one_and_counts_are_the_same_bits_as_all_together():
    users = sample(60)
    together = STATISTIC.contribution(users)
    one_by_one = sum(
        (STATISTIC.contribution(users[i : i + 1]) for i in range(1, 60)),
        start=STATISTIC.contribution(users[:1]),
    )
    np.testing.assert_array_equal(one_by_one.values, together.values)
    np.testing.assert_array_equal(STATISTIC.contribution(counted(users)).values, together.values)
    assert one_by_one.users == together.users == 60


@pytest.mark.parametrize("make", [raw_rewards, centred_rewards])
@pytest.mark.parametrize("weights", [None, 0.5])
def test_the_regression_is_right(make, weights):
    """Signed features without a constant in their span: least squares on the exact sums of 4e5
    users finds theta within 0.02.
    """
    rng = np.random.default_rng(0)
    rows, theta = rng.uniform(-0.5, 0.5, size=(6, 2, 3)), rng.normal(size=3)
    # Rewards are not negative.
    rows *= np.sign(rows @ theta)[..., None]
    theta *= 0.9 / (rows @ theta).max()
    features, bound = make(rows), WeightedRows(1, 3, 1.0)
    state, action = rng.integers(6, size=(400_000, 1)), rng.integers(2, size=(400_000, 1))
    rewards = (rng.uniform(size=state.shape) < rows[state, action] @ theta).astype(float)
    users = Trajectories(np.hstack([state, state]), action, rewards)
    Lambda, u = bound.unpack(RewardTargets(bound, features, weights).contribution(users).values)
    np.testing.assert_allclose(features.origin + np.linalg.solve(Lambda[0], u[0]), theta, atol=0.02)


def test_public_weights_clip_no_reward():
    """Sum of ||v||^2 over users, from the released blocks, stays what the rows say."""
    v = np.hstack(
        [
            REWARDS._rows.reshape(-1, 3),
            (VARPHI.largest * REWARDS._weight * 2.1 / math.sqrt(2)).reshape(-1, 1),
        ]
    )
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1.0)
    assert VARPHI.largest.max() == pytest.approx(0.5)
    assert (VARPHI.pattern == np.eye(3)).all()


def test_what_does_not_fit_is_refused():
    other, fitting = (
        StackedRows(2, 2, 1.05, 3, 3, 2.0, 0.5),
        dict(zip(StackedRows.__slots__, (1, 1, 1.0, 1, 1, 1.0), strict=False)),
    )
    with pytest.raises(InvalidParameter, match="stack's own bounds"):
        other.contribution(STATISTIC.first.contribution(sample(1)), REWARDS.contribution(sample(1)))
    with pytest.raises(InvalidParameter, match="for the same users"):
        BOUND.contribution(STATISTIC.first.contribution(sample(2)), REWARDS.contribution(sample(1)))
    for wrong, message in (
        ({"weight": 0.3}, "multiple of 1/8"),
        ({"weight": math.nan}, "multiple of 1/8"),
        ({"weight": 1e9}, "at most 64"),
        ({"second_steps": 1.5}, "whole numbers"),
        ({"second_dimension": 0}, "at least 1"),
        ({"nonnegative": True}, "must be plain"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            StackedRows(**(fitting | wrong))
    with pytest.raises(InvalidParameter, match="norm at most 1"):
        raw_rewards(np.full((2, 2, 3), 0.9))


def test_private_text_contributes_zero_and_nothing_is_printed():
    text = Trajectories(np.zeros((1, 4)), np.zeros((1, 3)), np.array([["cured"] * 3]))
    assert not REWARDS.contribution(text).values.any()
    with np.errstate(all="raise"):
        strange = np.array([[np.nan, np.inf, 1e300, -1.0]])
        assert not REWARDS.contribution(
            Trajectories(strange, np.zeros((1, 3)), np.ones((1, 3)))
        ).values.any()
