"""Hostile values, for the fuzzers of the command line and of the Python API."""

import math
import os
import signal
import traceback
from contextlib import contextmanager
from pathlib import Path

import numpy as np

WIDE = "wide" * 50_000
# A terminal that prints this changes its title.
TITLE = "\x1b]0;owned\x07"

NUMBERS = [
    "-1",
    "0",
    "1",
    "2",
    "3.5",
    "-0.0",
    "1e-320",
    "1e-9",
    "0.5",
    "1e300",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "9" * 400,
]
NUMBERS += [
    "-" + "9" * 400,
    str(10**18),
    str(2**63),
    "0x10",
    "1_0",
    "١",
    "½",
    "",
    " ",
    "true",
    "None",
    "--",
    "1e",
]
WHOLE = ["-1", "0", "1", "2", "3", "-7", str(10**18), str(2**63), "9" * 400, "-" + "9" * 400]
TEXTS = [
    "",
    " ",
    "x",
    "é",
    "ε=½",
    "\x1b[31mred",
    TITLE,
    "a\nb",
    "a\x00b"[:1] + "b",
    "\udce9",
    "‮rtl",
    "-",
    "--",
    "../..",
    "%s%n{0}{x}",
]
TEXTS += [
    "[red]markup[/red]",
    "[/]",
    "'; DROP TABLE spend; --",
    "nan",
    "-1",
    "0",
    "9" * 400,
    WIDE,
    "math:sqrt",
    "no.such:Class",
    ":",
    "a:b:c",
]

# What may stand where a Python caller means a number, a text, an array or an object.
VALUES = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    1.5,
    -0.5,
    0.0,
    1e-320,
    1e300,
    math.nan,
    math.inf,
    -math.inf,
    10**18,
    2**63,
    10**400,
]
VALUES += [
    -(10**400),
    1j,
    "",
    "x",
    "1",
    TITLE,
    b"x",
    (),
    [],
    [1, 2],
    ["x", None],
    {},
    {"a": 1},
    set(),
    object(),
    print,
    int,
    ...,
]
VALUES += [
    np.float64(math.nan),
    np.int64(-1),
    np.int8(3),
    np.float32(0.5),
    np.bool_(True),
    np.array(1),
    np.zeros(0),
    np.zeros((2, 3)),
]
VALUES += [
    np.full((2, 2), np.nan),
    np.array(["x"]),
    np.array([None]),
    np.array(object()),
    range(3),
    range(0),
    range(3, 0, -1),
]


def short(value: object) -> str:
    text = ascii(value)
    return text if len(text) < 60 else f"{text[:40]}... ({len(text)} characters)"


class TooLong(BaseException):
    """Not an Exception: nobody between the alarm and the fuzzer should catch it."""


@contextmanager
def limit(seconds: float):
    """Stop what is endless. Compiled code does not see it until it returns."""

    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def place(error: BaseException) -> str:
    """The type of an error, and the last line of confide that it went through."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if f"{os.sep}confide{os.sep}" in frame.filename
    ]
    last = frames[-1] if frames else None
    where = (
        ""
        if last is None
        else f" at {Path(last.filename).parent.name}/{Path(last.filename).name}:{last.lineno}"
    )
    return type(error).__name__ + where
