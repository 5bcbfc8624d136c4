"""Who is counted: one person once, in the open batch, within a budget. For a whole group of reports, in one transaction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confide.errors import ConfideError
from confide.service.live import LiveRun
from confide.service.store import Taken, Transaction


@dataclass(frozen=True, slots=True)
class Report:
    """What one person sends, once. PRIVATE; the subject itself does not come here."""

    run: str
    who: bytes = field(repr=False)
    person: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    generation: int
    content: Any = field(repr=False)  # joint: (states, actions, rewards); local: the bytes of a message


class Admission:
    """A group of reports against what the store knows of their people: read at once, decided one by one, written at once."""

    def __init__(self, tx: Transaction, run: LiveRun, reports: Sequence[Report], cap: float) -> None:
        """`cap`: what a person may lose over all runs, in mu^2."""
        self._tx, self._run, self._cap = tx, run, cap
        self._taken = tx.taken(run.name, [report.who for report in reports])
        limited = math.isfinite(cap)
        self._spent = tx.accounts([report.person for report in reports]) if limited else {}
        self._new: list[tuple[bytes, Taken]] = []
        self._charges: dict[bytes, float] = {}

    def admit(self, report: Report) -> tuple[str, Any]:
        """What becomes of a report, and what it adds if it is a message. The answer depends on its content only where it is no message."""
        run, taken = self._run, self._taken.setdefault(report.who, [])
        if any(place.nonce == report.nonce for place in taken):
            return "same", None
        refused = self._refused(report, taken)
        if refused:
            return refused, None
        try:
            decoded = run.decoded(report.content, report.generation)
        except ConfideError:
            return "invalid", None
        slot = next((place.slot for place in taken if place.nonce is None), len(taken))
        cost = run.cost(slot + 1)
        spent = self._spent.get(report.person, 0.0) + cost
        if spent > self._cap * (1 + 1e-9):
            return "over-budget", None
        self._spent[report.person] = spent
        if math.isfinite(cost):
            self._charges[report.person] = self._charges.get(report.person, 0.0) + cost
        place = Taken(slot, run.generation, report.nonce)
        self._taken[report.who] = [*(each for each in taken if each.slot != slot), place]
        self._new.append((report.who, place))
        return "counted", decoded

    def _refused(self, report: Report, taken: list[Taken]) -> str:
        """Why a report is not counted, whatever it says; empty if it is. What can be said without looking at the person is said first: a
        report of another release is no way to ask whether somebody took part, and neither is the rest of a batch that has closed."""
        run = self._run
        if run.status != "open" or run.size == 0:
            return "finished" if run.size == 0 else run.status
        if report.generation != run.generation:
            return "invalid" if report.generation > run.generation else "late"
        if run.spec.batch.rule == "deadline" and not any(place.generation == run.generation for place in taken):
            return "not-enrolled"
        reports = [place for place in taken if place.nonce is not None]
        return "another-report" if len(reports) >= run.spec.reports_per_person else ""

    def write(self) -> None:
        """Everybody who was counted, and what they lost."""
        self._tx.take(self._run.name, self._new)
        self._tx.charge(list(self._charges.items()))
