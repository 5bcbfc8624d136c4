"""Checks of arguments. They return what was checked, in its plain type.

An error names the argument, what was expected and what came. These checks are for public
parameters, whose values an error may show. Nobody's data come here, except to `private_kind`.
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
# The largest whole number that any argument may be. Taste, but below 2^53, because sums of this
# many users must be exact in floating point.
LARGEST_INTEGER = 10**15
# All arrays of one object may have so many numbers together, which are 16 GB. Taste.
MOST_ENTRIES = 2**31
BYTES_PER_NUMBER = 8
# So many copies of an array exist at the same time while an object is made and checked.
COPIES = 3
# Arrays with fewer numbers are not compared with the available memory, which takes a millisecond.
# Taste.
_SMALL_ARRAY = 2**22
# An error shows at most so many characters of a value. Taste.
_LONGEST_VALUE = 60
# `read_text` reads at most so many bytes. Taste.
_LONGEST_TEXT = 2**28


def shown(value: Any) -> str:
    """A value as an error shows it: short and printable. This never raises an error itself."""
    try:
        text = repr(value)
    except Exception:
        # An object of somebody's own class, or a number with more digits than Python prints.
        text = f"a value of type {type(value).__name__}"
    text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def whole(
    name: str, value: Any, *, at_least: int | None = None, at_most: int = LARGEST_INTEGER
) -> int:
    """A whole number, as an int. A bool is refused, and so is a float, even if it is whole."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise InvalidParameter.of(name, "must be a whole number", got=shown(value))
    number = int(value)
    if at_least is not None and number < at_least:
        raise InvalidParameter.of(name, f"must be at least {at_least}", got=shown(value))
    if abs(number) > at_most:
        raise InvalidParameter.of(name, f"must be at most {_limit(at_most)}", got=shown(value))
    return number


def _limit(number: int) -> str:
    """A limit as an error shows it: 1e15, but 536870911 with all digits."""
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
    """A real number in a range, as a float.

    It is never NaN, and infinite only if `finite` is False. A bool is refused.
    """
    expected = _range_in_words(above, at_least, below, at_most, finite)
    if isinstance(value, bool) or not isinstance(value, Real):
        range_in_words = f", {expected}" if expected else ""
        raise InvalidParameter.of(name, f"must be a number{range_in_words}", got=shown(value))
    try:
        number = float(value)
    except OverflowError:
        # A whole number of some hundred digits.
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


def _range_in_words(
    above: float | None,
    at_least: float | None,
    below: float | None,
    at_most: float | None,
    finite: bool,
) -> str:
    """A range as an error shows it, such as "in [0, 1)", "positive and finite" or "at least 3"."""
    low = above if at_least is None else at_least
    high = below if at_most is None else at_most
    if low is not None and high is not None:
        left = "(" if at_least is None else "["
        right = ")" if at_most is None else "]"
        return f"in {left}{low:g}, {high:g}{right}"
    limits = []
    if low is not None:
        strict = at_least is None
        zero = "positive" if strict else "non-negative"
        limits.append(zero if low == 0 else f"{'above' if strict else 'at least'} {low:g}")
    if high is not None:
        limits.append(f"{'below' if at_most is None else 'at most'} {high:g}")
    if finite:
        limits.append("finite")
    return " and ".join(limits)


def choice(name: str, value: Any, options: Iterable[Value]) -> Value:
    """One of a few values, most often texts."""
    choices = tuple(options)
    for option in choices:
        if type(value) is type(option) and value == option:
            return option
    raise InvalidParameter.of(
        name, f"must be one of {', '.join(map(str, choices))}", got=shown(value)
    )


def flag(name: str, value: Any) -> bool:
    """True or False, of Python or of NumPy."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise InvalidParameter.of(name, "must be True or False", got=shown(value))
    return bool(value)


def text(name: str, value: Any, *, empty: bool = True) -> str:
    """A text that can be printed, because it stands in names, tables and files."""
    if not isinstance(value, str) or not value.isprintable() or not (empty or value.strip()):
        expected = "a printable text" if empty else "a printable text, and not empty"
        raise InvalidParameter.of(name, f"must be {expected}", got=shown(value))
    return value


def kind(name: str, value: Any, *types: type, expected: str = "") -> Any:
    """An object of one of these types. `expected` says in an error what is expected."""
    if not isinstance(value, types):
        expected = expected or " or ".join(each.__name__ for each in types)
        raise InvalidParameter.of(name, f"must be {expected}", got=shown(value))
    return value


def private_kind(name: str, value: Any, *types: type) -> Any:
    """An object of one of these types that may hold somebody's data.

    An error about it names its type, and shows nothing of it.
    """
    if not isinstance(value, types):
        expected = " or ".join(each.__name__ for each in types)
        raise InvalidParameter.of(
            name, f"must be {expected}, got a value of type {type(value).__name__}"
        )
    return value


def has(name: str, value: Any, members: Sequence[str], expected: str) -> Any:
    """An object of any class that has these members, where a Protocol says what is expected.

    `expected` says it in an error.
    """
    missing = [member for member in members if not hasattr(value, member)]
    if isinstance(value, type) or missing:
        lacking = f", which has no {missing[0]}" if missing and not isinstance(value, type) else ""
        raise InvalidParameter.of(name, f"must be {expected}", got=shown(value), advice=lacking)
    return value


def path(name: str, value: Any) -> str:
    """The name of a file or folder."""
    if isinstance(value, str | os.PathLike):
        place = os.fspath(value)
        if isinstance(place, str) and place and "\0" not in place:
            return place
    raise InvalidParameter.of(name, "must be the name of a file or folder", got=shown(value))


def listed(name: str, value: Any, *types: type) -> list[Any]:
    """A list of objects of these types. A text is not one."""
    try:
        items = None if isinstance(value, str | bytes | dict) else list(value)
    except TypeError:
        # Also an array without dimensions comes here, although it claims to be iterable.
        items = None
    if items is None or not all(isinstance(each, types) for each in items):
        expected = " or ".join(each.__name__ for each in types)
        raise InvalidParameter.of(name, f"must be a list of {expected}", got=shown(value))
    return items


def read_text(source: str | os.PathLike[str], most: int = _LONGEST_TEXT) -> str:
    """Read a text in UTF-8 from a file of at most `most` bytes.

    A pipe or a device is refused, because it may never end.
    """
    try:
        return regular_file(source, most).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidParameter(f"{os.fspath(source)} must be a text in UTF-8, and is not") from None


def regular_file(source: Any, most: int | None = None) -> Path:
    """The path of a regular file of at most `most` bytes. Other places raise `OSError`."""
    place = Path(path("path", source))
    facts = place.stat()
    if not stat.S_ISREG(facts.st_mode):
        problem = "a folder" if stat.S_ISDIR(facts.st_mode) else "not a regular file"
        raise OSError(errno.EINVAL, problem, str(place))
    if most is not None and facts.st_size > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(place))
    return place


def array(
    name: str, value: Any, *, ndim: int | None = None, finite: bool = True
) -> "npt.NDArray[np.float64]":
    """An array of real numbers, as float64. It is copied only if it has another type."""
    import numpy as np

    try:
        numbers = np.asarray(value)
        if numbers.dtype.kind not in "biuf":
            raise TypeError
        numbers = numbers.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter.of(name, "must be an array of numbers", got=shown(value)) from None
    if ndim is not None and numbers.ndim != ndim:
        dimensions = "1 dimension" if ndim == 1 else f"{ndim} dimensions"
        raise InvalidParameter.of(
            name, f"must be an array of {dimensions}, got shape {numbers.shape}"
        )
    if finite and not np.isfinite(numbers).all():
        raise InvalidParameter.of(
            name, "must be finite, and some of its entries are NaN or infinite"
        )
    return numbers


def integers(name: str, value: Any) -> "npt.NDArray[np.int64]":
    """An array of whole numbers, as int64. Floats are accepted if they are whole."""
    import numpy as np

    has_integers = isinstance(value, np.ndarray) and value.dtype.kind in "iu"
    numbers = value if has_integers else array(name, value)
    if numbers.dtype.kind == "f" and (np.rint(numbers) != numbers).any():
        raise InvalidParameter.of(name, "must be an array of whole numbers", got=shown(value))
    if numbers.size and np.abs(numbers).max() > LARGEST_INTEGER:
        raise InvalidParameter.of(
            name, f"must be an array of whole numbers, at most {LARGEST_INTEGER:g}"
        )
    return np.ascontiguousarray(numbers, dtype=np.int64)


def generator(name: str, value: Any) -> "np.random.Generator":
    """NumPy's random generator."""
    import numpy as np

    rng: np.random.Generator = kind(
        name, value, np.random.Generator, expected="a numpy.random.Generator"
    )
    return rng


def sizes(**given: tuple[Any, int]) -> list[int]:
    """Several whole numbers at once. Each is given as (value, the least that it may be)."""
    return [whole(name, value, at_least=least) for name, (value, least) in given.items()]


def check_size(*, copies: int = 1, **sizes: int) -> None:
    """Refuse an array of these sizes before it is made, if it does not fit into memory.

    It is refused if `copies` of it have more than MOST_ENTRIES numbers, or need more memory than
    this process may take.
    """
    # As Python's integers: NumPy's would overflow.
    entries = copies * math.prod(map(int, sizes.values()))
    if entries > MOST_ENTRIES or (
        entries > _SMALL_ARRAY and _needs_too_much(BYTES_PER_NUMBER * entries)
    ):
        given = ", ".join(f"{name}={shown(size)}" for name, size in sizes.items())
        raise InvalidParameter(
            f"{', '.join(sizes)} are too large: {entries:.3g} numbers do not fit into memory, "
            f"got {given}: choose smaller ones"
        )


def _needs_too_much(size: int) -> bool:
    usable = usable_memory()
    return usable is not None and size > usable
