"""Charts drawn by matplotlib, for papers: as SVG, PDF or PNG.

Neither a display nor global state is used.

matplotlib is imported when something is drawn.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from confide._extras import need
from confide.report.charts import UNIFORM, Bar, Chart, Entry, Level, Look, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# The style of a line in a legend, as matplotlib takes it.
Style = Mapping[str, Any]

DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (4.5, 2)),
    "dot": (0, (1, 1.8)),
    "dashdot": (0, (4.5, 1.6, 1, 1.6)),
}
# In the order of `MARKERS` in charts.py.
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
# Inches of one chart. Two of them fill the width of a page.
WIDTH = 3.5
HEIGHT = 2.75
# Sizes of text in points. A matter of taste.
SMALL_TEXT = 7.5
TEXT = 8.5
INK = "#374151"


def style_of(look: Look) -> dict[str, Any]:
    style = {"color": look.colour, "linestyle": DASHES[look.dash]}
    return style if look.marker is None else {**style, "marker": MARKERS[look.marker]}


def draw(
    charts: Sequence[Chart],
    *,
    columns: int | None = None,
    figsize: tuple[float, float] | None = None,
    own_legends: bool = False,
) -> "Figure":
    """The charts of one figure, with one legend below all of them, or with their own."""
    if not columns:
        columns = 2 if len(charts) == 4 else min(len(charts), 3)
    rows = -(-len(charts) // columns)
    chart_height = 1.7 if all(chart.bars for chart in charts) else 2.5
    width = min(WIDTH * columns, 7.2) if columns > 1 else 4.2
    figure = canvas(figsize or (width, chart_height * rows + 0.7))
    if own_legends:
        parts = figure.subfigures(rows, columns, squeeze=False).ravel()
        for part, chart in zip(parts, charts, strict=False):
            _chart(part.subplots(1, 1), chart)
            _legend(part, chart.entries)
        return figure
    entries: dict[str, Entry] = {}
    for place, chart in enumerate(charts):
        _chart(figure.add_subplot(rows, columns, place + 1), chart)
        entries |= {entry.name: entry for entry in chart.entries}
    if entries:
        _legend(figure, list(entries.values()))
    return figure


def canvas(size: tuple[float, float]) -> "Figure":
    return _figure_class()(figsize=size, layout="constrained", facecolor="white")


@cache
def _figure_class() -> "type[Figure]":
    need("report", "a figure")
    import matplotlib
    from matplotlib.figure import Figure

    class PaperFigure(Figure):
        """A figure that is saved as papers want it, whatever matplotlib's settings are."""

        def savefig(self, fname: Any, *, transparent: bool | None = None, **kwargs: Any) -> None:
            # 42 is TrueType, which editors can change and publishers accept; they refuse type 3.
            # With a fixed salt the same figure gives the same SVG.
            with matplotlib.rc_context(
                {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.hashsalt": "confide"}
            ):
                super().savefig(fname, transparent=transparent, **kwargs)

    return PaperFigure


def save(figure: "Figure", path: Path) -> Path:
    """Save a figure without a date, so that the same numbers give the same file."""
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
    figure.savefig(path, dpi=200, metadata=metadata)
    return path


def _chart(ax: "Axes", chart: Chart) -> None:
    if chart.bars:
        _bars(ax, chart)
    else:
        _lines(ax, chart)
    dress(ax)
    if chart.title:
        ax.set_title(chart.title, fontsize=TEXT, fontweight="bold", parse_math=False)


def _lines(ax: "Axes", chart: Chart) -> None:
    x, y = chart.x, chart.y
    for place, series in enumerate(chart.series):
        _series(ax, series, y.log, place)
    for level in chart.levels:
        _level(ax, level)
    scales = {"xscale": "log" if x.log else "linear", "yscale": "log" if y.log else "linear"}
    ax.set(**scales, xlabel=x.title, ylabel=y.title)
    if x.log and chart.series:
        ax.set_xlim(*chart.x_range)
    if x.ticks:
        ax.set_xticks(x.ticks, [f"{tick:g}" for tick in x.ticks])
        ax.set_xticks([], minor=True)
    if not y.log:
        ax.margins(y=0.09)
        ax.set_ylim(y.bottom, y.top)
    elif chart.y_range is not None:
        ax.set_ylim(*chart.y_range)


def _series(ax: "Axes", series: Series, log: bool, place: int) -> None:
    """Draw the finite part of a curve, and its band."""
    keep = np.isfinite(series.y) & ((series.y > 0) | (not log))
    if not keep.any():
        return
    x = series.x[keep]
    y = series.y[keep]
    style = style_of(series.look)
    low, high = (None if end is None else end[keep] for end in (series.low, series.high))
    if series.points:
        reach = None
        if low is not None and high is not None:
            reach = np.abs(np.array([y - low, high - y], dtype=float))
        size: dict[str, Any] = {
            "markersize": 4.2,
            "linewidth": series.width,
            "elinewidth": 0.9,
            "capsize": 2,
        }
        ax.errorbar(x, y, yerr=reach, **size, **style)
        return
    # Markers of different curves are at different users, because curves may lie on each other.
    every = (2 * place, max(len(x) // 6, 1))
    ax.plot(x, y, linewidth=series.width, markersize=3.6, markevery=every, **style)
    if low is not None and high is not None and series.has_band:
        # A logarithmic axis cannot go below zero.
        low = np.maximum(low, y * 1e-3) if log else low
        ax.fill_between(x, low, high, color=series.look.colour, alpha=0.14, linewidth=0)


def _level(ax: "Axes", level: Level) -> None:
    colour = level.look.colour
    dash = DASHES[level.look.dash]
    ax.axhline(level.y, color=colour, linewidth=1.0, linestyle=dash, zorder=1.5)
    if level.look.marker is not None:
        marker: dict[str, Any] = {"marker": MARKERS[level.look.marker], "markersize": 4.2}
        ax.plot([0.985], [level.y], transform=ax.get_yaxis_transform(), color=colour, **marker)
    if level.text:
        ax.annotate(
            level.text,
            (0.01 if level.left else 0.99, level.y),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2.5 if level.left else -2.5),
            textcoords="offset points",
            horizontalalignment="left" if level.left else "right",
            verticalalignment="bottom" if level.left else "top",
            fontsize=SMALL_TEXT,
            color="#4b5563",
        )


def _bars(ax: "Axes", chart: Chart) -> None:
    """Draw bars on a logarithmic scale, the first on top."""
    left, right = chart.bar_range
    for place, bar in enumerate(chart.bars):
        if bar.value > left:
            _bar(ax, bar, place, left)
        where = max(bar.high or 0.0, bar.value, left)
        ax.annotate(
            f"{bar.value:,.3g}",
            (where, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL_TEXT,
        )
    if chart.mark:
        ax.axvline(chart.mark, linewidth=1.2, zorder=1, **style_of(UNIFORM))
    ax.set(xscale="log", xlim=(left, right * (right / left) ** 0.2))
    ax.set_xlabel(chart.x.title, parse_math=False)
    ax.set_yticks(range(len(chart.bars)), [bar.name for bar in chart.bars])
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)


def _bar(ax: "Axes", bar: Bar, place: int, left: float) -> None:
    from matplotlib.colors import to_rgb

    pale = tuple(0.3 * part + 0.7 for part in to_rgb(bar.look.colour))
    look: dict[str, Any] = {
        "facecolor": pale,
        "edgecolor": bar.look.colour,
        "hatch": bar.hatch,
        "linewidth": 0.9,
    }
    ax.barh(place, bar.value - left, left=left, height=0.62, zorder=2, **look)
    if bar.low is not None and bar.high is not None:
        ax.hlines(place, max(bar.low, left), bar.high, color="#111827", linewidth=1.0, zorder=3)


def dress(ax: "Axes") -> None:
    ax.grid(visible=True, which="major", color="#e5e7eb", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#9ca3af")
    ax.tick_params(which="both", labelsize=SMALL_TEXT, color="#9ca3af", labelcolor=INK, width=0.6)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_fontsize(TEXT)


def _kind(entry: Entry) -> int:
    """The order of a legend: agents, then guarantees, then reference policies."""
    if entry.look.marker is not None:
        return 0
    return 1 if entry.ink or entry.look.tone is not None else 2


def _legend(figure: "Figure | SubFigure", entries: Sequence[Entry]) -> None:
    from matplotlib.lines import Line2D

    ordered = sorted(entries, key=_kind)
    lines = [Line2D([], [], markersize=4.2, **_legend_style(entry)) for entry in ordered]
    width = figure.bbox.width / figure.get_figure(root=True).dpi
    legend = figure.legend(
        lines,
        ["-"] * len(lines),
        loc="outside lower center",
        ncols=max(1, min(len(lines), int(width / 1.45))),
        frameon=False,
        fontsize=SMALL_TEXT,
        handlelength=3.0,
    )
    for text, entry in zip(legend.get_texts(), ordered, strict=True):
        # Dollars and underscores are parts of a name, and no formula.
        text.set_parse_math(False)
        text.set_text(entry.name)


def _legend_style(entry: Entry) -> Style:
    style = {**style_of(entry.look), "linewidth": entry.width}
    return {**style, "color": INK} if entry.ink else style
