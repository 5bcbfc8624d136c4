"""An attacker who copies all files of a service after each report, and computes what each person
did.

The attacker has the source code and the public pages, so they know how records are laid out, and
how many numbers a contribution has. They have neither the folder of the keys nor the memory of the
process. Used by the tests, and with more people by benchmarks/stored_files_attack.py, which also
attacks older versions.
"""

import contextlib
import os
import pwd
import re
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import psycopg
from postgres_cluster import Cluster, programs

from confide.errors import ConfideError
from confide.mechanisms.state import unpack

# In version 0.2 these modules were not yet in a folder of their own.
CORE = "confide.service" if find_spec("confide.service.folder") else "confide.service.core"
Report = import_module(f"{CORE}.admission").Report
ServiceFolder = import_module(f"{CORE}.folder").ServiceFolder
Batching = import_module(f"{CORE}.spec").Batching
ServiceRunSpec = import_module(f"{CORE}.spec").ServiceRunSpec

RUN = "attacked"
COLUMNS = (
    "SELECT generation, state FROM run",
    "SELECT shard, generation, users, total FROM open_sum",
)
# An array with fewer cells that are not zero may stand in some file by chance.
TELLING_CELLS = 3
# Names of the states of a learner and its privatizer, and of the counter in it: of version 0.2, and
# of this one.
STATE_LAYOUTS = (("learner", "privatizer", "counter"), ("learner-2", "batches-1", "noise.counter"))
CHECKPOINT_RECORDS = ("XLOG", "Standby")


def run_spec(people, batch):
    return ServiceRunSpec(
        name=RUN,
        agent="tabular-psrl",
        problem="riverswim",
        epsilon=1.0,
        delta=1e-5,
        users=people,
        noise="secure",
        batch=Batching(schedule=batch),
    )


class Reports:
    """A service in this process, and people who report one after the other, each in a
    transaction.
    """

    def __init__(self, folder, *, people, batch, seed):
        self.folder, self.people = folder, people
        if not folder.exists():
            folder.init()
        self.service = folder.open()
        self.service.create(run_spec(people, batch))
        self.run = self.service.runs[RUN]
        self.size = self.run.coordinates
        self.world = self.run.spec.make_problem()
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        """The contribution of each person, after the person was told to be counted."""
        for number in range(self.people):
            # The learner is another object after a run was read again.
            self.run = self.service.runs[RUN]
            assigned = self.run.learner.assign(int(self.rng.integers(2**62)) << 66)
            episode = self.world.sample(assigned.policy, 1, self.rng)
            content = tuple(
                part[0].tolist() for part in (episode.states, episode.actions, episode.rewards)
            )
            contribution = self.run.contribution([content])
            subject = f"person {number}"
            names = self.run.pseudonyms.who(subject), self.run.pseudonyms.person(subject)
            report = Report(RUN, *names, number.to_bytes(16, "big"), assigned.generation, content)
            answers = []
            self.service.handle([(report, answers.append)])
            assert [answer.outcome for answer in answers] == ["counted"]
            yield contribution

    def stop(self):
        self.service.stop()
        self.folder.let_go()


# what is copied


@dataclass
class Columns:
    """The private columns of a copy, as they are stored."""

    generation: int
    state: bytes = field(repr=False)
    sums: list = field(repr=False)  # of rows: shard, generation, users, total


class SqliteFiles:
    """The files of a service on SQLite."""

    def __init__(self, folder):
        self.folder = folder.folder

    def copy(self, place):
        """Everything but the keys: the database, its log, its index, the marks."""
        shutil.copytree(self.folder, place, ignore=shutil.ignore_patterns("keys"))

    def columns(self, copied):
        return self._columns(copied, self._log(copied))

    def columns_of_log(self, copied):
        """What one copy of the log shows: the database after each transaction that is still
        in it.
        """
        log = self._log(copied)
        for end in _commits(log):
            yield self._columns(copied, log[:end])

    def _log(self, copied):
        return (copied / "service.sqlite-wal").read_bytes()

    @contextlib.contextmanager
    def _opened(self, copied, log):
        """SQLite changes what it opens, so it gets another copy."""
        with tempfile.TemporaryDirectory() as place:
            path = Path(shutil.copy(copied / "service.sqlite", place))
            path.with_name("service.sqlite-wal").write_bytes(log)
            with contextlib.closing(sqlite3.connect(path)) as db:
                yield db

    def _columns(self, copied, log):
        with self._opened(copied, log) as db:
            rows = db.execute(COLUMNS[0]).fetchall()
            generation, state = rows[0] if rows else (0, b"")
            return Columns(generation, state, db.execute(COLUMNS[1]).fetchall())

    def written(self, copied):
        """The pages that each transaction in the log has written, and the lengths of all values."""
        log = self._log(copied)
        page_bytes = struct.unpack(">I", log[8:12])[0] if log else 4096
        frames = [
            struct.unpack(">II", log[at : at + 8]) for at in range(32, len(log), 24 + page_bytes)
        ]
        sizes = {
            path.relative_to(copied).as_posix(): path.stat().st_size for path in _files(copied)
        }
        with self._opened(copied, log) as db:
            tables = [
                name
                for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            ]
            lengths = [
                (table, _lengths(db.execute(f"SELECT * FROM {table}"))) for table in sorted(tables)
            ]
        return frames, sizes, lengths


def _commits(log):
    """Where the transactions in a write-ahead log end
    [https://sqlite.org/fileformat2.html#walformat].
    """
    if not log:
        return
    (page_bytes,) = struct.unpack(">I", log[8:12])
    salts = log[16:24]
    for at in range(32, len(log), 24 + page_bytes):
        _, pages = struct.unpack(">II", log[at : at + 8])
        if log[at + 8 : at + 16] == salts and pages:
            yield at + 24 + page_bytes


def _lengths(rows):
    """Of values that are not numbers: how often each combination occurs."""
    return sorted(
        Counter(
            tuple(len(each) for each in row if isinstance(each, bytes | str)) for row in rows
        ).items()
    )


def _files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


class PostgresServer:
    """A server on a data directory, which ends without a checkpoint, as after a crash."""

    def __init__(self, data, socket, **settings):
        self.data, self.socket, self.settings = Path(data), Path(socket), settings

    @contextlib.contextmanager
    def running(self):
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self.socket,
            "shared_buffers": "16MB",
        }
        settings |= {"autovacuum": "off", "checkpoint_timeout": "1h", "wal_writer_delay": "10ms"}
        settings |= self.settings
        command = [
            programs() / "postgres",
            "-D",
            self.data,
            *(f"--{name}={value}" for name, value in settings.items()),
        ]
        server = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.socket,
            **_user(),
        )
        try:
            cluster = Cluster(self.socket)
            for _ in range(2000):
                with contextlib.suppress(psycopg.OperationalError):
                    psycopg.connect(cluster.plain).close()
                    break
                assert server.poll() is None, "PostgreSQL did not start"
                time.sleep(0.01)
            yield cluster
        finally:
            server.kill()
            server.wait()
            _wait_for_children(server.pid)


def _wait_for_children(pid):
    """The processes of a killed server end by themselves, when they notice it."""
    for _ in range(1000):
        if not any(_group(each) == pid for each in os.listdir("/proc") if each.isdigit()):
            return
        time.sleep(0.01)


def _group(process):
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc", process, "stat").read_text().rsplit(")", 1)[1].split()[1])
    return None


def _user():
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam("postgres")
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def postgres_server():
    with tempfile.TemporaryDirectory(prefix="confide-pg-") as place:
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(place, account.pw_uid, account.pw_gid)
        command = [programs() / "initdb", "-D", Path(place) / "data", "-U", "confide", "--no-sync"]
        command += ["--wal-segsize=1", "--encoding=UTF8", "--locale=C", "--auth=trust"]
        subprocess.run(command, check=True, capture_output=True, cwd=place, **_user())
        server = PostgresServer(Path(place) / "data", place)
        with server.running() as cluster:
            yield server, cluster


class PostgresFiles:
    """The data directory of the server, with its log, and what the service has in its own
    folder.
    """

    def __init__(self, folder, server):
        self.folder, self.server, self.address = folder.folder, server, folder.address
        self.schema = re.search("search_path%3D(.*)", self.address).group(1)
        self.position = self._position()

    def _position(self):
        """Where the log ends, when all of it is on the disk. A VACUUM does not wait for that."""
        query = (
            "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn(), "
            "pg_current_wal_flush_lsn()"
        )
        with psycopg.connect(self.address, autocommit=True) as db:
            for attempt in range(1000):
                ((flushed, position),) = db.execute(query).fetchall()
                if flushed:
                    return position
                time.sleep(0.01)
                # What a transaction without a commit has written may wait for ever. A commit writes
                # it, too.
                if attempt % 200 == 199:
                    db.execute("SELECT pg_current_xact_id()")
        raise AssertionError("the log was not flushed")

    def copy(self, place):
        place.mkdir()
        self.end = self._position()
        shutil.copytree(self.folder, place / "folder", ignore=shutil.ignore_patterns("keys"))
        # Files keep their owner, because the server that reads the copy does not run as root.
        subprocess.run(["cp", "-a", self.server.data, place / "data"], check=True)
        (place / "data" / "postmaster.pid").unlink()

    def columns(self, copied):
        """A server that is started on the copy recovers from the log, as after a crash."""
        with tempfile.TemporaryDirectory(prefix="confide-pg-") as socket:
            copied.parent.chmod(0o755)
            if os.geteuid() == 0:
                os.chown(socket, pwd.getpwnam("postgres").pw_uid, -1)
            path = f"-csearch_path={self.schema}"
            with (
                # Otherwise recovery waits until each file of the copy is on the disk.
                PostgresServer(copied / "data", socket, fsync="off").running() as cluster,
                psycopg.connect(cluster.plain, options=path) as db,
            ):
                ((generation, state),) = db.execute(COLUMNS[0], binary=True).fetchall()
                return Columns(generation, state, db.execute(COLUMNS[1], binary=True).fetchall())

    def columns_of_log(self, _):
        """None: reading a copy is reading the log already."""
        return ()

    def written(self, copied):
        """The records in the server's log since the last call, without those of the server
        itself.
        """
        start, self.position = self.position, self.end
        command = [
            programs() / "pg_waldump",
            "-p",
            copied / "data" / "pg_wal",
            "-s",
            start,
            "-e",
            self.position,
        ]
        # It says so, with an exit code, if the server has not filled the rest of the page.
        lines = subprocess.run(
            command, capture_output=True, text=True, check=False
        ).stdout.splitlines()
        found = [
            re.match(r"rmgr: (\w+) +len \(rec/tot\): +(\d+)/ +(\d+),.*desc: (\w+)", line)
            for line in lines
        ]
        records = [
            each.groups() for each in found if each and each.group(1) not in CHECKPOINT_RECORDS
        ]
        with psycopg.connect(self.address, autocommit=True) as db:
            query = (
                "SELECT relname, pg_relation_size(oid), "
                "pg_relation_size(nullif(reltoastrelid, 0)) FROM pg_class "
                "WHERE relnamespace = current_schema::regnamespace ORDER BY relname"
            )
            sizes = db.execute(query).fetchall()
            tables = [
                name
                for (name,) in db.execute(
                    "SELECT tablename FROM pg_tables WHERE schemaname = current_schema"
                )
            ]
            lengths = [
                (table, _lengths(db.execute(f"SELECT * FROM {table}", binary=True)))
                for table in sorted(tables)
            ]
        return records, sizes, lengths


# the attack


def numbers(stored, size):
    """Every way to read so many 64-bit integers from stored bytes."""
    return {stored[at : at + 8 * size] for at in range(max(len(stored) - 8 * size + 1, 0))}


def differences(before, after, size):
    """What was added between two versions of a sum, for every way to read both."""
    zero = bytes(8 * size)
    guesses = set()
    for at in range(max(len(after) - 8 * size + 1, 0)):
        new = after[at : at + 8 * size]
        old = before[at : at + 8 * size] if before else zero
        if len(old) == len(new):
            first, second = (np.frombuffer(each, dtype="<i8") for each in (old, new))
            guesses |= {(second - first).tobytes(), (second ^ first).tobytes()}
    return guesses


def closed_batches(state, size):
    """The exact sum of each closed batch, if the state shows them."""
    for learner_kind, privatizer_kind, counter_name in STATE_LAYOUTS:
        with contextlib.suppress(ConfideError, ValueError, KeyError):
            learner = unpack(state, learner_kind, released=0)
            inner = learner.arrays["privatizer"].tobytes()
            privatizer = unpack(inner, privatizer_kind, released=0)
            counter = unpack(privatizer.arrays[counter_name].tobytes(), "counter", released=0)
            leaves = counter.arrays.get("private.leaves", np.zeros((0, size)))
            return list(leaves[: counter.generation].astype(np.int64))
    return []


class Attack:
    """Guesses of each person's contribution, from one copy and the one before it."""

    def __init__(self, size):
        self.size = size
        self.before = None
        self.total = np.zeros(size, dtype=np.int64)  # of the open batch, as far as it was recovered

    def guesses(self, columns):
        """What the newest person may have contributed, as bytes of 64-bit integers."""
        before, self.before = self.before, columns
        if before is not None and columns.generation != before.generation:
            batches = closed_batches(columns.state, self.size)
            rest = (
                [batches[before.generation] - self.total]
                if len(batches) > before.generation
                else []
            )
            self.total = np.zeros(self.size, dtype=np.int64)
            return {each.tobytes() for each in rest}
        guesses = set()
        for row in columns.sums:
            same = [old for old in before.sums if old[0] == row[0]] if before else []
            guesses |= differences(same[0][3] if same else b"", row[3], self.size)
        if (
            len(guesses) <= 2
            and len(columns.sums) == 1
            and len(columns.sums[0][3]) == 8 * self.size
        ):
            self.total = np.frombuffer(columns.sums[0][3], dtype="<i8")
        return guesses


def is_in(arrays, blob):
    """Whether a file holds one of these arrays in clear text, in one of the usual forms."""
    forms = ("<i8", "<f8", "<i4", ">i8", "<f4")
    return any(array.astype(form).tobytes() in blob for array in arrays for form in forms)


@dataclass
class Recovered:
    """How many people an attack has found, and by what."""

    people: int = 0
    by_copies: int = 0
    by_log: int = 0
    exact_sums_in_files: int = 0
    states_in_files: int = 0
    record_lengths: set = field(default_factory=set)
    patterns: list = field(default_factory=list, repr=False)


def attack(files, reports, *, place):
    """Copy all files after each report, and compute what each person did."""
    recovered = Recovered()
    by_copies = Attack(reports.size)
    by_copies.guesses(_read(files, place))
    batch = []
    total = np.zeros(reports.size, dtype=np.int64)
    generation = 0
    for contribution in reports:
        copied = place / f"copy-{recovered.people}"
        files.copy(copied)
        recovered.people += 1
        recovered.patterns.append(files.written(copied))
        columns = files.columns(copied)
        recovered.by_copies += contribution.tobytes() in by_copies.guesses(columns)
        recovered.record_lengths |= {len(row[3]) for row in columns.sums if row[2]} | {
            -len(columns.state)
        }
        total = total + contribution
        blobs = [path.read_bytes() for path in _files(copied)]
        exact = [each for each in (contribution, total) if np.count_nonzero(each) >= TELLING_CELLS]
        recovered.exact_sums_in_files += any(is_in(exact, blob) for blob in blobs)
        recovered.states_in_files += any(b'"kind": "learner' in blob for blob in blobs)
        if columns.generation != generation:
            generation = columns.generation
            batch, total = [], np.zeros(reports.size, dtype=np.int64)
        else:
            batch.append(contribution)
            recovered.by_log = max(
                recovered.by_log, _recovered_from_log(files, copied, batch, reports.size)
            )
        shutil.rmtree(copied)
    return recovered


def _read(files, place):
    copied = place / "copy-before"
    files.copy(copied)
    try:
        return files.columns(copied)
    finally:
        shutil.rmtree(copied)


def _recovered_from_log(files, copied, batch, size):
    """How many people of an open batch one copy reveals, without any earlier copy."""
    by_log = Attack(size)
    versions = list(files.columns_of_log(copied))
    guesses = [by_log.guesses(version) for version in versions]
    return sum(any(person.tobytes() in each for each in guesses) for person in batch)


@contextlib.contextmanager
def files_of(database, place):
    """A folder of a service, and how its files are copied."""
    if database == "sqlite":
        folder = ServiceFolder(place / "service")
        yield folder, lambda: SqliteFiles(folder)
        return
    with postgres_server() as (server, cluster):
        folder = ServiceFolder(place / "service", address=cluster.url())
        yield folder, lambda: PostgresFiles(folder, server)


def attacked(database, *, people, batch, seed, keys=None):
    """What an attack on a new service finds.

    `keys`: a folder of keys that the service shall use.
    """
    with tempfile.TemporaryDirectory() as base:
        place = Path(base)
        with files_of(database, place) as (folder, make_files):
            if keys is not None:
                shutil.copytree(keys, folder.keys.folder)
            reports = Reports(folder, people=people, batch=batch, seed=seed)
            try:
                return attack(make_files(), reports, place=place)
            finally:
                reports.stop()
