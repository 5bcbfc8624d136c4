"""The embedded database of a service: one SQLite file, durable at each commit."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from confide._locks import NO_FOLLOW
from confide.errors import StoreError
from confide.service.store.interface import Head, Moved, OpenSum, Taken
from confide.service.store.sql import Reads, Writes, marks, migrations, seal_sum, the_sum
from confide.service.store.vault import Vault

Row = TypeVar("Row")
_APPLICATION = 0x63666473  # "cfds"
_HEAD = "SELECT run.generation, status, users FROM run JOIN open_sum ON run = name WHERE name = ?"


class SqliteStore(Reads):
    """A write-ahead log with `synchronous=FULL`; deleted rows are overwritten. PRIVATE: mode 0600.

    One connection writes and one reads, each behind a lock: one process has the file (`Service` sees to that).
    """

    workers = 1
    made = "rowid"

    def __init__(self, path: str | Path, vault: Vault) -> None:
        self.path = Path(path)
        self.vault = vault
        self._write_lock, self._read_lock = threading.RLock(), threading.Lock()
        with contextlib.ExitStack() as opened, _as_store_error():
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o600))
            self._writer, self._reader = self._connect(opened), self._connect(opened)
            self._migrate()
            opened.pop_all()  # they stay open, unless something above failed

    def _connect(self, opened: contextlib.ExitStack) -> sqlite3.Connection:
        made = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        opened.callback(made.close)
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "secure_delete=ON",
            "foreign_keys=ON",
            "temp_store=MEMORY",
        ):
            made.execute(f"PRAGMA {pragma}")
        return made

    def _migrate(self) -> None:
        steps = migrations("sqlite")
        (made_by,), (version,) = (
            self._writer.execute(f"PRAGMA {name}").fetchone()
            for name in ("application_id", "user_version")
        )
        if made_by not in (0, _APPLICATION):
            raise StoreError(f"{self.path.name} is not the database of a confide service")
        if version > len(steps):
            raise StoreError(
                f"{self.path.name} has schema {version}, this confide knows {len(steps)}: use a newer confide"
            )
        for number, step in enumerate(steps[version:], start=version + 1):
            self._writer.executescript(
                f"BEGIN IMMEDIATE;\n{step}\nPRAGMA application_id={_APPLICATION};\nPRAGMA user_version={number};\nCOMMIT;"
            )

    @contextlib.contextmanager
    def transaction(self) -> "Iterator[SqliteTransaction]":
        with self._write_lock, _as_store_error():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteTransaction(self._writer, self.vault)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._read_lock, _as_store_error():
            return self._reader.execute(query, values).fetchall()

    def head(self, run: str) -> Head:
        return Head(*the_sum(self._read(_HEAD, run), run))

    def forget(self) -> None:
        """Old pages of the log are on the disk until it is truncated. They show in which order people reported."""
        with self._write_lock, self._read_lock, _as_store_error():
            (busy, *_), *_ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise StoreError(
                "the write-ahead log could not be truncated: another program reads the database"
            )

    def backup(self, path: str) -> None:
        """A copy of the whole database, in a new file. PRIVATE, as the database is."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o600))
        try:
            with (
                self._write_lock,
                _as_store_error(),
                contextlib.closing(sqlite3.connect(path)) as copy,
            ):
                self._writer.backup(copy)
        except BaseException:
            os.unlink(path)  # half a copy must not be taken for a whole one
            raise

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()


class SqliteTransaction(Writes):
    def __init__(self, db: sqlite3.Connection, vault: Vault) -> None:
        self._db = db
        self.vault = vault

    def _do(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._db.execute(query, values).fetchall()

    def _changed(self, query: str, *values: object) -> int:
        return self._db.execute(query, values).rowcount

    def taken(self, run: str, people: Sequence[bytes]) -> dict[bytes, list[Taken]]:
        found: dict[bytes, list[Taken]] = {}
        for some in _parts(people):
            query = f"SELECT who, slot, generation, nonce FROM participant WHERE run = ? AND who IN ({marks(len(some))}) ORDER BY slot"
            for who, *place in self._db.execute(query, (run, *some)).fetchall():
                found.setdefault(who, []).append(Taken(*place))
        return found

    def take(self, run: str, places: Sequence[tuple[bytes, Taken]]) -> None:
        """In one statement: SQLite lets go of the interpreter at each."""
        for some in _parts(places):
            values = [
                part
                for who, place in some
                for part in (run, who, place.slot, place.generation, place.nonce)
            ]
            self._db.execute(
                f"INSERT OR REPLACE INTO participant VALUES {_rows(len(some), 5)}", values
            )

    def accounts(self, people: Sequence[bytes]) -> dict[bytes, float]:
        found: dict[bytes, float] = {}
        for some in _parts(people):
            query = f"SELECT person, spent FROM account WHERE person IN ({marks(len(some))})"
            found |= dict(self._db.execute(query, list(some)).fetchall())
        return found

    def charge(self, amounts: Sequence[tuple[bytes, float]]) -> None:
        for some in _parts(amounts):
            query = f"INSERT INTO account VALUES {_rows(len(some), 2)} ON CONFLICT (person) DO UPDATE SET spent = spent + excluded.spent"
            self._db.execute(query, [part for amount in some for part in amount])

    def hold(self, run: str, *, alone: bool = False) -> Head:  # noqa: ARG002
        """A transaction is alone in any case."""
        return Head(*the_sum(self._do(_HEAD, run), run))

    def alive(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def add_to_sum(self, run: str, added: OpenSum) -> None:
        before = self.open_sum(run)
        if before.generation != added.generation:
            raise Moved("the open batch was closed by another process")
        now = before.plus(added)
        record = seal_sum(self.vault, run, 0, now)
        self._changed(
            "UPDATE open_sum SET users = ?, total = ? WHERE run = ?", now.users, record, run
        )


_AT_ONCE = 1000  # rows of a statement


def _parts(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]


def _rows(count: int, columns: int) -> str:
    return ", ".join([f"({marks(columns)})"] * count)


@contextlib.contextmanager
def _as_store_error() -> Iterator[None]:
    """What SQLite and the disk say, without values: an error text is read by operators."""
    try:
        yield
    except UnicodeDecodeError:
        raise StoreError("the database failed: a text in it is damaged") from None
    except sqlite3.Error as error:
        raise StoreError(
            f"the database failed: {getattr(error, 'sqlite_errorname', type(error).__name__)}"
        ) from None
    except OSError as error:
        raise StoreError(f"the database failed: {error.strerror}") from None
