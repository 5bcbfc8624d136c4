"""Raw tables, read in batches: CSV, Parquet and Arrow files, data frames, Minari data sets."""

import codecs
import importlib
import os
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from confide._extras import need
from confide.arguments import has, regular_file
from confide.errors import InvalidParameter, LogError, MissingExtra
from confide.logs.columns import some
from confide.logs.mixed_cells import mixed_column

ROWS = 1 << 18  # at a time, of a table that can be cut
BLOCK = 1 << 22  # bytes at a time, of a text; Arrow reads 32 of them ahead
MINARI = "minari:"
Batches = Generator[Any, None, None]
Progress = Callable[[int, int], None]  # done and in all: bytes of a text, rows of a table
_UTF8 = (
    "not a text in UTF-8: save it as CSV in UTF-8, or convert it, "
    "such as with iconv -f WINDOWS-1252 -t UTF-8"
)
_BROKEN = "damaged or cut off; repair it, set --delimiter, or quote texts that contain it"
EXTENSIONS = "a CSV, Parquet or Arrow file, a data frame, or minari:NAME"


@dataclass(slots=True)
class CsvFormat:
    """How the rows of CSV files are read. A cell that is one of `labels` is never a missing one.

    Rows with another number of cells than the first one are left out, and counted in `wrong_rows`.
    NOT PRIVATE.
    """

    delimiter: str = ","
    labels: frozenset[str] = frozenset()
    wrong_rows: int = 0

    def skip(self, row: Any) -> str:  # noqa: ARG002 - Arrow calls it with the row
        self.wrong_rows += 1
        return "skip"


def batches(
    source: Any, names: list[str], csv_format: CsvFormat, progress: Progress | None
) -> Batches:
    """Record batches with these columns. A thread reads ahead. Sources are read one by one."""
    if isinstance(source, list):
        return _one_after_another(source, names, csv_format, progress)
    if isinstance(source, str) and source.startswith(MINARI):
        return _frame(minari_steps(source.removeprefix(MINARI)), names, progress)
    if not isinstance(source, str | os.PathLike):
        return _frame(_stream(source, names), names, progress)
    try:
        with regular_file(source).open("rb") as file:
            magic = file.read(6)
    except OSError as error:
        raise LogError(f"{source}: {error.strerror}") from None
    path = str(source)
    if magic[:4] == b"PAR1":
        return _ahead(_parquet(path, names, progress))
    if magic == b"ARROW1":
        return _ahead(_arrow(path, names, progress))
    return _ahead(_csv(path, names, csv_format, progress))


def _one_after_another(
    sources: list[Any], names: list[str], csv_format: CsvFormat, progress: Progress | None
) -> Batches:
    """Each source is the same share of the progress."""
    unit, every = 1000, len(sources)
    for place, source in enumerate(sources):

        def part(done: int, total: int, place: int = place) -> None:
            assert progress is not None
            progress(unit * place + unit * done // max(total, 1), unit * every)

        yield from batches(source, names, csv_format, None if progress is None else part)


def _ahead(coming: Batches) -> Batches:
    """The same, with the next one read ahead by a thread, which ends when this is closed."""
    with closing(coming), ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, coming, None)
        while (batch := waiting.result()) is not None:
            waiting = reader.submit(next, coming, None)
            yield batch


def _csv(path: str, names: list[str], csv_format: CsvFormat, progress: Progress | None) -> Batches:
    import pyarrow as pa
    from pyarrow import csv

    _header(path, names, csv_format.delimiter)
    missing = [text for text in csv.ConvertOptions().null_values if text not in csv_format.labels]
    kinds = dict.fromkeys(names, pa.binary())  # text that is not in UTF-8 is found cell by cell
    convert = csv.ConvertOptions(
        column_types=kinds, include_columns=names, strings_can_be_null=True, null_values=missing
    )
    read = csv.ReadOptions(block_size=BLOCK)
    parse = csv.ParseOptions(
        delimiter=csv_format.delimiter, newlines_in_values=True, invalid_row_handler=csv_format.skip
    )
    size = os.stat(path).st_size
    with (
        _quoting_nothing(path),
        open(path, "rb") as file,
        pa.input_stream(file, compression=_packed(path)) as stream,
    ):
        reader = csv.open_csv(
            stream, read_options=read, parse_options=parse, convert_options=convert
        )
        for batch in reader:
            if progress is not None:
                progress(min(file.tell(), size), size)
            if batch.num_rows:
                yield batch


def _packed(path: str) -> str | None:
    return {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}.get(Path(path).suffix)


def _header(path: str, names: list[str], delimiter: str) -> None:
    """Refuse a file whose first line does not name the columns, and say which it names."""
    import csv

    import pyarrow as pa

    with _quoting_nothing(path), pa.input_stream(path, compression=_packed(path)) as stream:
        start = bytes(stream.read(1 << 16))
    line = start.removeprefix(codecs.BOM_UTF8).split(b"\n", 1)[0].rstrip(b"\r")
    if not line or b"\0" in line:
        raise LogError(
            f"{path}: not a CSV file with a header; confide logs import reads {EXTENSIONS}. "
            "Save a spreadsheet as CSV in UTF-8"
        )
    try:
        found = next(csv.reader([line.decode()], delimiter=delimiter))
    except (UnicodeDecodeError, csv.Error):
        raise LogError(f"{path}: {_UTF8}") from None
    _check_names(path, names, found)


def _check_names(where: str, names: list[str], found: list[str]) -> None:
    for name in names:
        if found.count(name) != 1:
            problem = "there twice" if name in found else "missing"
            hint = (
                "; a CSV file with another separator needs --delimiter" if len(found) == 1 else ""
            )
            raise LogError(
                f"{where}: column {name!r} is {problem}, the file has {some(found)}{hint}"
            )


@contextmanager
def _quoting_nothing(path: str) -> Iterator[None]:
    """Errors of a reader without its words, which may quote the data."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowMemoryError, LogError):
        raise
    except UnicodeDecodeError:
        raise LogError(f"{path}: {_UTF8}") from None
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise LogError(f"{path}: {_UTF8 if 'UTF8' in str(error) else _BROKEN}") from None


def _parquet(path: str, names: list[str], progress: Progress | None) -> Batches:
    import pyarrow.parquet as pq

    with (
        _quoting_nothing(path),
        pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file,
    ):
        _check_names(path, names, file.schema_arrow.names)
        done, rows = 0, file.metadata.num_rows
        for batch in file.iter_batches(ROWS, columns=names):
            done += batch.num_rows
            if progress is not None:
                progress(done, rows)
            yield batch


def _arrow(path: str, names: list[str], progress: Progress | None) -> Batches:
    import pyarrow as pa
    from pyarrow import ipc

    with _quoting_nothing(path), pa.memory_map(path) as memory:
        file = ipc.open_file(memory)
        _check_names(path, names, file.schema.names)
        for number in range(file.num_record_batches):
            whole = file.get_batch(number)
            whole.validate()
            yield from _cut(whole.select(names))
            if progress is not None:
                progress(number + 1, file.num_record_batches)


def _cut(whole: Any) -> Iterator[Any]:
    for start in range(0, whole.num_rows, ROWS):
        yield whole.slice(start, ROWS)


def _pandas_reader(frame: Any, names: list[str]) -> Any:
    """A reader of some columns of a pandas frame. A column of objects is read cell by cell."""
    import pyarrow as pa

    _check_names("the data frame", names, [str(name) for name in frame.columns])
    columns = {str(name): frame[name] for name in frame.columns if str(name) in names}
    arrays = {}
    for name, column in columns.items():
        of_objects = getattr(column.dtype, "categories", column).dtype.kind == "O"
        arrays[name] = (
            mixed_column(column.astype(object))
            if of_objects
            else pa.array(column, from_pandas=True)
        )
    return pa.table(arrays).to_reader()


def _stream(source: Any, names: list[str]) -> Any:
    """A reader of record batches of a frame that speaks one of the two protocols."""
    import pyarrow as pa

    members = ("iterate_episodes", "observation_space")
    if all(hasattr(source, member) for member in members):
        return minari_steps(source)
    try:
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(source, pandas.DataFrame):
            return _pandas_reader(source, names)
        if hasattr(source, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(source)
        if hasattr(source, "__dataframe__"):
            from pyarrow import interchange

            return interchange.from_dataframe(source).to_reader()
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError, RuntimeError) as error:
        raise LogError(
            f"this data frame cannot be read: {type(error).__name__}; "
            "write it to a Parquet file first"
        ) from None
    raise InvalidParameter.of("source", f"must be {EXTENSIONS}, got {type(source).__name__}")


def _frame(reader: Any, names: list[str], progress: Progress | None) -> Batches:
    del progress  # a stream does not say how long it is
    with _quoting_nothing("the data frame"):
        _check_names("the data frame", names, reader.schema.names)
        for batch in reader:
            yield from _cut(batch.select(names))


def minari_steps(dataset: Any, user: Callable[[Any], int | str] | None = None) -> Any:
    """The steps of a Minari data set (or of its name) as a stream.

    Columns are user, trajectory, step, state, reward, and action where it is discrete. Each episode
    is a user of its own, unless `user(episode)` says. Only observations that are one of finitely
    many are states.
    """
    need("logs", "a log")
    import pyarrow as pa

    data, spaces = _minari(dataset)
    if not isinstance(data.observation_space, spaces.Discrete):
        kind = type(data.observation_space).__name__
        raise InvalidParameter(
            f"the observations of a Minari data set must be Discrete to be states, got {kind}; "
            "make them states first"
        )
    indices = np.asarray(data.episode_indices)
    if not len(indices):
        raise LogError("the Minari data set has no episodes")
    owners = (
        indices
        if user is None
        else np.array([user(episode) for episode in data.iterate_episodes(indices)])
    )
    if owners.dtype.kind not in "iuU":
        raise InvalidParameter.of(
            "user", f"must return whole numbers or strings, got {owners.dtype}"
        )
    acts = isinstance(data.action_space, spaces.Discrete)
    starts = int(data.observation_space.start), int(data.action_space.start) if acts else 0
    rows = _minari_batches(data.iterate_episodes(indices), owners, starts, acts)
    first = next(rows)
    return pa.RecordBatchReader.from_batches(first.schema, _chained(first, rows))


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _minari(dataset: Any) -> tuple[Any, Any]:
    try:
        minari, spaces = (
            importlib.import_module("minari"),
            importlib.import_module("gymnasium.spaces"),
        )
    except ImportError:
        raise MissingExtra("Minari data sets need Minari: pip install 'confide[minari]'") from None
    try:
        data = minari.load_dataset(dataset) if isinstance(dataset, str) else dataset
    except (OSError, ValueError, LookupError, ImportError) as error:
        raise InvalidParameter.of(
            "dataset", f"must be a Minari data set, or the name of one: {type(error).__name__}"
        ) from None
    members = ("observation_space", "action_space", "episode_indices", "iterate_episodes")
    has("dataset", data, members, "a Minari data set, or the name of one")
    return data, spaces


def _minari_batches(
    episodes: Any, owners: Any, starts: tuple[int, int], acts: bool
) -> Iterator[Any]:
    import pyarrow as pa

    for number, (owner, episode) in enumerate(zip(owners, episodes, strict=True)):
        rewards = np.asarray(episode.rewards, float)
        steps = len(rewards)
        columns: dict[str, Any] = {
            "user": np.repeat(owner, steps),
            "trajectory": np.repeat(number, steps),
            "step": np.arange(steps),
        }
        columns |= {
            "state": np.asarray(episode.observations, np.int64)[:-1] - starts[0],
            "reward": rewards,
        }
        if acts:
            columns["action"] = np.asarray(episode.actions, np.int64) - starts[1]
        yield pa.record_batch({name: pa.array(values) for name, values in columns.items()})
