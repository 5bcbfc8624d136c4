"""The core of a service: reports in, signed releases out. It knows no web framework and no dialect of SQL.

One thread writes. It takes what is queued, up to `GROUP` reports, as one transaction: who reported, and the open sum. Only then are they
answered. A batch that is full, or whose time has come, is closed by the same thread: noise, state, release and signature are one
transaction; then the mark outside of the database; then the release is shown. The next round is planned by another thread (`live_runs`).
Whatever fails, memory is thrown away and read again from the store.
"""

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from confide.errors import ConfideError, InvalidParameter, StateError, StoreError
from confide.privatizers import Schedule
from confide.service.core import live_runs
from confide.service.core.admission import Admission, Report, WellFormed, check_form
from confide.service.core.creation import check_new, check_same, new_records
from confide.service.core.live import LiveRun, made_learner
from confide.service.core.live_runs import LiveRuns
from confide.service.core.spec import ServiceRunSpec
from confide.service.documents import ReleaseRow
from confide.service.store.interface import Moved, OpenSum, ServiceStore, Taken, Transaction
from confide.service.store.keys import KeyFolder
from confide.service.store.marks import Marks
from confide.service.store.signing_keys import current_key, rotated

log = logging.getLogger("confide.service")
GROUP = 512  # reports in one transaction, at most
QUEUE = 20_000  # reports that may wait
LOOK = 0.25  # seconds until a release of another worker is shown by this one
# Seconds that the writer waits for a round. Most are planned by then, and it would cost more to take reports meanwhile.
USUAL_PLANNING = 0.02
# seconds that reports wait for their run to be planned, before they are answered with 503
PATIENCE = 5.0
RUN_MEMORY = 10**9  # bytes that a run may need, unless the operator says otherwise
TRIES = 3  # of a group of reports, while other workers are faster
STATUS = {  # what becomes of a report, and its status of HTTP
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
    """What became of a report, and the release that is current now."""

    outcome: str
    generation: int = 0

    @property
    def status(self) -> int:
        return STATUS[self.outcome]


class Wake:
    """It is in the queue of reports when a run was prepared."""


Reply = Callable[[Answer], None]
Ticket = tuple[Report, Reply]


class Service:
    """Runs, their writer thread and what operators do. `fault` is called at the points of the crash matrix: tests kill there."""

    def __init__(
        self,
        store: ServiceStore,
        keys: KeyFolder,
        marks: Marks,
        *,
        clock: Callable[[], float] = time.time,
        fault: Callable[[str], None] = lambda _: None,
        run_memory: int = RUN_MEMORY,
    ) -> None:
        """`run_memory`: bytes that a run may need, by an estimate that is made before the run is."""
        self.store, self.keys, self.marks = store, keys, marks
        self._clock, self._fault = clock, fault
        self._live = LiveRuns(
            store, keys, marks, memory=run_memory, fault=lambda point: self._fault(point)
        )
        self.runs = self._live.by_name
        # of answers, by run and outcome: for operators
        self.counts: Counter[tuple[str, str]] = Counter()
        self.commits: Counter[str] = Counter()
        self._looked, self._cause = time.monotonic(), ""
        self._queue: queue.SimpleQueue[Ticket | Wake | None] = queue.SimpleQueue()
        self._creating = threading.Lock()
        # Reports to runs that are being prepared, and when they came.
        self._parked: dict[str, list[tuple[Ticket, float]]] = {}
        # Runs whose reports have just waited: if such a run fails again, its reports do not wait for the next attempt.
        self._have_waited: set[str] = set()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.key = current_key(store, keys)
        for name in store.runs():
            self._live.try_again(name, self.key)

    # runs

    def create(self, spec: ServiceRunSpec, actor: str = "command line") -> None:
        """Make a new run, unless it is there with the same settings. Its manifest is durable before anybody can read it.

        This may take long. It holds up neither the writer nor other runs, if it is called in a thread of its own.
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
            self._create(spec, actor)
        else:
            check_same(spec, row)
        if spec.name not in self.runs and self._live.works(spec.name):
            self._live.prepare(spec.name, self.key).wait()

    def _create(self, spec: ServiceRunSpec, actor: str) -> None:
        if spec.batch.rule == "deadline" and spec.batch.start is None:
            spec = replace(spec, batch=replace(spec.batch, start=float(int(self._clock()))))
        if self.marks.read(spec.name) is not None:
            raise StateError(
                f"run {spec.name} was served before, from another database: its users must not be asked again. Choose another name"
            )
        learner = made_learner(spec)
        now = self._clock()
        check_new(spec, learner, self._live.cap, now)
        row, first = new_records(spec, learner, self.key, now)
        with self.store.transaction() as tx:
            tx.create_run(row, first, learner.save())
            tx.audit(self._now(), actor, "create", spec.name)

    def _follow(self, name: str) -> None:
        """What other workers have done: a release, a pause. Nothing here is thrown away if they have done nothing."""
        head, run = self.store.head(name), self.runs[name]
        if head.generation == run.generation:
            run.status, run.users = head.status, head.users
        else:
            self._live.prepare(name, self.key)

    def _look(self) -> None:
        """Every now and then: other workers' releases, runs and signing keys, and runs that failed."""
        alone = self.store.workers == 1
        wait = live_runs.AGAIN if alone else LOOK
        if (alone and not self._live.failures) or time.monotonic() - self._looked < wait:
            return
        self._looked = time.monotonic()
        names, cause = list(self.runs), ""
        try:
            names, self.key = self.store.runs(), current_key(self.store, self.keys)
        except Exception as error:
            cause = str(error) if isinstance(error, ConfideError) else type(error).__name__
        if cause and cause != self._cause:  # once, and not four times a second
            log.error("what other workers do could not be read: %s", cause)
        self._cause = cause
        for name in names:
            if name in self._live.left_out or self._live.is_prepared_now(name):
                continue
            if name in self._live.failures or name not in self.runs:
                self._live.try_again(name, self.key)
            else:
                self._caught_up(name)

    @property
    def ready(self) -> bool:
        """Whether reports are taken. A service is ready if the writer works and some run is ready, or if there is no run."""
        working = self._thread is None or self._thread.is_alive()
        names = set(self.runs) | set(self._live.failures)
        return (
            working and not self._stopping and (not names or bool(names - set(self._live.failures)))
        )

    @property
    def not_ready(self) -> dict[str, str]:
        """The runs whose reports are answered with 503, and why. The names are public, the reasons are for operators."""
        return {name: failure.cause for name, failure in sorted(self._live.failures.copy().items())}

    def people(self, run: LiveRun) -> tuple[int, int]:
        """How many users the open batch has, and how many reports the run has counted: by all workers, so the store is asked."""
        head = self.store.head(run.name)
        open_users = head.users if head.generation == run.generation else run.users
        return open_users, sum(self.store.participants(run.name).values())

    @property
    def waiting(self) -> int:
        return self._queue.qsize() + sum(len(tickets) for tickets in self._parked.copy().values())

    def check_size(self, spec: ServiceRunSpec) -> None:
        """Refuse a run that needs more memory than one run may, before anything of its size is made."""
        self._live.check_size(spec)

    # reports

    def start(self) -> None:
        self._live.wake_writer = lambda: self._queue.put(Wake())
        self._thread = threading.Thread(target=self._work, name="confide-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Everything that was queued is answered first."""
        self._stopping = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        self.store.close()

    def submit(self, report: Report, reply: Reply) -> None:
        """`reply` is called by the writer's thread, when what it says is durable."""
        if self._stopping or self.waiting >= QUEUE:
            reply(Answer("unavailable"))
            return
        self._queue.put((report, reply))

    def _work(self) -> None:
        """Whatever goes wrong, this thread goes on: without it nobody is answered."""
        last = False
        while not last:
            try:
                tickets, last = self._next()
                self.handle(tickets)
            except Exception as error:
                log.error("the writer failed: %s", type(error).__name__)
        self._answer_parked(longer_than=-1.0)

    def _next(self) -> tuple[list[Ticket], bool]:
        now = self._clock()
        opened = [
            run
            for run in list(self.runs.values())
            if run.planned and run.status == "open" and self._live.works(run.name)
        ]
        deadlines = [run.spec.batch.deadline(run.generation) for run in opened]
        wait = min(
            [1.0 if self.store.workers == 1 else LOOK, *(max(0.0, at - now) for at in deadlines)]
        )
        tickets = self._take_over()
        try:
            received = self._queue.get(timeout=0 if tickets else wait)
            while received is not None:
                if isinstance(received, Wake):
                    tickets += self._take_over()
                else:
                    tickets.append(received)
                if len(tickets) >= GROUP:
                    return tickets, False
                received = self._queue.get_nowait()
        except queue.Empty:
            return tickets, False
        return tickets, True

    def handle(self, tickets: Sequence[Ticket]) -> None:
        """A group of reports, then whatever is due. The writer's thread calls it, and tests do."""
        waiting: dict[str, list[Ticket]] = {}
        for ticket in tickets:
            waiting.setdefault(ticket[0].run, []).append(ticket)
        self._look()
        self._answer_parked(longer_than=PATIENCE)
        self.close_due()
        for name, mine in waiting.items():
            rest = mine
            while rest:
                before = self.runs[name].generation, len(rest)
                rest = self._settled(name, rest)
                self.close_due()
                if (
                    rest
                    and self.runs[name].planned
                    and (self.runs[name].generation, len(rest)) == before
                ):  # not closed: they send the same bytes again later
                    self._answer([(ticket, Answer("unavailable")) for ticket in rest])
                    rest = []
        self._have_waited.clear()

    def _settled(self, name: str, tickets: list[Ticket], tries: int = TRIES) -> list[Ticket]:
        """Answer these; those for whom the open batch has no room are returned, to be asked again after it is closed."""
        try:
            if name in self._live.failures and name not in self._have_waited:
                self._live.try_again(name, self.key)
            if self._live.is_prepared_now(name):
                self._parked.setdefault(name, []).extend(
                    (ticket, time.monotonic()) for ticket in tickets
                )
                return []
            if name in self._live.failures:
                self._answer([(ticket, Answer("unavailable")) for ticket in tickets])
                return []
            self._fault("received")
            run = self.runs[name]
            if run.due(self._clock()):
                return tickets  # it is closed first
            tickets, well_formed = self._answer_malformed(run, tickets)
            answers, rest = self._commit(run, tickets, well_formed)
        except Moved as error:
            if tries > 1 and self._caught_up(name):
                return self._settled(name, tickets, tries - 1)
            self._live.fail(name, "reports", error)
            answers, rest = [Answer("unavailable")] * len(tickets), []
        except Exception as error:  # whatever it was, nothing of these reports is durable
            self._live.fail(name, "reports", error)
            answers, rest = [Answer("unavailable")] * len(tickets), []
        self._answer([(ticket, answer) for ticket, answer in zip(tickets, answers, strict=False)])
        return rest

    def _take_over(self) -> list[Ticket]:
        """Runs that were prepared, and the reports that have waited for them."""
        names = self._live.install_prepared()
        self._have_waited.update(names)
        return [ticket for name in names for ticket, _ in self._parked.pop(name, [])]

    def _answer_parked(self, *, longer_than: float) -> None:
        """Answer reports that have waited for so many seconds for their run to be prepared: their devices send them again."""
        latest = time.monotonic() - longer_than
        for name, tickets in list(self._parked.items()):
            late = [ticket for ticket, since in tickets if since < latest]
            self._parked[name] = [each for each in tickets if each[1] >= latest]
            self._answer([(ticket, Answer("unavailable")) for ticket in late])

    def _answer_malformed(
        self, run: LiveRun, tickets: list[Ticket]
    ) -> tuple[list[Ticket], list[WellFormed]]:
        """Answer what is no report, without a look at the store. The others are returned."""
        checked = [(ticket, check_form(run, ticket[0])) for ticket in tickets]
        self._answer(
            [
                (ticket, Answer("invalid", run.generation))
                for ticket, report in checked
                if report is None
            ]
        )
        kept = [(ticket, report) for ticket, report in checked if report is not None]
        return [ticket for ticket, _ in kept], [report for _, report in kept]

    def _caught_up(self, name: str) -> bool:
        try:
            self._follow(name)
        except Exception as error:
            self._live.fail(name, "reading", error)
        return name not in self._live.failures

    def _commit(
        self, run: LiveRun, tickets: list[Ticket], reports: list[WellFormed]
    ) -> tuple[list[Answer], list[Ticket]]:
        """One transaction: who reported, what they lost, and the open sum."""
        if not tickets:
            return [], []
        most = run.at_once(self.store.workers, GROUP)
        with self.store.transaction() as tx:
            users = self._held(tx, run, alone=most == 0)
            answers, added, counted = self._admitted(tx, run, reports, users, most or GROUP)
            if counted:
                tx.add_to_sum(
                    run.name, OpenSum(run.generation, counted, added.astype("<i8").tobytes())
                )
            self._fault("summed")
        self._fault("committed")
        run.users = users + counted
        self.commits[run.name] += 1
        return answers, tickets[len(answers) :]

    def _held(self, tx: Transaction, run: LiveRun, *, alone: bool) -> int:
        """How many users the open batch has, if it is the one that this process knows."""
        head = tx.hold(run.name, alone=alone)
        if (head.generation, head.status) != (run.generation, run.status):
            raise Moved(
                "another worker has closed the batch, or somebody has changed the run's status"
            )
        return head.users

    def _admitted(
        self, tx: Transaction, run: LiveRun, reports: list[WellFormed], users: int, most: int
    ) -> tuple[list[Answer], Any, int]:
        answers: list[Answer] = []
        episodes: list[Any] = []
        added: Any = 0
        counted = 0
        counts = run.spec.batch.rule == "count" and run.status == "open" and run.size > 0
        room = min(max(run.size - users, 0), most) if counts else len(reports)
        group = Admission(tx, run, [each.report for each in reports], self._live.cap)
        for each in reports:
            if counted == room:  # full: the others are late, or of the next batch
                break
            outcome = group.admit(each)
            answers.append(Answer(outcome, run.generation))
            if outcome == "counted":
                counted += 1
                if each.steps is None:
                    episodes.append(each.report.content)
                else:
                    added = added + each.steps
        group.write()
        return answers, added + run.contribution(episodes) if episodes else added, counted

    def _answer(self, answered: list[tuple[Ticket, Answer]]) -> None:
        for (report, reply), answer in answered:
            self.counts[report.run, answer.outcome] += 1
            try:
                reply(answer)
            except Exception as error:  # whoever asked is gone; others are still to be answered
                log.error("an answer could not be given: %s", type(error).__name__)

    # closing

    def close_due(self) -> None:
        for run in list(self.runs.values()):
            while self._live.works(run.name) and self.runs[run.name].due(self._clock()):
                try:
                    self._close(self.runs[run.name])
                except Moved as error:
                    if not self._caught_up(run.name) and run.name not in self._live.failures:
                        self._live.fail(run.name, "a close", error)
                # the draw never left: memory is thrown away, and drawn anew
                except Exception as error:
                    self._live.fail(run.name, "a close", error)

    def _close(self, run: LiveRun) -> None:
        with self.store.transaction() as tx:
            self._held(tx, run, alone=True)
            self.marks.check(
                run.name, run.generation, run.release.digest
            )  # another worker may have shown what was put back since
            total = tx.open_sum(run.name)
            with tx.alive():
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
        self._live.wait_for(run.name, USUAL_PLANNING)

    def _show(self, run: LiveRun, release: ReleaseRow) -> None:
        """From here on everybody can read it."""
        if run.exhausted:
            run.status = "finished"
        run.follow(release)

    # what operators do: each action is in the audit before it has an effect

    def set_status(self, name: str, status: str, actor: str) -> None:
        """open, paused or finished; what is finished stays so."""
        with self.store.transaction() as tx:
            if tx.hold(name, alone=True).status == "finished":
                raise InvalidParameter(f"run {name} is finished")
            tx.audit(self._now(), actor, status, name)
            tx.set_status(name, status)
        if name in self.runs:
            self.runs[name].status = status

    def enrol(self, name: str, subjects: Sequence[str], generation: int, actor: str) -> int:
        """People into a batch of a run with deadlines, before it closes. How many are new; a full batch refuses all of them."""
        run = self.runs[name]
        if run.spec.batch.rule != "deadline":
            raise InvalidParameter(
                "people are enrolled into runs with the rule deadline; others take reports from anybody"
            )
        with self.store.transaction() as tx:
            opened = tx.hold(name, alone=True).generation
            if generation < opened:
                raise InvalidParameter(f"batch {generation} is closed, the open one is {opened}")
            places = _places(run, generation, opened)
            people = {run.pseudonyms.who(subject) for subject in subjects}
            known = tx.taken(name, sorted(people))
            new = people - set(known)
            tx.take(name, [(who, Taken(0, generation, None)) for who in sorted(new)])
            if tx.enrolled(name, generation) > places:
                raise InvalidParameter(f"batch {generation} has {places} places")
            tx.audit(self._now(), actor, "enrol", f"{name} batch {generation}: {len(new)}")
        return len(new)

    def rotate(self, actor: str) -> str:
        """A new signing key, endorsed by the one before it."""
        self.key = rotated(self.store, self.keys, actor, self._now())
        return self.key.id

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")


def _places(run: LiveRun, generation: int, opened: int) -> int:
    """How many people may be enrolled into a batch, which is as many as its release is made for.

    A report needs a place in the open batch, and a place takes one report. So the sum of a batch is
    never of more people than the learner closes it with.
    """
    schedule = run.learner.schedule
    if isinstance(schedule, Schedule):
        return schedule.size(generation)
    if generation > opened:
        raise InvalidParameter(
            f"the size of batch {generation} is decided by release {generation}, which is not out yet: "
            f"enrol people once the release is out, got generation={generation} while batch {opened} is open"
        )
    if run.generation != opened or not run.planned:
        raise StoreError(f"the round of release {opened} is being planned: send the request again")
    return run.size
