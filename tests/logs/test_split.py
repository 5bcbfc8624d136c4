"""People in two parts by a keyed hash of their ids."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import confide
from confide.errors import BudgetExceeded, InvalidParameter
from confide.evaluation import CountsAndSums
from confide.logs import in_memory, simulate, write
from confide.policy import uniform_policy
from confide.problems import riverswim

STEPS = 5


@pytest.fixture(scope="module")
def people():
    world = riverswim(states=4, horizon=STEPS)
    return list(simulate(world, uniform_policy(STEPS, 4, 2), 2000, np.random.default_rng(0)))


def _users(log):
    """Each user's states, one row per user."""
    return [
        tuple(block.states[block.trajectories[t] : block.trajectories[t + 1]])
        for block in log.blocks(50)
        for t in block.users[:-1]
    ]


@pytest.mark.parametrize("lists", [False, True])
def test_every_user_is_in_one_part_whole(people, tmp_path, lists):
    # row groups end in the middle of users
    write(tmp_path / "log.parquet", people, lists=lists, rows=700)
    log = confide.logs.open(
        tmp_path / "log.parquet", action="action", probability="probability", max_steps=STEPS
    )
    learn, test = log.split(0.3)
    found = _users(learn), _users(test)
    assert sorted(found[0] + found[1]) == sorted(_users(log))
    assert len(found[0]) + len(found[1]) == 2000
    # false alarms: 6e-7, and the hash is fixed
    assert abs(len(found[1]) - 600) < 5 * np.sqrt(2000 * 0.3 * 0.7)
    # whatever the file, the ids decide
    assert found[0] == _users(in_memory(people, max_steps=STEPS).split(0.3)[0])


def test_the_part_depends_on_the_id_and_the_key_alone(tmp_path):
    ids = [f"p{number:03d}" for number in range(200)]
    lengths = np.random.default_rng(1).integers(1, 4, 200)
    for name, states in (
        ("one", np.zeros(lengths.sum(), int)),
        ("other", np.arange(lengths.sum())),
    ):
        owner = np.repeat(ids, lengths)
        steps = np.concatenate([np.arange(n) for n in lengths])
        table = {
            "user": owner,
            "trajectory": np.zeros(len(owner), int),
            "step": steps,
            "state": states,
            "reward": np.ones(len(owner)),
        }
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet", row_group_size=37)
    one, other = (confide.logs.open(tmp_path / f"{name}.parquet") for name in ("one", "other"))
    counted = [
        [np.diff(block.trajectories) for block in log.split(0.5, key=key)[1].blocks()]
        for log in (one, other)
        for key in "ab"
    ]
    assert np.array_equal(counted[0][0], counted[2][0])
    assert not np.array_equal(counted[0][0], counted[1][0])


def test_a_ledger_charges_the_larger_part_and_adds_up_other_splits(people, tmp_path):
    log = in_memory(people, max_steps=STEPS)
    learn, test = log.split(0.5)
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=1.0, delta=1e-6)
    asked, privacy = CountsAndSums(states=4, return_bound=5.0), confide.CentralDP(1.0, 1e-6)
    rng = np.random.default_rng
    asked.release(learn, privacy=privacy, ledger=ledger, rng=rng(0))
    mu = ledger.spent.mu
    asked.release(test, privacy=privacy, ledger=ledger, rng=rng(0))
    assert ledger.spent.mu == mu
    assert [spend.part[1] for spend in ledger.spends] == ["learn", "test"]
    for other in (log, log.split(0.5, key="other")[0], log.split(0.4)[1], test):
        with pytest.raises(BudgetExceeded):
            asked.release(other, privacy=privacy, ledger=ledger, rng=rng(0), id="another")
    assert ledger.spent.mu == mu


def test_a_rewritten_file_is_another_split(people, tmp_path):
    path = tmp_path / "log.parquet"
    write(path, people[:1])
    first = confide.logs.open(path, max_steps=STEPS).split()[0].part
    assert confide.logs.open(path, max_steps=STEPS).split()[0].part == first
    write(path, people[:1], rows=100)
    assert confide.logs.open(path, max_steps=STEPS).split()[0].part != first


def test_what_is_refused(people):
    log = in_memory(people, max_steps=STEPS)
    learn, _ = log.split()
    for wrong in (
        lambda: learn.split(),
        lambda: learn.check(),
        lambda: log.split(1.0),
        lambda: log.split(key=3),
    ):
        with pytest.raises(InvalidParameter):
            wrong()


def test_missing_steps_stay_marked(people, tmp_path):
    """In both parts: `state` and `gaps` are of the same rows."""
    gaps = [np.arange(len(block.states)) % STEPS == 1 + block.states % 2 for block in people]
    write(
        tmp_path / "log.parquet",
        [replace(block, gaps=found) for block, found in zip(people, gaps, strict=True)],
        rows=700,
    )
    log = confide.logs.open(tmp_path / "log.parquet", max_steps=STEPS)
    for part in log.split(0.3):
        blocks = list(part.blocks(50))
        for block in blocks:
            place = np.arange(len(block.states)) % STEPS
            assert block.gaps.tolist() == (place == 1 + block.states % 2).tolist()
        assert sum(block.gaps.sum() for block in blocks) > 100


def test_no_public_name_depends_on_the_size_or_the_time_of_a_private_file(people, tmp_path):
    """Otherwise a reader of a certificate could search for the size, which depends on all rows."""
    said = []
    for rows in (700, 100):
        write(tmp_path / "log.parquet", people[:1], rows=rows)
        learn, test = confide.logs.open(tmp_path / "log.parquet", max_steps=STEPS).split(0.5)
        said.append(
            (learn.assumptions, test.assumptions, learn.identity, test.identity, repr(learn.people))
        )
    assert said[0] == said[1]
    other = confide.logs.open(tmp_path / "log.parquet", max_steps=STEPS).split(0.5, key="another")[
        0
    ]
    assert other.assumptions != said[0][0]
