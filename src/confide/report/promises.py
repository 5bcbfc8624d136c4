"""What a guarantee means: who is protected, against whom, and what is not protected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from confide.experiments.group import Group
from confide.report.words import count, really

NAMES = {
    "central": "Central differential privacy",
    "joint": "Joint differential privacy",
    "local": "Local differential privacy",
    "distributed": "Distributed differential privacy",
    "": "Privacy as stated by the agent",
}
AGAINST = {
    "central": "Everybody who reads the releases, all of them together, with any other knowledge.",
    "joint": "All other users together, even if they combine everything that they see and do with any other knowledge.",
    "local": "Everybody, including the server: data leave a user’s device only with noise.",
    "distributed": "Everybody, including the server, if the aggregator is ideal: then the server sees sums of batches only, with noise "
    "from the users’ devices.",
}
TRUSTED = {
    "central": "The curator, who has the raw data and adds the noise.",
    "joint": "The curator, who has the raw data and adds the noise.",
    "local": "Only the user’s own device.",
    "distributed": "The user’s own device, and the aggregator, which is assumed to show the sum of each batch and nothing else.",
}
SOURCES = {
    "fast": "Fast: a seeded generator.",
    "secure": "Secure: discrete, exactly sampled, from the system’s entropy.",
}
PROTECTED = "Each user: the whole trajectory, with all states, actions and rewards."
_FEW = 6  # guarantees that are listed one by one


@dataclass(frozen=True, slots=True)
class Promise:
    """A card of the privacy panel: one kind of guarantee, and the agents that have it."""

    trust: str
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
        return NAMES.get(self.trust, "")


def promises(groups: Sequence[Group], *, returns_shown: bool) -> list[Promise]:
    """One card per kind of guarantee, learners without privacy last."""
    kinds: dict[tuple[str, ...], dict[tuple[str, str], Group]] = {}
    for group in groups:
        if not group.reference:
            kind = (
                group.trust,
                group.relation,
                group.source,
                "" if group.trust else group.guarantee,
            )
            kinds.setdefault(kind, {}).setdefault((group.agent, group.promise), group)
    made = [_promise(list(members.values()), returns_shown) for members in kinds.values()]
    return sorted(made, key=lambda promise: promise.trust == "none")


def _promise(members: list[Group], returns_shown: bool) -> Promise:
    first, few = members[0], len(members) <= _FEW
    return Promise(
        first.trust,
        list(dict.fromkeys(group.agent for group in members)),
        [_given(group) for group in members] if first.private and few else [],
        "" if few or not first.private else _summary(members),
        facts(first) if first.private else [],
        not_protected(first.trust, returns_shown=returns_shown),
        first.private and first.source == "fast",
        list(dict.fromkeys(group.guarantee for group in members)) if few else [],
    )


def _given(group: Group) -> tuple[str, str, str, str, str, str]:
    epsilon = group.true_epsilon or 0.0
    users = count(group.covered or int(group.users[-1]))
    return (
        group.agent,
        f"{epsilon:.4g}",
        small(group.delta or 0.0),
        odds(epsilon),
        users,
        really(group),
    )


def _summary(members: list[Group]) -> str:
    asked, deltas = (
        {getattr(group, name) for group in members} - {None} for name in ("epsilon", "delta")
    )
    said = f"ε = {', '.join(f'{one:g}' for one in sorted(asked))}, δ = {', '.join(map(small, sorted(deltas)))}."
    stricter = sorted({group.agent for group in members if group.stricter})
    return (
        f"{said} The noise of {', '.join(stricter)} gives a smaller ε: see the table."
        if stricter
        else said
    )


def facts(group: Group) -> list[tuple[str, str]]:
    replaced = group.relation == "replace"
    return [
        ("Who is protected", PROTECTED),
        ("Against whom", AGAINST[group.trust]),
        ("Who must be trusted", TRUSTED[group.trust]),
        ("What it means", meaning(replaced)),
        (
            "Neighbours",
            "Replace: one user is replaced by any other user."
            if replaced
            else "Null: one user contributes zero.",
        ),
        ("Noise", SOURCES.get(group.source, group.source)),
    ]


def meaning(replaced: bool) -> str:
    """(epsilon, delta) as one sentence about probabilities."""
    change = "were replaced by somebody else" if replaced else "had contributed nothing"
    return f"If any one user {change}, the probability of any observation would change by at most the factor e^ε, plus δ."


def not_protected(trust: str, *, returns_shown: bool) -> list[str]:
    """The limits of a guarantee: the ones of its kind, and the ones of this report."""
    said = (
        [
            "A user’s own actions: somebody who observes one user’s actions may learn about that user."
        ]
        if trust == "joint"
        else []
    )
    if trust in ("central", "joint"):
        said.append("The curator’s memory: raw data, exact sums and saved state must stay secret.")
    said.append("Facts about the population that would also have been learned without that user.")
    said.append("A person who takes part k times: the loss (μ or ε) is k times as large.")
    said.append("Timing, traffic, and anything else that a service does besides its releases.")
    if returns_shown:
        said.append(
            "The average returns in this report: they are computed from users’ data without noise."
        )
    return said


def odds(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:.3g}"


def small(delta: float) -> str:
    return f"{delta:g}".replace("e-0", "e-")
