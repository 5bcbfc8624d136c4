"""The embedded database: durable, private, and never changed where it must not be."""

import sqlite3

import pytest
from service_bench import still_open

from confide.errors import StoreError
from confide.service.store.keys import KeyFolder
from confide.service.store.sqlite import SqliteStore
from confide.service.store.vault import Vault


def no_keys(tmp_path):
    """A vault without a key: these tests seal nothing."""
    return Vault(KeyFolder(tmp_path / "keys"))


@pytest.fixture
def store(tmp_path):
    made = SqliteStore(tmp_path / "x.sqlite", no_keys(tmp_path))
    yield made
    made.close()


def test_it_is_durable_and_private(store, tmp_path):
    pragmas = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}
    assert {
        name: store._writer.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas
    } == pragmas
    with store.transaction() as tx:
        tx.audit("now", "x", "y", "z")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_other_databases_are_refused(store, tmp_path):
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("PRAGMA application_id = 7")
    other.close()
    with pytest.raises(StoreError, match="not the database of a confide service"):
        SqliteStore(tmp_path / "other.sqlite", store.vault)
    assert still_open(tmp_path / "other.sqlite") == [] != still_open(store.path)
    (tmp_path / "text.sqlite").write_text("no database at all, but a text that is long enough" * 9)
    with pytest.raises(StoreError, match="SQLITE_NOTADB"):
        SqliteStore(tmp_path / "text.sqlite", store.vault)
    assert still_open(tmp_path / "text.sqlite") == []


def test_participants_are_ordered_by_pseudonym_and_not_by_arrival(bench):
    bench.create()
    bench.send(*(bench.report(f"person {i}") for i in range(9)))
    rows = bench.service.store._reader.execute("SELECT who FROM participant").fetchall()
    assert rows == sorted(rows)
    with pytest.raises(sqlite3.OperationalError, match="rowid"):
        bench.service.store._reader.execute("SELECT rowid FROM participant")


def test_a_reader_from_outside_cannot_keep_old_sums(bench):
    """A close does not end while the log cannot be truncated: the run reads again, and goes on."""
    bench.create(every=4)
    outside = sqlite3.connect(bench.folder.database)
    bench.service.store._writer.execute("PRAGMA busy_timeout = 1")
    outside.execute("BEGIN")
    outside.execute("SELECT * FROM run").fetchall()
    bench.send(*(bench.report(f"person {i}") for i in range(4)))
    assert not bench.service.ready
    outside.close()
    assert bench.send(bench.report("next", generation=1)) == ["counted"]
    assert bench.service.ready and bench.service.runs["demo"].generation == 1
