"""Small logs, and readers that take them in a few rows at a time."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.logs import files, reader

KINDS = {
    "user": pa.int64(),
    "trajectory": pa.int64(),
    "step": pa.int64(),
    "state": pa.int64(),
    "reward": pa.float64(),
}


@pytest.fixture
def steps():
    """The rows of one trajectory."""

    def rows(user, *states, trajectory=0, reward=0.5):
        return [
            {"user": user, "trajectory": trajectory, "step": t, "state": s, "reward": reward}
            for t, s in enumerate(states)
        ]

    return rows


@pytest.fixture
def save(tmp_path):
    """Rows into a Parquet file of the test's folder."""

    def saved(rows, name="log.parquet", *, group=1000, **types):
        columns = {
            key: pa.array([row.get(key) for row in rows], kind)
            for key, kind in (KINDS | types).items()
        }
        pq.write_table(pa.table(columns), tmp_path / name, row_group_size=group)
        return str(tmp_path / name)

    return saved


@pytest.fixture
def small(monkeypatch):
    """Batches and parts of a few rows, so that users lie across every edge."""

    def set_sizes(batch=3, part=5):
        monkeypatch.setattr(files, "BATCH", batch)
        monkeypatch.setattr(reader, "PART", part)
        monkeypatch.setattr(reader, "PART_OF_LISTS", part)

    set_sizes()
    return set_sizes


@pytest.fixture
def rng():
    return np.random.default_rng(0)
