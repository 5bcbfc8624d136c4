"""The range of returns that follows from the range of one reward."""

import pytest

from confide.errors import InvalidParameter
from confide.evaluation.range_of_returns import range_of_returns


@pytest.mark.parametrize(
    ("rewards", "steps", "discount", "least", "most"),
    [
        ((0.0, 1.0), 10, 1.0, 0.0, 10.0),
        ((-1.0, 1.0), 1000, 0.9, -10.0, 10.0),
        # A trajectory may have one step.
        ((0.5, 1.0), 4, 1.0, 0.5, 4.0),
        ((-2.0, -1.0), 3, 0.5, -3.5, -1.0),
    ],
)
def test_no_return_is_outside(rewards, steps, discount, least, most):
    range_and_reason = range_of_returns(rewards, steps, discount)
    assert range_and_reason[:2] == pytest.approx((least, most))
    assert f"up to {steps} rewards in [{rewards[0]:g}, {rewards[1]:g}]" in range_and_reason[2]


@pytest.mark.parametrize("wrong", [(1.0, 1.0), (1.0, 0.0), (0.0, float("nan")), (0.0,), "much"])
def test_what_is_no_range_is_refused(wrong):
    with pytest.raises(InvalidParameter, match="reward_range"):
        range_of_returns(wrong, 10, 1.0)
