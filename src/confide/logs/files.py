"""Files of logged rows, some thousand at a time: Parquet by row group, Arrow by record batch."""

import glob
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from confide.arguments import regular_file
from confide.errors import InvalidParameter, LogError
from confide.logs.columns import LogLayout

# How many rows are read at a time. A matter of taste: enough to forget that this is Python, few
# enough for a processor's cache.
BATCH = 1 << 16
SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
Paths = str | Path | Iterable[str | Path]


class Source(Protocol):
    """One file, or what reads like one. Picklable: it is opened where it is read."""

    @property
    def name(self) -> str: ...
    def schema(self) -> Any: ...
    def groups(self) -> list[int]:
        """How many rows each group has."""

    def read(
        self, groups: Sequence[int], layout: LogLayout, names: list[str]
    ) -> Iterator[tuple[int, Any]]:
        """These columns of these groups, as (group, record batch), in order."""

    def ends(self, user: str) -> tuple[Any, Any] | None:
        """A range that all user ids lie in, as the file itself states it; None if it does not."""


@dataclass(frozen=True, slots=True)
class ParquetSource:
    name: str

    def schema(self) -> Any:
        with reading(self.name), self._open() as file:
            return file.schema_arrow

    def groups(self) -> list[int]:
        with reading(self.name), self._open() as file:
            return [group.num_rows for group in self._row_groups(file)]

    def read(
        self, groups: Sequence[int], layout: LogLayout, names: list[str]
    ) -> Iterator[tuple[int, Any]]:
        with reading(self.name), self._open() as file:
            for group in groups:
                rows = BATCH
                if layout.lists:
                    rows = _lists_at_once(file.metadata.row_group(group), layout)
                with reading(f"{self.name}, row group {group}"):
                    for batch in file.iter_batches(rows, [group], names, use_threads=False):
                        yield group, batch

    def ends(self, user: str) -> tuple[Any, Any] | None:
        with reading(self.name), self._open() as file:
            schema = file.metadata.schema
            paths = [schema.column(i).path for i in range(file.metadata.num_columns)]
            place = paths.index(user)
            statistics = [
                group.column(place).statistics for group in self._row_groups(file) if group.num_rows
            ]
            stated = all(each is not None and each.has_min_max for each in statistics)
            if not statistics or not stated:
                return None
            return min(each.min for each in statistics), max(each.max for each in statistics)

    def _row_groups(self, file: Any) -> list[Any]:
        return [file.metadata.row_group(g) for g in range(file.metadata.num_row_groups)]

    def _open(self) -> Any:
        import pyarrow.parquet

        # A buffer instead of whole column chunks, because a row group may be larger than memory.
        return pyarrow.parquet.ParquetFile(self.name, buffer_size=1 << 20, pre_buffer=False)


@dataclass(frozen=True, slots=True)
class ArrowSource:
    """An Arrow (IPC, Feather) file, mapped into memory."""

    name: str

    def schema(self) -> Any:
        with reading(self.name), self._map() as memory:
            return _arrow_file(memory).schema

    def groups(self) -> list[int]:
        with reading(self.name), self._map() as memory:
            file = _arrow_file(memory, [0])
            return [file.get_batch(i).num_rows for i in range(file.num_record_batches)]

    def read(
        self, groups: Sequence[int], layout: LogLayout, names: list[str]
    ) -> Iterator[tuple[int, Any]]:
        with reading(self.name), self._map() as memory:
            schema = _arrow_file(memory).schema
            file = _arrow_file(memory, sorted(schema.get_field_index(name) for name in names))
            for group in groups:
                with reading(f"{self.name}, record batch {group}"):
                    whole = file.get_batch(group)
                    whole.validate()
                    yield from _slices(group, whole, layout, names)

    def ends(self, user: str) -> tuple[Any, Any] | None:  # noqa: ARG002
        return None

    def _map(self) -> Any:
        import pyarrow

        return pyarrow.memory_map(self.name)


@dataclass(frozen=True, slots=True)
class MemorySource:
    """A record batch that is in memory already.

    There is one source per batch, so that a worker is sent what it works on. `token` tells two of
    them apart, whoever is in them: what was asked of one log must not answer for another.
    """

    batch: Any = field(repr=False)
    name: str = "memory"
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    def schema(self) -> Any:
        return self.batch.schema

    def groups(self) -> list[int]:
        return [self.batch.num_rows]

    def read(
        self, groups: Sequence[int], layout: LogLayout, names: list[str]
    ) -> Iterator[tuple[int, Any]]:
        for group in groups:
            yield from _slices(group, self.batch, layout, names)

    def ends(self, user: str) -> tuple[Any, Any] | None:  # noqa: ARG002
        return None


def sources(paths: Paths) -> list[Source]:
    """The files of a path, a pattern, a folder or several of these, in the order of their names."""
    several = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    if not all(isinstance(path, str | Path) for path in several):
        raise InvalidParameter.of(
            "paths", "must be a file, a pattern, a folder or a list of these, as text or as Path"
        )
    names = [name for path in several for name in _matching(str(path))]
    if not names:
        raise LogError("no file to read: the list of paths is empty")
    if len({os.path.realpath(name) for name in names}) < len(names):
        raise LogError("a file is given twice, and so is every user in it")
    return [_source(name) for name in names]


def _matching(path: str) -> list[str]:
    if Path(path).is_dir():
        inside = sorted(
            str(file)
            for file in Path(path).rglob("*")
            if file.suffix in SUFFIXES and file.is_file()
        )
        if not inside:
            raise LogError(f"{path}: no file in this folder ends in {', '.join(SUFFIXES)}")
        return inside
    if Path(path).exists() or not glob.has_magic(path):
        return [path]
    matching = sorted(glob.glob(path, recursive=True))
    if not matching:
        raise LogError(f"{path}: no file matches this pattern")
    return matching


def _source(name: str) -> Source:
    """The kind of a file follows from what it starts with, whatever it is called."""
    try:
        with regular_file(name).open("rb") as file:
            magic = file.read(6)
    except OSError as error:
        raise LogError(f"{name}: {error.strerror}") from None
    if magic[:4] == b"PAR1":
        return ParquetSource(name)
    if magic == b"ARROW1":
        return ArrowSource(name)
    hint = ""
    if name.endswith((".csv", ".csv.gz")):
        hint = "; make it one with confide logs import, or confide.logs.import_log"
    raise LogError(f"{name}: neither a Parquet file nor an Arrow file{hint}")


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Errors below here become a `LogError` without what the reader says: it may quote the data."""
    import pyarrow

    try:
        yield
    except pyarrow.ArrowMemoryError:
        raise
    except (pyarrow.ArrowException, OSError, EOFError, KeyError, IndexError, ValueError) as error:
        reason = getattr(error, "strerror", None)
        reason = reason or "damaged, cut off or not of a kind that can be read"
        raise LogError(f"{where}: {reason}") from None


def _arrow_file(memory: Any, fields: list[int] | None = None) -> Any:
    from pyarrow import ipc

    return ipc.open_file(memory, options=ipc.IpcReadOptions(included_fields=fields))


def _slices(
    group: int, whole: Any, layout: LogLayout, names: list[str]
) -> Iterator[tuple[int, Any]]:
    rows = BATCH
    if layout.lists and whole.num_rows and layout.columns.state in names:
        elements = len(whole.column(layout.columns.state).flatten())
        rows = max(1, BATCH * whole.num_rows // max(elements, whole.num_rows))
    for start in range(0, whole.num_rows, rows):
        yield group, whole.slice(start, rows).select(names)


def _lists_at_once(group: Any, layout: LogLayout) -> int:
    """How many lists make about a batch. One list cannot be read in parts."""
    columns = [group.column(i) for i in range(group.num_columns)]
    elements: int = max(
        column.num_values
        for column in columns
        if column.path_in_schema.split(".")[0] == layout.columns.state
    )
    rows: int = group.num_rows
    return max(1, BATCH * rows // max(elements, rows, 1))
