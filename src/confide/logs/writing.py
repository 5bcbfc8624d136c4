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

# How many rows a row group has at least. A matter of taste.
GROUP = 1 << 20
# A block without users.
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
    """Users as a record batch, one row per trajectory, without a copy of the rows.

    Ids count from `first`. A user who is not valid has lists that are null. One without
    trajectories has a list that is empty.
    """
    import pyarrow as pa

    if has_gaps(users):
        raise InvalidParameter(
            "steps are missing, and lists cannot say where: "
            "write one row per step, with lists=False"
        )
    trajectories = np.diff(users.users)
    empty = np.flatnonzero(trajectories == 0)
    owner = np.repeat(np.arange(users.count), np.maximum(trajectories, 1))
    # Where lists end, with an end that comes again for each user without trajectories.
    places = users.users[empty]
    ends = pa.array(np.insert(users.trajectories, places, users.trajectories[places]))
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
    """Users as a record batch, one row per step.

    A user who is not valid, or has no rows, has one row without a state.
    """
    import pyarrow as pa

    lengths = np.diff(users.trajectories)
    per_user = np.diff(users.users)
    owner = np.repeat(np.repeat(np.arange(users.count), per_user), lengths)
    # The number of a row's trajectory among those of its user.
    number = np.repeat(np.arange(len(lengths)) - np.repeat(users.users[:-1], per_user), lengths)
    columns = {
        "user": owner,
        "trajectory": number,
        "step": _step_numbers(users, lengths),
        "state": users.states,
        "reward": users.rewards,
    }
    if users.actions is not None:
        columns["action"] = users.actions
    if users.probabilities is not None:
        columns["probability"] = users.probabilities
    has_no_rows = users.trajectories[users.users[1:]] == users.trajectories[users.users[:-1]]
    lost = np.flatnonzero(~users.valid | has_no_rows)
    without_state = np.zeros(len(owner), np.bool_)
    if len(lost):
        # Rows of valid users, and one row for each lost user, in the order of users.
        kept = users.valid[owner]
        order = np.argsort(np.concatenate([owner[kept], lost]), kind="stable")
        columns = {
            name: np.concatenate([values[kept], np.zeros(len(lost), values.dtype)])[order]
            for name, values in columns.items()
        }
        columns["user"] = np.concatenate([owner[kept], lost])[order]
        without_state = order >= kept.sum()
    columns["user"] = columns["user"] + first
    return pa.record_batch(
        {
            name: pa.array(values, mask=without_state if name == "state" else None)
            for name, values in columns.items()
        }
    )


def _step_numbers(users: LoggedUsers, lengths: Any) -> Any:
    """The number of each row within its trajectory. A gap skips a number."""
    step = np.arange(len(users.states)) - np.repeat(users.trajectories[:-1], lengths)
    if users.gaps is None:
        return step
    skipped = np.cumsum(users.gaps)
    filled = lengths > 0
    skipped_before = np.repeat(skipped[users.trajectories[:-1][filled]], lengths[filled])
    return step + skipped - skipped_before


def write(
    path: str | Path,
    users: LoggedUsers | Iterable[LoggedUsers],
    *,
    lists: bool = False,
    rows: int = GROUP,
) -> None:
    """Write users, in order, to a Parquet file, with ids that count from 0.

    There is one row per step, or one per trajectory with `lists`. A row group has at least so many
    `rows`, but the last.
    """
    need("logs", "a log")
    target = arguments.path("path", path)
    convert = as_lists if arguments.flag("lists", lists) else as_steps
    arguments.whole("rows", rows, at_least=1)
    try:
        blocks = iter([users] if isinstance(users, LoggedUsers) else users)
    except TypeError:
        # An array without dimensions, for example.
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
    """Write record batches as row groups.

    The schema is that of the first batch, or `empty` if there is none.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    remaining = iter(batches)
    group = list(islice(remaining, 1))
    schema = group[0].schema if group else empty
    with pq.ParquetWriter(str(path), schema) as writer:
        for batch in remaining:
            if batch.schema != schema:
                raise LogError("all blocks must have the same columns")
            if sum(part.num_rows for part in group) >= rows:
                writer.write_table(pa.Table.from_batches(group), row_group_size=1 << 30)
                group = []
            group.append(batch)
        writer.write_table(pa.Table.from_batches(group, schema), row_group_size=1 << 30)
