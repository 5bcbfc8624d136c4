"""Charts: everything is in the picture, ticks are round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.service.web.charts import Level, Series, chart

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@given(VALUES)
def test_points_lie_in_the_picture(values):
    points = tuple((float(i), y) for i, y in enumerate(values))
    made = chart(
        [Series("value", points)], size=(340.0, 240.0), levels=[Level("best", max(values) + 1)]
    )
    for _, _, dots in made.lines:
        assert all(made.left <= x <= made.right and 0 <= y <= made.bottom + 0.1 for x, y in dots)
    assert 2 <= len(made.rows) <= 8 and len(made.columns) <= 9


@given(st.lists(st.floats(1e-8, 1e12), min_size=1, max_size=30))
def test_powers_of_ten(values):
    points = tuple((float(i), y) for i, y in enumerate(values))
    made = chart([Series("noise", points)], size=(920.0, 300.0), log=True)
    assert (
        all(0 <= y <= made.bottom + 0.1 for _, y in made.lines[0][2]) and 2 <= len(made.rows) <= 7
    )


def test_ticks_are_round():
    made = chart([Series("value", ((0.0, 0.11), (1.0, 1.17)))], size=(900.0, 300.0))
    assert [text for _, text in made.rows] == ["0", "0.5", "1", "1.5"]
    assert made.rows[0][0] == pytest.approx(made.bottom)
