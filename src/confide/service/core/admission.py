"""Who is counted: one person once, in the open batch, within a budget. For a whole group of reports, in one transaction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confide.errors import AnotherRound, ConfideError
from confide.service.core.live import Ints, LiveRun
from confide.service.store.interface import Taken, Transaction


@dataclass(frozen=True, slots=True)
class Report:
    """What one person sends, once. PRIVATE; the subject itself does not come here."""

    run: str
    who: bytes = field(repr=False)
    person: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    generation: int
    # joint: (states, actions, rewards); local: the bytes of a message
    content: Any = field(repr=False)
    # The digest of the round that it answers, of a joint run. Whoever was served by the service itself may leave it out.
    answered: bytes | None = None


@dataclass(frozen=True, slots=True)
class WellFormed:
    """A report that can be counted, and what its message adds to the sum (None: the run is joint, or the report is late)."""

    report: Report
    steps: Ints | None = field(repr=False)
    another_round: bool = False


def check_form(run: LiveRun, report: Report) -> WellFormed | None:
    """The report, if it is well-formed. This is decided before anybody looks at the person.

    Otherwise somebody with a device key could send nonsense in a person's name again and again, and
    read from the answers whether the person is enrolled or has reported.
    """
    try:
        steps = run.decoded(report.content, report.generation)
        return WellFormed(
            report, steps, another_round=run.is_another_round(report.generation, report.answered)
        )
    except AnotherRound:
        return WellFormed(report, None, another_round=True)
    except ConfideError:
        return None


class Admission:
    """A group of reports against what the store knows of their people: read at once, decided one by one, written at once."""

    def __init__(
        self, tx: Transaction, run: LiveRun, reports: Sequence[Report], cap: float
    ) -> None:
        """`cap`: what a person may lose over all runs, in mu^2."""
        self._tx, self._run, self._cap = tx, run, cap
        self._taken = tx.taken(run.name, [report.who for report in reports])
        limited = math.isfinite(cap)
        self._spent = tx.accounts([report.person for report in reports]) if limited else {}
        self._new: list[tuple[bytes, Taken]] = []
        self._charges: dict[bytes, float] = {}

    def admit(self, well_formed: WellFormed) -> str:
        """What becomes of a well-formed report, whatever it says."""
        report = well_formed.report
        run, taken = self._run, self._taken.setdefault(report.who, [])
        if any(place.nonce == report.nonce for place in taken):
            return "same"
        refused = self._refused(well_formed, taken)
        if refused:
            return refused
        slot = next((place.slot for place in taken if place.nonce is None), len(taken))
        cost = run.cost(slot + 1)
        spent = self._spent.get(report.person, 0.0) + cost
        if spent > self._cap * (1 + 1e-9):
            return "over-budget"
        self._spent[report.person] = spent
        if math.isfinite(cost):
            self._charges[report.person] = self._charges.get(report.person, 0.0) + cost
        place = Taken(slot, run.generation, report.nonce)
        self._taken[report.who] = [*(each for each in taken if each.slot != slot), place]
        self._new.append((report.who, place))
        return "counted"

    def _refused(self, well_formed: WellFormed, taken: list[Taken]) -> str:
        """Why a report is not counted, whatever it says; empty if it is. What can be said without looking at the person is said first: a
        report of another release is no way to ask whether somebody took part, and neither is the rest of a batch that has closed."""
        run, report = self._run, well_formed.report
        if run.status != "open" or run.size == 0:
            return "finished" if run.size == 0 else run.status
        if report.generation != run.generation:
            return "invalid" if report.generation > run.generation else "late"
        if well_formed.another_round:
            return "another-round"
        if run.spec.batch.rule == "deadline" and not any(
            place.generation == run.generation for place in taken
        ):
            return "not-enrolled"
        reports = [place for place in taken if place.nonce is not None]
        return "another-report" if len(reports) >= run.spec.reports_per_person else ""

    def write(self) -> None:
        """Everybody who was counted, and what they lost."""
        self._tx.take(self._run.name, self._new)
        self._tx.charge(list(self._charges.items()))
