"""Who is counted: one person once, in the open batch, within a budget.

A whole group of reports is decided in one transaction. What leaves this file are outcomes, the sum
of what the counted people contribute (PRIVATE), and rows of the database: who has which place in
which batch, and how much budget each person has spent.

The order of the checks in `Admission._refusal` is part of the threat model
(docs/privacy/threat_model.md): what can be said without looking at the person is said first. So is
the rule that the outcome never depends on what a trajectory holds. The names of the outcomes are
part of the API.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confide.errors import AnotherRound, ConfideError
from confide.service.core.live import Ints, LiveRun
from confide.service.store.interface import BatchPlace, Transaction

# An account adds up floating-point numbers. A person may spend this share of the budget more, so
# that rounding does not refuse the last report that fits. It is far above any rounding error, and
# the promise is not weakened by more than this share.
BUDGET_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Report:
    """What one person sends, once. PRIVATE. The name of the person does not come this far.

    `who` is the pseudonym of the person in this run, `person` the one of the account over all runs.
    `nonce` is the idempotency key. `generation` is the release with which the episode was planned.
    """

    run: str
    who: bytes = field(repr=False)
    person: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    generation: int
    # In a joint run (states, actions, rewards), in a local run the bytes of a message.
    content: Any = field(repr=False)
    # The digest of the round that the report answers, in a joint run. Whoever was served by the
    # service itself may leave it out.
    answered: bytes | None = None


@dataclass(frozen=True, slots=True)
class WellFormed:
    """A report that can be counted, and what its message adds to the sum. PRIVATE.

    `steps` is None if the run is joint, or if the report is late.
    """

    report: Report
    steps: Ints | None = field(repr=False)
    another_round: bool = False


@dataclass(frozen=True, slots=True)
class AdmittedReports:
    """What became of the first reports of a group, and what the counted ones add to the open sum.

    `outcomes` may be shorter than the group: for the reports after them the batch has no room.
    """

    outcomes: list[str]
    # The sum of the contributions of `users` people, in whole steps of the grid. PRIVATE.
    contribution: Ints = field(repr=False)
    users: int


def check_form(run: LiveRun, report: Report) -> WellFormed | None:
    """Return the report if it is well-formed. This is decided before anybody looks at the person.

    Otherwise somebody with a device key could send nonsense in a person's name again and again, and
    read from the answers whether the person is enrolled or has reported.
    """
    try:
        steps = run.decode_message(report.content, report.generation)
        another_round = run.is_another_round(report.generation, report.answered)
        return WellFormed(report, steps, another_round)
    except AnotherRound:
        return WellFormed(report, None, another_round=True)
    except ConfideError:
        return None


def admit_reports(
    tx: Transaction, run: LiveRun, reports: Sequence[WellFormed], *, cap: float, room: int
) -> AdmittedReports:
    """Decide about each report, until `room` of them are counted, and write who was counted.

    `cap` is what a person may lose over all runs, in mu^2.
    """
    admission = Admission(tx, run, [each.report for each in reports], cap)
    outcomes: list[str] = []
    trajectories: list[Any] = []
    contribution = run.zero_contribution()
    users = 0
    for well_formed in reports:
        if users == room:
            # The batch is full. The other reports are late, or belong to the next batch.
            break
        outcome = admission.admit(well_formed)
        outcomes.append(outcome)
        if outcome != "counted":
            continue
        users += 1
        if well_formed.steps is None:
            trajectories.append(well_formed.report.content)
        else:
            contribution = contribution + well_formed.steps
    admission.write()
    if trajectories:
        contribution = contribution + run.contribution(trajectories)
    return AdmittedReports(outcomes, contribution, users)


class Admission:
    """A group of reports, compared with what the store knows about their people.

    The store is read once, the reports are decided one by one, and the result is written at once.
    """

    def __init__(
        self, tx: Transaction, run: LiveRun, reports: Sequence[Report], cap: float
    ) -> None:
        """`cap` is what a person may lose over all runs, in mu^2."""
        self._tx = tx
        self._run = run
        self._cap = cap
        self._places = tx.places_of(run.name, [report.who for report in reports])
        self._spent: dict[bytes, float] = {}
        if math.isfinite(cap):
            self._spent = tx.accounts([report.person for report in reports])
        self._new_places: list[tuple[bytes, BatchPlace]] = []
        self._charges: dict[bytes, float] = {}

    def admit(self, well_formed: WellFormed) -> str:
        """Return what becomes of a well-formed report, whatever it says."""
        report = well_formed.report
        places = self._places.setdefault(report.who, [])
        if any(place.nonce == report.nonce for place in places):
            return "same"
        refusal = self._refusal(well_formed, places)
        if refusal:
            return refusal
        # Somebody who is enrolled has a place without a nonce. All others get the next slot.
        enrolled_slots = [place.slot for place in places if place.nonce is None]
        slot = enrolled_slots[0] if enrolled_slots else len(places)
        cost = self._run.cost(slot + 1)
        spent = self._spent.get(report.person, 0.0) + cost
        if spent > self._cap * (1 + BUDGET_SLACK):
            return "over-budget"
        self._spent[report.person] = spent
        if math.isfinite(cost):
            self._charges[report.person] = self._charges.get(report.person, 0.0) + cost
        new_place = BatchPlace(slot, self._run.generation, report.nonce)
        other_places = [place for place in places if place.slot != slot]
        self._places[report.who] = [*other_places, new_place]
        self._new_places.append((report.who, new_place))
        return "counted"

    def _refusal(self, well_formed: WellFormed, places: list[BatchPlace]) -> str:
        """Return why a report is not counted, whatever it says, or nothing if it is.

        What can be said without looking at the person is said first. A report of another release
        must be no way to ask whether somebody took part. The same holds for the rest of a batch
        that has closed. Do not move a check of `places` above the others.
        """
        run = self._run
        report = well_formed.report
        if run.size == 0:
            return "finished"
        if run.status != "open":
            return run.status
        if report.generation > run.generation:
            return "invalid"
        if report.generation < run.generation:
            return "late"
        if well_formed.another_round:
            return "another-round"
        if run.spec.batch.rule == "deadline":
            enrolled = any(place.generation == run.generation for place in places)
            if not enrolled:
                return "not-enrolled"
        reports_before = sum(place.nonce is not None for place in places)
        if reports_before >= run.spec.reports_per_person:
            return "another-report"
        return ""

    def write(self) -> None:
        """Write everybody who was counted, and what they lost."""
        self._tx.take_places(self._run.name, self._new_places)
        self._tx.charge(list(self._charges.items()))
