"""How many users explore, and how far an explorer looks."""

import numpy as np
import pytest

from confide.mixtures.explorer_planning import (
    EXPLORER_SHARE,
    explorer_width,
    regression_values,
    with_explorer,
)
from confide.planners.regression import Width
from confide.policy import TabularPolicy
from confide.privatizers import every_episode, geometric
from confide.privatizers.schedule import divide_users

POLICY, EXPLORER = (TabularPolicy(np.full((2, 3), a), 2) for a in (0, 1))


def explorers(times):
    """In each round."""
    collected = []
    for generation, (start, end) in enumerate(zip([0, *times[:-1]], times, strict=True)):
        policies, shares = with_explorer(POLICY, EXPLORER, times, generation)
        counts = dict(zip(policies, divide_users(end - start, shares), strict=True))
        collected.append(counts.get(EXPLORER, 0))
        assert sum(counts.values()) == end - start
    return collected


@pytest.mark.parametrize(
    "schedule",
    [geometric(20_000), every_episode(2000), geometric(100)],
    ids=["geometric", "each user", "few"],
)
def test_few_users_explore_and_nobody_after_the_last_release(schedule):
    counts = explorers(list(schedule.times))
    assert counts[0] == 1 and counts[-1] == 0
    assert (
        0.2 * EXPLORER_SHARE * schedule.users < sum(counts) <= EXPLORER_SHARE * schedule.users + 1
    )
    assert with_explorer(POLICY, EXPLORER, list(schedule.times), len(schedule.times)) == (
        (POLICY,),
        (1.0,),
    )


def test_an_explorer_is_more_optimistic_whatever_the_others_do():
    for factor in (0.0, 0.1, 0.4):
        wide = explorer_width(Width(1.0, 9.0, factor=factor))
        assert wide.factor * wide.sampling**0.5 == 1.0 and wide.factor * wide.noise**0.5 == 1.5


def test_the_explorers_values_decide_where_the_plan_sees_no_difference():
    plan = np.array([[1.0, 1.0, 2.0]])
    hoped = np.array([[3.0, 1.0, 1.0]])
    mixed = regression_values(plan, hoped)[0]
    assert mixed[0] > mixed[1] and mixed[2] > mixed[0]
