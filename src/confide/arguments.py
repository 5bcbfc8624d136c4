"""Checks of arguments. Each names the argument, says what was expected and what came, and returns what was checked.

They are for public parameters: an error about them may show their value. Nobody's data come here.
"""

import errno
import math
import os
import stat
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from confide._memory import usable_memory
from confide.errors import InvalidParameter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Value = TypeVar("Value")
# the largest whole number that any argument may be: sums of this many are exact in floating point
LARGEST_INTEGER = 10**15
MOST_ENTRIES = 2**31  # of all arrays that one object may make: 16 GB
BYTES_PER_NUMBER = 8  # bytes
# The copies of an array that exist at the same time while an object is made and checked.
COPIES = 3
# Arrays with fewer numbers are not compared with the available memory, which takes a millisecond.
_SMALL_ARRAY = 2**22
_SHOWN = 60


def shown(value: Any) -> str:
    """A value in an error: short, printable, and never an error itself."""
    try:
        text = repr(value)
    except Exception:  # an object of somebody's own, or a number of more digits than Python prints
        text = f"a value of type {type(value).__name__}"
    text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def whole(
    name: str, value: Any, *, at_least: int | None = None, at_most: int = LARGEST_INTEGER
) -> int:
    """A whole number, as an int; no bool, and no float even if it is whole."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise InvalidParameter.of(name, "must be a whole number", got=shown(value))
    number = int(value)
    if at_least is not None and number < at_least:
        raise InvalidParameter.of(name, f"must be at least {at_least}", got=shown(value))
    if abs(number) > at_most:
        raise InvalidParameter.of(name, f"must be at most {_limit(at_most)}", got=shown(value))
    return number


def _limit(number: int) -> str:
    """A limit in an error: 1e15, but 536870911 with all digits."""
    short = f"{number:g}".replace("e+", "e")
    return short if float(short) == number else str(number)


def real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    finite: bool = True,
) -> float:
    """A real number in a range, as a float; no bool, never NaN, and infinite only where `finite` is False."""
    expected = _range(above, at_least, below, at_most, finite)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameter.of(
            name, f"must be a number{f', {expected}' if expected else ''}", got=shown(value)
        )
    try:
        number = float(value)
    except OverflowError:  # a whole number of some hundred digits
        number = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    inside = (
        (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    )
    if math.isnan(number) or not inside or (finite and math.isinf(number)):
        raise InvalidParameter.of(name, f"must be {expected or 'a number'}", got=shown(value))
    return number


def _range(
    above: float | None,
    at_least: float | None,
    below: float | None,
    at_most: float | None,
    finite: bool,
) -> str:
    """In words: in [0, 1), positive and finite, at least 3."""
    low, high = above if at_least is None else at_least, below if at_most is None else at_most
    if low is not None and high is not None:
        return f"in {'(' if at_least is None else '['}{low:g}, {high:g}{')' if at_most is None else ']'}"
    limits = []
    if low is not None:
        strict = at_least is None
        zero = "positive" if strict else "non-negative"
        limits.append(zero if low == 0 else f"{'above' if strict else 'at least'} {low:g}")
    if high is not None:
        limits.append(f"{'below' if at_most is None else 'at most'} {high:g}")
    return " and ".join([*limits, *(["finite"] if finite else [])])


def choice(name: str, value: Any, options: Iterable[Value]) -> Value:
    """One of a few values, most often texts."""
    known = tuple(options)
    for option in known:
        if type(value) is type(option) and value == option:
            return option
    raise InvalidParameter.of(
        name, f"must be one of {', '.join(map(str, known))}", got=shown(value)
    )


def flag(name: str, value: Any) -> bool:
    if type(value).__name__ not in ("bool", "bool_"):
        raise InvalidParameter.of(name, "must be True or False", got=shown(value))
    return bool(value)


def text(name: str, value: Any, *, empty: bool = True) -> str:
    """A text that can be printed: it stands in names, tables and files."""
    if not isinstance(value, str) or not value.isprintable() or not (empty or value.strip()):
        expected = "a printable text" if empty else "a printable text, and not empty"
        raise InvalidParameter.of(name, f"must be {expected}", got=shown(value))
    return value


def kind(name: str, value: Any, *types: type, expected: str = "") -> Any:
    """An object of one of these types."""
    if not isinstance(value, types):
        expected = expected or " or ".join(each.__name__ for each in types)
        raise InvalidParameter.of(name, f"must be {expected}", got=shown(value))
    return value


def private_kind(name: str, value: Any, *types: type) -> Any:
    """An object of one of these types that may hold somebody's data: an error about it names its type alone."""
    if not isinstance(value, types):
        expected = " or ".join(each.__name__ for each in types)
        raise InvalidParameter.of(
            name, f"must be {expected}, got a value of type {type(value).__name__}"
        )
    return value


def has(name: str, value: Any, members: Sequence[str], expected: str) -> Any:
    """An object of anybody's own that has these members, where a Protocol says what is expected."""
    missing = [member for member in members if not hasattr(value, member)]
    if isinstance(value, type) or missing:
        lacking = f", which has no {missing[0]}" if missing and not isinstance(value, type) else ""
        raise InvalidParameter.of(name, f"must be {expected}", got=shown(value), advice=lacking)
    return value


def path(name: str, value: Any) -> str:
    """The name of a file or folder."""
    if isinstance(value, str | os.PathLike):
        found = os.fspath(value)
        if isinstance(found, str) and found and "\0" not in found:
            return found
    raise InvalidParameter.of(name, "must be the name of a file or folder", got=shown(value))


def listed(name: str, value: Any, *types: type) -> list[Any]:
    """A list of objects of these types; a text is none."""
    try:
        found = None if isinstance(value, str | bytes | dict) else list(value)
    except TypeError:  # also an array without dimensions, which claims to be iterable
        found = None
    if found is None or not all(isinstance(each, types) for each in found):
        expected = " or ".join(each.__name__ for each in types)
        raise InvalidParameter.of(name, f"must be a list of {expected}", got=shown(value))
    return found


def read_text(source: str | os.PathLike[str], most: int = 2**28) -> str:
    """A text in UTF-8, from a file: not from a pipe or a device, which may never end, and of at most `most` bytes."""
    try:
        return regular_file(source, most).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidParameter(f"{os.fspath(source)} must be a text in UTF-8, and is not") from None


def regular_file(source: Any, most: int | None = None) -> Path:
    """The path of a file that ends; `OSError` where there is none."""
    found = Path(path("path", source))
    facts = found.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(
            errno.EINVAL,
            "a folder" if stat.S_ISDIR(facts.st_mode) else "not a regular file",
            str(found),
        )
    if most is not None and facts.st_size > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(found))
    return found


def array(
    name: str, value: Any, *, ndim: int | None = None, finite: bool = True
) -> "npt.NDArray[np.float64]":
    """An array of real numbers, as float64; a copy only where it is not one already."""
    import numpy as np

    try:
        found = np.asarray(value)
        if found.dtype.kind not in "biuf":
            raise TypeError
        found = found.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter.of(name, "must be an array of numbers", got=shown(value)) from None
    if ndim is not None and found.ndim != ndim:
        raise InvalidParameter.of(
            name, f"must be an array of {ndim} dimension{'s'[: ndim != 1]}, got shape {found.shape}"
        )
    if finite and not np.isfinite(found).all():
        raise InvalidParameter.of(
            name, "must be finite, and some of its entries are NaN or infinite"
        )
    return found


def integers(name: str, value: Any) -> "npt.NDArray[np.int64]":
    """An array of whole numbers, as int64; floats only where they are whole."""
    import numpy as np

    numbers = (
        value if isinstance(value, np.ndarray) and value.dtype.kind in "iu" else array(name, value)
    )
    if numbers.dtype.kind == "f" and (np.rint(numbers) != numbers).any():
        raise InvalidParameter.of(name, "must be an array of whole numbers", got=shown(value))
    if numbers.size and np.abs(numbers).max() > LARGEST_INTEGER:
        raise InvalidParameter.of(
            name, f"must be an array of whole numbers, at most {LARGEST_INTEGER:g}"
        )
    return np.ascontiguousarray(numbers, dtype=np.int64)


def generator(name: str, value: Any) -> "np.random.Generator":
    import numpy as np

    found: np.random.Generator = kind(
        name, value, np.random.Generator, expected="a numpy.random.Generator"
    )
    return found


def sizes(**given: tuple[Any, int]) -> list[int]:
    """Several whole numbers at once: the value and the least that it may be, by name."""
    return [whole(name, value, at_least=least) for name, (value, least) in given.items()]


def check_size(*, copies: int = 1, **sizes: int) -> None:
    """Refuse an array of these sizes before it is made, if so many copies of it are more than makes sense here."""
    entries = copies * math.prod(map(int, sizes.values()))  # NumPy's small integers would overflow
    if entries > MOST_ENTRIES or (
        entries > _SMALL_ARRAY and _needs_too_much(BYTES_PER_NUMBER * entries)
    ):
        given = ", ".join(f"{name}={shown(size)}" for name, size in sizes.items())
        raise InvalidParameter(
            f"{', '.join(sizes)} are too large: {entries:.3g} numbers do not fit into memory, got {given}: choose smaller ones"
        )


def _needs_too_much(size: int) -> bool:
    usable = usable_memory()
    return usable is not None and size > usable
