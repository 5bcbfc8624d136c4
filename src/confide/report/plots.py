"""Figures for papers: regret, value, and noise against signal, by matplotlib, as objects and without a display."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from confide.experiments.run import Run
from confide.report.bands import Band
from confide.report.looks import NEUTRAL, Look, looks
from confide.report.series import World, worlds
from confide.report.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Entry = tuple[str, Look]  # of a legend
Panel = Callable[["Axes", World], list[Entry]]  # draws, and says what it drew

WIDTH, HEIGHT = 3.4, 2.75  # inches of one panel: two of them fill the width of a page
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (4.5, 2)), "dot": (0, (1, 1.8)), "dashdot": (0, (4.5, 1.6, 1, 1.6))}
SMALL, TEXT = 7.5, 8.5


def plot_runs(runs: Sequence[Run]) -> "Figure":
    """Regret and value over users, a row per problem; the mean over seeds and its band (see `bands.Band`).

    Where the exact values of a problem are unknown, its row is what users earned on average.
    """
    return _drawn([[(panel, world) for panel in _panels(world)] for world in worlds(runs)])


def save_figures(runs: Sequence[Run], folder: str | Path) -> list[Path]:
    """Each figure that these runs have (regret, value, noise, return) as PNG and SVG; the files written."""
    target, found = Path(folder), worlds(runs)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, panel in _NAMED.items():
        shown = [world for world in found if panel in (*_panels(world), *_noise(world))]
        if shown:
            figure = _drawn([[(panel, world)] for world in shown])
            written += [saved(figure, target / f"{name}{ending}") for ending in (".png", ".svg")]
    return written


def _panels(world: World) -> tuple[Panel, ...]:
    return (_regret, _value) if world.exact else (_returns,)


def _noise(world: World) -> tuple[Panel, ...]:
    return (_noise_and_signal,) if any(series.noisy for series in world.series) else ()


def saved(figure: "Figure", path: Path) -> Path:
    import matplotlib

    still = {"Date": None} if path.suffix == ".svg" else {}  # the same runs, the same file
    with matplotlib.rc_context({"svg.hashsalt": "confide"}):
        figure.savefig(path, dpi=200, metadata=still)
    return path


def _drawn(rows: Sequence[Sequence[tuple[Panel, World]]]) -> "Figure":
    from matplotlib.figure import Figure

    wide = max(len(row) for row in rows)
    figure = Figure(figsize=(WIDTH * wide + 0.2, (HEIGHT + 0.35) * len(rows)), layout="constrained", facecolor="white")
    parts = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
    for part, row in zip(parts, rows, strict=True):
        axes = part.subplots(1, len(row), squeeze=False)[0]
        entries: dict[Entry, None] = {}  # an ordered set
        for ax, (panel, world) in zip(axes, row, strict=True):
            entries |= dict.fromkeys(panel(ax, world))
            dress(ax)
        _legend(part, list(entries), columns=2 * wide)
        if len(rows) > 1:
            part.suptitle(row[0][1].name, fontsize=TEXT + 0.5, fontweight="bold", parse_math=False)
    return figure


def _regret(ax: "Axes", world: World) -> list[Entry]:
    drawn = []
    for series, look in zip(world.series, looks(world), strict=True):
        curve = series.regret()
        if _line(ax, curve, look, curve.mean > 0):  # zero has no logarithm
            drawn.append((series.label, look))
    if world.gap and world.gap > 0 and not world.draws_uniform:
        users, look = np.array([1, world.users]), Look(None, "dot")
        ax.plot(users, world.gap * users, color=look.colour, linestyle=DASHES[look.dash], linewidth=1.2)
        drawn.append(("uniform play", look))
    ax.set(xscale="log", yscale="log", xlabel="users", ylabel="cumulative regret")
    fit(ax)
    return drawn


def _value(ax: "Axes", world: World) -> list[Entry]:
    shown = [(series, look) for series, look in zip(world.series, looks(world), strict=True) if series not in world.ends]
    drawn = [(series.label, look) for series, look in shown if _line(ax, series.value(), look)]
    _level(
        ax, "optimal", world.optimal, left=True
    )  # labels where learners are not: not yet at the optimum, no longer at the start
    _level(ax, "uniform", world.uniform, left=False)
    ax.set(xscale="log", xlabel="users", ylabel="value per user")
    ax.margins(y=0.09)
    if world.uniform is not None and world.gap and world.gap > 0:  # what is far worse than uniform play may leave the figure
        ax.set_ylim(bottom=max(ax.get_ylim()[0], world.uniform - 0.7 * world.gap))
    return drawn


def _level(ax: "Axes", name: str, level: float | None, *, left: bool) -> None:
    if level is None:
        return
    ax.axhline(level, color=NEUTRAL[0], linewidth=0.8, linestyle=DASHES["dot"], zorder=1)
    ax.annotate(
        f"{name} {number(level)}",
        (0.01 if left else 0.99, level),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2.5 if left else -2.5),
        textcoords="offset points",
        horizontalalignment="left" if left else "right",
        verticalalignment="bottom" if left else "top",
        fontsize=SMALL,
        color="#4b5563",
    )


def _returns(ax: "Axes", world: World) -> list[Entry]:
    shown = list(zip(world.series, looks(world), strict=True))
    drawn = [(series.label, look) for series, look in shown if _line(ax, series.returns(), look)]
    ax.set(xscale="log", xlabel="users", ylabel="average return")
    return drawn


def _noise_and_signal(ax: "Axes", world: World) -> list[Entry]:
    drawn = []
    for series, look in zip(world.series, looks(world), strict=True):
        if series.noisy:
            solid, dashed = Look(look.tone, "solid"), Look(look.tone, "dash")
            drawn += [(f"{series.label}: noise", solid)] * _line(ax, series.noise(), solid)
            drawn += [(f"{series.label}: signal", dashed)] * _line(ax, series.signal(), dashed)
    ax.set(xscale="log", yscale="log", xlabel="users", ylabel="noise and signal")
    fit(ax)
    return drawn


_NAMED: dict[str, Panel] = {"regret": _regret, "value": _value, "return": _returns, "noise": _noise_and_signal}


def _line(ax: "Axes", curve: Band, look: Look, shown: Any = True) -> bool:
    """Draw what is known of a curve and its band; whether there was anything."""
    keep = np.isfinite(curve.mean) & shown
    if not keep.any():
        return False
    users, mean, low, high = (part[keep] for part in (curve.users, curve.mean, curve.low, curve.high))
    ax.plot(users, mean, color=look.colour, linestyle=DASHES[look.dash], linewidth=1.2 if look.tone is None else 1.5)
    if (high > low).any():
        low = low if shown is True else np.maximum(low, mean * 1e-3)  # a logarithmic axis cannot go below zero
        ax.fill_between(users, low, high, color=look.colour, alpha=0.16, linewidth=0)
    return True


def fit(ax: "Axes") -> None:
    """A logarithmic axis for the lines: a wide band, from two seeds say, may leave the figure."""
    drawn = np.concatenate([[], *(np.asarray(line.get_ydata(), dtype=float) for line in ax.lines)])
    drawn = drawn[drawn > 0]  # noise may push a signal below zero
    if len(drawn):
        low, high = np.log10(drawn.min()), np.log10(drawn.max())
        air = max(0.05 * (high - low), 0.05)
        ax.set_ylim(10 ** (low - air), 10 ** (high + air))


def dress(ax: "Axes") -> None:
    ax.grid(visible=True, which="major", color="#e5e7eb", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#9ca3af")
    ax.tick_params(which="both", labelsize=SMALL, color="#9ca3af", labelcolor="#374151", width=0.6)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_fontsize(TEXT)


def _legend(part: Any, entries: list[Entry], *, columns: int) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=look.colour, linestyle=DASHES[look.dash], linewidth=1.5) for _, look in entries]
    legend = part.legend(
        lines,
        ["-"] * len(lines),
        loc="outside lower center",
        ncols=max(1, min(len(entries), columns)),
        frameon=False,
        fontsize=SMALL,
        handlelength=2.6,
    )
    for text, (label, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_parse_math(False)  # a name is a name, with its dollars and underscores
        text.set_text(label)
