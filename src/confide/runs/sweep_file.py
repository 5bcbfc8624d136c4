"""Read a sweep from a TOML file. Errors name the key, its line and the nearest valid spelling.

Keys of the file may be added. A key that changes its name breaks the files of users.
"""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confide import arguments
from confide.errors import ConfideError, InvalidParameter
from confide.runs.sweep import Sweep, agent_choice, nearest, problem_choice

KEYS = ("name", "agents", "problems", "episodes", "seeds", "privacy")
# The keys of the table [privacy], and the fields of a `Sweep` that they set.
PRIVACY = {"epsilons": "epsilons", "delta": "delta", "trust": "trust", "none": "no_privacy"}
# The types that a key may have, and how an error describes them.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "name": ((str,), "a text"),
    "agents": ((list,), "a list"),
    "problems": ((list,), "a list"),
    "seeds": ((int, list), "a whole number or a list of them"),
    "episodes": ((int,), "a whole number"),
    "epsilons": ((list,), "a list of numbers"),
    "delta": ((int, float), "a number"),
    "trust": ((str,), "a text"),
    "none": ((bool,), "true or false"),
}


def read_sweep(path: str | Path) -> Sweep:
    """Read and check the file of a sweep."""
    source = Path(arguments.path("sweep", path))
    try:
        text = arguments.read_text(source)
    except OSError as error:
        raise InvalidParameter(f"cannot read {source}: {error.strerror}") from None
    return parse_sweep(text, source.name, default_name=source.stem)


def parse_sweep(text: str, file: str = "sweep.toml", *, default_name: str = "comparison") -> Sweep:
    """The sweep that a text describes. `file` is its name in errors."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise InvalidParameter(f"{file}: {error}") from None
    places = _Places(text, file)
    _check_keys(document, places, file)
    privacy = document.pop("privacy", {})
    if not isinstance(privacy, dict):
        raise places.error("privacy", f"privacy must be a table, [privacy], got {privacy!r}")
    for key in privacy:
        if key not in PRIVACY:
            raise places.error(key, f"unknown key privacy.{key}{nearest(key, tuple(PRIVACY))}")
    for key, value in {**document, **privacy}.items():
        types, description = _KINDS[key]
        # In Python a bool is an int.
        is_misplaced_bool = isinstance(value, bool) and bool not in types
        if not isinstance(value, types) or is_misplaced_bool:
            raise places.error(key, f"{key} must be {description}, got {value!r}")
    _check_each("agents", document["agents"], agent_choice, places)
    _check_each("problems", document["problems"], _check_problem, places)
    chosen = {
        "name": default_name,
        **document,
        **{PRIVACY[key]: value for key, value in privacy.items()},
    }
    _check_alone(chosen, places)
    try:
        return Sweep(**chosen)
    except ConfideError as error:
        raise places.error(_key_of(error, "agents"), str(error)) from None


_EXAMPLE = {"agents": '"ucrl-vtr"', "problems": '"lock"'}


def _check_keys(document: dict[str, Any], places: "_Places", file: str) -> None:
    """Refuse unknown keys, and name the missing ones."""
    for key in document:
        if key not in KEYS:
            hint = nearest(key, KEYS)
            if key in PRIVACY:
                hint = "; it belongs into the table [privacy]"
            raise places.error(key, f"unknown key {key}{hint}")
    for key, example in _EXAMPLE.items():
        if key not in document:
            raise InvalidParameter(
                f"{file}: the key {key} is missing: a list of names, such as {key} = [{example}]"
            )


def _check_problem(entry: Any) -> None:
    """Whether there is such a problem, or such a file. It is not built, which may take long."""
    import os

    from confide.problems.catalogue import PROBLEMS, is_environment

    text = problem_choice(entry).problem
    if text in PROBLEMS or is_environment(text):
        return
    is_file_name = os.sep in text or text.endswith(".npz") or Path(text).is_file()
    if not is_file_name:
        raise InvalidParameter(f"unknown problem {text!r}{nearest(text.lower(), tuple(PROBLEMS))}")
    if not Path(text).is_file():
        raise InvalidParameter(f"no such file: {text}")


def _check_each(
    key: str, values: list[Any], check: Callable[[Any], object], places: "_Places"
) -> None:
    for index, value in enumerate(values):
        try:
            check(value)
        except ConfideError as error:
            raise places.error(key, error, index=index, value=value) from None


def _check_alone(chosen: dict[str, Any], places: "_Places") -> None:
    """Check each number on its own, so that an error names its line.

    The other fields of the trial sweep are valid.
    """
    valid: dict[str, Any] = {"agents": ["uniform"], "problems": ["lock"]}
    key_of_field = {field: key for key, field in PRIVACY.items()}
    for field in ("epsilons", "delta", "trust", "episodes", "seeds"):
        if field in chosen:
            try:
                Sweep(**valid, **{field: chosen[field]})
            except ConfideError as error:
                raise places.error(key_of_field.get(field, field), str(error)) from None


def _key_of(error: ConfideError, otherwise: str) -> str:
    """The key of the file that an error is about."""
    parameter = error.parameter if isinstance(error, InvalidParameter) else ""
    return parameter if parameter in ("agents", "problems", "epsilons", *KEYS) else otherwise


class _Places:
    """Where in the file a key, or one entry of its list, stands.

    The standard reader of TOML does not tell, so lines are searched for. If nothing is found, an
    error names no line; it never names a wrong key.
    """

    def __init__(self, text: str, file: str) -> None:
        self._lines = text.splitlines()
        self._file = file

    def error(
        self,
        key: str,
        message: str | ConfideError,
        *,
        index: int | None = None,
        value: Any = None,
    ) -> InvalidParameter:
        """An error about a key, or about the entry of its list with this index and value."""
        if index is None:
            line = self._line_of_key(key)
        else:
            parameter = message.parameter if isinstance(message, InvalidParameter) else ""
            line = self._line_of_entry(key, index, value, parameter)
        place = f"{self._file}, line {line}" if line else self._file
        return InvalidParameter(f"{place}: {key}: {message}")

    def _line_of_key(self, key: str) -> int | None:
        name = rf"""["']?{re.escape(key)}["']?"""
        forms = (
            # [key] or [[key]]
            rf"\[+\s*{name}\s*\]+",
            # key = ..., or table.key = ...
            rf"(\w+\.)*{name}\s*=",
            # { other = 1, key = ... }
            rf".*[{{,]\s*{name}\s*=",
        )
        pattern = re.compile(rf"^\s*({'|'.join(forms)})")
        return self._first_match(pattern, range(1, len(self._lines) + 1))

    def _line_of_entry(self, key: str, index: int, value: Any, parameter: str) -> int | None:
        """The line of an entry of a list, or of the option in it that the message is about."""
        option = parameter if isinstance(value, dict) and parameter in value else None
        heads = [
            number
            for number, line in enumerate(self._lines, 1)
            if re.match(rf"^\s*\[\[\s*{key}\s*\]\]", line)
        ]
        if index < len(heads):
            return self._line_in_table(heads[index], option)
        return self._line_in_list(key, value, option)

    def _line_in_table(self, head: int, option: str | None) -> int:
        """In the table [[key]] whose head is on this line."""
        if option is None:
            return head
        next_heads = (
            number
            for number in range(head + 1, len(self._lines) + 1)
            if self._lines[number - 1].lstrip().startswith("[")
        )
        end = next(next_heads, len(self._lines) + 1)
        pattern = re.compile(rf"^\s*{re.escape(option)}\s*=")
        return self._first_match(pattern, range(head + 1, end)) or head

    def _line_in_list(self, key: str, value: Any, option: str | None) -> int | None:
        """The first line after the key that has all texts of the entry, and its option."""
        start = self._line_of_key(key)
        values = value.values() if isinstance(value, dict) else [value]
        texts = [text for text in values if isinstance(text, str)]
        for number in range(start or 1, len(self._lines) + 1):
            line = self._lines[number - 1]
            has_texts = all(f'"{text}"' in line or f"'{text}'" in line for text in texts)
            if texts and has_texts and (option is None or option in line):
                return number
        return start

    def _first_match(self, pattern: re.Pattern[str], numbers: range) -> int | None:
        """The first of these lines, which are numbered from 1, that the pattern matches."""
        matching = (number for number in numbers if pattern.match(self._lines[number - 1]))
        return next(matching, None)
