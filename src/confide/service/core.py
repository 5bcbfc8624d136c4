"""The core of a service: reports in, signed releases out. It knows no web framework and no dialect of SQL.

One thread writes. It takes what is queued, up to `GROUP` reports, as one transaction: who reported, and the open sum. Only then are they
answered. A batch that is full, or whose time has come, is closed by the same thread: noise, state, release and signature are one
transaction; then the mark outside of the database; then the release is shown; then the next round is planned. Whatever fails, memory is
thrown away and read again from the store.
"""

import contextlib
import logging
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from confide.errors import ConfideError, InvalidParameter, StateError, StoreError, StreamExhausted
from confide.learning.learner import Learner
from confide.service.admission import Admission, Report
from confide.service.documents import ReleaseRow, SigningKey, Statement, digest
from confide.service.keys import KeyFolder
from confide.service.live import LiveRun, Signed, cost_of, load, made_learner, signed_release
from confide.service.manifest import certificate_of, manifest_of
from confide.service.marks import Marks, RolledBack
from confide.service.spec import RunSpec, write_spec
from confide.service.store import Moved, OpenSum, RunRow, SigningKeyRow, Store, Taken, Transaction

log = logging.getLogger("confide.service")
GROUP = 512  # reports in one transaction, at most
QUEUE = 20_000  # reports that may wait
LOOK = 0.25  # seconds until a release of another worker is shown by this one
AGAIN = 2.0  # seconds until a run that failed is read again, if nobody reports to it
TRIES = 3  # of a group of reports, while other workers are faster
STATUS = {  # what becomes of a report, and its status of HTTP
    "counted": 201,
    "same": 200,
    "invalid": 400,
    "over-budget": 403,
    "not-enrolled": 403,
    "another-report": 409,
    "late": 410,
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


Reply = Callable[[Answer], None]
Ticket = tuple[Report, Reply]


class Service:
    """Runs, their writer thread and what operators do. `fault` is called at the points of the crash matrix: tests kill there."""

    def __init__(
        self,
        store: Store,
        keys: KeyFolder,
        marks: Marks,
        *,
        clock: Callable[[], float] = time.time,
        fault: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.store, self.keys, self.marks = store, keys, marks
        self._clock, self._fault = clock, fault
        self.runs: dict[str, LiveRun] = {}
        self.counts: Counter[tuple[str, str]] = Counter()  # of answers, by run and outcome: for operators
        self.commits: Counter[str] = Counter()
        self._failed: set[str] = set()
        self._left: set[str] = set()  # runs that are finished, and older in the database than what was shown
        self._looked, self._cause = time.monotonic(), ""
        self._queue: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.key = current_key(store, keys)
        for name in store.runs():
            self._reload(name)

    # runs

    def create(self, spec: RunSpec, actor: str = "command line") -> LiveRun:
        """A new run, or the one that is there with the same settings. Its manifest is durable before anybody can read it."""
        self._look(at_once=True)
        if spec.batch.rule == "deadline" and spec.batch.start is None:
            known = self.runs.get(spec.name)
            start = known.spec.batch.start if known else float(int(self._clock()))
            spec = replace(spec, batch=replace(spec.batch, start=start))
        if spec.name in self.runs:
            if self.runs[spec.name].spec != spec:
                raise InvalidParameter(
                    f"run {spec.name} exists with other settings: a manifest is never changed; choose another name"
                )
            return self.runs[spec.name]
        if self.marks.read(spec.name) is not None:
            raise StateError(
                f"run {spec.name} was served before, from another database: its users must not be asked again. Choose another name"
            )
        learner = made_learner(spec)
        self._check_new(spec, learner)
        certificate = _json_bytes(certificate_of(spec, learner).document)
        manifest = manifest_of(spec, learner, certificate, self.key, self._clock())
        signature = self.key.sign(Statement("manifest", spec.name, "", 0, digest(manifest)).to_bytes())
        row = RunRow(spec.name, write_spec(spec), manifest, signature, self.key.id, certificate, "open", 0, learner.save())
        named = _Named(spec.name, Signed(manifest, digest(manifest), signature, self.key.id))
        first = signed_release(named, learner.publish(spec.name), 0, 0, digest(manifest), self.key)
        with self.store.transaction() as tx:
            tx.create_run(row, first)
            tx.audit(self._now(), actor, "create", spec.name)
        self._reload(spec.name)
        return self.runs[spec.name]

    def _check_new(self, spec: RunSpec, learner: Learner) -> None:
        """A run that could not keep what it says is refused before it is one."""
        if not np.isfinite(learner.guarantee.epsilon):
            raise InvalidParameter("a service needs a promise: epsilon must be finite")
        if spec.batch.deadline(0) <= self._clock():
            raise InvalidParameter("the first batch would be closed already: start plus every must lie in the future")
        cap = min(spec.cap, self._cap())
        if cost_of(learner)(1) > cap * (1 + 1e-9):
            raise InvalidParameter(
                "nobody could report: one report costs more than a person may lose over all runs of this service. Choose a smaller "
                "epsilon, or a larger person_epsilon if no other run of the service has a smaller one"
            )

    def _cap(self) -> float:
        """What a person may lose over all runs, in mu^2: the least that a run promises. One that promises none keeps what others do."""
        return min((run.cap for run in list(self.runs.values())), default=math.inf)

    def _reload(self, name: str) -> None:
        """Throw memory away. Until this has worked, reports are answered with 503."""
        self._failed.add(name)
        with contextlib.suppress(StoreError):  # a close may have failed at this: old sums are still in the log
            self.store.forget()
        try:
            made = load(name, self.store, self.keys, self.marks)
        except RolledBack:
            if self.store.head(name).status != "finished":
                raise
            log.error("run %s is finished, and not served: the database is older than what was shown", name)
            self._left.add(name)
            self._failed.discard(name)
            return
        self.runs[name] = made
        self._plan(made)
        self._failed.discard(name)

    def _follow(self, name: str) -> None:
        """What other workers have done: a release, a pause. Nothing here is thrown away if they have done nothing."""
        head, run = self.store.head(name), self.runs[name]
        if head.generation == run.generation:
            run.status, run.users = head.status, head.users
            return
        made = load(name, self.store, self.keys, self.marks)
        self._plan(made)
        self.runs[name] = made

    def _look(self, *, at_once: bool = False) -> None:
        """Every now and then: other workers' releases, runs and signing keys, and runs that failed."""
        alone = self.store.workers == 1
        wait = AGAIN if alone else LOOK
        if (alone and not self._failed) or (not at_once and time.monotonic() - self._looked < wait):
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
            if name in self._left:
                continue
            if name in self._failed or name not in self.runs:
                with contextlib.suppress(Exception):  # it is not ready until this has worked
                    self._reload(name)
            else:
                self._caught_up(name)

    def _plan(self, run: LiveRun) -> None:
        try:
            run.plan(self.key)
        except StreamExhausted:
            run.round = None  # nobody comes any more
        self._fault("planned")

    def _fail(self, name: str, what: str, error: Exception) -> None:
        """Memory may be ahead of the store: it is thrown away before the next report. Of an error its type is logged, or what
        the disk says: a text may hold somebody's data."""
        cause = str(error) if isinstance(error, StoreError) else getattr(error, "strerror", None) or type(error).__name__
        log.error("run %s: %s failed: %s", name, what, cause)
        self._failed.add(name)

    @property
    def ready(self) -> bool:
        working = self._thread is None or self._thread.is_alive()
        return working and not self._failed and not self._stopping

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    # reports

    def start(self) -> None:
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
        if self._stopping or self._queue.qsize() >= QUEUE:
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

    def _next(self) -> tuple[list[Ticket], bool]:
        now = self._clock()
        opened = [run for run in list(self.runs.values()) if run.status == "open" and run.name not in self._failed]
        deadlines = [run.spec.batch.deadline(run.generation) for run in opened]
        wait = min([1.0 if self.store.workers == 1 else LOOK, *(max(0.0, at - now) for at in deadlines)])
        tickets: list[Ticket] = []
        try:
            found = self._queue.get(timeout=wait)
            while found is not None:
                tickets.append(found)
                if len(tickets) == GROUP:
                    return tickets, False
                found = self._queue.get_nowait()
        except queue.Empty:
            return tickets, False
        return tickets, True

    def handle(self, tickets: Sequence[Ticket]) -> None:
        """A group of reports, then whatever is due. The writer's thread calls it, and tests do."""
        waiting: dict[str, list[Ticket]] = {}
        for ticket in tickets:
            waiting.setdefault(ticket[0].run, []).append(ticket)
        self._look()
        self.close_due()
        for name, mine in waiting.items():
            rest = mine
            while rest:
                before = self.runs[name].generation, len(rest)
                rest = self._settled(name, rest)
                self.close_due()
                if rest and (self.runs[name].generation, len(rest)) == before:  # not closed: they send the same bytes again later
                    self._answer([(ticket, Answer("unavailable")) for ticket in rest])
                    rest = []

    def _settled(self, name: str, tickets: list[Ticket], tries: int = TRIES) -> list[Ticket]:
        """Answer these; those for whom the open batch has no room are returned, to be asked again after it is closed."""
        try:
            if name in self._failed:
                self._reload(name)
            self._fault("received")
            run = self.runs[name]
            if run.due(self._clock()):
                return tickets  # it is closed first
            answers, rest = self._commit(run, tickets)
        except Moved as error:
            if tries > 1 and self._caught_up(name):
                return self._settled(name, tickets, tries - 1)
            self._fail(name, "reports", error)
            answers, rest = [Answer("unavailable")] * len(tickets), []
        except Exception as error:  # whatever it was, nothing of these reports is durable
            self._fail(name, "reports", error)
            answers, rest = [Answer("unavailable")] * len(tickets), []
        self._answer([(ticket, answer) for ticket, answer in zip(tickets, answers, strict=False)])
        return rest

    def _caught_up(self, name: str) -> bool:
        try:
            self._follow(name)
        except Exception as error:
            self._fail(name, "reading", error)
            return False
        return True

    def _commit(self, run: LiveRun, tickets: list[Ticket]) -> tuple[list[Answer], list[Ticket]]:
        """One transaction: who reported, what they lost, and the open sum."""
        most = run.at_once(self.store.workers, GROUP)
        with self.store.transaction() as tx:
            users = self._held(tx, run, alone=most == 0)
            answers, added, counted = self._admitted(tx, run, tickets, users, most or GROUP)
            if counted:
                tx.add_to_sum(run.name, OpenSum(run.generation, counted, added.astype("<i8").tobytes()))
            self._fault("summed")
        self._fault("committed")
        run.users = users + counted
        self.commits[run.name] += 1
        return answers, tickets[len(answers) :]

    def _held(self, tx: Transaction, run: LiveRun, *, alone: bool) -> int:
        """How many users the open batch has, if it is the one that this process knows."""
        head = tx.hold(run.name, alone=alone)
        if (head.generation, head.status) != (run.generation, run.status):
            raise Moved("another worker has closed the batch, or somebody has changed the run's status")
        return head.users

    def _admitted(
        self, tx: Transaction, run: LiveRun, tickets: list[Ticket], users: int, most: int
    ) -> tuple[list[Answer], Any, int]:
        answers: list[Answer] = []
        episodes: list[Any] = []
        added, counted = 0, 0
        counts = run.spec.batch.rule == "count" and run.status == "open" and run.size > 0
        room = min(max(run.size - users, 0), most) if counts else len(tickets)
        group = Admission(tx, run, [report for report, _ in tickets], self._cap())
        for report, _ in tickets:
            if counted == room:  # full: the others are late, or of the next batch
                break
            outcome, decoded = group.admit(report)
            answers.append(Answer(outcome, run.generation))
            if outcome == "counted":
                counted += 1
                if decoded is None:
                    episodes.append(report.content)
                else:
                    added = added + decoded
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
            while run.name not in self._failed and self.runs[run.name].due(self._clock()):
                try:
                    self._close(self.runs[run.name])
                except Moved as error:
                    if not self._caught_up(run.name):
                        self._fail(run.name, "a close", error)
                except Exception as error:  # the draw never left: memory is thrown away, and drawn anew
                    self._fail(run.name, "a close", error)

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
        self._plan(run)

    def _show(self, run: LiveRun, release: ReleaseRow) -> None:
        """From here on everybody can read it."""
        if run.exhausted:
            run.status = "finished"
        run.follow(release)

    # what operators do: each action is in the audit before it has an effect

    def set_status(self, name: str, status: str, actor: str) -> None:
        """open, paused or finished; what is finished stays so."""
        run = self.runs[name]
        with self.store.transaction() as tx:
            if tx.hold(name, alone=True).status == "finished":
                raise InvalidParameter(f"run {name} is finished")
            tx.audit(self._now(), actor, status, name)
            tx.set_status(name, status)
        run.status = status

    def enrol(self, name: str, subjects: Sequence[str], generation: int, actor: str) -> int:
        """People into a batch of a run with deadlines, before it closes. How many are new; a full batch refuses all of them."""
        run = self.runs[name]
        if run.spec.batch.rule != "deadline":
            raise InvalidParameter("people are enrolled into runs with the rule deadline; others take reports from anybody")
        size = run.learner.schedule.size(generation) if hasattr(run.learner.schedule, "size") else run.size
        with self.store.transaction() as tx:
            opened = tx.hold(name, alone=True).generation
            if generation < opened:
                raise InvalidParameter(f"batch {generation} is closed, the open one is {opened}")
            people = {run.pseudonyms.who(subject) for subject in subjects}
            known = tx.taken(name, sorted(people))
            new = people - set(known)
            tx.take(name, [(who, Taken(0, generation, None)) for who in sorted(new)])
            if tx.enrolled(name, generation) > size:
                raise InvalidParameter(f"batch {generation} has {size} places")
            tx.audit(self._now(), actor, "enrol", f"{name} batch {generation}: {len(new)}")
        return len(new)

    def rotate(self, actor: str) -> str:
        """A new signing key, endorsed by the one before it."""
        self.key = rotated(self.store, self.keys, actor, self._now())
        return self.key.id

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class _Named:
    """A run that is not in the store yet."""

    name: str
    manifest: Signed


def current_key(store: Store, keys: KeyFolder) -> SigningKey:
    current = [row.id for row in store.signing_keys() if not row.retired]
    if not current:
        raise StateError("the service has no signing key: confide service init makes one")
    return keys.signing_key(current[-1])


def rotated(store: Store, keys: KeyFolder, actor: str, now: str) -> SigningKey:
    before, made = current_key(store, keys), keys.new_signing_key()
    with store.transaction() as tx:
        tx.add_signing_key(key_row(made, before))
        tx.audit(now, actor, "rotate", made.id)
    return made


def key_row(key: SigningKey, by: SigningKey | None) -> SigningKeyRow:
    from confide.service.documents import endorsed

    endorsement = b"" if by is None else by.sign(endorsed(key.public))
    return SigningKeyRow(key.id, key.public, "" if by is None else by.id, endorsement, False)


def _json_bytes(document: Any) -> bytes:
    import json

    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
