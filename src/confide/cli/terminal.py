"""What reaches a terminal. Names from files and arguments are shown, never obeyed: their control characters are escaped here, once."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LONGEST = 1_000  # characters of an error: a wide file has megabytes of names
# Control characters but newline and tab, characters without width or that change the direction of text, halves of characters.
_CONTROL = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_ANY = re.compile(_CONTROL)
_COLOURS = re.compile(rf"\x1b\[[0-9;]*m|{_CONTROL}")
_PROGRESS = re.compile(rf"\x1b\[[0-9;?]*[A-Za-z]|\r|{_CONTROL}")


def visible(text: str, obeyed: re.Pattern[str] = _ANY) -> str:
    """The text with its control characters escaped, except for the longer sequences that `obeyed` matches."""
    return obeyed.sub(lambda found: _escaped(found[0]), text)


def _escaped(found: str) -> str:
    return (
        found
        if len(found) > 1 or found == "\r"
        else found.encode("unicode_escape", "surrogatepass").decode()
    )


def one_line(message: str) -> str:
    """An error or a warning, on one line of a sane length."""
    line = visible(" ".join(message.split()))
    return (
        line
        if len(line) <= LONGEST
        else f"{line[:LONGEST]}... ({len(line) - LONGEST:,} more characters)"
    )


class Terminal:
    """A stream that escapes what a terminal would obey, and what its encoding cannot express (LC_ALL=C).

    It has no `buffer`, so that nobody writes around it.
    """

    def __init__(self, stream: Any, obeyed: re.Pattern[str]) -> None:
        self._stream = stream
        self._obeyed = obeyed if stream.isatty() else _ANY

    def write(self, text: str) -> int:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        shown = visible(text, self._obeyed).encode(encoding, "backslashreplace").decode(encoding)
        self._stream.write(shown)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


@contextmanager
def terminals() -> Iterator[None]:
    """Standard output, on which rich draws in colours, and standard error, on which it draws progress."""
    before = sys.stdout, sys.stderr
    # Python has no stream for a descriptor that was closed (>&-): nobody reads what is written there.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stdout, sys.stderr = Terminal(sys.stdout, _COLOURS), Terminal(sys.stderr, _PROGRESS)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
