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
from confide.report.tables import ReportTable
from confide.report.words import count, many, number, percent

if TYPE_CHECKING:
    from confide.comparison.comparison import Comparison

ALL = "all"
# So many curves on one problem can be looked at together. A matter of taste.
_FEW_CURVES = 6
# The header names the problems if their names have fewer characters than this. A matter of taste.
_PROBLEM_CHARACTERS = 60


def write_comparison(comparison: "Comparison", path: str | Path, *, command: str = "") -> Path:
    """Write the page of a comparison, and return its path.

    The page is the same whether its runs are from `confide run`, from Python or from a sweep.
    """
    sections = _sections(comparison)
    results = tables.results(comparison)
    pairs = tables.pairs(comparison)
    data = _data(comparison, sections, results, pairs)
    labels = data["labels"]
    has_choice = len(labels) > 1
    run_commands = [line for row in comparison.rows for line in row.commands if line]
    own = list(dict.fromkeys(run_commands))
    regret_known = [comparison.known(problem) for problem in comparison.problems]
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
        picks=[*labels.items(), (ALL, ALL)] if has_choice else [],
        row_picks=[(ALL, ALL), *labels.items()] if has_choice else [],
        beside=OPEN in comparison.promises and has_choice,
        chosen=data["chosen"],
        draws_uniform=_draws_uniform_play(comparison),
        ladders=_ladders(comparison),
        results=results,
        results_note=tables.RESULTS_NOTE,
        pairs=pairs,
        paired=any(pair.compared.paired for pair in comparison.pairs),
        significance=significance(comparison),
        failures=_failures(comparison),
        promises=promises(comparison.rows, returns_shown=not all(regret_known)),
        references=[agent for agent in comparison.agents if agent not in comparison.learners],
        questions=_questions(comparison),
        certificates=_certificates(comparison),
        folds=_folds(comparison) if own and own != [command] and len(own) > 1 else {},
        commands=[command] if command else own if len(own) == 1 else [],
        recorded=bool(own or command),
        foot=_foot(comparison),
    )
    return page.write(text, path)


def _data(
    comparison: "Comparison",
    sections: "Sequence[Section]",
    results: ReportTable,
    pairs: ReportTable,
) -> dict[str, Any]:
    """What the scripts of the page read."""
    curves = [
        sum(not row.reference for row in comparison.on(problem)) for problem in comparison.problems
    ]
    has_few = max(curves, default=0) <= _FEW_CURVES
    return {
        "charts": {key: chart.to_json() for section in sections for key, chart in section.charts},
        "tables": {"results": results.copies, "pairs": pairs.copies},
        "promises": [promise.key for promise in comparison.promises],
        "labels": {promise.key: str(promise) for promise in comparison.promises},
        "open": OPEN.key,
        "shapes": MARKERS,
        "chosen": comparison.chosen.key,
        "first": ALL if has_few else comparison.chosen.key,
        "few": has_few,
    }


def _draws_uniform_play(comparison: "Comparison") -> bool:
    """Whether the charts add the line of uniform play, which was not run."""
    has_gap = any(map(comparison.gap, comparison.problems))
    return "uniform" not in comparison.agents and has_gap


def _ladders(comparison: "Comparison") -> dict[str, list[dict[str, Any]]]:
    """The bars of all ladders, by the key of their guarantee."""
    bars = {
        promise.key: [_bars(comparison, rungs) for rungs in comparison.ladders(promise)]
        for promise in comparison.promises
    }
    return {key: listed for key, listed in bars.items() if listed}


@dataclass(frozen=True, slots=True)
class Section:
    """Figures of one kind."""

    id: str
    title: str
    note: str
    # By the id of the element that each chart is drawn in.
    charts: Sequence[tuple[str, Chart]]


# Title and note of each section but the first.
_SECTIONS = {
    "value": (
        "Value",
        "Expected return of the policy that serves each user, computed exactly. A learner starts "
        "near uniform play and approaches optimal play.",
    ),
    "noise": (
        "Noise against signal",
        "Solid: the standard deviation of the noise in the statistics that the policy was planned "
        "from. Dashed: the signal. Learning starts where the dashed line rises above the solid "
        "one.",
    ),
    "privacy": (
        "The cost of privacy",
        "The end of each curve against the requested ε, with 95\u202f% intervals. Dashed: the "
        "same learner without privacy. Dotted: uniform play.",
    ),
}


def _sections(comparison: "Comparison") -> list[Section]:
    """The sections of the page that have a chart."""
    first = _first_section(comparison)
    others = [
        Section(key, title, note, _charts(comparison, key))
        for key, (title, note) in _SECTIONS.items()
    ]
    return [section for section in (first, *others) if section.charts]


def _first_section(comparison: "Comparison") -> Section:
    """Regret over users, or returns where regret is not known on any problem."""
    regret_known = [comparison.known(problem) for problem in comparison.problems]
    sentences = []
    if any(regret_known):
        sentences.append(
            "The total loss of all users so far, compared with optimal play; lower is better. "
            "Uniform play loses the same amount with every user. "
        )
    if not all(regret_known):
        sentences.append(
            "For problems whose exact values are not known: the average return of users, which is "
            "not covered by any guarantee. "
        )
    if comparison.seeds > 1:
        sentences.append("Shaded: pointwise 95\u202f% confidence bands over seeds. ")
    title = "Regret" if any(regret_known) else "Return"
    return Section("regret", title, "".join(sentences), _charts(comparison, "regret"))


def _charts(comparison: "Comparison", what: str) -> list[tuple[str, Chart]]:
    drawn = charts(comparison, what)
    if what == "privacy":
        # One point is no curve.
        drawn = [chart for chart in drawn if any(len(series.x) > 1 for series in chart.series)]
    return [(f"{what}-{place}", chart) for place, chart in enumerate(drawn)]


def _facts(comparison: "Comparison") -> list[str]:
    """The facts in the header."""
    problems = ", ".join(comparison.problems)
    if not problems or len(problems) >= _PROBLEM_CHARACTERS:
        problems = many(len(comparison.problems), "problem")
    guarantees = []
    if comparison.epsilons:
        guarantees.append(f"ε = {', '.join(f'{epsilon:.4g}' for epsilon in comparison.epsilons)}")
    if OPEN in comparison.promises:
        guarantees.append(words.NO_PRIVACY_LABEL)
    runs = many(sum(len(row.seeds) for row in comparison.rows), "run")
    if comparison.failures:
        runs += f", {count(len(comparison.failures))} more failed"
    facts = [
        problems,
        many(len(comparison.learners), "learner"),
        " and ".join(guarantees),
        many(comparison.seeds, "seed"),
        many(comparison.users, "user"),
        runs,
    ]
    return [fact for fact in facts if fact]


@dataclass(frozen=True, slots=True)
class Card:
    """A learner, or a problem and its best learner."""

    title: str
    # The kind of its guarantee, and the text of the badge.
    badge: tuple[str, str] | None
    look: Look | None
    big: str
    small: str
    # The share of optimal that the bar shows.
    share: float | None
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
    if len(learners) > _FEW_CURVES:
        learners = [row for row in learners if row.promise in (comparison.chosen, OPEN)]
    return [_learner_card(comparison, row) for row in learners]


def _learner_card(comparison: "Comparison", row: Row) -> Card:
    if row.share is not None:
        big = percent(row.share.estimate)
        small = "of optimal: 0\u202f% is uniform play"
    elif row.value is not None:
        big = number(row.value.estimate)
        small = "value of the last policy"
    else:
        big = "unknown" if row.final is None else interval(row.final)
        small = "average return per user"
    badge = ("none", words.NO_PRIVACY)
    if row.private:
        badge = ("private", f"{row.trust.value.capitalize()} DP, {row.promise}")
    return Card(
        row.agent,
        badge,
        look_of(row, agent_looks(comparison)),
        big,
        small,
        None if row.share is None else row.share.estimate,
        details(comparison, row),
    )


def _problem_card(comparison: "Comparison", problem: str) -> Card:
    if comparison.nobody_learned(problem):
        better = "significantly better" if comparison.seeds > 1 else "better"
        text = f"no learner is {better} than uniform play"
        return Card(problem, None, None, "No agent learned", text, None, [])
    best, *others = comparison.ranking(problem, comparison.chosen)
    rank = "is the only learner"
    if others:
        rank = "lost least" if comparison.known(problem) else "earned most"
    return Card(
        problem,
        None,
        look_of(best, agent_looks(comparison)),
        best.agent,
        f"{rank}, {comparison.chosen}",
        None if best.share is None else best.share.estimate,
        best_details(comparison, problem),
    )


def _bars(comparison: "Comparison", rungs: Mapping[str, Row]) -> dict[str, Any]:
    """The chart of a ladder as a list of bars, on a logarithmic scale in percent of the width.

    The mark is uniform play.
    """
    chart = ladder_chart(comparison, rungs, several=True)
    low, high = (math.log10(end) for end in chart.bar_range)
    # Room to the right of the longest bar.
    high += 0.02

    def place(value: float) -> float:
        if value <= 0:
            return 0.5
        return 100 * min(max((math.log10(value) - low) / (high - low), 0.005), 1.0)

    rows = {row.anchor: row for row in rungs.values()}
    bars = []
    previous = 0.0
    for bar in chart.bars:
        row = rows[bar.row]
        is_shorter = 0 < bar.value < previous
        bars.append(
            {
                "name": bar.name,
                "row": row,
                "width": place(bar.value),
                "told": "" if row.regret is None else interval(row.regret),
                "fall": f"{number(previous / bar.value, 2)} times less" if is_shorter else "",
                "colour": bar.look.variable,
            }
        )
        previous = bar.value
    first = rungs["paper"]
    return {
        "title": f"{first.variant} on {first.problem}, {first.promise}",
        "decade": 100 / (high - low),
        "mark": None if chart.mark is None else place(chart.mark),
        "rungs": bars,
    }


def _failures(comparison: "Comparison") -> list[dict[str, Any]]:
    """What did not run, by its error."""
    commands_by_kind: dict[tuple[str, str, str], list[str]] = {}
    for failure in comparison.failures:
        kind = (failure["problem"], failure["agent"], failure["error"] or "unknown error")
        commands_by_kind.setdefault(kind, []).append(failure["command"])
    return [
        {
            "title": f"{agent} on {problem}: {many(len(commands), 'run')}",
            "error": error,
            "commands": commands,
        }
        for (problem, agent, error), commands in commands_by_kind.items()
    ]


def _folds(comparison: "Comparison") -> dict[str, list[dict[str, Any]]]:
    """By problem, one per curve: its figures, and the commands that made it."""
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
    """What users were asked, round by round, in the first seed of each learner that asks."""
    learners = []
    for row in comparison.rows:
        by_seed = zip(row.seeds, row.questions, strict=False)
        seed, questions = next(((seed, own) for seed, own in by_seed if own), (0, ()))
        if not questions:
            continue
        rounds: dict[int, list[Question]] = {}
        for question in questions:
            rounds.setdefault(question.round, []).append(question)
        numbers = f"{many(len(questions), 'question')} in {many(len(rounds), 'round')}"
        title = f"{row.label}, on {row.problem}, seed {seed}: {numbers}"
        learners.append({"title": title, "rounds": [_round(own) for own in rounds.values()]})
    return learners


def _round(questions: Sequence[Question]) -> dict[str, Any]:
    first = questions[0]
    users = f"users {count(first.first)} to {count(first.first + first.users - 1)}"
    return {
        "title": f"Round {first.round}: {users}, {many(len(questions), 'question')}",
        "served": first.served,
        "asked": [(question.asked, _question_facts(question)) for question in questions],
    }


def _question_facts(question: Question) -> list[tuple[str, str]]:
    why = f"expected to remove {percent(question.removes)} of what is uncertain about values"
    return [("Answers", question.said), ("Why", why), ("Yes", question.yes), ("No", question.no)]


def _certificates(comparison: "Comparison") -> list[tuple[str, str]]:
    """Each certificate once, with a title.

    The certificates of the seeds of one row usually differ only in the time when they were made.
    """
    certificates: list[tuple[str, str]] = []
    for row in comparison.rows:
        by_facts: dict[str, tuple[str, str]] = {}
        for seed, certificate in zip(row.seeds, row.certificates, strict=False):
            if certificate is None:
                continue
            document = certificate.document
            facts = {key: value for key, value in document.items() if key != "created"}
            title = f"{row.label}, on {row.problem}, seed {seed}"
            titled = (title, json.dumps(document, indent=2))
            by_facts.setdefault(json.dumps(facts, sort_keys=True), titled)
        certificates += by_facts.values()
    return certificates


def _foot(comparison: "Comparison") -> list[str]:
    """How long the runs took, and the versions that ran them."""
    lines = []
    seconds = [second for row in comparison.rows for second in row.seconds]
    if seconds:
        lines.append(f"{many(len(seconds), 'run')} in {number(sum(seconds), 2)} seconds.")
    versions: dict[str, list[str]] = {}
    for name, version in dict.fromkeys(item for row in comparison.rows for item in row.versions):
        versions.setdefault(name, []).append(version)
    if versions:
        names = [f"{name} {' and '.join(numbers)}" for name, numbers in versions.items()]
        lines.append(f"{', '.join(names)}.")
    return lines
