"""Kill or stop a service at a chosen point, again and again, and compare what it told people with
what is on its disk.

The service lives in a forked process that ends by SIGKILL; it writes to a pipe what people and
readers were told, as a network would carry it away. Devices live here, and retry the same bytes.
Used by the tests, and by benchmarks/service_crashes.py with more kills.
"""

import contextlib
import os
import signal
from collections import Counter, defaultdict

import numpy as np
from service_bench import Bench, spec

from confide.learning.learner import Learner
from confide.privatizers import Message
from confide.service.core.service import Service

POINTS = ("received", "summed", "committed", "drawn", "closed", "marked", "planned")
CLOSES = ("drawn", "closed", "marked", "planned")


class Watched(Service):
    """Tells what is shown, when it is shown."""

    tell = staticmethod(lambda _: None)

    def _show(self, run, release):
        super()._show(run, release)
        type(self).tell(f"shown {release.generation} {release.digest}")

    def _follow(self, name):
        super()._follow(name)
        release = self.runs[name].release
        type(self).tell(f"shown {release.generation} {release.digest}")


class AnswersBeforeCommit(Watched):
    """A broken twin: it tells people that they are counted before they are."""

    def _commit(self, run, tickets, reports):
        for report, reply in tickets:
            reply(type("Early", (), {"outcome": "counted", "run": report.run})())
        return super()._commit(run, tickets, reports)

    def _answer(self, answered):
        pass


class ShowsBeforeCommit(Watched):
    """A broken twin: readers see a release that a crash takes back, and then another one of the
    same number.
    """

    def _close(self, run):
        with self.store.transaction() as tx:
            release, state = run.draw(self.key, tx.open_sum(run.name))
            type(self).tell(f"shown {release.generation} {release.digest}")
            self._fault("drawn")
            tx.close(release, state)
        self._fault("closed")
        self.store.forget()
        self.marks.write(run.name, release.generation, release.digest)
        self._fault("marked")
        self._show(run, release)
        self._live.prepare(run.name, self.key, run)


class Crashes:
    """People who report to a service that is killed at `point`, each time when it is reached for
    the n-th time.
    """

    def __init__(self, folder, *, trust, service=Watched, users=24, every=6, noise="secure"):
        self.folder, self.kind, self.trust = folder, service, trust
        bench = Bench(folder)
        bench.service.create(spec(trust=trust, users=users, every=every, noise=noise))
        bench.stop()
        self.people = 3 * users  # some will be late
        self.sent = {}  # by person: nonce, generation, content; the same bytes for ever
        self.told = defaultdict(set)  # by person: outcomes
        self.shown = defaultdict(set)  # by generation: digests
        self.totals = defaultdict(set)  # by generation: sums that noise was drawn for
        self.kills = 0

    def run(self, point, nth=1):
        """One life of the service; whether it was killed."""
        return self.heard(self.started(point, nth))

    def workers(self, count):
        """So many at the same time, each with people of its own."""
        for each in [
            self.started("nowhere", people=slice(number, None, count)) for number in range(count)
        ]:
            assert not self.heard(each)

    def stopped(self, point, nth=1, others=1):
        """One that is stopped at `point` while others work past its lease, and then goes on."""
        late = self.started(point, nth, how=signal.SIGSTOP, people=slice(0, None, others + 1))
        _, status = os.waitpid(late[0], os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{point} was not reached"
        for each in [
            self.started("nowhere", people=slice(number + 1, None, others + 1))
            for number in range(others)
        ]:
            assert not self.heard(each)
        os.kill(late[0], signal.SIGCONT)
        assert not self.heard(late)

    def started(self, point, nth=1, how=signal.SIGKILL, people=slice(None)):
        """A process with a service, and the pipe by which it is heard."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.close(read)
                self._live(
                    lambda line: os.write(write, f"{line}\n".encode()), point, nth, how, people
                )
                os._exit(0)
            os._exit(1)
        os.close(write)
        return child, read

    def heard(self, started):
        """What a process said until its end; whether it was killed."""
        child, read = started
        with os.fdopen(read) as lines:
            for line in lines:
                self._hear(line.split())
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the service failed by itself"
        self.kills += os.WIFSIGNALED(status)
        return os.WIFSIGNALED(status)

    def _live(self, tell, point, nth, how, people):
        reached = Counter()

        def fault(name):
            reached[name] += 1
            if name == point and reached[name] == nth:
                os.kill(os.getpid(), how)

        def close(learner, total=None, users=0):
            tell(f"total {learner.released().generation} {np.asarray(total).tobytes().hex()}")
            return closing(learner, total, users)

        closing, Learner.close = Learner.close, close
        self.kind.tell = staticmethod(tell)
        bench = Bench(self.folder, service=self.kind, fault=lambda _: None)
        bench.service._fault = fault  # the start itself is not what is killed
        run = bench.service.runs["demo"]
        tell(f"shown {run.generation} {run.release.digest}")
        bench.rng = np.random.default_rng()
        settled = {"counted", "same", "late", "finished"}
        waiting = [
            number for number in range(self.people)[people] if not self.told[number] & settled
        ]
        for start in range(0, len(waiting), 4):
            tickets = []
            for number in waiting[start : start + 4]:
                if number not in self.sent:
                    made = bench.report(f"person {number}")
                    self.sent[number] = made.nonce, made.generation, made.content
                    tell(
                        f"sent {number} {made.nonce.hex()} {made.generation} "
                        f"{repr(made.content).encode().hex()}"
                    )
                nonce, generation, content = self.sent[number]
                made = bench.report(
                    f"person {number}", nonce=nonce, generation=generation, content=content
                )
                tickets.append(
                    (made, lambda answer, number=number: tell(f"told {number} {answer.outcome}"))
                )
            bench.service.handle(tickets)
        bench.stop()

    def _hear(self, words):
        match words:
            case ["sent", number, nonce, generation, content]:
                self.sent[int(number)] = (
                    bytes.fromhex(nonce),
                    int(generation),
                    eval(bytes.fromhex(content).decode()),
                )
            case ["told", number, outcome]:
                self.told[int(number)].add(outcome)
            case ["shown", generation, digest]:
                self.shown[int(generation)].add(digest)
            case ["total", generation, total]:
                self.totals[int(generation)].add(total)

    def problems(self):
        """What went wrong, in words: nothing, for a service that keeps its promises."""
        found = [f"two releases {g}" for g, digests in self.shown.items() if len(digests) > 1]
        bench = Bench(self.folder)
        try:
            found += self._lost(bench) + self._sums(bench)
        finally:
            bench.stop()
        return found

    def _lost(self, bench):
        """Who was told to be counted, and is not."""
        found = []
        for number, outcomes in self.told.items():
            if outcomes & {"counted", "same"}:
                nonce, generation, content = self.sent[number]
                again = bench.send(
                    bench.report(
                        f"person {number}", nonce=nonce, generation=generation, content=content
                    )
                )
                found += [f"person {number} was lost: {again}"] if again != ["same"] else []
        return found

    def _sums(self, bench):
        """Each sum that was noised is that of the people in its batch, each of them once."""
        found, run, store = [], bench.service.runs["demo"], bench.service.store
        people = defaultdict(list)
        with store.transaction() as tx:
            names = {run.pseudonyms.who(f"person {number}"): number for number in self.sent}
            for who, places in tx.places_of("demo", list(names)).items():
                for place in places:
                    people[place.generation].append(names[who])
        counted, releases = (
            store.participants("demo"),
            {row.generation: row for row in store.releases("demo")},
        )
        for generation in range(run.generation):
            if (
                counted.get(generation) != releases[generation + 1].users
                or len(people[generation]) != counted[generation]
            ):
                found.append(
                    f"batch {generation} has {counted.get(generation)} people, "
                    f"its release {releases[generation + 1].users}"
                )
            if len(self.totals[generation]) != 1:
                found.append(
                    f"batch {generation} was noised with "
                    f"{len(self.totals[generation])} different sums"
                )
            elif {self._total(run, people[generation]).tobytes().hex()} != self.totals[generation]:
                found.append(f"the sum of batch {generation} is not that of its people")
        return found

    def _total(self, run, people):
        contents = [self.sent[number][2] for number in people]
        if self.trust == "joint":
            return run.contribution(contents)
        channel = run.learner.channel()
        return sum(
            np.rint(channel.decode(Message.from_bytes(each)) / channel.bound.grid).astype(np.int64)
            for each in contents
        )
