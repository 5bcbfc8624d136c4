"""The report of a comparison: one HTML file that needs nothing else, not even a network."""

import math
from datetime import UTC, datetime
from pathlib import Path

from confide.experiments.comparison import Comparison
from confide.privacy.request import Trust
from confide.report.comparison_figures import Panel, privacy_panels, regret_panels
from confide.report.comparison_study import OPEN, Curve, Ladder, Study, final, study
from confide.report.comparison_tables import NOTE, command_link, commands, failures, mark, pair_table, results
from confide.report.comparison_words import details, headline, interval, ranking, significance, unbroken
from confide.report.figures import Json
from confide.report.html import options, page
from confide.report.markup import Markup, join, tag
from confide.report.privacy_panel import copied
from confide.report.promises import AGAINST, NAMES, PROTECTED, TRUSTED, count
from confide.report.words import number

ALL = "all"


def write_comparison(comparison: Comparison, path: str | Path, *, title: str = "", command: str = "") -> Path:
    """Write the report of a comparison into one self-contained file, and say where it is. `command` is what makes all of it again."""
    found = study(comparison)
    regret, privacy = regret_panels(found), privacy_panels(found)
    table, copies = results(found)
    pairs, pair_copies = pair_table(found.pairs)
    parts = [
        _top(title or found.name, found),
        _words(found),
        _curves(found, regret),
        _cost(found, privacy),
        _ladders(found),
        tag("section", tag("h2", "Results"), _row_picks(found), table, tag("p", NOTE, class_="note"), id="results")
        if found.curves
        else "",
        _pairs(found, pairs),
        failures(found),
        _promises(found),
        commands(found) if found.curves else "",
        tag("section", tag("h2", "Do it again"), copied("command", options(command), "Copy the command")) if command else "",
        tag("footer", tag("p", f"Made {datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')}.")),
        _dialog(),
    ]
    data: Json = {
        "panels": {panel.key: panel.drawing for panel in (*regret, *privacy)},
        "tables": {"results": copies, "pairs": pair_copies},
        "promises": found.promises,
        "chosen": found.chosen,
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = page(title or found.name, join(parts), data, more=("comparison",))
    target.write_text(text, encoding="utf-8", newline="\n")
    return target


def _top(title: str, found: Study) -> Markup:
    private = [promise.removeprefix("ε = ") for promise in found.promises if promise != OPEN]
    promised = ([f"ε = {', '.join(private)}"] if private else []) + ([OPEN] if OPEN in found.promises else [])
    users = max((curve.row.users for curve in found.curves), default=0)
    runs = sum(len(curve.group.seeds) for curve in found.curves)
    facts = [
        _many(len(found.problems), "problem"),
        _many(len(found.learners), "learner"),
        " and ".join(promised),
        _many(found.seeds, "seed"),
        f"{count(users)} users",
        _many(runs, "run") + (f", {count(len(found.failures))} more failed" if found.failures else ""),
    ]
    return tag(
        "header",
        tag("p", tag("b", "confide"), " comparison", class_="brand"),
        tag("h1", title),
        tag("p", *[tag("span", fact) for fact in facts if fact], class_="meta"),
    )


def _many(number_of: int, what: str) -> str:
    return f"{count(number_of)} {what if number_of == 1 else what + 's'}"


def _words(found: Study) -> Markup:
    cards = [_card(found, problem) for problem in found.problems if ranking(found, problem, found.chosen)]
    return tag(
        "section",
        tag("p", unbroken(headline(found)), class_="headline"),
        tag("div", *cards, class_="cards") if cards else "",
        class_="result",
        aria_label="In words",
    )


def _card(found: Study, problem: str) -> Markup:
    order = ranking(found, problem, found.chosen)
    best = order[0][0]
    does = "lost least" if found.known(problem) else "earned most"
    under = f"{does if len(order) > 1 else 'is the only learner'}, {found.chosen}"
    return tag(
        "article",
        tag("h3", tag("span", problem)),
        tag(
            "p",
            tag("strong", mark(best.look.variable, best.look.marker, "solid"), best.group.agent),
            tag("span", under),
            class_="big",
        ),
        tag("ul", *[tag("li", unbroken(said)) for said in details(found, problem)], class_="details"),
        class_="card",
    )


def _curves(found: Study, panels: list[Panel]) -> Markup:
    if not panels:
        return Markup("")
    known = any(map(found.known, found.problems))
    unknown = not all(map(found.known, found.problems))
    said = "What all users so far have lost together, compared with optimal play; lower is better. " if known else ""
    said += (
        "Where the exact values of a problem are not known: what users earned on average, which no promise covers. "
        if unknown
        else ""
    )
    bands = "Shaded: 95\u202f% confidence bands over seeds, one point at a time. " if found.seeds > 1 else ""
    bands += "“All” shows every promise, the stricter the stronger, without bands. " if len(found.promises) > 1 else ""
    note = f"{said}{bands}Click a curve for the commands that made it; every name in the table of results leads there, too."
    return tag(
        "section",
        tag("h2", "Regret" if known else "Returns"),
        tag("div", _promise_picks(found), _scale_picks(), class_="controls"),
        _chips(found),
        _grid(panels),
        tag("p", note, class_="note"),
        id="curves",
    )


def _promise_picks(found: Study) -> Markup:
    """One promise at a time, beside the same learners without privacy; or all, without bands."""
    shown = [*found.promises, *([ALL] if len(found.promises) > 1 else [])]
    if len(shown) < 2:
        return Markup("")
    return _picks("Promise", "promise", [(promise, promise) for promise in shown], found.chosen)


def _row_picks(found: Study) -> Markup:
    """Which rows of the table are shown, and copied."""
    shown = [ALL, *found.promises]
    return _picks("Rows", "rows", [(promise, promise) for promise in shown], ALL) if len(shown) > 2 else Markup("")


def _scale_picks() -> Markup:
    return _picks("Axes", "scale", [("log", "log"), ("linear", "linear")], "log")


def _picks(label: str, name: str, given: list[tuple[str, str]], chosen: str) -> Markup:
    buttons = [
        tag(
            "button",
            text,
            type="button",
            class_="pick",
            data_kind=name,
            data_pick=key,
            aria_pressed="true" if key == chosen else "false",
        )
        for key, text in given
    ]
    return tag("div", *buttons, class_="picks", role="group", aria_label=label)


def _chips(found: Study) -> Markup:
    """The legend, which hides and shows; the same for all figures."""
    made = [
        tag("button", mark(look.variable, look.marker, "solid" if look.tone is not None else "dot"), agent, **_chip(agent))
        for agent, look in found.agents.items()
    ]
    if OPEN in found.promises and len(found.promises) > 1:
        made.append(tag("button", mark("--neutral", None, "dash"), OPEN, **_chip("", beside=True)))
    if "uniform" not in found.agents and any(map(found.gap, found.problems)):
        made.append(tag("span", mark("--neutral", None, "dot"), "uniform play", class_="chip still"))
    return tag("div", *made, class_="chips", role="group", aria_label="Show or hide")


def _chip(agent: str, *, beside: bool = False) -> dict[str, str | bool]:
    return {"type": "button", "class_": "chip", "data_agent": agent, "data_beside": beside, "aria_pressed": "true"}


def _grid(panels: list[Panel]) -> Markup:
    frames = [
        tag(
            "figure",
            tag("h3", panel.title),
            tag("div", id=panel.key, class_="plotly-graph-div", role="img", aria_label=panel.described),
            class_="plot",
            data_panel=panel.key,
        )
        for panel in panels
    ]
    return tag("div", *frames, class_="multiples")


def _cost(found: Study, panels: list[Panel]) -> Markup:
    if not panels:
        return Markup("")
    note = (
        "The end of each curve against the ε that was asked for, with 95\u202f% intervals. Dashed: the same learner without privacy. "
        "Dotted: uniform play. Click a point for its commands."
    )
    return tag(
        "section",
        tag("h2", "The cost of privacy"),
        _chips(found),
        _grid(panels),
        tag("p", note, class_="note"),
        id="privacy-cost",
    )


def _ladders(found: Study) -> Markup:
    """One fold of bars per promise; the one that is looked at is shown."""
    blocks = []
    for promise in found.promises:
        ladders = found.ladders(promise)
        if ladders:
            bars = [_ladder(found, ladder) for ladder in ladders]
            blocks.append(tag("div", *bars, class_="ladders", data_ladder=promise, hidden=promise != found.chosen))
    if not blocks:
        return Markup("")
    note = (
        "The same agent with the constants that its paper prints, with tight ones, and without privacy. "
        "Bars are on a logarithmic scale, a line per factor of ten; the dotted mark is uniform play."
    )
    return tag(
        "section", tag("h2", "From the paper’s constants to tight ones"), *blocks, tag("p", note, class_="note"), id="ladder"
    )


def _ladder(found: Study, ladder: Ladder) -> Markup:
    figures = [figure.estimate for _, curve in ladder.rungs if (figure := final(curve)) is not None]
    gap = found.gap(ladder.problem)
    uniform = None if gap is None else gap * ladder.rungs[0][1].row.users
    low = math.floor(math.log10(min((one for one in figures if one > 0), default=1.0)) - 0.2)
    high = math.log10(max([10.0 ** (low + 1), *figures, uniform or 0.0])) + 0.02

    def place(value: float) -> float:
        return 100 * min(max((math.log10(value) - low) / (high - low), 0.005), 1.0) if value > 0 else 0.5

    step = f"--decade:{100 / (high - low):.3f}%"
    rungs = []
    for (name, curve), value, before in zip(ladder.rungs, figures, [None, *figures], strict=False):
        regret = curve.row.regret
        fall = "" if before is None or not 0 < value < before else f"{number(before / value, 2)} times less"
        told = "" if regret is None else interval(regret)
        bar = tag("i", style=f"width:{place(value):.2f}%;background:var({curve.look.variable})")
        dotted = "" if uniform is None else tag("b", style=f"left:{place(uniform):.2f}%")
        rungs.append(
            tag(
                "li",
                tag("span", command_link(curve, name), class_="rung"),
                tag("span", bar, dotted, class_="track", style=step, aria_hidden="true"),
                tag("span", tag("strong", told), " ", tag("small", fall), class_="told"),
            )
        )
    title = f"{ladder.agent} on {ladder.problem}, {ladder.promise}"
    return tag("article", tag("h3", title), tag("ol", *rungs), class_="card ladder")


def _pairs(found: Study, table: Markup) -> Markup:
    if not found.pairs:
        return Markup("")
    paired = any(pair.compared.paired for pair in found.pairs)
    how = "flipping the signs of differences of the same seed" if paired else "exchanging the labels of seeds"
    note = (
        "Differences of mean regret (of return, where regret is not known) between agents on the same problem under the same promise. The "
        f"p-values are those of a permutation test ({how}), corrected by Holm for all {len(found.pairs)} pairs together; intervals are "
        "for one pair alone."
    )
    many = len(found.pairs) > 12
    inner = tag("details", tag("summary", f"All {len(found.pairs)} pairs"), table) if many else table
    return tag(
        "section",
        tag("h2", "What is more than luck"),
        tag("p", significance(found)),
        inner,
        tag("p", note, class_="note"),
        id="pairs",
    )


def _promises(found: Study) -> Markup:
    kinds = {Trust(curve.group.trust) for curve in found.curves if curve.group.private}
    cards = [_promise(found, trust) for trust in sorted(kinds, key=lambda trust: trust.value)]
    if OPEN in found.promises:
        nobody = "Nobody is protected where no noise was added. Those runs are here to show what privacy costs."
        cards.append(
            tag("article", tag("h3", tag("span", "NO PRIVACY", class_="loud")), tag("p", nobody), class_="promise nobody")
        )
    return tag("section", tag("h2", "Privacy"), tag("div", *cards, class_="promises"), id="privacy") if cards else Markup("")


def _promise(found: Study, trust: Trust) -> Markup:
    own = [curve for curve in found.curves if curve.group.trust == trust.value]
    rows = [
        ("Who is protected", PROTECTED),
        ("Against whom", AGAINST[trust]),
        ("Who must be trusted", TRUSTED[trust]),
        ("How much", _how_much(own)),
        ("Noise", "From seeded generators: for simulation only. Whoever knows the seed can take it off again."),
    ]
    listed = tag("dl", *[join([tag("dt", name), tag("dd", text)]) for name, text in rows], class_="facts")
    return tag("article", tag("h3", NAMES[trust]), listed, class_="promise")


def _how_much(own: list[Curve]) -> str:
    deltas = {curve.group.delta for curve in own if curve.group.delta is not None}
    asked = sorted({curve.group.epsilon for curve in own if curve.group.epsilon is not None})
    said = f"ε = {', '.join(f'{one:g}' for one in asked)}, δ = {', '.join(f'{one:g}' for one in sorted(deltas))}."
    stricter = {
        curve.group.agent for curve in own if (true := curve.group.true_epsilon) and true < 0.95 * (curve.group.epsilon or 0.0)
    }
    return f"{said} The noise of {', '.join(sorted(stricter))} gives less: see the table." if stricter else said


def _dialog() -> Markup:
    """Where comparison.js shows the commands of the curve that was clicked."""
    close = tag("button", "Close", type="button", class_="close")
    return tag(
        "dialog",
        tag("div", tag("h2", id="shown-title"), close, class_="bar-top"),
        tag("p", id="shown-facts", class_="stated"),
        copied("shown-commands", "", "Copy the commands of this curve"),
        tag("p", tag("a", "Its row in the table", href="#results", id="shown-row"), class_="note"),
        id="shown",
        aria_labelledby="shown-title",
    )
