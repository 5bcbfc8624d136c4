"""One user's cells never change what is read from the rows of others.

They never decide whether a table is imported, either. The sensitivity of every release assumes
this. One user's cells are replaced by everything that a cell may hold, column by column, in every
kind of table, and the rows of all other users are compared with those of the original table.
"""

import csv
import datetime
import decimal
import hashlib
import math

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from confide.logs import import_log, raw

USERS = 9
ROWS = 4
TARGET = "u3"
COLUMNS = {
    "user": "user",
    "stay": "stay",
    "time": "time",
    "state": "state",
    "action": "action",
    "probability": "chance",
}
TEXTS = [
    "",
    " ",
    "NA",
    "null",
    "nan",
    "-inf",
    "text",
    "ä\u202e\u00a0",
    'a "quoted" cell',
    "one,two;three",
    "line\nline\r\nline",
    "1,5",
    "1.000,5",
    "1e400",
    "-1e400",
    "9" * 400,
    "0x10",
    "1_000",
    "True",
    "+7",
    " 7 ",
    "7.0",
    "2",
    "99999999999999999999",
    "2024-02-30",
    "2023-02-29",
    "0000-01-01",
    "9999-12-31T23:59:59.999999999Z",
    "2024-01-01T10",
    "2024-01-01T10Z",
    "2024-01-01 10:00:00.5+01:00",
    "2024-01-01T10:00+99:99",
    "01/02/2024",
    "20240101",
    "other",
    "MILD",
    "mild ",
]
# What a typed column, or a cell of a data frame, may hold besides text.
OBJECTS = [
    None,
    math.nan,
    math.inf,
    -0.0,
    1e300,
    1.5,
    17.0,
    True,
    -1,
    2**31,
    2**53 + 1,
    2**200,
    10**5000,
    decimal.Decimal("NaN"),
    decimal.Decimal("sNaN"),
    decimal.Decimal("1E+900000"),
    decimal.Decimal("0.5"),
    b"\xff\xfe",
    "\ud800",
    datetime.date(2024, 1, 1),
    datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2024, 1, 1, 10),
    pandas.NaT,
    pandas.NA,
    np.datetime64("NaT"),
    np.timedelta64(5, "ns"),
    np.timedelta64("NaT"),
    np.float32(0.1),
    [1, 2],
    {"a": 1},
    object(),
]


def table_of(kind, times="dates"):
    """Columns by name. In `numbers` states and actions are numbers, otherwise labels."""
    rows = USERS * ROWS
    user, step = np.divmod(np.arange(rows), ROWS)
    numeric = kind == "numbers"
    dates = [datetime.datetime(2024, 1, 1 + place, 10 + place) for place in range(ROWS)]
    return {
        "user": [f"u{number}" for number in user],
        "stay": (step // 2).tolist(),
        "time": [dates[place] for place in step] if times == "dates" else (step / 2).tolist(),
        "state": (user % 2).tolist()
        if numeric
        else [("mild", "severe")[number] for number in user % 2],
        "action": (step % 2).tolist()
        if numeric
        else [("low", "high")[number] for number in step % 2],
        "chance": [0.5] * rows,
        "reward": (step / 4 + user).tolist(),
    }


def options_of(kind):
    numeric = kind == "numbers"
    return {
        "states": 2 if numeric else ["mild", "severe"],
        "actions": 2 if numeric else ["low", "high"],
    }


class Importer:
    """Imports tables in a folder, and tells the rows of everybody but the target."""

    def __init__(self, folder):
        self._folder = folder

    def rows(self, source, **options):
        """By user, without the target; and how many users there are, the target included."""
        columns = COLUMNS | {"probability": options.pop("probability", "chance")}
        import_log(source, self._folder / "log.parquet", **columns, **options)
        rows = pq.read_table(self._folder / "log.parquet").to_pylist()
        key = bytes.fromhex((self._folder / "confide.key").read_text())
        digest = hashlib.blake2b(TARGET.encode(), key=key, digest_size=8).digest()
        target = int.from_bytes(digest) >> 1
        return [row for row in rows if row["user"] != target], {row["user"] for row in rows} | {
            target
        }

    def csv(self, columns, **form):
        path = self._folder / "raw.csv"
        with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            writer = csv.writer(file, **form)
            writer.writerow(columns)
            for row in zip(*columns.values(), strict=True):
                writer.writerow([_as_csv(cell) for cell in row])
        return path


def _as_csv(cell):
    return (
        "" if cell is None else cell.isoformat(" ") if isinstance(cell, datetime.datetime) else cell
    )


@pytest.fixture
def importer(tmp_path):
    return Importer(tmp_path)


def changed(columns, name, values):
    """The columns with other cells of the target in one of them."""
    cells = list(columns[name])
    mine = [place for place, user in enumerate(columns["user"]) if user == TARGET]
    for place, value in zip(mine, values, strict=True):
        cells[place] = value
    return columns | {name: cells}


def replacements(values):
    """All cells of the target, and one of them, in groups of as many rows as the target has."""
    for start in range(0, len(values), ROWS):
        group = values[start : start + ROWS]
        yield group + [None] * (ROWS - len(group))
    yield [values[0]] * ROWS


def check(importer, source_of, columns, values, names=None, **options):
    """Compare everybody else's rows for every replacement in every column."""
    others, users = importer.rows(source_of(columns), **options)
    assert len(users) == USERS and len(others) == (USERS - 1) * ROWS
    for name in names or columns:
        # Another id is another user.
        if name == "user":
            continue
        for group in replacements(values):
            imported_rows = importer.rows(source_of(changed(columns, name, group)), **options)
            assert imported_rows == (others, users), (name, group)


@pytest.mark.parametrize("kind", ["labels", "numbers"])
@pytest.mark.parametrize(
    ("times", "every"), [("dates", None), ("numbers", None), ("dates", "4h"), ("dates", "1d")]
)
def test_cells_of_csv(importer, kind, times, every):
    form = {"quoting": csv.QUOTE_MINIMAL} if every is None else {"quoting": csv.QUOTE_ALL}
    columns = table_of(kind, times)
    check(
        importer,
        lambda table: importer.csv(table, **form),
        columns,
        TEXTS,
        every=every,
        **options_of(kind),
    )


def test_cells_of_csv_with_other_options(importer):
    columns = table_of("labels")
    columns["time"] = [time.strftime("%d.%m.%Y %H:%M") for time in columns["time"]]
    columns["reward"] = [str(reward).replace(".", ",") for reward in columns["reward"]]
    options = {
        "delimiter": ";",
        "decimal": ",",
        "time_format": ["%d.%m.%Y %H:%M", "iso"],
        "probability": None,
    }
    check(
        importer,
        lambda table: importer.csv(table, delimiter=";"),
        columns,
        TEXTS,
        **options,
        **options_of("labels"),
    )


def test_cells_in_small_batches(importer, monkeypatch):
    """A batch may hold the cells of the target alone, and the first batch may be theirs."""
    monkeypatch.setattr(raw, "BLOCK", 1 << 9)
    check(
        importer, importer.csv, table_of("labels"), TEXTS, ["time", "state"], **options_of("labels")
    )


@pytest.mark.parametrize("kind", ["labels", "numbers"])
@pytest.mark.parametrize("times", ["dates", "numbers"])
def test_cells_of_pandas(importer, kind, times):
    """One cell of another type turns a column into one of objects."""
    check(
        importer, pandas.DataFrame, table_of(kind, times), TEXTS[::3] + OBJECTS, **options_of(kind)
    )


def test_times_before_1970_are_rounded_as_in_a_mixed_column(importer):
    """One cell turns a column of nanoseconds into one of objects, which has microseconds."""
    columns = table_of("labels")
    # The first two steps of everybody are just before and just after 1970. Rounded to zero, both
    # would be at 1970.
    columns["time"] = [
        pandas.Timestamp(1000 * (place % ROWS) - 500) for place in range(len(columns["user"]))
    ]
    assert pandas.DataFrame(columns)["time"].dtype.kind == "M"
    check(importer, pandas.DataFrame, columns, OBJECTS, ["time"], **options_of("labels"))


def test_formats_and_decimal_marks_are_of_text_in_a_mixed_column(importer):
    columns = table_of("labels")
    options = {"time_format": "%d.%m.%Y", "decimal": ",", **options_of("labels")}
    check(
        importer,
        pandas.DataFrame,
        columns,
        ["01.02.2024", "1.5", "1,5", 7],
        ["time", "reward", "chance"],
        **options,
    )


def test_cells_of_categories(importer):
    columns = table_of("labels")

    def frame(table):
        return pandas.DataFrame(table).astype({"state": "category", "action": "category"})

    # pandas has no hashes of these.
    without_hash = (list, dict, decimal.Decimal)
    hashable = [cell for cell in OBJECTS if not isinstance(cell, without_hash)]
    check(
        importer, frame, columns, TEXTS[::3] + hashable, ["state", "action"], **options_of("labels")
    )


TYPES = {
    "stay": pa.int64(),
    "time": pa.timestamp("ns", "UTC"),
    "state": pa.uint64(),
    "action": pa.float32(),
    "chance": pa.float64(),
    "reward": pa.decimal128(38, 2),
}
TYPED = {
    "stay": [None, 2**63 - 1, -(2**63), 0],
    "time": [
        None,
        datetime.datetime(1700, 1, 1),
        datetime.datetime(2200, 1, 1),
        datetime.datetime(1970, 1, 1),
    ],
    "state": [None, 2**64 - 1, 2**53 + 1, 7],
    "action": [None, math.nan, math.inf, 0.5],
    "chance": [None, math.nan, -1.0, 1e308],
    "reward": [None, decimal.Decimal("1e35"), decimal.Decimal("-0.01"), decimal.Decimal(0)],
}


def typed(columns):
    columns = columns | {
        "reward": [None if r is None else decimal.Decimal(str(r)) for r in columns["reward"]]
    }
    return pa.table({name: pa.array(cells, TYPES.get(name)) for name, cells in columns.items()})


@pytest.mark.parametrize("kind", ["parquet", "arrow", "table", "polars"])
def test_cells_of_typed_columns(importer, tmp_path, kind):
    def source(columns):
        table = typed(columns)
        if kind == "parquet":
            pq.write_table(table, tmp_path / "raw.parquet", row_group_size=7)
            return tmp_path / "raw.parquet"
        if kind == "arrow":
            feather.write_feather(
                table, tmp_path / "raw.arrow", compression="uncompressed", chunksize=5
            )
            return tmp_path / "raw.arrow"
        return polars.from_arrow(table) if kind == "polars" else table

    for name, values in TYPED.items():
        check(importer, source, table_of("numbers"), values, [name], **options_of("numbers"))


@pytest.mark.parametrize("make", [pa.table, polars.DataFrame])
def test_cells_of_text_columns_of_frames(importer, make):
    columns = {
        name: [_as_text(cell) for cell in cells] for name, cells in table_of("labels").items()
    }
    check(importer, make, columns, TEXTS, **options_of("labels"))


def _as_text(cell):
    return cell.isoformat() if isinstance(cell, datetime.datetime) else str(cell)


def test_bytes_that_are_no_text(importer, tmp_path):
    """In UTF-8 or not, a cell is read by itself; ids that differ remain different."""
    columns = table_of("labels")
    others, users = importer.rows(importer.csv(columns), **options_of("labels"))
    for name in list(columns)[1:]:
        path = importer.csv(changed(columns, name, ["?!"] * ROWS))
        path.write_bytes(path.read_bytes().replace(b"?!", b"\xff\xe4"))
        assert importer.rows(path, **options_of("labels")) == (others, users)
    ids = [b"\xe4", b"\xf6", "ä".encode(), b"\\xe4 "]
    path = tmp_path / "ids.csv"
    path.write_bytes(
        b"user,stay,time,state,action,chance,reward\n"
        + b"".join(i + b",0,1,mild,low,1,1\n" for i in ids)
    )
    assert len(importer.rows(path, **options_of("labels"))[1]) == len(ids) + 1


def test_ids_that_have_more_digits_than_a_float_are_different_users(importer):
    """Also if they are decimals, or floats in which one id has no whole number."""
    for ids, count in (
        ([decimal.Decimal(2**53), decimal.Decimal(2**53 + 1)], 2),
        ([1.0, 1.5, 2.0, math.nan], 3),
        ([2**63, 2**63 + 1], 2),
        ([17.0, 17, "17", " 17 ", decimal.Decimal("17.0")], 1),
    ):
        rows = len(ids)
        frame = pandas.DataFrame(
            {"user": ids, "state": [0] * rows, "reward": [1.0] * rows, "t": range(rows)}
        )
        import_log(frame, importer._folder / "ids.parquet", states=1, time="t")
        assert (
            len(set(pq.read_table(importer._folder / "ids.parquet")["user"].to_pylist())) == count
        )


@pytest.mark.parametrize("position", ["first", "last"])
def test_rows_and_whole_users_of_others(importer, position):
    """Users with many rows, a row twice, no row that can be read, and rows of a wrong length."""
    columns = table_of("labels")
    whole = list(zip(*columns.values(), strict=True))
    target = [row for row in whole if row[0] == TARGET]
    rest = [row for row in whole if row[0] != TARGET]
    others, _ = importer.rows(importer.csv(columns), **options_of("labels"))
    for mine in (target * 200, target[:1] * 2, [(TARGET, "", "", "", "", "", "")]):
        rows = mine + rest if position == "first" else rest + mine
        path = importer.csv(dict(zip(columns, zip(*rows, strict=True), strict=True)))
        assert importer.rows(path, **options_of("labels"))[0] == others
    path.write_text(path.read_text() + f"{TARGET},1\n{TARGET},1,2,3,4,5,6,7,8\n")
    assert importer.rows(path, **options_of("labels"))[0] == others
