"""Errors that must not reveal private data."""

import traceback
from collections.abc import Callable
from typing import Any

from confide.errors import ConfideError, LogError


class Guarded:
    """A task whose failure tells its kind and place, never its text, which may quote the data."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self._task = task

    def __call__(self, item: Any) -> Any:
        try:
            return self._task(item)
        except (ConfideError, MemoryError):
            raise
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = type(error).__name__
        raise LogError(
            f"the statistic failed with a {kind} in {place.name} "
            f"({place.filename}, line {place.lineno})"
        )
