"""What reaches a terminal.

Names from files and arguments are shown and never obeyed: their control characters are escaped
here, once, for everything that the command line prints.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# An error has at most this many characters, because a wide file has megabytes of names. A matter of
# taste.
LONGEST = 1_000
# All control characters except newline and tab, characters without width, characters that change
# the direction of text, and halves of characters.
_CONTROL = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_ANY = re.compile(_CONTROL)
_COLOURS = re.compile(rf"\x1b\[[0-9;]*m|{_CONTROL}")
_PROGRESS = re.compile(rf"\x1b\[[0-9;?]*[A-Za-z]|\r|{_CONTROL}")


def visible(text: str, obeyed: re.Pattern[str] = _ANY) -> str:
    """The text with its control characters escaped.

    Sequences of several characters that `obeyed` matches stay, and so does a carriage return.
    """
    return obeyed.sub(lambda match: _escape(match[0]), text)


def _escape(match: str) -> str:
    if len(match) > 1 or match == "\r":
        return match
    return match.encode("unicode_escape", "surrogatepass").decode()


def one_line(message: str) -> str:
    """An error or a warning, on one line of a sane length."""
    line = visible(" ".join(message.split()))
    if len(line) <= LONGEST:
        return line
    return f"{line[:LONGEST]}... ({len(line) - LONGEST:,} more characters)"


class Terminal:
    """A stream that escapes what a terminal would obey, and what its encoding cannot express.

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
    """Guard standard output, on which rich uses colours, and standard error with its progress."""
    before = sys.stdout, sys.stderr
    # Python has no stream for a descriptor that was closed (>&-). Nobody reads what is written
    # there.
    stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stdout = Terminal(stdout, _COLOURS)
    sys.stderr = Terminal(stderr, _PROGRESS)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
