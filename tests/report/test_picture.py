"""Pictures of charts, from plain arrays."""

import numpy as np
import pytest

from confide.report.charts import (
    UNIFORM,
    Axis,
    Bar,
    Chart,
    Level,
    Look,
    Series,
    regret_chart,
    value_chart,
)
from confide.report.charts import (
    USERS as OVER_USERS,
)
from confide.report.picture import draw, save

USERS = np.array([1.0, 10.0, 100.0])


def test_uniform_play_is_drawn_where_it_is_known_and_not_there_yet():
    line = Series("a", Look(0), USERS, np.array([1.0, 5.0, 9.0]))
    with_it, without = regret_chart([line], 1.0, 0.5), regret_chart([line], 1.0, None)
    assert [one.name for one in with_it.series] == ["a", "uniform play"] and with_it.series[
        1
    ].y.tolist() == [0.5, 50.0]
    assert [one.name for one in without.series] == ["a"]
    own = Series("uniform", UNIFORM, USERS, 0.5 * USERS)
    assert len(regret_chart([line, own], 1.0, 0.5).series) == 2


def test_zero_has_no_logarithm():
    assert regret_chart([Series("oracle", Look(0), USERS, np.zeros(3))], 1.0, None).series == []
    (ax,) = draw(
        [
            Chart(
                OVER_USERS, Axis("regret"), [Series("a", Look(0), USERS, np.array([0.0, 5.0, 9.0]))]
            )
        ]
    ).axes
    assert ax.lines[0].get_xdata().tolist() == [10.0, 100.0]


def test_a_band_may_leave_a_logarithmic_axis_and_error_bars_up_to_ten_times():
    y, wide = np.array([1.0, 2.0, 3.0]), np.full(3, 1e6)
    (band,) = draw(
        [Chart(OVER_USERS, Axis("regret"), [Series("a", Look(0), USERS, y, y / 2, wide)])]
    ).axes
    assert band.get_ylim()[1] < 4 and len(band.collections) == 1
    (bars,) = draw(
        [
            Chart(
                Axis("epsilon"),
                Axis("regret"),
                [Series("a", Look(0), USERS, y, y / 2, 5 * y, points=True)],
            )
        ]
    ).axes
    assert 15 < bars.get_ylim()[1] < 20 and bars.get_ylim()[0] < 0.5


def test_what_is_far_worse_than_uniform_play_may_leave_a_panel_of_values():
    chart = value_chart([Series("a", Look(0), USERS, np.array([-900.0, 0.6, 0.9]))], 1.0, 0.5)
    assert [level.text for level in chart.levels] == ["optimal play 1", "uniform play 0.5"]
    (ax,) = draw([chart]).axes
    assert ax.get_ylim()[0] == pytest.approx(0.5 - (0.6 + 0.09) * 0.5)


def test_bars_levels_and_one_legend_for_all_panels():
    bars = Chart(
        Axis("regret"),
        Axis(""),
        bars=[
            Bar("paper", 1000.0, 900.0, 1100.0, Look(0)),
            Bar("tight", 10.0, None, None, Look(0)),
        ],
        mark=2000.0,
    )
    lines = Chart(
        OVER_USERS, Axis("regret"), [Series("a", Look(0, "solid", 1), USERS, USERS)], [Level(5.0)]
    )
    figure = draw([bars, lines, lines])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["paper", "tight"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a"] and len(
        figure.axes
    ) == 3


@pytest.mark.parametrize("ending", [".svg", ".pdf", ".png"])
def test_the_same_numbers_give_the_same_file(tmp_path, ending):
    once, again = (
        save(
            draw([regret_chart([Series("a", Look(0), USERS, USERS)], 1.0, 0.0)]),
            tmp_path / f"{i}{ending}",
        )
        for i in range(2)
    )
    assert once.read_bytes() == again.read_bytes()
