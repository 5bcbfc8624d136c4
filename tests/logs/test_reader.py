"""Whatever the files look like, users are those that a plain loop over the rows finds."""

import math
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import InvalidParameter
from confide.logs import files, in_memory, reader, write
from confide.logs import open as open_logs
from confide.trajectory import LoggedUsers

pytestmark = pytest.mark.kernels


def plainly(rows, max_trajectories=1, max_steps=10_000):
    """[(valid, [[(state, reward), ...] of each trajectory])] of each user."""
    users, last = [], None
    for row in rows:
        if last is None or row["user"] != last["user"]:
            users.append([])
        if not users[-1] or row["trajectory"] != last["trajectory"]:
            users[-1].append([])
        users[-1][-1].append(row)
        last = row
    return [
        one_user([t[:max_steps] for t in trajectories[:max_trajectories]]) for trajectories in users
    ]


def one_user(trajectories):
    for rows in trajectories:
        for before, row in zip([None, *rows], rows, strict=False):
            good = (
                row["trajectory"] is not None
                and row["step"] is not None
                and row["state"] is not None
                and row["state"] >= 0
            )
            good = good and row["reward"] is not None and math.isfinite(row["reward"])
            if not good or (before is not None and row["step"] <= before["step"]):
                return False, []
    return True, [[(row["state"], row["reward"]) for row in rows] for rows in trajectories]


def flat(blocks):
    users = []
    for block in blocks:
        rows = list(zip(block.states.tolist(), block.rewards.tolist(), strict=True))
        trajectories = [
            rows[a:b] for a, b in zip(block.trajectories, block.trajectories[1:], strict=False)
        ]
        of_users = [trajectories[a:b] for a, b in zip(block.users, block.users[1:], strict=False)]
        users += list(zip(block.valid.tolist(), of_users, strict=True))
    return users


@st.composite
def logged(draw):
    """Rows of users in order, a few of them bad."""
    rows = []
    for user in sorted(draw(st.sets(st.integers(0, 30), max_size=8))):
        for trajectory in range(draw(st.integers(1, 3))):
            step = draw(st.integers(-2, 2))
            for _ in range(draw(st.integers(1, 7))):
                row = {
                    "user": user,
                    "trajectory": trajectory,
                    "step": step,
                    "state": draw(st.integers(0, 5)),
                    "reward": 0.25,
                }
                step += draw(st.integers(1, 2))
                if draw(st.integers(0, 30)) == 0:
                    bad = draw(
                        st.sampled_from(
                            ["trajectory", "step", "state", "reward", "disorder", "negative", "nan"]
                        )
                    )
                    row |= {
                        "disorder": {"step": -9},
                        "negative": {"state": -3},
                        "nan": {"reward": math.nan},
                    }.get(bad, {bad: None})
                rows.append(row)
    return rows


@settings(max_examples=120)
@given(
    logged(),
    st.sampled_from(["int64", "uint64", "int16", "string", "large_string", "dictionary"]),
    *[st.integers(1, 9) for _ in range(4)],
    st.integers(1, 3),
    st.integers(1, 8),
)
def test_rows_across_every_edge(rows, ids, group, batch, part, block, max_trajectories, max_steps):
    kind = pa.dictionary(pa.int32(), pa.string()) if ids == "dictionary" else getattr(pa, ids)()
    text = not pa.types.is_integer(kind)
    columns = {
        name: [row[name] for row in rows]
        for name in ("user", "trajectory", "step", "state", "reward")
    }
    arrays = {
        name: pa.array(
            columns[name] if not text else [v if v is None else f"{v:03d}" for v in columns[name]],
            kind,
        )
        for name in ("user", "trajectory")
    }
    arrays |= {
        "step": pa.array(columns["step"], pa.int32()),
        "state": pa.array(columns["state"], pa.int16()),
    }
    arrays["reward"] = pa.array(columns["reward"], pa.float32())
    sizes = mock.patch.multiple(reader, PART=part), mock.patch.object(files, "BATCH", batch)
    with tempfile.TemporaryDirectory() as folder, sizes[0], sizes[1]:
        pq.write_table(pa.table(arrays), f"{folder}/log.parquet", row_group_size=group)
        logs = open_logs(folder, max_trajectories=max_trajectories, max_steps=max_steps)
        blocks = list(logs.blocks(rows=block))
        check = logs.check()
    expected = plainly(rows, max_trajectories, max_steps)
    assert flat(blocks) == expected
    assert (check.users, check.rows, check.zero) == (
        len(expected),
        len(rows),
        sum(not valid for valid, _ in expected),
    )
    assert check.nulls == sum(value is None for row in rows for value in row.values())


def users_of(rng, count=60):
    """Users with some trajectories, some of them empty, some users not valid."""
    per_user = rng.integers(0, 4, count)
    lengths = rng.integers(0, 5, per_user.sum())
    rows = lengths.sum()
    return LoggedUsers(
        rng.integers(0, 9, rows),
        rng.random(rows),
        np.append(0, np.cumsum(lengths)),
        np.append(0, np.cumsum(per_user)),
        rng.random(count) < 0.8,
        rng.integers(0, 3, rows),
        1 - rng.random(rows),
    )


def expected_of(users, max_trajectories, max_steps):
    """A user without trajectories has an empty one."""
    return [
        (v, [t[:max_steps] for t in (trajectories or [[]])[:max_trajectories]] if v else [])
        for v, trajectories in flat([users])
    ]


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_in_memory_and_lists(tmp_path, small, batch):
    users = users_of(np.random.default_rng(0))
    small(batch)
    write(tmp_path / "lists.parquet", users, lists=True, rows=20)
    opened = {
        "action": "action",
        "probability": "probability",
        "max_trajectories": 2,
        "max_steps": 3,
    }
    for logs in (
        in_memory(users, max_trajectories=2, max_steps=3),
        open_logs(tmp_path / "lists.parquet", **opened),
    ):
        blocks = list(logs.blocks(rows=10))
        assert flat(blocks) == expected_of(users, 2, 3)
        assert len(blocks) > 3 or batch > 3
        assert all(
            block.actions is not None and len(block.probabilities) == len(block.states)
            for block in blocks
        )
    assert flat(in_memory([]).blocks()) == []


def test_actions_and_probabilities_come_along(tmp_path):
    users = users_of(np.random.default_rng(1))
    write(tmp_path / "log.parquet", users)
    opened = {"action": "action", "probability": "probability", "max_trajectories": 3}
    (block,) = open_logs(tmp_path / "log.parquet", **opened).blocks()
    kept = np.repeat(np.repeat(users.valid, np.diff(users.users)), np.diff(users.trajectories))
    for name in ("states", "rewards", "actions", "probabilities"):
        np.testing.assert_array_equal(getattr(block, name), getattr(users, name)[kept])


def test_lists_that_do_not_fit_make_their_user_zero(tmp_path, small):
    small(4, 2)
    columns = {
        "user": [1, 2, 3, 4, 5],
        "state": [[1, 2], [3], None, [4, 5], []],
        "reward": [[0.0, 1.0], [1.0, 1.0], [0.0], [None, 1], []],
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=2)
    logs = open_logs(tmp_path / "log.parquet")
    assert flat(logs.blocks()) == [
        (True, [[(1, 0.0), (2, 1.0)]]),
        (False, []),
        (False, []),
        (False, []),
        (True, [[]]),
    ]
    check = logs.check()
    assert (check.users, check.zero, check.nulls) == (5, 3, 3)
    fixed = pa.table(
        {
            "user": [1, 2],
            "state": pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
            "reward": [[0.0, 1.0], [0.0, 0.0]],
        }
    )
    pq.write_table(fixed, tmp_path / "fixed.parquet")
    assert flat(open_logs(tmp_path / "fixed.parquet").blocks()) == [
        (True, [[(1, 0.0), (2, 1.0)]]),
        (False, []),
    ]


def test_arrow_files(tmp_path, steps, save, small):
    rows = steps(1, 1, 2, 3) + steps(2, 4, 5) + steps(7, 6)
    table = pq.read_table(save(rows))
    for compression in ("uncompressed", "zstd"):
        small(3, 3)
        pyarrow.feather.write_feather(
            table, str(tmp_path / "log.feather"), compression=compression, chunksize=2
        )
        logs = open_logs(tmp_path / "log.feather")
        assert len(logs.parts) == 2
        assert flat(logs.blocks()) == plainly(rows)


def test_arrow_files_with_lists(tmp_path, small):
    small(3, 4)
    for number, first in enumerate((0, 100)):
        users = [first + n // 3 for n in range(30)]
        table = pa.table(
            {"user": users, "state": [[n, n + 1] for n in range(30)], "reward": [[0.0, 1.0]] * 30}
        )
        pyarrow.feather.write_feather(table, str(tmp_path / f"{number}.feather"), chunksize=4)
    logs = open_logs(tmp_path, max_trajectories=2)
    assert logs.assumptions == ()
    assert len(logs.parts) > 10
    one = [
        (True, [[(n, 0.0), (n + 1, 1.0)], [(n + 1, 0.0), (n + 2, 1.0)]]) for n in range(0, 30, 3)
    ]
    assert flat(logs.blocks()) == one + one
    check = logs.check()
    assert (check.users, check.trajectories, check.rows, check.over_trajectories) == (
        20,
        60,
        120,
        20,
    )


def test_rewards_that_are_flags_or_nothing(save, steps):
    rows = steps(1, 1, reward=True) + steps(2, 1, reward=None)
    assert flat(open_logs(save(rows, reward=pa.bool_())).blocks()) == [
        (True, [[(1, 1.0)]]),
        (False, []),
    ]
    rows = [row | {"state": None, "reward": None} for row in rows]
    assert flat(open_logs(save(rows, reward=pa.null(), state=pa.null())).blocks()) == [
        (False, []),
        (False, []),
    ]


def test_numbers_of_all_kinds(save, steps):
    rows = (
        steps(1, 1.0, 2.0)
        + steps(2, 1.5)
        + steps(3, 1e300)
        + steps(4, math.inf)
        + steps(5, None)
        + steps(6, 7.0, reward=1)
    )
    path = save(rows, state=pa.float64(), reward=pa.float32(), step=pa.uint8())
    assert [valid for valid, _ in flat(open_logs(path).blocks())] == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]
    rows = steps(2**63, 2**63 - 1) + steps(2**63 + 1, 2**63) + steps(2**64 - 1, 2**64 - 1)
    path = save(rows, user=pa.uint64(), state=pa.uint64())
    assert [valid for valid, _ in flat(open_logs(path).blocks())] == [True, False, False]


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.5, math.nan, math.inf, None])
def test_probabilities_and_actions_out_of_range(save, steps, probability):
    rows = [row | {"action": 0, "p": 1.0} for row in steps(1, 1) + steps(2, 1) + steps(3, 1)]
    rows[0]["p"], rows[1]["action"] = probability, -1
    path = save(rows, action=pa.int8(), p=pa.float64())
    (block,) = open_logs(path, action="action", probability="p").blocks()
    assert block.valid.tolist() == [False, False, True]


def test_without_trajectories_or_steps(save, steps):
    rows = steps(1, 5, 6) + steps(1, 7, trajectory=1) + steps(2, 8)
    path = save([row | {"t": None} for row in rows], t=pa.null())
    assert flat(open_logs(path, trajectory=None, step=None).blocks()) == [
        (True, [[(5, 0.5), (6, 0.5), (7, 0.5)]]),
        (True, [[(8, 0.5)]]),
    ]
    # Steps 0 1 0.
    assert flat(open_logs(path, trajectory=None).blocks())[0] == (False, [])
    with pytest.raises(InvalidParameter, match="max_trajectories=2"):
        open_logs(path, trajectory=None, max_trajectories=2)


def test_a_block_stays_as_it_is(tmp_path, small):
    small(2, 20)
    users = users_of(np.random.default_rng(3), 300)
    write(tmp_path / "log.parquet", users, rows=50)
    logs = open_logs(tmp_path / "log.parquet", max_trajectories=3)
    blocks = list(logs.blocks(rows=7))
    before = [block.states.copy() for block in blocks]
    list(logs.blocks(rows=7))
    assert all((a == block.states).all() for a, block in zip(before, blocks, strict=True))
    assert max(len(block.states) for block in blocks) < 7 + 3 * 5 + 3


def test_paths(tmp_path, save, steps):
    a, b = save(steps(1, 1), "a.parquet"), save(steps(2, 2), "b.parquet")
    for paths in (
        [a, Path(b)],
        str(tmp_path),
        tmp_path,
        str(tmp_path / "*.parquet"),
        str(tmp_path / "**" / "?.parquet"),
    ):
        logs = open_logs(paths)
        assert len(flat(logs.blocks())) == 2
        assert logs.assumptions == ()
    assert "state" not in repr(in_memory(users_of(np.random.default_rng(0))))


def test_a_log_by_another_spelling_is_the_same_log(tmp_path, save, steps):
    path = save(steps(1, 2))
    (tmp_path / "link.parquet").symlink_to(path)
    assert (
        len(
            {
                open_logs(name).identity
                for name in (
                    path,
                    Path(path).parent / "." / Path(path).name,
                    tmp_path / "link.parquet",
                )
            }
        )
        == 1
    )


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list])
def test_one_huge_list_does_not_decide_the_memory_of_a_batch(tmp_path, kind):
    """Lists are cut to max_steps before anything is copied.

    Lists of different lengths still contribute zero, and so do null ones.
    """
    states, rewards = (
        [[1, 2], [3] * 10**6, [4] * 50, None, [5, 6, 7]],
        [[0.5, 0.5], [1.0] * 10**6, [1.0] * 60, [1.0], [0.1] * 3],
    )
    table = pa.table(
        {
            "user": range(5),
            "state": pa.array(states, kind(pa.int64())),
            "reward": pa.array(rewards, kind(pa.float64())),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    log = open_logs(tmp_path / "log.parquet", trajectory=None, step=None, max_steps=3)
    longest = []
    whole = reader.Decoder.rows

    def counted(self, batch):
        rows = whole(self, batch)
        longest.append(len(rows.user) / batch.num_rows)
        return rows

    with mock.patch.object(reader.Decoder, "rows", counted):
        users = flat(log.blocks())
    assert max(longest) <= 3
    expected = [[(1, 0.5), (2, 0.5)], [(3, 1.0)] * 3, None, None, [(5, 0.1), (6, 0.1), (7, 0.1)]]
    assert [valid for valid, _ in users] == [rows is not None for rows in expected]
    assert all(
        trajectories == [rows]
        for (valid, trajectories), rows in zip(users, expected, strict=True)
        if valid
    )


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_missing_steps_are_marked_and_survive_writing(tmp_path, save, small, steps, batch):
    """Across batches and blocks; a trajectory that starts late has no gap before its first row."""
    small(batch)
    rows = [*steps(1, 0, 1, 2, 3), *steps(1, 4, 5, trajectory=1), *steps(2, 6, 7, 8)]
    kept = [row for place, row in enumerate(rows) if place not in (1, 4, 7)]
    # States 0, 2, 3, then 5 alone, then 6, 8.
    expected = [False, True, False, False, False, True]
    first = open_logs(save(kept), max_trajectories=2)
    write(tmp_path / "again.parquet", first.blocks())
    for logs in (
        first,
        open_logs(tmp_path / "again.parquet", max_trajectories=2),
        in_memory(first.blocks(), max_trajectories=2),
    ):
        blocks = list(logs.blocks(rows=1))
        assert np.concatenate([block.gaps for block in blocks]).tolist() == expected
        assert np.concatenate([block.states for block in blocks]).tolist() == [0, 2, 3, 5, 6, 8]
    with pytest.raises(InvalidParameter, match="lists cannot say where"):
        write(tmp_path / "lists.parquet", first.blocks(), lists=True)
    (unnumbered,) = open_logs(save(kept), max_trajectories=2, step=None).blocks()
    assert unnumbered.gaps is None
