"""The runs of a service in memory: which of them work, which are prepared, and which failed.

A run works if it takes reports. One that cannot be served does not concern the others. What leaves
this file are runs that may be shown (`LiveRuns.by_name`), and reasons for operators.

Required for privacy: a run is read with `load`, which compares it with its mark, and a round is
served only if no other process has planned a different one from the same release. All numbers are
a matter of taste.
"""

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

# A run that failed is read again after so many seconds, if nobody reports to it.
RETRY_SECONDS = 2.0
# After many failures, two attempts to read a run are at most so many seconds apart.
MAX_RETRY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run is not ready, and when it is read again."""

    cause: str
    # On the monotonic clock.
    retry_at: float = 0.0
    # Seconds between the next attempt and the one after it.
    pause: float = field(default_factory=lambda: RETRY_SECONDS)


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """What came of preparing a run: the run, or why that failed.

    Both are None if the run is left out, because it is finished and cannot be read.
    """

    name: str
    run: LiveRun | None
    error: Exception | None


class _Preparation:
    """A run that is being prepared: whether a thread has done it, and the writer has taken it."""

    def __init__(self) -> None:
        self.prepared = threading.Event()
        self.installed = threading.Event()


class LiveRuns:
    """All runs, by name.

    A run is prepared (read from the store, and planned) in a thread of its own, because both may
    take long. The writer takes over what was prepared with `install_prepared`. Before there is a
    writer's thread, everything happens at once.
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
        self._store = store
        self._keys = keys
        self._marks = marks
        self._memory = memory
        self.fault = fault
        self.by_name: dict[str, LiveRun] = {}
        self.failures: dict[str, Failure] = {}
        # Finished runs that cannot be read: a backup was put back, or they are damaged.
        self.left_out: set[str] = set()
        # What each run promises its people at most, in mu^2: also of runs that cannot be read.
        self._caps: dict[str, float] = {}
        # By run, the release from which this process has planned another round than the process
        # that was first.
        self._conflicts: dict[str, int] = {}
        self._preparing: dict[str, _Preparation] = {}
        self._results: queue.SimpleQueue[PreparedRun] = queue.SimpleQueue()
        self._lock = threading.Lock()
        # Other workers on PostgreSQL may make runs later, and mark them on their hosts.
        self._runs_before_start = frozenset(store.runs())
        # How a thread tells the writer that it has prepared something; None: there is no writer
        # yet.
        self.wake_writer: Callable[[], None] | None = None

    @property
    def cap(self) -> float:
        """What a person may lose over all runs, in mu^2: the least that a run promises.

        A run that promises no such limit keeps the one of the others.
        """
        return min(self._caps.copy().values(), default=math.inf)

    def works(self, name: str) -> bool:
        """Whether the run is neither being prepared nor waiting to be read again."""
        return name not in self.failures and name not in self._preparing

    def is_prepared_now(self, name: str) -> bool:
        """Whether the run is being prepared."""
        return name in self._preparing

    def fail(self, name: str, what: str, error: Exception) -> None:
        """Note that memory may be ahead of the store. The run is read again before its next report.

        Only the type of an error is logged, or what the disk says. Its text may hold somebody's
        data.
        """
        cause = str(error) if isinstance(error, StoreError) else _cause_without_data(error)
        log.error("run %s: %s failed: %s", name, what, cause)
        self.failures[name] = Failure(f"{what} failed: {cause}")

    def try_again(self, name: str, key: SigningKey) -> None:
        """Read a run that failed, or a new one, unless the last attempt was too recent."""
        failure = self.failures.get(name)
        if failure is None or time.monotonic() >= failure.retry_at:
            self.prepare(name, key)

    def prepare(self, name: str, key: SigningKey, run: LiveRun | None = None) -> threading.Event:
        """Plan the round of `run`, or of the run as the store has it.

        The event that is returned is set when that is done or has failed.
        """
        with self._lock:
            if name in self._preparing:
                return self._preparing[name].installed
            preparation = _Preparation()
            self._preparing[name] = preparation
        wake_writer = self.wake_writer
        if wake_writer is None:
            self._install(self._read_and_plan(name, key, run))
            return preparation.installed

        def work() -> None:
            self._results.put(self._read_and_plan(name, key, run))
            preparation.prepared.set()
            wake_writer()

        # The process may end while the thread works: a round is planned again from the same
        # release.
        threading.Thread(target=work, name=f"confide-prepare-{name}", daemon=True).start()
        return preparation.installed

    def wait_for(self, name: str, seconds: float) -> None:
        """Wait until a run is prepared, but no longer than `seconds`."""
        preparation = self._preparing.get(name)
        if preparation is not None:
            preparation.prepared.wait(seconds)

    def install_prepared(self) -> list[str]:
        """Take over all runs that were prepared, and return their names."""
        names: list[str] = []
        with contextlib.suppress(queue.Empty):
            while True:
                prepared = self._results.get_nowait()
                self._install(prepared)
                names.append(prepared.name)
        return names

    def _install(self, prepared: PreparedRun) -> None:
        """Take over a run. One that failed is read again later, and more and more rarely."""
        name = prepared.name
        error = prepared.error
        last_failure = self.failures.pop(name, None)
        if error is not None:
            cause = str(error) if isinstance(error, ConfideError) else _cause_without_data(error)
            if last_failure is None or cause != last_failure.cause:
                log.error("run %s is not ready: %s", name, cause)
            pause = RETRY_SECONDS if last_failure is None else last_failure.pause
            retry_at = time.monotonic() + pause
            self.failures[name] = Failure(cause, retry_at, min(2 * pause, MAX_RETRY_SECONDS))
        elif prepared.run is not None:
            self.by_name[name] = prepared.run
        self._preparing.pop(name).installed.set()

    def _read_and_plan(self, name: str, key: SigningKey, run: LiveRun | None) -> PreparedRun:
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
        """Return the run as the store has it, or None if it is finished and cannot be read."""
        # A close may have failed at this step. Then old sums are still in the log of the database.
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
                "run %s is finished, and not served: the database is older than what was shown, "
                "or damaged",
                name,
            )
            self.left_out.add(name)
            return None

    def check_size(self, spec: ServiceRunSpec) -> None:
        """Refuse a run that needs more memory than one run may.

        This is decided before anything of the size of the run is made.
        """
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
            sizes = sizes_by_name(spec.problem, spec.horizon)
            refuse_above(resources, self._memory, spec.agent, sizes)


def _cause_without_data(error: Exception) -> str:
    """Return what the system says, or the type of the error.

    The text of an error may hold somebody's data.
    """
    return getattr(error, "strerror", None) or type(error).__name__


def _promised_cap(row: RunRow | None) -> float:
    """Return what a person may lose over all runs by the promise of this one, in mu^2.

    Other runs keep it, also if this one cannot be read. The settings say so, and so does the
    manifest. Only one of them may be damaged.
    """
    if row is None:
        return math.inf
    with contextlib.suppress(InvalidParameter, TypeError):
        return parse_spec(row.spec).cap
    try:
        budget = json.loads(row.manifest)["person"]
        return math.inf if budget is None else gaussian_mu(budget["epsilon"], budget["delta"]) ** 2
    except (ConfideError, ValueError, KeyError, TypeError):
        log.error(
            "run %s: what it promises a person over all runs cannot be read, "
            "so other runs do not keep it",
            row.name,
        )
        return math.inf
