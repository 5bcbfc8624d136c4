"""The version of a user's own agent: a digest of its file and of the user's files that it imports."""

import ast
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from confide.agents.catalogue import agent_class
from confide.errors import InvalidParameter

_OTHERS = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def own_code(place: str) -> str:
    """16 hexadecimal digits. Looked up every time: files change, and so do what they import.

    A module that was changed after it was imported would put its results under the name of code that did not run: it is refused.
    """
    made = agent_class(place)
    module = sys.modules.get(made.__module__)
    file = getattr(module, "__file__", None)
    if module is None or file is None or not Path(file).is_file():
        raise InvalidParameter(f"{place} has no file to name its results by: save the class in a module of its own")
    _check_loaded(made, Path(file))
    found = hashlib.sha256()
    for path in sorted(_closure(Path(file).resolve(), made.__module__)):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _check_loaded(made: Any, file: Path) -> None:
    """The methods in memory are those of the file."""
    try:
        written = {code.co_qualname: code for code in _codes(compile(file.read_bytes(), str(file), "exec"))}
    except (SyntaxError, ValueError):
        raise InvalidParameter(f"{file.name} was changed after it was imported, and cannot be read any more") from None
    for value in vars(made).values():
        if isinstance(value, FunctionType) and value.__code__.co_filename == str(file):
            there = written.get(value.__code__.co_qualname)
            if there is None or (there.co_code, there.co_names) != (value.__code__.co_code, value.__code__.co_names):
                raise InvalidParameter(f"{file.name} was changed after it was imported: restart Python")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)


def _closure(file: Path, name: str) -> set[Path]:
    """The file and all files of one's own that it imports, directly or not."""
    found, waiting = set(), [(file, name)]
    while waiting:
        path, module = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for imported in _imports(path, module):
            origin = _origin(imported)
            if origin is not None:
                waiting.append((origin, imported))
    return found


def _imports(path: Path, module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.rsplit(".", node.level)[0] if node.level and "." in module else ""
            base = ".".join(part for part in (above if node.level else "", node.module or "") if part)
            yield from (name for name in (base, *(f"{base}.{each.name}" for each in node.names)) if name.strip("."))


def _origin(name: str) -> Path | None:
    """The file of a module of one's own: not of Python's, of an installed package, or ours."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    path = Path(spec.origin).resolve()
    ours = Path(__file__).resolve().parent.parent
    return None if any(path.is_relative_to(other) for other in (*_OTHERS, ours)) else path
