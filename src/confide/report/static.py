"""Charts for pages without scripts: where everything is in an SVG of a given size.

Templates draw it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from confide.report.charts import Chart

# Pixels around the axes, for ticks and titles. A matter of taste.
_LEFT = 52.0
_RIGHT = 14.0
_TOP = 14.0
_BOTTOM = 30.0
# Pixels between an axis and the first point.
_INSET = 8


@dataclass(frozen=True, slots=True)
class PlacedChart:
    """Coordinates in pixels of a picture of this size."""

    width: float
    height: float
    # Ticks: place and text.
    columns: tuple[tuple[float, str], ...]
    rows: tuple[tuple[float, str], ...]
    # Name, path and dots.
    lines: tuple[tuple[str, str, tuple[tuple[float, float], ...]], ...]
    levels: tuple[tuple[str, float], ...]
    # Name, x, and the ends upwards.
    intervals: tuple[tuple[str, float, float, float], ...]

    @property
    def left(self) -> float:
        return _LEFT

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    @property
    def bottom(self) -> float:
        return self.height - _BOTTOM


def place_chart(chart: Chart, size: tuple[float, float], *, columns: int = 8) -> PlacedChart:
    """Place a chart with whole numbers to the right and values upwards.

    Of a series of points its intervals are drawn, and of all other series their lines.
    """
    width, height = size
    bounds = _decades if chart.y.log else _round_steps
    low, high, ticks = bounds(_values(chart))
    xs = [float(x) for series in chart.series for x in series.x]
    first = min(xs, default=0.0)
    last = max(xs, default=1.0)
    unit = math.log10 if chart.y.log else float

    def across(x: float) -> float:
        share = (x - first) / (last - first) if last > first else 0.5
        return round(_LEFT + _INSET + share * (width - _LEFT - _RIGHT - 2 * _INSET), 1)

    def up(y: float) -> float:
        share = (unit(y) - unit(low)) / (unit(high) - unit(low))
        return round(height - _BOTTOM - share * (height - _TOP - _BOTTOM), 1)

    lines = []
    intervals = []
    for series in chart.series:
        if series.points and series.low is not None and series.high is not None:
            ends = zip(series.x, series.low, series.high, strict=True)
            intervals += [(series.name, across(x), up(start), up(end)) for x, start, end in ends]
            continue
        dots = tuple((across(x), up(y)) for x, y in zip(series.x, series.y, strict=True))
        lines.append((series.name, " ".join(f"{x:g},{y:g}" for x, y in dots), dots))
    step = max(1, math.ceil((last - first) / columns))
    numbers = range(math.ceil(first), math.floor(last) + 1, step)
    return PlacedChart(
        width,
        height,
        tuple((across(x), str(x)) for x in numbers),
        tuple((up(y), f"{y:g}") for y in ticks),
        tuple(lines),
        tuple((level.name, up(level.y)) for level in chart.levels),
        tuple(intervals),
    )


def _values(chart: Chart) -> list[float]:
    """All that is drawn upwards."""
    values = [level.y for level in chart.levels]
    for series in chart.series:
        curves = (series.low, series.high) if series.points else (series.y,)
        values += [float(y) for curve in curves if curve is not None for y in curve]
    return values


def _round_steps(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """A range with round ticks around the values."""
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    if high - low < 1e-9:
        low -= 0.5
        high += 0.5
    rough_step = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough_step))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough_step)
    first = math.floor(low / step)
    last = math.ceil(high / step)
    return first * step, last * step, [round(i * step, 12) for i in range(first, last + 1)]


def _decades(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """A range of whole powers of ten around the values."""
    first = math.floor(math.log10(min(values)))
    last = max(math.ceil(math.log10(max(values))), first + 1)
    step = max(1, math.ceil((last - first) / 5))
    return 10.0**first, 10.0**last, [10.0**i for i in range(first, last + 1, step)]
