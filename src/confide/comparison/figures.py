"""The charts of a comparison.

There are regret and value over users, noise against signal, regret against epsilon, and the ladder
of calibrations. Reports show all of them. Figures for papers are the same charts with fewer
guarantees.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from confide.arguments import choice
from confide.comparison.looks import agent_looks, look_of
from confide.comparison.promise import OPEN, Promise
from confide.comparison.row import Row
from confide.comparison.words import RUNGS
from confide.errors import InvalidParameter
from confide.report.charts import (
    UNIFORM,
    USERS,
    Axis,
    Bar,
    Chart,
    Entry,
    Level,
    Look,
    Series,
    regret_chart,
    return_chart,
    value_chart,
)
from confide.report.words import count, number

if TYPE_CHECKING:
    from confide.comparison.comparison import Comparison

# What each figure needs.
FIGURES = {
    "regret": "a run",
    "value": "a problem whose exact values are known",
    "noise": "a run with noise, which a sweep's table does not contain",
    "privacy": "an epsilon",
    "ladder": 'an agent that was run with calibration = "paper" and with tight constants',
}
_HATCHES = {"paper": "", "tight": "////", "none": "....."}
# A chart in a figure for papers has at most so many curves, because nobody can distinguish more. A
# matter of taste.
_LEGIBLE_CURVES = 8
# Widths of lines in points. A matter of taste.
_THIN = 1.2
_NORMAL = 1.6
_WIDEST = 2.4
_NARROWEST = 0.8


def side_by_side(
    comparison: "Comparison", kinds: Sequence[str], epsilons: Sequence[float] | None = None
) -> list[Chart]:
    """The charts of one figure for papers: a row per problem, and a column for each of `kinds`.

    Guarantees are as many as are legible, or those of `epsilons`.
    """
    columns = [_figure(comparison, what, epsilons) for what in kinds]
    if len(columns) == 1:
        if not columns[0]:
            needed = FIGURES[kinds[0]]
            raise InvalidParameter(
                f"the figure {kinds[0]} needs {needed}, and this comparison has none"
            )
        return _title(columns[0])
    by_problem = [
        chart
        for problem in comparison.problems
        for column in columns
        for chart in column
        if chart.title == problem
    ]
    return _title(by_problem)


def all_figures(comparison: "Comparison") -> dict[str, list[Chart]]:
    """Each figure that there is, by the name of its file."""
    figures = {what: _figure(comparison, what, None) for what in FIGURES}
    if not any(map(comparison.known, comparison.problems)):
        figures = {"return": figures.pop("regret"), **figures}
    return {name: _title(charts) for name, charts in figures.items() if charts}


def _figure(comparison: "Comparison", what: str, epsilons: Sequence[float] | None) -> list[Chart]:
    choice("what", what, FIGURES)
    if what == "ladder":
        return ladders(comparison, _promises_at(comparison, epsilons) or [comparison.chosen])
    if epsilons is None:
        return charts(comparison, what, _legible(comparison))
    return charts(comparison, what, [*_promises_at(comparison, epsilons), OPEN])


def _title(drawn: list[Chart]) -> list[Chart]:
    """The charts without their titles if all are of one problem."""
    has_several = len({chart.title for chart in drawn}) > 1
    return drawn if has_several else [replace(chart, title="") for chart in drawn]


def charts(
    comparison: "Comparison", what: str, promises: Sequence[Promise] | None = None
) -> list[Chart]:
    """A chart per problem that has it: `regret`, `value`, `noise` or `privacy`.

    Where regret is not known, the chart of regret shows returns.
    """
    has: dict[str, Callable[[str], bool]] = {
        "regret": lambda _: True,
        "value": comparison.known,
        "noise": lambda problem: any(row.noisy for row in comparison.on(problem)),
        "privacy": lambda problem: any(row.epsilon for row in comparison.on(problem)),
    }
    draw = {"regret": _regret, "value": _value, "noise": _noise, "privacy": _privacy}[what]
    shown = comparison.promises if promises is None else promises
    return [
        draw(comparison, problem, shown) for problem in comparison.problems if has[what](problem)
    ]


def ladders(comparison: "Comparison", promises: Sequence[Promise]) -> list[Chart]:
    """The charts of ladders, where both calibrations were run."""
    rungs_of_all = [rungs for promise in promises for rungs in comparison.ladders(promise)]
    kinds = {(rungs["paper"].variant, rungs["paper"].promise) for rungs in rungs_of_all}
    return [ladder_chart(comparison, rungs, several=len(kinds) > 1) for rungs in rungs_of_all]


def _promises_at(comparison: "Comparison", epsilons: Sequence[float] | None) -> list[Promise]:
    promises = {row.epsilon: row.promise for row in comparison.rows if row.epsilon is not None}
    for epsilon in epsilons or ():
        if epsilon not in promises:
            choices = ", ".join(f"{each:g}" for each in comparison.epsilons) or "none"
            raise InvalidParameter(
                f"no epsilon = {epsilon:g} in this comparison; choose one of {choices}"
            )
    return [promises[epsilon] for epsilon in sorted(epsilons or ())]


def _legible(comparison: "Comparison") -> list[Promise]:
    """As many guarantees as are legible in one chart."""
    curves = [
        sum(not row.reference for row in comparison.on(problem)) for problem in comparison.problems
    ]
    if max(curves, default=0) <= _LEGIBLE_CURVES:
        return comparison.promises
    return [comparison.chosen, OPEN]


def _regret(comparison: "Comparison", problem: str, promises: Sequence[Promise]) -> Chart:
    regret_known = comparison.known(problem)
    rows = _shown_rows(comparison, problem, promises)
    series = _curves(comparison, rows, "regret" if regret_known else "mean_return", promises)
    measure = "Cumulative regret" if regret_known else "Average return"
    ends = _describe_ends(
        comparison, problem, lambda row: None if row.final is None else row.final.estimate
    )
    facts = {"title": problem, "described": f"{measure} over users on {problem}. {ends}"}
    if not regret_known:
        return return_chart(series, legend=_entries(comparison, rows, promises), **facts)
    first = comparison.on(problem)[0]
    chart = regret_chart(series, first.optimal_value, first.uniform_value, **facts)
    drawn = {anchor for each in chart.series for anchor in each.rows}
    legend = _entries(comparison, [row for row in rows if row.anchor in drawn], promises)
    return replace(chart, legend=[*legend, *_uniform_entry(chart)])


def _value(comparison: "Comparison", problem: str, promises: Sequence[Promise]) -> Chart:
    first = comparison.on(problem)[0]
    rows = _shown_rows(comparison, problem, promises)
    # The levels of optimal and uniform play say the same as reference policies.
    rows = [row for row in rows if not row.reference] or rows
    ends = _describe_ends(
        comparison, problem, lambda row: None if row.value is None else row.value.estimate
    )
    return value_chart(
        _curves(comparison, rows, "value", promises),
        first.optimal_value,
        first.uniform_value,
        title=problem,
        described=f"Value of the policy over users on {problem}. {ends}",
        legend=_entries(comparison, rows, promises),
    )


def _noise(comparison: "Comparison", problem: str, _promises: Sequence[Promise]) -> Chart:
    rows = [row for row in comparison.on(problem) if row.noisy]
    kinds = (("noise_std", "noise", "solid"), ("signal", "signal", "dash"))
    series = [
        replace(curve, name=f"{curve.name}: {kind}", look=Look(curve.look.tone, dash))
        for name, kind, dash in kinds
        for curve in _curves(comparison, rows, name, comparison.promises)
    ]
    looks = agent_looks(comparison)
    agents = [Entry(agent, looks[agent]) for agent in dict.fromkeys(row.agent for row in rows)]
    lines = [Entry(kind, Look(None, dash), 1.4, ink=True) for _, kind, dash in kinds]
    seen = [y for curve in series for y in curve.y if y > 0]
    span = f"between {number(min(seen))} and {number(max(seen))}"
    return Chart(
        USERS,
        Axis("noise and signal", bottom=0.0),
        series,
        title=problem,
        described=f"Noise and signal over users on {problem}, {span}.",
        legend=[*agents, *lines],
    )


def _privacy(comparison: "Comparison", problem: str, _promises: Sequence[Promise]) -> Chart:
    """Regret or return against epsilon: points for each learner, from the strictest guarantee on.

    Levels show the learner without privacy, and uniform play.
    """
    regret_known = comparison.known(problem)
    rows = comparison.on(problem)
    looks = agent_looks(comparison)
    series = []
    levels = []
    legend = []
    for agent in comparison.learners:
        own_rows = [row for row in rows if row.agent == agent and row.final is not None]
        private_rows = sorted((row for row in own_rows if row.epsilon), key=_epsilon)
        if not private_rows:
            continue
        series.append(_points(private_rows, looks[agent]))
        legend.append(Entry(agent, looks[agent]))
        levels += [_level_of(row, looks[agent]) for row in own_rows if not row.private]
    if levels:
        legend.append(Entry(str(OPEN), Look(None, "dash"), _THIN, ink=True))
    gap = comparison.gap(problem)
    users = max(row.users for row in rows)
    if regret_known and gap:
        levels.append(Level(gap * users, name="uniform play"))
        legend.append(Entry("uniform play", UNIFORM, _THIN))
    measure = "Regret" if regret_known else "Average return"
    descriptions = [_describe_agent(rows, agent) for agent in comparison.learners]
    title = f"regret after {count(users)} users" if regret_known else "average return"
    return Chart(
        Axis("requested ε", ticks=tuple(comparison.epsilons)),
        Axis(title, log=regret_known, bottom=0.0 if regret_known else None),
        series,
        levels,
        title=problem,
        described=f"{measure} against ε on {problem}. {' '.join(descriptions)}".strip(),
        legend=legend,
    )


def _points(rows: Sequence[Row], look: Look) -> Series:
    y, low, high = np.array([_interval(row) for row in rows]).T
    return Series(
        rows[0].agent,
        look,
        np.array([row.epsilon for row in rows]),
        y,
        low,
        high,
        width=_NORMAL,
        points=True,
        agent=rows[0].agent,
        rows=tuple(row.anchor for row in rows),
    )


def _level_of(row: Row, look: Look) -> Level:
    return Level(
        _interval(row)[0],
        replace(look, dash="dash"),
        name=row.label,
        agent=row.agent,
        promise=row.promise.key,
        rows=(row.anchor,),
    )


def ladder_chart(comparison: "Comparison", rungs: Mapping[str, Row], *, several: bool) -> Chart:
    """From the paper's constants to tight ones to no privacy: a bar each."""
    first = rungs["paper"]
    looks = agent_looks(comparison)
    bars = [
        Bar(RUNGS[name], *_interval(row), looks[row.agent], _HATCHES[name], row.anchor)
        for name, row in rungs.items()
        if row.regret is not None
    ]
    what = f"{first.variant}, {first.promise}"
    mark = None if first.gap is None else first.gap * first.users
    return Chart(
        Axis(f"regret of {what}"),
        Axis(""),
        bars=bars,
        title=f"{first.problem}: {what}" if several else first.problem,
        mark=mark,
        legend=[] if mark is None else [Entry("uniform play", UNIFORM, _THIN)],
    )


def _shown_rows(comparison: "Comparison", problem: str, promises: Sequence[Promise]) -> list[Row]:
    return [row for row in comparison.on(problem) if row.reference or row.promise in promises]


def _curves(
    comparison: "Comparison", rows: Sequence[Row], name: str, promises: Sequence[Promise]
) -> list[Series]:
    """Colours and markers are agents, dashes and widths are guarantees."""
    looks = agent_looks(comparison)
    drawn = []
    for row in rows:
        curve = row.curve(name)
        if curve is None:
            continue
        drawn.append(
            Series(
                row.label,
                look_of(row, looks),
                curve.users,
                curve.mean,
                curve.low,
                curve.high,
                _width(row, promises),
                agent=row.agent,
                promise=None if row.reference else row.promise.key,
                rows=(row.anchor,),
            )
        )
    return drawn


def _entries(
    comparison: "Comparison", rows: Sequence[Row], promises: Sequence[Promise]
) -> list[Entry]:
    """A legend of agents, and one of guarantees."""
    looks = agent_looks(comparison)
    entries = dict[str, Entry]()
    for row in rows:
        look = look_of(row, looks)
        width = _width(row, promises)
        if row.reference:
            name = f"{row.agent} play"
            entries[name] = Entry(name, look, width)
        else:
            promise = str(row.promise)
            entries[row.agent] = Entry(row.agent, replace(look, dash="solid"))
            entries[promise] = Entry(promise, Look(None, look.dash), width, ink=True)
    return list(entries.values())


def _uniform_entry(chart: Chart) -> list[Entry]:
    """The entry of uniform play, whose line was added to the chart if it was not run."""
    added = [series for series in chart.series if series.agent is None]
    return [Entry(series.name, series.look, series.width) for series in added]


def _width(row: Row, promises: Sequence[Promise]) -> float:
    """The stricter the guarantee, the thicker the line, so that colour is not needed."""
    private = [promise for promise in promises if promise.private]
    if row.reference or row.promise not in private:
        return _THIN
    if len(private) < 2:
        return _NORMAL
    # From 0, the strictest, to 1.
    laxness = private.index(row.promise) / (len(private) - 1)
    return _WIDEST - (_WIDEST - _NARROWEST) * laxness


def _epsilon(row: Row) -> float:
    return row.epsilon or 0.0


def _interval(row: Row) -> tuple[float, float, float]:
    """The final number and the ends of its interval, which has no width if there is none."""
    figure = row.final
    assert figure is not None
    if figure.low is None or figure.high is None:
        return figure.estimate, figure.estimate, figure.estimate
    return figure.estimate, figure.low, figure.high


def _describe_agent(rows: Sequence[Row], agent: str) -> str:
    own_rows = [row for row in rows if row.agent == agent and row.final is not None]
    figures = [f"{number(_interval(row)[0])} ({row.promise})" for row in own_rows]
    return f"{agent}: {', '.join(figures)}." if figures else ""


def _describe_ends(
    comparison: "Comparison", problem: str, last: Callable[[Row], float | None]
) -> str:
    """The ends of the curves that are shown first, in words."""
    figures = []
    for row in comparison.on(problem):
        figure = last(row)
        is_shown = row.reference or row.promise in (comparison.chosen, OPEN)
        if is_shown and figure is not None:
            figures.append(f"{row.label}: {number(figure)}")
    return f"At the end: {'; '.join(figures)}."
