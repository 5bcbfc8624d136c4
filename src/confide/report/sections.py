"""The sections of the report on one world: the result, its figures, and the table."""

from confide.report.bands import FEW
from confide.report.figures import Figure, figures
from confide.report.looks import Look, looks
from confide.report.markup import Markup, escape, join, tag
from confide.report.promises import count
from confide.report.series import Series, World, short
from confide.report.words import headline, number, percent, plus_minus, share_of_uniform, times

_DASHES = {"solid": "none", "dash": "7 4", "dot": "1.5 4", "dashdot": "7 3 1.5 3"}


def result(world: World, *, named: bool) -> Markup:
    """The headline and a card per learner."""
    shown = [(series, look) for series, look in zip(world.series, looks(world), strict=True) if not series.reference]
    cards = [card(world, series, look) for series, look in shown]
    return tag(
        "section",
        tag("h2", f"On {world.name}") if named else "",
        tag("p", headline(world), class_="headline"),
        tag("div", *cards, class_="cards") if cards else "",
        *[tag("p", said, class_="note") for said in remarks(world)],
        class_="result",
        aria_label=f"Result on {world.name}",
    )


def card(world: World, series: Series, look: Look) -> Markup:
    progress = world.progress(series.final_value().mean) if world.exact else None
    if progress is not None:
        big, small = percent(progress), "of the way from uniform to optimal play"
    elif world.exact:
        big, small = number(series.final_value().mean), "value of the last policy"
    else:
        big, small = plus_minus(series.mean_return()), "average return per user"
    return tag(
        "article",
        tag("h3", swatch(look), tag("span", series.agent), badge(series)),
        tag("p", tag("strong", big), " ", tag("span", small), class_="big"),
        _bar(progress, look) if progress is not None else "",
        tag("ul", *[tag("li", said) for said in _details(world, series)], class_="details"),
        class_="card",
    )


def badge(series: Series) -> Markup:
    """The promise at a glance; no privacy is shouted."""
    if series.reference:
        return tag("span", "reference", class_="badge quiet")
    kind = "private" if series.promise.private else "none" if series.promise.trust is not None else "quiet"
    words = {
        "private": f"{str(series.promise.trust).capitalize()} DP, {short(series.promise)}",
        "none": "NO PRIVACY",
        "quiet": "see below",
    }[kind]
    return tag("span", words, class_=f"badge {kind}")


def swatch(look: Look) -> Markup:
    line = tag("line", x1="1", y1="5", x2="27", y2="5", stroke=f"var({look.variable})", stroke_dasharray=_DASHES[look.dash])
    return tag("svg", line, class_="swatch", viewBox="0 0 28 10", width="28", height="10", aria_hidden="true")


def _bar(progress: float, look: Look) -> Markup:
    width = f"{100 * min(max(progress, 0.0), 1.0):.1f}"
    fill = tag("i", style=f"width:{width}%;background:var({look.variable})")
    return tag("div", fill, class_="bar", role="img", aria_label=f"{percent(progress)} of the way from uniform to optimal play")


def _details(world: World, series: Series) -> list[str]:
    seeds = f"{len(series.runs)} seeds" if len(series.runs) > 1 else f"seed {series.runs[0].seed}"
    said = [f"{count(series.users)} users, {seeds}"]
    if world.exact:
        share = share_of_uniform(world, series)
        beside = f", {percent(share)} of uniform play’s" if share is not None else ""
        said.insert(0, f"regret {plus_minus(series.final_regret())}{beside}")
    if series.promise.private and (ratio := times(world, series)) is not None:
        said.insert(1, f"{number(ratio, 2)} times its regret without privacy")
    if series.promise.stricter:
        said.append(series.promise.stricter)
    return said


def remarks(world: World) -> list[str]:
    """What a reader must know before trusting the figures."""
    said = []
    for series in world.series:
        if not series.interrupted:
            continue
        stops = ", ".join(
            f"seed {run.seed} after {count(run.episodes)} of {count(run.planned_episodes)} users" for run in series.interrupted
        )
        kept = "left out of all figures" if series.runs[0].complete else f"the figures stop at {count(series.users)} users"
        said.append(f"{series.label} was interrupted ({stops}): {kept}.")
    seeds = {len(series.runs) for series in world.series} - {1}
    kinds = {
        "95\u202f% confidence intervals (Student’s t)": any(n >= FEW for n in seeds),
        f"with fewer than {FEW} seeds, from the lowest to the highest": any(n < FEW for n in seeds),
    }
    if seeds:
        bands = ", ".join(kind for kind, there in kinds.items() if there)
        said.append(f"Lines are means over seeds; shaded bands: {bands}; ± is one standard error.")
    return said


def plots(world: World, place: int) -> tuple[Markup, dict[str, Figure]]:
    """The figures' frames, and the figures by the id of the frame that report.js draws them into."""
    made = {f"{figure.key}-{place}": figure for figure in figures(world)}
    frames = [frame(world, key, figure) for key, figure in made.items()]
    silent = [series.label for series in world.learners if not series.noisy]
    if silent:
        said = f"{', '.join(silent)}: no noise was added to what the policy was planned from, so there is no noise to show."
        frames.append(tag("p", said, class_="note wide"))
    return tag("section", *frames, class_="plots", aria_label=f"Figures on {world.name}", data_world=str(place)), made


def frame(world: World, key: str, figure: Figure) -> Markup:
    used = {trace["series"] for trace in figure.drawing["traces"]}
    chips = [
        tag("button", swatch(look), series.label, type="button", class_="chip", data_series=str(i), aria_pressed="true")
        for i, (series, look) in enumerate(zip(world.series, looks(world), strict=True))
        if i in used
    ]
    if None in used:
        chips.append(tag("span", swatch(Look(None, "dot")), "uniform play", class_="chip still"))
    scales = [
        tag("button", name, type="button", class_="scale", data_scale=name, aria_pressed="true" if name == "log" else "false")
        for name in ("log", "linear")
    ]
    return tag(
        "figure",
        tag(
            "div",
            tag("h3", figure.title),
            tag("div", *scales, class_="scales", role="group", aria_label="Axes"),
            class_="bar-top",
        ),
        tag("div", *chips, class_="chips", role="group", aria_label="Show or hide"),
        tag("div", id=key, class_="plotly-graph-div", role="img", aria_label=figure.described),
        tag("figcaption", figure.caption),
        class_=f"plot {figure.key}",
        data_figure=key,
    )


def table(world: World) -> Markup:
    """Final figures, one row per series; report.js makes the heads sort."""
    heads = ["agent", "privacy", "seeds", "users"]
    heads += (
        ["regret, mean", "± s.e.", "median", "of uniform", "last value", "of the way"]
        if world.exact
        else ["return, mean", "± s.e.", "median"]
    )
    heads.append("seconds")
    head = tag("tr", *[tag("th", tag("button", _two_lines(text), type="button"), scope="col") for text in heads])
    rows = [
        tag("tr", tag("th", swatch(look), series.agent, scope="row"), *[_cell(text, key) for text, key in _row(world, series)])
        for series, look in zip(world.series, looks(world), strict=True)
    ]
    inner = tag("table", tag("thead", head), tag("tbody", *rows), class_="sortable")
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=f"Final figures on {world.name}")


def _two_lines(heading: str) -> Markup:
    """Figures are narrower than what they are called: headings in one line would push the last column off the page."""
    first, _, last = heading.rpartition(" ")
    return join([first, Markup("<br>"), last]) if len(heading) > 8 and first else escape(heading)


def _cell(text: str, key: float | None) -> Markup:
    return tag("td", text) if key is None else tag("td", text, data_key=repr(key), class_="number")


def _row(world: World, series: Series) -> list[tuple[str, float | None]]:
    figure = series.final_regret() if world.exact else series.mean_return()
    row: list[tuple[str, float | None]] = [
        ("reference" if series.reference else short(series.promise), None),
        (_seeds(series), len(series.runs)),
        (count(series.users), series.users),
        (number(figure.mean, 4), figure.mean),
        ("–" if figure.error is None else number(figure.error, 2), figure.error or 0.0),
        (number(figure.median, 4), figure.median),
    ]
    if world.exact:
        value, share = series.final_value().mean, share_of_uniform(world, series)
        progress = world.progress(value)
        row += [
            ("–" if share is None else percent(share), share or 0.0),
            (number(value, 4), value),
            ("–" if progress is None else percent(progress), progress or 0.0),
        ]
    seconds = sum(run.seconds for run in series.runs) / len(series.runs)
    return [*row, (number(seconds, 2), seconds)]


def _seeds(series: Series) -> str:
    """How many, and which."""
    seeds = sorted(run.seed for run in series.runs)
    if len(seeds) == 1:
        return f"1 ({seeds[0]})"
    running = seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{len(seeds)} ({seeds[0]}–{seeds[-1]})" if running else f"{len(seeds)} ({seeds[0]}, …, {seeds[-1]})"


def tables(found: list[World]) -> Markup:
    pieces = [join([tag("h3", f"On {world.name}") if len(found) > 1 else "", table(world)]) for world in found]
    return tag("section", tag("h2", "Final figures"), *pieces)
