"""Plans of batches: when policies change, and what each change may cost."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import InvalidParameter
from confide.learning.algorithm import Round
from confide.linear_mdps.batches import BatchPlan, adaptive, at_every, growing, one_by_one, static
from confide.policy import RandomPolicy
from confide.privatizers import custom, every, geometric
from confide.privatizers.schedule import divide_users


def sizes(plan):
    return np.diff([0, *plan.schedule.times])


@given(st.integers(1, 3000), st.data())
def test_static_batches_are_as_printed(episodes, data):
    """[Luyo21, Alg. 2]: k_i = i ceil(K / B) + 1, so that there are at most B of them, and the last
    one may be smaller.
    """
    wanted = data.draw(st.integers(1, episodes))
    plan = static(episodes, wanted)
    size = math.ceil(episodes / wanted)
    assert (sizes(plan)[:-1] == size).all()
    assert 1 <= sizes(plan)[-1] <= size
    assert plan.schedule.users == episodes
    assert plan.schedule.leaves == math.ceil(episodes / size) <= wanted
    assert plan.switches == max(plan.schedule.leaves - 1, 1)
    assert plan.growth is None


def test_static_batches_by_hand():
    assert list(static(10, 3).schedule.times) == [4, 8, 10]
    assert list(static(9, 3).schedule.times) == [3, 6, 9]
    assert list(static(10, 1).schedule.times) == [10]
    assert list(static(3, 3).schedule.times) == [1, 2, 3]


def test_growing_batches_grow_by_the_ratio():
    plan = growing(100_000, first=50, ratio=1.5)
    assert plan.schedule == geometric(100_000, first=50, ratio=1.5)
    assert plan.schedule.times[0] == 50
    ends = np.array(plan.schedule.times[:-1])
    np.testing.assert_allclose(ends[1:] / ends[:-1], 1.5, atol=0.02)
    assert plan.switches == len(ends)
    assert growing(100_000).schedule == geometric(100_000)


def test_the_cap_of_adaptive_batches_is_fixed_in_advance():
    plan = adaptive(100_000, switches=7, growth=3.0, first=30, ratio=1.15)
    assert (plan.switches, plan.growth) == (7, 3.0)
    assert plan.schedule == geometric(100_000, first=30, ratio=1.15)
    # 30, 34 and 40: two changes at most.
    few = adaptive(40, switches=7, first=30, ratio=1.15)
    assert few.schedule.times == (30, 34, 40)
    assert few.switches == 2
    assert adaptive(5).switches == 1


def test_one_by_one_changes_after_every_user():
    """[Luyo21, Remark 7]: B = K."""
    plan = one_by_one(50)
    assert plan == static(50, 50)
    assert (sizes(plan) == 1).all()
    # Nobody comes after the last one.
    assert plan.switches == 49
    assert one_by_one(1).switches == 1


PLANS = [
    static(1000, 7),
    static(1000, 1),
    growing(1000),
    growing(10**6),
    adaptive(10**6),
    one_by_one(400),
    at_every(custom([5, 6, 100])),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.schedule.leaves}-{plan.growth}")
@pytest.mark.parametrize("steps", [1, 4, 19])
def test_shares_are_all_of_the_budget_and_no_more(plan, steps):
    shares = plan.shares(steps)
    assert len(shares) == plan.switches * steps
    assert 1 - 1e-9 <= math.fsum(shares) <= 1
    # In whatever order they are added.
    assert 1 - 1e-9 <= sum(shares) <= 1 + 1e-12
    by_switch = np.array(shares).reshape(plan.switches, steps)
    # All steps alike.
    assert (by_switch == by_switch[:, :1]).all()
    change = np.diff(by_switch[:, 0])
    assert (
        (change == 0).all() if plan.growth else (change >= 0).all()
    )  # later changes get more, where it is known which ones come
    # equal ones are one line of a certificate: a few lines in all
    assert len(set(shares)) <= math.log2(plan.schedule.users) + 2


@pytest.mark.parametrize("plan", [growing(10**6), one_by_one(5000)], ids=["growing", "one by one"])
def test_later_changes_get_more_by_the_fourth_root_of_their_users(plan):
    """Up to rounding the number of users to a power of two, on either side: at most a factor of
    2^(1/4) between two shares.
    """
    shares = np.array(plan.shares(1))
    users = np.array(plan.schedule.times[:-1])
    error = np.log2(shares / shares[0]) - np.log2(users / users[0]) / 4
    assert np.abs(error).max() <= 0.25 + 1e-9
    assert shares[-1] > 2 * shares[0]


@given(st.lists(st.floats(1e-3, 1e3), min_size=6, max_size=6), st.integers(1, 9))
def test_shares_follow_weights(weights, steps):
    shares = np.array(static(70, 7).shares(steps, weights)).reshape(6, steps)
    assert 1 - 1e-9 <= math.fsum(shares.ravel()) <= 1
    np.testing.assert_allclose(
        shares / shares[0, 0], np.array(weights)[:, None] / weights[0] * np.ones(steps)
    )


def test_bad_plans_are_refused():
    for wrong in (0, 11, -1):
        with pytest.raises(
            InvalidParameter,
            match=f"batches must be between 1 and episodes=10, got batches={wrong}",
        ):
            static(10, wrong)
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(
            InvalidParameter,
            match=f"switches must be a whole number, at least 1, got switches={wrong}",
        ):
            BatchPlan(every(5, 50), wrong, 2.0)
    for wrong in (1.0, 0.5, math.inf, math.nan):
        with pytest.raises(InvalidParameter, match=f"growth must be above 1, got growth={wrong}"):
            adaptive(1000, growth=wrong)
    for wrong in (8, 10):
        with pytest.raises(InvalidParameter, match="every time of the schedule but the last"):
            BatchPlan(every(5, 50), wrong)
    with pytest.raises(InvalidParameter, match="ratio must be above 1"):
        growing(100, ratio=1.0)
    with pytest.raises(InvalidParameter, match="episodes must be at least 1"):
        one_by_one(0)


# How the users of one batch are divided between several policies.


@given(st.integers(0, 10**9), st.lists(st.floats(1e-3, 1), min_size=1, max_size=12))
def test_users_are_divided_by_shares_and_nobody_is_lost(users, shares):
    counts = divide_users(users, shares)
    total = sum(shares)
    assert sum(counts) == users
    assert min(counts) >= 0
    np.testing.assert_allclose(counts, users * np.array(shares) / total, atol=1 + 1e-6)


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_equal_shares_are_as_equal_as_can_be(users, policies):
    planned_round = Round(tuple(RandomPolicy(i + 1) for i in range(policies)), statistic=None)
    counts = planned_round.serves(users)
    assert counts == [users * (j + 1) // policies - users * j // policies for j in range(policies)]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("shares", [None, (1.0, 2.0, 1.0), (0.0, 0.25, 0.75)], ids=str)
def test_devices_draw_policies_by_the_same_shares(shares):
    """1000 numbers spread evenly over 2^128, both ends among them."""
    planned_round = Round(
        tuple(RandomPolicy(i + 1) for i in range(3)), statistic=None, shares=shares
    )
    numbers = [(2**128 - 1) * i // 999 for i in range(1000)]
    drawn = np.bincount(
        [planned_round.draw_policy(number).choices for number in numbers], minlength=4
    )[1:]
    np.testing.assert_allclose(drawn, planned_round.serves(1000), atol=1)
    if shares is not None and shares[0] == 0:
        assert drawn[0] == 0
