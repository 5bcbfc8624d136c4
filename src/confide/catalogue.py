"""Classes and functions by name, for the command line.

Names can be listed without importing what they stand for.
"""

import difflib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from confide.arguments import shown, text
from confide.errors import InvalidParameter


class Catalogue(Mapping[str, Any]):
    """A mapping from names to classes or functions, which are imported when they are used.

    What there is to know about a class or function is its own attribute `profile`.
    """

    def __init__(self, kind: str, places: Mapping[str, str], *, others: str = "") -> None:
        """Make a catalogue.

        `kind` is what errors call one of its things. `places` maps each name to
        package.module:attribute. `others` says in an error what may stand in place of a name.
        """
        self._kind = kind
        self._places = dict(places)
        self._others = others

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._places

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise InvalidParameter(f"unknown {self._kind} {name!r}{self.hint(name)}")
        return load(self._places[name])

    def get(self, name: str, default: Any = None) -> Any:
        place = self._places.get(name)
        return default if place is None else load(place)

    def hint(self, name: str) -> str:
        """What somebody may have meant by an unknown name."""
        near = difflib.get_close_matches(name.lower(), self._places, n=1)
        if near:
            return f"; did you mean {near[0]}?"
        return f"; choose one of {', '.join(self._places)}{self._others}"


def load(place: str) -> Any:
    """Import the module and return what package.module:attribute names."""
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def look_in_working_directory() -> None:
    """Let imports find the user's own modules in the working directory, too."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def function_by_name(parameter: str, name: str) -> Any:
    """Import the function that package.module:function names. Errors call it `parameter`."""
    module, _, attribute = text(parameter, name).partition(":")
    if not module or not attribute:
        raise InvalidParameter.of(parameter, "must be package.module:function", got=shown(name))
    look_in_working_directory()
    try:
        function = load(name)
    except Exception as error:
        # Whatever is wrong in the user's own file is reported in one line.
        raise InvalidParameter(
            f"cannot import the {parameter} {name}: {type(error).__name__}: {error}"
        ) from None
    if not callable(function):
        raise InvalidParameter(f"{parameter} must be a function, but {name} is {shown(function)}")
    return function


def name_of_function(function: Any) -> str:
    """package.module:function, if others find the function there. Otherwise an empty text."""
    module = getattr(function, "__module__", None)
    attribute = getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(attribute, str) or module == "__main__":
        return ""
    try:
        return f"{module}:{attribute}" if load(f"{module}:{attribute}") is function else ""
    except Exception:
        # A function inside a function, or one that was made without a file.
        return ""
