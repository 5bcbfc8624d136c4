import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from confide.errors import InvalidParameter
from confide.privacy import Relation
from confide.privacy.bounded import Bounded, L2Ball, clip_rows

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


@given(arrays(np.float64, 4, elements=ANY_FLOAT), st.floats(1e-3, 1e3))
def test_whatever_a_user_sends_lands_in_the_ball(sent, radius):
    clipped = L2Ball(radius, 4).clip(sent).values
    assert np.isfinite(clipped).all()
    assert math.hypot(*clipped) <= radius * (1 + 4e-16)
    if not np.isfinite(sent).all():
        assert not clipped.any()


def test_what_is_inside_is_not_touched():
    inside = np.array([0.6, -0.8])
    assert (L2Ball(1.0000001, 2).clip(inside).values == inside).all()


@pytest.mark.parametrize("huge", [1e300, -1e308, 1e200])
def test_overflow_does_not_slip_through(huge):
    clipped = clip_rows(np.array([[huge, huge, 0.0]]), 1.0)[0]
    assert np.abs(clipped[:2]) == pytest.approx([math.sqrt(0.5)] * 2)


def test_sensitivities():
    ball = L2Ball(3.0, 4)
    assert (ball.sensitivity(Relation.NULL), ball.sensitivity(Relation.REPLACE)) == (3.0, 6.0)
    assert ball.l1_sensitivity(Relation.REPLACE) == 12.0  # attained by the corners (+-1.5)^4


def test_private_values_do_not_show():
    contribution = L2Ball(5.0, 1).clip(np.array([3.14159]))
    assert "3.14" not in repr(contribution)
    assert "3.14" not in str(contribution)


def test_adding_counts_the_users():
    ball = L2Ball(1.0, 1)
    both = ball.clip(np.array([0.5])) + ball.clip(np.array([0.25]))
    assert both.users == 2
    assert both.values[0] == 0.75
    with pytest.raises(InvalidParameter, match="different bounds"):
        both + L2Ball(2.0, 1).clip(np.array([0.5]))


def test_wrong_shapes_are_refused_without_values():
    with pytest.raises(InvalidParameter, match=r"shape \(2,\), got \(3,\)"):
        L2Ball(1.0, 2).clip(np.zeros(3))
    for radius in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidParameter):
            L2Ball(radius, 2)


def test_bounded_is_compared_by_identity_so_that_values_never_leak_into_an_equality():
    one = L2Ball(1.0, 1).clip(np.array([0.5]))
    assert one != Bounded(one.values, one.bound)
