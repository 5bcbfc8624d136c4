"""Users who are in memory as record batches, and record batches as Parquet files."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from confide import arguments
from confide._extras import need
from confide.errors import InvalidParameter, LogError
from confide.trajectory import LoggedUsers

GROUP = 1 << 20  # rows of a row group
NOBODY = LoggedUsers(
    np.zeros(0, np.int64),
    np.zeros(0),
    np.zeros(1, np.int64),
    np.zeros(1, np.int64),
    np.zeros(0, np.bool_),
)


def has_gaps(users: LoggedUsers) -> bool:
    """Whether steps are missing within a trajectory."""
    return users.gaps is not None and bool(users.gaps.any())


def as_lists(users: LoggedUsers, first: int) -> Any:
    """Users as a record batch, one row per trajectory, without a copy of the rows. Ids count from `first`.

    A user who is not valid has lists that are null; one without trajectories has one that is empty.
    """
    import pyarrow as pa

    if has_gaps(users):
        raise InvalidParameter(
            "steps are missing, and lists cannot say where: write one row per step, with lists=False"
        )

    trajectories, empty = np.diff(users.users), np.flatnonzero(np.diff(users.users) == 0)
    owner = np.repeat(np.arange(users.count), np.maximum(trajectories, 1))
    ends = pa.array(
        np.insert(users.trajectories, users.users[empty], users.trajectories[users.users[empty]])
    )
    missing = None if users.valid.all() else pa.array(~users.valid[owner])
    columns = {
        "state": users.states,
        "reward": users.rewards,
        "action": users.actions,
        "probability": users.probabilities,
    }
    lists = {
        name: pa.LargeListArray.from_arrays(ends, pa.array(values), mask=missing)
        for name, values in columns.items()
        if values is not None
    }
    return pa.record_batch({"user": pa.array(first + owner), **lists})


def as_steps(users: LoggedUsers, first: int) -> Any:
    """Users as a record batch, one row per step. A user who is not valid, or has no rows, has one row without a state."""
    import pyarrow as pa

    lengths, per_user = np.diff(users.trajectories), np.diff(users.users)
    owner = np.repeat(np.repeat(np.arange(users.count), per_user), lengths)
    number = np.repeat(np.arange(len(lengths)) - np.repeat(users.users[:-1], per_user), lengths)
    step = np.arange(len(users.states)) - np.repeat(users.trajectories[:-1], lengths)
    if users.gaps is not None:
        skipped = np.cumsum(users.gaps)
        step += skipped - np.repeat(
            skipped[users.trajectories[:-1][lengths > 0]], lengths[lengths > 0]
        )
    columns = {
        "user": owner,
        "trajectory": number,
        "step": step,
        "state": users.states,
        "reward": users.rewards,
    }
    columns |= {
        n: v
        for n, v in (("action", users.actions), ("probability", users.probabilities))
        if v is not None
    }
    lost = np.flatnonzero(
        ~users.valid | (users.trajectories[users.users[1:]] == users.trajectories[users.users[:-1]])
    )
    null = np.zeros(len(owner), np.bool_)
    if len(lost):
        kept = users.valid[owner]
        order = np.argsort(np.concatenate([owner[kept], lost]), kind="stable")
        columns = {
            name: np.concatenate([values[kept], np.zeros(len(lost), values.dtype)])[order]
            for name, values in columns.items()
        }
        columns["user"] = np.concatenate([owner[kept], lost])[order]
        null = order >= kept.sum()
    columns["user"] = columns["user"] + first
    return pa.record_batch(
        {
            name: pa.array(values, mask=null if name == "state" else None)
            for name, values in columns.items()
        }
    )


def write(
    path: str | Path,
    users: LoggedUsers | Iterable[LoggedUsers],
    *,
    lists: bool = False,
    rows: int = GROUP,
) -> None:
    """Users, in order, into a Parquet file, with ids that count from 0: one row per step, or per trajectory with `lists`.

    A row group has at least so many `rows`, but the last.
    """
    need("logs", "a log")
    target = arguments.path("path", path)
    convert = as_lists if arguments.flag("lists", lists) else as_steps
    arguments.whole("rows", rows, at_least=1)
    try:
        blocks = iter([users] if isinstance(users, LoggedUsers) else users)
    except TypeError:  # an array without dimensions, too
        raise InvalidParameter.of(
            "users", f"must be LoggedUsers, or blocks of them, got {type(users).__name__}"
        ) from None
    first = 0

    def batches() -> Iterator[Any]:
        nonlocal first
        for block in blocks:
            arguments.kind("users", block, LoggedUsers)
            yield convert(block, first)
            first += block.count

    write_batches(target, batches(), convert(NOBODY, 0).schema, rows)


def write_batches(path: str | Path, batches: Iterable[Any], empty: Any, rows: int = GROUP) -> None:
    """Record batches into row groups; the schema is that of the first, or `empty` if there is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    coming = iter(batches)
    held = list(islice(coming, 1))
    schema = held[0].schema if held else empty
    with pq.ParquetWriter(str(path), schema) as writer:
        for batch in coming:
            if batch.schema != schema:
                raise LogError("all blocks must have the same columns")
            if sum(part.num_rows for part in held) >= rows:
                writer.write_table(pa.Table.from_batches(held), row_group_size=1 << 30)
                held = []
            held.append(batch)
        writer.write_table(pa.Table.from_batches(held, schema), row_group_size=1 << 30)
