"""Charts as plain values: series, axes and labels.

Each chart is defined once. `picture.py` draws it with matplotlib, `charts.js` in a report, and
`static.py` places it on pages without scripts. `charts.js` reads the fields of `Chart.to_json`, so
a change needs both files. Series can be distinguished without colour, too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Json = dict[str, Any]

# After Okabe and Ito, and Tol: distinct under the common kinds of colour blindness, with a contrast
# of at least 3:1 to the background.
LIGHT = ("#0072b2", "#c64f00", "#00805d", "#a03a8c", "#94700a", "#443399", "#5b6770")
DARK = ("#5ab8f0", "#ff9350", "#35cf9f", "#ea92cf", "#e3c33c", "#b0a5ff", "#b4bec6")
# Colours of reference policies, on light and on dark screens.
NEUTRAL = ("#6b7280", "#9aa4b2")
# Shapes of markers as SVG paths, in a square of side 2 around the middle.
MARKERS = (
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0z",
    "M-.9 -.9h1.8v1.8h-1.8z",
    "M0 -1.2L1.2 0L0 1.2L-1.2 0z",
    "M0 -1.1L1.1 .8H-1.1z",
    "M0 1.1L1.1 -.8H-1.1z",
    "M-.4 -1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z",
    "M-1 -.6L-.6 -1L0 -.4L.6 -1L1 -.6L.4 0L1 .6L.6 1L0 .4L-.6 1L-1 .6L-.4 0z",
    "M0 -1.2L.35 -.4L1.2 -.35L.55 .2L.75 1.05L0 .6L-.75 1.05L-.55 .2L-1.2 -.35L-.35 -.4z",
)
# Empty space at the ends of a logarithmic axis, as a share of its length. A matter of taste.
_MARGIN = 0.05
# In an average over fewer users than this, one user decides. A matter of taste.
_SETTLED_USERS = 50


@dataclass(frozen=True, slots=True)
class Look:
    """The colour, dash and marker of a line."""

    # A place in the palette. None: neutral.
    tone: int | None
    # solid, dash, dot or dashdot. Solid means private.
    dash: str = "solid"
    marker: int | None = None

    @property
    def colour(self) -> str:
        """The colour on white."""
        return NEUTRAL[0] if self.tone is None else LIGHT[self.tone]

    @property
    def variable(self) -> str:
        """The custom property of the style sheet that holds the colour."""
        return "--neutral" if self.tone is None else f"--tone-{self.tone}"


UNIFORM = Look(None, "dot")


def palette() -> str:
    """The custom properties of the style sheet, for light and for dark screens."""
    light = _properties(LIGHT, NEUTRAL[0])
    dark = _properties(DARK, NEUTRAL[1])
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


def _properties(colours: Sequence[str], neutral: str) -> str:
    tones = "".join(f"--tone-{place}:{colour};" for place, colour in enumerate(colours))
    return f"{tones}--neutral:{neutral};"


@dataclass(frozen=True, slots=True)
class Axis:
    """One side of a chart."""

    title: str
    log: bool = True
    # If only few values occur.
    ticks: tuple[float, ...] = ()
    # The ends of a linear axis. None: around what is drawn.
    bottom: float | None = None
    top: float | None = None
    # Before this x, curves may leave a linear y axis.
    settled: float = 0.0


USERS = Axis("users")


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A curve and its band, or, with `points`, single numbers with their intervals."""

    name: str
    look: Look
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    width: float = 1.5
    points: bool = False
    # In a report they switch the series on and off. None: it is always shown.
    agent: str | None = None
    promise: str | None = None
    # The row of a table that it belongs to; with `points` one row for each of them.
    rows: tuple[str, ...] = ()

    @property
    def has_band(self) -> bool:
        return self.low is not None and self.high is not None and bool((self.high > self.low).any())


@dataclass(frozen=True, slots=True)
class Level:
    """A number that does not depend on x."""

    y: float
    look: Look = UNIFORM
    text: str = ""
    # Where the text stands: on the left learners are not at the optimum yet, and on the right they
    # have left the start.
    left: bool = True
    name: str = ""
    agent: str | None = None
    promise: str | None = None
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """One of a chart of horizontal bars."""

    name: str
    value: float
    low: float | None
    high: float | None
    look: Look
    hatch: str = ""
    row: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a legend."""

    name: str
    look: Look
    width: float = 1.6
    # Without a colour of its own, because it is about dashes and widths only.
    ink: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """One pair of axes, and what is drawn on them."""

    x: Axis
    y: Axis
    series: Sequence[Series] = ()
    levels: Sequence[Level] = ()
    bars: Sequence[Bar] = ()
    title: str = ""
    # What the chart shows, in words.
    described: str = ""
    # A number to compare bars with.
    mark: float | None = None
    # None: the names of the series.
    legend: Sequence[Entry] | None = None

    @property
    def entries(self) -> Sequence[Entry]:
        if self.legend is not None:
            return self.legend
        named = [series for series in self.series if series.name]
        return [Entry(series.name, series.look, series.width) for series in named]

    @property
    def x_range(self) -> tuple[float, float]:
        """The ends of a logarithmic x axis."""
        ends = positive(x for series in self.series for x in (series.x[0], series.x[-1]))
        if self.x.ticks:
            return min(ends) / 1.1, max(ends) * 1.1
        return _with_margin(min(ends, default=1.0), max(ends, default=1.0))

    @property
    def y_range(self) -> tuple[float, float] | None:
        """The ends of a logarithmic y axis, or None if nothing is above zero.

        The axis holds all series, and ends of intervals up to ten times beyond them. A wide
        interval, such as one from two seeds, may leave the chart.
        """
        values = [y for series in self.series for y in series.y]
        drawn = positive([*values, *(level.y for level in self.levels)])
        if not drawn:
            return None
        ends: list[float] = []
        for series in self.series:
            if series.points and series.low is not None and series.high is not None:
                ends += positive([*series.low, *series.high])
        near = [end for end in ends if min(drawn) / 10 < end < 10 * max(drawn)]
        return _with_margin(min(drawn + near), max(drawn + near))

    @property
    def bar_range(self) -> tuple[float, float]:
        """The ends of the logarithmic axis of bars."""
        values = positive(bar.value for bar in self.bars)
        low = 10.0 ** math.floor(math.log10(min(values, default=1.0)) - 0.2)
        return low, max([10 * low, *values, self.mark or 0.0])

    def to_json(self) -> Json:
        """For charts.js."""
        y_range = self.y_range if self.y.log else None
        return {
            "x": _axis(self.x, self.x_range if self.x.log and self.series else None),
            "y": _axis(self.y, y_range),
            "xs": [_numbers(x) for x in self._all_x],
            "series": [self._series(series) for series in self.series],
            "levels": [
                {
                    "y": short(level.y),
                    "text": level.text,
                    "left": level.left,
                    **_look(level.look),
                    **_switches(level),
                }
                for level in self.levels
            ],
        }

    @property
    def _all_x(self) -> list[Array]:
        """The different x of all series. Many series share theirs, which is written once."""
        different: list[Array] = []
        for series in self.series:
            if not any(np.array_equal(series.x, x) for x in different):
                different.append(series.x)
        return different

    def _series(self, series: Series) -> Json:
        places = [place for place, x in enumerate(self._all_x) if np.array_equal(series.x, x)]
        facts: Json = {
            "at": places[0],
            "y": _numbers(series.y),
            "width": round(series.width, 3),
            "points": series.points,
            **_look(series.look),
            **_switches(series),
        }
        if series.low is not None and series.high is not None and series.has_band:
            facts |= {"low": _numbers(series.low), "high": _numbers(series.high)}
        return facts


def regret_chart(
    series: Sequence[Series], optimal: float | None, uniform: float | None, **more: Any
) -> Chart:
    """Cumulative regret.

    Uniform play loses the same with every user. Its line is added if its values are known and it
    was not run.
    """
    # Zero has no logarithm.
    drawn = [each for each in series if (each.y > 0).any()]
    was_run = any(each.look == UNIFORM for each in drawn)
    if optimal is not None and uniform is not None and uniform < optimal and not was_run:
        users = np.array([1.0, max((float(each.x[-1]) for each in series), default=1.0)])
        regret = (optimal - uniform) * users
        drawn.append(Series("uniform play", UNIFORM, users, regret, width=1.2))
    return Chart(USERS, Axis("cumulative regret", bottom=0.0), drawn, **more)


def value_chart(
    series: Sequence[Series], optimal: float | None, uniform: float | None, **more: Any
) -> Chart:
    """The value of the policy per user, between uniform and optimal play."""
    ends = (("optimal", optimal, True), ("uniform", uniform, False))
    levels = [
        Level(y, text=f"{name} play {y:.3g}", left=left) for name, y, left in ends if y is not None
    ]
    bottom = top = None
    if optimal is not None and uniform is not None and uniform < optimal:
        # Curves far below uniform play may leave the chart.
        gap = optimal - uniform
        lowest = min((float(np.nanmin(each.y)) for each in series), default=uniform)
        bottom = min(max(lowest, uniform - 0.6 * gap), uniform) - 0.09 * gap
        top = optimal + 0.09 * gap
    axis = Axis("value per user", log=False, bottom=bottom, top=top)
    return Chart(USERS, axis, series, levels, **more)


def return_chart(series: Sequence[Series], **more: Any) -> Chart:
    return Chart(USERS, Axis("average return", log=False, settled=_SETTLED_USERS), series, **more)


def positive(values: Iterable[Any]) -> list[float]:
    return [float(y) for y in values if y is not None and math.isfinite(y) and y > 0]


def short(value: float | None) -> float | None:
    """A number as a page stores it, with six digits, because nobody sees more."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _with_margin(low: float, high: float) -> tuple[float, float]:
    start = math.log10(low)
    end = math.log10(high)
    margin = max(_MARGIN * (end - start), _MARGIN)
    return float(10 ** (start - margin)), float(10 ** (end + margin))


def _axis(axis: Axis, log: tuple[float, float] | None) -> Json:
    return {
        "title": axis.title,
        "log": None if log is None else [short(end) for end in log],
        "ticks": list(axis.ticks),
        "bottom": short(axis.bottom),
        "top": short(axis.top),
        "settled": axis.settled,
    }


def _look(look: Look) -> Json:
    return {"colour": look.variable, "dash": look.dash, "marker": look.marker}


def _switches(drawn: Series | Level) -> Json:
    """By which a report shows and hides a series or a level."""
    return {
        "name": drawn.name,
        "agent": drawn.agent,
        "promise": drawn.promise,
        "rows": list(drawn.rows),
    }


def _numbers(values: Array) -> list[float | None]:
    rounded = map(short, np.asarray(values, dtype=float).tolist())
    # A whole number is written without its decimal point.
    return [int(x) if x is not None and x.is_integer() else x for x in rounded]
