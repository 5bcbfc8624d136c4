"""The charts of a comparison: regret and value over users, noise against signal, regret against epsilon, the ladder of calibrations.

Reports show all of them, and figures for papers are the same charts with fewer guarantees.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
# Curves of one chart in a figure for papers: more are told apart by nobody.
_LEGIBLE = 8


def side_by_side(
    comparison: "Comparison", kinds: Sequence[str], epsilons: Sequence[float] | None = None
) -> list[Chart]:
    """The charts of one figure for papers: a row per problem, and a column for each of `kinds`. Guarantees are as many as are legible, or
    those of `epsilons`."""
    columns = [_figure(comparison, what, epsilons) for what in kinds]
    for what, made in zip(kinds, columns, strict=True):
        if not made and len(kinds) == 1:
            raise InvalidParameter(
                f"the figure {what} needs {FIGURES[what]}, and this comparison has none"
            )
    if len(columns) == 1:
        return _titled(columns[0])
    return _titled(
        [
            chart
            for problem in comparison.problems
            for made in columns
            for chart in made
            if chart.title == problem
        ]
    )


def all_figures(comparison: "Comparison") -> dict[str, list[Chart]]:
    """Each figure that there is, by the name of its file."""
    made = {what: _figure(comparison, what, None) for what in FIGURES}
    if not any(map(comparison.known, comparison.problems)):
        made = {"return": made.pop("regret"), **made}
    return {name: _titled(charts) for name, charts in made.items() if charts}


def _figure(comparison: "Comparison", what: str, epsilons: Sequence[float] | None) -> list[Chart]:
    choice("what", what, FIGURES)
    if what == "ladder":
        return ladders(comparison, _promises_at(comparison, epsilons) or [comparison.chosen])
    if epsilons is None:
        return charts(comparison, what, _legible(comparison))
    return charts(comparison, what, [*_promises_at(comparison, epsilons), OPEN])


def _titled(made: list[Chart]) -> list[Chart]:
    """Where all charts are of one problem, nobody needs its name."""
    several = len({chart.title for chart in made}) > 1
    return made if several else [replace(chart, title="") for chart in made]


def charts(
    comparison: "Comparison", what: str, promises: Sequence[Promise] | None = None
) -> list[Chart]:
    """`regret` (returns where regret is not known), `value`, `noise` or `privacy`: a chart per problem that has it."""
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
    """Where both calibrations were run."""
    found = [ladder for promise in promises for ladder in comparison.ladders(promise)]
    several = len({(rungs["paper"].variant, rungs["paper"].promise) for rungs in found}) > 1
    return [ladder_chart(comparison, rungs, several=several) for rungs in found]


def _promises_at(comparison: "Comparison", epsilons: Sequence[float] | None) -> list[Promise]:
    made = {row.epsilon: row.promise for row in comparison.rows if row.epsilon is not None}
    for epsilon in epsilons or ():
        if epsilon not in made:
            there = ", ".join(f"{one:g}" for one in comparison.epsilons) or "none"
            raise InvalidParameter(
                f"no epsilon = {epsilon:g} in this comparison; choose one of {there}"
            )
    return [made[epsilon] for epsilon in sorted(epsilons or ())]


def _legible(comparison: "Comparison") -> list[Promise]:
    most = max(
        (
            sum(not row.reference for row in comparison.on(problem))
            for problem in comparison.problems
        ),
        default=0,
    )
    return comparison.promises if most <= _LEGIBLE else [comparison.chosen, OPEN]


def _regret(comparison: "Comparison", problem: str, promises: Sequence[Promise]) -> Chart:
    known = comparison.known(problem)
    rows = _shown(comparison, problem, promises)
    series = _curves(comparison, rows, "regret" if known else "mean_return", promises)
    said = "Cumulative regret" if known else "Average return"
    last = _ends(comparison, problem, lambda row: None if row.final is None else row.final.estimate)
    facts = {"title": problem, "described": f"{said} over users on {problem}. {last}"}
    if not known:
        return return_chart(series, legend=_entries(comparison, rows, promises), **facts)
    first = comparison.on(problem)[0]
    chart = regret_chart(series, first.optimal_value, first.uniform_value, **facts)
    drawn = {name for one in chart.series for name in one.rows}
    legend = _entries(comparison, [row for row in rows if row.anchor in drawn], promises)
    return replace(chart, legend=[*legend, *_uniform_entry(chart)])


def _value(comparison: "Comparison", problem: str, promises: Sequence[Promise]) -> Chart:
    first = comparison.on(problem)[0]
    rows = _shown(comparison, problem, promises)
    # The levels of optimal and uniform play say the same as reference policies.
    rows = [row for row in rows if not row.reference] or rows
    last = _ends(comparison, problem, lambda row: None if row.value is None else row.value.estimate)
    return value_chart(
        _curves(comparison, rows, "value", promises),
        first.optimal_value,
        first.uniform_value,
        title=problem,
        described=f"Value of the policy over users on {problem}. {last}",
        legend=_entries(comparison, rows, promises),
    )


def _noise(comparison: "Comparison", problem: str, _promises: Sequence[Promise]) -> Chart:
    rows = [row for row in comparison.on(problem) if row.noisy]
    parts = (("noise_std", "noise", "solid"), ("signal", "signal", "dash"))
    series = [
        replace(one, name=f"{one.name}: {said}", look=Look(one.look.tone, dash))
        for name, said, dash in parts
        for one in _curves(comparison, rows, name, comparison.promises)
    ]
    looks = agent_looks(comparison)
    agents = [Entry(agent, looks[agent]) for agent in dict.fromkeys(row.agent for row in rows)]
    kinds = [Entry(said, Look(None, dash), 1.4, ink=True) for _, said, dash in parts]
    seen = [y for one in series for y in one.y if y > 0]
    between = f"between {number(min(seen))} and {number(max(seen))}"
    said = f"Noise and signal over users on {problem}, {between}."
    return Chart(
        USERS,
        Axis("noise and signal", bottom=0.0),
        series,
        title=problem,
        described=said,
        legend=[*agents, *kinds],
    )


def _privacy(comparison: "Comparison", problem: str, _promises: Sequence[Promise]) -> Chart:
    """Points from the strictest guarantee on, and a level without privacy, for each learner; a level for uniform play."""
    known, rows, looks = comparison.known(problem), comparison.on(problem), agent_looks(comparison)
    series, levels, legend = [], [], []
    for agent in comparison.learners:
        own = [row for row in rows if row.agent == agent and row.final is not None]
        points = sorted((row for row in own if row.epsilon), key=_epsilon)
        if not points:
            continue
        series.append(_points(points, looks[agent]))
        legend.append(Entry(agent, looks[agent]))
        levels += [_level_of(row, looks[agent]) for row in own if not row.private]
    if levels:
        legend.append(Entry(str(OPEN), Look(None, "dash"), 1.2, ink=True))
    gap, users = comparison.gap(problem), max(row.users for row in rows)
    if known and gap:
        levels.append(Level(gap * users, name="uniform play"))
        legend.append(Entry("uniform play", UNIFORM, 1.2))
    what = "Regret" if known else "Average return"
    said = " ".join(_spoken(rows, agent) for agent in comparison.learners)
    title = f"regret after {count(users)} users" if known else "average return"
    return Chart(
        Axis("requested ε", ticks=tuple(comparison.epsilons)),
        Axis(title, log=known, bottom=0.0 if known else None),
        series,
        levels,
        title=problem,
        described=f"{what} against ε on {problem}. {said}".strip(),
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
        width=1.6,
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
    first, looks = rungs["paper"], agent_looks(comparison)
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
        legend=[] if mark is None else [Entry("uniform play", UNIFORM, 1.2)],
    )


def _shown(comparison: "Comparison", problem: str, promises: Sequence[Promise]) -> list[Row]:
    return [row for row in comparison.on(problem) if row.reference or row.promise in promises]


def _curves(
    comparison: "Comparison", rows: Sequence[Row], name: str, promises: Sequence[Promise]
) -> list[Series]:
    """Colours and markers are agents, dashes and widths are guarantees."""
    looks = agent_looks(comparison)
    found = ((row, row.curve(name)) for row in rows)
    return [
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
        for row, curve in found
        if curve is not None
    ]


def _entries(
    comparison: "Comparison", rows: Sequence[Row], promises: Sequence[Promise]
) -> list[Entry]:
    """A legend of agents, and one of guarantees."""
    looks, made = agent_looks(comparison), dict[str, Entry]()
    for row in rows:
        look, width = look_of(row, looks), _width(row, promises)
        if row.reference:
            name = f"{row.agent} play"
            made[name] = Entry(name, look, width)
        else:
            promise = str(row.promise)
            made[row.agent] = Entry(row.agent, replace(look, dash="solid"))
            made[promise] = Entry(promise, Look(None, look.dash), width, ink=True)
    return list(made.values())


def _uniform_entry(chart: Chart) -> list[Entry]:
    """Where uniform play was not run, its line was added."""
    return [Entry(one.name, one.look, one.width) for one in chart.series if one.agent is None]


def _width(row: Row, promises: Sequence[Promise]) -> float:
    """The stricter, the thicker: seen without colour, too."""
    private = [one for one in promises if one.private]
    if row.reference or row.promise not in private:
        return 1.2
    if len(private) < 2:
        return 1.6
    return 2.4 - 1.6 * private.index(row.promise) / (len(private) - 1)


def _epsilon(row: Row) -> float:
    return row.epsilon or 0.0


def _interval(row: Row) -> tuple[float, float, float]:
    """Without width where there is none."""
    figure = row.final
    assert figure is not None
    if figure.low is None or figure.high is None:
        return figure.estimate, figure.estimate, figure.estimate
    return figure.estimate, figure.low, figure.high


def _spoken(rows: Sequence[Row], agent: str) -> str:
    own = [row for row in rows if row.agent == agent and row.final is not None]
    said = [f"{number(_interval(row)[0])} ({row.promise})" for row in own]
    return f"{agent}: {', '.join(said)}." if said else ""


def _ends(comparison: "Comparison", problem: str, last: Callable[[Row], Any]) -> str:
    shown = [
        row
        for row in comparison.on(problem)
        if row.reference or row.promise in (comparison.chosen, OPEN)
    ]
    said = [f"{row.label}: {number(figure)}" for row in shown if (figure := last(row)) is not None]
    return f"At the end: {'; '.join(said)}."
