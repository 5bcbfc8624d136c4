"""Figures for papers by matplotlib: plain arrays in, a figure out, without a display and without global state.

The palette and the dashes are the same on paper and on the screen; lines are told apart without colour, too. matplotlib is imported when
something is drawn.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from confide._extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]
Style = Mapping[str, Any]  # of a line in a legend, in matplotlib's words

# After Okabe and Ito, and Tol: distinct under the common kinds of colour blindness; contrast at least 3:1 with the background.
LIGHT = ("#0072b2", "#c64f00", "#00805d", "#a03a8c", "#94700a", "#443399", "#5b6770")
DARK = ("#5ab8f0", "#ff9350", "#35cf9f", "#ea92cf", "#e3c33c", "#b0a5ff", "#b4bec6")
NEUTRAL = ("#6b7280", "#9aa4b2")  # reference policies: light, dark
DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (4.5, 2)),
    "dot": (0, (1, 1.8)),
    "dashdot": (0, (4.5, 1.6, 1, 1.6)),
}
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
WIDTH, HEIGHT = 3.5, 2.75  # inches of one panel: two of them fill the width of a page
SMALL, TEXT = 7.5, 8.5
INK = "#374151"


@dataclass(frozen=True, slots=True)
class Look:
    """A place in the palette (None: neutral), a dash (solid means private), and a marker."""

    tone: int | None
    dash: str = "solid"  # solid | dash | dot | dashdot
    marker: int | None = None

    @property
    def colour(self) -> str:
        """On white."""
        return NEUTRAL[0] if self.tone is None else LIGHT[self.tone]

    @property
    def variable(self) -> str:
        """The custom property of the style sheet that holds the colour."""
        return "--neutral" if self.tone is None else f"--tone-{self.tone}"

    @property
    def style(self) -> dict[str, Any]:
        """In matplotlib's words."""
        made = {"color": self.colour, "linestyle": DASHES[self.dash]}
        return made if self.marker is None else {**made, "marker": MARKERS[self.marker]}


UNIFORM = Look(None, "dot")


def palette() -> str:
    """The custom properties of the style sheet, for light and for dark screens."""
    light = (
        "".join(f"--tone-{i}:{colour};" for i, colour in enumerate(LIGHT))
        + f"--neutral:{NEUTRAL[0]};"
    )
    dark = (
        "".join(f"--tone-{i}:{colour};" for i, colour in enumerate(DARK))
        + f"--neutral:{NEUTRAL[1]};"
    )
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A curve and its band; or, with `points`, single numbers with their intervals."""

    label: str  # in the legend, unless the panel has a legend of its own
    look: Look
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    width: float = 1.5
    points: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A number that does not depend on x. Its text is where learners are not: not yet at the optimum, no longer at the start."""

    y: float
    look: Look = UNIFORM
    text: str = ""
    left: bool = True


@dataclass(frozen=True, slots=True)
class Bar:
    """One of a panel of horizontal bars."""

    name: str
    value: float
    low: float | None
    high: float | None
    look: Look
    hatch: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One pair of axes; x is logarithmic."""

    x: str
    y: str
    lines: Sequence[Line] = ()
    levels: Sequence[Level] = ()
    bars: Sequence[Bar] = ()
    title: str = ""
    log: bool = True  # y, too
    ticks: Sequence[float] = ()  # of x, where it has few values
    bottom: float | None = None  # what is far below may leave the figure
    mark: float | None = None  # of bars: uniform play
    legend: Mapping[str, Style] | None = field(default=None)


def regret_panel(
    lines: Sequence[Line], optimal: float | None, uniform: float | None, **more: Any
) -> Panel:
    """Cumulative regret. Uniform play loses the same with every user: its line is added where it is known."""
    shown = [line for line in lines if (line.y > 0).any()]  # zero has no logarithm
    if (
        optimal is not None
        and uniform is not None
        and uniform < optimal
        and not any(line.look == UNIFORM for line in shown)
    ):
        users = np.array([1.0, max((float(line.x[-1]) for line in lines), default=1.0)])
        shown.append(Line("uniform play", UNIFORM, users, (optimal - uniform) * users, width=1.2))
    return Panel("users", "cumulative regret", shown, **more)


def value_panel(
    lines: Sequence[Line], optimal: float | None, uniform: float | None, **more: Any
) -> Panel:
    """What a user can expect, between uniform and optimal play."""
    ends = (("optimal", optimal, True), ("uniform", uniform, False))
    levels = [
        Level(y, text=f"{name} {y:.3g}", left=left) for name, y, left in ends if y is not None
    ]
    known = optimal is not None and uniform is not None and uniform < optimal
    bottom = uniform - 0.7 * (optimal - uniform) if known else None  # type: ignore[operator]
    return Panel("users", "value per user", lines, levels, log=False, bottom=bottom, **more)


def return_panel(lines: Sequence[Line], **more: Any) -> Panel:
    return Panel("users", "average return", lines, log=False, **more)


def draw(
    panels: Sequence[Panel],
    *,
    columns: int | None = None,
    figsize: tuple[float, float] | None = None,
) -> "Figure":
    """The panels of one figure, and one legend below them."""
    wide = columns or (len(panels) if len(panels) < 4 else 2 if len(panels) == 4 else 3)
    tall = -(-len(panels) // wide)
    height = 1.7 if all(panel.bars for panel in panels) else 2.5
    size = (min(WIDTH * wide, 7.2) if wide > 1 else 4.2, height * tall + 0.7)
    figure = canvas(figsize or size)
    entries: dict[str, Style] = {}
    for place, panel in enumerate(panels):
        ax = figure.add_subplot(tall, wide, place + 1)
        _panel(ax, panel)
        dress(ax)
        if panel.title:
            ax.set_title(panel.title, fontsize=TEXT, fontweight="bold", parse_math=False)
        entries |= _entries(panel) if panel.legend is None else panel.legend
    if entries:
        _legend(figure, entries)
    return figure


def canvas(size: tuple[float, float]) -> "Figure":
    return _figure_class()(figsize=size, layout="constrained", facecolor="white")


@cache
def _figure_class() -> "type[Figure]":
    need("report", "a figure")
    import matplotlib
    from matplotlib.figure import Figure

    class PaperFigure(Figure):
        """Saved as papers want it, whatever the settings of the process that saves it."""

        def savefig(self, fname: Any, *, transparent: bool | None = None, **kwargs: Any) -> None:
            # TrueType, which publishers take (type 3 they refuse) and editors can change; the same figure gives the same SVG
            with matplotlib.rc_context(
                {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.hashsalt": "confide"}
            ):
                super().savefig(fname, transparent=transparent, **kwargs)

    return PaperFigure


def saved(figure: "Figure", path: Path) -> Path:
    """The same numbers, the same file: no date in it."""
    still = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
    figure.savefig(path, dpi=200, metadata=still)
    return path


def _panel(ax: "Axes", panel: Panel) -> None:
    if panel.bars:
        _bars(ax, panel)
        return
    for place, line in enumerate(panel.lines):
        _line(ax, line, panel.log, place)
    for level in panel.levels:
        _level(ax, level)
    ax.set(xscale="log", yscale="log" if panel.log else "linear", xlabel=panel.x, ylabel=panel.y)
    if panel.ticks:
        ax.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
        ax.set_xticks([], minor=True)
        ax.margins(x=0.08)
    if panel.log:
        fit(ax)
    else:
        ax.margins(y=0.09)
        if panel.bottom is not None:
            ax.set_ylim(bottom=max(ax.get_ylim()[0], panel.bottom))


def _line(ax: "Axes", line: Line, log: bool, place: int) -> None:
    """What is known of a curve, and its band."""
    keep = np.isfinite(line.y) & ((line.y > 0) | (not log))
    if not keep.any():
        return
    x, y = line.x[keep], line.y[keep]
    low, high = (None if end is None else end[keep] for end in (line.low, line.high))
    if line.points:
        bars = (
            None
            if low is None or high is None
            else np.abs(np.array([y - low, high - y], dtype=float))
        )
        ax.errorbar(
            x,
            y,
            yerr=bars,
            markersize=4.2,
            linewidth=line.width,
            elinewidth=0.9,
            capsize=2,
            **line.look.style,
        )
        return
    # not all at the same users: curves may lie on each other
    every = (2 * place, max(len(x) // 6, 1))
    ax.plot(x, y, linewidth=line.width, markersize=3.6, markevery=every, **line.look.style)
    if low is not None and high is not None and (high > low).any():
        low = np.maximum(low, y * 1e-3) if log else low  # a logarithmic axis cannot go below zero
        ax.fill_between(x, low, high, color=line.look.colour, alpha=0.14, linewidth=0)


def _level(ax: "Axes", level: Level) -> None:
    ax.axhline(
        level.y,
        color=level.look.colour,
        linewidth=1.0,
        linestyle=DASHES[level.look.dash],
        zorder=1.5,
    )
    if level.look.marker is not None:
        marker: dict[str, Any] = {
            "color": level.look.colour,
            "marker": MARKERS[level.look.marker],
            "markersize": 4.2,
        }
        ax.plot([0.985], [level.y], transform=ax.get_yaxis_transform(), **marker)
    if level.text:
        ax.annotate(
            level.text,
            (0.01 if level.left else 0.99, level.y),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2.5 if level.left else -2.5),
            textcoords="offset points",
            horizontalalignment="left" if level.left else "right",
            verticalalignment="bottom" if level.left else "top",
            fontsize=SMALL,
            color="#4b5563",
        )


def _bars(ax: "Axes", panel: Panel) -> None:
    """On a logarithmic scale, the first on top."""
    from matplotlib.colors import to_rgb

    seen = [bar.value for bar in panel.bars if bar.value > 0]
    left, right = (
        10.0 ** math.floor(math.log10(min(seen, default=1.0)) - 0.2),
        max([10.0, *seen, panel.mark or 0.0]),
    )
    for place, bar in enumerate(panel.bars):
        if bar.value > left:
            pale = tuple(0.3 * part + 0.7 for part in to_rgb(bar.look.colour))
            look: dict[str, Any] = {
                "facecolor": pale,
                "edgecolor": bar.look.colour,
                "hatch": bar.hatch,
                "linewidth": 0.9,
            }
            ax.barh(place, bar.value - left, left=left, height=0.62, zorder=2, **look)
            if bar.low is not None and bar.high is not None:
                ax.hlines(
                    place, max(bar.low, left), bar.high, color="#111827", linewidth=1.0, zorder=3
                )
        where = max(bar.high or 0.0, bar.value, left)
        ax.annotate(
            f"{bar.value:,.3g}",
            (where, place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
        )
    if panel.mark:
        ax.axvline(panel.mark, linewidth=1.2, zorder=1, **UNIFORM.style)
    ax.set(xscale="log", xlim=(left, right * (right / left) ** 0.2))
    ax.set_xlabel(panel.x, parse_math=False)
    ax.set_yticks(range(len(panel.bars)), [bar.name for bar in panel.bars])
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)


def fit(ax: "Axes") -> None:
    """A logarithmic axis for the lines and for error bars up to ten times beyond them: a wide band, from two seeds say, may leave it."""
    drawn, caps = (
        np.concatenate(
            [
                [],
                *(
                    np.asarray(line.get_ydata(), float)
                    for line in ax.lines
                    if (line.get_linestyle() == "None") is cap
                ),
            ]
        )
        for cap in (False, True)
    )
    drawn = drawn[drawn > 0]  # noise may push a signal below zero
    if len(drawn):
        seen = np.concatenate([drawn, caps[(caps > drawn.min() / 10) & (caps < 10 * drawn.max())]])
        low, high = np.log10(seen.min()), np.log10(seen.max())
        air = max(0.05 * (high - low), 0.05)
        ax.set_ylim(10 ** (low - air), 10 ** (high + air))


def dress(ax: "Axes") -> None:
    ax.grid(visible=True, which="major", color="#e5e7eb", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#9ca3af")
    ax.tick_params(which="both", labelsize=SMALL, color="#9ca3af", labelcolor=INK, width=0.6)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_fontsize(TEXT)


def _entries(panel: Panel) -> dict[str, Style]:
    return {
        line.label: {**line.look.style, "linewidth": line.width}
        for line in panel.lines
        if line.label
    }


def _kind(style: Style) -> int:
    """Agents, then guarantees, then reference policies."""
    return 0 if "marker" in style else 2 if style["color"] == NEUTRAL[0] else 1


def _legend(figure: "Figure", entries: Mapping[str, Style]) -> None:
    from matplotlib.lines import Line2D

    names = sorted(entries, key=lambda name: _kind(entries[name]))
    lines = [Line2D([], [], **{"markersize": 4.2, **entries[name]}) for name in names]
    columns = max(1, min(len(lines), int(figure.get_figwidth() / 1.45)))
    made = figure.legend(
        lines,
        ["-"] * len(lines),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        handlelength=3.0,
    )
    for text, name in zip(made.get_texts(), names, strict=True):
        text.set_parse_math(False)  # a name is a name, with its dollars and underscores
        text.set_text(name)
