"""The core of a service: reports in, signed releases out.

It knows no web framework and no dialect of SQL. What leaves it are answers to reports, and public
documents (manifest, certificate, releases, rounds) that `runs` holds.

One thread writes. It takes what is queued, up to `MAX_GROUP_REPORTS` reports, as one transaction:
who reported, and the open sum. Only then are they answered. A batch that is full, or whose time
has come, is closed by the same thread: noise, state, release and signature are one transaction;
then the mark outside of the database; then the release is shown. The next round is planned by
another thread (`live_runs`). Whatever fails, memory is thrown away and read again from the store.

These orders are required for privacy, and `tests/service/crash_harness.py` kills the service
between any two steps:

- An answer that says "counted" comes after the commit. Otherwise a crash loses somebody who was
  told that they are counted, and who therefore does not send the report again.
- A release is shown after its commit and after its mark. Otherwise a crash takes back noise that
  somebody has seen, and new noise for the same people is shown next.

Numbers of this file are a matter of taste, unless their comment says something else.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from confide.errors import ConfideError, InvalidParameter, StateError
from confide.service.core import live_runs
from confide.service.core.admission import Report, WellFormed, admit_reports, check_form
from confide.service.core.creation import check_same, store_new_run
from confide.service.core.enrolment import enrol_people
from confide.service.core.live import LiveRun
from confide.service.core.live_runs import LiveRuns
from confide.service.core.report_queue import Answer, Reply, ReportQueue, Ticket
from confide.service.core.spec import ServiceRunSpec
from confide.service.documents import ReleaseRow
from confide.service.store.interface import Moved, OpenSum, ServiceStore, Transaction
from confide.service.store.keys import KeyFolder
from confide.service.store.marks import Marks
from confide.service.store.signing_keys import current_key, rotate_signing_key

log = logging.getLogger("confide.service")

# A transaction has at most this many reports.
MAX_GROUP_REPORTS = 512
# At most this many reports may wait. Others are answered 503.
MAX_WAITING_REPORTS = 20_000
# A release of another worker is shown by this one after so many seconds.
LOOK_SECONDS = 0.25
# The writer of a service with one worker wakes up after so many seconds without a report.
IDLE_SECONDS = 1.0
# After a close the writer waits so many seconds for the next round. Most rounds are planned by
# then, and it would cost more to take reports meanwhile.
USUAL_PLANNING_SECONDS = 0.02
# Reports wait so many seconds for their run to be planned, before they are answered 503.
PATIENCE_SECONDS = 5.0
# A run may need so many bytes of memory, unless the operator says otherwise.
RUN_MEMORY_BYTES = 10**9
# So often a group of reports is tried while other workers are faster.
MAX_ATTEMPTS = 3


def _ignore_fault(point: str) -> None:
    """What a service does at the points of the crash matrix: nothing."""


class Service:
    """Runs, their writer thread, and what operators do. PRIVATE: its memory holds people's data."""

    def __init__(
        self,
        store: ServiceStore,
        keys: KeyFolder,
        marks: Marks,
        *,
        clock: Callable[[], float] = time.time,
        fault: Callable[[str], None] = _ignore_fault,
        run_memory: int = RUN_MEMORY_BYTES,
    ) -> None:
        """Read all runs from the store.

        `fault` is called at the points of the crash matrix: tests kill the process there.
        `run_memory` is how many bytes a run may need, by an estimate that is made before the run.
        """
        self.store = store
        self.keys = keys
        self.marks = marks
        self._clock = clock
        self._fault = fault
        self._live = LiveRuns(
            store, keys, marks, memory=run_memory, fault=lambda point: self._fault(point)
        )
        self.runs = self._live.by_name
        # For operators: how many answers were given, by run and outcome, and commits, by run.
        self.counts: Counter[tuple[str, str]] = Counter()
        self.commits: Counter[str] = Counter()
        self._reports = ReportQueue()
        self._last_look = time.monotonic()
        self._last_look_failure = ""
        self._creating = threading.Lock()
        # Runs whose reports have just waited. If such a run fails again, its reports do not wait
        # for the next attempt.
        self._have_waited: set[str] = set()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.key = current_key(store, keys)
        for name in store.runs():
            self._live.try_again(name, self.key)

    # runs

    def create(self, spec: ServiceRunSpec, actor: str = "command line") -> None:
        """Make a new run, unless it is there with the same settings.

        Its manifest is durable before anybody can read it. This may take long. It holds up neither
        the writer nor other runs, if it is called in a thread of its own.
        """
        with self._creating:
            self._create_once(spec, actor)

    def _create_once(self, spec: ServiceRunSpec, actor: str) -> None:
        if spec.name in self._live.left_out:
            raise StateError(
                f"run {spec.name} is finished, and cannot be served any more. Choose another name"
            )
        row = self.store.run(spec.name)
        if row is None:
            self._live.check_size(spec)
            now = self._clock()
            store_new_run(
                self.store, self.marks, spec, key=self.key, cap=self._live.cap, now=now, actor=actor
            )
        else:
            check_same(spec, row)
        if spec.name not in self.runs and self._live.works(spec.name):
            self._live.prepare(spec.name, self.key).wait()

    def check_size(self, spec: ServiceRunSpec) -> None:
        """Refuse a run that needs more memory than one run may.

        This is decided before anything of the size of the run is made.
        """
        self._live.check_size(spec)

    # what other workers do

    def _look(self) -> None:
        """Read other workers' releases, runs and signing keys, and runs that failed.

        This happens every now and then. A service that works alone has only failed runs to read.
        """
        alone = self.store.workers == 1
        if alone and not self._live.failures:
            return
        pause = live_runs.RETRY_SECONDS if alone else LOOK_SECONDS
        if time.monotonic() - self._last_look < pause:
            return
        self._last_look = time.monotonic()
        names = list(self.runs)
        failure = ""
        try:
            names = self.store.runs()
            self.key = current_key(self.store, self.keys)
        except Exception as error:
            failure = str(error) if isinstance(error, ConfideError) else type(error).__name__
        # A failure is logged when it begins, and not four times a second.
        if failure and failure != self._last_look_failure:
            log.error("what other workers do could not be read: %s", failure)
        self._last_look_failure = failure
        for name in names:
            if name in self._live.left_out or self._live.is_prepared_now(name):
                continue
            if name in self._live.failures or name not in self.runs:
                self._live.try_again(name, self.key)
            else:
                self._catch_up(name)

    def _catch_up(self, name: str) -> bool:
        """Follow other workers, and return whether the run works."""
        try:
            self._follow(name)
        except Exception as error:
            self._live.fail(name, "reading", error)
        return name not in self._live.failures

    def _follow(self, name: str) -> None:
        """Take over what other workers have done to a run: a release, a pause, more users.

        Nothing in memory is thrown away if they have not closed the batch.
        """
        head = self.store.head(name)
        run = self.runs[name]
        if head.generation == run.generation:
            run.status = head.status
            run.users = head.users
        else:
            self._live.prepare(name, self.key)

    # what is asked about the service

    @property
    def ready(self) -> bool:
        """Whether reports are taken.

        A service is ready if its writer works, and if some run is ready or there is no run.
        """
        writer_works = self._thread is None or self._thread.is_alive()
        if self._stopping or not writer_works:
            return False
        failed = set(self._live.failures)
        names = set(self.runs) | failed
        return not names or bool(names - failed)

    @property
    def not_ready(self) -> dict[str, str]:
        """The runs whose reports are answered 503, and why.

        The names are public, the reasons are for operators.
        """
        return {name: failure.cause for name, failure in sorted(self._live.failures.copy().items())}

    def people(self, run: LiveRun) -> tuple[int, int]:
        """Return how many users the open batch has, and how many reports the run has counted.

        These are the numbers of all workers together, so the store is asked. PRIVATE under
        `deadline`: only operators may see them.
        """
        head = self.store.head(run.name)
        open_users = head.users if head.generation == run.generation else run.users
        return open_users, sum(self.store.participants(run.name).values())

    @property
    def waiting(self) -> int:
        """How many reports wait for an answer."""
        return self._reports.waiting

    # reports

    def start(self) -> None:
        """Start the writer's thread."""
        self._live.wake_writer = self._reports.wake_up
        self._thread = threading.Thread(target=self._work, name="confide-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer everything that is queued, end the writer's thread, and close the store."""
        self._stopping = True
        if self._thread is not None:
            self._reports.stop()
            self._thread.join()
        self.store.close()

    def submit(self, report: Report, reply: Reply) -> None:
        """Queue a report. The writer's thread calls `reply` when its answer is durable."""
        if self._stopping or self.waiting >= MAX_WAITING_REPORTS:
            reply(Answer("unavailable"))
            return
        self._reports.put((report, reply))

    def _work(self) -> None:
        """Do the writer's work until the service stops.

        Whatever goes wrong, this thread goes on, because without it nobody is answered.
        """
        last = False
        while not last:
            try:
                tickets, last = self._next_group()
                self.handle(tickets)
            except Exception as error:
                log.error("the writer failed: %s", type(error).__name__)
        # Nobody prepares these runs any more, so all parked reports are overdue.
        self._answer_overdue(seconds=-1.0)

    def _next_group(self) -> tuple[list[Ticket], bool]:
        """Return the reports that are next, and whether the writer must stop after them."""
        return self._reports.next_group(
            most=MAX_GROUP_REPORTS,
            seconds=self._seconds_until_due(),
            take_prepared=self._take_prepared,
        )

    def _seconds_until_due(self) -> float:
        """Return for how long the writer may wait for a report: the next deadline may be sooner."""
        now = self._clock()
        wait = IDLE_SECONDS if self.store.workers == 1 else LOOK_SECONDS
        for run in list(self.runs.values()):
            if run.planned and run.status == "open" and self._live.works(run.name):
                deadline = run.spec.batch.deadline(run.generation)
                wait = min(wait, max(0.0, deadline - now))
        return wait

    def _take_prepared(self) -> list[Ticket]:
        """Take over the runs that were prepared, and return the reports that waited for them."""
        names = self._live.install_prepared()
        self._have_waited.update(names)
        return [ticket for name in names for ticket in self._reports.take_parked(name)]

    def handle(self, tickets: Sequence[Ticket]) -> None:
        """Settle a group of reports, then do whatever is due.

        The writer's thread calls it, and tests do.
        """
        by_run: dict[str, list[Ticket]] = {}
        for ticket in tickets:
            by_run.setdefault(ticket[0].run, []).append(ticket)
        self._look()
        self._answer_overdue(seconds=PATIENCE_SECONDS)
        self.close_due()
        for name, tickets_of_run in by_run.items():
            self._handle_run(name, tickets_of_run)
        self._have_waited.clear()

    def _handle_run(self, name: str, tickets: list[Ticket]) -> None:
        """Settle the reports to one run. A batch that they fill is closed before the rest."""
        while tickets:
            generation_before = self.runs[name].generation
            left = self._settle(name, tickets)
            self.close_due()
            run = self.runs[name]
            stuck = run.generation == generation_before and len(left) == len(tickets)
            if left and run.planned and stuck:
                # The batch could not be closed. The devices send the same bytes again later.
                self._answer_all(left, "unavailable")
                return
            tickets = left

    def _settle(
        self, name: str, tickets: list[Ticket], attempts: int = MAX_ATTEMPTS
    ) -> list[Ticket]:
        """Answer reports to one run, or park them, and return those that must be settled again.

        The open batch has no room for these. They are settled again after it is closed.
        """
        try:
            if name in self._live.failures and name not in self._have_waited:
                self._live.try_again(name, self.key)
            if self._live.is_prepared_now(name):
                self._reports.park(name, tickets)
                return []
            if name in self._live.failures:
                self._answer_all(tickets, "unavailable")
                return []
            self._fault("received")
            run = self.runs[name]
            if run.due(self._clock()):
                # The batch is closed first.
                return tickets
            tickets, well_formed = self._answer_malformed(run, tickets)
            answers, left = self._commit(run, tickets, well_formed)
        except Moved as error:
            if attempts > 1 and self._catch_up(name):
                return self._settle(name, tickets, attempts - 1)
            self._live.fail(name, "reports", error)
            self._answer_all(tickets, "unavailable")
            return []
        except Exception as error:
            # Whatever it was, nothing of these reports is durable.
            self._live.fail(name, "reports", error)
            self._answer_all(tickets, "unavailable")
            return []
        self._answer(list(zip(tickets, answers, strict=False)))
        return left

    def _answer_overdue(self, *, seconds: float) -> None:
        """Answer reports that have been parked for longer. Their devices send them again."""
        self._answer_all(self._reports.take_overdue(seconds), "unavailable")

    def _answer_malformed(
        self, run: LiveRun, tickets: list[Ticket]
    ) -> tuple[list[Ticket], list[WellFormed]]:
        """Answer what is no report, without a look at the store. The others are returned."""
        malformed: list[Ticket] = []
        well_formed_tickets: list[Ticket] = []
        well_formed_reports: list[WellFormed] = []
        for ticket in tickets:
            well_formed = check_form(run, ticket[0])
            if well_formed is None:
                malformed.append(ticket)
            else:
                well_formed_tickets.append(ticket)
                well_formed_reports.append(well_formed)
        self._answer_all(malformed, "invalid", run.generation)
        return well_formed_tickets, well_formed_reports

    def _commit(
        self, run: LiveRun, tickets: list[Ticket], reports: list[WellFormed]
    ) -> tuple[list[Answer], list[Ticket]]:
        """Write who reported, what they lost, and the open sum, in one transaction.

        Return the answers to the first reports, and the reports for which the batch has no room.
        """
        if not tickets:
            return [], []
        most_users = run.most_users_at_once(self.store.workers, MAX_GROUP_REPORTS)
        with self.store.transaction() as tx:
            users_before = self._hold(tx, run, alone=most_users == 0)
            room = self._room(run, users_before, most_users or MAX_GROUP_REPORTS, len(reports))
            admitted = admit_reports(tx, run, reports, cap=self._live.cap, room=room)
            if admitted.users:
                total = admitted.contribution.astype("<i8").tobytes()
                tx.add_to_sum(run.name, OpenSum(run.generation, admitted.users, total))
            self._fault("summed")
        self._fault("committed")
        run.users = users_before + admitted.users
        self.commits[run.name] += 1
        answers = [Answer(outcome, run.generation) for outcome in admitted.outcomes]
        return answers, tickets[len(answers) :]

    def _hold(self, tx: Transaction, run: LiveRun, *, alone: bool) -> int:
        """Return how many users the open batch has, if it is the one that this process has."""
        head = tx.hold(run.name, alone=alone)
        if (head.generation, head.status) != (run.generation, run.status):
            raise Moved(
                "another worker has closed the batch, or somebody has changed the run's status"
            )
        return head.users

    def _room(self, run: LiveRun, users: int, most_users: int, reports: int) -> int:
        """Return how many of these reports may be counted now.

        Under `deadline` there is no limit here, because places are limited when people are
        enrolled. A run that takes no reports refuses each of them, which needs no room.
        """
        counts = run.spec.batch.rule == "count" and run.status == "open" and run.size > 0
        if not counts:
            return reports
        return min(max(run.size - users, 0), most_users)

    def _answer_all(self, tickets: list[Ticket], outcome: str, generation: int = 0) -> None:
        self._answer([(ticket, Answer(outcome, generation)) for ticket in tickets])

    def _answer(self, answers: list[tuple[Ticket, Answer]]) -> None:
        for (report, reply), answer in answers:
            self.counts[report.run, answer.outcome] += 1
            try:
                reply(answer)
            except Exception as error:
                # Whoever asked is gone. The others must still be answered.
                log.error("an answer could not be given: %s", type(error).__name__)

    # closing

    def close_due(self) -> None:
        """Close every batch that is full, or whose time has come."""
        for run in list(self.runs.values()):
            while self._live.works(run.name) and self.runs[run.name].due(self._clock()):
                try:
                    self._close(self.runs[run.name])
                except Moved as error:
                    if not self._catch_up(run.name) and run.name not in self._live.failures:
                        self._live.fail(run.name, "a close", error)
                except Exception as error:
                    # The noise never left this process. Memory is thrown away with it, and new
                    # noise is drawn for the sum in the store.
                    self._live.fail(run.name, "a close", error)

    def _close(self, run: LiveRun) -> None:
        """Close the open batch, make its release durable, and show it, in this order."""
        with self.store.transaction() as tx:
            self._hold(tx, run, alone=True)
            # Another worker may have shown a newer release since a backup was put back.
            self.marks.check(run.name, run.generation, run.release.digest)
            total = tx.open_sum(run.name)
            with tx.keep_alive():
                release, state = run.draw(self.key, total)
            self._fault("drawn")
            tx.close(release, state)
            if run.exhausted:
                tx.set_status(run.name, "finished")
        self._fault("closed")
        self.store.forget()
        self.marks.write(run.name, release.generation, release.digest)
        self._fault("marked")
        self._show(run, release)
        self._live.prepare(run.name, self.key, run)
        self._live.wait_for(run.name, USUAL_PLANNING_SECONDS)

    def _show(self, run: LiveRun, release: ReleaseRow) -> None:
        """Show a release that is durable and marked. From here on everybody can read it."""
        if run.exhausted:
            run.status = "finished"
        run.follow(release)

    # what operators do: each action is in the audit before it has an effect

    def set_status(self, name: str, status: str, actor: str) -> None:
        """Make a run open, paused or finished. A finished run stays finished."""
        with self.store.transaction() as tx:
            if tx.hold(name, alone=True).status == "finished":
                raise InvalidParameter(f"run {name} is finished")
            tx.audit(self._now(), actor, status, name)
            tx.set_status(name, status)
        if name in self.runs:
            self.runs[name].status = status

    def enrol(self, name: str, subjects: Sequence[str], generation: int, actor: str) -> int:
        """Enrol people into a batch of a run with deadlines, before it closes.

        Return how many of them are new. If the batch has too few places, all are refused.
        """
        run = self.runs[name]
        if run.spec.batch.rule != "deadline":
            raise InvalidParameter(
                f"run {name} must have the rule deadline, it has the rule {run.spec.batch.rule}: "
                "it takes reports from anybody, so enrol nobody"
            )
        with self.store.transaction() as tx:
            new_people = enrol_people(tx, run, subjects, generation)
            tx.audit(self._now(), actor, "enrol", f"{name} batch {generation}: {new_people}")
        return new_people

    def rotate(self, actor: str) -> str:
        """Make a new signing key, which the one before it endorses, and return its id."""
        self.key = rotate_signing_key(self.store, self.keys, actor, self._now())
        return self.key.id

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
