"""The values of states as an analyst reads them: in words, as a table with error bars, as a figure, and as one page."""

import base64
import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Relation, Trust
from confide.report.looks import LIGHT, palette
from confide.report.markup import Markup, escape, join, tag
from confide.report.promises import AGAINST, NAMES, TRUSTED, Promise, count, not_protected, odds, small

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]
_HERE = Path(__file__).parent
_BARS = "#111827"  # error bars
_FEW = 60  # states that have room for a bar each
_ON_PAGE = 100  # rows of the page's table


class Estimate(Protocol):
    """A `ValueEstimate`, as far as it is shown."""

    @property
    def values(self) -> Array: ...
    @property
    def noise_std(self) -> Array | None: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def certificate(self) -> Certificate | None: ...
    @property
    def lowest(self) -> float: ...
    @property
    def highest(self) -> float: ...
    @property
    def released(self) -> Mapping[str, Array]: ...
    def interval(self, level: float = 0.9) -> tuple[Array, Array]: ...
    def save(self, folder: str | Path) -> None: ...


@dataclass(frozen=True)
class Shown:
    """An estimate, and what its reader must be told beside it. `said`: (heading, text), such as what was clipped and who paid."""

    estimate: Estimate
    title: str
    level: float = 0.9
    said: tuple[tuple[str, str], ...] = ()
    one: bool = False  # the value of a policy, not one per state
    about: str = "the true value"  # what an interval holds with its probability

    @cached_property
    def interval(self) -> tuple[Array, Array] | None:
        if self.estimate.guarantee.trust is not Trust.NONE and self.estimate.noise_std is None:
            return None
        try:
            return self.estimate.interval(self.level)
        except InvalidParameter:
            if not 0 < self.level < 1:
                raise
            return None

    @cached_property
    def counts(self) -> Array | None:
        """Visits as released, where they are: with noise."""
        found = self.estimate.released.get("counts")
        return None if self.one or found is None or np.ptp(found) == 0 else found

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """The most visited states first, by the released counts; by number where there are none."""
        states = np.arange(len(self.estimate.values))
        return states if self.counts is None else np.argsort(-self.counts, kind="stable")


def words(shown: Shown) -> list[tuple[str, str]]:
    """(heading, text): the promise, the error bars or why there are none, what else is to be said, and what was assumed."""
    estimate = shown.estimate
    lines = [("promise", promise_words(estimate.guarantee)), ("error bars", _bars(shown))]
    outside = int(((estimate.values < estimate.lowest) | (estimate.values > estimate.highest)).sum())
    if outside:
        span = f"[{estimate.lowest:g}, {estimate.highest:g}]"
        lines.append(("out of range", f"{_states(outside, 'value')} outside {span}, the range of returns: that is the noise."))
    assumed = [] if estimate.certificate is None else estimate.certificate.document["assumptions"]
    return [*lines, *shown.said, *(("assumed", text) for text in assumed)]


def promise_words(guarantee: Guarantee) -> str:
    """(epsilon, delta) as a sentence about one user."""
    if guarantee.trust is Trust.NONE:
        return "NONE: no noise was added, nobody is protected. For the data holder only; publish nothing of it."
    change = "were somebody else altogether" if guarantee.relation is Relation.REPLACE else "had contributed nothing"
    return (
        f"epsilon = {guarantee.epsilon:.4g} at delta = {guarantee.delta:g}: if any one of the {guarantee.users:,} users {change}, the "
        f"probability of whatever is published here would change by at most the factor e^epsilon = {odds(guarantee.epsilon)}, plus delta."
    )


def _bars(shown: Shown) -> str:
    if shown.interval is None:
        if shown.estimate.guarantee.trust is not Trust.NONE and shown.estimate.noise_std is None:
            if shown.estimate.certificate is None:
                return "none: nothing that was published tells how far off these values are."
            return "none: the size of this noise depends on the data, so it is as private as they are."
        return "none: nothing that was released tells how much returns vary."
    low, high = shown.interval
    source = "sampling alone" if shown.estimate.guarantee.trust is Trust.NONE else "noise and sampling together"
    said = f"each interval holds {shown.about} with probability {100 * shown.level:g} %, {source}."
    unknown = int(((low <= shown.estimate.lowest) & (high >= shown.estimate.highest)).sum())
    if unknown:
        said += f" {_states(unknown, 'interval')} the whole range: {_why_whole(shown.estimate)}."
    return said


def _why_whole(estimate: Estimate) -> str:
    """An estimator that cannot tell how far off it is says so by a variance without limit; elsewhere the data do not say more."""
    if np.isinf(estimate.released["sampling_variance"]).any():
        return (
            "noise of this size could hide a singular matrix, and then nothing is known; fewer features or more users would tell"
        )
    return "too little data for this much noise"


def _states(number: int, what: str) -> str:
    return f"1 {what} is" if number == 1 else f"{number:,} {what}s are"


def heads(shown: Shown) -> list[str]:
    """Of the columns that this estimate has."""
    bars = [] if shown.interval is None else ["low", "high"]
    noise = [] if shown.estimate.noise_std is None else ["noise_std"]
    return [*([] if shown.one else ["state"]), "value", *bars, *noise, *([] if shown.counts is None else ["visits"])]


def rows(shown: Shown, most: int | None = None) -> list[list[float]]:
    """A row per state in `order`, under `heads` (the state comes first even if there is one value only)."""
    estimate = shown.estimate
    parts = [*(shown.interval or ()), estimate.noise_std, shown.counts]
    columns = [estimate.values, *(part for part in parts if part is not None)]
    return [[int(state), *(float(column[state]) for column in columns)] for state in shown.order[:most]]


def cells(shown: Shown, row: Sequence[float]) -> list[str]:
    """A row as people read it, values to as many digits as their range deserves; low and high are one cell."""
    digits = max(0, 3 - int(np.floor(np.log10(shown.estimate.highest - shown.estimate.lowest))))
    state, value, *rest = row
    made = [f"{int(state)}", f"{value:.{digits}f}"]
    if shown.interval is not None:
        low, high, *rest = rest
        made.append(f"{low:.{digits}f} to {high:.{digits}f}")
    if shown.estimate.noise_std is not None:
        noise, *rest = rest
        made.append(f"{noise:.{digits + 1}f}")
    return [*made[shown.one :], *(f"{visits:,.0f}" for visits in rest)]


def titles(shown: Shown) -> list[str]:
    """The columns of `cells`."""
    names = {"low": f"{100 * shown.level:g} % interval", "noise_std": "noise std", "visits": "visits (noisy)"}
    if shown.estimate.guarantee.trust is Trust.NONE:
        names["visits"] = "visits (exact)"
    return [names.get(head, head) for head in heads(shown) if head != "high"]


def record(shown: Shown) -> dict[str, Any]:
    """All of it, for machines."""
    estimate, guarantee = shown.estimate, shown.estimate.guarantee
    low, high = (part.tolist() for part in shown.interval) if shown.interval is not None else (None, None)
    private = guarantee.trust is not Trust.NONE
    return {
        "title": shown.title,
        "users": guarantee.users,
        "promise": {
            "private": private,
            "epsilon": guarantee.epsilon if private else None,
            "delta": guarantee.delta if private else None,
            "relation": guarantee.relation.value,
            "source": guarantee.source,
        },
        "said": [{"about": name, "text": text} for name, text in words(shown)],
        "level": shown.level,
        "values": estimate.values.tolist(),
        "low": low,
        "high": high,
        "noise_std": None if estimate.noise_std is None else estimate.noise_std.tolist(),
        "visits": None if shown.counts is None else shown.counts.tolist(),
        "certificate": estimate.certificate.document if estimate.certificate is not None else None,
    }


def plot_values(shown: Shown) -> "Figure":
    """Values with their error bars: by state, or, where there are many, in the order of their values."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.1), layout="constrained", facecolor="white")
    ax = figure.subplots()
    _draw(ax, shown)
    if shown.estimate.guarantee.trust is Trust.NONE:
        ax.set_title("NO PRIVACY: for the data holder only", fontsize=8.5, color="#b3161f", fontweight="bold")
    ax.grid(visible=True, axis="y", color="#e5e7eb", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#9ca3af")
    ax.tick_params(labelsize=7.5, color="#9ca3af", labelcolor="#374151", width=0.6)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_fontsize(8.5)
    return figure


def _draw(ax: "Axes", shown: Shown) -> None:
    values = shown.estimate.values
    many = len(values) > _FEW
    order = np.argsort(values, kind="stable") if many else np.arange(len(values))
    place, drawn = np.arange(len(values)), values[order]
    ax.plot(place, drawn, "." if many else "o", color=LIGHT[0], markersize=2.5 if many else 3.5)
    if shown.interval is not None:
        low, high = (part[order] for part in shown.interval)
        if many:
            ax.fill_between(place, low, high, color=LIGHT[0], alpha=0.3, linewidth=0, step="mid")
        else:  # over the dots, and with ends: an interval that is shorter than its dot is seen, too
            ax.vlines(place, low, high, color=_BARS, linewidth=0.9, zorder=4)
            for ends in (low, high):
                ax.plot(place, ends, "_", color=_BARS, markersize=5, markeredgewidth=0.9, zorder=4)
    without = ", no error bars" if shown.interval is None else f", {100 * shown.level:g} % intervals"
    ax.set(xlabel="" if shown.one else "states, ordered by value" if many else "state", ylabel=f"value{without}")
    if len(values) <= 20:
        ax.set_xticks([] if shown.one else place)


def write_values(shown: Shown, folder: str | Path, *, command: str = "") -> Path:
    """The estimate, its certificate, `values.csv`, `figures/values.{svg,png}` and `report.html` into a folder; where the page is."""
    target = Path(folder)
    shown.estimate.save(target)
    (target / "figures").mkdir(parents=True, exist_ok=True)
    with (target / "values.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads(shown))
        writer.writerows([int(row[0]), *map(repr, row[1:])][shown.one :] for row in sorted(rows(shown)))
    drawing = _saved(shown, target / "figures")
    page = target / "report.html"
    page.write_text(_page(shown, drawing, command), encoding="utf-8", newline="\n")
    return page


def _saved(shown: Shown, folder: Path) -> bytes:
    """The figure as SVG, which is also in the folder, beside a PNG."""
    import matplotlib

    figure = plot_values(shown)
    with matplotlib.rc_context({"svg.hashsalt": "confide"}):
        figure.savefig(folder / "values.svg", metadata={"Date": None})
    figure.savefig(folder / "values.png", dpi=200)
    return (folder / "values.svg").read_bytes()


def _page(shown: Shown, drawing: bytes, command: str) -> str:
    """One file that loads nothing and runs nothing: there is no script in it."""
    data = base64.b64encode(drawing).decode()
    figure = Markup(f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(_described(shown))}" width="100%">')
    private = shown.estimate.guarantee.trust is not Trust.NONE
    promise = tag("section", tag("h2", "Privacy"), _promise(shown.estimate.guarantee, words(shown)), id="privacy")
    parts = [
        tag("header", tag("p", tag("b", "confide"), " report", class_="brand"), tag("h1", shown.title), _meta(shown)),
        "" if private else promise,
        tag("section", _list([line for line in words(shown) if line[0] not in ("promise", "assumed")])),
        tag("section", tag("figure", figure, class_="plot")),
        tag("section", tag("h2", "Values"), _table(shown)),
        promise if private else "",
        _certificate(shown.estimate.certificate),
        tag("section", tag("h2", "Do it again"), tag("pre", command)) if command else "",
        tag("footer", tag("p", f"Made {datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')}.")),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    style = palette() + (_HERE / "report.css").read_text(encoding="utf-8") + _STYLE
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(shown.title)}</title><style>{style}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><main>{join(parts)}</main></body></html>\n'


_STYLE = "figure.plot img { display: block; background: #fff; border-radius: 8px; } td, thead th + th { text-align: right; }\n"


def _described(shown: Shown) -> str:
    bars = "without error bars" if shown.interval is None else f"with {100 * shown.level:g} % intervals"
    what = "The value of a policy" if shown.one else f"Values of {len(shown.estimate.values)} states"
    return f"{what}, {bars}; the numbers are in values.csv."


def _meta(shown: Shown) -> Markup:
    guarantee = shown.estimate.guarantee
    values = len(shown.estimate.values)
    facts = ["1 value" if values == 1 else f"{count(values)} values", f"{count(guarantee.users)} users"]
    facts.append("NO PRIVACY" if guarantee.trust is Trust.NONE else f"ε = {guarantee.epsilon:.4g}, δ = {small(guarantee.delta)}")
    return tag("p", *[tag("span", fact) for fact in facts], class_="meta")


def _list(lines: list[tuple[str, str]]) -> Markup:
    return tag("dl", *[join([tag("dt", name), tag("dd", text)]) for name, text in lines], class_="facts")


def _table(shown: Shown) -> Markup:
    head = tag("tr", *[tag("th", name, scope="col") for name in titles(shown)])
    lines = [cells(shown, row) for row in rows(shown, _ON_PAGE)]
    body = [tag("tr", tag("th", first, scope="row"), *[tag("td", text) for text in rest]) for first, *rest in lines]
    more = len(shown.estimate.values) - len(lines)
    by = "The most visited states first. " if shown.counts is not None else ""
    note = f"{by}{f'{more:,} more are in values.csv.' if more else 'The same numbers are in values.csv.'}"
    table = tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="scroll", tabindex="0", role="region")
    return join([table, tag("p", note, class_="note")])


def _promise(guarantee: Guarantee, said: list[tuple[str, str]]) -> Markup:
    promised = dict(said)["promise"]
    if guarantee.trust is Trust.NONE:
        return tag(
            "article",
            tag("h3", tag("span", "NO PRIVACY", class_="loud")),
            tag("p", tag("strong", promised)),
            class_="promise nobody",
        )
    stated = Promise(
        guarantee.trust,
        guarantee.epsilon,
        guarantee.delta,
        guarantee.relation,
        guarantee.users,
        guarantee.source,
        str(guarantee),
    )
    facts = [
        ("Who is protected", "Every user in the log, with all trajectories that are counted."),
        ("Against whom", AGAINST[guarantee.trust]),
        ("Who must be trusted", TRUSTED[guarantee.trust]),
        ("What it means", promised),
    ]
    items = [tag("li", text) for name, text in said if name == "assumed"]
    assumed = [tag("h4", "What is assumed"), tag("ul", *items)] if items else []
    limits = [tag("li", text) for text in not_protected(stated, returns_shown=False)]
    return tag(
        "article",
        tag("h3", NAMES[guarantee.trust]),
        tag(
            "div",
            _list(facts),
            tag("div", tag("h4", "What is NOT protected"), tag("ul", *limits), *assumed),
            class_="two",
        ),
        tag("p", tag("code", str(guarantee)), class_="stated"),
        class_="promise",
    )


def _certificate(certificate: Certificate | None) -> Markup:
    if certificate is None:
        return Markup("")
    check = tag("p", "Compute its promise again: ", tag("code", "confide verify certificate.json"))
    text = tag("pre", json.dumps(certificate.document, indent=2))
    return tag("section", tag("h2", "Certificate"), check, tag("details", tag("summary", "certificate.json"), text))
