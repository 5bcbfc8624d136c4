"""Names that are imported on first use, so that `import confide` and `confide --help` are fast."""

import importlib
from collections.abc import Callable
from typing import Any


def lazy(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    `homes` maps each name to its module, relative to the package unless it starts with `confide.`. It maps a name
    to "" if the name is a submodule itself. `dir` and completion show the names in `__all__`.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if not home:
            return importlib.import_module(f"{package}.{name}")
        return getattr(
            importlib.import_module(home if home.startswith("confide.") else f"{package}.{home}"),
            name,
        )

    def __dir__() -> list[str]:
        return sorted(getattr(importlib.import_module(package), "__all__", homes))

    return __getattr__, __dir__
