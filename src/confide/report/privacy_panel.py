"""Who is protected against whom, and what is not: one card per promise, and the certificates behind them."""

import json

from confide.privacy.request import Trust
from confide.report.markup import Markup, escape, join, tag
from confide.report.promises import (
    AGAINST,
    NAMES,
    PROTECTED,
    SOURCES,
    TRUSTED,
    Promise,
    count,
    meaning,
    not_protected,
    odds,
    relation_words,
    small,
)
from confide.report.series import Series, World

_FAST = (
    " Fast noise comes from a seeded generator in floating point: whoever knows the seed, and it is part of this report, "
    "can take the noise off again. Data of real people need the secure source."
)


def panel(found: list[World]) -> Markup:
    """One card per kind of promise; reference play, which learns from nobody, in one line."""
    kinds: dict[tuple[object, ...], dict[tuple[str, str], Series]] = {}
    for world in found:
        for series in world.learners:
            promise = series.promise
            kind = (promise.trust, promise.relation, promise.source, None if promise.private else promise.stated)
            kinds.setdefault(kind, {}).setdefault((series.agent, promise.stated), series)
    returns_shown = any(not world.exact for world in found)
    ordered = sorted(kinds.values(), key=lambda members: next(iter(members.values())).promise.trust is Trust.NONE)
    cards = [_card(list(members.values()), returns_shown=returns_shown) for members in ordered]
    references = list(dict.fromkeys(s.agent for world in found for s in world.series if s.reference))
    quiet = (
        f"{', '.join(references)}: one fixed policy for everybody. It learns from nobody, so nothing is promised."
        if references
        else ""
    )
    return tag(
        "section",
        tag("h2", "Privacy"),
        tag("div", *cards, class_="promises") if cards else "",
        tag("p", quiet, class_="note") if quiet else "",
        id="privacy",
    )


def _card(members: list[Series], *, returns_shown: bool) -> Markup:
    promise = members[0].promise
    if promise.trust is Trust.NONE:
        return _nobody(list(dict.fromkeys(series.agent for series in members)))
    limits = [tag("li", said) for said in not_protected(promise, returns_shown=returns_shown)]
    known = promise.private
    return tag(
        "article",
        tag("h3", NAMES[promise.trust]),
        *([_given(series) for series in members] if known else [tag("p", *[tag("b", series.agent) for series in members])]),
        tag(
            "div",
            _facts(promise)
            if known
            else tag("p", "This guarantee is not worded as confide words its own: read it as it stands."),
            tag("div", tag("h4", "What is NOT protected"), tag("ul", *limits)),
            class_="two",
        ),
        tag("p", tag("b", "Simulation only."), _FAST, class_="warning") if promise.source == "fast" else "",
        tag("p", *[tag("code", text) for text in dict.fromkeys(series.promise.stated for series in members)], class_="stated"),
        class_="promise" if known else "promise unknown",
    )


def _nobody(agents: list[str]) -> Markup:
    return tag(
        "article",
        tag("h3", tag("span", "NO PRIVACY", class_="loud"), tag("span", ", ".join(agents))),
        tag(
            "p",
            tag("strong", "Nobody is protected."),
            " No noise was added: what this learner does may reveal any user’s data to anybody.",
        ),
        tag("p", "It is here to show what privacy costs. Do not use it on the data of people who were promised anything."),
        class_="promise nobody",
    )


def _given(series: Series) -> Markup:
    promise = series.promise
    figures = [
        ("ε = ", f"{promise.epsilon:.4g}"),
        ("δ = ", small(promise.delta)),
        ("factor e^ε = ", odds(promise.epsilon)),
        ("", count(promise.users)),
    ]
    spans = [tag("span", _raised(name), tag("em", figure), " users" if not name else "") for name, figure in figures]
    if promise.stricter:
        spans.append(tag("span", promise.stricter))
    return tag("p", tag("b", series.agent), *spans, class_="given")


def _facts(promise: Promise) -> Markup:
    rows = [
        ("Who is protected", PROTECTED),
        ("Against whom", AGAINST[promise.trust]),
        ("Who must be trusted", TRUSTED[promise.trust]),
        ("What it means", meaning(promise)),
        ("Neighbours", relation_words(promise)),
        ("Noise", SOURCES.get(promise.source, promise.source)),
    ]
    return tag("dl", *[join([tag("dt", name), tag("dd", _raised(text))]) for name, text in rows], class_="facts")


def _raised(text: str) -> Markup:
    return Markup(escape(text).replace("e^ε", "e<sup>ε</sup>"))


def certificates(found: list[World]) -> Markup:
    """Each certificate once: seeds of one series differ in the time it was made only."""
    pieces: list[Markup] = []
    for world in found:
        for series in world.series:
            for seed, text in _distinct(series).items():
                place = f"certificate-{len(pieces)}"
                title = f"{series.label}, on {world.name}, seed {seed}"
                pieces.append(_certificate(place, title, text))
    if not pieces:
        return Markup("")
    check = tag(
        "p",
        "Save one as ",
        tag("code", "certificate.json"),
        " and compute its promise again: ",
        tag("code", "confide verify certificate.json"),
    )
    return tag("section", tag("h2", "Certificates"), check, *pieces, id="certificates")


def _distinct(series: Series) -> dict[int, str]:
    found: dict[str, tuple[int, str]] = {}
    for run in series.runs:
        if run.certificate is not None:
            facts = {key: value for key, value in run.certificate.document.items() if key != "created"}
            found.setdefault(json.dumps(facts, sort_keys=True), (run.seed, json.dumps(run.certificate.document, indent=2)))
    return dict(found.values())


def _certificate(place: str, title: str, text: str) -> Markup:
    return tag(
        "details",
        tag("summary", title),
        copied(place, text, f"Copy the certificate of {title}"),
    )


def copied(place: str, text: str, label: str) -> Markup:
    """Text with a button that copies it."""
    button = tag("button", "Copy", type="button", class_="copy", data_copy=place, aria_label=label)
    return tag("div", tag("pre", text, id=place, tabindex="0"), button, class_="copied")
