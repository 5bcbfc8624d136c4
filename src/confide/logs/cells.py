"""Cells of a raw table as numbers: ids, times, states, actions, rewards and probabilities. What cannot be read is counted, per column."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arguments import shown
from confide.errors import InvalidParameter, LogError
from confide.logs.arrays import NULL, Array, Flags, Ints, whole_numbers
from confide.logs.labels import LONGEST, MOST, Vocabulary

Codes = np.ndarray[tuple[int], np.dtype[np.int32]]
MISSING = -1  # the code of a state or action that is not there
LARGEST = 2**31 - 2  # the largest state or action
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_DAY = r"((0[1-9]|1[0-2])-(0[1-9]|1\d|2\d)|(0[13-9]|1[0-2])-30|(0[13578]|1[02])-31)"
_CLOCK = r"([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?"
_DATE = rf"^\d{{4}}-{_DAY}([T ]{_CLOCK})?$"
_ZONE = r"(Z|:\d\d[+-]\d\d:?\d\d)$"
ISO = "iso"  # the format of times as in ISO 8601
_FEW = 1000  # dates that look right and are none, such as the 29th of February 2021


@dataclass(slots=True)
class Tally:
    """What was found in a column. NOT PRIVATE. `fix`: what to do about a column that cannot be read."""

    role: str
    name: str
    fix: str
    kind: str = ""
    cells: int = 0
    missing: int = 0
    unreadable: int = 0
    outside: int = 0  # values that are not among those declared

    def add(self, column: Any, missing: int, unreadable: int, outside: int = 0) -> None:
        """Count a batch, and refuse a column of which most cells that are there cannot be read."""
        self.kind = self.kind or _said(column.type)
        self.cells += len(column)
        self.missing, self.unreadable, self.outside = self.missing + missing, self.unreadable + unreadable, self.outside + outside
        if unreadable > (len(column) - missing) / 2:
            raise LogError(f"column {self.name!r}: most of its cells are no {self.role}: {self.fix}")

    def refuse_empty(self) -> None:
        if self.cells == self.missing:
            optional = ", or leave it out" if self.role in ("stay", "time", "action", "probability") else ""
            raise LogError(
                f"column {self.name!r} is empty: every cell is missing; give another column for --{self.role}{optional}"
            )


def _said(kind: Any) -> str:
    return "text" if _is_text(kind) else str(kind)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def usual(column: Any, name: str) -> Any:
    """A column in one of few types: text (or categories of it) as `string`, decimals as floats, nothing as text that is missing."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column, kind = column.storage, column.storage.type
    try:
        if types.is_dictionary(kind):
            return pa.DictionaryArray.from_arrays(column.indices, usual(column.dictionary, name))
        if _is_text(kind) or types.is_null(kind):
            return column if types.is_string(kind) else column.cast(pa.string())
        if types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
            return column.cast(pa.binary())
        if types.is_decimal(kind) or types.is_float16(kind):
            return column.cast(pa.float64())
    except pa.ArrowException:
        raise LogError(f"column {name!r} of type {kind} cannot be read: write it as text or as numbers") from None
    if types.is_nested(kind):
        raise LogError(f"column {name!r} holds lists; confide evaluate and confide logs check read such files as they are")
    return column


def id_column(column: Any, name: str) -> Any:
    """Ids as text, bytes or whole numbers, or categories of these."""
    import pyarrow as pa

    column = usual(column, name)
    try:
        if pa.types.is_floating(column.type):  # pandas has no whole numbers where one is missing
            return column.cast(pa.int64())
        return column.cast(pa.string()) if column.type == pa.uint64() else column
    except pa.ArrowException:
        raise LogError(f"column {name!r} holds numbers that are not whole: ids must be whole numbers or text") from None


def numbers(column: Any, tally: Tally, decimal: str = ".") -> Array:
    """As floats, NaN for cells that are missing, or no finite number. `decimal`: the decimal mark of numbers that are text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = usual(column, tally.name)
    found: Array
    if _is_text(column.type):
        text = _decoded(column)
        found = _parsed(text if decimal == "." else pc.replace_substring(text, decimal, "."))
        missing = column.null_count
    elif _is_number(column.type):
        found = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        missing = int(np.isnan(found).sum())
    else:
        raise LogError(f"column {tally.name!r} must hold numbers, got {column.type}")
    found = np.where(np.isinf(found), np.nan, found)
    tally.add(column, missing, int(np.isnan(found).sum()) - missing)
    return found


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _decoded(column: Any) -> Any:
    import pyarrow as pa

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _parsed(column: Any) -> Array:
    """Text as floats, NaN where it is no number; cell by cell only if there is such a cell."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    except pa.ArrowInvalid:
        fits = pc.match_substring_regex(column, _NUMBER).fill_null(False)
        text = pc.utf8_trim_whitespace(pc.if_else(fits, column, pa.scalar(None, pa.string())))
        return pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


TIMESTAMPS, FLOATS, WHOLE = "timestamps", "decimal numbers", "whole numbers"  # kinds of times
_UNITS = {
    "us": 1,
    "ms": 10**3,
    "s": 10**6,
    "min": 6 * 10**7,
    "h": 36 * 10**8,
    "d": 864 * 10**8,
    "w": 6048 * 10**8,
}  # microseconds
_LENGTH = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Interval:
    """The length of a step: public, with a unit of time for timestamps, and without one for numbers."""

    text: str

    def __post_init__(self) -> None:
        found = _LENGTH.fullmatch(self.text) if isinstance(self.text, str) else None
        units = ", ".join(_UNITS)
        if found is None or not 0 < float(found[1]) < 1e15 or found[2] not in ("", *_UNITS) or (found[2] and self._length < 1):
            raise InvalidParameter(
                f"every must be a length such as 4h or 30min (units: {units}), or a number where times are numbers, got {shown(self.text)}"
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

    def check(self, kind: str, name: str) -> None:
        """Refuse a unit where the column holds numbers, and none where it holds timestamps."""
        if bool(self._parts[1]) != (kind == TIMESTAMPS):
            fix = "give a unit, as in 4h" if kind == TIMESTAMPS else "give a number without a unit"
            raise LogError(f"--every {self.text} does not fit column {name!r}, which holds {kind}: {fix}")

    def numbers(self, ticks: Ints, first: Ints, kind: str) -> npt.NDArray[np.int32]:
        """The number of the step [row] in which each time is, counted from the time of row `first` [row]."""
        if kind == TIMESTAMPS:
            found = (ticks - ticks[first]) // round(self._length)
        else:
            times = _floats(ticks) if kind == FLOATS else ticks
            found = np.floor((times - times[first]) / self._length + 1e-9)  # 0.3 is three times 0.1
        if len(found) and not found.max() < 2**31 - 1:
            raise LogError(f"--every {self.text} is too short: a trajectory would have more than 2147483646 steps")
        return found.astype(np.int32)


def _floats(ticks: Ints) -> Array:
    """What `_ticks` made of floats, undone."""
    bits: Ints = np.where(ticks < 0, ticks ^ np.int64(2**63 - 1), ticks)
    return bits.view(np.float64)


class Times:
    """A column of times as whole numbers in the same order: timestamps as microseconds, floats by their bits, whole numbers as they are.

    `kind`: which of them, after the first batch; batches of other kinds are refused, because their order means nothing.
    """

    def __init__(self, tally: Tally, forms: tuple[str, ...]) -> None:
        self.tally, self._forms, self._text, self.kind = tally, forms, "", ""

    def read(self, column: Any) -> tuple[Ints, Flags]:
        """The numbers, and which rows have one."""
        import pyarrow as pa
        from pyarrow import types

        column = usual(column, self.tally.name)
        missing = column.null_count
        if _is_text(column.type):
            found = self._from_text(_decoded(column))
        elif types.is_timestamp(column.type) or types.is_date(column.type):
            found = column.cast(pa.timestamp("us"), safe=False)
        elif _is_number(column.type):
            found = column
        else:
            raise LogError(f"column {self.tally.name!r} must hold timestamps or numbers, got {column.type}")
        kind = TIMESTAMPS if types.is_timestamp(found.type) else (FLOATS if types.is_floating(found.type) else WHOLE)
        if self.kind not in ("", kind):
            raise LogError(
                f"column {self.tally.name!r} holds {self.kind} in one file or batch and {kind} in another: use one kind"
            )
        self.kind = kind
        ticks, there = _ticks(found)
        if types.is_floating(column.type):
            missing = int((~there).sum())
        self.tally.add(column, missing, int((~there).sum()) - missing)
        return ticks, there

    def _from_text(self, column: Any) -> Any:
        """By the first of the formats that fits a cell; without formats numbers or ISO dates, as which most cells of the first batch
        can be read."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._forms:
            return pc.coalesce(*(_by_format(column, form) for form in self._forms))
        there = column.drop_null()
        if not self._text and len(there):
            numeric = pc.sum(pc.match_substring_regex(there, _NUMBER)).as_py()
            self._text = "numbers" if 2 * numeric >= len(there) else "dates"
        return _dates(column) if self._text == "dates" else pa.array(_parsed(column))


def _by_format(column: Any, form: str) -> Any:
    """Timestamps, null where a text does not have the format."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if form == ISO:
        return _dates(column)
    try:
        return _real_days(column, pc.strptime(column, format=form, unit="us", error_is_null=True), form)
    except pa.ArrowException:
        raise LogError(f"--time-format {form!r} is not a format of dates, such as %d/%m/%Y %H:%M") from None


def _real_days(column: Any, found: Any, form: str) -> Any:
    """Arrow takes 31 February for 3 March: texts that became one of the first three days of a month are read again by Python."""
    import pyarrow as pa
    import pyarrow.compute as pc

    early = pc.fill_null(pc.less_equal(pc.day(found), 3), False)
    try:
        datetime.strptime(datetime(2000, 1, 1).strftime(form), form)
    except ValueError:  # Python does not know this format
        return found
    wrong = [text for text in pc.unique(column.filter(early)).to_pylist() if not _is_date(text, form)]
    return pc.if_else(pc.is_in(column, pa.array(wrong, column.type)), None, found) if wrong else found


def _is_date(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _ticks(column: Any) -> tuple[Ints, Flags]:
    import pyarrow as pa
    from pyarrow import types

    there = np.ones(len(column), np.bool_)
    if column.null_count:
        there = column.is_valid().to_numpy(zero_copy_only=False)
    if types.is_floating(column.type):
        floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0  # no negative zero
        bits: Ints = np.ascontiguousarray(floats).view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits), there & ~np.isnan(floats)
    if types.is_timestamp(column.type):
        column = column.view(pa.int64())
    return np.where(there, whole_numbers(column), 0), there


def _dates(column: Any) -> Any:
    """ISO dates as timestamps, null where it is none; with a zone where the text has one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
    first = column.drop_null()[:1]
    with_zones = len(first) > 0 and pc.match_substring_regex(first, _ZONE)[0].as_py()
    try:
        return column.cast(kinds[with_zones]).cast(kinds[0])
    except pa.ArrowInvalid:
        pass
    text = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"(\.\d{6})\d+", r"\1")  # not more than microseconds
    text = pc.if_else(pc.match_substring_regex(text, _DATE).fill_null(False), text, pa.scalar(None, pa.string()))
    zoned = pc.match_substring_regex(text, _ZONE)
    plain, with_zone = (
        _cast(pc.if_else(flags, text, pa.scalar(None, pa.string())), kind, [_FEW])
        for flags, kind in ((pc.invert(zoned), kinds[0]), (zoned, kinds[1]))
    )
    return pc.coalesce(plain, with_zone.cast(kinds[0]))


def _cast(text: Any, kind: Any, tries: list[int]) -> Any:
    """Cell by cell around those that fail, at most so many times."""
    import pyarrow as pa

    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        tries[0] -= 1
        if len(text) == 1 or tries[0] < 0:
            return pa.nulls(len(text), kind)
        half = len(text) // 2
        return pa.concat_arrays([_cast(text[:half], kind, tries), _cast(text[half:], kind, tries)])


class Categories:
    """A column of states or actions as codes: the places of its labels, or whole numbers as they are.

    `declared`: the labels, or how many numbers there are; None: whole numbers, or, if `collect`, the labels that are found.
    """

    def __init__(self, tally: Tally, declared: Vocabulary | int | None, collect: bool) -> None:
        self.tally, self._collect = tally, collect and declared is None
        self._limit = declared - 1 if isinstance(declared, int) else LARGEST
        self._labelled = isinstance(declared, Vocabulary)
        self._labels = dict(declared.numbers) if isinstance(declared, Vocabulary) else {}
        self._folded, self.miswritten = (
            {label.casefold() for label in self._labels},
            False,
        )  # a label in other letters, upper or lower
        self.seen = np.zeros(len(declared.names) if isinstance(declared, Vocabulary) else declared or 0, np.bool_)

    @property
    def found(self) -> list[str]:
        """Labels that were taken from the data, in the order of their codes."""
        return list(self._labels) if self._collect else []

    def read(self, column: Any) -> Codes:
        column = usual(column, self.tally.name)
        self._labelled = self._labelled or (self._collect and _is_text(column.type))
        codes, missing, unreadable, outside = self._coded(column) if self._labelled else self._whole(column)
        self.tally.add(column, missing, unreadable, outside)
        if len(self.seen):
            self.seen[codes[codes >= 0]] = True
        return codes

    def _coded(self, column: Any) -> tuple[Codes, int, int, int]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_floating(column.type):  # pandas has no whole numbers where one is missing
            whole = whole_numbers(column)
            column = pa.array(whole, mask=(whole == NULL) | np.isnan(column.to_numpy(zero_copy_only=False)))
        if not _is_text(column.type):
            column = column.cast(pa.string())
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        texts = [None if text is None else str(text).strip() for text in encoded.dictionary.to_pylist()]
        known = np.array([self._code(text) for text in texts] or [-2], np.int32)
        places = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        gone = pc.is_null(encoded).to_numpy(zero_copy_only=False)
        codes = np.where(gone, np.int32(-2), known[places])
        empty, bad = int((codes == -2).sum()), int((codes == -1).sum())
        unreadable, outside = (bad, 0) if self._collect else (0, bad)
        return np.maximum(codes, np.int32(MISSING)), empty, unreadable, outside

    def _code(self, text: str | None) -> int:
        """-2: missing, -1: not among the labels."""
        if not text:
            return -2
        if self._collect and text not in self._labels and text.isprintable() and len(text) <= LONGEST:
            if len(self._labels) == MOST:
                raise LogError(
                    f"column {self.tally.name!r} has more than {MOST:,} different values: make them fewer states first"
                )
            self._labels[text] = len(self._labels)
        self.miswritten = self.miswritten or (text not in self._labels and text.casefold() in self._folded)
        return self._labels.get(text, -1)

    def _whole(self, column: Any) -> tuple[Codes, int, int, int]:
        import pyarrow as pa

        if _is_text(column.type):
            parsed = _parsed(_decoded(column))
            missing = column.null_count
        elif _is_number(column.type):
            parsed = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            missing = int(np.isnan(parsed).sum())
        else:
            raise LogError(f"column {self.tally.name!r} must hold whole numbers or text, got {column.type}")
        whole = np.floor(parsed) == parsed  # not NaN
        inside = whole & (parsed >= 0) & (parsed <= self._limit)
        codes = np.where(inside, np.where(inside, parsed, 0).astype(np.int32), np.int32(MISSING))
        return codes, missing, int((~whole).sum()) - missing, int((whole & ~inside).sum())
