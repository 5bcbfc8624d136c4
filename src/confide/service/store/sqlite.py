"""The embedded database of a service: one SQLite file, durable at each commit.

Required for privacy: `synchronous=FULL` (who is told to be counted is counted), `secure_delete`,
and the truncation of the write-ahead log at each close (`forget`). Without the last two, old
versions of rows stay on the disk, and they show in which order people reported.
"""

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
from confide.service.store.interface import BatchPlace, Head, Moved, OpenSum
from confide.service.store.sql import (
    Reads,
    Writes,
    migrations,
    only_row,
    placeholders,
    seal_sum,
)
from confide.service.store.vault import Vault

Row = TypeVar("Row")
# How SQLite recognises a database of a service: "cfds". It is part of the format.
_APPLICATION_ID = 0x63666473
# A statement has at most so many rows. SQLite allows 32,766 values. A matter of taste.
_ROWS_PER_STATEMENT = 1000
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    "foreign_keys=ON",
    "temp_store=MEMORY",
)
_HEAD = "SELECT run.generation, status, users FROM run JOIN open_sum ON run = name WHERE name = ?"


class SqliteStore(Reads):
    """A database in a file of mode 0600. PRIVATE.

    One connection writes and one reads, each behind a lock. Only one process has the file, because
    it holds the folder (`ServiceFolder.hold`).
    """

    workers = 1
    signing_key_order = "rowid"

    def __init__(self, path: str | Path, vault: Vault) -> None:
        self.path = Path(path)
        self.vault = vault
        self._write_lock = threading.RLock()
        self._read_lock = threading.Lock()
        with contextlib.ExitStack() as connections, _as_store_error():
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o600))
            self._writer = self._connect(connections)
            self._reader = self._connect(connections)
            self._migrate()
            # Nothing above failed, so the connections stay open.
            connections.pop_all()

    def _connect(self, connections: contextlib.ExitStack) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=10
        )
        connections.callback(connection.close)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _migrate(self) -> None:
        steps = migrations("sqlite")
        (application,) = self._writer.execute("PRAGMA application_id").fetchone()
        (version,) = self._writer.execute("PRAGMA user_version").fetchone()
        if application not in (0, _APPLICATION_ID):
            raise StoreError(f"{self.path.name} is not the database of a confide service")
        if version > len(steps):
            raise StoreError(
                f"{self.path.name} has schema {version}, and this confide has {len(steps)}: "
                "use a newer confide"
            )
        for number, step in enumerate(steps[version:], start=version + 1):
            self._writer.executescript(
                f"BEGIN IMMEDIATE;\n{step}\nPRAGMA application_id={_APPLICATION_ID};\n"
                f"PRAGMA user_version={number};\nCOMMIT;"
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
        return Head(*only_row(self._read(_HEAD, run), run))

    def forget(self) -> None:
        """Truncate the write-ahead log. Until then its old pages are on the disk.

        They show in which order people reported.
        """
        with self._write_lock, self._read_lock, _as_store_error():
            (busy, *_), *_ = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise StoreError(
                "the write-ahead log could not be truncated: another program reads the database. "
                "Stop it; confide service backup makes a copy to read"
            )

    def backup(self, path: str) -> None:
        """Copy the whole database to a new file. PRIVATE, as the database is."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o600))
        try:
            with (
                self._write_lock,
                _as_store_error(),
                contextlib.closing(sqlite3.connect(path)) as copy,
            ):
                self._writer.backup(copy)
        except BaseException:
            # Half a copy must not be taken for a whole one.
            os.unlink(path)
            raise

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()


class SqliteTransaction(Writes):
    """A transaction of SQLite. It is alone: no other one runs at the same time.

    Many rows are written in one statement, because SQLite releases the lock of the interpreter at
    each statement.
    """

    def __init__(self, db: sqlite3.Connection, vault: Vault) -> None:
        self._db = db
        self.vault = vault

    def _query(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self._db.execute(query, values).fetchall()

    def _execute(self, statement: str, *values: object) -> int:
        return self._db.execute(statement, values).rowcount

    def places_of(self, run: str, people: Sequence[bytes]) -> dict[bytes, list[BatchPlace]]:
        places: dict[bytes, list[BatchPlace]] = {}
        for part in _split_rows(people):
            query = (
                "SELECT who, slot, generation, nonce FROM participant "
                f"WHERE run = ? AND who IN ({placeholders(len(part))}) ORDER BY slot"
            )
            for who, *place in self._query(query, run, *part):
                places.setdefault(who, []).append(BatchPlace(*place))
        return places

    def take_places(self, run: str, places: Sequence[tuple[bytes, BatchPlace]]) -> None:
        for part in _split_rows(places):
            values: list[object] = []
            for who, place in part:
                values += (run, who, place.slot, place.generation, place.nonce)
            insert = f"INSERT OR REPLACE INTO participant VALUES {_row_values(len(part), 5)}"
            self._execute(insert, *values)

    def accounts(self, people: Sequence[bytes]) -> dict[bytes, float]:
        spent: dict[bytes, float] = {}
        for part in _split_rows(people):
            query = f"SELECT person, spent FROM account WHERE person IN ({placeholders(len(part))})"
            spent |= dict(self._query(query, *part))
        return spent

    def charge(self, amounts: Sequence[tuple[bytes, float]]) -> None:
        for part in _split_rows(amounts):
            insert = (
                f"INSERT INTO account VALUES {_row_values(len(part), 2)} "
                "ON CONFLICT (person) DO UPDATE SET spent = spent + excluded.spent"
            )
            self._execute(insert, *(value for amount in part for value in amount))

    def hold(self, run: str, *, alone: bool = False) -> Head:  # noqa: ARG002
        """Return where the run is. The transaction is alone in any case."""
        return Head(*only_row(self._query(_HEAD, run), run))

    def keep_alive(self) -> AbstractContextManager[None]:
        """Nobody ends a transaction of SQLite but its own process."""
        return contextlib.nullcontext()

    def add_to_sum(self, run: str, added: OpenSum) -> None:
        before = self.open_sum(run)
        if before.generation != added.generation:
            raise Moved("the open batch was closed by another process")
        new_sum = before.plus(added)
        record = seal_sum(self.vault, run, 0, new_sum)
        update = "UPDATE open_sum SET users = ?, total = ? WHERE run = ?"
        self._execute(update, new_sum.users, record, run)


def _split_rows(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Return the rows in parts, each of which fits into one statement."""
    starts = range(0, len(rows), _ROWS_PER_STATEMENT)
    return [rows[start : start + _ROWS_PER_STATEMENT] for start in starts]


def _row_values(count: int, columns: int) -> str:
    """Return what stands for the values of so many rows."""
    return ", ".join([f"({placeholders(columns)})"] * count)


@contextlib.contextmanager
def _as_store_error() -> Iterator[None]:
    """Raise what SQLite and the disk say as `StoreError`, without values.

    Operators read the text of an error.
    """
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
