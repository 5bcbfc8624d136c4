"""Small charts as SVG, for pages without scripts: where things are, in numbers. Templates draw them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 14.0, 30.0


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: tuple[tuple[float, float], ...]
    dots: bool = True


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line across the chart."""

    name: str
    at: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Coordinates in pixels of a picture of this size."""

    width: float
    height: float
    columns: tuple[tuple[float, str], ...]
    rows: tuple[tuple[float, str], ...]
    lines: tuple[tuple[str, str, tuple[tuple[float, float], ...]], ...]  # name, path, dots
    levels: tuple[tuple[str, float], ...] = ()
    bars: tuple[tuple[str, float, float, float], ...] = field(default=())  # name, x, from, to

    @property
    def left(self) -> float:
        return _LEFT

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    @property
    def bottom(self) -> float:
        return self.height - _BOTTOM


def chart(
    series: Sequence[Series],
    *,
    size: tuple[float, float],
    levels: Sequence[Level] = (),
    bars: Sequence[tuple[str, float, float, float]] = (),
    log: bool = False,
    columns: int = 8,
) -> Chart:
    """Releases to the right and values upwards. `bars`: name, x, and from where to where, in the chart's units."""
    width, height = size
    xs = [x for each in series for x, _ in each.points]
    ys = (
        [y for each in series for _, y in each.points]
        + [each.at for each in levels]
        + [y for _, _, *ends in bars for y in ends]
    )
    low, high, ticks = _decades(ys) if log else _even(ys)
    first, last = min(xs, default=0.0), max(xs, default=1.0)

    def across(x: float) -> float:
        share = (x - first) / (last - first) if last > first else 0.5
        return round(_LEFT + 8 + share * (width - _LEFT - _RIGHT - 16), 1)

    def up(y: float) -> float:
        share = (
            (math.log10(y) - math.log10(low)) / (math.log10(high) - math.log10(low))
            if log
            else (y - low) / (high - low)
        )
        return round(height - _BOTTOM - share * (height - _TOP - _BOTTOM), 1)

    lines = []
    for each in series:
        placed = tuple((across(x), up(y)) for x, y in each.points)
        lines.append(
            (each.name, " ".join(f"{x:g},{y:g}" for x, y in placed), placed if each.dots else ())
        )
    step = max(1, math.ceil((last - first) / columns))
    numbers = range(math.ceil(first), math.floor(last) + 1, step)
    return Chart(
        width,
        height,
        tuple((across(x), str(x)) for x in numbers),
        tuple((up(y), f"{y:g}") for y in ticks),
        tuple(lines),
        tuple((each.name, up(each.at)) for each in levels),
        tuple((name, across(x), up(start), up(end)) for name, x, start, end in bars),
    )


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
