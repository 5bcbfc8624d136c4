"""Charts: everything is in the picture, ticks are round."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.report.charts import Axis, Chart, Level, Look, Series
from confide.report.static import place_chart

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


def chart_of(name, values, *levels, log=False):
    series = Series(name, Look(0), np.arange(len(values), dtype=float), np.array(values))
    return Chart(Axis("release", log=False), Axis("value", log=log), [series], levels)


@given(VALUES)
def test_points_lie_in_the_picture(values):
    made = place_chart(
        chart_of("value", values, Level(max(values) + 1, name="best")), (340.0, 240.0)
    )
    for _, _, dots in made.lines:
        assert all(made.left <= x <= made.right and 0 <= y <= made.bottom + 0.1 for x, y in dots)
    assert 2 <= len(made.rows) <= 8 and len(made.columns) <= 9
    ((name, level),) = made.levels
    assert name == "best" and all(level <= y for _, y in made.lines[0][2])


@given(st.lists(st.floats(1e-8, 1e12), min_size=1, max_size=30))
def test_powers_of_ten(values):
    made = place_chart(chart_of("noise", values, log=True), (920.0, 300.0))
    assert (
        all(0 <= y <= made.bottom + 0.1 for _, y in made.lines[0][2]) and 2 <= len(made.rows) <= 7
    )


def test_ticks_are_round():
    made = place_chart(chart_of("value", [0.11, 1.17]), (900.0, 300.0))
    assert [text for _, text in made.rows] == ["0", "0.5", "1", "1.5"]
    assert made.rows[0][0] == pytest.approx(made.bottom)


def test_points_with_intervals_are_intervals():
    one, ends = np.array([1.0]), (np.array([0.2]), np.array([0.8]))
    chart = chart_of("value", [0.1, 0.5])
    point = Series("sampling", Look(0), one, np.array([0.5]), *ends, points=True)
    made = place_chart(replace(chart, series=[*chart.series, point]), (900.0, 300.0))
    ((name, x, low, high),) = made.intervals
    assert name == "sampling" and x == made.lines[0][2][1][0] and high < low < made.bottom
    assert len(made.lines) == 1
