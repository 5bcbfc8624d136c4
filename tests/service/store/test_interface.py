"""What every database of a service does, in SQLite and in PostgreSQL.

What is special about one of them is tested beside it.
"""

import contextlib
import sqlite3

import psycopg
import pytest

from confide.errors import StateError, StoreError
from confide.service.store.interface import ApiKeyRow, OpenSum
from confide.service.store.sql import migrations

pytestmark = pytest.mark.parametrize("folder", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def store(folder):
    folder.init()
    with contextlib.closing(folder.store()) as made:
        yield made


def execute(folder, statement):
    """Somebody else changes the database, past the service."""
    if folder.shared:
        with psycopg.connect(folder.address, autocommit=True) as db:
            found = db.execute(statement)
            return found.fetchall() if found.description else []
    with contextlib.closing(sqlite3.connect(folder.database, isolation_level=None)) as db:
        return db.execute(statement).fetchall()


def test_a_transaction_is_all_or_nothing(store):
    twice = "SQLITE_CONSTRAINT|UniqueViolation 23505"
    with pytest.raises(StoreError, match=twice), store.transaction() as tx:
        [tx.add_api_key(ApiKeyRow("a", "device", b"x", "", False)) for _ in range(2)]
    assert store.api_keys() == []
    no_role = "SQLITE_CONSTRAINT|CheckViolation"
    with pytest.raises(StoreError, match=no_role), store.transaction() as tx:
        tx.add_api_key(ApiKeyRow("a", "king", b"x", "", False))
    with store.transaction() as tx:
        tx.add_api_key(ApiKeyRow("a", "device", b"x", "", False))
    assert [key.id for key in store.api_keys()] == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET actor = 'x'",
        "DELETE FROM audit",
        "UPDATE release SET body = NULL",
        "DELETE FROM release",
    ],
)
def test_audit_rows_and_releases_are_only_added(bench, folder, change):
    bench.create()
    refused = (sqlite3.IntegrityError, psycopg.errors.RaiseException)
    with pytest.raises(refused, match=r"never (changed|deleted)"):
        execute(folder, change)


def test_a_newer_schema_is_refused(folder):
    folder.init()
    read, write = (
        ("SELECT max(version) FROM confide_schema", "INSERT INTO confide_schema VALUES (99)")
        if folder.shared
        else ("PRAGMA user_version", "PRAGMA user_version = 99")
    )
    dialect = "postgres" if folder.shared else "sqlite"
    assert execute(folder, read) == [(len(migrations(dialect)),)]
    # Opened again, there is nothing to do.
    folder.store().close()
    execute(folder, write)
    with pytest.raises(StoreError, match="schema 99"):
        folder.store()


def test_a_generation_is_closed_once(bench):
    bench.create(every=4)
    store = bench.service.store
    bench.send(*(bench.report(f"person {i}") for i in range(4)))
    release = store.release("demo", 1)
    for call in (
        lambda tx: tx.close(release, b""),
        lambda tx: tx.add_to_sum("demo", OpenSum(0, 1, b"")),
    ):
        with pytest.raises(StateError), store.transaction() as tx:
            call(tx)
    assert store.open_sum("demo").users == 0
