"""Logs of other kinds as Parquet files: CSV, and Minari data sets with discrete observations."""

import importlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from confide.arguments import has, regular
from confide.errors import InvalidParameter, LogError, MissingExtra
from confide.logs.arrays import NULL, whole_numbers
from confide.logs.columns import Columns
from confide.logs.writing import write_batches

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_INTEGER = r"^\s*-?\d{1,18}\s*$"


def from_csv(
    path: str | Path,
    out: str | Path,
    *,
    user: str = "user",
    trajectory: str | None = "trajectory",
    step: str | None = "step",
    state: str = "state",
    reward: str = "reward",
    action: str | None = None,
    probability: str | None = None,
) -> None:
    """One row per step of a CSV file with a header, as Parquet under the same names; in bounded memory, and in the same order.

    A cell that is not a number becomes null, which is a bad row of that user and nobody else's. Ids are whole numbers if all of the first
    megabyte are, else strings.
    """
    columns = Columns(user, trajectory, step, state, reward, action, probability)
    try:
        regular(path)
    except OSError as error:
        raise LogError(f"{path}: {error.strerror}") from None
    batches = _csv_batches(str(path), columns)
    first = next(batches, None)
    if first is None:
        raise LogError(f"{path}: there is nothing after the header")
    write_batches(out, chain([first], batches), first.schema)


def _csv_batches(path: str, columns: Columns) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    names = [name for name in columns.all if name is not None]
    options = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), include_columns=names, strings_can_be_null=True)
    try:
        with csv.open_csv(path, convert_options=options) as reader:
            kinds: dict[str, Any] = {}
            for batch in reader:
                for name in (columns.user, columns.trajectory):
                    if name is not None and name not in kinds:
                        whole = pc.all(pc.match_substring_regex(batch.column(name), _INTEGER)).as_py() is not False
                        kinds[name] = pa.int64() if whole else pa.string()
                yield pa.record_batch({name: _converted(batch.column(name), name, columns, kinds) for name in names})
    except pa.ArrowKeyError:
        raise LogError(f"{path}: the header must name {', '.join(map(repr, names))}") from None
    except FileNotFoundError:
        raise LogError(f"{path}: No such file or directory") from None
    except (pa.ArrowException, OSError):  # without what Arrow says: it quotes the row
        raise LogError(f"{path}: not a CSV file with a header and equal rows") from None


def _converted(column: Any, name: str, columns: Columns, kinds: dict[str, Any]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if kinds.get(name) == pa.string():
        return column
    pattern = _INTEGER if name in kinds else _NUMBER
    fits = pc.match_substring_regex(column, pattern).fill_null(False)
    if name == columns.user and pc.any(pc.and_(column.is_valid(), pc.invert(fits))).as_py():
        raise LogError(
            f"column {name!r} starts with whole numbers and continues with other values: write all values as whole numbers, or all as text"
        )
    text = pc.utf8_trim_whitespace(pc.if_else(fits, column, pa.scalar(None, pa.string())))
    if name in kinds:
        return text.cast(pa.int64())
    numbers = pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64())
    if name in (columns.reward, columns.probability):
        return numbers
    whole = whole_numbers(numbers)
    return pa.array(whole, mask=whole == NULL)


def from_minari(dataset: Any, out: str | Path, *, user: Callable[[Any], int | str] | None = None) -> None:
    """A Minari data set (or its name) as Parquet, one row per trajectory. Each episode is a user of its own, unless `user(episode)` says.

    Only observations that are one of finitely many are states. Actions are kept where they are of that kind.
    """
    try:
        minari, spaces = importlib.import_module("minari"), importlib.import_module("gymnasium.spaces")
    except ImportError:
        raise MissingExtra("Minari data sets need Minari: pip install 'confide[minari]'") from None
    try:
        data = minari.load_dataset(dataset) if isinstance(dataset, str) else dataset
    except (OSError, ValueError, LookupError, ImportError) as error:
        raise InvalidParameter(f"dataset must be a Minari data set, or the name of one: {type(error).__name__}") from None
    members = ("observation_space", "action_space", "episode_indices", "iterate_episodes")
    has("dataset", data, members, "a Minari data set, or the name of one")
    if not isinstance(data.observation_space, spaces.Discrete):
        kind = type(data.observation_space).__name__
        raise InvalidParameter(
            f"the observations of a Minari data set must be Discrete to be states, got {kind}; make them states first"
        )
    indices = np.asarray(data.episode_indices)
    owners = indices if user is None else np.array([user(episode) for episode in data.iterate_episodes(indices)])
    if owners.dtype.kind not in "iuU":
        raise InvalidParameter(f"user must return whole numbers or strings, got {owners.dtype}")
    order = np.argsort(owners, kind="stable")
    with_actions = isinstance(data.action_space, spaces.Discrete)
    starts = int(data.observation_space.start), int(data.action_space.start) if with_actions else 0
    rows = _minari_batches(data.iterate_episodes(indices[order]), owners[order], starts, with_actions)
    first = next(rows, None)
    if first is None:
        raise LogError("the Minari data set has no episodes")
    write_batches(out, chain([first], rows), first.schema, rows=100_000)


def _minari_batches(episodes: Any, owners: Any, starts: tuple[int, int], with_actions: bool) -> Iterator[Any]:
    import pyarrow as pa

    for owner, episode in zip(owners, episodes, strict=True):
        columns = {
            "state": np.asarray(episode.observations, np.int64)[:-1] - starts[0],
            "reward": np.asarray(episode.rewards, float),
        }
        if with_actions:
            columns["action"] = np.asarray(episode.actions, np.int64) - starts[1]
        lists = {name: pa.array([values]) for name, values in columns.items()}
        yield pa.record_batch({"user": pa.array([owner.item()]), **lists})
