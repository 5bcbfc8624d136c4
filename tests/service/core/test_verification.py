"""A database that keeps its promises passes; whatever somebody changes in it is found."""

import sqlite3

import pytest

from confide.service.core.verification import verify_store


@pytest.fixture
def served(bench):
    """Two releases, an open batch, and both trusts."""
    for name, trust in (("demo", "joint"), ("local", "local")):
        bench.create(name, trust=trust, every=4)
        for batch in range(2):
            bench.send(*(bench.report(f"{batch} {i}", name) for i in range(4)))
        bench.send(bench.report("open", name))
    bench.stop()
    return bench.folder


def found(folder):
    store = folder.store()
    try:
        return {
            each.about: each.says
            for each in verify_store(store, folder.keys, folder.marks)
            if not each.holds
        }
    finally:
        store.close()


def test_a_service_verifies(served):
    assert found(served) == {}
    store = served.store()
    assert len(list(verify_store(store, served.keys, served.marks))) == 15
    store.close()


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ("UPDATE open_sum SET users = users + 1 WHERE run = 'demo'", "demo: people"),
        ("DELETE FROM participant WHERE run = 'demo' AND generation = 1", "demo: people"),
        ("UPDATE participant SET slot = 1 WHERE run = 'demo'", "demo: people"),
        (
            "UPDATE run SET manifest = "
            "CAST(REPLACE(CAST(manifest AS TEXT), 'demo', 'dem0') AS BLOB)",
            "demo: manifest",
        ),
        (
            "UPDATE run SET certificate = CAST(CAST(certificate AS TEXT) || ' ' AS BLOB)",
            "demo: certificate",
        ),
        ("UPDATE run SET state = CAST(state || 'x' AS BLOB)", "demo: state"),
        ("UPDATE run SET generation = 1 WHERE name = 'demo'", "demo: releases"),
        (
            "DROP TRIGGER release_is_not_changed; UPDATE release SET users = 5 WHERE run = 'demo'",
            "demo: releases",
        ),
        (
            "DROP TRIGGER release_is_not_changed; "
            "UPDATE release SET signature = zeroblob(64) WHERE generation = 1",
            "demo: releases",
        ),
        (
            "DROP TRIGGER release_is_not_deleted; DELETE FROM release WHERE generation = 1",
            "demo: releases",
        ),
        (
            "DROP TRIGGER audit_is_not_changed; UPDATE audit SET actor = 'x' WHERE number = 2",
            "audit",
        ),
        ("DROP TRIGGER audit_is_not_deleted; DELETE FROM audit WHERE number = 2", "audit"),
    ],
)
def test_changes_are_found(served, change, about):
    with sqlite3.connect(served.database) as db:
        db.executescript(change)
    db.close()
    assert about in found(served)


def test_a_mark_of_a_later_release_is_found(served):
    served.marks.write("demo", 7, "x")
    assert "confide service finish" in found(served)["demo: mark"]
    served.finish("demo")
    assert found(served) == {}


def test_a_mark_that_is_not_there_is_said(served):
    (served.marks.folder / "demo.mark").unlink()
    assert "give the folder of the marks" in found(served)["demo: mark"]


def test_what_was_spent_in_a_run_without_a_budget_is_no_damage(bench):
    bench.create("free", epsilon=5.0)
    assert bench.send(bench.report("ann", "free")) == ["counted"]
    bench.create("limited", person_epsilon=2.0)
    assert bench.send(bench.report("ann", "limited")) == ["over-budget"]
    bench.stop()
    assert found(bench.folder) == {}


def test_a_person_who_spent_more_than_any_run_allows_is_found(bench):
    bench.create(person_epsilon=2.0)
    bench.send(bench.report("ann"))
    bench.stop()
    with sqlite3.connect(bench.folder.database) as db:
        db.execute("UPDATE account SET spent = 9")
    db.close()
    assert set(found(bench.folder)) == {"budgets"}
