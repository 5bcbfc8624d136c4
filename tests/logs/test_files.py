"""Files that are no log are refused without a value in the text.

Hostile rows cost their own user only.
"""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.errors import ConfideError, InvalidParameter, LogError
from confide.logs import files, in_memory, write
from confide.logs import open as open_logs
from confide.trajectory import LoggedUsers

SECRET = 987654321


def read(path, **options):
    return list(open_logs(path, **options).blocks())


def refused(match, path, **options):
    with pytest.raises(LogError, match=match) as caught:
        read(path, **options)
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_paths(tmp_path, save, steps):
    path = save(steps(1, 2))
    refused("no file matches", str(tmp_path / "*.arrow"))
    refused("No such file", str(tmp_path / "absent.parquet"))
    refused("given twice", [path, path])
    refused("empty", [])
    (tmp_path / "empty").mkdir()
    refused("no file in this folder", tmp_path / "empty")
    (tmp_path / "log.csv").write_text(f"user,state\n1,{SECRET}\n")
    refused("confide logs import", tmp_path / "log.csv")
    (tmp_path / "nothing.parquet").touch()
    refused("neither a Parquet file nor an Arrow file", tmp_path / "nothing.parquet")


def test_files_that_differ(save, steps):
    a = save(steps(1, 2), "a.parquet")
    refused("different types", [a, save(steps("2", 2), "b.parquet", user=pa.string())])
    # Nobody, of whatever type.
    save([], "b.parquet", user=pa.string())
    assert sum(block.count for block in read([a, a.replace("a.parquet", "b.parquet")])) == 1


@pytest.mark.parametrize("cut", [4, 100, 0.5, 0.9, -1, -8, -9])
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_truncated(tmp_path, rng, cut, kind):
    users = LoggedUsers(
        rng.integers(0, 9, 4000),
        rng.random(4000),
        np.arange(0, 4001, 4),
        np.arange(1001),
        np.ones(1000, np.bool_),
    )
    path = tmp_path / f"log.{kind}"
    write(path, users)
    if kind == "arrow":
        table = pq.read_table(path)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    content = path.read_bytes()
    path.write_bytes(content[: int(cut * len(content)) if isinstance(cut, float) else cut])
    refused("damaged, cut off|neither", path)


def test_damaged_inside(tmp_path, rng):
    """Any byte may be wrong: a clear error, or users who are bounded by the caps."""
    users = LoggedUsers(
        rng.integers(0, 9, 4000),
        rng.random(4000),
        np.arange(0, 4001, 4),
        np.arange(1001),
        np.ones(1000, np.bool_),
    )
    path = tmp_path / "log.parquet"
    write(path, users)
    content, outcomes = path.read_bytes(), set()
    for _ in range(150):
        place, damaged = rng.integers(4, len(content)), bytearray(content)
        damaged[place : place + 8] = rng.bytes(8)
        path.write_bytes(damaged)
        try:
            assert all(len(block.states) <= 3 * block.count for block in read(path, max_steps=3))
            outcomes.add("read")
        except ConfideError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def test_users_out_of_order(save, steps, small):
    twice = steps(SECRET, 1) + steps(SECRET + 1, 1) + steps(SECRET, 2)
    refused("row group 2: users must ascend strictly by 'user'", save(twice, group=1))
    text = [row | {"user": f"u{row['user']}"} for row in twice]
    refused("row group 2: users must ascend", save(text, group=1, user=pa.string()))
    for part in (1, 2, 3, 100):
        small(1, part)
        for rows in (twice, steps(SECRET, 1, 2) + steps(4, 1)):
            refused("users must ascend", save(rows, group=1))
            with pytest.raises(LogError, match="users must ascend"):
                open_logs(save(rows, group=1)).check()


def test_users_in_several_files(save, steps, tmp_path):
    a = save(steps(1, 1) + steps(5, 1), "a.parquet")
    b = save(steps(3, 1) + steps(9, 1), "b.parquet")
    assert open_logs([a, save(steps(6, 1), "c.parquet")]).assumptions == ()
    (assumed,) = open_logs([a, b]).assumptions
    assert assumed.kind == "one-file-per-user" and "one file only" in assumed.text
    assert open_logs([a, b]).check().assumptions == (assumed,)
    refused("a.parquet and .*d.parquet share a user", [a, save(steps(5, 2), "d.parquet")])
    # nested ranges, and files that state no range
    assert open_logs(
        [
            save(steps(1, 1) + steps(90, 1), "e.parquet"),
            save(steps(4, 1), "f.parquet"),
            save(steps(70, 1), "g.parquet"),
        ]
    ).assumptions
    for name in ("a", "c"):
        pq.write_table(
            pq.read_table(tmp_path / f"{name}.parquet"),
            tmp_path / f"{name}.parquet",
            write_statistics=False,
        )
    assert open_logs([a, str(tmp_path / "c.parquet")]).assumptions == ()


def test_ids_that_are_no_text(save, steps, small):
    """Bytes that are not UTF-8 are compared, never quoted."""
    small(1, 1)
    path = save(
        [
            row | {"user": b"\xff\xfe" + bytes([row["user"]])}
            for row in steps(1, 1, 2) + steps(2, 1)
        ],
        user=pa.binary(),
        group=1,
    )
    table = pq.read_table(path)
    pq.write_table(
        table.set_column(0, "user", table["user"].combine_chunks().view(pa.string())),
        path,
        row_group_size=1,
    )
    assert [block.count for block in read(path)] == [1, 1]
    with pytest.raises(LogError, match="damaged"):
        open_logs([path, save(steps("a", 1), "b.parquet", user=pa.string())])


def test_an_empty_file_is_an_empty_log(save):
    for types in ({}, {"state": pa.null(), "user": pa.null()}):
        logs = open_logs(save([], **types))
        assert list(logs.blocks()) == []
        assert logs.check().users == 0


def test_hostile_values(save, steps):
    rows = (
        steps(1, 2**40)
        + steps(2, 1, reward=float("nan"))
        + steps(3, 1, reward=1e308)
        + steps(4, 1, reward=-np.inf)
    )
    (block,) = read(save(rows))
    assert block.valid.tolist() == [True, False, True, False]
    assert block.states.tolist() == [2**40, 1]
    assert "1" not in repr(block)


def test_a_list_of_ten_million_steps(tmp_path):
    n = 10_000_000
    one = LoggedUsers(
        np.zeros(n, np.int64), np.ones(n), np.array([0, n]), np.array([0, 1]), np.ones(1, np.bool_)
    )
    write(tmp_path / "lists.parquet", one, lists=True)
    (block,) = read(tmp_path / "lists.parquet", max_steps=50)
    assert len(block.states) == 50
    (block,) = in_memory(one, max_steps=100).blocks()
    assert len(block.states) == 100


# not ru_maxrss: a child starts with that of its parent
MEMORY = """
import sys
from pathlib import Path
from confide.logs import open as open_logs
rows = [len(block.states) for block in open_logs(sys.argv[1], max_steps=int(sys.argv[2])).blocks()]
status = Path("/proc/self/status").read_text().splitlines()
peak = next(line for line in status if line.startswith("VmHWM"))
print(sum(rows), max(rows), int(peak.split()[1]) // 1024)
"""


def test_one_user_of_ten_million_steps_in_one_row_group(tmp_path):
    """In bounded memory, whether the cap cuts the user or not."""
    n = 10_000_000
    table = pa.table(
        {
            "user": np.full(n, 7),
            "trajectory": np.zeros(n, np.int32),
            "step": np.arange(n, dtype=np.int32),
            "state": np.arange(n, dtype=np.int32) % 40,
            "reward": np.zeros(n, np.float32),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=n)
    assert files.ParquetSource(str(tmp_path / "log.parquet")).groups() == [n]
    for cap in (100, n):
        run = [sys.executable, "-c", MEMORY, str(tmp_path / "log.parquet"), str(cap)]
        rows, largest, megabytes = map(
            int, subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
        )
        assert rows == largest == cap
        # 466 to 540 were measured.
        assert megabytes < 600


@pytest.mark.parametrize("wrong", [None, 3, [None], ["log.parquet", 3]], ids=str)
def test_what_is_no_path_and_who_is_no_user(wrong):
    with pytest.raises(
        InvalidParameter, match="paths must be a file, a pattern, a folder or a list of these"
    ):
        open_logs(wrong)
    with pytest.raises(InvalidParameter, match="users must be LoggedUsers, or blocks of them"):
        in_memory(wrong)


def test_a_missing_trajectory_column_says_how_to_do_without(save, steps):
    refused(
        r'say trajectory=None \(--trajectory "" on the command line\)',
        save(steps(1, 2)),
        trajectory="stay",
    )
