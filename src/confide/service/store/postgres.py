"""The database of a service in PostgreSQL: several workers take reports at the same time.

A transaction with reports holds the row of its run with FOR KEY SHARE, and adds to a row of the
open sum that belongs to its worker. So workers do not wait for each other. Whoever closes the batch
takes the row of the run FOR UPDATE: it waits for those transactions, sums all rows, and nobody adds
to them until the release is committed. A process that stops in mid-transaction loses it, and its
locks, after `LEASE` seconds: the server ends its session.

Required for privacy: these two locks (otherwise noise is drawn for a sum to which people are still
added), and the settings that make a commit durable. Tests hold both against workers that are killed
and stopped.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict

from confide.errors import InvalidParameter, StoreError
from confide.service.store.interface import BatchPlace, Head, Moved, OpenSum
from confide.service.store.sql import (
    SUM_QUERY,
    Reads,
    Writes,
    migrations,
    only_row,
    open_sums,
    seal_sum,
)
from confide.service.store.vault import HEADER_BYTES, Vault

# At most so many workers may serve a database at the same time. A matter of taste.
WORKERS = 16
# A transaction may wait so many seconds for its process. A matter of taste.
LEASE = 60.0
_USERS = "SELECT COALESCE(SUM(users), 0)::bigint FROM open_sum WHERE run = ?"
_HEAD = f"SELECT generation, status, ({_USERS.replace('?', 'name')}) FROM run WHERE name = ?"
_SHARD = "SELECT pg_try_advisory_lock(mod('run'::regclass::oid::bigint, 2147483647)::int, ?)"
# The number of the advisory lock of migrations: "cfds".
_MIGRATION_LOCK = 0x63666473
_ADDRESS_NEEDED = "the database must be an address such as postgresql://user@host/name"

# psycopg warns when a lost connection cannot roll back. The server does that.
logging.getLogger("psycopg").setLevel(logging.ERROR)

Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresStore(Reads):
    """A database in PostgreSQL. PRIVATE.

    One connection writes and one reads, each behind a lock. A connection that is lost is made again
    at its next use.
    """

    workers = WORKERS

    def __init__(self, url: str, vault: Vault) -> None:
        self.vault = vault
        try:
            self._address = conninfo_to_dict(url)
        except psycopg.Error:
            # The address may hold a password, so it is not repeated.
            raise InvalidParameter(_ADDRESS_NEEDED) from None
        self._connections: dict[str, Connection] = {}
        self._shard: int | None = None
        self._write_lock = threading.RLock()
        self._read_lock = threading.Lock()
        try:
            with _as_store_error():
                self._migrate(self._connection("writer"))
        except BaseException:
            self.close()
            raise

    def _connection(self, name: Literal["writer", "reader"]) -> Connection:
        """Return the connection that is open, or a new one."""
        connection = self._connections.get(name)
        if connection is None or connection.closed:
            connection = self._connect()
            self._connections[name] = connection
            if name == "writer":
                # A new session has no shard yet.
                self._shard = None
        return connection

    def _connect(self) -> Connection:
        address: dict[str, Any] = {"connect_timeout": 10, **self._address}
        connection = psycopg.connect(
            "", autocommit=True, client_encoding="utf8", application_name="confide", **address
        )
        try:
            _configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, db: Connection) -> None:
        steps = migrations("postgres")
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            db.execute("CREATE TABLE IF NOT EXISTS confide_schema (version INTEGER NOT NULL)")
            rows = db.execute("SELECT version FROM confide_schema").fetchall()
            version = max((number for (number,) in rows), default=0)
            if version > len(steps):
                raise StoreError(
                    f"the database has schema {version}, and this confide has {len(steps)}: "
                    "use a newer confide"
                )
            for number, step in enumerate(steps[version:], start=version + 1):
                db.execute(step.encode())
                db.execute("INSERT INTO confide_schema VALUES (%s)", (number,))

    @contextlib.contextmanager
    def transaction(self) -> "Iterator[PostgresTransaction]":
        with self._write_lock, _as_store_error():
            db = self._connection("writer")
            with db.transaction():
                yield PostgresTransaction(db, self)

    def own_shard(self) -> int:
        """Return the number of the row of the open sum that this worker adds to.

        The worker owns it by an advisory lock of its session, which ends with the session.
        """
        db = self._connection("writer")
        if self._shard is None:
            for number in range(WORKERS):
                if _rows(db, _SHARD, number)[0][0]:
                    self._shard = number
                    break
        if self._shard is None:
            raise StoreError(
                f"{WORKERS} workers use this database already, and there may not be more: stop one"
            )
        return self._shard

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._read_lock, _as_store_error():
            try:
                return _rows(self._connection("reader"), query, *values)
            except psycopg.OperationalError:
                if not self._connections["reader"].closed:
                    raise
                # The server was started again since the last query.
                return _rows(self._connection("reader"), query, *values)

    def head(self, run: str) -> Head:
        return Head(*only_row(self._read(_HEAD, run), run))

    def forget(self) -> None:
        """Remove old versions of sealed records from their tables.

        The server's write-ahead log keeps them until it is recycled.
        """
        with self._write_lock, _as_store_error():
            self._connection("writer").execute("VACUUM (SKIP_LOCKED) open_sum, run")

    def backup(self, path: str) -> None:
        raise InvalidParameter(f"a service on PostgreSQL is backed up with pg_dump, not to {path}")

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            for connection in self._connections.values():
                connection.close()


def _configure(connection: Connection) -> None:
    """Make the commits of a session durable, and end it if its process stops."""
    query = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
    (fsync, synchronous_commit), *_ = connection.execute(query).fetchall()
    if fsync == "off":
        raise StoreError(
            "PostgreSQL runs with fsync = off, so what is answered would not be durable: "
            "set fsync = on"
        )
    lease_milliseconds = round(1000 * LEASE)
    settings = {
        "idle_in_transaction_session_timeout": f"{lease_milliseconds}",
        "lock_timeout": f"{2 * lease_milliseconds}",
        # A host that is gone is noticed after a minute.
        "tcp_keepalives_idle": "30",
        "tcp_keepalives_interval": "10",
        "tcp_keepalives_count": "3",
    }
    if synchronous_commit == "off":
        settings["synchronous_commit"] = "on"
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))


class PostgresTransaction(Writes):
    """A transaction of one worker. Others run at the same time: locks order them."""

    def __init__(self, db: Connection, store: PostgresStore) -> None:
        self._db = db
        self._store = store
        self.vault = store.vault
        # The people whose accounts are held until the end.
        self._held_accounts: list[bytes] = []

    def _query(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return _rows(self._db, query, *values)

    def _execute(self, statement: str, *values: object) -> int:
        return self._db.execute(_with_psycopg_marks(statement), values).rowcount

    def hold(self, run: str, *, alone: bool = False) -> Head:
        self._store.own_shard()
        lock = "UPDATE" if alone else "KEY SHARE"
        query = (
            f"SELECT generation, status, substr(state, 1, {HEADER_BYTES}) FROM run "
            f"WHERE name = ? FOR {lock}"
        )
        generation, status, header = only_row(self._query(query, run), run)
        self.vault.follow(header)
        # The users are counted after the lock, because another worker may have committed meanwhile.
        users = self._query(_USERS, run)[0][0]
        return Head(generation, status, users)

    @contextlib.contextmanager
    def keep_alive(self) -> Iterator[None]:
        """Tell the server from another thread that this process goes on.

        The thread stops when the process is stopped, and then the lease ends.
        """
        done = threading.Event()

        def beat() -> None:
            while not done.wait(LEASE / 4):
                # If the connection is lost, the next statement of the transaction raises this.
                with contextlib.suppress(psycopg.Error):
                    self._db.execute("SELECT 1")

        thread = threading.Thread(target=beat, name="confide-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def add_to_sum(self, run: str, added: OpenSum) -> None:
        shard = self._store.own_shard()
        rows = self._query(f"{SUM_QUERY} AND shard = ? FOR UPDATE", run, shard)
        if not rows:
            record = seal_sum(self.vault, run, shard, added)
            insert = "INSERT INTO open_sum VALUES (?, ?, ?, ?, ?)"
            self._execute(insert, run, shard, added.generation, added.users, record)
            return
        before = open_sums(self.vault, run, rows)
        if before.generation != added.generation:
            raise Moved("the open batch was closed by another process")
        new_sum = before.plus(added)
        record = seal_sum(self.vault, run, shard, new_sum)
        update = "UPDATE open_sum SET users = ?, total = ? WHERE run = ? AND shard = ?"
        self._execute(update, new_sum.users, record, run, shard)

    def places_of(self, run: str, people: Sequence[bytes]) -> dict[bytes, list[BatchPlace]]:
        places: dict[bytes, list[BatchPlace]] = {}
        query = (
            "SELECT who, slot, generation, nonce FROM participant "
            "WHERE run = ? AND who = ANY(?) ORDER BY slot"
        )
        for who, *place in self._query(query, run, list(people)):
            places.setdefault(who, []).append(BatchPlace(*place))
        return places

    def take_places(self, run: str, places: Sequence[tuple[bytes, BatchPlace]]) -> None:
        """Write new places, or the reports of people who have a place without a report.

        The rows are sorted, so that two workers never wait for each other. If another worker has
        counted one of these people meanwhile, nobody is counted here (`Moved`).
        """
        if not places:
            return
        ordered = sorted(places, key=lambda each: (each[0], each[1].slot))
        insert = (
            "INSERT INTO participant (run, who, slot, generation, nonce) "
            "SELECT ?, * FROM unnest(?::bytea[], ?::int[], ?::int[], ?::bytea[]) "
            "ON CONFLICT (run, who, slot) DO UPDATE "
            "SET generation = excluded.generation, nonce = excluded.nonce "
            "WHERE participant.nonce IS NULL"
        )
        changed = self._execute(
            insert,
            run,
            [who for who, _ in ordered],
            [place.slot for _, place in ordered],
            [place.generation for _, place in ordered],
            [place.nonce for _, place in ordered],
        )
        if changed != len(ordered):
            raise Moved("another worker has counted some of these people")

    def accounts(self, people: Sequence[bytes]) -> dict[bytes, float]:
        """Return what these people have spent, and hold their accounts until the end.

        So a person who reports to two runs at the same time has one budget. Somebody without an
        account gets an empty one until then, because only a row can be held.
        """
        self._held_accounts = sorted(set(people))
        insert = (
            "INSERT INTO account SELECT person, 0 FROM unnest(?::bytea[]) AS person "
            "ON CONFLICT DO NOTHING"
        )
        self._execute(insert, self._held_accounts)
        query = "SELECT person, spent FROM account WHERE person = ANY(?) ORDER BY person FOR UPDATE"
        return dict(self._query(query, self._held_accounts))

    def charge(self, amounts: Sequence[tuple[bytes, float]]) -> None:
        ordered = sorted(amounts)
        insert = (
            "INSERT INTO account SELECT * FROM unnest(?::bytea[], ?::float8[]) "
            "ON CONFLICT (person) DO UPDATE SET spent = account.spent + excluded.spent"
        )
        self._execute(insert, [person for person, _ in ordered], [spent for _, spent in ordered])
        if self._held_accounts:
            delete = "DELETE FROM account WHERE spent = 0 AND person = ANY(?)"
            self._execute(delete, self._held_accounts)

    def audit(self, at: str, actor: str, action: str, detail: str) -> None:
        # Each row names the one before it, so two workers must not write at the same time.
        self._db.execute("LOCK TABLE audit IN SHARE ROW EXCLUSIVE MODE")
        super().audit(at, actor, action, detail)


def _with_psycopg_marks(query: str) -> bytes:
    """Return a query with the marks for values that psycopg expects."""
    return query.replace("?", "%s").encode()


def _rows(db: Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return db.execute(_with_psycopg_marks(query), values, binary=True).fetchall()


@contextlib.contextmanager
def _as_store_error() -> Iterator[None]:
    """Raise what PostgreSQL says as `StoreError`, without values.

    Operators read the text of an error.
    """
    try:
        yield
    except psycopg.Error as error:
        cause = f"{type(error).__name__} {error.sqlstate or ''}".strip()
        raise StoreError(f"the database failed: {cause}") from None
