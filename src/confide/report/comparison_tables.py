"""The tables of a comparison: results, pairs, failures, and the commands behind every curve."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from confide.experiments.analysis import Interval
from confide.experiments.summary import LEVEL, Pair
from confide.report.comparison_study import Curve, Study, final
from confide.report.comparison_words import ends, grown, interval, probability, reached, true_epsilon
from confide.report.figures import Json
from confide.report.html import options
from confide.report.markup import Markup, escape, join, tag
from confide.report.privacy_panel import copied
from confide.report.promises import count
from confide.report.words import number, percent

Cell = tuple[str, str, float | str | None]  # what is said, what is said in small print, and what it is sorted by; None: unknown

_LAST = 1e300  # sorts behind every epsilon: no privacy
_HEADS = ("agent", "problem", "privacy", "seeds", "regret", "of uniform", "of no privacy", "90 % after", "growth")
_PAIR_HEADS = ("agents", "problem", "privacy", "difference", "p", "p after Holm", "result")


def results(found: Study) -> tuple[Markup, Json]:
    """The table, and what its buttons copy."""
    heads = [*_HEADS, *(["last return"] if not all(map(found.known, found.problems)) else [])]
    lost = Counter((one["problem"], one["agent"], one["epsilon"]) for one in found.failures)
    failed = [lost[curve.group.problem, curve.group.agent, curve.group.epsilon] for curve in found.curves]
    rows = [(curve, _cells(curve, missing)[: len(heads)]) for curve, missing in zip(found.curves, failed, strict=True)]
    body = [
        tag(
            "tr",
            tag("th", swatch(curve), command_link(curve, curve.group.agent), scope="row"),
            *map(_td, cells[1:]),
            id=curve.anchor,
            data_row=str(i),
            data_promise="" if curve.reference else curve.group.promise,
        )
        for i, (curve, cells) in enumerate(rows)
    ]
    plain = [curve.row.plain() for curve in found.curves]
    return _table("results", heads, body), _copies(heads, [cells for _, cells in rows], plain)


def pair_table(pairs: Sequence[Pair]) -> tuple[Markup, Json]:
    rows = [_pair_cells(pair) for pair in pairs]
    body = [tag("tr", tag("th", cells[0][0], scope="row"), *map(_td, cells[1:]), data_row=str(i)) for i, cells in enumerate(rows)]
    return _table("pairs", _PAIR_HEADS, body), _copies(_PAIR_HEADS, rows, [pair.plain() for pair in pairs])


def commands(found: Study) -> Markup:
    """One fold per curve; comparison.js shows the same where a curve is clicked."""
    parts = []
    for problem in found.problems:
        own = found.on(problem)
        title = f"On {problem}: {len(own)} curves" if len(own) > 1 else f"On {problem}"
        parts.append(tag("details", tag("summary", title), *map(_fold, own), class_="folds"))
    return tag("section", tag("h2", "The commands behind the curves"), *parts, id="commands")


def failures(found: Study) -> Markup:
    """What did not run, by what it died of."""
    kinds: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in found.failures:
        kinds.setdefault((one["problem"], one["agent"], one["error"] or "no reason given"), []).append(one)
    if not kinds:
        return Markup("")
    parts = []
    for i, ((problem, agent, error), members) in enumerate(kinds.items()):
        text = Markup("\n".join(options(one["command"]) for one in members))
        times = "1 run" if len(members) == 1 else f"{len(members)} runs"
        parts += [tag("h3", f"{agent} on {problem}: {times}"), tag("p", error, class_="died")]
        parts.append(copied(f"failure-{i}", text, f"Copy the commands that fail: {agent} on {problem}"))
    note = tag("p", "Failed runs are in no figure and no table. These commands show them again, one at a time.", class_="note")
    return tag(
        "section",
        tag("h2", "1 run failed" if len(found.failures) == 1 else f"{count(len(found.failures))} runs failed"),
        note,
        *parts,
        id="failures",
    )


def command_link(curve: Curve, text: str) -> Markup:
    """To the commands of a curve: without a script, to their place further down."""
    label = f"{curve.label} on {curve.group.problem}: its commands"
    return tag("a", text, href=f"#commands-{curve.anchor}", class_="curve", data_curve=curve.anchor, aria_label=label)


def swatch(curve: Curve) -> Markup:
    return mark(curve.look.variable, curve.look.marker, "dot" if curve.reference else "solid" if curve.group.private else "dash")


def mark(variable: str, marker: int | None, dash: str) -> Markup:
    """A piece of a curve: its colour, its dash and its marker."""
    pattern = {"solid": "none", "dash": "6 5", "dot": "1.5 4"}[dash]
    line = tag("line", x1="1", y1="6", x2="27", y2="6", stroke=f"var({variable})", stroke_dasharray=pattern)
    shape = "" if marker is None or dash == "dot" else tag("path", d=_SHAPES[marker], fill=f"var({variable})", stroke="none")
    return tag("svg", line, shape, class_="swatch", viewBox="0 0 28 12", width="28", height="12", aria_hidden="true")


_SHAPES = (
    "M14 2a4 4 0 1 0 .01 0z",
    "M10.5 2.5h7v7h-7z",
    "M14 1l5 5-5 5-5-5z",
    "M14 1.5l4.6 8h-9.2z",
    "M14 10.5l4.6-8h-9.2z",
    "M12.5 1.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "M11 1.5l3 3 3-3 1.5 1.5-3 3 3 3-1.5 1.5-3-3-3 3L9.500 9l3-3-3-3z",
    "M14 .5l1.500 3.700 4 .3-3 2.600.9 3.900-3.400-2.100-3.400 2.100.9-3.900-3-2.600 4-.3z",
)  # in the order of comparison_figures.SYMBOLS


def facts(curve: Curve) -> str:
    """What a curve comes to, in one line."""
    row, figure = curve.row, final(curve)
    seeds = ", ".join(map(str, row.group.seeds))
    said = [f"{count(row.users)} users", f"seed {seeds}" if len(row.group.seeds) == 1 else f"seeds {seeds}"]
    if figure is not None:
        said.append(f"{'regret' if row.regret is not None else 'average return'} {interval(figure)}")
    if row.growth is not None and row.theorem is not None:
        said.append(f"growth {row.growth.against(row.theorem.exponent)} {row.theorem.locator}")
    return " · ".join([*said, row.group.guarantee])


def _fold(curve: Curve) -> Markup:
    title = f"{curve.label}, on {curve.group.problem}"
    text = Markup("\n".join(options(line) for line in curve.group.commands))
    return tag(
        "details",
        tag("summary", swatch(curve), title),
        tag("p", facts(curve), class_="stated"),
        copied(f"command-{curve.anchor}", text, f"Copy the commands of {title}"),
        id=f"commands-{curve.anchor}",
    )


def _cells(curve: Curve, failed: int) -> list[Cell]:
    row, group = curve.row, curve.group
    after = reached(row.reached) if row.reached is not None else ("–", "")
    return [
        (group.agent, "", group.agent),
        (group.problem, "", group.problem),
        ("reference" if curve.reference else group.promise, true_epsilon(row), _LAST if group.epsilon is None else group.epsilon),
        (str(len(group.seeds)), f"{failed} failed" if failed else "", len(group.seeds)),
        _figure(row.regret),
        ("–", "", None) if row.of_uniform is None else (percent(row.of_uniform.estimate), "", row.of_uniform.estimate),
        _figure(row.of_no_privacy, 2, " ×"),
        (*after, None if row.reached is None else min(row.reached.median, _LAST)),
        (*grown(row), None if row.growth is None else row.growth.slope),
        _figure(row.mean_return),
    ]


def _pair_cells(pair: Pair) -> list[Cell]:
    one = pair.compared
    result = f"{pair.better} is better" if pair.better else "not significant" if one.possible else "too few seeds"
    return [
        (f"{one.first} − {one.second}", "", f"{one.first} {one.second}"),
        (pair.problem, "", pair.problem),
        (pair.promise, "", pair.promise),
        _figure(one.difference),
        (probability(one.p), "", one.p),
        (probability(one.adjusted), "", one.adjusted),
        (result, "", result),
    ]


def _figure(figure: Interval | None, digits: int = 3, unit: str = "") -> Cell:
    if figure is None:
        return "–", "", None
    return number(figure.estimate, digits) + unit, ends(figure, digits), figure.estimate


def _td(cell: Cell) -> Markup:
    text, small, key = cell
    said = join([text, tag("small", small)]) if small else escape(text)
    if isinstance(key, str):
        return tag("td", said)
    return tag("td", said, data_key="" if key is None else repr(key), class_="number")


def _table(name: str, heads: Sequence[str], body: Sequence[Markup]) -> Markup:
    head = tag("tr", *[tag("th", tag("button", text, type="button"), scope="col") for text in heads])
    inner = tag("table", tag("thead", head), tag("tbody", *body), class_="sortable", id=f"table-{name}")
    buttons = [
        tag("button", f"Copy as {kind}", type="button", class_="copy-table", data_table=name, data_as=kind.lower())
        for kind in ("CSV", "Markdown")
    ]
    box = tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=f"Table of {name}")
    return join([tag("div", *buttons, class_="copies"), box])


def _copies(heads: Sequence[str], rows: Sequence[Sequence[Cell]], plain: Sequence[dict[str, Any]]) -> Json:
    """CSV is for machines: all digits, a column per number. Markdown is for people: the table as it looks."""
    said = [[text if not small else f"{text} ({small})" for text, small, _ in cells[: len(heads)]] for cells in rows]
    columns = list(plain[0]) if plain else []
    return {
        "markdown": {"heads": list(heads), "rows": said},
        "csv": {"heads": columns, "rows": [[row[column] for column in columns] for row in plain]},
    }


NOTE = (
    f"Means over seeds, with {100 * LEVEL:g}\u202f% confidence intervals from a studentised bootstrap: one number at a time, not all at "
    "once. Of uniform: regret over that of uniform play. Of no privacy: over that of the same agent without privacy, on the same seeds. "
    "90\u202f% after: the median over seeds of the number of users from which policies are, lastingly, 90\u202f% of the way from uniform "
    "to optimal play; a seed that never gets there counts as later than all others. Growth: the power of users that regret grew with over "
    "the last factor of ten, ± its standard error over seeds, and the exponent of the theorem where the agent’s paper has one. A window "
    "above a theorem’s exponent refutes no theorem, and one below it proves none."
)
