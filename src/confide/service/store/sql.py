"""What is the same in every dialect of SQL, with `?` for values. Dialects differ in locks, and in how many rows come at once."""

import importlib.resources
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeVar

from confide.errors import StateError, StoreError
from confide.service.documents import ReleaseRow
from confide.service.store.audit_chain import chained
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
_RELEASE = "run, generation, body, users, previous, digest, signature, key"
_API_KEY = "id, role, secret, label, revoked, run, expires"
_RUN = "name, spec, manifest, signature, key, certificate, status, generation"
_ROUND_QUERY = "SELECT digest FROM planned_round WHERE run = ? AND generation = ?"
SUM_QUERY = "SELECT shard, generation, users, total FROM open_sum WHERE run = ?"


def migrations(dialect: str) -> list[str]:
    """The numbered steps from an empty database to today's tables."""
    folder = importlib.resources.files("confide.service.store").joinpath("migrations", dialect)
    found = sorted(
        (each for each in folder.iterdir() if each.name.endswith(".sql")),
        key=lambda each: each.name,
    )
    return [each.read_text(encoding="utf-8") for each in found]


def marks(count: int) -> str:
    return ", ".join("?" * count)


def the_sum(found: list[Row], run: str) -> Row:
    """The only row."""
    if len(found) != 1:
        raise StoreError(f"run {run} has {len(found)} open sums: the database is damaged")
    return found[0]


def seal_sum(vault: Vault, run: str, shard: int, opened: OpenSum) -> bytes:
    """What the row of a shard holds."""
    return vault.seal(Place("open-sum", run, opened.generation, shard, opened.users), opened.total)


def open_sums(vault: Vault, run: str, rows: list[tuple[Any, ...]]) -> OpenSum:
    """The sum over all shards, from the rows of `SUM_QUERY`."""
    if not rows:
        raise StoreError(f"run {run} has no open sum: the database is damaged")
    total: OpenSum | None = None
    for shard, generation, users, record in rows:
        # A shard without users has nothing to seal.
        opened = (
            vault.open(Place("open-sum", run, generation, shard, users), record)
            if users or record
            else b""
        )
        part = OpenSum(generation, users, opened)
        total = part if total is None else total.plus(part)
    assert total is not None
    return total


class Reads(ABC):
    """The part of a `ServiceStore` that reads."""

    made = "number"  # the column that says in which order signing keys were made
    vault: Vault

    @abstractmethod
    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]: ...

    def runs(self) -> list[str]:
        return [name for (name,) in self._read("SELECT name FROM run ORDER BY name")]

    def run(self, name: str) -> RunRow | None:
        found = self._read(f"SELECT {_RUN} FROM run WHERE name = ?", name)
        return RunRow(*found[0]) if found else None

    def state(self, run: str) -> SavedState:
        found = self._read("SELECT generation, state FROM run WHERE name = ?", run)
        if not found:
            raise StoreError(f"there is no run {run}")
        generation, record = found[0]
        return SavedState(generation, self.vault.open(Place("state", run, generation), record))

    def open_sum(self, run: str) -> OpenSum:
        return open_sums(self.vault, run, self._read(SUM_QUERY, run))

    def release(self, run: str, generation: int) -> ReleaseRow | None:
        found = self._read(
            f"SELECT {_RELEASE} FROM release WHERE run = ? AND generation = ?", run, generation
        )
        return ReleaseRow(*found[0]) if found else None

    def releases(self, run: str) -> Iterable[ReleaseRow]:
        return (
            ReleaseRow(*row)
            for row in self._read(
                f"SELECT {_RELEASE} FROM release WHERE run = ? ORDER BY generation", run
            )
        )

    def round_digest(self, run: str, generation: int) -> bytes | None:
        rows = self._read(_ROUND_QUERY, run, generation)
        return rows[0][0] if rows else None

    def participants(self, run: str) -> dict[int, int]:
        query = "SELECT generation, COUNT(*) FROM participant WHERE run = ? AND nonce IS NOT NULL GROUP BY generation"
        return dict(self._read(query, run))

    def most_reports(self, run: str) -> int:
        query = (
            "SELECT COALESCE(MAX(slot) + 1, 0) FROM participant WHERE run = ? AND nonce IS NOT NULL"
        )
        return int(self._read(query, run)[0][0])

    def largest_account(self) -> float:
        return float(self._read("SELECT COALESCE(MAX(spent), 0) FROM account")[0][0])

    def signing_keys(self) -> list[SigningKeyRow]:
        """In the order in which they were made: each is endorsed by one before it."""
        rows = self._read(
            f"SELECT id, public, endorsed_by, endorsement, retired FROM signing_key ORDER BY {self.made}"
        )
        return [
            SigningKeyRow(name, public, by, how, bool(retired))
            for name, public, by, how, retired in rows
        ]

    def api_keys(self) -> list[ApiKeyRow]:
        rows = self._read(f"SELECT {_API_KEY} FROM api_key ORDER BY id")
        return [
            ApiKeyRow(name, role, secret, label, bool(revoked), run, expires)
            for name, role, secret, label, revoked, run, expires in rows
        ]

    def audit_rows(self) -> Iterable[AuditRow]:
        return (
            AuditRow(*row)
            for row in self._read(
                "SELECT number, at, actor, action, detail, digest FROM audit ORDER BY number"
            )
        )


class Writes(ABC):
    """The part of a `Transaction` that needs no lock of its own. `_do` gives the rows of a query, `_changed` how many rows it changed."""

    vault: Vault

    @abstractmethod
    def _do(self, query: str, *values: object) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def _changed(self, query: str, *values: object) -> int: ...

    def create_run(self, run: RunRow, first: ReleaseRow, state: bytes) -> None:
        values = [getattr(run, name) for name in _RUN.split(", ")]
        record = self.vault.seal(Place("state", run.name, run.generation), state)
        self._changed(f"INSERT INTO run ({_RUN}, state) VALUES ({marks(9)})", *values, record)
        self._release(first)
        self._changed("INSERT INTO open_sum VALUES (?, 0, ?, 0, ?)", run.name, run.generation, b"")

    def open_sum(self, run: str) -> OpenSum:
        return open_sums(self.vault, run, self._do(SUM_QUERY, run))

    def settle_round(self, run: str, generation: int, digest: bytes) -> bytes:
        # Of two workers that plan at the same time, the second one waits here for the first one.
        self._changed(
            "INSERT INTO planned_round VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            run,
            generation,
            digest,
        )
        stored: bytes = self._do(_ROUND_QUERY, run, generation)[0][0]
        return stored

    def enrolled(self, run: str, generation: int) -> int:
        return int(
            self._do(
                "SELECT COUNT(*) FROM participant WHERE run = ? AND generation = ?", run, generation
            )[0][0]
        )

    def close(self, release: ReleaseRow, state: bytes) -> None:
        before = release.generation - 1
        query = "UPDATE run SET generation = ?, state = ? WHERE name = ? AND generation = ?"
        record = self.vault.seal(Place("state", release.run, release.generation), state)
        if self._changed(query, release.generation, record, release.run, before) != 1:
            raise StateError(
                f"generation {release.generation} was made by another process: its noise must not be drawn twice"
            )
        self._release(release)
        self._changed(
            "UPDATE open_sum SET generation = ?, users = 0, total = ? WHERE run = ?",
            release.generation,
            b"",
            release.run,
        )

    def seal_again(self, run: str) -> None:
        """Seal the state and all open sums again with the vault's newest key."""
        generation, record = self._do("SELECT generation, state FROM run WHERE name = ?", run)[0]
        place = Place("state", run, generation)
        self._changed(
            "UPDATE run SET state = ? WHERE name = ?",
            self.vault.seal(place, self.vault.open(place, record)),
            run,
        )
        for shard, generation, users, record in self._do(SUM_QUERY, run):
            if users:
                place = Place("open-sum", run, generation, shard, users)
                again = self.vault.seal(place, self.vault.open(place, record))
                self._changed(
                    "UPDATE open_sum SET total = ? WHERE run = ? AND shard = ?", again, run, shard
                )

    def _release(self, row: ReleaseRow) -> None:
        values = (
            row.run,
            row.generation,
            row.body,
            row.users,
            row.previous,
            row.digest,
            row.signature,
            row.key,
        )
        self._changed(f"INSERT INTO release ({_RELEASE}) VALUES ({marks(8)})", *values)

    def set_status(self, run: str, status: str) -> None:
        self._changed("UPDATE run SET status = ? WHERE name = ?", status, run)

    def add_signing_key(self, key: SigningKeyRow) -> None:
        self._changed("UPDATE signing_key SET retired = 1")
        query = f"INSERT INTO signing_key (id, public, endorsed_by, endorsement, retired) VALUES ({marks(5)})"
        self._changed(query, key.id, key.public, key.endorsed_by, key.endorsement, int(key.retired))

    def add_api_key(self, key: ApiKeyRow) -> None:
        query = f"INSERT INTO api_key ({_API_KEY}) VALUES ({marks(7)})"
        self._changed(
            query, key.id, key.role, key.secret, key.label, int(key.revoked), key.run, key.expires
        )

    def revoke_api_key(self, name: str) -> bool:
        return (
            self._changed("UPDATE api_key SET revoked = 1 WHERE id = ? AND revoked = 0", name) == 1
        )

    def audit(self, at: str, actor: str, action: str, detail: str) -> None:
        last = self._do("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1") or [
            (0, "")
        ]
        row = (last[0][0] + 1, at, actor, action, detail)
        self._changed(f"INSERT INTO audit VALUES ({marks(6)})", *row, chained(last[0][1], *row))
