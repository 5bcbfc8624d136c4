"""Totals have the same bits wherever they are added up, and failures say nothing about the data."""

import numpy as np
import pytest

from confide.errors import InvalidParameter, LogError
from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits
from confide.logs import in_memory, reader, write
from confide.logs import open as open_logs
from confide.privacy.bounded import Bounded, L2Ball
from confide.trajectory import LoggedUsers

RETURNS = FirstVisitReturns(FirstVisits(9, 3, trajectories=2), discount=0.9, centre=1.0, radius=3.0)


def users_of(rng, count):
    lengths = rng.integers(1, 20, 2 * count)
    rows = lengths.sum()
    offsets = np.append(0, np.cumsum(lengths)), np.arange(0, 2 * count + 1, 2)
    return LoggedUsers(
        rng.integers(0, 9, rows), rng.random(rows), *offsets, rng.random(count) < 0.9
    )


@pytest.fixture
def folder(tmp_path, rng):
    write(tmp_path / "a.parquet", users_of(rng, 400), lists=True)
    write(tmp_path / "b.parquet", [users_of(rng, 300) for _ in range(10)], rows=100)
    return tmp_path


def test_same_bits_however_it_is_cut(folder, monkeypatch):
    path = folder / "b.parquet"
    (whole,) = open_logs(path, max_trajectories=2).blocks(10**9)
    expected = RETURNS.contribution(whole)
    assert expected.users == 3000
    assert (
        in_memory(whole, max_trajectories=2).total(RETURNS).values.tobytes()
        == expected.values.tobytes()
    )
    for part, workers in ((10**9, 1), (1, 1), (5000, 2)):
        monkeypatch.setattr(reader, "PART", part)
        seen = []
        log = open_logs(path, max_trajectories=2).on("local", workers=workers)
        total = log.total(RETURNS, progress=lambda *at, seen=seen: seen.append(at))
        assert total.values.tobytes() == expected.values.tobytes()
        assert total.users == 3000
        parts = len(open_logs(path).parts)
        assert seen == [(done, parts) for done in range(1, parts + 1)]
        assert (parts > 1) == (part < 10**9)


def test_blocks_in_memory_are_parts(rng):
    blocks = [users_of(rng, count) for count in (50, 0, 70)]
    logs = in_memory(blocks, max_trajectories=2)
    assert (len(logs.parts), logs.assumptions) == (2, ())
    expected = RETURNS.contribution(blocks[0]) + RETURNS.contribution(blocks[2])
    assert logs.on("local", workers=2).total(RETURNS).values.tobytes() == expected.values.tobytes()


def test_nobody(save):
    total = open_logs(save([])).total(RETURNS)
    assert total.users == 0
    assert not total.values.any()


def test_parameters(folder):
    logs = open_logs(folder / "b.parquet")
    with pytest.raises(InvalidParameter, match="backend must be one of local, ray, dask"):
        logs.on("spark")
    with pytest.raises(InvalidParameter, match="workers"):
        logs.on("local", workers=0)
    with pytest.raises(InvalidParameter, match="states"):
        logs.check(states=0)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_statistic_that_fails(folder, monkeypatch, workers):
    class Fails:
        bound = L2Ball(1.0, 2)

        def contribution(self, users):
            raise KeyError(f"secret {users.states[0]}")

    monkeypatch.setattr(reader, "PART", 1)
    with pytest.raises(
        LogError,
        match=r"the statistic failed with a KeyError in contribution \(.*test_log.py, line \d+\)$",
    ) as caught:
        open_logs(folder / "b.parquet").on("local", workers=workers).total(Fails())
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_statistic_that_lies(folder):
    class Lies:
        bound = L2Ball(1.0, 2)

        def contribution(self, users):  # noqa: ARG002
            return Bounded(np.zeros(2), self.bound, 1)

    with pytest.raises(InvalidParameter, match=r"Lies.contribution must return"):
        open_logs(folder / "b.parquet").total(Lies())
