"""A learned policy as a report: its value, what it does in each state, and what it changes.

The fields of `record` are those of `confide learn --json`, and `HEADS` are the columns of
`policy.csv`, so both stay. All other texts may be changed freely, except that a page must never
say more than `LearnedPolicy.shown` and `Improvement` do: a guess is called a guess.
"""

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
from confide.report.privacy_facts import privacy_card, privacy_facts, short_guarantee
from confide.report.tables import TableCell
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
# The table of a page has at most so many states. A matter of taste.
_STATES_ON_PAGE = 1000
# At most so many logs led to a policy that was announced and was not better (measured,
# benchmarks/results/values_learn.md).
CLAIM_ERROR = "5 %"


def learned_from(
    model: PrivateModel, pessimism: float, remarks: tuple[tuple[str, str], ...] = ()
) -> "PolicyReport":
    """Plan a policy in a model. `remarks` are (heading, text)."""
    policy = model.plan(pessimism)
    guess = None if policy.shown else model.plan(pessimism, tested=False)
    return PolicyReport(model, policy, remarks, guess=guess)


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
class PolicyReport:
    """A model, a policy that was planned in it, and what is to be said about both."""

    model: PrivateModel
    policy: LearnedPolicy
    # (heading, text), such as what was clipped and what was charged.
    remarks: tuple[tuple[str, str], ...] = ()
    # The test on users from whom the model was not learned.
    improvement: Improvement | None = None
    # The plan, if it was not shown to be better than the logged policy. Then `policy` is the logged
    # one.
    guess: LearnedPolicy | None = None

    @property
    def title(self) -> str:
        return f"A policy for {self.model.table.states:,} states, learned from a log"

    @property
    def best(self) -> LearnedPolicy:
        """The policy that was planned, also if it is only a guess."""
        return self.guess or self.policy

    def with_best(self, policy: LearnedPolicy) -> "PolicyReport":
        """The same report, with other values of the policy that was planned."""
        if self.guess is None:
            return replace(self, policy=policy)
        return replace(self, guess=policy)

    @property
    def headline(self) -> str:
        best = self.best
        users = self.model.guarantee.users
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
                f"{logged}. The best guess of a better policy, which differs from it in {where}, "
                f"would be worth {learned}. It was not shown to be better: keep the logged policy, "
                "which is the exported one, or use more users or a larger epsilon."
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
        """The states of the table.

        States where the policy changes come first, by gain times visits. The most visited states
        follow.
        """
        changed = [departure.number for departure in self.policy.departures()]
        by_visits = [int(state) for state in np.argsort(-self.policy.visits, kind="stable")]
        in_changed = set(changed)
        return changed + [state for state in by_visits if state not in in_changed]


def words(report: PolicyReport) -> list[tuple[str, str]]:
    """(heading, text): result, guarantee, what the numbers rest on, remarks and assumptions."""
    lines = [("result", report.headline)]
    improvement = report.improvement
    if improvement is not None:
        lines.append(("tested", f"{improvement}. {_capitalize(improvement.basis)}."))
    lines.append(("guarantee", _explain_guarantee(report)))
    lines.append(("model", _explain_model(report)))
    members = report.policy.labels.members
    if members:
        labels = sum(map(len, members))
        text = (
            f"the {len(members):,} states are public clusters of {labels:,} labels, which are "
            "treated alike; policy.json lists what to do for each label."
        )
        lines.append(("clusters", text))
    assumed = [("assumed", assumption.text) for assumption in _assumptions(report)]
    return [*lines, *report.remarks, *assumed]


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _explain_model(report: PolicyReport) -> str:
    table = report.model.table
    rewards = "public" if table.rewards is not None else "learned"
    pessimism = report.policy.pessimism
    deviations = f"{pessimism:g} standard deviation{'' if pessimism == 1 else 's'}"
    return (
        f"rewards are {rewards}; {definition(report.model.steps, table.discount)}. "
        f"For the plan, uncertain values are lowered by {deviations}. "
        "Intervals of the logged policy hold with 90 % probability, noise and the choice of users "
        f"together; they come from returns of users. {_explain_learned_value(report)}"
    )


def _explain_learned_value(report: PolicyReport) -> str:
    """Where the value of the learned policy comes from, and why it has an interval or a bound."""
    improvement = report.improvement
    if improvement is not None and improvement.learned.estimated:
        return (
            "The value of the learned policy and its 90 % interval come from transitions of the "
            f"{improvement.users:,} users who were held out, because the data of the other users "
            "chose the policy."
        )
    return (
        "The value of the learned policy is the logged one and the gain in the model. "
        "It has a lower bound alone, because the same data chose the policy."
    )


def _assumptions(report: PolicyReport) -> list[Assumption]:
    """What the numbers assume.

    The values of states are always those of the model. A stated assumption of the certificate is
    repeated, because each certificate states its own.
    """
    improvement = report.improvement
    certificate = report.model.certificate
    assumptions: list[Assumption] = []
    for assumption in (
        *ASSUMPTIONS["model"],
        *(improvement.assumptions if improvement else ()),
        *(certificate.assumptions if certificate else ()),
    ):
        if assumption not in assumptions or assumption.kind == STATED:
            assumptions.append(assumption)
    return assumptions


def _explain_guarantee(report: PolicyReport) -> str:
    """The guarantee of the users of the model, and of those it was tested on."""
    guarantee = report.model.guarantee
    consequence = privacy_words.consequence(guarantee)
    improvement = report.improvement
    if improvement is None:
        return consequence
    if improvement.guarantee.request == guarantee.request:
        users = f"{improvement.users:,} users it was tested on"
        return f"{consequence} The same holds for each of the {users}."
    tested = privacy_words.consequence(improvement.guarantee)
    return f"{consequence} Users it was tested on: {tested}"


def rows(report: PolicyReport, most: int | None = None) -> list[list[str]]:
    """A row of text per state, under `HEADS`."""
    policy = report.policy
    departures = {departure.number: departure for departure in policy.departures()}
    values = report.model.logged_states
    texts = []
    for state in report.order[:most]:
        departure = departures.get(state)
        if departure is None:
            row = [label_or_number(policy.labels.state, state), "as logged", "", "", ""]
        else:
            row = [
                departure.state,
                departure.action,
                f"{100 * departure.logged:.0f} %",
                f"{_gain(departure)} {_gain_spread(departure)}",
                f"{min(100 * departure.chance, 99.9):.1f} %",
            ]
        value = _describe_state(values[state], bounded=report.model.values_are_bounded)
        texts.append([*row, value, f"{policy.visits[state]:,.0f}"])
    return texts


def _describe_state(value: Value, *, bounded: bool) -> str:
    """The value of a state from returns of users.

    Where returns only bound it, the interval stands alone.
    """
    if not value.estimated:
        return "not estimated"
    if bounded:
        return f"{value.low:.3g} to {value.high:.3g}"
    return with_interval(value)


def _gain(departure: Departure) -> str:
    return f"{departure.gain:.3g}"


def _gain_spread(departure: Departure) -> str:
    """The standard deviation of a gain."""
    return f"± {departure.gain_std:.2g}"


def cards(report: PolicyReport) -> list[tuple[str, str, str]]:
    """(heading, large, text): values, whether they are better, and what is revealed of a user."""
    best = report.best
    improvement = report.improvement
    logged = f"Worth {with_interval(best.logged)}, with 90 % probability."
    cards_so_far = [("Logged policy", _large(best.logged), logged)]
    if best.changed.any():
        better = "shown" if report.guess is None else "not shown"
        source = "by the logged value and the gain in the model"
        if improvement is not None and improvement.learned.estimated:
            source = "with 90 % probability, by users who were held out"
        text = f"Worth {with_interval(best.learned)}, {source}. It was {better} to be better."
        cards_so_far.append(("Learned policy", _large(best.learned), text))
    if improvement is not None:
        heading = f"Better, with {100 * improvement.level:g}\u202f% confidence"
        bound = f"at least +{improvement.bound:.3g}" if improvement.shown else "not shown"
        cards_so_far.append((heading, bound, f"{_capitalize(str(improvement))}."))
    elif report.policy.changed.any():
        text = "A prediction. confide learn --holdout tests it on users who were held out."
        cards_so_far.append(("Better", "not tested", text))
    return cards_so_far + privacy_card(report.model.guarantee)


def _large(value: Value) -> str:
    return "not estimated" if value.value is None else f"{value.value:.3g}"


def _table_cells(report: PolicyReport) -> list[list[TableCell]]:
    """The rows of the page's table, under `HEADS`, with keys to sort by."""
    policy = report.policy
    values = report.model.logged_states
    departures = {departure.number: departure for departure in policy.departures()}
    table = []
    texts = rows(report, _STATES_ON_PAGE)
    for state, row in zip(report.order[:_STATES_ON_PAGE], texts, strict=True):
        name, action, share, _, chance, value, visits = row
        departure = departures.get(state)
        hint = str(departure) if departure else f"in state {name}: as logged"
        gain = TableCell("")
        if departure:
            gain = TableCell(_gain(departure), _gain_spread(departure), departure.gain)
        table.append(
            [
                TableCell(name, "", name if policy.labels.state else state, hint),
                TableCell(action, "", action),
                TableCell(share, "", departure.logged if departure else None),
                gain,
                TableCell(chance, "", departure.chance if departure else None),
                TableCell(value, "", values[state].value),
                TableCell(visits, "", float(policy.visits[state])),
            ]
        )
    return table


def record(report: PolicyReport) -> dict[str, Any]:
    """Everything as JSON. The fields are part of the interface."""
    model = report.model
    guarantee = model.guarantee
    guess = report.guess
    improvement = report.improvement
    return {
        "title": report.title,
        "users": guarantee.users,
        "guarantee": guarantee.to_json(),
        "said": [{"about": heading, "text": text} for heading, text in words(report)],
        **report.policy.to_json(),
        "learned": report.best.learned.to_json(),
        "guess": None if guess is None else guess.to_json()["policy"],
        "states": [value.to_json() for value in model.logged_states],
        "value": definition(model.steps, model.table.discount),
        "choices": report.policy.choices.tolist(),
        "behaviour": report.policy.behaviour.tolist(),
        "visits": report.policy.visits.tolist(),
        "certificate": model.certificate.document if model.certificate is not None else None,
        "improvement": None if improvement is None else improvement.to_json(),
    }


def write_learned(report: PolicyReport, folder: str | Path, *, command: str = "") -> Path:
    """Write a report into a folder, and return the path of its page.

    The folder gets the model, its certificate, the policy, `policy.csv` and `report.html`.
    """
    with replace_files(Path(folder), last="model.npz") as target:
        report.model.save(target)
        report.policy.save(target)
        if report.improvement is not None:
            report.improvement.save(target)
        with (target / "policy.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADS)
            writer.writerows(rows(report))
        page.write(_page(report, command), target / "report.html")
    return Path(folder) / "report.html"


def _page(report: PolicyReport, command: str) -> str:
    """One HTML file that loads nothing."""
    model = report.model
    guarantee = model.guarantee
    lines = words(report)
    consequence = dict(lines)["guarantee"]
    return page.render(
        "values.html",
        title=report.title,
        heading="Policy",
        headline=_capitalize(report.headline),
        cards=cards(report),
        facts=[
            many(model.table.states, "state"),
            many(model.table.actions, "action"),
            many(guarantee.users, "user"),
            short_guarantee(guarantee),
        ],
        said=[line for line in lines if line[0] not in ("result", "guarantee", "assumed")],
        said_title="How it was made",
        picture="",
        heads=HEADS,
        lines=_table_cells(report),
        note=_note(report),
        private=guarantee.trust is not Trust.NONE,
        promised=consequence,
        name=privacy_words.NAMES[guarantee.trust],
        promise_facts=privacy_facts(guarantee, consequence),
        limits=privacy_words.not_protected(guarantee.trust, returns_shown=False),
        assumed=[text for heading, text in lines if heading == "assumed"],
        guarantee=str(guarantee),
        certificates=_certificates(report),
        command=command,
    )


def _certificates(report: PolicyReport) -> dict[str, str]:
    """By the names of their files."""
    improvement = report.improvement
    certificates = {
        "certificate.json": report.model.certificate,
        "improvement_certificate.json": improvement.certificate if improvement else None,
    }
    return {
        name: json.dumps(certificate.document, indent=2)
        for name, certificate in certificates.items()
        if certificate is not None
    }


def _note(report: PolicyReport) -> str:
    more = report.model.table.states - _STATES_ON_PAGE
    where = "The same rows are in policy.csv."
    if more > 0:
        where = f"{more:,} more states are in policy.csv."
    return (
        "States where it differs from the logged policy come first. "
        f"Click on a column head to sort. {where}"
    )
