"""The database of a service in PostgreSQL: several workers take reports at the same time.

A transaction with reports holds the row of its run with FOR KEY SHARE, and adds to a row of the open sum that belongs to its worker: so
workers do not wait for each other. Whoever closes the batch takes the row of the run FOR UPDATE: it waits for those transactions, sums all
rows, and nobody adds to them until the release is committed. A process that stops in mid-transaction loses it, and its locks, after
`LEASE` seconds: the server ends its session.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict

from confide.errors import InvalidParameter, StoreError
from confide.service.store.interface import Head, Moved, OpenSum, Taken
from confide.service.store.sql import (
    SUM_QUERY,
    Reads,
    Writes,
    migrations,
    open_sums,
    seal_sum,
    the_sum,
)
from confide.service.store.vault import HEADER_BYTES, Vault

WORKERS = 16  # at most, at the same time
LEASE = 60.0  # seconds that a transaction may wait for its process
_USERS = "SELECT COALESCE(SUM(users), 0)::bigint FROM open_sum WHERE run = ?"
_HEAD = f"SELECT generation, status, ({_USERS.replace('?', 'name')}) FROM run WHERE name = ?"
_SHARD = "SELECT pg_try_advisory_lock(mod('run'::regclass::oid::bigint, 2147483647)::int, ?)"
_MIGRATION = 0x63666473  # the advisory lock of migrations: "cfds"

# it warns when a lost connection cannot roll back: the server does that
logging.getLogger("psycopg").setLevel(logging.ERROR)

Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresStore(Reads):
    """One connection writes and one reads, each behind a lock. A connection that is lost is made again at its next use. PRIVATE."""

    workers = WORKERS

    def __init__(self, url: str, vault: Vault) -> None:
        self.vault = vault
        try:
            self._given = conninfo_to_dict(url)
        except psycopg.Error:
            raise InvalidParameter(
                "the database must be an address such as postgresql://user@host/name"
            ) from None
        self._open: dict[str, Connection] = {}
        self._shard: int | None = None
        self._write_lock, self._read_lock = threading.RLock(), threading.Lock()
        try:
            with _as_store_error():
                self._migrate(self._connection("writer"))
        except BaseException:
            self.close()
            raise

    def _connection(self, name: Literal["writer", "reader"]) -> Connection:
        """The one that is open, or a new one: it has no shard yet."""
        found = self._open.get(name)
        if found is None or found.closed:
            found = self._open[name] = self._connect()
            if name == "writer":
                self._shard = None
        return found

    def _connect(self) -> Connection:
        given: dict[str, Any] = {"connect_timeout": 10, **self._given}
        made = psycopg.connect(
            "", autocommit=True, client_encoding="utf8", application_name="confide", **given
        )
        try:
            (fsync, durable), *_ = made.execute(
                "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
            ).fetchall()
            if fsync == "off":
                raise StoreError(
                    "PostgreSQL runs with fsync = off: what is answered would not be durable"
                )
            lease = round(1000 * LEASE)
            settings = {
                "idle_in_transaction_session_timeout": f"{lease}",
                "lock_timeout": f"{2 * lease}",
            }
            settings |= {
                "tcp_keepalives_idle": "30",
                "tcp_keepalives_interval": "10",
                "tcp_keepalives_count": "3",
            }
            if durable == "off":
                settings["synchronous_commit"] = "on"
            for name, value in settings.items():
                made.execute("SELECT set_config(%s, %s, false)", (name, value))
        except BaseException:
            made.close()
            raise
        return made

    def _migrate(self, db: Connection) -> None:
        steps = migrations("postgres")
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION,))
            db.execute("CREATE TABLE IF NOT EXISTS confide_schema (version INTEGER NOT NULL)")
            found = db.execute("SELECT version FROM confide_schema").fetchall() or [(0,)]
            version = max(number for (number,) in found)
            if version > len(steps):
                raise StoreError(
                    f"the database has schema {version}, this confide knows {len(steps)}: use a newer confide"
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
        """The row of the open sum that this worker adds to: an advisory lock of its session, which ends with it."""
        db = self._connection("writer")
        for number in range(WORKERS if self._shard is None else 0):
            if _rows(db, _SHARD, number)[0][0]:
                self._shard = number
                break
        if self._shard is None:
            raise StoreError(f"{WORKERS} workers use this database already: there may not be more")
        return self._shard

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._read_lock, _as_store_error():
            try:
                return _rows(self._connection("reader"), query, *values)
            except psycopg.OperationalError:
                if not self._open["reader"].closed:
                    raise
                # the server was started again since the last one
                return _rows(self._connection("reader"), query, *values)

    def head(self, run: str) -> Head:
        return Head(*the_sum(self._read(_HEAD, run), run))

    def forget(self) -> None:
        """Old versions of sealed records leave their tables. The server's write-ahead log keeps them until it is recycled."""
        with self._write_lock, _as_store_error():
            self._connection("writer").execute("VACUUM (SKIP_LOCKED) open_sum, run")

    def backup(self, path: str) -> None:
        raise InvalidParameter(f"a service on PostgreSQL is backed up with pg_dump, not to {path}")

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            for each in self._open.values():
                each.close()


class PostgresTransaction(Writes):
    def __init__(self, db: Connection, store: PostgresStore) -> None:
        self._db, self._store = db, store
        self.vault = store.vault
        self._asked: list[bytes] = []

    def _do(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return _rows(self._db, query, *values)

    def _changed(self, query: str, *values: object) -> int:
        return self._db.execute(_written(query), values).rowcount

    def hold(self, run: str, *, alone: bool = False) -> Head:
        self._store.own_shard()
        lock = "UPDATE" if alone else "KEY SHARE"
        query = f"SELECT generation, status, substr(state, 1, {HEADER_BYTES}) FROM run WHERE name = ? FOR {lock}"
        generation, status, header = the_sum(self._do(query, run), run)
        self.vault.follow(header)
        return Head(
            generation, status, self._do(_USERS, run)[0][0]
        )  # after the lock: another worker may have committed meanwhile

    @contextlib.contextmanager
    def alive(self) -> Iterator[None]:
        """Another thread says so to the server. It stops when the process is stopped, and then the lease ends."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(LEASE / 4):
                # the next statement of the transaction says it
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
        rows = self._do(f"{SUM_QUERY} AND shard = ? FOR UPDATE", run, shard)
        if not rows:
            record = seal_sum(self.vault, run, shard, added)
            self._changed(
                "INSERT INTO open_sum VALUES (?, ?, ?, ?, ?)",
                run,
                shard,
                added.generation,
                added.users,
                record,
            )
            return
        before = open_sums(self.vault, run, rows)
        if before.generation != added.generation:
            raise Moved("the open batch was closed by another process")
        now = before.plus(added)
        record = seal_sum(self.vault, run, shard, now)
        self._changed(
            "UPDATE open_sum SET users = ?, total = ? WHERE run = ? AND shard = ?",
            now.users,
            record,
            run,
            shard,
        )

    def taken(self, run: str, people: Sequence[bytes]) -> dict[bytes, list[Taken]]:
        found: dict[bytes, list[Taken]] = {}
        query = "SELECT who, slot, generation, nonce FROM participant WHERE run = ? AND who = ANY(?) ORDER BY slot"
        for who, *place in self._do(query, run, list(people)):
            found.setdefault(who, []).append(Taken(*place))
        return found

    def take(self, run: str, places: Sequence[tuple[bytes, Taken]]) -> None:
        """Ordered, so that two workers never wait for each other. Whoever another worker has counted meanwhile is not counted here."""
        if not places:
            return
        ordered = sorted(places, key=lambda each: (each[0], each[1].slot))
        columns = [[who for who, _ in ordered]]
        columns += [
            [getattr(place, name) for _, place in ordered]
            for name in ("slot", "generation", "nonce")
        ]
        query = (
            "INSERT INTO participant (run, who, slot, generation, nonce) "
            "SELECT ?, * FROM unnest(?::bytea[], ?::int[], ?::int[], ?::bytea[]) ON CONFLICT (run, who, slot) "
            "DO UPDATE SET generation = excluded.generation, nonce = excluded.nonce WHERE participant.nonce IS NULL"
        )
        if self._changed(query, run, *columns) != len(ordered):
            raise Moved("another worker has counted some of these people")

    def accounts(self, people: Sequence[bytes]) -> dict[bytes, float]:
        """Held until the end: a person who reports to two runs at the same time has one budget. Who has no account gets one for so long."""
        self._asked = sorted(set(people))
        self._changed(
            "INSERT INTO account SELECT person, 0 FROM unnest(?::bytea[]) AS person ON CONFLICT DO NOTHING",
            self._asked,
        )
        return dict(
            self._do(
                "SELECT person, spent FROM account WHERE person = ANY(?) ORDER BY person FOR UPDATE",
                self._asked,
            )
        )

    def charge(self, amounts: Sequence[tuple[bytes, float]]) -> None:
        ordered = sorted(amounts)
        query = (
            "INSERT INTO account SELECT * FROM unnest(?::bytea[], ?::float8[]) "
            "ON CONFLICT (person) DO UPDATE SET spent = account.spent + excluded.spent"
        )
        self._changed(query, [person for person, _ in ordered], [amount for _, amount in ordered])
        if self._asked:
            self._changed("DELETE FROM account WHERE spent = 0 AND person = ANY(?)", self._asked)

    def audit(self, at: str, actor: str, action: str, detail: str) -> None:
        # each row names the one before
        self._db.execute("LOCK TABLE audit IN SHARE ROW EXCLUSIVE MODE")
        super().audit(at, actor, action, detail)


def _written(query: str) -> bytes:
    return query.replace("?", "%s").encode()


def _rows(db: Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return db.execute(_written(query), values, binary=True).fetchall()


@contextlib.contextmanager
def _as_store_error() -> Iterator[None]:
    """What PostgreSQL says, without values: an error text is read by operators."""
    try:
        yield
    except psycopg.Error as error:
        said = f"{type(error).__name__} {error.sqlstate or ''}".strip()
        raise StoreError(f"the database failed: {said}") from None
