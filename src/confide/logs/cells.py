"""Cells of a raw table as numbers: ids, times, states, actions, rewards and probabilities.

How a cell is read depends on that cell, on the options and on the type of its column, never on
other cells: a release is private for a person only if the rows of everybody else do not depend on
this person's cells. A cell that cannot be read is missing, and is counted. No table is refused
because of what is in its cells.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from confide.arguments import shown
from confide.errors import InvalidParameter, LogError
from confide.logs.arrays import Array, Flags, Ints
from confide.logs.labels import Vocabulary
from confide.logs.mixed_cells import is_mixed, number_text, text_of_bytes

Codes = np.ndarray[tuple[int], np.dtype[np.int32]]
MISSING = -1  # the code of a state or action that is not there
LARGEST = 2**31 - 2  # the largest state, action or number of a step
ISO = "iso"  # the format of times as in ISO 8601

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_NUMBER_WITH_COMMA = r"^\s*[+-]?(\d+,?\d*|,\d+)([eE][+-]?\d+)?\s*$"
_LEAP_YEAR = r"(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DAY = r"((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
_CLOCK = r"([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)?)?"
_DATE = rf"^(\d{{4}}-{_DAY}|{_LEAP_YEAR}-02-29)([T ]{_CLOCK})?$"
_ZONE = r"(Z|[+-]\d\d:?\d\d)$"


@dataclass(slots=True)
class Tally:
    """What was found in a column. NOT PRIVATE. `fix`: what to do if it cannot be read."""

    role: str
    name: str
    fix: str
    kind: str = ""
    cells: int = 0
    missing: int = 0
    unreadable: int = 0
    outside: int = 0  # values that are not among those declared

    def add(self, column: Any, missing: int, unreadable: int, outside: int = 0) -> None:
        """Count a batch."""
        self.kind = self.kind or _name_of_type(column.type)
        self.cells += len(column)
        self.missing += missing
        self.unreadable += unreadable
        self.outside += outside

    @property
    def lost(self) -> int:
        return self.missing + self.unreadable + self.outside


def _name_of_type(kind: Any) -> str:
    if is_mixed(kind):
        return "mixed"
    return "text" if _is_text(kind) else str(kind)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    from pyarrow import types

    narrow = types.is_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(narrow or types.is_large_binary(kind) or types.is_binary_view(kind))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def valid_text(column: Any) -> Any:
    """Text or bytes as text in UTF-8. A cell that is not UTF-8 is escaped: it is no number."""
    import pyarrow as pa

    try:
        text = column.cast(pa.string())
        text.validate(full=True)
    except pa.ArrowInvalid:
        cells = column.cast(pa.binary()).to_pylist()
        return pa.array(
            [None if cell is None else text_of_bytes(cell) for cell in cells], pa.string()
        )
    return text


def usual(column: Any, name: str) -> Any:
    """A column in one of few types: text as `string`, decimals as floats, no type as missing text.

    Categories of text remain categories. The type of a column is refused here, never what is in its
    cells.
    """
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if is_mixed(kind):
        return column
    if isinstance(kind, pa.BaseExtensionType):
        column, kind = column.storage, column.storage.type
    if types.is_dictionary(kind):
        if _is_text(kind.value_type):
            return pa.DictionaryArray.from_arrays(column.indices, valid_text(column.dictionary))
        column, kind = column.dictionary_decode(), kind.value_type
    if types.is_null(kind) or _is_text(kind) or _is_bytes(kind):
        return valid_text(column)
    if types.is_decimal(kind) or types.is_float16(kind):
        return column.cast(pa.float64(), safe=False)
    if types.is_nested(kind):
        raise LogError(
            f"column {name!r} holds lists; confide evaluate reads such files as they are"
        )
    return column


def texts(column: Any, name: str) -> Any:
    """Cells as text, or categories of text. A whole number has no decimal point: 17.0 is 17."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_decimal(column.type):  # more digits than a float has
        return _texts_of_numbers(column)
    column = usual(column, name)
    if is_mixed(column.type):
        return column.field("text")
    if types.is_dictionary(column.type) or types.is_string(column.type):
        return column
    if types.is_floating(column.type):
        return _texts_of_numbers(column.cast(pa.float64()))
    if types.is_integer(column.type) or types.is_boolean(column.type):
        return column.cast(pa.string())
    raise LogError(f"column {name!r} must hold whole numbers or text, got {column.type}")


def _texts_of_numbers(column: Any) -> Any:
    import pyarrow as pa

    encoded = column.dictionary_encode()
    values = [number_text(value) for value in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(
        encoded.indices, pa.array(values, pa.string())
    ).dictionary_decode()


def id_column(column: Any, name: str) -> Any:
    """Ids as text, or as whole numbers if their column has that type."""
    from pyarrow import types

    if types.is_integer(column.type) and not types.is_uint64(column.type):
        return column
    return texts(column, name)


def numbers(column: Any, tally: Tally, decimal: str = ".") -> Array:
    """As floats, NaN for cells without a finite number. `decimal`: the decimal mark of text."""
    column = usual(column, tally.name)
    found, missing = _numbers(column, tally.name, decimal)
    tally.add(column, missing, int(np.isnan(found).sum()) - missing)
    return found


def _numbers(column: Any, name: str, decimal: str = ".") -> tuple[Array, int]:
    """Finite numbers, NaN elsewhere, and how many cells are missing."""
    import pyarrow as pa

    if is_mixed(column.type):
        typed = _array_of(column.field("number"))
        found = np.where(np.isnan(typed), _parsed(column.field("text"), decimal), typed)
        missing = column.null_count
    elif pa.types.is_dictionary(column.type) or _is_text(column.type):
        text = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        found = _parsed(text, decimal)
        missing = text.null_count
    elif _is_number(column.type):
        found = _array_of(column.cast(pa.float64(), safe=False))
        missing = int(np.isnan(found).sum())
    else:
        raise LogError(f"column {name!r} must hold numbers, got {column.type}")
    return np.where(np.isfinite(found), found, np.nan), missing


def _array_of(column: Any) -> Array:
    found: Array = column.to_numpy(zero_copy_only=False)
    return found


def _parsed(column: Any, decimal: str = ".") -> Array:
    """Text as finite floats, NaN where it is none; the words true and false are 1 and 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar(None, pa.string())
    fits = pc.match_substring_regex(
        column, _NUMBER if decimal == "." else _NUMBER_WITH_COMMA
    ).fill_null(False)
    digits = pc.utf8_trim_whitespace(pc.if_else(fits, column, nothing))
    # A number has at most one sign.
    digits = pc.utf8_ltrim(digits, characters="+")
    if decimal != ".":
        digits = pc.replace_substring(digits, decimal, ".")
    try:
        found = _array_of(digits.cast(pa.float64()))
    except pa.ArrowInvalid:  # such as a number that is too large
        found = np.array([np.nan if text is None else float(text) for text in digits.to_pylist()])
    if not pc.all(fits).as_py() and column.null_count < len(column):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(pc.if_else(fits, nothing, column)))
        for word, number in (("true", 1.0), ("false", 0.0)):
            found = np.where(_flags(pc.equal(words, word)), number, found)
    return np.where(np.isfinite(found), found, np.nan)


def _flags(column: Any) -> Flags:
    flags: Flags = column.fill_null(False).to_numpy(zero_copy_only=False)
    return flags


_UNITS = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "min": 6 * 10**7,
    "h": 36 * 10**8,
    "d": 864 * 10**8,
    "w": 6048 * 10**8,
}  # microseconds
# Days and weeks are those of the calendar. The first Monday after 1970-01-01 was its fifth day.
_CALENDAR_STARTS = {"d": 0, "w": 4 * _UNITS["d"]}
_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Interval:
    """The length of a step: public, with a unit of time for timestamps, without one for numbers."""

    text: str

    def __post_init__(self) -> None:
        found = _LENGTH.fullmatch(self.text) if isinstance(self.text, str) else None
        units = ", ".join(_UNITS)
        if (
            found is None
            or not 0 < float(found[1]) < 1e15
            or found[2] not in ("", *_UNITS)
            or (found[2] and self._length < 1)
        ):
            raise InvalidParameter.of(
                "every",
                f"must be a length such as 4h or 30min (units: {units}), or a number where times "
                f"are numbers, got {shown(self.text)}",
            )

    @property
    def _parts(self) -> tuple[float, str]:
        found = _LENGTH.fullmatch(self.text)
        assert found is not None
        return float(found[1]), found[2]

    @property
    def _length(self) -> float:
        """In the units of the column: microseconds of timestamps."""
        number, unit = self._parts
        return number * _UNITS.get(unit, 1)

    @property
    def of_dates(self) -> bool:
        """Whether it is a length between timestamps, and not between numbers."""
        return bool(self._parts[1])

    @property
    def of_calendar(self) -> bool:
        """Whether steps are days or weeks of the calendar, and not counted from the first row."""
        return self._parts[1] in _CALENDAR_STARTS

    def numbers(self, ticks: Ints, first: Ints) -> Ints:
        """The step [row] of each time, if row `first` [row] has step 0. It may exceed `LARGEST`."""
        if not self.of_dates:
            times = _floats(ticks)
            with np.errstate(over="ignore"):
                # 0.3 is three times 0.1
                steps = np.floor((times - times[first]) / self._length + 1e-9)
            found: Ints = np.minimum(steps, LARGEST + 1).astype(np.int64)
            return found
        length = round(self._length)
        if not self.of_calendar:
            return (ticks - ticks[first]) // length
        place = (ticks - _CALENDAR_STARTS[self._parts[1]]) // length
        return place - place[first]


def _floats(ticks: Ints) -> Array:
    """What `_ticks_of_numbers` made of floats, undone."""
    bits: Ints = np.where(ticks < 0, ticks ^ np.int64(2**63 - 1), ticks)
    return bits.view(np.float64)


def _ticks_of_numbers(floats: Array) -> Ints:
    """Floats as whole numbers in the same order: their bits."""
    bits: Ints = np.ascontiguousarray(floats + 0.0).view(np.int64)  # no negative zero
    return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)


class Times:
    """A column of times as whole numbers in the same order: dates in microseconds, or float bits.

    A text is a number or a date of ISO 8601, whichever it has the form of; with `formats` it is a
    date in the first of them that fits, and numbers cannot be read. With `every`, times are of the
    one kind of which that is a length.
    """

    def __init__(self, tally: Tally, forms: tuple[str, ...], every: Interval | None) -> None:
        self.tally, self._forms, self._every = tally, forms, every
        self.dates = self.numbers = 0  # how many cells of each kind were read

    def read(self, column: Any) -> tuple[Ints, Flags]:
        """The numbers, and which rows have one."""
        column = usual(column, self.tally.name)
        dates, is_date, missing = self._dates(column)
        found = np.full(len(column), np.nan)
        if not self._forms and not _is_time(column.type):
            found, missing = _numbers(column, self.tally.name)
        if self._every is not None:
            is_date = is_date & self._every.of_dates
            found = np.where(self._every.of_dates, np.nan, found)
        there = is_date | ~np.isnan(found)
        self.dates += int(is_date.sum())
        self.numbers += int((there & ~is_date).sum())
        self.tally.add(column, missing, int((~there).sum()) - missing)
        ticks = np.where(is_date, dates, _ticks_of_numbers(np.where(np.isnan(found), 0.0, found)))
        return ticks, there

    def _dates(self, column: Any) -> tuple[Ints, Flags, int]:
        """Microseconds, which rows have a date, and how many cells are missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if is_mixed(column.type):
            stamps = pc.coalesce(column.field("time"), self._from_text(column.field("text")))
        elif pa.types.is_dictionary(column.type) or _is_text(column.type):
            text = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            stamps = self._from_text(text)
        elif _is_time(column.type):
            stamps = _microseconds(column)
        elif _is_number(column.type):
            stamps = pa.nulls(len(column), pa.timestamp("us"))
        else:
            raise LogError(
                f"column {self.tally.name!r} must hold timestamps or numbers, got {column.type}"
            )
        missing = column.null_count
        if pa.types.is_floating(column.type):
            missing = int(np.isnan(_array_of(column.cast(pa.float64()))).sum())
        ticks: Ints = stamps.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return ticks, stamps.is_valid().to_numpy(zero_copy_only=False), missing

    def _from_text(self, column: Any) -> Any:
        import pyarrow.compute as pc

        return pc.coalesce(*(_by_format(column, form) for form in self._forms or (ISO,)))


def _is_time(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_timestamp(kind) or types.is_date(kind))


def _by_format(column: Any, form: str) -> Any:
    """Timestamps, null where a text does not have the format."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if form == ISO:
        return _dates(column)
    try:
        return _real_days(
            column, pc.strptime(column, format=form, unit="us", error_is_null=True), form
        )
    except pa.ArrowException:
        raise LogError(
            f"--time-format {form!r} is not a format of dates, such as %d/%m/%Y %H:%M"
        ) from None


def _real_days(column: Any, found: Any, form: str) -> Any:
    """Arrow takes 31 February for 3 March: Python reads the first three days of a month again."""
    import pyarrow as pa
    import pyarrow.compute as pc

    early = pc.fill_null(pc.less_equal(pc.day(found), 3), False)
    try:
        datetime.strptime(datetime(2000, 1, 1).strftime(form), form)
    except ValueError:  # Python does not know this format
        return found
    wrong = [
        text for text in pc.unique(column.filter(early)).to_pylist() if not _is_date(text, form)
    ]
    return (
        pc.if_else(pc.is_in(column, pa.array(wrong, column.type)), None, found) if wrong else found
    )


def _is_date(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _dates(column: Any) -> Any:
    """ISO dates as timestamps, null where it is none; a text without a zone is in UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # not more than microseconds
    text = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"(\.\d{6})\d+", r"\1")
    nothing = pa.scalar(None, pa.string())
    text = pc.if_else(pc.match_substring_regex(text, _DATE).fill_null(False), text, nothing)
    zoned = pc.match_substring_regex(text, _ZONE)
    plain = _cast(pc.if_else(pc.invert(zoned), text, nothing), pa.timestamp("us"))
    with_zone = _cast(pc.if_else(zoned, text, nothing), pa.timestamp("us", "UTC"))
    return pc.coalesce(plain, with_zone.cast(pa.timestamp("us")))


def _microseconds(column: Any) -> Any:
    """Times as whole microseconds, rounded down. (Arrow rounds nanoseconds towards 1970.)"""
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type) or column.type.unit != "ns":
        return column.cast(pa.timestamp("us"), safe=False)
    nanoseconds = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    return pa.array(nanoseconds // 1000, mask=missing).cast(pa.timestamp("us"))


def _cast(text: Any, kind: Any) -> Any:
    """All cells at once; if one of them fails, cell by cell."""
    import pyarrow as pa

    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        if len(text) == 1:
            return pa.nulls(1, kind)
        return pa.concat_arrays(
            [_cast(text[place : place + 1], kind) for place in range(len(text))]
        )


class Categories:
    """A column of states or actions as codes: places of declared labels, or whole numbers.

    `declared`: the labels, or how many numbers there are; None: whole numbers. Labels do not come
    from the data: one person's label would change the numbers of everybody's labels.
    """

    def __init__(self, tally: Tally, declared: Vocabulary | int | None) -> None:
        self.tally = tally
        self._limit = declared - 1 if isinstance(declared, int) else LARGEST
        self._labels = dict(declared.numbers) if isinstance(declared, Vocabulary) else None
        self._folded = {label.casefold() for label in self._labels or ()}
        self.miswritten = False  # whether a cell is a label in other letters, upper or lower
        self.seen = np.zeros(
            len(declared.names) if isinstance(declared, Vocabulary) else declared or 0, np.bool_
        )

    def read(self, column: Any) -> Codes:
        codes, missing, unreadable, outside = (
            self._whole(column) if self._labels is None else self._coded(column, self._labels)
        )
        self.tally.add(column, missing, unreadable, outside)
        if len(self.seen):
            self.seen[codes[codes >= 0]] = True
        return codes

    def _coded(self, column: Any, labels: dict[str, int]) -> tuple[Codes, int, int, int]:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = texts(column, self.tally.name)
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        cells = [
            None if text is None else str(text).strip() for text in encoded.dictionary.to_pylist()
        ]
        known = np.array([self._code(text, labels) for text in cells] or [-2], np.int32)
        places = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        gone = pc.is_null(encoded).to_numpy(zero_copy_only=False)
        codes = np.where(gone, np.int32(-2), known[places])
        return (
            np.maximum(codes, np.int32(MISSING)),
            int((codes == -2).sum()),
            0,
            int((codes == -1).sum()),
        )

    def _code(self, text: str | None, labels: dict[str, int]) -> int:
        """-2: missing, -1: not among the labels."""
        if not text:
            return -2
        self.miswritten = self.miswritten or (
            text not in labels and text.casefold() in self._folded
        )
        return labels.get(text, -1)

    def _whole(self, column: Any) -> tuple[Codes, int, int, int]:
        parsed, missing = _numbers(usual(column, self.tally.name), self.tally.name)
        whole = np.floor(parsed) == parsed  # not NaN
        inside = whole & (parsed >= 0) & (parsed <= self._limit)
        codes = np.where(inside, np.where(inside, parsed, 0).astype(np.int32), np.int32(MISSING))
        return codes, missing, int((~whole).sum()) - missing, int((whole & ~inside).sum())
