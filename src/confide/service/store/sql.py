"""What is the same in every dialect of SQL. Queries have `?` for values.

Dialects differ in locks, and in how many rows come at once. The columns are those of the numbered
files in `migrations`, which are never changed after a release: a new table or column is a new file.
"""

import importlib.resources
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeVar

from confide.errors import StateError, StoreError
from confide.service.documents import ReleaseRow
from confide.service.store.audit_chain import row_digest
from confide.service.store.interface import (
    ApiKeyRow,
    AuditRow,
    OpenSum,
    RunRow,
    SavedState,
    SigningKeyRow,
)
from confide.service.store.vault import Place, Vault

Row = TypeVar("Row")
# Columns, in the order of the fields of `ReleaseRow`, `ApiKeyRow` and `RunRow`.
_RELEASE = "run, generation, body, users, previous, digest, signature, key"
_API_KEY = "id, role, secret, label, revoked, run, expires"
_RUN = "name, spec, manifest, signature, key, certificate, status, generation"
_ROUND_QUERY = "SELECT digest FROM planned_round WHERE run = ? AND generation = ?"
SUM_QUERY = "SELECT shard, generation, users, total FROM open_sum WHERE run = ?"


def migrations(dialect: str) -> list[str]:
    """Return the numbered steps from an empty database to today's tables."""
    folder = importlib.resources.files("confide.service.store").joinpath("migrations", dialect)
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return [file.read_text(encoding="utf-8") for file in sorted(files, key=lambda file: file.name)]


def placeholders(count: int) -> str:
    """Return what stands for `count` values in a query."""
    return ", ".join("?" * count)


def only_row(rows: list[Row], run: str) -> Row:
    """Return the only row about a run and its open sum."""
    if len(rows) != 1:
        raise StoreError(f"run {run} has {len(rows)} open sums: the database is damaged")
    return rows[0]


def seal_sum(vault: Vault, run: str, shard: int, part: OpenSum) -> bytes:
    """Return what the row of a shard holds: its part of the open sum, sealed."""
    return vault.seal(Place("open-sum", run, part.generation, shard, part.users), part.total)


def open_sums(vault: Vault, run: str, rows: list[tuple[Any, ...]]) -> OpenSum:
    """Return the sum over all shards, from the rows of `SUM_QUERY`. PRIVATE."""
    if not rows:
        raise StoreError(f"run {run} has no open sum: the database is damaged")
    total: OpenSum | None = None
    for shard, generation, users, record in rows:
        # A shard without users has nothing to seal.
        data = b""
        if users or record:
            data = vault.open(Place("open-sum", run, generation, shard, users), record)
        part = OpenSum(generation, users, data)
        total = part if total is None else total.plus(part)
    assert total is not None
    return total


class Reads(ABC):
    """The part of a `ServiceStore` that reads."""

    # The column that says in which order signing keys were made.
    signing_key_order = "number"
    vault: Vault

    @abstractmethod
    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]: ...

    def runs(self) -> list[str]:
        return [name for (name,) in self._read("SELECT name FROM run ORDER BY name")]

    def run(self, name: str) -> RunRow | None:
        rows = self._read(f"SELECT {_RUN} FROM run WHERE name = ?", name)
        return RunRow(*rows[0]) if rows else None

    def state(self, run: str) -> SavedState:
        rows = self._read("SELECT generation, state FROM run WHERE name = ?", run)
        if not rows:
            raise StoreError(f"there is no run {run}")
        generation, record = rows[0]
        return SavedState(generation, self.vault.open(Place("state", run, generation), record))

    def open_sum(self, run: str) -> OpenSum:
        return open_sums(self.vault, run, self._read(SUM_QUERY, run))

    def release(self, run: str, generation: int) -> ReleaseRow | None:
        query = f"SELECT {_RELEASE} FROM release WHERE run = ? AND generation = ?"
        rows = self._read(query, run, generation)
        return ReleaseRow(*rows[0]) if rows else None

    def releases(self, run: str) -> Iterable[ReleaseRow]:
        query = f"SELECT {_RELEASE} FROM release WHERE run = ? ORDER BY generation"
        return (ReleaseRow(*row) for row in self._read(query, run))

    def round_digest(self, run: str, generation: int) -> bytes | None:
        rows = self._read(_ROUND_QUERY, run, generation)
        return rows[0][0] if rows else None

    def participants(self, run: str) -> dict[int, int]:
        query = (
            "SELECT generation, COUNT(*) FROM participant "
            "WHERE run = ? AND nonce IS NOT NULL GROUP BY generation"
        )
        return dict(self._read(query, run))

    def most_reports(self, run: str) -> int:
        query = (
            "SELECT COALESCE(MAX(slot) + 1, 0) FROM participant WHERE run = ? AND nonce IS NOT NULL"
        )
        return int(self._read(query, run)[0][0])

    def largest_account(self) -> float:
        return float(self._read("SELECT COALESCE(MAX(spent), 0) FROM account")[0][0])

    def signing_keys(self) -> list[SigningKeyRow]:
        """Return all keys in the order in which they were made.

        Each is endorsed by one before it.
        """
        rows = self._read(
            "SELECT id, public, endorsed_by, endorsement, retired FROM signing_key "
            f"ORDER BY {self.signing_key_order}"
        )
        return [
            SigningKeyRow(name, public, endorser, endorsement, bool(retired))
            for name, public, endorser, endorsement, retired in rows
        ]

    def api_keys(self) -> list[ApiKeyRow]:
        rows = self._read(f"SELECT {_API_KEY} FROM api_key ORDER BY id")
        return [
            ApiKeyRow(name, role, secret, label, bool(revoked), run, expires)
            for name, role, secret, label, revoked, run, expires in rows
        ]

    def audit_rows(self) -> Iterable[AuditRow]:
        query = "SELECT number, at, actor, action, detail, digest FROM audit ORDER BY number"
        return (AuditRow(*row) for row in self._read(query))


class Writes(ABC):
    """The part of a `Transaction` that needs no lock of its own.

    `_query` returns the rows of a query, and `_execute` returns how many rows a statement changed.
    """

    vault: Vault

    @abstractmethod
    def _query(self, query: str, *values: object) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _execute(self, statement: str, *values: object) -> int: ...

    def create_run(self, run: RunRow, first: ReleaseRow, state: bytes) -> None:
        record = self.vault.seal(Place("state", run.name, run.generation), state)
        self._execute(
            f"INSERT INTO run ({_RUN}, state) VALUES ({placeholders(9)})",
            run.name,
            run.spec,
            run.manifest,
            run.signature,
            run.key,
            run.certificate,
            run.status,
            run.generation,
            record,
        )
        self._insert_release(first)
        self._execute("INSERT INTO open_sum VALUES (?, 0, ?, 0, ?)", run.name, run.generation, b"")

    def open_sum(self, run: str) -> OpenSum:
        return open_sums(self.vault, run, self._query(SUM_QUERY, run))

    def settle_round(self, run: str, generation: int, digest: bytes) -> bytes:
        # Of two workers that plan at the same time, the second one waits here for the first one.
        insert = "INSERT INTO planned_round VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        self._execute(insert, run, generation, digest)
        stored: bytes = self._query(_ROUND_QUERY, run, generation)[0][0]
        return stored

    def count_enrolled(self, run: str, generation: int) -> int:
        query = "SELECT COUNT(*) FROM participant WHERE run = ? AND generation = ?"
        return int(self._query(query, run, generation)[0][0])

    def close(self, release: ReleaseRow, state: bytes) -> None:
        # The generation before is part of the condition: of two processes, one changes the row.
        generation_before = release.generation - 1
        update = "UPDATE run SET generation = ?, state = ? WHERE name = ? AND generation = ?"
        record = self.vault.seal(Place("state", release.run, release.generation), state)
        changed = self._execute(update, release.generation, record, release.run, generation_before)
        if changed != 1:
            raise StateError(
                f"generation {release.generation} was made by another process: "
                "its noise must not be drawn twice"
            )
        self._insert_release(release)
        empty = "UPDATE open_sum SET generation = ?, users = 0, total = ? WHERE run = ?"
        self._execute(empty, release.generation, b"", release.run)

    def seal_again(self, run: str) -> None:
        """Seal the state and all open sums again with the vault's newest key."""
        generation, record = self._query("SELECT generation, state FROM run WHERE name = ?", run)[0]
        new_record = self._seal_record_again(Place("state", run, generation), record)
        self._execute("UPDATE run SET state = ? WHERE name = ?", new_record, run)
        update = "UPDATE open_sum SET total = ? WHERE run = ? AND shard = ?"
        for shard, generation, users, record in self._query(SUM_QUERY, run):
            if users:
                place = Place("open-sum", run, generation, shard, users)
                self._execute(update, self._seal_record_again(place, record), run, shard)

    def _seal_record_again(self, place: Place, record: bytes) -> bytes:
        return self.vault.seal(place, self.vault.open(place, record))

    def _insert_release(self, release: ReleaseRow) -> None:
        self._execute(
            f"INSERT INTO release ({_RELEASE}) VALUES ({placeholders(8)})",
            release.run,
            release.generation,
            release.body,
            release.users,
            release.previous,
            release.digest,
            release.signature,
            release.key,
        )

    def set_status(self, run: str, status: str) -> None:
        self._execute("UPDATE run SET status = ? WHERE name = ?", status, run)

    def add_signing_key(self, key: SigningKeyRow) -> None:
        self._execute("UPDATE signing_key SET retired = 1")
        self._execute(
            "INSERT INTO signing_key (id, public, endorsed_by, endorsement, retired) "
            f"VALUES ({placeholders(5)})",
            key.id,
            key.public,
            key.endorsed_by,
            key.endorsement,
            int(key.retired),
        )

    def add_api_key(self, key: ApiKeyRow) -> None:
        self._execute(
            f"INSERT INTO api_key ({_API_KEY}) VALUES ({placeholders(7)})",
            key.id,
            key.role,
            key.secret,
            key.label,
            int(key.revoked),
            key.run,
            key.expires,
        )

    def revoke_api_key(self, name: str) -> bool:
        update = "UPDATE api_key SET revoked = 1 WHERE id = ? AND revoked = 0"
        return self._execute(update, name) == 1

    def audit(self, at: str, actor: str, action: str, detail: str) -> None:
        rows = self._query("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1")
        last_number, last_digest = rows[0] if rows else (0, "")
        row = (last_number + 1, at, actor, action, detail)
        insert = f"INSERT INTO audit VALUES ({placeholders(6)})"
        self._execute(insert, *row, row_digest(last_digest, *row))
