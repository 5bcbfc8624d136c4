"""The figure of a report on values: a point per state, with its interval."""

from typing import TYPE_CHECKING, Any

import numpy as np

from confide.report import picture
from confide.report.charts import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from confide.report.values import ValueReport

# The numbers below are matters of taste.
_INTERVAL_COLOUR = "#111827"
# A figure has room for an interval of its own for each of so many states.
_STATES_WITH_BARS = 60
# Below a figure the labels of so many states fit, with so many characters each.
_STATES_WITH_LABELS = 20
_LABEL_CHARACTERS = 16


def plot_values(report: "ValueReport") -> "Figure":
    """Plot values with their intervals: by state, or sorted by value if there are many states."""
    figure = picture.canvas((7.0, 3.1))
    ax = figure.subplots()
    _draw(ax, report)
    picture.dress(ax)
    ax.grid(visible=False, axis="x")
    if not report.private:
        ax.set_title(
            "NO PRIVACY: only for those who hold the data",
            fontsize=8.5,
            color="#b3161f",
            fontweight="bold",
        )
    return figure


def _draw(ax: "Axes", report: "ValueReport") -> None:
    values = report.estimate.values
    has_many = len(values) > _STATES_WITH_BARS
    order = np.argsort(values, kind="stable") if has_many else np.arange(len(values))
    places = np.arange(len(values))
    marker = "." if has_many else "o"
    ax.plot(places, values[order], marker, color=LIGHT[0], markersize=2.5 if has_many else 3.5)
    if report.interval is not None:
        low, high = (ends[order] for ends in report.interval)
        if has_many:
            ax.fill_between(places, low, high, color=LIGHT[0], alpha=0.3, linewidth=0, step="mid")
        else:
            # Intervals have ends and stand over the dots, so that short ones are seen, too.
            ax.vlines(places, low, high, color=_INTERVAL_COLOUR, linewidth=0.9, zorder=4)
            style: dict[str, Any] = {"color": _INTERVAL_COLOUR, "markersize": 5, "zorder": 4}
            for ends in (low, high):
                ax.plot(places, ends, "_", markeredgewidth=0.9, **style)
    ylabel = "value, no intervals"
    if report.interval is not None:
        ylabel = f"value, {100 * report.level:g} % intervals"
    xlabel = "states, ordered by value" if has_many else "state"
    ax.set(xlabel="" if report.is_policy else xlabel, ylabel=ylabel)
    if len(values) <= _STATES_WITH_LABELS:
        ax.set_xticks([] if report.is_policy else places)
        if report.labels and not report.is_policy:
            names = [report.name_of(state)[:_LABEL_CHARACTERS] for state in range(len(values))]
            # A dollar sign would start a formula.
            escaped = [name.replace("$", r"\$") for name in names]
            ax.set_xticklabels(escaped, rotation=30, ha="right")
