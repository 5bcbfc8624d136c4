"""The figures of a study as plain data; report.js draws them."""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from confide.comparison.group import OPEN
from confide.comparison.looks import agent_looks, look_of
from confide.comparison.study import Study
from confide.comparison.summary import Curve, Row
from confide.report.drawing import UNIFORM, Array, Look
from confide.report.words import count, number

Json = dict[str, Any]
# as drawing.MARKERS
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the small multiples: data for report.js, and a text alternative."""

    key: str
    title: str
    described: str
    drawing: Json = field(repr=False)


def panels(study: Study, what: str) -> list[Panel]:
    """`regret` (returns where regret is not known), `value`, `noise` or `privacy`: a panel per problem that has it."""
    shown = {
        "regret": lambda _: True,
        "value": study.known,
        "noise": lambda problem: any(row.group.noisy for row in study.on(problem)),
        "privacy": lambda problem: (
            len({row.group.epsilon for row in study.on(problem)} - {None}) > 1
        ),
    }[what]
    draw = {"regret": _regret, "value": _value, "noise": _noise, "privacy": _privacy}[what]
    return [
        draw(study, problem, f"{what}-{i}")
        for i, problem in enumerate(filter(shown, study.problems))
    ]


def _regret(study: Study, problem: str, key: str) -> Panel:
    known, name = study.known(problem), "regret" if study.known(problem) else "mean_return"
    traces = _traces(study, problem, name)
    if known:
        # zero has no logarithm
        traces = [trace for trace in traces if any(y is not None and y > 0 for y in trace["y"])]
    users, gap = max(row.users for row in study.on(problem)), study.gap(problem)
    if known and gap and not any(trace["agent"] == "uniform" for trace in traces):
        traces.append(_uniform([1.0, users], [gap, gap * users]))
    said = "Cumulative regret" if known else "Average return"
    last = _ends(study, problem, lambda row: None if row.final is None else row.final.estimate)
    y: Json = {"title": said.lower(), "zero": known, **(_log(traces) if known else {"from": 50})}
    return Panel(key, problem, f"{said} over users on {problem}. {last}", _curves(traces, y, users))


def _value(study: Study, problem: str, key: str) -> Panel:
    group = study.on(problem)[0].group
    others = [row for row in study.on(problem) if not row.group.reference]
    traces = _traces(study, problem, "value", only=others or study.on(problem))
    ends = {"optimal": group.optimal_value, "uniform": group.uniform_value}
    lines = [
        {"y": y, "label": f"{name} play {number(y)}", "name": name}
        for name, y in ends.items()
        if y is not None
    ]
    y: Json = {"title": "value per user", "zero": False}
    if (
        group.gap is not None
        and group.optimal_value is not None
        and group.uniform_value is not None
    ):
        # what is far worse than uniform play may leave the figure
        seen = min(_numbers_in(traces), default=group.uniform_value)
        low = min(max(seen, group.uniform_value - 0.6 * group.gap), group.uniform_value)
        y["linear"] = [low - 0.09 * group.gap, group.optimal_value + 0.09 * group.gap]
    last = _ends(study, problem, lambda row: None if row.value is None else row.value.estimate)
    users = max(row.users for row in study.on(problem))
    return Panel(
        key,
        problem,
        f"Value of the policy over users on {problem}. {last}",
        {**_curves(traces, y, users), "lines": lines},
    )


def _noise(study: Study, problem: str, key: str) -> Panel:
    noisy = [row for row in study.on(problem) if row.group.noisy]
    traces = [
        {**trace, "label": f"{trace['label']}: {said}", "dash": dash, "symbol": None}
        for name, said, dash in (("noise_std", "noise", "solid"), ("signal", "signal", "dash"))
        for trace in _traces(study, problem, name, only=noisy)
    ]
    seen = [y for y in _numbers_in(traces) if y > 0]
    said = f"Noise and signal over users on {problem}, between {number(min(seen))} and {number(max(seen))}."
    y: Json = {"title": "noise and signal", "zero": True, **_log(traces)}
    return Panel(key, problem, said, _curves(traces, y, max(row.users for row in noisy)))


def _traces(study: Study, problem: str, name: str, only: Sequence[Row] | None = None) -> list[Json]:
    looks = agent_looks(study)
    found = ((row, row.curve(name)) for row in (study.on(problem) if only is None else only))
    return [_trace(row, look_of(row, looks), curve) for row, curve in found if curve is not None]


def _trace(row: Row, look: Look, curve: Curve) -> Json:
    trace: Json = {
        "curve": row.anchor,
        "agent": row.group.agent,
        "promise": None if row.group.reference else row.group.promise.key,
        "open": not row.group.private,
        "label": html.escape(row.group.label),  # plotly.js reads names as HTML
        "colour": look.variable,
        "symbol": None if look.marker is None else SYMBOLS[look.marker],
        "dash": look.dash,
        "x": curve.users.tolist(),
        "y": _numbers(curve.mean),
    }
    if curve.low is not None and curve.high is not None and (curve.high > curve.low).any():
        trace |= {"low": _numbers(curve.low), "high": _numbers(curve.high)}
    return trace


def _uniform(x: list[float], y: list[float]) -> Json:
    """Where it was not run, it is computed: there is no command to link to."""
    plain = {
        "curve": None,
        "agent": None,
        "promise": None,
        "open": True,
        "label": "uniform play",
        "symbol": None,
    }
    return plain | {
        "colour": UNIFORM.variable,
        "dash": UNIFORM.dash,
        "x": x,
        "y": [_short(one) for one in y],
    }


def _curves(traces: list[Json], y: Json, users: float) -> Json:
    x = {"title": "users", "log": log_range(1.0, users), "linear": [0.0, 1.02 * users]}
    return {"kind": "curves", "traces": traces, "x": x, "y": y}


def _privacy(study: Study, problem: str, key: str) -> Panel:
    known, rows = study.known(problem), study.on(problem)
    traces = [
        trace for agent in study.learners if (trace := _against(study, rows, agent)) is not None
    ]
    gap, users = study.gap(problem), max(row.users for row in rows)
    levels = [trace["level"]["y"] for trace in traces if trace["level"]]
    seen = _positive(
        [
            *levels,
            *(value for trace in traces for value in trace["y"]),
            *([gap * users] if known and gap else []),
        ]
    )
    ends = _positive(value for trace in traces for end in ("low", "high") for value in trace[end])
    # those of very few seeds may leave the figure
    seen += [end for end in ends if min(seen) / 10 < end < 10 * max(seen)]
    if known and gap:
        traces.append(_uniform([], []) | {"level": {"y": gap * users, "curve": None}, "points": []})
    y: Json = {
        "title": f"regret after {count(users)} users" if known else "average return",
        "zero": known,
    }
    low, high = study.epsilons[0], study.epsilons[-1]
    drawing = {
        "kind": "privacy",
        "traces": traces,
        "x": {
            "title": "requested ε",
            "log": log_range(low / 1.1, high * 1.1),
            "ticks": study.epsilons,
        },
        "y": y | ({"log": log_range(min(seen), max(seen))} if known and seen else {}),
    }
    what = "Regret" if known else "Average return"
    said = f"{what} against ε on {problem}. " + " ".join(
        _spoken(rows, agent) for agent in study.learners
    )
    return Panel(key, problem, said.strip(), drawing)


def _against(study: Study, rows: Sequence[Row], agent: str) -> Json | None:
    """An agent's points, from the strictest guarantee on, and its level without privacy."""
    own = [(row, row.final) for row in rows if row.group.agent == agent and row.final is not None]
    points = sorted(
        ((row.group.epsilon, row, figure) for row, figure in own if row.group.epsilon),
        key=lambda one: one[0],
    )
    free = next(((row, figure) for row, figure in own if not row.group.private), None)
    if not points:
        return None
    look = agent_looks(study)[agent]
    return {
        "agent": agent,
        "label": html.escape(agent),
        "colour": look.variable,
        "symbol": SYMBOLS[look.marker or 0],
        "dash": "solid",
        "x": [epsilon for epsilon, _, _ in points],
        "y": [_short(figure.estimate) for _, _, figure in points],
        "low": [_short(figure.low) for _, _, figure in points],
        "high": [_short(figure.high) for _, _, figure in points],
        "points": [row.anchor for _, row, _ in points],
        "level": None if free is None else {"y": _short(free[1].estimate), "curve": free[0].anchor},
    }


def _spoken(rows: Sequence[Row], agent: str) -> str:
    own = [row for row in rows if row.group.agent == agent and row.final is not None]
    said = [
        f"{number(row.final.estimate)} ({row.group.promise})"
        for row in own
        if row.final is not None
    ]
    return f"{agent}: {', '.join(said)}." if said else ""


def _ends(study: Study, problem: str, last: Any) -> str:
    shown = [
        row
        for row in study.on(problem)
        if row.group.reference or row.group.promise in (study.chosen, OPEN)
    ]
    said = [
        f"{row.group.label}: {number(figure)}" for row in shown if (figure := last(row)) is not None
    ]
    return f"At the end: {'; '.join(said)}."


def log_range(low: float, high: float) -> list[float]:
    """Decimal logarithms, with some air."""
    bottom, top = math.log10(low), math.log10(max(high, low))
    air = max(0.04 * (top - bottom), 0.02)
    return [round(bottom - air, 4), round(top + air, 4)]


def _log(traces: Sequence[Json]) -> Json:
    seen = _positive(_numbers_in(traces))
    return {"log": log_range(min(seen), max(seen))} if seen else {}


def _numbers_in(traces: Sequence[Json]) -> list[float]:
    return [y for trace in traces for y in trace["y"] if y is not None]


def _positive(values: Iterable[Any]) -> list[float]:
    return [
        float(value) for value in values if value is not None and math.isfinite(value) and value > 0
    ]


def _numbers(values: Array) -> list[float | None]:
    return [_short(value) for value in np.asarray(values, dtype=float).tolist()]


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
