"""Figures of curves that are not runs, in the style of `confide.report.drawing`."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from confide.report.drawing import (
    DASHES,
    HEIGHT,
    SMALL,
    TEXT,
    WIDTH,
    Look,
    canvas,
    dress,
    fit,
    saved,
)
from papers.findings import Figure, Line, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn


def save(figure: Figure, folder: Path) -> Path:
    """Save as SVG. The same numbers give the same file."""
    return saved(draw(figure), folder / f"{figure.name}.svg")


def draw(figure: Figure) -> "Drawn":
    """Two panels to a row, each with its own legend below it."""
    wide = min(2, len(figure.panels))
    rows = -(-len(figure.panels) // wide)
    entries = max(len(panel.lines) for panel in figure.panels)
    height = HEIGHT + 0.16 * -(-entries // 2) + 0.3
    drawn = canvas((WIDTH * wide, height * rows))
    parts = drawn.subfigures(rows, wide, squeeze=False).ravel()
    for part, panel in zip(parts, figure.panels, strict=False):
        ax = part.subplots(1, 1)
        _panel(ax, panel)
        part.legend(
            handles=ax.get_legend_handles_labels()[0],
            loc="outside lower center",
            ncols=2,
            frameon=False,
            fontsize=SMALL - 1,
            handlelength=2.4,
        )
    return drawn


def _panel(ax: "Axes", panel: Panel) -> None:
    for line in panel.lines:
        _curve(ax, line)
    ax.set(xscale="log", yscale="log", xlabel=panel.x, ylabel=panel.y)
    ax.set_title(panel.title, fontsize=TEXT)
    points = sorted({x for line in panel.lines for x in line.x})
    # within a decade or so logarithmic ticks crowd: the points themselves
    if points[-1] < 30 * points[0]:
        ax.set_xticks(points, [f"{x:g}" for x in points])
        ax.minorticks_off()
    fit(ax)
    dress(ax)


def _curve(ax: "Axes", line: Line) -> None:
    x, y = np.array(line.x), np.array(line.y)
    shown = np.isfinite(y) & (y > 0)
    if not shown.any():
        return
    x, y = x[shown], y[shown]
    look = Look(line.tone, line.dash)
    ax.plot(
        x,
        y,
        color=look.colour,
        linestyle=DASHES[look.dash],
        linewidth=1.2 if look.tone is None else 1.5,
        label=line.label,
    )
    if line.error is not None:
        error = np.array(line.error)[shown]
        ax.fill_between(
            x,
            np.maximum(y - error, y * 1e-3),
            y + error,
            color=look.colour,
            alpha=0.16,
            linewidth=0,
        )
