"""Reports that wait for an answer.

They are in the queue of the writer, or parked until their run is prepared.

Nothing here is durable. If the process ends, these reports are lost before anybody was told that
they are counted. Their devices send the same bytes again. So the order and the limits of this file
are free to change, as long as every report is answered at most once.
"""

import queue
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confide.service.core.admission import Report

# What may become of a report, and its HTTP status. Both are part of the API: devices decide by
# them whether to send the report again.
STATUS = {
    "counted": 201,
    "same": 200,
    "invalid": 400,
    "over-budget": 403,
    "not-enrolled": 403,
    "another-report": 409,
    "late": 410,
    "another-round": 410,
    "finished": 410,
    "paused": 503,
    "unavailable": 503,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a report, and the generation of the run's current release."""

    outcome: str
    generation: int = 0

    @property
    def status(self) -> int:
        return STATUS[self.outcome]


Reply = Callable[[Answer], None]
Ticket = tuple[Report, Reply]


class _WakeUp:
    """Tells the writer that a run was prepared."""


class _Stop:
    """Tells the writer that nothing more will come."""


class ReportQueue:
    """All reports that wait.

    Any thread may call `put`, `wake_up` and `stop`. The writer calls the rest.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Ticket | _WakeUp | _Stop] = queue.SimpleQueue()
        # By run: reports that wait until their run is prepared, and since when.
        self._parked: dict[str, list[tuple[Ticket, float]]] = {}

    @property
    def waiting(self) -> int:
        """How many reports wait, in the queue or parked."""
        parked = sum(len(tickets) for tickets in self._parked.copy().values())
        return self._queue.qsize() + parked

    def put(self, ticket: Ticket) -> None:
        self._queue.put(ticket)

    def wake_up(self) -> None:
        """End the writer's wait, because a run was prepared."""
        self._queue.put(_WakeUp())

    def stop(self) -> None:
        """End the writer's work, after everything that is in the queue now."""
        self._queue.put(_Stop())

    def next_group(
        self, *, most: int, seconds: float, take_prepared: Callable[[], list[Ticket]]
    ) -> tuple[list[Ticket], bool]:
        """Return at most about `most` reports, and whether the writer must stop after them.

        The first report is waited for `seconds` at most. `take_prepared` returns reports whose runs
        have been prepared since they were parked.
        """
        tickets = take_prepared()
        try:
            received = self._queue.get(timeout=0 if tickets else seconds)
            while not isinstance(received, _Stop):
                if isinstance(received, _WakeUp):
                    tickets += take_prepared()
                else:
                    tickets.append(received)
                if len(tickets) >= most:
                    return tickets, False
                received = self._queue.get_nowait()
        except queue.Empty:
            return tickets, False
        return tickets, True

    def park(self, run: str, tickets: Iterable[Ticket]) -> None:
        """Keep reports until their run is prepared."""
        now = time.monotonic()
        self._parked.setdefault(run, []).extend((ticket, now) for ticket in tickets)

    def take_parked(self, run: str) -> list[Ticket]:
        """Return the reports that are parked for a run. They are parked no longer."""
        return [ticket for ticket, _ in self._parked.pop(run, [])]

    def take_overdue(self, seconds: float) -> list[Ticket]:
        """Return the reports that have been parked for longer than `seconds`."""
        latest = time.monotonic() - seconds
        overdue: list[Ticket] = []
        for run, tickets in list(self._parked.items()):
            overdue += [ticket for ticket, since in tickets if since < latest]
            self._parked[run] = [parked for parked in tickets if parked[1] >= latest]
        return overdue
