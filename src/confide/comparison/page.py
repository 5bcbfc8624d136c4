"""The report of a study: one HTML file that works offline."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide.arguments import text
from confide.comparison import tables
from confide.comparison.figures import Panel, panels
from confide.comparison.group import OPEN
from confide.comparison.looks import agent_looks, look_of
from confide.comparison.promises import promises
from confide.comparison.study import Ladder, Study, study_of_runs
from confide.comparison.summary import Row
from confide.comparison.words import (
    RUNGS,
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
from confide.report.drawing import Look
from confide.report.words import count, many, number, percent
from confide.runs.run import Run

ALL = "all"
_FEW = 6  # curves on a problem that can be looked at together


def write_report(
    runs: Sequence[Run], path: str | Path, *, title: str = "What privacy cost", command: str = ""
) -> Path:
    """Write the report of these runs to one self-contained HTML file, and return its path.

    `command` is what reproduces it; the commands that the runs carry stand in where it is not given. The page may load nothing
    from anywhere and run no script but its own: a content security policy, not care, sees to that.
    """
    text("title", title)
    text("command", command)
    return write_study(study_of_runs(runs, name=title), path, command=command)


def write_study(study: Study, path: str | Path, *, command: str = "") -> Path:
    """The same page for every study, whether its runs are from `confide run`, from Python or from a sweep."""
    sections, results, pairs = _sections(study), tables.results(study), tables.pairs(study)
    many_rows = max(
        (sum(not row.group.reference for row in study.on(problem)) for problem in study.problems),
        default=0,
    )
    data = {
        "panels": {panel.key: panel.drawing for section in sections for panel in section.panels},
        "tables": {"results": results.copies, "pairs": pairs.copies},
        "promises": [promise.key for promise in study.promises],
        "open": OPEN.key,
        "chosen": study.chosen.key,
        "first": ALL if many_rows <= _FEW else study.chosen.key,
        "few": many_rows <= _FEW,
    }
    labels = {promise.key: str(promise) for promise in study.promises}
    groups = [row.group for row in study.rows]
    own = list(dict.fromkeys(line for group in groups for line in group.commands if line))
    text = page.render(
        "study.html",
        data=data,
        title=study.name,
        study=study,
        facts=_facts(study),
        headline=headline(study),
        remarks=remarks(study),
        cards=_cards(study),
        sections=sections,
        looks=agent_looks(study),
        first=data["first"],
        picks=[*labels.items(), (ALL, ALL)] if len(labels) > 1 else [],
        row_picks=[(ALL, ALL), *labels.items()] if len(labels) > 1 else [],
        beside=OPEN in study.promises and len(labels) > 1,
        chosen=data["chosen"],
        draws_uniform="uniform" not in study.agents and any(map(study.gap, study.problems)),
        ladders={
            promise.key: found
            for promise in study.promises
            if (found := [_bars(study, one) for one in study.ladders(promise)])
        },
        results=results,
        results_note=tables.RESULTS_NOTE,
        pairs=pairs,
        paired=any(pair.compared.paired for pair in study.pairs),
        significance=significance(study),
        failures=_failures(study),
        promises=promises(groups, returns_shown=not all(map(study.known, study.problems))),
        references=[agent for agent in study.agents if agent not in study.learners],
        questions=_questions(study),
        certificates=_certificates(study),
        folds=_folds(study) if own and own != [command] and len(own) > 1 else {},
        commands=[command] if command else own if len(own) == 1 else [],
        recorded=bool(own or command),
        foot=_foot(study),
    )
    return page.write(text, path)


@dataclass(frozen=True, slots=True)
class Section:
    """Figures of one kind."""

    id: str
    title: str
    note: str
    panels: Sequence[Panel]


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


def _sections(study: Study) -> list[Section]:
    known, unknown = (any(study.known(p) is kind for p in study.problems) for kind in (True, False))
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
    bands = "Shaded: pointwise 95\u202f% confidence bands over seeds. " if study.seeds > 1 else ""
    given = [
        ("regret", "Regret" if known else "Return", lost + bands),
        *((key, *said) for key, said in _SECTIONS.items()),
    ]
    made = [Section(key, title, note, panels(study, key)) for key, title, note in given]
    return [section for section in made if section.panels]


def _facts(study: Study) -> list[str]:
    private = [f"{epsilon:.4g}" for epsilon in study.epsilons]
    promised = ([f"ε = {', '.join(private)}"] if private else []) + (
        [words.OPEN] if OPEN in study.promises else []
    )
    runs = sum(len(row.group.seeds) for row in study.rows)
    few = ", ".join(study.problems)
    said = [
        few if len(few) < 60 and study.problems else many(len(study.problems), "problem"),
        many(len(study.learners), "learner"),
        " and ".join(promised),
        many(study.seeds, "seed"),
        many(study.users, "user"),
        many(runs, "run")
        + (f", {count(len(study.failures))} more failed" if study.failures else ""),
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


def _cards(study: Study) -> list[Card]:
    """On one problem a card per learner; on several a card per problem."""
    if len(study.problems) > 1:
        return [
            _problem_card(study, problem)
            for problem in study.problems
            if study.ranking(problem, study.chosen)
        ]
    learners = [row for row in study.rows if not row.group.reference]
    shown = (
        learners
        if len(learners) <= _FEW
        else [row for row in learners if row.group.promise in (study.chosen, OPEN)]
    )
    return [_learner_card(study, row) for row in shown]


def _learner_card(study: Study, row: Row) -> Card:
    group = row.group
    if row.share is not None:
        big, small = percent(row.share.estimate), "of optimal: 0\u202f% is uniform play"
    elif row.value is not None:
        big, small = number(row.value.estimate), "value of the last policy"
    else:
        big, small = (
            ("unknown" if row.final is None else interval(row.final)),
            "average return per user",
        )
    kind = "private" if group.private else "none"
    badge = (
        f"{group.trust.value.capitalize()} DP, {group.promise}"
        if group.private
        else words.NO_PRIVACY
    )
    look = look_of(row, agent_looks(study))
    said = details(study, row)
    return Card(
        group.agent,
        (kind, badge),
        look,
        big,
        small,
        None if row.share is None else row.share.estimate,
        said,
    )


def _problem_card(study: Study, problem: str) -> Card:
    if study.nobody_learned(problem):
        said = (
            "no learner is significantly better than uniform play"
            if study.seeds > 1
            else "no learner is better than uniform play"
        )
        return Card(problem, None, None, "No agent learned", said, None, [])
    best, *others = study.ranking(problem, study.chosen)
    does = "lost least" if study.known(problem) else "earned most"
    under = f"{does if others else 'is the only learner'}, {study.chosen}"
    share = None if best.share is None else best.share.estimate
    return Card(
        problem,
        None,
        look_of(best, agent_looks(study)),
        best.group.agent,
        under,
        share,
        best_details(study, problem),
    )


def _bars(study: Study, ladder: Ladder) -> dict[str, Any]:
    """Bars on a logarithmic scale, in percent of the width; the mark is uniform play."""
    figures = [row.regret.estimate for _, row in ladder.rungs if row.regret is not None]
    gap = study.gap(ladder.problem)
    uniform = None if gap is None else gap * ladder.rungs[0][1].users
    low = math.floor(math.log10(min((one for one in figures if one > 0), default=1.0)) - 0.2)
    high = math.log10(max([10.0 ** (low + 1), *figures, uniform or 0.0])) + 0.02

    def place(value: float) -> float:
        return (
            100 * min(max((math.log10(value) - low) / (high - low), 0.005), 1.0)
            if value > 0
            else 0.5
        )

    rungs = []
    for (name, row), value, before in zip(ladder.rungs, figures, [None, *figures], strict=False):
        fall = (
            ""
            if before is None or not 0 < value < before
            else f"{number(before / value, 2)} times less"
        )
        told = "" if row.regret is None else interval(row.regret)
        colour = agent_looks(study)[row.group.agent].variable
        rungs.append(
            {
                "name": RUNGS[name],
                "row": row,
                "width": place(value),
                "told": told,
                "fall": fall,
                "colour": colour,
            }
        )
    return {
        "title": f"{ladder.agent} on {ladder.problem}, {ladder.promise}",
        "decade": 100 / (high - low),
        "mark": None if uniform is None else place(uniform),
        "rungs": rungs,
    }


def _failures(study: Study) -> list[dict[str, Any]]:
    """What did not run, by its error."""
    kinds: dict[tuple[str, str, str], list[str]] = {}
    for one in study.failures:
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


def _folds(study: Study) -> dict[str, list[dict[str, Any]]]:
    """By problem, one per curve: what it comes to, and the commands that made it."""
    looks = agent_looks(study)
    return {
        problem: [
            {
                "anchor": row.anchor,
                "title": f"{row.group.label}, on {problem}",
                "look": look_of(row, looks),
                "facts": tables.facts(row),
                "commands": list(dict.fromkeys(row.group.commands)),
            }
            for row in study.on(problem)
        ]
        for problem in study.problems
    }


def _questions(study: Study) -> list[dict[str, Any]]:
    """What users were asked, round by round: of the first seed of each learner that asks."""
    found = []
    for group in (row.group for row in study.rows):
        seeds = zip(group.seeds, group.questions, strict=False)
        for seed, asked in [(seed, asked) for seed, asked in seeds if asked][:1]:
            rounds: dict[int, list[Question]] = {}
            for question in asked:
                rounds.setdefault(question.round, []).append(question)
            title = f"{group.label}, on {group.problem}, seed {seed}: {many(len(asked), 'question')} in {many(len(rounds), 'round')}"
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


def _certificates(study: Study) -> list[tuple[str, str]]:
    """Each certificate once: seeds of one group differ only in the time when theirs was made."""
    made: list[tuple[str, str]] = []
    for group in (row.group for row in study.rows):
        found: dict[str, tuple[str, str]] = {}
        for seed, certificate in zip(group.seeds, group.certificates, strict=False):
            if certificate is not None:
                facts = {
                    key: value for key, value in certificate.document.items() if key != "created"
                }
                title = f"{group.label}, on {group.problem}, seed {seed}"
                found.setdefault(
                    json.dumps(facts, sort_keys=True),
                    (title, json.dumps(certificate.document, indent=2)),
                )
        made += found.values()
    return made


def _foot(study: Study) -> list[str]:
    versions: dict[str, list[str]] = {}
    for name, version in dict.fromkeys(item for row in study.rows for item in row.group.versions):
        versions.setdefault(name, []).append(version)
    seconds = [second for row in study.rows for second in row.group.seconds]
    said = [f"{many(len(seconds), 'run')} in {number(sum(seconds), 2)} seconds."] if seconds else []
    return said + (
        [", ".join(f"{name} {' and '.join(numbers)}" for name, numbers in versions.items()) + "."]
        if versions
        else []
    )
