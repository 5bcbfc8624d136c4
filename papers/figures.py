"""Figures of curves that are not runs, in the style of confide's own figures."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from confide.report.charts import Axis, Chart, Look, Series
from confide.report.picture import HEIGHT, WIDTH
from confide.report.picture import draw as draw_charts
from confide.report.picture import save as save_figure
from papers.findings import Figure, Line, Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawn


def save(figure: Figure, folder: Path) -> Path:
    """Save as SVG. The same numbers give the same file."""
    return save_figure(draw(figure), folder / f"{figure.name}.svg")


def draw(figure: Figure) -> "Drawn":
    """Two charts to a row, each with its own legend below it."""
    wide = min(2, len(figure.panels))
    rows = -(-len(figure.panels) // wide)
    entries = max(len(panel.lines) for panel in figure.panels)
    height = HEIGHT + 0.16 * -(-entries // 2) + 0.3
    charts = [_chart(panel) for panel in figure.panels]
    size = (WIDTH * wide, height * rows)
    return draw_charts(charts, columns=wide, figsize=size, own_legends=True)


def _chart(panel: Panel) -> Chart:
    points = sorted({x for line in panel.lines for x in line.x})
    # Within a decade or so logarithmic ticks crowd, so the points themselves are the ticks.
    ticks = tuple(points) if points[-1] < 30 * points[0] else ()
    series = [_series(line) for line in panel.lines]
    return Chart(Axis(panel.x, ticks=ticks), Axis(panel.y), series, title=panel.title)


def _series(line: Line) -> Series:
    look = Look(line.tone, line.dash)
    x = np.array(line.x)
    y = np.array(line.y)
    width = 1.2 if look.tone is None else 1.5
    if line.error is None:
        return Series(line.label, look, x, y, width=width)
    error = np.array(line.error)
    return Series(line.label, look, x, y, y - error, y + error, width=width)
