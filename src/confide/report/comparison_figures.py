"""The figures of a comparison as plain data; comparison.js draws them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from confide.report.comparison_study import OPEN, Curve, Study, final
from confide.report.figures import Json, _log_range, _numbers
from confide.report.markup import escape
from confide.report.promises import count
from confide.report.words import number

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the small multiples: what comparison.js draws, and what is said to those who cannot see it."""

    key: str
    title: str
    described: str
    drawing: Json = field(repr=False)


def regret_panels(found: Study) -> list[Panel]:
    return [_regret(found, problem, place) for place, problem in enumerate(found.problems)]


def privacy_panels(found: Study) -> list[Panel]:
    """Where there is an epsilon to draw against."""
    shown = [problem for problem in found.problems if any(curve.group.epsilon for curve in found.on(problem))]
    return [_privacy(found, problem, place) for place, problem in enumerate(shown)]


def _regret(found: Study, problem: str, place: int) -> Panel:
    known, curves = found.known(problem), found.on(problem)
    drawn = [curve for curve in curves if len(curve.mean) and (not known or (curve.mean > 0).any())]  # zero has no logarithm
    traces = [_trace(curve) for curve in drawn]
    users = max((float(curve.users[-1]) for curve in curves if len(curve.users)), default=1.0)
    gap = found.gap(problem)
    if known and gap and not any(curve.group.agent == "uniform" for curve in drawn):
        traces.append(_uniform([1.0, users], [gap, gap * users]))
    seen = _positive(np.concatenate([curve.mean for curve in drawn])) if drawn else []
    y: Json = {"title": "cumulative regret" if known else "average return", "zero": known}
    drawing = {
        "kind": "curves",
        "traces": traces,
        "x": {"title": "users", "log": _log_range(1.0, users), "linear": [0.0, 1.02 * users]},
        "y": y | ({"log": _log_range(min(seen), max(seen))} if known and len(seen) else {}),
    }
    said = "Cumulative regret" if known else "Average return"
    return Panel(f"curves-{place}", problem, f"{said} over users on {problem}. {_ends(found, problem)}", drawing)


def _trace(curve: Curve) -> Json:
    trace: Json = {
        "curve": curve.anchor,
        "agent": curve.group.agent,
        "promise": None if curve.reference else curve.group.promise,
        "label": str(escape(curve.label)),  # plotly.js reads names as HTML
        "colour": curve.look.variable,
        "symbol": SYMBOLS[curve.look.marker],
        "dash": _dash(curve),
        "x": curve.users.tolist(),
        "y": _numbers(curve.mean),
    }
    if curve.low is not None and curve.high is not None and (curve.high > curve.low).any():
        trace |= {"low": _numbers(curve.low), "high": _numbers(curve.high)}
    return trace


def _dash(curve: Curve) -> str:
    return (
        ("dot" if curve.group.agent == "uniform" else "dashdot")
        if curve.reference
        else "solid"
        if curve.group.private
        else "dash"
    )


def _uniform(x: list[float], y: list[float]) -> Json:
    """Where it was not run, it is computed: there is no command to link to."""
    plain = {"curve": None, "agent": None, "promise": None, "label": "uniform play", "colour": "--neutral", "dash": "dot"}
    return plain | {"symbol": None, "x": x, "y": y}


def _privacy(found: Study, problem: str, place: int) -> Panel:
    known, curves = found.known(problem), found.on(problem)
    epsilons = sorted({curve.group.epsilon for curve in found.curves if curve.group.epsilon})
    traces = [trace for agent in found.learners if (trace := _against(curves, agent)) is not None]
    gap, users = found.gap(problem), max(curve.row.users for curve in curves)
    levels = [trace["level"]["y"] for trace in traces if trace["level"]]
    seen = _positive([*levels, *(value for trace in traces for value in trace["y"]), *([gap * users] if known and gap else [])])
    ends = _positive(value for trace in traces for end in ("low", "high") for value in trace[end])
    seen += [end for end in ends if min(seen) / 10 < end < 10 * max(seen)]  # those of very few seeds may leave the figure
    if known and gap:
        traces.append(_uniform([], []) | {"level": {"y": gap * users, "curve": None}, "points": []})
    y: Json = {"title": f"regret after {count(users)} users" if known else "average return", "zero": known}
    drawing = {
        "kind": "privacy",
        "traces": traces,
        "x": {"title": "ε asked for", "log": _log_range(epsilons[0] / 1.1, epsilons[-1] * 1.1), "ticks": epsilons},
        "y": y | ({"log": _log_range(min(seen), max(seen))} if known and len(seen) else {}),
    }
    what = "Regret" if known else "Average return"
    said = f"{what} against ε on {problem}. " + " ".join(_spoken(curves, agent) for agent in found.learners)
    return Panel(f"privacy-{place}", problem, said.strip(), drawing)


def _against(curves: Sequence[Curve], agent: str) -> Json | None:
    """An agent's points, from the strictest promise on, and its level without privacy."""
    own = [(curve, figure) for curve in curves if curve.group.agent == agent and (figure := final(curve)) is not None]
    points = sorted(
        ((curve, figure) for curve, figure in own if curve.group.epsilon), key=lambda point: point[0].group.epsilon or 0.0
    )
    free = next(((curve, figure) for curve, figure in own if not curve.group.private), None)
    if not points:
        return None
    look = points[0][0].look
    return {
        "agent": agent,
        "label": str(escape(agent)),
        "colour": look.variable,
        "symbol": SYMBOLS[look.marker],
        "dash": "solid",
        "x": [curve.group.epsilon for curve, _ in points],
        "y": [_short(figure.estimate) for _, figure in points],
        "low": [_short(figure.low) for _, figure in points],
        "high": [_short(figure.high) for _, figure in points],
        "points": [curve.anchor for curve, _ in points],
        "level": None if free is None else {"y": _short(free[1].estimate), "curve": free[0].anchor},
    }


def _spoken(curves: Sequence[Curve], agent: str) -> str:
    own = [curve for curve in curves if curve.group.agent == agent]
    said = [f"{number(figure.estimate)} ({curve.group.promise})" for curve in own if (figure := final(curve)) is not None]
    return f"{agent}: {', '.join(said)}." if said else ""


def _ends(found: Study, problem: str) -> str:
    shown = [curve for curve in found.on(problem) if curve.reference or curve.group.promise in (found.chosen, OPEN)]
    said = [f"{curve.label}: {number(figure.estimate)}" for curve in shown if (figure := final(curve)) is not None]
    return f"At the end: {'; '.join(said)}."


def _positive(values: Iterable[Any]) -> list[float]:
    return [float(value) for value in values if value is not None and math.isfinite(value) and value > 0]


def _short(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
