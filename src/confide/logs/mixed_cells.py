"""Columns of a data frame whose cells are Python objects of any types.

There may be numbers, dates and text in one column. pandas turns a column of numbers into such a
column if one cell is text. Every cell must be read then as it would be read in a column of its own
type, or else that one cell would change what is read from all others. So such a column becomes a
struct with three fields: the text of the cell, its number, and its time, where it has one.
"""

from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np

_FIELDS = ("text", "number", "time")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING = (None, None, None)
# Python refuses to write integers with more than 4,300 digits in decimal.
_MOST_BITS = 4_000
_MOST_DIGITS = 1_000


def is_mixed(kind: Any) -> bool:
    """Whether an Arrow type is that of `mixed_column`."""
    from pyarrow import types

    return bool(types.is_struct(kind)) and tuple(field.name for field in kind) == _FIELDS


def mixed_column(cells: Any) -> Any:
    """Python objects as an Arrow column: of text if all are text, of the struct otherwise."""
    import pyarrow as pa

    cells = list(cells)
    kinds = set(map(type, cells))
    if kinds <= {str, type(None)}:
        return pa.array([None if cell is None else _encodable(cell) for cell in cells], pa.string())
    read = [_read(cell) for cell in cells]
    fields = [
        pa.array([text for text, _, _ in read], pa.string()),
        pa.array([number for _, number, _ in read], pa.float64()),
        pa.array([time for _, _, time in read], pa.timestamp("us")),
    ]
    missing = pa.array([each == _NOTHING for each in read], pa.bool_())
    return pa.StructArray.from_arrays(fields, names=list(_FIELDS), mask=missing)


def _read(cell: Any) -> tuple[str | None, float | None, int | None]:
    """The text, the number and the microseconds of one cell; all are None if it is missing."""
    if isinstance(cell, str):
        return _encodable(cell), None, None
    if isinstance(cell, bytes):
        return text_of_bytes(cell), None, None
    if isinstance(cell, np.timedelta64):
        # To NumPy this is an integer, but it is neither a number nor a moment.
        return _NOTHING
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).lower(), float(cell), None
    if isinstance(cell, Real | Decimal):
        return number_text(cell), _finite(cell), None
    if isinstance(cell, np.datetime64):
        if np.isnat(cell):
            return _NOTHING
        return None, None, int(cell.astype("datetime64[us]").astype(np.int64))
    # A `datetime` is a `date`, too.
    if isinstance(cell, date):
        return None, None, _microseconds(cell)
    return _NOTHING


def text_of_bytes(cell: bytes) -> str:
    """Bytes as text. What is not UTF-8 is escaped after a mark, so that ids remain different."""
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return "\ufffd" + cell.decode("utf-8", "backslashreplace")


def _encodable(text: str) -> str:
    """Halves of characters, which no file can have, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def number_text(number: Any) -> str | None:
    """A number as an id or a label is written: a whole one without a point, whatever its type is.

    None if it is not a number.
    """
    if number is None:
        return None
    if isinstance(number, Integral):
        exact = int(number)
        return str(exact) if exact.bit_length() < _MOST_BITS else hex(exact)
    if isinstance(number, Decimal):
        if number.is_nan():
            return None
        if not number.is_finite() or number.adjusted() > _MOST_DIGITS:
            return str(number)
        if number == number.to_integral_value():
            return str(int(number))
        return format(number.normalize(), "f")
    number = float(number)
    if np.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _finite(number: Any) -> float | None:
    try:
        value = float(number)
    except (OverflowError, ValueError):
        return None
    return value if np.isfinite(value) else None


def _microseconds(cell: date) -> int | None:
    if cell != cell:
        # pandas' NaT is a datetime.
        return None
    if not isinstance(cell, datetime):
        cell = datetime(cell.year, cell.month, cell.day)
    try:
        aware = cell.replace(tzinfo=UTC) if cell.tzinfo is None else cell.astimezone(UTC)
        since = aware - _EPOCH
        return (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    except (OverflowError, ValueError):
        return None
