"""Columns that a log lacks or that hold something else are refused, without a value in the text."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.errors import InvalidParameter, LogError
from confide.logs import open as open_logs

SECRET = 987654321


def read(path, **options):
    return list(open_logs(path, **options).blocks())


def refused(match, path, **options):
    with pytest.raises(LogError, match=match) as caught:
        read(path, **options)
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_columns(save, steps, tmp_path):
    path = save(steps(1, 2))
    refused("column 'cluster' is missing.*'state'", path, state="cluster")
    refused("column 'stay' is missing.*trajectory=None", path, trajectory="stay")
    refused(
        "'state' must contain numbers, got string",
        save([row | {"state": str(SECRET)} for row in steps(1, 2)], state=pa.string()),
    )
    refused(
        "'user' must contain whole numbers or strings, got double",
        save(steps(1.5, 2), user=pa.float64()),
    )
    refused("'user' has nulls", save(steps(1, 2) + steps(None, 2)))
    pq.write_table(
        pa.table({"user": [1], "state": [[1]], "reward": [1.0]}), tmp_path / "mixed.parquet"
    )
    refused("'reward' must contain lists", tmp_path / "mixed.parquet")
    with pytest.raises(InvalidParameter, match="different names"):
        open_logs(path, reward="state")


@pytest.mark.parametrize(
    "caps", [{"max_steps": 0}, {"max_trajectories": True}, {"max_steps": 1.5}, {"max_steps": 10**8}]
)
def test_caps(save, steps, caps):
    with pytest.raises(InvalidParameter, match=next(iter(caps))):
        open_logs(save(steps(1, 2)), **caps)
