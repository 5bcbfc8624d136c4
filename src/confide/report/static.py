"""Charts for pages without scripts: where everything is in an SVG of a given size. Templates draw it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from confide.report.charts import Chart

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 14.0, 30.0


@dataclass(frozen=True, slots=True)
class PlacedChart:
    """Coordinates in pixels of a picture of this size."""

    width: float
    height: float
    columns: tuple[tuple[float, str], ...]
    rows: tuple[tuple[float, str], ...]
    # name, path, dots
    lines: tuple[tuple[str, str, tuple[tuple[float, float], ...]], ...]
    levels: tuple[tuple[str, float], ...]
    # name, x, from, to
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


def placed(chart: Chart, size: tuple[float, float], *, columns: int = 8) -> PlacedChart:
    """Whole numbers to the right and values upwards. Of a series of points its intervals are drawn, and of all others their lines."""
    width, height = size
    low, high, ticks = (_decades if chart.y.log else _even)(_values(chart))
    xs = [float(x) for one in chart.series for x in one.x]
    first, last = min(xs, default=0.0), max(xs, default=1.0)

    def across(x: float) -> float:
        share = (x - first) / (last - first) if last > first else 0.5
        return round(_LEFT + 8 + share * (width - _LEFT - _RIGHT - 16), 1)

    def up(y: float) -> float:
        bottom, top = (math.log10(low), math.log10(high)) if chart.y.log else (low, high)
        share = ((math.log10(y) if chart.y.log else y) - bottom) / (top - bottom)
        return round(height - _BOTTOM - share * (height - _TOP - _BOTTOM), 1)

    lines, intervals = [], []
    for one in chart.series:
        if one.points and one.low is not None and one.high is not None:
            ends = zip(one.x, one.low, one.high, strict=True)
            intervals += [(one.name, across(x), up(start), up(end)) for x, start, end in ends]
            continue
        dots = tuple((across(x), up(y)) for x, y in zip(one.x, one.y, strict=True))
        lines.append((one.name, " ".join(f"{x:g},{y:g}" for x, y in dots), dots))
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
    series = [(one.low, one.high) if one.points else (one.y,) for one in chart.series]
    drawn = [float(y) for parts in series for part in parts if part is not None for y in part]
    return drawn + [level.y for level in chart.levels]


def _even(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """A range with round ticks around the values."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    low, high = (low - 0.5, high + 0.5) if high - low < 1e-9 else (low, high)
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return first * step, last * step, [round(i * step, 12) for i in range(first, last + 1)]


def _decades(values: Sequence[float]) -> tuple[float, float, list[float]]:
    first, last = (
        round_(math.log10(end))
        for round_, end in ((math.floor, min(values)), (math.ceil, max(values)))
    )
    last = max(last, first + 1)
    step = max(1, math.ceil((last - first) / 5))
    return 10.0**first, 10.0**last, [10.0**i for i in range(first, last + 1, step)]
