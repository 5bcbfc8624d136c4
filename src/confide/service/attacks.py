"""Attacks on a running service over HTTP: replay, re-noise, equivocation, late reports, early close.

What they send is counted like any report: people whom the audit invents take places of the run, and their episodes are empty. A run
that is no simulation is attacked only if somebody says so. An attack that does not work proves nothing about the ones that nobody tried.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from confide.arguments import text, whole
from confide.errors import ConfideError, InvalidParameter
from confide.privatizers import Schedule
from confide.service.core.public_check import check_address, check_public
from confide.service.device.transport import HttpResponse, Send, refusal
from confide.service.documents import digest
from confide.service.target import AttackTarget, Now, PreparedReport
from confide.service.web.estimates import learner_of

REFUSED, WORKED, UNDECIDED, NOT_TRIED = "refused", "WORKED", "undecided", "not tried"
_SAME = 8  # copies of a report
_FLOOD = 512  # reports that try to close a batch, at most
_CLOCKS = 5.0  # seconds by which two clocks may differ
_NONSENSE = (
    b"",
    b"{",
    b"[]",
    b'{"subject": 5, "generation": 0}',
    b'{"subject": "confide-audit"}',
    b"\xff\xfe",
)
_OTHERS = (
    "other people reported meanwhile, or the attack worked in part: try it when nobody else comes"
)


@dataclass(frozen=True, slots=True)
class Tried:
    """One attempt: what was tried, what happened, and whether the attack worked."""

    attack: str
    tried: str
    happened: str
    verdict: str


@dataclass(slots=True)
class AttackReport:
    """All attempts, how many invented people were counted, and what was seen: digests by address, to compare with after a restart."""

    tried: list[Tried] = field(default_factory=list)
    spent: int = 0
    seen: dict[str, str] = field(default_factory=dict)

    @property
    def worked(self) -> bool:
        return any(each.verdict == WORKED for each in self.tried)

    @property
    def undecided(self) -> bool:
        return any(each.verdict == UNDECIDED for each in self.tried)


def attack_service(
    url: str,
    run: str,
    *,
    api_key: str,
    signing_key: str | None = None,
    seen: Mapping[str, str] | None = None,
    reports: int = 64,
    real_run: bool = False,
    send: Send | None = None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> AttackReport:
    """Attack a run. `api_key` is of a device; that of an admin also counts people, pauses and enrols. `seen`: of an audit before a restart.

    `reports`: how many invented people may be counted, at most. The audit needs two of them, and a whole batch where the run has no
    release yet, because a late report needs an older one.
    """
    check_address(url, run)
    text("api_key", api_key), whole("reports", reports, at_least=0)
    target = AttackTarget(url, run, api_key, signing_key=signing_key, send=send, sleep=sleep)
    if not target.manifest["simulation"] and not real_run:
        raise InvalidParameter(
            f"run {run} is no simulation: the audit's invented people would take places of real ones, and add noise to what is learned; "
            "--real-run says that this is wanted"
        )
    return _Attack(target, _Given(signing_key, dict(seen or {}), reports, clock)).make()


@dataclass(frozen=True, slots=True)
class _Given:
    signing_key: str | None
    seen: dict[str, str]
    reports: int
    clock: Callable[[], float]


class _Attack:
    """The attempts. Each yields what happened; what could not be tried is raised."""

    def __init__(self, target: AttackTarget, given: "_Given") -> None:
        self._target, self._given, self._left = target, given, given.reports
        self.made = AttackReport()
        self._name = ""
        self._first: PreparedReport | None = None  # somebody who was counted

    def make(self) -> AttackReport:
        for name, what, attempt in self._attempts():
            self._name = name
            try:
                for row in attempt(what):
                    self.made.tried.append(row)
            except ConfideError as error:
                self.made.tried.append(self._row(what, str(error), NOT_TRIED))
            # a server may say anything
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                self.made.tried.append(
                    self._row(
                        what,
                        f"the service said something strange ({type(error).__name__})",
                        UNDECIDED,
                    )
                )
            # the chain: without it nothing that is read can be believed
            if self.made.tried[0].verdict != REFUSED:
                break
        return self.made

    def _attempts(self) -> list[tuple[str, str, Callable[[str], Iterator[Tried]]]]:
        batch = "close the batch by"
        return [
            ("equivocation", "read manifest, keys, certificate and all releases", self._chain),
            ("equivocation", "ask as two clients", self._two_clients),
            ("re-noise", "ask three times", self._again),
            ("re-noise", "ask for the page three times", self._page),
            ("re-noise", "compare with what an audit saw before a restart", self._seen_before),
            ("replay", "send the same report again", self._same),
            ("replay", "the same id with another body", self._same_id),
            ("replay", "the same person with other ids", self._other_ids),
            ("replay", f"send a new report {_SAME} times at the same moment", self._at_once),
            ("late", "reports that were planned with the release before", self._late),
            ("late", "a report of a release that does not exist yet", self._future),
            (
                "early close",
                "compare all batches with the sizes that the manifest fixes",
                self._sizes,
            ),
            ("early close", "compare the newest release with the public times", self._times),
            ("early close", f"{batch} reports of one person", self._flood_of_replays),
            ("early close", f"{batch} bodies that are no reports", self._flood_of_nonsense),
            ("early close", f"{batch} late reports", self._flood_of_late_ones),
            (
                "early close",
                f"{batch} an admin's request: close, release, pause and resume",
                self._operator,
            ),
            ("re-noise", "ask for everything again after the attacks", self._after_all),
        ]

    def _row(self, what: str, happened: str, verdict: str) -> Tried:
        return Tried(self._name, what, happened, verdict)

    def _compared(self, what: str, differ: Sequence[str], fine: str, broken: str) -> Tried:
        shown = ", ".join(sorted(set(differ))[:3])
        return (
            self._row(what, f"{broken} {shown}", WORKED)
            if differ
            else self._row(what, fine, REFUSED)
        )

    # equivocation and re-noise: reading alone

    def _chain(self, what: str) -> Iterator[Tried]:
        target = self._target
        found = list(
            check_public(target.url, target.run, key=self._given.signing_key, send=target.send)
        )
        wrong = [f"{each.about.split(': ')[1]}: {each.says}" for each in found if not each.holds]
        yield self._row(what, wrong[0] if wrong else found[-1].says, WORKED if wrong else REFUSED)

    def _two_clients(self, what: str) -> Iterator[Tried]:
        """The second one has a key, another name, and another address of the same document, so that no cache in between answers."""
        paths, differ = [*self._documents(), "release", f"round/{self._newest()}"], []
        other = {
            **self._target.authorised,
            "User-Agent": "another client",
            "Cache-Control": "no-cache",
        }
        for path in paths:
            one, two = self._target.read(path), self._target.read(f"{path}?client=2", other)
            # a batch may close in between
            if _number(one) == _number(two) and _shown(one) != _shown(two):
                differ.append(path)
        yield self._compared(
            f"{what}: {len(paths)} documents",
            differ,
            "the same signed bytes for both",
            "two faces of",
        )

    def _again(self, what: str) -> Iterator[Tried]:
        first = self.made.seen = self._read_all(self._documents())
        changed = [
            path
            for _ in range(2)
            for path, found in self._read_all(first).items()
            if first[path] != found
        ]
        yield self._compared(
            f"{what}: {len(first)} documents", changed, "the same bytes", "drawn again:"
        )

    def _page(self, what: str) -> Iterator[Tried]:
        """While the release is the same, the page is."""
        before, pages = (
            self._newest(),
            {self._target.read(f"/runs/{self._target.run}").body for _ in range(3)},
        )
        changed = ["the page"] if len(pages) > 1 and self._newest() == before else []
        yield self._compared(what, changed, "the same bytes", "changed without a release:")

    def _seen_before(self, what: str) -> Iterator[Tried]:
        seen, now = self._given.seen, self.made.seen
        if not seen:
            raise InvalidParameter(
                "there is none: keep one with --seen FILE, restart the service, and audit again"
            )
        changed = [path for path, found in seen.items() if now.get(path) != found]
        yield self._compared(
            f"{what}: {len(seen)} documents", changed, "the same bytes", "not the same, or gone:"
        )

    def _after_all(self, what: str) -> Iterator[Tried]:
        """What is new is kept, too."""
        now = self._read_all(self._documents())
        changed = [path for path, found in self.made.seen.items() if now.get(path) != found]
        self.made.seen = now
        yield self._compared(what, changed, "the same bytes", "not the same:")

    def _documents(self) -> list[str]:
        return [
            "manifest",
            "certificate",
            *(f"release/{number}" for number in range(self._newest() + 1)),
        ]

    def _newest(self) -> int:
        return _number(self._target.read("release"))

    def _read_all(self, paths: Iterable[str]) -> dict[str, str]:
        return {path: digest(repr(_shown(self._target.read(path))).encode()) for path in paths}

    # replays and late reports

    def _counted(self) -> PreparedReport:
        """A new person, who is counted."""
        for _ in range(3):  # a batch may close in between
            self._may_count()
            person = self._target.person()
            answer = self._target.post(person)
            if answer.status == 201:
                self._spend(1)
                return person
            if refusal(answer) != "late":
                break
        raise InvalidParameter(
            f"the service takes no reports now: {answer.status} {refusal(answer)}"
        )

    def _may_count(self) -> None:
        if self._left < 1:
            raise InvalidParameter("no more invented people may be counted: raise --reports")

    def _spend(self, people: int) -> None:
        self.made.spent, self._left = self.made.spent + people, self._left - people

    def _sent(
        self, what: str, reports: Sequence[PreparedReport], expected: tuple[int, ...]
    ) -> Tried:
        """Send them; nobody of them may be counted."""
        before = self._target.now()
        said = Counter(self._target.post(each).status for each in reports)
        after = self._target.now()
        self._spend(said[201])
        told, grown = _statuses(said), _grown(before, after)
        if said[201] or (grown is not None and grown >= len(reports)):
            return self._row(
                what, f"counted {said[201] if grown is None else grown} ({told})", WORKED
            )
        if not set(said) <= set(expected):
            return self._row(what, f"another answer than expected ({told})", UNDECIDED)
        if grown is None and after.generation != before.generation:
            return self._row(
                what,
                f"{told}; the batch closed meanwhile: the key of an admin tells why",
                UNDECIDED,
            )
        if grown:
            return self._row(what, f"{told}; {_OTHERS}", UNDECIDED)
        return self._row(
            what,
            told
            + (
                ", which is believed: the key of an admin counts"
                if grown is None
                else ", not counted"
            ),
            REFUSED,
        )

    def _same(self, what: str) -> Iterator[Tried]:
        self._first = self._counted()
        yield self._sent(f"{what}: {_SAME} times", [self._first] * _SAME, (200,))

    def _known(self) -> PreparedReport:
        if self._first is None:
            raise InvalidParameter("nobody was counted")
        return self._first

    def _same_id(self, what: str) -> Iterator[Tried]:
        person = self._known()
        other = self._target.person(person.subject, episode=([0], [0], [0.0]))
        yield self._sent(what, [replace(other, nonce=person.nonce)], (200, 409))

    def _other_ids(self, what: str) -> Iterator[Tried]:
        person, most = self._known(), int(self._target.manifest["reports_per_person"])
        if most > 1:
            raise InvalidParameter(f"the manifest allows {most} reports of a person")
        yield self._sent(f"{what}: {_SAME}", _copies(person, _SAME), (409, 410))

    def _at_once(self, what: str) -> Iterator[Tried]:
        self._may_count()
        before, person = self._target.now(), self._target.person()
        with ThreadPoolExecutor(_SAME) as pool:
            said = Counter(
                answer.status for answer in pool.map(self._target.post, [person] * _SAME)
            )
        grown, told = _grown(before, self._target.now()), _statuses(said)
        self._spend(said[201])
        if said[201] > 1 or grown == _SAME:
            yield self._row(what, f"counted {max(said[201], grown or 0)} times ({told})", WORKED)
        elif said[201] == 0 or grown not in (None, 1):
            yield self._row(what, f"{told}; {_OTHERS}", UNDECIDED)
        else:
            yield self._row(what, f"counted once ({told})", REFUSED)

    def _late(self, what: str) -> Iterator[Tried]:
        """There must be a release to be late for: of a run that has none yet, the first batch is filled."""
        while self._target.now().generation == 0:
            if self._target.deadline:
                raise InvalidParameter("there is no release before: wait for the first deadline")
            self._counted()
        people = [
            self._target.person(behind=1) for _ in range(1 if self._target.deadline else _SAME)
        ]
        yield self._sent(f"{what}: {len(people)}", people, (410,))

    def _future(self, what: str) -> Iterator[Tried]:
        yield self._sent(what, [self._target.person(behind=-1)], (400, 410))

    # early close

    def _sizes(self, what: str) -> Iterator[Tried]:
        learner = learner_of(self._target.read("manifest").body)
        if self._target.deadline or not isinstance(learner.schedule, Schedule):
            raise InvalidParameter("sizes are not fixed in advance, or do not close a batch")
        newest, users, small = self._newest(), 0, []
        for number in range(1, newest + 1):
            before, users = users, self._target.users(number)
            size = min(learner.schedule.size(number - 1), learner.episodes - before)
            if users - before < size:
                small.append(f"{number - 1} with {users - before} of {size} people")
        yield self._compared(f"{what}: {newest}", small, "each was full", "closed early: batch")

    def _times(self, what: str) -> Iterator[Tried]:
        if not self._target.deadline:
            raise InvalidParameter("batches close by count")
        batch, newest = self._target.manifest["batch"], self._newest()
        early = batch["start"] + newest * batch["every"] - self._given.clock()
        wrong = [f"release {newest}, by {early:.0f} seconds"] if early > _CLOCKS else []
        yield self._compared(what, wrong, f"release {newest} is not early", "closed early:")

    def _enough(self) -> int:
        """Reports that would close the open batch, if they were counted."""
        schedule = learner_of(self._target.read("manifest").body).schedule
        size = schedule.size(self._newest()) if isinstance(schedule, Schedule) else 0
        return min(max(size, 2 * _SAME), _FLOOD)

    def _flood_of_replays(self, what: str) -> Iterator[Tried]:
        person, count = self._known(), self._enough()
        yield self._sent(f"{what}: {count}", [person] * count, (200,))

    def _flood_of_nonsense(self, what: str) -> Iterator[Tried]:
        count = self._enough()
        made = [
            PreparedReport("", _NONSENSE[number % len(_NONSENSE)], f"no report {number:012}")
            for number in range(count)
        ]
        yield self._sent(f"{what}: {count}", made, (400,))

    def _flood_of_late_ones(self, what: str) -> Iterator[Tried]:
        if self._newest() == 0:
            raise InvalidParameter("there is no release before")
        count = self._enough()
        yield self._sent(f"{what}: {count}", _copies(self._target.person(behind=1), count), (410,))

    def _operator(self, what: str) -> Iterator[Tried]:
        before, key = self._target.now(), self._target.authorised
        if before.counted is None:
            raise InvalidParameter("that needs the API key of an admin")
        try:
            said = [
                self._target.ask("POST", path, key, b"{}").status
                for path in ("close", "release", "pause")
            ]
        finally:
            resumed = self._target.ask("POST", "resume", key).status
        after, told = self._target.now(), ", ".join(map(str, [*said, resumed]))
        if not set(said[:2]) <= {404, 405}:
            yield self._row(what, f"the service has an address for it ({told})", WORKED)
        elif after.generation != before.generation:
            others = _grown(before, after) != 0
            yield self._row(
                what,
                f"a release came ({told}){f'; {_OTHERS}' * others}",
                UNDECIDED if others else WORKED,
            )
        else:
            yield self._row(what, f"no release came ({told})", REFUSED)


def _copies(report: PreparedReport, count: int) -> list[PreparedReport]:
    """The same report under other ids."""
    return [replace(report, nonce=f"another id {number:012}") for number in range(count)]


def _number(document: HttpResponse) -> int:
    return int(document.headers.get("confide-generation", "0"))


def _shown(answer: HttpResponse) -> tuple[bytes, dict[str, str]]:
    """What a client can compare: the body and what was signed about it."""
    return answer.body, {
        name: value for name, value in sorted(answer.headers.items()) if name.startswith("confide-")
    }


def _grown(before: Now, after: Now) -> int | None:
    return (
        None if before.counted is None or after.counted is None else after.counted - before.counted
    )


def _statuses(said: Mapping[int, int]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in sorted(said.items()))
