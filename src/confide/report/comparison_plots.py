"""Figures of a comparison for papers: regret by problem, regret against epsilon, and the ladder of calibrations."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from confide.errors import InvalidParameter
from confide.experiments.comparison import Comparison
from confide.report.comparison_study import OPEN, Curve, Ladder, Study, final, study
from confide.report.looks import NEUTRAL
from confide.report.plots import DASHES, SMALL, TEXT, dress, fit
from confide.report.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
_HATCHES = {"paper constants": "", "tight": "////", OPEN: "....."}
_LINES = 8  # in a panel: more are told apart by nobody
_NEEDS = {
    "regret": "a run",
    "privacy": "an epsilon",
    "ladder": 'an agent that was run with calibration = "paper" and with tight constants',
}


@dataclass(slots=True)
class Legend:
    """What was drawn, once each: colours and markers are agents, widths and dashes are promises."""

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, **look: Any) -> None:
        self.entries.setdefault(name, look)


Draw = Callable[["Axes", Legend], None]
Panel = tuple[str, Draw]  # a title, and what draws it


def plot_comparison(
    comparison: Comparison,
    what: str = "regret",
    *,
    problems: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    epsilons: Sequence[float] | None = None,
    figsize: tuple[float, float] | None = None,
    columns: int | None = None,
) -> "Figure":
    """A matplotlib figure with a panel per problem; it saves as SVG or PDF with its fonts.

    `regret`: curves over users, means over seeds and their 95 % bands. Where a panel would have more than eight, those of the epsilon
    nearest to 1 and of no privacy only, unless `epsilons` says which. `privacy`: regret against epsilon, with no privacy dashed. `ladder`:
    from the paper's constants to tight ones to no privacy, for agents that were run with both, at the epsilon nearest to 1 unless
    `epsilons` says which. `problems` and `agents` choose some. Where regret is not known, figures show what users earned.
    """
    if what not in _NEEDS:
        raise InvalidParameter(f"a comparison is drawn as regret, privacy or ladder, got {what!r}")
    return _figure(_some(study(comparison), problems, agents), what, epsilons, figsize, columns)


def save_comparison_figures(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Each figure that the comparison has as SVG, PDF and PNG; the files written."""
    target, found = Path(folder), study(comparison)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for what in _NEEDS:
        if not _panels(found, what, None):
            continue
        figure = _figure(found, what)
        for ending, still in ((".svg", {"Date": None}), (".pdf", {"CreationDate": None}), (".png", None)):
            figure.savefig(target / f"{what}{ending}", dpi=200, metadata=still)  # the same runs, the same file
            written.append(target / f"{what}{ending}")
    return written


def _some(found: Study, problems: Collection[str] | None, agents: Collection[str] | None) -> Study:
    for name, asked, there in (("problem", problems, found.problems), ("agent", agents, list(found.agents))):
        for one in asked or ():
            if one not in there:
                raise InvalidParameter(f"there is no {name} {one!r} in this comparison; there are {', '.join(there)}")
    kept = tuple(
        curve
        for curve in found.curves
        if (problems is None or curve.group.problem in problems) and (agents is None or curve.group.agent in agents)
    )
    return replace(found, curves=kept)


def _figure(
    found: Study,
    what: str,
    epsilons: Sequence[float] | None = None,
    figsize: tuple[float, float] | None = None,
    columns: int | None = None,
) -> "Figure":
    from confide.report.comparison_canvas import PaperFigure

    panels = _panels(found, what, epsilons)
    if not panels:
        raise InvalidParameter(f"the figure {what} needs {_NEEDS[what]}, and there is none in this comparison")
    wide = columns or (len(panels) if len(panels) < 4 else 2 if len(panels) == 4 else 3)
    tall = -(-len(panels) // wide)
    size = (min(3.5 * wide, 7.2) if wide > 1 else 4.2, (1.7 if what == "ladder" else 2.5) * tall + 0.7)
    figure = PaperFigure(figsize=figsize or size, layout="constrained", facecolor="white")
    legend = Legend()
    for place, (title, draw) in enumerate(panels):
        ax = figure.add_subplot(tall, wide, place + 1)
        draw(ax, legend)
        dress(ax)
        if len(panels) > 1:
            ax.set_title(title, fontsize=TEXT, fontweight="bold", parse_math=False)
    _below(figure, legend)
    return figure


def _panels(found: Study, what: str, epsilons: Sequence[float] | None) -> list[Panel]:
    if what == "ladder":
        ladders = [ladder for promise in _asked(found, epsilons) or [found.chosen] for ladder in found.ladders(promise)]
        several = len({(ladder.agent, ladder.promise) for ladder in ladders}) > 1
        return [(_rung_title(ladder, several), _ladder(found, ladder)) for ladder in ladders]
    if what == "privacy":
        private = [promise for promise in found.promises if promise != OPEN]
        return [(problem, _privacy(found, problem)) for problem in found.problems] if private else []
    shown = [*_asked(found, epsilons), OPEN] if epsilons is not None else _legible(found)
    return [(problem, _curves(found, problem, shown)) for problem in found.problems]


def _asked(found: Study, epsilons: Sequence[float] | None) -> list[str]:
    made = {curve.group.epsilon: curve.group.promise for curve in found.curves if curve.group.epsilon is not None}
    for epsilon in epsilons or ():
        if epsilon not in made:
            there = ", ".join(f"{one:g}" for one in sorted(made)) or "none"
            raise InvalidParameter(f"there is no epsilon = {epsilon:g} in this comparison; there are {there}")
    return [made[epsilon] for epsilon in sorted(epsilons or ())]


def _legible(found: Study) -> list[str]:
    most = max((sum(not curve.reference for curve in found.on(problem)) for problem in found.problems), default=0)
    return found.promises if most <= _LINES else [found.chosen, OPEN]


def _curves(found: Study, problem: str, promises: Sequence[str]) -> Draw:
    def draw(ax: "Axes", legend: Legend) -> None:
        known, shown = found.known(problem), [one for one in found.on(problem) if one.reference or one.group.promise in promises]
        for curve in shown:
            _line(ax, curve, promises, known, legend)
        gap = found.gap(problem)
        if known and gap and not any(curve.reference and curve.group.agent == "uniform" for curve in shown):
            users = np.array([1.0, max(curve.users[-1] for curve in shown)])
            _reference(ax, users, gap * users, legend)
        ax.set(xscale="log", yscale="log" if known else "linear", xlabel="users")
        ax.set_ylabel("cumulative regret" if known else "average return")
        if known:
            fit(ax)

    return draw


def _line(ax: "Axes", curve: Curve, promises: Sequence[str], known: bool, legend: Legend) -> None:
    keep = curve.mean > 0 if known else np.isfinite(curve.mean)  # zero has no logarithm
    if not keep.any():
        return
    users, mean = curve.users[keep], curve.mean[keep]
    if curve.reference:
        _reference(ax, users, mean, legend, curve.group.agent)
        return
    promise = curve.group.promise
    width, dash = _width(promise, promises), DASHES["dash" if promise == OPEN else "solid"]
    marker = MARKERS[curve.look.marker]
    every = (2 * curve.look.marker, max(len(users) // 6, 1))  # not all at the same users: curves may lie on each other
    ax.plot(users, mean, color=curve.look.colour, linestyle=dash, linewidth=width, marker=marker, markersize=3.6, markevery=every)
    if curve.low is not None and curve.high is not None:
        ax.fill_between(users, curve.low[keep], curve.high[keep], color=curve.look.colour, alpha=0.14, linewidth=0)
    legend.add(curve.group.agent, color=curve.look.colour, marker=marker, linewidth=1.6)
    legend.add(promise, color="#374151", linestyle=dash, linewidth=width)


def _width(promise: str, promises: Sequence[str]) -> float:
    """The stricter, the thicker: seen without colour, too."""
    private = [one for one in promises if one != OPEN]
    return 1.2 if promise == OPEN else 1.6 if len(private) < 2 else 2.4 - 1.6 * private.index(promise) / (len(private) - 1)


def _reference(ax: "Axes", users: Any, values: Any, legend: Legend, name: str = "uniform") -> None:
    look = {"color": NEUTRAL[0], "linestyle": DASHES["dot" if name == "uniform" else "dashdot"], "linewidth": 1.2}
    ax.plot(users, values, **look)
    legend.add(f"{name} play", **look)


def _privacy(found: Study, problem: str) -> Draw:
    def draw(ax: "Axes", legend: Legend) -> None:
        known = found.known(problem)
        for agent in found.learners:
            _against_epsilon(ax, [curve for curve in found.on(problem) if curve.group.agent == agent], legend)
        gap, users = found.gap(problem), max(curve.row.users for curve in found.on(problem))
        if known and gap:
            ax.axhline(gap * users, color=NEUTRAL[0], linestyle=DASHES["dot"], linewidth=1.2, zorder=1)
            legend.add("uniform play", color=NEUTRAL[0], linestyle=DASHES["dot"], linewidth=1.2)
        epsilons = sorted({curve.group.epsilon for curve in found.curves if curve.group.epsilon is not None})
        ax.set(xscale="log", yscale="log" if known else "linear", xlabel="ε asked for")
        ax.set_ylabel(f"regret after {number(users)} users" if known else "average return")
        if known:
            _near(ax, found.on(problem), gap * users if gap else 0.0)
        ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        ax.set_xticks([], minor=True)
        ax.margins(x=0.08)

    return draw


def _against_epsilon(ax: "Axes", curves: Sequence[Curve], legend: Legend) -> None:
    points = sorted(
        ((one.group.epsilon, figure) for one in curves if one.group.epsilon and (figure := final(one)) is not None),
        key=itemgetter(0),
    )
    free = next((figure for one in curves if not one.group.private and (figure := final(one)) is not None), None)
    if not points:
        return
    colour, marker = curves[0].look.colour, MARKERS[curves[0].look.marker]
    x, y = [epsilon for epsilon, _ in points], np.array([figure.estimate for _, figure in points])
    ends = [(figure.low, figure.high) if figure.low is not None else (figure.estimate,) * 2 for _, figure in points]
    bars = np.abs(np.array(ends, dtype=float).T - y)
    ax.errorbar(x, y, yerr=bars, color=colour, marker=marker, markersize=4.2, linewidth=1.6, elinewidth=0.9, capsize=2)
    legend.add(curves[0].group.agent, color=colour, marker=marker, linewidth=1.6)
    if free is not None:
        ax.axhline(free.estimate, color=colour, linestyle=DASHES["dash"], linewidth=1.1, zorder=1.5)
        ax.plot([0.985], [free.estimate], transform=ax.get_yaxis_transform(), color=colour, marker=marker, markersize=4.2)
        legend.add(OPEN, color="#374151", linestyle=DASHES["dash"], linewidth=1.2)


def _near(ax: "Axes", curves: Sequence[Curve], uniform: float) -> None:
    """The intervals of very few seeds may leave the figure; means and uniform play may not."""
    figures = [uniform, *(figure.estimate for figure in map(final, curves) if figure is not None)]
    if means := [value for value in figures if value > 0]:
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, min(means) / 10), min(high, 10 * max(means)))


def _rung_title(ladder: Ladder, several: bool) -> str:
    return f"{ladder.problem}: {ladder.agent}, {ladder.promise}" if several else ladder.problem


def _ladder(found: Study, ladder: Ladder) -> Draw:
    def draw(ax: "Axes", legend: Legend) -> None:
        drawn = [(name, curve, curve.row.regret) for name, curve in ladder.rungs if curve.row.regret is not None]
        losses = [regret.estimate for _, _, regret in drawn if regret.estimate > 0]
        gap = found.gap(ladder.problem)
        uniform = None if not gap else gap * drawn[0][1].row.users
        left, right = 10.0 ** np.floor(np.log10(min(losses, default=1.0)) - 0.2), max([10.0, *losses, uniform or 0.0])
        for place, (name, curve, regret) in enumerate(drawn):
            _bar(ax, place, curve, left, _HATCHES[name])
            where = max(regret.high or 0.0, regret.estimate, left)
            ax.annotate(number(regret.estimate), (where, place), (4, 0), textcoords="offset points", va="center", fontsize=SMALL)
        if uniform:
            ax.axvline(uniform, color=NEUTRAL[0], linestyle=DASHES["dot"], linewidth=1.2, zorder=1)
            legend.add("uniform play", color=NEUTRAL[0], linestyle=DASHES["dot"], linewidth=1.2)
        ax.set(xscale="log", xlim=(left, right * (right / left) ** 0.2))
        ax.set_xlabel(f"regret of {ladder.agent}, {ladder.promise}", parse_math=False)
        ax.set_yticks(range(len(drawn)), [name for name, _, _ in drawn])
        ax.invert_yaxis()
        ax.tick_params(axis="y", length=0)

    return draw


def _bar(ax: "Axes", place: int, curve: Curve, left: float, hatch: str) -> None:
    from matplotlib.colors import to_rgb

    regret, colour = curve.row.regret, curve.look.colour
    if regret is None or regret.estimate <= left:
        return
    pale = tuple(0.3 * part + 0.7 for part in to_rgb(colour))
    width = regret.estimate - left
    ax.barh(place, width, left=left, height=0.62, facecolor=pale, edgecolor=colour, hatch=hatch, linewidth=0.9, zorder=2)
    if regret.low is not None and regret.high is not None:
        ax.hlines(place, max(regret.low, left), regret.high, color="#111827", linewidth=1.0, zorder=3)


def _below(figure: "Figure", legend: Legend) -> None:
    from matplotlib.lines import Line2D

    if not legend.entries:
        return
    entries = sorted(legend.entries.items(), key=_kind)
    lines = [Line2D([], [], markersize=4.2, **look) for _, look in entries]
    columns = max(1, min(len(lines), int(figure.get_figwidth() / 1.45)))
    made = figure.legend(
        lines, ["-"] * len(lines), loc="outside lower center", ncols=columns, frameon=False, fontsize=SMALL, handlelength=3.0
    )
    for text, (name, _) in zip(made.get_texts(), entries, strict=True):
        text.set_parse_math(False)  # a name is a name, with its dollars and underscores
        text.set_text(name)


def _kind(entry: tuple[str, dict[str, Any]]) -> int:
    """Agents, then promises, then reference play."""
    return 0 if "marker" in entry[1] else 2 if entry[1]["color"] == NEUTRAL[0] else 1
