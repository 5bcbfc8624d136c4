"""Attacks on a running service over HTTP.

They are replay, re-noise, equivocation, late reports and early close.

What they send is counted like any report: people whom the audit invents take places of the run, and
their episodes are empty. A run that is no simulation is attacked only if somebody says so. An
attack that does not work proves nothing about the ones that nobody tried.

What leaves this file is an `AttackReport`. Numbers are a matter of taste. Each attempt is held
against a broken service that it must catch (tests/service/test_attacks.py): a new attempt needs
one.
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

# The verdicts about an attempt.
REFUSED = "refused"
WORKED = "WORKED"
UNDECIDED = "undecided"
NOT_TRIED = "not tried"
# So many copies of a report are sent.
_COPIES = 8
# At most so many reports try to close a batch.
_MAX_FLOOD = 512
# Two clocks may differ by so many seconds.
_CLOCK_TOLERANCE = 5.0
# While somebody new reports, a batch may close so often.
_COUNT_ATTEMPTS = 3
# A row shows so many of the documents that differ.
_MAX_SHOWN = 3
_NO_REPORTS = (
    b"",
    b"{",
    b"[]",
    b'{"subject": 5, "generation": 0}',
    b'{"subject": "confide-audit"}',
    b"\xff\xfe",
)
_OTHERS_CAME = (
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
    """All attempts, and what they cost.

    `spent` is how many invented people were counted. `seen` are digests of documents by address, to
    compare with after a restart.
    """

    tried: list[Tried] = field(default_factory=list)
    spent: int = 0
    seen: dict[str, str] = field(default_factory=dict)

    @property
    def worked(self) -> bool:
        """Whether some attack worked."""
        return any(each.verdict == WORKED for each in self.tried)

    @property
    def undecided(self) -> bool:
        """Whether some attempt could not be decided."""
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
    """Attack a run.

    `api_key` is of a device. That of an admin also counts people, pauses and enrols. `seen` is what
    an audit before a restart saw. `reports` is how many invented people may be counted at most. The
    audit needs two of them, and a whole batch if the run has no release yet, because a late report
    needs an older one.
    """
    check_address(url, run)
    text("api_key", api_key)
    whole("reports", reports, at_least=0)
    target = AttackTarget(url, run, api_key, signing_key=signing_key, send=send, sleep=sleep)
    if not target.manifest["simulation"] and not real_run:
        raise InvalidParameter(
            f"run {run} is no simulation: the audit's invented people would take places of real "
            "ones, and add noise to what is learned; --real-run says that this is wanted"
        )
    attack = _Attack(
        target, signing_key=signing_key, seen=dict(seen or {}), reports=reports, clock=clock
    )
    return attack.run()


class _Attack:
    """The attempts. Each yields what happened, and raises why it could not be tried."""

    def __init__(
        self,
        target: AttackTarget,
        *,
        signing_key: str | None,
        seen: dict[str, str],
        reports: int,
        clock: Callable[[], float],
    ) -> None:
        self._target = target
        self._signing_key = signing_key
        self._seen_earlier = seen
        self._reports_left = reports
        self._clock = clock
        self._report = AttackReport()
        self._attack_name = ""
        # The report of somebody who was counted.
        self._first: PreparedReport | None = None

    def run(self) -> AttackReport:
        """Make all attempts."""
        rows = self._report.tried
        for name, what, attempt in self._attempts():
            self._attack_name = name
            try:
                rows.extend(attempt(what))
            except ConfideError as error:
                rows.append(self._row(what, str(error), NOT_TRIED))
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                # A server may say anything.
                happened = f"the service said something strange ({type(error).__name__})"
                rows.append(self._row(what, happened, UNDECIDED))
            if rows[0].verdict != REFUSED:
                # The first attempt checks the chain. Without it nothing that is read can be
                # believed.
                break
        return self._report

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
            ("replay", f"send a new report {_COPIES} times at the same moment", self._at_once),
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
        return Tried(self._attack_name, what, happened, verdict)

    def _compare(self, what: str, differing: Sequence[str], fine: str, broken: str) -> Tried:
        """Return the row of an attempt that works if something differs."""
        if not differing:
            return self._row(what, fine, REFUSED)
        shown = ", ".join(sorted(set(differing))[:_MAX_SHOWN])
        return self._row(what, f"{broken} {shown}", WORKED)

    # equivocation and re-noise: reading alone

    def _chain(self, what: str) -> Iterator[Tried]:
        target = self._target
        results = list(
            check_public(target.url, target.run, key=self._signing_key, send=target.send)
        )
        failures = [
            f"{result.about.split(': ')[1]}: {result.says}"
            for result in results
            if not result.holds
        ]
        if failures:
            yield self._row(what, failures[0], WORKED)
        else:
            yield self._row(what, results[-1].says, REFUSED)

    def _two_clients(self, what: str) -> Iterator[Tried]:
        """Compare what two clients read.

        The second one has a key, another name, and another address of the same document, so that no
        cache in between answers.
        """
        paths = [*self._documents(), "release", f"round/{self._newest()}"]
        second_client = {
            **self._target.authorization,
            "User-Agent": "another client",
            "Cache-Control": "no-cache",
        }
        differing: list[str] = []
        for path in paths:
            first = self._target.read(path)
            second = self._target.read(f"{path}?client=2", second_client)
            # A batch may close in between. Then the two are about different releases.
            same_release = _generation(first) == _generation(second)
            if same_release and _signed_content(first) != _signed_content(second):
                differing.append(path)
        yield self._compare(
            f"{what}: {len(paths)} documents",
            differing,
            "the same signed bytes for both",
            "two faces of",
        )

    def _again(self, what: str) -> Iterator[Tried]:
        first = self._read_all(self._documents())
        self._report.seen = first
        changed: list[str] = []
        for _ in range(2):
            digests = self._read_all(first)
            changed += [path for path in first if digests[path] != first[path]]
        yield self._compare(
            f"{what}: {len(first)} documents", changed, "the same bytes", "drawn again:"
        )

    def _page(self, what: str) -> Iterator[Tried]:
        """While the release is the same, the page is."""
        generation = self._newest()
        pages = {self._target.read(f"/runs/{self._target.run}").body for _ in range(3)}
        changed = ["the page"] if len(pages) > 1 and self._newest() == generation else []
        yield self._compare(what, changed, "the same bytes", "changed without a release:")

    def _seen_before(self, what: str) -> Iterator[Tried]:
        earlier = self._seen_earlier
        if not earlier:
            raise InvalidParameter(
                "there is none: keep one with --seen FILE, restart the service, and audit again"
            )
        now = self._report.seen
        changed = [path for path in earlier if now.get(path) != earlier[path]]
        yield self._compare(
            f"{what}: {len(earlier)} documents",
            changed,
            "the same bytes",
            "not the same, or gone:",
        )

    def _after_all(self, what: str) -> Iterator[Tried]:
        """Compare with what was read before the attacks. What is new is kept, too."""
        before = self._report.seen
        now = self._read_all(self._documents())
        changed = [path for path in before if now.get(path) != before[path]]
        self._report.seen = now
        yield self._compare(what, changed, "the same bytes", "not the same:")

    def _documents(self) -> list[str]:
        releases = [f"release/{number}" for number in range(self._newest() + 1)]
        return ["manifest", "certificate", *releases]

    def _newest(self) -> int:
        return _generation(self._target.read("release"))

    def _read_all(self, paths: Iterable[str]) -> dict[str, str]:
        """Return digests of documents. They are kept in files (`--seen`), so they never change."""
        return {
            path: digest(repr(_signed_content(self._target.read(path))).encode()) for path in paths
        }

    # replays and late reports

    def _count_somebody(self) -> PreparedReport:
        """Return the report of somebody new, who was counted."""
        for _ in range(_COUNT_ATTEMPTS):
            self._check_reports_left()
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

    def _check_reports_left(self) -> None:
        if self._reports_left < 1:
            raise InvalidParameter("no more invented people may be counted: raise --reports")

    def _spend(self, people: int) -> None:
        self._report.spent += people
        self._reports_left -= people

    def _send_all(
        self, what: str, reports: Sequence[PreparedReport], expected: tuple[int, ...]
    ) -> Tried:
        """Send reports of which none may be counted. `expected` are the statuses of refusals."""
        before = self._target.now()
        statuses = Counter(self._target.post(report).status for report in reports)
        after = self._target.now()
        self._spend(statuses[201])
        listed = _list_statuses(statuses)
        growth = _growth(before, after)
        if statuses[201] or (growth is not None and growth >= len(reports)):
            counted = statuses[201] if growth is None else growth
            return self._row(what, f"counted {counted} ({listed})", WORKED)
        if not set(statuses) <= set(expected):
            return self._row(what, f"another answer than expected ({listed})", UNDECIDED)
        if growth is None and after.generation != before.generation:
            happened = f"{listed}; the batch closed meanwhile: the key of an admin tells why"
            return self._row(what, happened, UNDECIDED)
        if growth:
            return self._row(what, f"{listed}; {_OTHERS_CAME}", UNDECIDED)
        if growth is None:
            happened = f"{listed}, which is believed: the key of an admin counts"
            return self._row(what, happened, REFUSED)
        return self._row(what, f"{listed}, not counted", REFUSED)

    def _same(self, what: str) -> Iterator[Tried]:
        self._first = self._count_somebody()
        yield self._send_all(f"{what}: {_COPIES} times", [self._first] * _COPIES, (200,))

    def _counted_person(self) -> PreparedReport:
        if self._first is None:
            raise InvalidParameter("nobody was counted")
        return self._first

    def _same_id(self, what: str) -> Iterator[Tried]:
        person = self._counted_person()
        other_body = self._target.person(person.subject, episode=([0], [0], [0.0]))
        yield self._send_all(what, [replace(other_body, nonce=person.nonce)], (200, 409))

    def _other_ids(self, what: str) -> Iterator[Tried]:
        person = self._counted_person()
        allowed = int(self._target.manifest["reports_per_person"])
        if allowed > 1:
            raise InvalidParameter(f"the manifest allows {allowed} reports of a person")
        yield self._send_all(f"{what}: {_COPIES}", _copy(person, _COPIES), (409, 410))

    def _at_once(self, what: str) -> Iterator[Tried]:
        self._check_reports_left()
        before = self._target.now()
        person = self._target.person()
        with ThreadPoolExecutor(_COPIES) as pool:
            answers = list(pool.map(self._target.post, [person] * _COPIES))
        statuses = Counter(answer.status for answer in answers)
        growth = _growth(before, self._target.now())
        listed = _list_statuses(statuses)
        self._spend(statuses[201])
        if statuses[201] > 1 or growth == _COPIES:
            times = max(statuses[201], growth or 0)
            yield self._row(what, f"counted {times} times ({listed})", WORKED)
        elif statuses[201] == 0 or growth not in (None, 1):
            yield self._row(what, f"{listed}; {_OTHERS_CAME}", UNDECIDED)
        else:
            yield self._row(what, f"counted once ({listed})", REFUSED)

    def _late(self, what: str) -> Iterator[Tried]:
        """There must be a release to be late for.

        If there is none yet, the first batch is filled.
        """
        while self._target.now().generation == 0:
            if self._target.deadline:
                raise InvalidParameter("there is no release before: wait for the first deadline")
            self._count_somebody()
        count = 1 if self._target.deadline else _COPIES
        people = [self._target.person(behind=1) for _ in range(count)]
        yield self._send_all(f"{what}: {count}", people, (410,))

    def _future(self, what: str) -> Iterator[Tried]:
        yield self._send_all(what, [self._target.person(behind=-1)], (400, 410))

    # early close

    def _sizes(self, what: str) -> Iterator[Tried]:
        learner = learner_of(self._target.read("manifest").body)
        if self._target.deadline or not isinstance(learner.schedule, Schedule):
            raise InvalidParameter("sizes are not fixed in advance, or do not close a batch")
        newest = self._newest()
        users_before = 0
        too_small: list[str] = []
        for generation in range(1, newest + 1):
            users = self._target.users(generation)
            batch_users = users - users_before
            size = min(learner.schedule.size(generation - 1), learner.episodes - users_before)
            if batch_users < size:
                too_small.append(f"{generation - 1} with {batch_users} of {size} people")
            users_before = users
        yield self._compare(f"{what}: {newest}", too_small, "each was full", "closed early: batch")

    def _times(self, what: str) -> Iterator[Tried]:
        if not self._target.deadline:
            raise InvalidParameter("batches close by count")
        batch = self._target.manifest["batch"]
        newest = self._newest()
        seconds_early = batch["start"] + newest * batch["every"] - self._clock()
        early: list[str] = []
        if seconds_early > _CLOCK_TOLERANCE:
            early.append(f"release {newest}, by {seconds_early:.0f} seconds")
        yield self._compare(what, early, f"release {newest} is not early", "closed early:")

    def _flood_size(self) -> int:
        """Return how many reports would close the open batch, if they were counted."""
        schedule = learner_of(self._target.read("manifest").body).schedule
        size = schedule.size(self._newest()) if isinstance(schedule, Schedule) else 0
        return min(max(size, 2 * _COPIES), _MAX_FLOOD)

    def _flood_of_replays(self, what: str) -> Iterator[Tried]:
        person = self._counted_person()
        count = self._flood_size()
        yield self._send_all(f"{what}: {count}", [person] * count, (200,))

    def _flood_of_nonsense(self, what: str) -> Iterator[Tried]:
        count = self._flood_size()
        reports = [
            PreparedReport("", _NO_REPORTS[number % len(_NO_REPORTS)], f"no report {number:012}")
            for number in range(count)
        ]
        yield self._send_all(f"{what}: {count}", reports, (400,))

    def _flood_of_late_ones(self, what: str) -> Iterator[Tried]:
        if self._newest() == 0:
            raise InvalidParameter("there is no release before")
        count = self._flood_size()
        late_reports = _copy(self._target.person(behind=1), count)
        yield self._send_all(f"{what}: {count}", late_reports, (410,))

    def _operator(self, what: str) -> Iterator[Tried]:
        before = self._target.now()
        key = self._target.authorization
        if before.counted is None:
            raise InvalidParameter("that needs the API key of an admin")
        try:
            statuses = [
                self._target.ask("POST", path, key, b"{}").status
                for path in ("close", "release", "pause")
            ]
        finally:
            resumed = self._target.ask("POST", "resume", key).status
        after = self._target.now()
        listed = ", ".join(map(str, [*statuses, resumed]))
        has_no_address = set(statuses[:2]) <= {404, 405}
        if not has_no_address:
            yield self._row(what, f"the service has an address for it ({listed})", WORKED)
        elif after.generation == before.generation:
            yield self._row(what, f"no release came ({listed})", REFUSED)
        elif _growth(before, after) == 0:
            yield self._row(what, f"a release came ({listed})", WORKED)
        else:
            yield self._row(what, f"a release came ({listed}); {_OTHERS_CAME}", UNDECIDED)


def _copy(report: PreparedReport, count: int) -> list[PreparedReport]:
    """Return the same report under other ids."""
    return [replace(report, nonce=f"another id {number:012}") for number in range(count)]


def _generation(document: HttpResponse) -> int:
    return int(document.headers.get("confide-generation", "0"))


def _signed_content(answer: HttpResponse) -> tuple[bytes, dict[str, str]]:
    """Return what a client can compare: the body and what was signed about it."""
    headers = {
        name: value for name, value in sorted(answer.headers.items()) if name.startswith("confide-")
    }
    return answer.body, headers


def _growth(before: Now, after: Now) -> int | None:
    """Return how many people were counted in between, or None if nobody may ask."""
    if before.counted is None or after.counted is None:
        return None
    return after.counted - before.counted


def _list_statuses(statuses: Mapping[int, int]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
