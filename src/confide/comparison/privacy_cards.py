"""What a guarantee means: who is protected, against whom, and what is not protected."""

from collections.abc import Sequence
from dataclasses import dataclass

from confide.comparison.promise import Promise
from confide.comparison.row import Row
from confide.comparison.words import really
from confide.privacy import words
from confide.privacy.request import Relation, Trust
from confide.report.words import count

_FEW = 6  # guarantees that are listed one by one


@dataclass(frozen=True, slots=True)
class PrivacyCard:
    """A card of the privacy panel: one kind of guarantee, and the agents that have it."""

    trust: Trust
    agents: Sequence[str]
    # agent, epsilon, delta, factor, users, remark
    given: Sequence[tuple[str, str, str, str, str, str]]
    summary: str  # where there are too many to list
    facts: Sequence[tuple[str, str]]
    limits: Sequence[str]
    fast: bool
    stated: Sequence[str]

    @property
    def name(self) -> str:
        return words.NAMES[self.trust]


def promises(rows: Sequence[Row], *, returns_shown: bool) -> list[PrivacyCard]:
    """One card per kind of guarantee, learners without privacy last."""
    kinds: dict[tuple[Trust, Relation, str], dict[tuple[str, Promise], Row]] = {}
    for row in rows:
        if not row.reference:
            kind = row.trust, row.guarantee.relation, row.guarantee.source
            kinds.setdefault(kind, {}).setdefault((row.agent, row.promise), row)
    made = [_promise(list(members.values()), returns_shown) for members in kinds.values()]
    return sorted(made, key=lambda promise: promise.trust is Trust.NONE)


def _promise(members: list[Row], returns_shown: bool) -> PrivacyCard:
    first, few = members[0], len(members) <= _FEW
    return PrivacyCard(
        first.trust,
        list(dict.fromkeys(row.agent for row in members)),
        [_given(row) for row in members] if first.private and few else [],
        "" if few or not first.private else _summary(members),
        facts(first) if first.private else [],
        words.not_protected(first.trust, returns_shown=returns_shown),
        first.private and first.guarantee.source == "fast",
        list(dict.fromkeys(words.guarantee(row.guarantee) for row in members)) if few else [],
    )


def _given(row: Row) -> tuple[str, str, str, str, str, str]:
    epsilon = row.true_epsilon or 0.0
    users = count(row.guarantee.users)
    return (
        row.agent,
        f"{epsilon:.4g}",
        words.format_delta(row.delta or 0.0),
        words.format_factor(epsilon),
        users,
        really(row),
    )


def _summary(members: list[Row]) -> str:
    asked, deltas = (
        {getattr(row, name) for row in members} - {None} for name in ("epsilon", "delta")
    )
    said = f"ε = {', '.join(f'{one:g}' for one in sorted(asked))}, δ = {', '.join(map(words.format_delta, sorted(deltas)))}."
    stricter = sorted({row.agent for row in members if row.stricter})
    return (
        f"{said} The noise of {', '.join(stricter)} gives a smaller ε: see the table."
        if stricter
        else said
    )


def facts(row: Row) -> list[tuple[str, str]]:
    relation, source = row.guarantee.relation, row.guarantee.source
    return [
        ("Who is protected", words.PROTECTED),
        ("Against whom", words.AGAINST[row.trust]),
        ("Who must be trusted", words.TRUSTED[row.trust]),
        ("What it means", words.meaning(relation)),
        ("Neighbours", words.NEIGHBOURS[relation]),
        ("Noise", words.SOURCES.get(source, source)),
    ]
