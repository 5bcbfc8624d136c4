"""The report of a comparison: one HTML file that works offline."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confide.comparison import tables
from confide.comparison.figures import charts, ladder_chart
from confide.comparison.looks import agent_looks, look_of
from confide.comparison.privacy_cards import promises
from confide.comparison.promise import OPEN
from confide.comparison.row import Row
from confide.comparison.words import (
    best_details,
    details,
    headline,
    interval,
    remarks,
    significance,
)
from confide.learning.question import Question
from confide.privacy import words
from confide.report import page
from confide.report.charts import MARKERS, Chart, Look
from confide.report.words import count, many, number, percent

if TYPE_CHECKING:
    from confide.comparison.comparison import Comparison

ALL = "all"
_FEW = 6  # curves on a problem that can be looked at together


def write_comparison(comparison: "Comparison", path: str | Path, *, command: str = "") -> Path:
    """The same page for every comparison, whether its runs are from `confide run`, from Python or from a sweep."""
    sections, results, pairs = (
        _sections(comparison),
        tables.results(comparison),
        tables.pairs(comparison),
    )
    many_rows = max(
        (
            sum(not row.reference for row in comparison.on(problem))
            for problem in comparison.problems
        ),
        default=0,
    )
    data = {
        "charts": {key: chart.to_json() for section in sections for key, chart in section.charts},
        "tables": {"results": results.copies, "pairs": pairs.copies},
        "promises": [promise.key for promise in comparison.promises],
        "labels": {promise.key: str(promise) for promise in comparison.promises},
        "open": OPEN.key,
        "shapes": MARKERS,
        "chosen": comparison.chosen.key,
        "first": ALL if many_rows <= _FEW else comparison.chosen.key,
        "few": many_rows <= _FEW,
    }
    labels = {promise.key: str(promise) for promise in comparison.promises}
    own = list(dict.fromkeys(line for row in comparison.rows for line in row.commands if line))
    text = page.render(
        "comparison.html",
        data=data,
        title=comparison.name,
        comparison=comparison,
        facts=_facts(comparison),
        headline=headline(comparison),
        remarks=remarks(comparison),
        cards=_cards(comparison),
        sections=sections,
        looks=agent_looks(comparison),
        first=data["first"],
        picks=[*labels.items(), (ALL, ALL)] if len(labels) > 1 else [],
        row_picks=[(ALL, ALL), *labels.items()] if len(labels) > 1 else [],
        beside=OPEN in comparison.promises and len(labels) > 1,
        chosen=data["chosen"],
        draws_uniform="uniform" not in comparison.agents
        and any(map(comparison.gap, comparison.problems)),
        ladders={
            promise.key: found
            for promise in comparison.promises
            if (found := [_bars(comparison, one) for one in comparison.ladders(promise)])
        },
        results=results,
        results_note=tables.RESULTS_NOTE,
        pairs=pairs,
        paired=any(pair.compared.paired for pair in comparison.pairs),
        significance=significance(comparison),
        failures=_failures(comparison),
        promises=promises(
            comparison.rows, returns_shown=not all(map(comparison.known, comparison.problems))
        ),
        references=[agent for agent in comparison.agents if agent not in comparison.learners],
        questions=_questions(comparison),
        certificates=_certificates(comparison),
        folds=_folds(comparison) if own and own != [command] and len(own) > 1 else {},
        commands=[command] if command else own if len(own) == 1 else [],
        recorded=bool(own or command),
        foot=_foot(comparison),
    )
    return page.write(text, path)


@dataclass(frozen=True, slots=True)
class Section:
    """Figures of one kind."""

    id: str
    title: str
    note: str
    # By the id of the element that it is drawn in.
    charts: Sequence[tuple[str, Chart]]


_SECTIONS = {
    "value": (
        "Value",
        "Expected return of the policy that serves each user, computed exactly. A learner starts near uniform play and approaches "
        "optimal play.",
    ),
    "noise": (
        "Noise against signal",
        "Solid: the standard deviation of the noise in the statistics that the policy was planned from. Dashed: the signal. Learning "
        "starts where the dashed line rises above the solid one.",
    ),
    "privacy": (
        "The cost of privacy",
        "The end of each curve against the requested ε, with 95\u202f% intervals. Dashed: the same learner without privacy. "
        "Dotted: uniform play.",
    ),
}


def _sections(comparison: "Comparison") -> list[Section]:
    known, unknown = (
        any(comparison.known(p) is kind for p in comparison.problems) for kind in (True, False)
    )
    lost = (
        "The total loss of all users so far, compared with optimal play; lower is better. "
        if known
        else ""
    )
    lost += "Uniform play loses the same amount with every user. " if known else ""
    lost += (
        "For problems whose exact values are not known: the average return of users, which is not covered by any guarantee. "
        if unknown
        else ""
    )
    bands = (
        "Shaded: pointwise 95\u202f% confidence bands over seeds. " if comparison.seeds > 1 else ""
    )
    given = [
        ("regret", "Regret" if known else "Return", lost + bands),
        *((key, *said) for key, said in _SECTIONS.items()),
    ]
    made = [Section(key, title, note, _keyed(comparison, key)) for key, title, note in given]
    return [section for section in made if section.charts]


def _keyed(comparison: "Comparison", what: str) -> list[tuple[str, Chart]]:
    found = charts(comparison, what)
    if what == "privacy":
        # One point is no curve.
        found = [chart for chart in found if any(len(one.x) > 1 for one in chart.series)]
    return [(f"{what}-{i}", chart) for i, chart in enumerate(found)]


def _facts(comparison: "Comparison") -> list[str]:
    private = [f"{epsilon:.4g}" for epsilon in comparison.epsilons]
    promised = ([f"ε = {', '.join(private)}"] if private else []) + (
        [words.NO_PRIVACY_LABEL] if OPEN in comparison.promises else []
    )
    runs = sum(len(row.seeds) for row in comparison.rows)
    few = ", ".join(comparison.problems)
    said = [
        few if len(few) < 60 and comparison.problems else many(len(comparison.problems), "problem"),
        many(len(comparison.learners), "learner"),
        " and ".join(promised),
        many(comparison.seeds, "seed"),
        many(comparison.users, "user"),
        many(runs, "run")
        + (f", {count(len(comparison.failures))} more failed" if comparison.failures else ""),
    ]
    return [fact for fact in said if fact]


@dataclass(frozen=True, slots=True)
class Card:
    """A learner, or a problem and its best learner."""

    title: str
    badge: tuple[str, str] | None  # its kind, and what is on it
    look: Look | None
    big: str
    small: str
    share: float | None  # of optimal, for the bar
    details: Sequence[str]


def _cards(comparison: "Comparison") -> list[Card]:
    """On one problem a card per learner; on several a card per problem."""
    if len(comparison.problems) > 1:
        return [
            _problem_card(comparison, problem)
            for problem in comparison.problems
            if comparison.ranking(problem, comparison.chosen)
        ]
    learners = [row for row in comparison.rows if not row.reference]
    shown = (
        learners
        if len(learners) <= _FEW
        else [row for row in learners if row.promise in (comparison.chosen, OPEN)]
    )
    return [_learner_card(comparison, row) for row in shown]


def _learner_card(comparison: "Comparison", row: Row) -> Card:
    if row.share is not None:
        big, small = percent(row.share.estimate), "of optimal: 0\u202f% is uniform play"
    elif row.value is not None:
        big, small = number(row.value.estimate), "value of the last policy"
    else:
        big, small = (
            ("unknown" if row.final is None else interval(row.final)),
            "average return per user",
        )
    kind = "private" if row.private else "none"
    badge = f"{row.trust.value.capitalize()} DP, {row.promise}" if row.private else words.NO_PRIVACY
    look = look_of(row, agent_looks(comparison))
    said = details(comparison, row)
    return Card(
        row.agent,
        (kind, badge),
        look,
        big,
        small,
        None if row.share is None else row.share.estimate,
        said,
    )


def _problem_card(comparison: "Comparison", problem: str) -> Card:
    if comparison.nobody_learned(problem):
        said = (
            "no learner is significantly better than uniform play"
            if comparison.seeds > 1
            else "no learner is better than uniform play"
        )
        return Card(problem, None, None, "No agent learned", said, None, [])
    best, *others = comparison.ranking(problem, comparison.chosen)
    does = "lost least" if comparison.known(problem) else "earned most"
    under = f"{does if others else 'is the only learner'}, {comparison.chosen}"
    share = None if best.share is None else best.share.estimate
    return Card(
        problem,
        None,
        look_of(best, agent_looks(comparison)),
        best.agent,
        under,
        share,
        best_details(comparison, problem),
    )


def _bars(comparison: "Comparison", rungs: Mapping[str, Row]) -> dict[str, Any]:
    """The chart of a ladder as a list: bars on a logarithmic scale, in percent of the width. The mark is uniform play."""
    chart = ladder_chart(comparison, rungs, several=True)
    low, high = (math.log10(end) for end in chart.bar_range)
    high += 0.02

    def place(value: float) -> float:
        if value <= 0:
            return 0.5
        return 100 * min(max((math.log10(value) - low) / (high - low), 0.005), 1.0)

    rows = {row.anchor: row for row in rungs.values()}
    made = []
    before = 0.0
    for bar in chart.bars:
        row = rows[bar.row]
        fall = f"{number(before / bar.value, 2)} times less" if 0 < bar.value < before else ""
        made.append(
            {
                "name": bar.name,
                "row": row,
                "width": place(bar.value),
                "told": "" if row.regret is None else interval(row.regret),
                "fall": fall,
                "colour": bar.look.variable,
            }
        )
        before = bar.value
    first = rungs["paper"]
    return {
        "title": f"{first.variant} on {first.problem}, {first.promise}",
        "decade": 100 / (high - low),
        "mark": None if chart.mark is None else place(chart.mark),
        "rungs": made,
    }


def _failures(comparison: "Comparison") -> list[dict[str, Any]]:
    """What did not run, by its error."""
    kinds: dict[tuple[str, str, str], list[str]] = {}
    for one in comparison.failures:
        kinds.setdefault(
            (one["problem"], one["agent"], one["error"] or "unknown error"), []
        ).append(one["command"])
    return [
        {
            "title": f"{agent} on {problem}: {many(len(commands), 'run')}",
            "error": error,
            "commands": commands,
        }
        for (problem, agent, error), commands in kinds.items()
    ]


def _folds(comparison: "Comparison") -> dict[str, list[dict[str, Any]]]:
    """By problem, one per curve: what it comes to, and the commands that made it."""
    looks = agent_looks(comparison)
    return {
        problem: [
            {
                "anchor": row.anchor,
                "title": f"{row.label}, on {problem}",
                "look": look_of(row, looks),
                "facts": tables.facts(row),
                "commands": list(dict.fromkeys(row.commands)),
            }
            for row in comparison.on(problem)
        ]
        for problem in comparison.problems
    }


def _questions(comparison: "Comparison") -> list[dict[str, Any]]:
    """What users were asked, round by round: of the first seed of each learner that asks."""
    found = []
    for row in comparison.rows:
        seeds = zip(row.seeds, row.questions, strict=False)
        for seed, asked in [(seed, asked) for seed, asked in seeds if asked][:1]:
            rounds: dict[int, list[Question]] = {}
            for question in asked:
                rounds.setdefault(question.round, []).append(question)
            title = f"{row.label}, on {row.problem}, seed {seed}: {many(len(asked), 'question')} in {many(len(rounds), 'round')}"
            found.append({"title": title, "rounds": [_round(own) for own in rounds.values()]})
    return found


def _round(asked: Sequence[Question]) -> dict[str, Any]:
    first = asked[0]
    users = f"users {count(first.first)} to {count(first.first + first.users - 1)}"
    told = [(question.asked, _told(question)) for question in asked]
    return {
        "title": f"Round {first.round}: {users}, {many(len(asked), 'question')}",
        "served": first.served,
        "asked": told,
    }


def _told(question: Question) -> list[tuple[str, str]]:
    why = f"expected to remove {percent(question.removes)} of what is uncertain about values"
    return [("Answers", question.said), ("Why", why), ("Yes", question.yes), ("No", question.no)]


def _certificates(comparison: "Comparison") -> list[tuple[str, str]]:
    """Each certificate once: seeds of one row differ only in the time when theirs was made."""
    made: list[tuple[str, str]] = []
    for row in comparison.rows:
        found: dict[str, tuple[str, str]] = {}
        for seed, certificate in zip(row.seeds, row.certificates, strict=False):
            if certificate is not None:
                facts = {
                    key: value for key, value in certificate.document.items() if key != "created"
                }
                title = f"{row.label}, on {row.problem}, seed {seed}"
                found.setdefault(
                    json.dumps(facts, sort_keys=True),
                    (title, json.dumps(certificate.document, indent=2)),
                )
        made += found.values()
    return made


def _foot(comparison: "Comparison") -> list[str]:
    versions: dict[str, list[str]] = {}
    for name, version in dict.fromkeys(item for row in comparison.rows for item in row.versions):
        versions.setdefault(name, []).append(version)
    seconds = [second for row in comparison.rows for second in row.seconds]
    said = [f"{many(len(seconds), 'run')} in {number(sum(seconds), 2)} seconds."] if seconds else []
    return said + (
        [", ".join(f"{name} {' and '.join(numbers)}" for name, numbers in versions.items()) + "."]
        if versions
        else []
    )
