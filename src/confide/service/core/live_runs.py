"""The runs of a service in memory: which of them take reports, which are being prepared, and which could not be read."""

import contextlib
import json
import logging
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confide.agents.estimate import estimate_resources, refuse_above
from confide.errors import ConfideError, InvalidParameter, StateError, StoreError
from confide.privacy.accounting import gaussian_mu
from confide.problems.sizes import sizes_by_name
from confide.service.core.live import LiveRun, load
from confide.service.core.spec import ServiceRunSpec, parse_spec
from confide.service.documents import SigningKey
from confide.service.store.interface import RoundConflict, RunRow, ServiceStore
from confide.service.store.keys import KeyFolder
from confide.service.store.marks import Marks

log = logging.getLogger("confide.service")
AGAIN = 2.0  # seconds until a run that failed is read again, if nobody reports to it
LONGEST_WAIT = 60.0  # seconds between two attempts to read a run, after many have failed


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run is not ready, and when it is read again."""

    cause: str
    retry_at: float = 0.0  # on the monotonic clock
    # seconds until the attempt after the next one
    wait: float = field(default_factory=lambda: AGAIN)


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that was read and planned, None if it is left out, or why that failed."""

    name: str
    run: LiveRun | None
    error: Exception | None


class _Preparation:
    """A run that is being prepared: when a thread has done it, and when the writer has taken it over."""

    def __init__(self) -> None:
        self.prepared = threading.Event()
        self.installed = threading.Event()


class LiveRuns:
    """All runs, by name. One that cannot be served does not concern the others.

    A run is prepared (read from the store, and planned) in a thread of its own, because both may take long. The
    writer takes over what was prepared with `install_prepared`. Before there is a writer's thread, everything
    happens at once.
    """

    def __init__(
        self,
        store: ServiceStore,
        keys: KeyFolder,
        marks: Marks,
        *,
        memory: int,
        fault: Callable[[str], None],
    ) -> None:
        """`memory`: bytes that a run may need, by an estimate that is made before the run is."""
        self._store, self._keys, self._marks, self._memory = store, keys, marks, memory
        self.fault = fault
        self.by_name: dict[str, LiveRun] = {}
        self.failures: dict[str, Failure] = {}
        # Finished runs that cannot be read: a backup was put back, or they are damaged.
        self.left_out: set[str] = set()
        # What each run promises its people at most, in mu^2: also of runs that cannot be read.
        self._caps: dict[str, float] = {}
        # The release from which this process has planned another round than the process that was first.
        self._conflicts: dict[str, int] = {}
        self._preparing: dict[str, _Preparation] = {}
        self._results: queue.SimpleQueue[PreparedRun] = queue.SimpleQueue()
        self._lock = threading.Lock()
        # Other workers on PostgreSQL may make runs later, and mark them on their hosts.
        self._runs_before_start = frozenset(store.runs())
        # How a thread tells the writer that it has prepared something; None: there is no writer yet.
        self.wake_writer: Callable[[], None] | None = None

    @property
    def cap(self) -> float:
        """What a person may lose over all runs, in mu^2: the least that a run promises. One that promises none keeps what others do."""
        return min(self._caps.copy().values(), default=math.inf)

    def works(self, name: str) -> bool:
        """Whether the run is neither being prepared nor waiting to be read again."""
        return name not in self.failures and name not in self._preparing

    def is_prepared_now(self, name: str) -> bool:
        return name in self._preparing

    def fail(self, name: str, what: str, error: Exception) -> None:
        """Memory may be ahead of the store: it is thrown away before the next report. Of an error its type is logged, or what
        the disk says: a text may hold somebody's data."""
        cause = str(error) if isinstance(error, StoreError) else _cause(error)
        log.error("run %s: %s failed: %s", name, what, cause)
        self.failures[name] = Failure(f"{what} failed: {cause}")

    def try_again(self, name: str, key: SigningKey) -> None:
        """Read a run that failed, or a new one, unless the last attempt was too recent."""
        failure = self.failures.get(name)
        if failure is None or time.monotonic() >= failure.retry_at:
            self.prepare(name, key)

    def prepare(self, name: str, key: SigningKey, run: LiveRun | None = None) -> threading.Event:
        """Plan the round of `run`, or of the run as the store has it. The event is set when that is done or has failed."""
        with self._lock:
            if name in self._preparing:
                return self._preparing[name].installed
            preparation = self._preparing[name] = _Preparation()
        wake_writer = self.wake_writer
        if wake_writer is None:
            self._install(self._prepared(name, key, run))
            return preparation.installed

        def work() -> None:
            self._results.put(self._prepared(name, key, run))
            preparation.prepared.set()
            wake_writer()

        # The process may end while the thread works: a round is planned again from the same release.
        threading.Thread(target=work, name=f"confide-prepare-{name}", daemon=True).start()
        return preparation.installed

    def wait_for(self, name: str, seconds: float) -> None:
        """Wait for so long at most until a run is prepared."""
        preparation = self._preparing.get(name)
        if preparation is not None:
            preparation.prepared.wait(seconds)

    def install_prepared(self) -> list[str]:
        """Take over all that was prepared. Returns the names of these runs."""
        names: list[str] = []
        with contextlib.suppress(queue.Empty):
            while True:
                prepared = self._results.get_nowait()
                self._install(prepared)
                names.append(prepared.name)
        return names

    def _install(self, prepared: PreparedRun) -> None:
        """A run that could not be is read again later, and more and more rarely."""
        name, error = prepared.name, prepared.error
        before = self.failures.pop(name, None)
        if error is not None:
            cause = str(error) if isinstance(error, ConfideError) else _cause(error)
            if before is None or cause != before.cause:
                log.error("run %s is not ready: %s", name, cause)
            wait = AGAIN if before is None else before.wait
            self.failures[name] = Failure(
                cause, time.monotonic() + wait, min(2 * wait, LONGEST_WAIT)
            )
        elif prepared.run is not None:
            self.by_name[name] = prepared.run
        self._preparing.pop(name).installed.set()

    def _prepared(self, name: str, key: SigningKey, run: LiveRun | None) -> PreparedRun:
        try:
            live = self._read(name) if run is None else run
            if live is not None:
                live.plan(key, self._store)
                self.fault("planned")
        except RoundConflict as error:
            self._conflicts[name] = error.generation
            return PreparedRun(name, None, error)
        except Exception as error:
            return PreparedRun(name, None, error)
        return PreparedRun(name, live, None)

    def _read(self, name: str) -> LiveRun | None:
        """The run as the store has it; None if it is finished and cannot be read."""
        # a close may have failed at this: old sums are still in the log
        with contextlib.suppress(StoreError):
            self._store.forget()
        row = self._store.run(name)
        self._caps[name] = _promised_cap(row)
        try:
            if row is not None:
                self.check_size(parse_spec(row.spec))
                if row.status != "finished" and row.generation == self._conflicts.get(name):
                    # Planning it again, which may take long, would give the same round.
                    raise RoundConflict(name, row.generation)
            must_be_marked = self._store.workers == 1 or name in self._runs_before_start
            return load(name, self._store, self._keys, self._marks, must_be_marked=must_be_marked)
        except StateError:
            if self._store.head(name).status != "finished":
                raise
            log.error(
                "run %s is finished, and not served: the database is older than what was shown, or damaged",
                name,
            )
            self.left_out.add(name)
            return None

    def check_size(self, spec: ServiceRunSpec) -> None:
        """Refuse a run that needs more memory than one run may, before anything of its size is made."""
        resources = estimate_resources(
            spec.agent,
            spec.problem,
            episodes=spec.users,
            privacy=spec.privacy,
            horizon=spec.horizon,
            secure=spec.noise == "secure",
            **spec.agent_options,
        )
        if resources.memory > self._memory:
            refuse_above(
                resources, self._memory, spec.agent, sizes_by_name(spec.problem, spec.horizon)
            )


def _cause(error: Exception) -> str:
    """What the system says, or the type of the error: its text may hold somebody's data."""
    return getattr(error, "strerror", None) or type(error).__name__


def _promised_cap(row: RunRow | None) -> float:
    """What a person may lose over all runs by the promise of this one, in mu^2. Other runs keep it, also if this one cannot be read.

    The settings say so, and so does the manifest: one of them may be damaged.
    """
    if row is None:
        return math.inf
    with contextlib.suppress(InvalidParameter, TypeError):
        return parse_spec(row.spec).cap
    try:
        person = json.loads(row.manifest)["person"]
        return math.inf if person is None else gaussian_mu(person["epsilon"], person["delta"]) ** 2
    except (ConfideError, ValueError, KeyError, TypeError):
        log.error(
            "run %s: what it promises a person over all runs cannot be read, so other runs do not keep it",
            row.name,
        )
        return math.inf
