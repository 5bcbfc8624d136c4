"""The embedded database of a service: one SQLite file, durable at each commit."""

import contextlib
import importlib.resources
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from confide.errors import StateError, StoreError
from confide.service.audit_chain import chained
from confide.service.documents import ReleaseRow
from confide.service.store import ApiKeyRow, AuditRow, OpenSum, RunRow, SigningKeyRow, Taken

Row = TypeVar("Row")
_APPLICATION = 0x63666473  # "cfds"
_RELEASE = "run, generation, body, users, previous, digest, signature, key"


def migrations(dialect: str) -> list[str]:
    """The numbered steps from an empty database to today's tables."""
    folder = importlib.resources.files("confide.service").joinpath("migrations", dialect)
    found = sorted((each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda each: each.name)
    return [each.read_text(encoding="utf-8") for each in found]


class SqliteStore:
    """A write-ahead log with `synchronous=FULL`; deleted rows are overwritten. PRIVATE: mode 0600.

    One connection writes and one reads, each behind a lock: one process has the file (`Service` sees to that).
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with _as_store_error():
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            self._writer, self._reader = self._connect(), self._connect()
        self._write_lock, self._read_lock = threading.RLock(), threading.Lock()
        self._migrate()

    def _connect(self) -> sqlite3.Connection:
        made = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON", "temp_store=MEMORY"):
            made.execute(f"PRAGMA {pragma}")
        return made

    def _migrate(self) -> None:
        steps = migrations("sqlite")
        with _as_store_error():
            (made_by,), (version,) = (
                self._writer.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
            )
            if made_by not in (0, _APPLICATION):
                raise StoreError(f"{self.path.name} is not the database of a confide service")
            if version > len(steps):
                raise StoreError(f"{self.path.name} has schema {version}, this confide knows {len(steps)}: use a newer confide")
            for number, step in enumerate(steps[version:], start=version + 1):
                self._writer.executescript(
                    f"BEGIN IMMEDIATE;\n{step}\nPRAGMA application_id={_APPLICATION};\nPRAGMA user_version={number};\nCOMMIT;"
                )

    @contextlib.contextmanager
    def transaction(self) -> "Iterator[SqliteTransaction]":
        with self._write_lock, _as_store_error():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteTransaction(self._writer)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def _read(self, query: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
        with self._read_lock, _as_store_error():
            return self._reader.execute(query, values).fetchall()

    def runs(self) -> list[str]:
        return [name for (name,) in self._read("SELECT name FROM run ORDER BY name")]

    def run(self, name: str) -> RunRow | None:
        columns = "name, spec, manifest, signature, key, certificate, status, generation, state"
        found = self._read(f"SELECT {columns} FROM run WHERE name = ?", name)
        return RunRow(*found[0]) if found else None

    def release(self, run: str, generation: int) -> ReleaseRow | None:
        found = self._read(f"SELECT {_RELEASE} FROM release WHERE run = ? AND generation = ?", run, generation)
        return ReleaseRow(*found[0]) if found else None

    def releases(self, run: str) -> Iterable[ReleaseRow]:
        return (ReleaseRow(*row) for row in self._read(f"SELECT {_RELEASE} FROM release WHERE run = ? ORDER BY generation", run))

    def open_sum(self, run: str) -> OpenSum:
        found = self._read("SELECT generation, users, total FROM open_sum WHERE run = ?", run)
        if len(found) != 1:
            raise StoreError(f"run {run} has {len(found)} open sums: the database is damaged")
        return OpenSum(*found[0])

    def participants(self, run: str) -> dict[int, int]:
        query = "SELECT generation, COUNT(*) FROM participant WHERE run = ? AND nonce IS NOT NULL GROUP BY generation"
        return dict(self._read(query, run))

    def most_reports(self, run: str) -> int:
        query = "SELECT COALESCE(MAX(slot) + 1, 0) FROM participant WHERE run = ? AND nonce IS NOT NULL"
        return int(self._read(query, run)[0][0])

    def largest_account(self) -> float:
        return float(self._read("SELECT COALESCE(MAX(spent), 0) FROM account")[0][0])

    def signing_keys(self) -> list[SigningKeyRow]:
        """In the order in which they were made: each is endorsed by one before it."""
        rows = self._read("SELECT id, public, endorsed_by, endorsement, retired FROM signing_key ORDER BY rowid")
        return [SigningKeyRow(name, public, by, how, bool(retired)) for name, public, by, how, retired in rows]

    def api_keys(self) -> list[ApiKeyRow]:
        rows = self._read("SELECT id, role, secret, label, revoked FROM api_key ORDER BY id")
        return [ApiKeyRow(name, role, secret, label, bool(revoked)) for name, role, secret, label, revoked in rows]

    def audit_rows(self) -> Iterable[AuditRow]:
        return (
            AuditRow(*row) for row in self._read("SELECT number, at, actor, action, detail, digest FROM audit ORDER BY number")
        )

    def forget(self) -> None:
        """Old pages of the log are on the disk until it is truncated: they hold earlier versions of the open sum."""
        with self._write_lock, self._read_lock, _as_store_error():
            (busy, *_), *_ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise StoreError("the write-ahead log could not be truncated: another program reads the database")

    def backup(self, path: str) -> None:
        """A copy of the whole database, in a new file. PRIVATE, as the database is."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        with self._write_lock, _as_store_error(), contextlib.closing(sqlite3.connect(path)) as copy:
            self._writer.backup(copy)

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()


class SqliteTransaction:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def create_run(self, run: RunRow, first: ReleaseRow) -> None:
        values = (
            run.name,
            run.spec,
            run.manifest,
            run.signature,
            run.key,
            run.certificate,
            run.status,
            run.generation,
            run.state,
        )
        self._db.execute(f"INSERT INTO run VALUES ({_marks(9)})", values)
        self._release(first)
        self._db.execute("INSERT INTO open_sum VALUES (?, 0, ?, 0, ?)", (run.name, run.generation, b""))

    def taken(self, run: str, people: Sequence[bytes]) -> dict[bytes, list[Taken]]:
        found: dict[bytes, list[Taken]] = {}
        for some in _parts(people):
            query = f"SELECT who, slot, generation, nonce FROM participant WHERE run = ? AND who IN ({_marks(len(some))}) ORDER BY slot"
            for who, *place in self._db.execute(query, (run, *some)).fetchall():
                found.setdefault(who, []).append(Taken(*place))
        return found

    def enrolled(self, run: str, generation: int) -> int:
        query = "SELECT COUNT(*) FROM participant WHERE run = ? AND generation = ?"
        return int(self._db.execute(query, (run, generation)).fetchone()[0])

    def take(self, run: str, places: Sequence[tuple[bytes, Taken]]) -> None:
        """In one statement: SQLite lets go of the interpreter at each."""
        for some in _parts(places):
            values = [part for who, place in some for part in (run, who, place.slot, place.generation, place.nonce)]
            self._db.execute(f"INSERT OR REPLACE INTO participant VALUES {_rows(len(some), 5)}", values)

    def accounts(self, people: Sequence[bytes]) -> dict[bytes, float]:
        found: dict[bytes, float] = {}
        for some in _parts(people):
            query = f"SELECT person, spent FROM account WHERE person IN ({_marks(len(some))})"
            found |= dict(self._db.execute(query, list(some)).fetchall())
        return found

    def charge(self, amounts: Sequence[tuple[bytes, float]]) -> None:
        for some in _parts(amounts):
            query = f"INSERT INTO account VALUES {_rows(len(some), 2)} ON CONFLICT (person) DO UPDATE SET spent = spent + excluded.spent"
            self._db.execute(query, [part for amount in some for part in amount])

    def write_sum(self, run: str, total: OpenSum) -> None:
        query = "UPDATE open_sum SET users = ?, total = ? WHERE run = ? AND generation = ?"
        if self._db.execute(query, (total.users, total.total, run, total.generation)).rowcount != 1:
            raise StateError("the open batch was closed by somebody else")

    def close(self, release: ReleaseRow, state: bytes) -> None:
        before = release.generation - 1
        query = "UPDATE run SET generation = ?, state = ? WHERE name = ? AND generation = ?"
        if self._db.execute(query, (release.generation, state, release.run, before)).rowcount != 1:
            raise StateError(f"generation {release.generation} was made by somebody else: it must not be drawn twice")
        self._release(release)
        query = "UPDATE open_sum SET generation = ?, users = 0, total = ? WHERE run = ?"
        self._db.execute(query, (release.generation, b"", release.run))

    def _release(self, row: ReleaseRow) -> None:
        values = (row.run, row.generation, row.body, row.users, row.previous, row.digest, row.signature, row.key)
        self._db.execute(f"INSERT INTO release ({_RELEASE}) VALUES ({_marks(8)})", values)

    def set_status(self, run: str, status: str) -> None:
        self._db.execute("UPDATE run SET status = ? WHERE name = ?", (status, run))

    def add_signing_key(self, key: SigningKeyRow) -> None:
        self._db.execute("UPDATE signing_key SET retired = 1")
        self._db.execute(
            "INSERT INTO signing_key VALUES (?, ?, ?, ?, ?)", (key.id, key.public, key.endorsed_by, key.endorsement, key.retired)
        )

    def add_api_key(self, key: ApiKeyRow) -> None:
        self._db.execute("INSERT INTO api_key VALUES (?, ?, ?, ?, ?)", (key.id, key.role, key.secret, key.label, key.revoked))

    def revoke_api_key(self, name: str) -> bool:
        return self._db.execute("UPDATE api_key SET revoked = 1 WHERE id = ? AND revoked = 0", (name,)).rowcount == 1

    def audit(self, at: str, actor: str, action: str, detail: str) -> None:
        last = self._db.execute("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1").fetchone() or (0, "")
        row = (last[0] + 1, at, actor, action, detail)
        self._db.execute(f"INSERT INTO audit VALUES ({_marks(6)})", (*row, chained(last[1], *row)))


_AT_ONCE = 1000  # rows of a statement


def _parts(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _rows(count: int, columns: int) -> str:
    return ", ".join([f"({_marks(columns)})"] * count)


@contextlib.contextmanager
def _as_store_error() -> Iterator[None]:
    """What SQLite and the disk say, without values: an error text is read by operators."""
    try:
        yield
    except UnicodeDecodeError:
        raise StoreError("the database failed: a text in it is damaged") from None
    except sqlite3.Error as error:
        raise StoreError(f"the database failed: {getattr(error, 'sqlite_errorname', type(error).__name__)}") from None
    except OSError as error:
        raise StoreError(f"the database failed: {error.strerror}") from None
