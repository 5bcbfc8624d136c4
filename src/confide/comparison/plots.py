"""Figures of a study for papers: regret and value over users, noise against signal, regret against epsilon, the ladder of calibrations."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from confide import arguments
from confide.arguments import choice, kind
from confide.comparison.group import OPEN, Promise
from confide.comparison.looks import agent_looks, look_of
from confide.comparison.study import Ladder, Study, study_of_runs
from confide.comparison.summary import Row
from confide.comparison.words import RUNGS
from confide.errors import InvalidParameter
from confide.report import drawing
from confide.report.drawing import INK, UNIFORM, Bar, Level, Line, Look, Panel, Style
from confide.report.words import number
from confide.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HATCHES = {"paper": "", "tight": "////", "none": "....."}
_LINES = 8  # in a panel: more are told apart by nobody
_NEEDS = {
    "regret": "a run",
    "value": "a problem whose exact values are known",
    "noise": "a run with noise, which a sweep's table does not contain",
    "privacy": "an epsilon",
    "ladder": 'an agent that was run with calibration = "paper" and with tight constants',
}


def plot_runs(runs: Sequence[Run]) -> "Figure":
    """Regret and value over users, a row per problem: means over seeds and their 95 % confidence bands.

    Where the exact values of a problem are unknown, its row is what users earned on average.
    """
    study = study_of_runs(runs)
    shown = _legible(study)
    panels = []
    for problem in study.problems:
        own = [
            replace(_curves(study, problem, what, shown), title="")
            for what in ("regret", "value")[: 1 + study.known(problem)]
        ]
        panels += (
            [replace(panel, title=problem) for panel in own] if len(study.problems) > 1 else own
        )
    return drawing.draw(panels, columns=min(2, len(panels)))


def plot_study(
    study: Study,
    what: str = "regret",
    *,
    problems: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    epsilons: Sequence[float] | None = None,
    figsize: tuple[float, float] | None = None,
    columns: int | None = None,
) -> "Figure":
    """A matplotlib figure with a panel per problem; it saves as SVG or PDF with its fonts.

    `regret`, `value`: curves over users, means over seeds and their 95 % bands. Where a panel would have more than eight, those of the
    epsilon nearest to 1 and of no privacy only, unless `epsilons` says which. `noise`: noise against signal. `privacy`: regret against
    epsilon, with no privacy dashed. `ladder`: from the paper's constants to tight ones to no privacy, for agents that were run with both,
    at the epsilon nearest to 1 unless `epsilons` says which. `problems` and `agents` choose some. Where regret is not known, figures show
    what users earned.
    """
    choice("what", what, _NEEDS)
    kind("study", study, Study)
    for name, asked, there in (
        ("problem", problems, study.problems),
        ("agent", agents, study.agents),
    ):
        for one in asked or ():
            if one not in there:
                raise InvalidParameter(
                    f"no {name} {one!r} in this comparison; choose one of {', '.join(there)}"
                )
    panels = _panels(study.some(problems, agents), what, epsilons)
    if not panels:
        raise InvalidParameter(
            f"the figure {what} needs {_NEEDS[what]}, and this comparison has none"
        )
    return drawing.draw(panels, figsize=figsize, columns=columns)


def save_figures(runs: Sequence[Run], folder: str | Path) -> list[Path]:
    """Each figure that these runs have (regret, value, noise, privacy, ladder) as SVG, PDF and PNG; the files written."""
    return save_study_figures(study_of_runs(runs), folder)


def save_study_figures(study: Study, folder: str | Path) -> list[Path]:
    """Where regret is not known on any problem, the file of returns is named after them."""
    target = Path(arguments.path("folder", folder))
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for what in _NEEDS:
        panels = _panels(study, what, None)
        if panels:
            name = (
                "return" if what == "regret" and not any(map(study.known, study.problems)) else what
            )
            figure = drawing.draw(panels)
            written += [
                drawing.saved(figure, target / f"{name}{ending}")
                for ending in (".svg", ".pdf", ".png")
            ]
    return written


def _panels(study: Study, what: str, epsilons: Sequence[float] | None) -> list[Panel]:
    if what == "ladder":
        ladders = [
            ladder
            for promise in _asked(study, epsilons) or [study.chosen]
            for ladder in study.ladders(promise)
        ]
        several = len({(ladder.agent, ladder.promise) for ladder in ladders}) > 1
        return _titled([_ladder(study, ladder, several) for ladder in ladders])
    shown = [*_asked(study, epsilons), OPEN] if epsilons is not None else _legible(study)
    has: dict[str, Callable[[str], bool]] = {
        "regret": lambda _: True,
        "value": study.known,
        "noise": lambda problem: any(row.group.noisy for row in study.on(problem)),
        "privacy": lambda problem: any(row.group.epsilon for row in study.on(problem)),
    }
    draw = {"noise": _noise, "privacy": _privacy}.get(what)
    own = filter(has[what], study.problems)
    return _titled(
        [draw(study, problem) if draw else _curves(study, problem, what, shown) for problem in own]
    )


def _titled(panels: list[Panel]) -> list[Panel]:
    return panels if len(panels) > 1 else [replace(panel, title="") for panel in panels]


def _asked(study: Study, epsilons: Sequence[float] | None) -> list[Promise]:
    made = {
        row.group.epsilon: row.group.promise for row in study.rows if row.group.epsilon is not None
    }
    for epsilon in epsilons or ():
        if epsilon not in made:
            there = ", ".join(f"{one:g}" for one in study.epsilons) or "none"
            raise InvalidParameter(
                f"no epsilon = {epsilon:g} in this comparison; choose one of {there}"
            )
    return [made[epsilon] for epsilon in sorted(epsilons or ())]


def _legible(study: Study) -> list[Promise]:
    most = max(
        (sum(not row.group.reference for row in study.on(problem)) for problem in study.problems),
        default=0,
    )
    return study.promises if most <= _LINES else [study.chosen, OPEN]


def _curves(study: Study, problem: str, what: str, promises: Sequence[Promise]) -> Panel:
    """Colours and markers are agents, widths and dashes are guarantees."""
    known, looks = study.known(problem), agent_looks(study)
    name = what if known else "mean_return"
    lines, legend = [], dict[str, Style]()
    for row in study.on(problem):
        curve, look, group = row.curve(name), look_of(row, looks), row.group
        if (
            curve is None
            or not (group.reference or group.promise in promises)
            or (what == "regret" and known and not (curve.mean > 0).any())
        ):
            continue
        # the levels of optimal and uniform play say the same
        if group.reference and what == "value":
            continue
        width = 1.2 if group.reference else _width(row, promises)
        lines.append(Line("", look, curve.users, curve.mean, curve.low, curve.high, width))
        legend |= _entries(row, look, width)
    group = study.on(problem)[0].group
    ends = (group.optimal_value, group.uniform_value)
    if not known:
        return drawing.return_panel(lines, title=problem, legend=legend)
    if what == "value":
        return drawing.value_panel(lines, *ends, title=problem, legend=legend)
    panel = drawing.regret_panel(lines, *ends, title=problem)
    legend |= {
        line.label: {**line.look.style, "linewidth": line.width}
        for line in panel.lines
        if line.label
    }
    return replace(panel, legend=legend)


def _entries(row: Row, look: Look, width: float) -> dict[str, Style]:
    if row.group.reference:
        return {f"{row.group.agent} play": {**look.style, "linewidth": width}}
    agent: dict[str, Any] = {**look.style, "linestyle": "-", "linewidth": 1.6}
    return {
        row.group.agent: agent,
        str(row.group.promise): {
            "color": INK,
            "linestyle": look.style["linestyle"],
            "linewidth": width,
        },
    }


def _width(row: Row, promises: Sequence[Promise]) -> float:
    """The stricter, the thicker: seen without colour, too."""
    private = [one for one in promises if one.private]
    if row.group.promise not in private:
        return 1.2
    return (
        1.6
        if len(private) < 2
        else 2.4 - 1.6 * private.index(row.group.promise) / (len(private) - 1)
    )


def _noise(study: Study, problem: str) -> Panel:
    lines, legend = [], dict[str, Style]()
    for row in (row for row in study.on(problem) if row.group.noisy):
        own = agent_looks(study)[row.group.agent]
        width = _width(row, study.promises)
        for name, said, dash in (("noise_std", "noise", "solid"), ("signal", "signal", "dash")):
            curve, look = row.curve(name), Look(own.tone, dash)
            if curve is not None:
                lines.append(Line("", look, curve.users, curve.mean, curve.low, curve.high, width))
                legend |= {
                    said: {"color": INK, "linestyle": look.style["linestyle"], "linewidth": 1.4}
                }
        legend |= {row.group.agent: {**own.style, "linewidth": 1.6}}
    return Panel("users", "noise and signal", lines, title=problem, legend=legend)


def _privacy(study: Study, problem: str) -> Panel:
    rows, known, gap, looks = (
        study.on(problem),
        study.known(problem),
        study.gap(problem),
        agent_looks(study),
    )
    users = max(row.users for row in rows)
    lines, levels, legend = [], list[Level](), dict[str, Style]()
    for agent in study.learners:
        look, own = (
            looks[agent],
            [row for row in rows if row.group.agent == agent and row.final is not None],
        )
        points = sorted((row.group.epsilon, _ends(row)) for row in own if row.group.epsilon)
        if not points:
            continue
        x, (y, low, high) = (
            np.array([epsilon for epsilon, _ in points]),
            np.array([ends for _, ends in points]).T,
        )
        lines.append(Line("", look, x, y, low, high, width=1.6, points=True))
        legend |= {agent: {**look.style, "linewidth": 1.6}}
        for row in own:
            if not row.group.private and row.final is not None:
                levels.append(Level(row.final.estimate, Look(look.tone, "dash", look.marker)))
                legend |= {
                    str(OPEN): {"color": INK, "linestyle": drawing.DASHES["dash"], "linewidth": 1.2}
                }
    if known and gap:
        levels.append(Level(gap * users))
        legend |= {"uniform play": {**UNIFORM.style, "linewidth": 1.2}}
    title = f"regret after {number(users)} users" if known else "average return"
    return Panel(
        "requested ε",
        title,
        lines,
        levels,
        title=problem,
        log=known,
        ticks=study.epsilons,
        legend=legend,
    )


def _ends(row: Row) -> tuple[float, float, float]:
    figure = row.final
    assert figure is not None
    return figure.estimate, *(
        (figure.low, figure.high)
        if figure.low is not None and figure.high is not None
        else (figure.estimate,) * 2
    )


def _ladder(study: Study, ladder: Ladder, several: bool) -> Panel:
    gap = study.gap(ladder.problem)
    drawn = [
        (name, row.regret, agent_looks(study)[row.group.agent])
        for name, row in ladder.rungs
        if row.regret is not None
    ]
    bars = [
        Bar(RUNGS[name], figure.estimate, figure.low, figure.high, own, _HATCHES[name])
        for name, figure, own in drawn
    ]
    mark = None if gap is None else gap * ladder.rungs[0][1].users
    title = f"{ladder.problem}: {ladder.agent}, {ladder.promise}" if several else ladder.problem
    legend: dict[str, Style] = (
        {} if mark is None else {"uniform play": {**UNIFORM.style, "linewidth": 1.2}}
    )
    return Panel(
        f"regret of {ladder.agent}, {ladder.promise}",
        "",
        bars=bars,
        title=title,
        mark=mark,
        legend=legend,
    )
