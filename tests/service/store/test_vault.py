"""The vault: what it seals opens in its own place with its own key, and nowhere else.

Both databases hold sealed records only.
"""

import sqlite3
from dataclasses import replace

import numpy as np
import psycopg
import pytest
from service_bench import spec

from confide.errors import StateError, StoreError
from confide.service.core.live import load, make_learner
from confide.service.store.keys import KeyFolder
from confide.service.store.vault import BLOCK_BYTES, FORMAT, Place, Vault, record_bytes

SUM = Place("open-sum", "demo", 3, 1, 7)
ON_BOTH = pytest.mark.parametrize("folder", ["sqlite", "postgres"], indirect=True)


def key_folder(place):
    keys = KeyFolder(place)
    keys.init()
    return keys


@pytest.fixture
def vault(tmp_path):
    return Vault(key_folder(tmp_path / "keys"))


@pytest.mark.parametrize("data", [b"", b"x", bytes(100_000)])
@pytest.mark.parametrize("kind", BLOCK_BYTES)
def test_what_was_sealed_opens_again_also_in_another_process(tmp_path, vault, kind, data):
    place = replace(SUM, kind=kind)
    record = vault.seal(place, data)
    assert vault.open(place, record) == data
    assert Vault(KeyFolder(tmp_path / "keys")).open(place, record) == data
    assert len(record) == record_bytes(kind, len(data))


def test_the_length_of_an_open_sum_is_that_of_its_numbers_and_a_states_length_hides_digits(vault):
    header = record_bytes("open-sum", 0)
    assert [record_bytes("open-sum", 8 * size) - header for size in (1, 9, 500)] == [8, 72, 4000]
    state = replace(SUM, kind="state")
    assert len({len(vault.seal(state, bytes(size))) for size in (1, 1000, 4000, 4088)}) == 1
    assert len(vault.seal(state, bytes(4089))) > len(vault.seal(state, bytes(4088)))


@pytest.mark.parametrize(
    "moved",
    [{"kind": "state"}, {"run": "dem"}, {"generation": 4}, {"shard": 0}, {"users": 8}],
    ids=lambda moved: next(iter(moved)),
)
def test_a_record_that_is_moved_does_not_open(vault, moved):
    record = vault.seal(SUM, b"a secret")
    elsewhere = replace(SUM, **moved)
    with pytest.raises(
        StoreError,
        match=f"of run {elsewhere.run} at generation {elsewhere.generation} cannot be opened",
    ):
        vault.open(elsewhere, record)


def test_a_record_that_was_changed_does_not_open(vault):
    """Each byte of it, and each length."""
    record = vault.seal(SUM, b"a secret")
    changed = [
        record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :] for at in range(len(record))
    ]
    changed += [record[:end] for end in range(len(record))] + [record + b"\0"]
    for each in changed:
        with pytest.raises(
            StoreError, match="open sum of run demo at generation 3 cannot be opened"
        ) as error:
            vault.open(SUM, each)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize("record", [None, 7, 0.5, "text", b""], ids=repr)
def test_a_damaged_file_may_hold_anything_instead_of_a_record(vault, record):
    with pytest.raises(StoreError, match="cannot be opened: it is damaged"):
        vault.open(SUM, record)


def test_another_key_and_a_missing_key_are_named(tmp_path, vault):
    record = vault.seal(SUM, b"a secret")
    with pytest.raises(StoreError, match="sealed with another key"):
        Vault(key_folder(tmp_path / "other")).open(SUM, record)
    (tmp_path / "keys" / "vault.key").unlink()
    with pytest.raises(StateError, match=r"cannot read vault\.key"):
        Vault(KeyFolder(tmp_path / "keys")).open(SUM, record)


def test_no_two_seals_have_one_nonce_and_their_bytes_look_random(vault):
    records = [vault.seal(SUM, bytes(64)) for _ in range(2000)]
    start = len(FORMAT) + 8
    assert len({record[start : start + 12] for record in records}) == len(records)
    # 216,000 random bytes: a mean that is 0.8 off 127.5 has a probability below 1e-6.
    tails = np.frombuffer(b"".join(record[start:] for record in records), dtype=np.uint8)
    assert abs(tails.mean() - 127.5) < 0.8


def test_each_run_and_batch_has_a_key_of_its_own(vault):
    places = [SUM, replace(SUM, run="other"), replace(SUM, generation=4)]
    ciphers = {
        id(vault._cipher(vault.header, place))
        for place in [*places, replace(SUM, shard=2, users=9)]
    }
    assert len(ciphers) == 3


def records(folder):
    """The sealed columns of a service, as somebody reads them who has the database alone."""
    queries = "SELECT state FROM run", "SELECT total FROM open_sum"
    if folder.shared:
        with psycopg.connect(folder.address) as db:
            return [[bytes(row[0]) for row in db.execute(query).fetchall()] for query in queries]
    with sqlite3.connect(folder.database) as db:
        rows = [[row[0] for row in db.execute(query).fetchall()] for query in queries]
    db.close()
    return rows


@ON_BOTH
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_the_database_holds_sealed_records_only(bench, folder, trust):
    run = bench.create(trust=trust, every=3)
    bench.send(*(bench.report(f"person {number}") for number in range(3)))
    bench.send(bench.report("ann", generation=1))
    saved, opened = bench.service.store.state("demo"), bench.service.store.open_sum("demo")
    (state,), (total,) = records(folder)
    assert (saved.generation, opened.generation, opened.users) == (1, 1, 1)
    assert b"confide-state" in saved.data and b"confide-state" not in state
    assert opened.total not in total and len(opened.total) == 8 * run.coordinates
    assert len(state) == record_bytes("state", len(saved.data)) and len(total) == record_bytes(
        "open-sum", len(opened.total)
    )


@ON_BOTH
def test_a_contribution_of_zero_is_written_like_any_other(bench, folder):
    bench.create(every=9)
    written = []
    for number, content in enumerate([bench.content(), ([], [], []), "no episode at all"]):
        bench.send(bench.report(f"person {number}", content=content))
        written.append(records(folder)[1][0])
    assert len(set(written)) == 3 and len({len(each) for each in written}) == 1


@pytest.mark.parametrize("trust", ["joint", "local"])
@pytest.mark.parametrize(
    ("agent", "problem"),
    [("likelihood-vi", "lock"), ("tabular-psrl", "riverswim"), ("pucb", "riverswim")],
)
def test_the_length_of_a_state_does_not_depend_on_what_was_reported(agent, problem, trust):
    lengths = set()
    for steps in (0, 1, 10**6):
        learner = make_learner(spec(agent=agent, problem=problem, trust=trust, users=40, every=10))
        for _ in range(2):
            learner.current_round()
            learner.close(np.full(learner.algorithm.bound.size, steps), 10)
        lengths.add(record_bytes("state", len(learner.save())))
    assert len(lengths) == 1


@ON_BOTH
def test_a_run_whose_records_are_swapped_with_anothers_is_named(bench, folder):
    for name in ("one", "two"):
        bench.create(name)
        bench.send(bench.report("ann", name))
    change = (
        "UPDATE open_sum SET total = (SELECT total FROM open_sum WHERE run = 'one') "
        "WHERE run = 'two'"
    )
    with bench.service.store.transaction() as tx:
        tx._execute(change)
    with pytest.raises(
        StoreError, match="the open sum of run two at generation 0 cannot be opened"
    ):
        load("two", bench.service.store, folder.keys, folder.marks, must_be_marked=True)
    assert bench.send(bench.report("bob", "one")) == ["counted"]
