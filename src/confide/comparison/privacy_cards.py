"""What a guarantee means: who is protected, against whom, and what is not protected."""

from collections.abc import Sequence
from dataclasses import dataclass

from confide.comparison.promise import Promise
from confide.comparison.row import Row
from confide.comparison.words import really
from confide.privacy import words
from confide.privacy.request import Relation, Trust
from confide.report.words import count

# At most so many guarantees are listed one by one. A matter of taste.
_LISTED_GUARANTEES = 6


@dataclass(frozen=True, slots=True)
class PrivacyCard:
    """A card of the privacy panel: one kind of guarantee, and the agents that have it."""

    trust: Trust
    agents: Sequence[str]
    # Agent, epsilon, delta, factor, users and remark.
    given: Sequence[tuple[str, str, str, str, str, str]]
    # Instead of `given`, if there are too many to list.
    summary: str
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
    cards = [_card(list(members.values()), returns_shown) for members in kinds.values()]
    return sorted(cards, key=lambda card: card.trust is Trust.NONE)


def _card(members: list[Row], returns_shown: bool) -> PrivacyCard:
    first = members[0]
    is_listed = len(members) <= _LISTED_GUARANTEES
    guarantees = [words.guarantee(row.guarantee) for row in members] if is_listed else []
    return PrivacyCard(
        first.trust,
        list(dict.fromkeys(row.agent for row in members)),
        [_guarantee_line(row) for row in members] if first.private and is_listed else [],
        "" if is_listed or not first.private else _summary(members),
        facts(first) if first.private else [],
        words.not_protected(first.trust, returns_shown=returns_shown),
        first.private and first.guarantee.source == "fast",
        list(dict.fromkeys(guarantees)),
    )


def _guarantee_line(row: Row) -> tuple[str, str, str, str, str, str]:
    """What `PrivacyCard.given` has for a row: the same numbers as in its full guarantee."""
    epsilon, delta = row.guarantee.stated
    return (
        row.agent,
        f"{epsilon:.4g}",
        words.format_delta(delta),
        words.format_factor(epsilon),
        count(row.guarantee.users),
        really(row),
    )


def _summary(members: list[Row]) -> str:
    epsilons = sorted({row.epsilon for row in members if row.epsilon is not None})
    deltas = sorted({row.guarantee.stated[1] for row in members})
    text = (
        f"ε = {', '.join(f'{epsilon:g}' for epsilon in epsilons)}, "
        f"δ = {', '.join(map(words.format_delta, deltas))}."
    )
    stricter = sorted({row.agent for row in members if row.stricter})
    if not stricter:
        return text
    return f"{text} The noise of {', '.join(stricter)} gives a smaller ε: see the table."


def facts(row: Row) -> list[tuple[str, str]]:
    relation = row.guarantee.relation
    source = row.guarantee.source
    return [
        ("Who is protected", words.PROTECTED),
        ("Against whom", words.AGAINST[row.trust]),
        ("Who must be trusted", words.TRUSTED[row.trust]),
        ("What it means", words.meaning(relation)),
        ("Neighbours", words.NEIGHBOURS[relation]),
        ("Noise", words.SOURCES.get(source, source)),
    ]
