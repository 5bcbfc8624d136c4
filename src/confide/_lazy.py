"""Names that are imported on first use, so that `import confide` and `confide --help` are fast."""

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    The package lists its names once, as imports under `if TYPE_CHECKING:`. Type checkers and
    editors read them there, and so does this function when a name is used for the first time. `dir`
    and completion show all of them. The names in `__all__` are the public ones.
    """

    def __getattr__(name: str) -> Any:
        home = _homes(package).get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(home), name)

    def __dir__() -> list[str]:
        return sorted({*sys.modules[package].__all__, *_homes(package)})

    return __getattr__, __dir__


@cache
def _homes(package: str) -> dict[str, str]:
    """The module of each name that the package imports for type checkers only."""
    loader: Any = sys.modules[package].__loader__
    source = loader.get_source(package)
    if source is None:
        raise ImportError(
            f"the source code of {package} is missing, and its names are read from it"
        )
    homes: dict[str, str] = {}
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            imports = [line for line in block.body if isinstance(line, ast.ImportFrom)]
            homes |= {name.name: str(line.module) for line in imports for name in line.names}
    return homes
