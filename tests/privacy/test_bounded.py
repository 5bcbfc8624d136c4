import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from confide.errors import InvalidParameter
from confide.privacy import Relation
from confide.privacy.bounded import Bounded, L2Ball, clip_rows, clip_sum, real_numbers

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


@given(arrays(np.float64, 4, elements=ANY_FLOAT), st.floats(1e-3, 1e3))
def test_whatever_a_user_sends_lands_in_the_ball(sent, radius):
    clipped = L2Ball(radius, 4).clip(sent).values
    assert np.isfinite(clipped).all()
    assert math.hypot(*clipped) <= radius * (1 + 2e-16)
    if not np.isfinite(sent).all():
        assert not clipped.any()


def test_what_is_inside_is_not_touched():
    # These values are on the grid.
    inside = np.array([0.625, -0.75])
    assert (L2Ball(1.0, 2).clip(inside).values == inside).all()


@pytest.mark.parametrize("huge", [1e300, -1e308, 1e200])
def test_overflow_does_not_slip_through(huge):
    clipped = clip_rows(np.array([[huge, huge, 0.0]]), 1.0)[0]
    assert np.abs(clipped[:2]) == pytest.approx([math.sqrt(0.5)] * 2)


def test_sensitivities():
    ball = L2Ball(3.0, 4)
    assert (ball.sensitivity(Relation.NULL), ball.sensitivity(Relation.REPLACE)) == (3.0, 6.0)
    # The corners (±1.5)^4 attain it.
    assert ball.l1_sensitivity(Relation.REPLACE) == 12.0


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
    for radius in (0.0, -1.0, math.inf, math.nan, 1.5e-323, 1e200):
        with pytest.raises(InvalidParameter):
            L2Ball(radius, 2)


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        (["diagnosis: HIV", "2"], [0, 0]),
        (np.array([1, "555-1234"], dtype=object), [0, 0]),
        ([1j, 2.0], [0, 0]),
        ([10**400, 1], [0, 0]),
        ([2**64, None], [0, 0]),
        ([0.25, "0.5"], [0.25, 0.5]),
        ([0.5 + 0j, 0.25], [0.5, 0.25]),
        ([True, "0"], [1, 0]),
    ],
)
def test_what_is_no_number_contributes_zero_and_numbers_beside_text_stay_numbers(sent, counted):
    assert np.array_equal(L2Ball(1.0, 2).clip(sent).values, counted)


def test_what_is_ragged_is_refused_without_being_quoted():
    with pytest.raises(InvalidParameter) as refused:
        L2Ball(1.0, 2).clip([[1], [2, 5551234]])
    assert refused.value.__cause__ is None and "555" not in str(refused.value)


@pytest.mark.parametrize("junk", ["x", "nan", "1e999", None, 3j, b"\xff", 2**64, [1, 2], object()])
def test_each_element_is_converted_on_its_own(junk):
    neighbours = [0, 1, 2**53, -7, 0.1]
    for other in neighbours:
        try:
            array = np.array([other, junk])
        except ValueError:
            array = np.empty(2, dtype=object)
            array[:] = other, junk
        first, second = real_numbers(array)
        assert first == float(other)
        assert math.isnan(second) or junk in ("1e999", 2**64)


def test_only_the_bound_makes_contributions():
    """By hand one cannot make a wrong size, a value off the grid, a NaN or a negative user; and
    nobody can write into one.
    """
    ball = L2Ball(1.0, 2)
    for values, users in (
        (np.zeros(3), 1),
        (np.array([0.1, 0.0]), 1),
        (np.array([np.nan, 0.0]), 1),
        (np.zeros(2), -50),
        (np.zeros(2), 1.5),
    ):
        with pytest.raises(InvalidParameter):
            Bounded(values, ball, users)
    contribution = ball.clip(np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="read-only"):
        contribution.values[:] = 1e9
    sent = np.array([0.5, 0.5])
    kept = ball.clip(sent)
    sent[:] = 7.0
    assert kept.values.max() == 0.5


def test_clipping_is_silent_whatever_comes():
    """A warning that depends on the data is a release."""
    with np.errstate(all="raise"):
        for sent in ([1e300, 1e300], [5e-324, 0.0], [np.inf, 1.0], [np.nan, np.nan]):
            assert np.isfinite(L2Ball(1.0, 2).clip(np.array(sent)).values).all()


def test_bounded_is_compared_by_identity_so_that_values_never_leak_into_an_equality():
    one = L2Ball(1.0, 1).clip(np.array([0.5]))
    assert one != Bounded(one.values, one.bound)


@pytest.mark.parametrize("relation", ["null", "replace"])
def test_a_relation_may_be_a_word(relation):
    """As in requests: a word that was taken for the other relation would halve the noise."""
    ball = L2Ball(1.0, 3)
    assert ball.sensitivity(relation) == ball.sensitivity(Relation(relation))
    assert ball.l1_sensitivity(relation) == ball.l1_sensitivity(Relation(relation))


@pytest.mark.parametrize(
    "junk", [np.timedelta64(5, "s"), "x", None, 1j, np.datetime64("2020"), b"x", 2**70]
)
def test_lists_are_read_before_numpy_gives_them_one_type(junk):
    """A duration makes all its neighbours durations, and text writes numbers of sixteen bits with
    few digits.
    """
    assert real_numbers([np.float16(0.1), 3, junk])[:2].tolist() == [float(np.float16(0.1)), 3.0]
    assert real_numbers(np.array([7, np.timedelta64(5, "s")]))[0] == 7


def test_private_values_are_not_quoted_by_the_constructor():
    for values in (["secret", "y"], [1j, 0], [[1], [2, 3]]):
        with pytest.raises(InvalidParameter) as refused:
            Bounded(values, L2Ball(1.0, 2))
        assert "secret" not in str(refused.value)


@given(arrays(np.float64, (5, 3), elements=st.floats(-10, 10)), st.floats(1e-2, 1e2))
def test_a_sum_of_contributions_is_not_clipped(sent, radius):
    ball = L2Ball(radius, 3)
    total = sum((ball.clip(row) for row in sent[1:]), ball.clip(sent[0]))
    assert (clip_sum(total.values, ball, 5).values == total.values).all()


@given(arrays(np.float64, 3, elements=ANY_FLOAT), st.integers(0, 3))
def test_no_sum_is_refused(total, users):
    assert np.abs(clip_sum(total, L2Ball(0.75, 3), users).values).max() <= users * 0.75 * (1 + 1e-6)


@given(arrays(np.int64, (2, 3), elements=st.integers(-(2**40), 2**40)), st.integers(2, 5))
def test_two_clipped_sums_are_not_further_apart_than_before(steps, users):
    ball = L2Ball(0.75, 3)
    one, two = (clip_sum(each * ball.grid, ball, users).values for each in steps)
    assert (np.abs(one - two) <= np.abs(steps[0] - steps[1]) * ball.grid).all()
