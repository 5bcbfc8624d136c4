"""Names that are imported when they are first asked for, so that `import confide` and `confide --help` stay instant."""

import importlib
from collections.abc import Callable
from typing import Any


def lazy(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """A module's __getattr__: `homes` says in which submodule each name lives ("" if it is a submodule itself)."""

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        return (
            getattr(importlib.import_module(f"{package}.{home}"), name) if home else importlib.import_module(f"{package}.{name}")
        )

    return __getattr__
