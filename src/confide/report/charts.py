"""Charts as plain values: series, axes and labels.

Each chart is defined once. `picture.py` draws it with matplotlib, `charts.js` in a report, and `static.py` places it on
pages without scripts. Series are told apart without colour, too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Json = dict[str, Any]

# After Okabe and Ito, and Tol: distinct under the common kinds of colour blindness; contrast at least 3:1 with the background.
LIGHT = ("#0072b2", "#c64f00", "#00805d", "#a03a8c", "#94700a", "#443399", "#5b6770")
DARK = ("#5ab8f0", "#ff9350", "#35cf9f", "#ea92cf", "#e3c33c", "#b0a5ff", "#b4bec6")
# Of reference policies, on light and on dark screens.
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
# Around what is drawn on a logarithmic axis, as a share of its length.
_AIR = 0.05
# In an average over fewer users than this, one user decides.
_SETTLED = 50


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


UNIFORM = Look(None, "dot")


def palette() -> str:
    """The custom properties of the style sheet, for light and for dark screens."""
    light, dark = (
        "".join(f"--tone-{i}:{colour};" for i, colour in enumerate(tones)) + f"--neutral:{neutral};"
        for tones, neutral in zip((LIGHT, DARK), NEUTRAL, strict=True)
    )
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


@dataclass(frozen=True, slots=True)
class Axis:
    """What is along one side of a chart."""

    title: str
    log: bool = True
    # Where only few values occur.
    ticks: tuple[float, ...] = ()
    # Of a linear axis. None: around what is drawn.
    bottom: float | None = None
    top: float | None = None
    # Before this x, a linear axis of y need not hold what is drawn.
    settled: float = 0.0


USERS = Axis("users")


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A curve and its band; or, with `points`, single numbers with their intervals."""

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
    """A number that does not depend on x. Its text is where learners are not: not yet at the optimum, no longer at the start."""

    y: float
    look: Look = UNIFORM
    text: str = ""
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
    """One line of a legend. With `ink` it has no colour of its own, because it is about dashes and widths only."""

    name: str
    look: Look
    width: float = 1.6
    ink: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """One pair of axes. `described` says in words what a chart shows; without a `legend` its series name themselves."""

    x: Axis
    y: Axis
    series: Sequence[Series] = ()
    levels: Sequence[Level] = ()
    bars: Sequence[Bar] = ()
    title: str = ""
    described: str = ""
    # Of bars: a number to compare them with.
    mark: float | None = None
    legend: Sequence[Entry] | None = None

    @property
    def entries(self) -> Sequence[Entry]:
        if self.legend is not None:
            return self.legend
        return [Entry(one.name, one.look, one.width) for one in self.series if one.name]

    @property
    def x_range(self) -> tuple[float, float]:
        """The ends of a logarithmic x axis."""
        seen = positive(x for one in self.series for x in (one.x[0], one.x[-1]))
        if self.x.ticks:
            return min(seen) / 1.1, max(seen) * 1.1
        return _with_air(min(seen, default=1.0), max(seen, default=1.0))

    @property
    def y_range(self) -> tuple[float, float] | None:
        """The ends of a logarithmic y axis, for the series and for ends of intervals up to ten times beyond them: a wide one, from two
        seeds say, may leave the chart. None where nothing is above zero."""
        seen = positive(
            [*(y for one in self.series for y in one.y), *(one.y for one in self.levels)]
        )
        if not seen:
            return None
        ends = positive(
            end
            for one in self.series
            if one.points and one.low is not None and one.high is not None
            for end in (*one.low, *one.high)
        )
        near = [end for end in ends if min(seen) / 10 < end < 10 * max(seen)]
        return _with_air(min(seen + near), max(seen + near))

    @property
    def bar_range(self) -> tuple[float, float]:
        """The ends of the logarithmic axis of bars."""
        seen = positive(bar.value for bar in self.bars)
        low = 10.0 ** math.floor(math.log10(min(seen, default=1.0)) - 0.2)
        return low, max([10 * low, *seen, self.mark or 0.0])

    def to_json(self) -> Json:
        """For charts.js."""
        y_range = self.y_range if self.y.log else None
        return {
            "x": _axis(self.x, self.x_range if self.x.log and self.series else None),
            "y": _axis(self.y, y_range),
            "xs": [_numbers(x) for x in self._all_x],
            "series": [self._series(one) for one in self.series],
            "levels": [
                {
                    "y": short(one.y),
                    "text": one.text,
                    "left": one.left,
                    **_look(one.look),
                    **_switches(one),
                }
                for one in self.levels
            ],
        }

    @property
    def _all_x(self) -> list[Array]:
        """Series are usually at the same users, which are written once."""
        found: list[Array] = []
        for one in self.series:
            if not any(np.array_equal(one.x, x) for x in found):
                found.append(one.x)
        return found

    def _series(self, one: Series) -> Json:
        made: Json = {
            "at": next(i for i, x in enumerate(self._all_x) if np.array_equal(one.x, x)),
            "y": _numbers(one.y),
            "width": round(one.width, 3),
            "points": one.points,
            **_look(one.look),
            **_switches(one),
        }
        if one.low is not None and one.high is not None and one.has_band:
            made |= {"low": _numbers(one.low), "high": _numbers(one.high)}
        return made


def regret_chart(
    series: Sequence[Series], optimal: float | None, uniform: float | None, **more: Any
) -> Chart:
    """Cumulative regret. Uniform play loses the same with every user: its line is added where it is known."""
    # Zero has no logarithm.
    shown = [one for one in series if (one.y > 0).any()]
    known = optimal is not None and uniform is not None and uniform < optimal
    if known and not any(one.look == UNIFORM for one in shown):
        users = np.array([1.0, max((float(one.x[-1]) for one in series), default=1.0)])
        lost = (optimal - uniform) * users  # type: ignore[operator]
        shown.append(Series("uniform play", UNIFORM, users, lost, width=1.2))
    return Chart(USERS, Axis("cumulative regret", bottom=0.0), shown, **more)


def value_chart(
    series: Sequence[Series], optimal: float | None, uniform: float | None, **more: Any
) -> Chart:
    """What a user can expect, between uniform and optimal play."""
    ends = (("optimal", optimal, True), ("uniform", uniform, False))
    levels = [
        Level(y, text=f"{name} play {y:.3g}", left=left) for name, y, left in ends if y is not None
    ]
    bottom = top = None
    if optimal is not None and uniform is not None and uniform < optimal:
        # What is far worse than uniform play may leave the chart.
        gap = optimal - uniform
        lowest = min((float(np.nanmin(one.y)) for one in series), default=uniform)
        bottom = min(max(lowest, uniform - 0.6 * gap), uniform) - 0.09 * gap
        top = optimal + 0.09 * gap
    axis = Axis("value per user", log=False, bottom=bottom, top=top)
    return Chart(USERS, axis, series, levels, **more)


def return_chart(series: Sequence[Series], **more: Any) -> Chart:
    return Chart(USERS, Axis("average return", log=False, settled=_SETTLED), series, **more)


def positive(values: Iterable[Any]) -> list[float]:
    return [float(y) for y in values if y is not None and math.isfinite(y) and y > 0]


def short(value: float | None) -> float | None:
    """As a file has it: nobody sees more than six digits."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _with_air(low: float, high: float) -> tuple[float, float]:
    start, end = math.log10(low), math.log10(high)
    air = max(_AIR * (end - start), _AIR)
    return float(10 ** (start - air)), float(10 ** (end + air))


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


def _switches(one: Series | Level) -> Json:
    return {"name": one.name, "agent": one.agent, "promise": one.promise, "rows": list(one.rows)}


def _numbers(values: Array) -> list[float | None]:
    rounded = map(short, np.asarray(values, dtype=float).tolist())
    # A whole number is written without its decimal point.
    return [int(x) if x is not None and x.is_integer() else x for x in rounded]
