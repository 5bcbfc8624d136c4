"""Read a sweep from a TOML file. Errors name the key, its line and the nearest valid spelling."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confide import arguments
from confide.errors import ConfideError, InvalidParameter
from confide.runs.sweep import Sweep, agent_choice, nearest, problem_choice

KEYS = ("name", "agents", "problems", "episodes", "seeds", "privacy")
PRIVACY = {"epsilons": "epsilons", "delta": "delta", "trust": "trust", "none": "no_privacy"}
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
    source = Path(arguments.path("sweep", path))
    try:
        text = arguments.read_text(source)
    except OSError as error:
        raise InvalidParameter(f"cannot read {source}: {error.strerror}") from None
    return parse_sweep(text, source.name, default_name=source.stem)


def parse_sweep(text: str, file: str = "sweep.toml", *, default_name: str = "comparison") -> Sweep:
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise InvalidParameter(f"{file}: {error}") from None
    place = _Places(text, file)
    for key in found:
        if key not in KEYS:
            belongs = (
                "; it belongs into the table [privacy]" if key in PRIVACY else nearest(key, KEYS)
            )
            raise place.error(key, f"unknown key {key}{belongs}")
    for key in ("agents", "problems"):
        if key not in found:
            raise InvalidParameter(
                f"{file}: the key {key} is missing: a list of names, such as {key} = [{_EXAMPLE[key]}]"
            )
    privacy = found.pop("privacy", {})
    if not isinstance(privacy, dict):
        raise place.error("privacy", f"privacy must be a table, [privacy], got {privacy!r}")
    for key in privacy:
        if key not in PRIVACY:
            raise place.error(key, f"unknown key privacy.{key}{nearest(key, tuple(PRIVACY))}")
    for key, value in {**found, **privacy}.items():
        kinds, said = _KINDS[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise place.error(key, f"{key} must be {said}, got {value!r}")
    for key, check in (("agents", agent_choice), ("problems", _checked_problem)):
        _check_each(key, found[key], check, place)
    chosen = {
        "name": default_name,
        **found,
        **{PRIVACY[key]: value for key, value in privacy.items()},
    }
    _check_alone(chosen, place)
    try:
        return Sweep(**chosen)
    except ConfideError as error:
        raise place.error(_key_of(error, "agents"), str(error)) from None


_EXAMPLE = {"agents": '"ucrl-vtr"', "problems": '"lock"'}


def _checked_problem(given: Any) -> None:
    """By name only: whether there is such a problem, or such a file. Building it may take long."""
    import os

    from confide.problems.catalogue import PROBLEMS

    choice = problem_choice(given)
    text = choice.problem
    if text in PROBLEMS or text.startswith("gym:"):
        return
    if not (os.sep in text or text.endswith(".npz") or Path(text).is_file()):
        raise InvalidParameter(f"unknown problem {text!r}{nearest(text.lower(), tuple(PROBLEMS))}")
    if not Path(text).is_file():
        raise InvalidParameter(f"no such file: {text}")


def _check_each(
    key: str, values: list[Any], check: Callable[[Any], object], place: "_Places"
) -> None:
    for index, value in enumerate(values):
        try:
            check(value)
        except ConfideError as error:
            raise place.error(key, error, index=index, value=value) from None


def _check_alone(chosen: dict[str, Any], place: "_Places") -> None:
    """Each number on its own, so that its own line is named."""
    usual: dict[str, Any] = {"agents": ["uniform"], "problems": ["lock"]}
    for key in ("epsilons", "delta", "trust", "episodes", "seeds"):
        if key in chosen:
            try:
                Sweep(**usual, **{key: chosen[key]})
            except ConfideError as error:
                file_key = {attribute: name for name, attribute in PRIVACY.items()}.get(key, key)
                raise place.error(file_key, str(error)) from None


def _key_of(error: ConfideError, otherwise: str) -> str:
    """The key of the file that an error is about."""
    parameter = error.parameter if isinstance(error, InvalidParameter) else ""
    return parameter if parameter in ("agents", "problems", "epsilons", *KEYS) else otherwise


class _Places:
    """Where in the file a key, or one entry of its list, stands. The standard reader of TOML does not tell."""

    def __init__(self, text: str, file: str) -> None:
        self._lines, self._file = text.splitlines(), file

    def error(
        self,
        key: str,
        message: str | ConfideError,
        *,
        index: int | None = None,
        value: Any = None,
    ) -> InvalidParameter:
        parameter = message.parameter if isinstance(message, InvalidParameter) else ""
        line = self._entry(key, index, value, parameter) if index is not None else self._key(key)
        return InvalidParameter(
            f"{self._file}, line {line}: {key}: {message}"
            if line
            else f"{self._file}: {key}: {message}"
        )

    def _key(self, key: str) -> int | None:
        quoted = re.escape(key)
        wanted = re.compile(
            rf"""^\s*(\[+\s*["']?{quoted}["']?\s*\]+|(\w+\.)*["']?{quoted}["']?\s*=|.*[{{,]\s*["']?{quoted}["']?\s*=)"""
        )
        return next(
            (number for number, line in enumerate(self._lines, 1) if wanted.match(line)), None
        )

    def _entry(self, key: str, index: int, value: Any, parameter: str) -> int | None:
        """Of the index-th [[key]] table, or of the entry's own text in a list; there, of the option that the message is about."""
        heads = [
            number
            for number, line in enumerate(self._lines, 1)
            if re.match(rf"^\s*\[\[\s*{key}\s*\]\]", line)
        ]
        said = [name for name in (value if isinstance(value, dict) else ()) if name == parameter]
        if index < len(heads):
            until = next(
                (
                    n
                    for n in range(heads[index], len(self._lines))
                    if self._lines[n].lstrip().startswith("[")
                ),
                len(self._lines),
            )
            inside = range(heads[index] + 1, until + 1)
            return next(
                (
                    n
                    for name in said
                    for n in inside
                    if re.match(rf"^\s*{re.escape(name)}\s*=", self._lines[n - 1])
                ),
                heads[index],
            )
        start = self._key(key)
        words = [
            text
            for text in (value.values() if isinstance(value, dict) else [value])
            if isinstance(text, str)
        ]
        for number, line in enumerate(self._lines[(start or 1) - 1 :], start or 1):
            if (
                words
                and all(f'"{word}"' in line or f"'{word}'" in line for word in words)
                and all(name in line for name in said)
            ):
                return number
        return start
