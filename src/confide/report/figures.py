"""The figures of a world as plain data; report.js draws them."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.report.bands import Array, Band
from confide.report.looks import Look, looks
from confide.report.markup import escape
from confide.report.promises import count
from confide.report.series import World
from confide.report.words import number

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: what report.js draws, and what is said about it."""

    key: str
    title: str
    caption: str
    described: str  # for those who cannot see it
    drawing: Json = field(repr=False)


def figures(world: World) -> list[Figure]:
    """Regret and value where they are known, returns where not, and noise where there is some."""
    made = [regret(world), value(world)] if world.exact else [returns(world)]
    return [*made, noise(world)] if any(series.noisy for series in world.series) else made


def regret(world: World) -> Figure:
    traces, drawn = [], []
    for i, (series, look) in enumerate(zip(world.series, looks(world), strict=True)):
        curve = series.regret()
        if (curve.mean > 0).any():  # all zero: optimal play, and zero has no logarithm
            traces.append(_trace(i, series.label, look, curve))
            drawn.append(curve.mean[curve.mean > 0])
    if (gap := world.gap) and gap > 0 and not world.draws_uniform:
        users = np.array([1, world.users])
        traces.append(_plain(None, "uniform play", Look(None, "dot"), users, gap * users))
        drawn.append(gap * users)
    low, high = (min(map(np.min, drawn)), max(map(np.max, drawn))) if drawn else (1.0, 10.0)
    learners = max((series.final_regret().mean for series in world.learners), default=math.nan)
    top = 1.6 * learners if 0 < 1.6 * learners < high else 1.05 * high  # uniform play may leave the linear figure
    return Figure(
        "regret",
        "Regret",
        "What all users so far have lost together, compared with optimal play; lower is better. "
        "Uniform play loses the same with every user; optimal play loses nothing, which a logarithmic axis cannot show.",
        "Cumulative regret over users. " + _ends(world, [series.final_regret().mean for series in world.series]),
        {
            "traces": traces,
            "x": _users_axis(world),
            "y": {"title": "cumulative regret", "log": _log_range(low, high), "linear": [0.0, top]},
            "scale": "log",
        },
    )


def value(world: World) -> Figure:
    curves = [series.value() for series in world.series]
    traces = [
        _trace(i, series.label, look, curve)
        for i, (series, look, curve) in enumerate(zip(world.series, looks(world), curves, strict=True))
        if series not in world.ends
    ]
    ends = {"optimal": world.optimal, "uniform": world.uniform}
    lines = [{"y": y, "label": f"{name} play {number(y)}", "name": name} for name, y in ends.items() if y is not None]
    return Figure(
        "value",
        "Value",
        "What a user can expect from the policy that serves the user: exact, computed in the known world. "
        "A learner climbs from uniform towards optimal play.",
        "Value of the policy over users. " + _ends(world, [series.final_value().mean for series in world.series]),
        {
            "traces": traces,
            "lines": lines,
            "x": _users_axis(world),
            "y": {"title": "value per user", "linear": _value_range(world, curves)},
            "scale": "log",
        },
    )


def returns(world: World) -> Figure:
    curves = [series.returns() for series in world.series]
    traces = [
        _trace(i, series.label, look, curve)
        for i, (series, look, curve) in enumerate(zip(world.series, looks(world), curves, strict=True))
    ]
    return Figure(
        "returns",
        "Return",
        "What users earned on average: measured, not computed, because the exact values of this problem are not known. "
        "These averages are not covered by any privacy promise.",
        "Average return over users. " + _ends(world, [series.mean_return().mean for series in world.series]),
        {
            "traces": traces,
            "x": _users_axis(world),
            "y": {"title": "average return", "linear": _returns_range(world, curves)},
            "scale": "log",
        },
    )


def noise(world: World) -> Figure:
    traces, seen = [], []
    for i, (series, look) in enumerate(zip(world.series, looks(world), strict=True)):
        if not series.noisy:
            continue
        level, signal = series.noise(), series.signal()
        traces.append(_trace(i, f"{series.label}: noise", Look(look.tone, "solid"), level))
        seen.append(level.mean)
        if signal.known:
            traces.append(_trace(i, f"{series.label}: signal", Look(look.tone, "dash"), signal))
            seen.append(signal.mean)
    drawn = np.concatenate(seen)
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    low, high = float(drawn.min()), float(drawn.max())
    return Figure(
        "noise",
        "Noise against signal",
        "Solid: the standard deviation of the noise in the statistics that the policy was planned from. "
        "Dashed: the signal that stands against it. Learning starts where the dashed line rises above the solid one.",
        f"Noise and signal over users, between {number(low)} and {number(high)}.",
        {
            "traces": traces,
            "x": _users_axis(world),
            "y": {"title": "noise and signal", "log": _log_range(low, high), "linear": [0.0, 1.05 * high]},
            "scale": "log",
        },
    )


def _trace(series: int, label: str, look: Look, curve: Band) -> Json:
    trace = _plain(series, label, look, curve.users, curve.mean)
    if (curve.high > curve.low).any():
        trace |= {"low": _numbers(curve.low), "high": _numbers(curve.high)}
    return trace


def _plain(series: int | None, label: str, look: Look, users: npt.NDArray[Any], y: Array) -> Json:
    return {
        "series": series,
        "label": str(escape(label)),  # plotly.js reads names as HTML
        "colour": look.variable,
        "dash": look.dash,
        "x": users.tolist(),
        "y": _numbers(y),
    }


def _numbers(values: Array) -> list[float | None]:
    return [float(f"{x:.6g}") if math.isfinite(x) else None for x in values.tolist()]


def _users_axis(world: World) -> Json:
    return {"title": "users", "log": _log_range(1.0, world.users), "linear": [0.0, 1.02 * world.users]}


def _log_range(low: float, high: float) -> list[float]:
    """Decimal logarithms, with some air."""
    bottom, top = math.log10(low), math.log10(max(high, low))
    air = max(0.04 * (top - bottom), 0.02)
    return [round(bottom - air, 4), round(top + air, 4)]


def _air(low: float, high: float) -> float:
    """Room above and below; a line that is constant up to rounding still needs some."""
    return 0.09 * (high - low) if high - low > 1e-6 * max(1.0, abs(high)) else 0.5


def _value_range(world: World, curves: list[Band]) -> list[float]:
    """From uniform to optimal play; what is far worse than uniform play may leave the figure below."""
    low, high = _extent(curves)
    if world.optimal is not None and world.uniform is not None and world.uniform < world.optimal:
        gap = world.optimal - world.uniform
        low, high = min(max(low, world.uniform - 0.6 * gap), world.uniform), world.optimal
    air = _air(low, high)
    return [low - air, high + air]


def _returns_range(world: World, curves: list[Band]) -> list[float]:
    """The first users' averages are those of a handful: they may leave the figure."""
    low, high = _extent(curves, start=min(50, world.users // 10))
    air = _air(low, high)
    return [low - air, high + air]


def _extent(curves: list[Band], start: int = 0) -> tuple[float, float]:
    drawn = np.concatenate([curve.mean[np.isfinite(curve.mean) & (curve.users >= start)] for curve in curves])
    return (float(drawn.min()), float(drawn.max())) if len(drawn) else (0.0, 1.0)


def _ends(world: World, last: list[float]) -> str:
    said = "; ".join(f"{series.label}: {number(figure)}" for series, figure in zip(world.series, last, strict=True))
    return f"At the end, {count(world.users)} users: {said}."
