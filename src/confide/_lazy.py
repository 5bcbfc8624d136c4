"""Names that are imported on first use, so that `import confide` and `confide --help` are fast."""

import importlib
from collections.abc import Callable
from typing import Any


def lazy(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """A module's __getattr__: `homes` maps each name to its module, relative to the package unless it starts with `confide.`
    ("" if the name is a submodule itself)."""

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

    return __getattr__
