"""A learned policy as a report: what it is worth, what it does in each state, and where it differs from the logged policy."""

import csv
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from confide._durable import replace_files
from confide.logs.labels import label_or_number
from confide.offline.improvement import ASSUMPTIONS, Improvement
from confide.offline.learned_policy import Departure, LearnedPolicy
from confide.offline.model import PrivateModel
from confide.privacy import words as privacy_words
from confide.privacy.assumption import STATED, Assumption
from confide.privacy.request import Trust
from confide.release.value import Value, definition
from confide.report import page
from confide.report.tables import Cell
from confide.report.words import many

HEADS = (
    "state",
    "do",
    "taken before",
    "gain",
    "gain positive",
    "logged value (90 %)",
    "visits (noisy)",
)
_ON_PAGE = 1000  # states
# Of benchmarks/results/values_learn.md: at most so many logs led to a policy that was announced and was not better.
CLAIM_ERROR = "5 %"


def learned_from(
    model: PrivateModel, pessimism: float, said: tuple[tuple[str, str], ...] = ()
) -> "Learned":
    """What is planned in a model, with remarks."""
    policy = model.plan(pessimism)
    guess = None if policy.shown else model.plan(pessimism, tested=False)
    return Learned(model, policy, said, guess=guess)


def with_interval(value: Value) -> str:
    """A value and its interval, or its lower bound."""
    if value.value is None:
        return "not estimated"
    if value.low is None:
        return f"{value.value:.3g} (interval not estimated)"
    if value.high is None:
        return f"{value.value:.3g} (at least {value.low:.3g})"
    return f"{value.value:.3g} ({value.low:.3g} to {value.high:.3g})"


@dataclass(frozen=True)
class Learned:
    """A model, a policy that was planned in it, and remarks as (heading, text)."""

    model: PrivateModel
    policy: LearnedPolicy
    said: tuple[tuple[str, str], ...] = ()
    improvement: Improvement | None = None  # shown on people that the model was not learned from
    # The plan, where it was not shown to be better than the logged policy, which is then `policy`.
    guess: LearnedPolicy | None = None

    @property
    def title(self) -> str:
        return f"A policy for {self.model.table.states:,} states, learned from a log"

    @property
    def best(self) -> LearnedPolicy:
        """The policy that was planned: the exported one, or a guess that was not shown to be better than the logged policy."""
        return self.guess or self.policy

    def with_best(self, policy: LearnedPolicy) -> "Learned":
        """The same, with other values of the policy that was planned."""
        if self.guess is None:
            return replace(self, policy=policy)
        return replace(self, guess=policy)

    @property
    def headline(self) -> str:
        best, users = self.best, self.model.guarantee.users
        logged = f"from {users:,} users: the logged policy is worth {with_interval(best.logged)}"
        changed = int(best.changed.sum())
        if not changed:
            return (
                f"{logged}. No policy was found that may be better: keep the logged policy, "
                "or use more users or a larger epsilon."
            )
        where = "1 state" if changed == 1 else f"{changed:,} of {len(best.choices):,} states"
        learned = with_interval(best.learned)
        if self.guess is not None:
            return (
                f"{logged}. The best guess of a better policy, which differs from it in {where}, would be worth {learned}. "
                "It was not shown to be better: keep the logged policy, which is the exported one, or use more users or a larger epsilon."
            )
        test = f"by a test that was wrong in at most {CLAIM_ERROR} of simulated logs"
        if not self.policy.shown:
            test = "on users who were held out"
        return (
            f"{logged}, and the learned policy {learned}. It was shown to be better, {test}. "
            f"It differs from the logged policy in {where}."
        )

    @cached_property
    def order(self) -> list[int]:
        """Departures first, by gain times visits; then the most visited states."""
        first = [each.number for each in self.policy.departures()]
        known = set(first)
        return first + [
            int(s) for s in np.argsort(-self.policy.visits, kind="stable") if int(s) not in known
        ]


def words(learned: Learned) -> list[tuple[str, str]]:
    """(heading, text): the result, the guarantee, what the numbers rest on, further remarks, and assumptions."""
    model, policy = learned.model, learned.policy
    table = model.table
    rewards = "public" if table.rewards is not None else "learned"
    how = (
        f"rewards are {rewards}; {definition(model.steps, table.discount)}. For the plan, uncertain values are lowered by "
        f"{policy.pessimism:g} standard deviation{'' if policy.pessimism == 1 else 's'}. Intervals of the logged policy hold with 90 % "
        f"probability, noise and the choice of users together; they come from returns of users. {_about_learned(learned)}"
    )
    # The values of states are those of the model, also where the bound is not.
    about_the_log = (
        *ASSUMPTIONS["model"],
        *(learned.improvement.assumptions if learned.improvement else ()),
    )
    certified = [] if model.certificate is None else model.certificate.assumptions
    assumed: list[Assumption] = []
    for assumption in (*about_the_log, *certified):
        if assumption not in assumed or assumption.kind == STATED:
            assumed.append(assumption)
    lines = [("result", learned.headline), ("guarantee", _promised(learned)), ("model", how)]
    if (found := learned.improvement) is not None:
        lines.insert(1, ("tested", f"{found}. {found.basis[0].upper()}{found.basis[1:]}."))
    if members := policy.labels.members:
        text = f"the {len(members):,} states are public clusters of {sum(map(len, members)):,} labels, which are treated alike"
        lines.append(("clusters", f"{text}; policy.json lists what to do for each label."))
    return [*lines, *learned.said, *(("assumed", assumption.text) for assumption in assumed)]


def _about_learned(learned: Learned) -> str:
    """Where the value of the learned policy comes from, and why it has an interval or only a lower bound."""
    tested = learned.improvement
    if tested is not None and tested.learned.estimated:
        return (
            f"The value of the learned policy and its 90 % interval come from transitions of the {tested.users:,} users who were held out, "
            "because the data of the other users chose the policy."
        )
    return (
        "The value of the learned policy is the logged one and the gain in the model. "
        "It has a lower bound alone, because the same data chose the policy."
    )


def _promised(learned: Learned) -> str:
    """To those it was learned from, and to those it was tested on."""
    said, tested = privacy_words.consequence(learned.model.guarantee), learned.improvement
    if tested is None:
        return said
    if tested.guarantee.request == learned.model.guarantee.request:
        return f"{said} The same holds for each of the {tested.users:,} users it was tested on."
    return f"{said} Users it was tested on: {privacy_words.consequence(tested.guarantee)}"


def rows(learned: Learned, most: int | None = None) -> list[list[str]]:
    """A row of text per state, under `HEADS`."""
    policy, made = learned.policy, []
    why = {each.number: each for each in policy.departures()}
    values = learned.model.logged_states
    for state in learned.order[:most]:
        row = [label_or_number(policy.labels.state, state), "as logged", "", "", ""]
        if (found := why.get(state)) is not None:
            share, gain = f"{100 * found.logged:.0f} %", " ".join(_gain(found))
            row = [found.state, found.action, share, gain, f"{min(100 * found.chance, 99.9):.1f} %"]
        value = _of_state(values[state], bounded=learned.model.values_are_bounded)
        made.append([*row, value, f"{policy.visits[state]:,.0f}"])
    return made


def _of_state(value: Value, *, bounded: bool) -> str:
    """The value of a state from returns of users. Where returns only bound it, the interval stands alone."""
    if not value.estimated:
        return "not estimated"
    if bounded:
        return f"{value.low:.3g} to {value.high:.3g}"
    return with_interval(value)


def _gain(departure: Departure) -> tuple[str, str]:
    """The gain in a state, and its standard deviation."""
    return f"{departure.gain:.3g}", f"± {departure.gain_std:.2g}"


def cards(learned: Learned) -> list[tuple[str, str, str]]:
    """(heading, large, text): what was learned, whether it was shown to be better, and what is revealed of one user."""
    model, policy, found = learned.model, learned.policy, learned.improvement
    best = learned.best
    worth = "not estimated" if best.logged.value is None else f"{best.logged.value:.3g}"
    made = [("Logged policy", worth, f"Worth {with_interval(best.logged)}, with 90 % probability.")]
    if best.changed.any():
        worth = "not estimated" if best.learned.value is None else f"{best.learned.value:.3g}"
        state = (
            "It was shown to be better."
            if learned.guess is None
            else "It was not shown to be better."
        )
        how = "by the logged value and the gain in the model"
        if found is not None and found.learned.estimated:
            how = "with 90 % probability, by users who were held out"
        text = f"Worth {with_interval(best.learned)}, {how}. {state}"
        made.append(("Learned policy", worth, text))
    if found is not None:
        level = f"at least +{found.bound:.3g}" if found.shown else "not shown"
        text = str(found)
        made.append(
            (
                f"Better, with {100 * found.level:g}\u202f% confidence",
                level,
                f"{text[0].upper()}{text[1:]}.",
            )
        )
    elif policy.changed.any():
        made.append(
            (
                "Better",
                "not tested",
                "A prediction. confide learn --holdout tests it on users who were held out.",
            )
        )
    guarantee = model.guarantee
    if guarantee.trust is not Trust.NONE:
        instead = privacy_words.INSTEAD[guarantee.relation]
        factor = f"at most the factor e^ε = {np.exp(guarantee.epsilon):.3g}, plus δ = {privacy_words.format_delta(guarantee.delta)}"
        text = f"If any one user’s data were replaced by {instead}, the probability of anything on this page would change by {factor}."
        made.append(("Revealed about one user", f"ε = {guarantee.epsilon:.4g}", text))
    return made


def _cells(learned: Learned) -> list[list[Cell]]:
    """The rows of the page's table, under `HEADS`, with keys to sort by."""
    policy, made = learned.policy, []
    values = learned.model.logged_states
    why = {each.number: each for each in policy.departures()}
    shown = learned.order[:_ON_PAGE]
    for state, (name, do, share, _, chance, value, visits) in zip(
        shown, rows(learned, _ON_PAGE), strict=True
    ):
        found = why.get(state)
        gained, spread = _gain(found) if found else ("", "")
        made.append(
            [
                Cell(
                    name,
                    "",
                    name if policy.labels.state else state,
                    str(found) if found else f"in state {name}: as logged",
                ),
                Cell(do, "", do),
                Cell(share, "", found.logged if found else None),
                Cell(gained, spread, found.gain if found else None),
                Cell(chance, "", found.chance if found else None),
                Cell(value, "", values[state].value),
                Cell(visits, "", float(policy.visits[state])),
            ]
        )
    return made


def record(learned: Learned) -> dict[str, Any]:
    """Everything as JSON."""
    model, guarantee = learned.model, learned.model.guarantee
    return {
        "title": learned.title,
        "users": guarantee.users,
        "guarantee": guarantee.to_json(),
        "said": [{"about": name, "text": text} for name, text in words(learned)],
        **learned.policy.to_json(),
        "learned": learned.best.learned.to_json(),
        "guess": None if learned.guess is None else learned.guess.to_json()["policy"],
        "states": [value.to_json() for value in model.logged_states],
        "value": definition(model.steps, model.table.discount),
        "choices": learned.policy.choices.tolist(),
        "behaviour": learned.policy.behaviour.tolist(),
        "visits": learned.policy.visits.tolist(),
        "certificate": model.certificate.document if model.certificate is not None else None,
        "improvement": None if learned.improvement is None else learned.improvement.to_json(),
    }


def write_learned(learned: Learned, folder: str | Path, *, command: str = "") -> Path:
    """The model, its certificate, the policy, `policy.csv` and `report.html` into a folder; where the page is."""
    with replace_files(Path(folder), last="model.npz") as target:
        learned.model.save(target)
        learned.policy.save(target)
        if learned.improvement is not None:
            learned.improvement.save(target)
        with (target / "policy.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADS)
            writer.writerows(rows(learned))
        page.write(_page(learned, command), target / "report.html")
    return Path(folder) / "report.html"


def _page(learned: Learned, command: str) -> str:
    """One HTML file that loads nothing."""
    model, said = learned.model, words(learned)
    guarantee, trust = model.guarantee, model.guarantee.trust
    private, lines = guarantee.trust is not Trust.NONE, _cells(learned)
    asked = (
        f"ε = {guarantee.epsilon:.4g}, δ = {privacy_words.format_delta(guarantee.delta)}"
        if private
        else privacy_words.NO_PRIVACY
    )
    facts = [
        ("Who is protected", "Each user in the log, with all trajectories that are used."),
        ("Against whom", privacy_words.AGAINST[trust]),
        ("Who must be trusted", privacy_words.TRUSTED[trust]),
        ("What it means", dict(said)["guarantee"]),
    ]
    return page.render(
        "values.html",
        title=learned.title,
        heading="Policy",
        headline=f"{learned.headline[0].upper()}{learned.headline[1:]}",
        cards=cards(learned),
        facts=[
            many(model.table.states, "state"),
            many(model.table.actions, "action"),
            many(guarantee.users, "user"),
            asked,
        ],
        said=[line for line in said if line[0] not in ("result", "guarantee", "assumed")],
        heads=HEADS,
        lines=lines,
        note=_note(learned),
        private=private,
        promised=dict(said)["guarantee"],
        name=privacy_words.NAMES[trust],
        promise_facts=facts,
        limits=privacy_words.not_protected(trust, returns_shown=False),
        assumed=[text for name, text in said if name == "assumed"],
        guarantee=str(guarantee),
        certificates=_certificates(learned),
        command=command,
    )


def _certificates(learned: Learned) -> dict[str, str]:
    """By the names of their files."""
    tested = learned.improvement
    found = {
        "certificate.json": learned.model.certificate,
        "improvement_certificate.json": tested.certificate if tested else None,
    }
    return {
        name: json.dumps(each.document, indent=2)
        for name, each in found.items()
        if each is not None
    }


def _note(learned: Learned) -> str:
    more = learned.model.table.states - _ON_PAGE
    where = (
        f"{more:,} more states are in policy.csv."
        if more > 0
        else "The same rows are in policy.csv."
    )
    said = "States where it differs from the logged policy come first."
    return f"{said} Click on a column head to sort. {where}"
