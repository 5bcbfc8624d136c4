"""A store of results by their inputs: nothing is computed twice, and interrupted sweeps resume."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from confide import arguments
from confide._durable import LOCK, clean, make_folder, replace
from confide._locks import lock, open_lock
from confide.agents.catalogue import AGENTS
from confide.errors import InvalidParameter
from confide.identity import identify
from confide.runs.runner import versions
from confide.runs.sweep import Cell, ProblemChoice, stamp, world

FORMAT = "confide-cell/2"
# Folders and files that read results, show them or serve another purpose: none of them can change a number of a run. All others count, new
# ones included. A test checks that nothing that counts imports any of these, except to verify a certificate or to draw.
DO_NOT_COUNT = (
    *(
        "audit",
        "cli",
        "comparison",
        "evaluation",
        "logs",
        "offline",
        "release",
        "report",
        "service",
    ),
    *("__init__.py", "__main__.py", "doctor.py", "agents/explain.py", "agents/facts.py"),
    "runs/run_sweep.py",
)


class Store:
    """A folder of results, one file each, named after everything that decides it (`key_of`). A file is whole or not there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(arguments.path("store", folder))

    def get(self, key: str) -> dict[str, Any] | None:
        """What is there under this key; a file that was damaged, or is of another format, is as good as none."""
        try:
            found = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return (
            found
            if isinstance(found, dict) and found.get("format") == FORMAT and found.get("key") == key
            else None
        )

    def put(self, key: str, result: dict[str, Any]) -> None:
        path = self._path(key)
        make_folder(path.parent)
        replace(
            path, json.dumps({"format": FORMAT, "key": key, **result}, allow_nan=False).encode()
        )

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Check before the work begins that it can be written to. Whoever uses it alone removes what killed processes left."""
        try:
            make_folder(self.folder)
            handle = open_lock(self.folder / LOCK, 0o666)
        except OSError as error:
            raise InvalidParameter(
                f"cannot write into the store {self.folder}: {error.strerror}"
            ) from None
        try:
            with suppress(BlockingIOError):
                lock(handle, wait=False)
                for folder in self.folder.iterdir():
                    clean(folder)
            lock(handle, shared=True)
            yield
        finally:
            os.close(handle)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"


def key_of(cell: Cell) -> str:
    """32 hexadecimal digits of everything that decides a result: the cell, the world itself, our code, and the versions of the libraries
    that compute. The code of a user's own agent is not part of it, so such results are not kept (`can_be_kept`)."""
    decided = {
        "cell": {
            **cell.facts,
            "options": list(cell.spec.options),
            "agent": cell.spec.agent,
            "counts": cell.spec.counts,
        },
        "world": _world_digest(cell.problem, stamp(cell.problem)),
        "code": _code(),
        "versions": _versions(),
        "format": FORMAT,
    }
    return hashlib.sha256(
        json.dumps(decided, sort_keys=True, default=identify).encode()
    ).hexdigest()[:32]


def can_be_kept(cell: Cell) -> bool:
    """Whether a result may be stored: not if an agent, an environment or features are a user's own.

    Such results are computed each time, because nobody knows which files they depend on.
    """
    return cell.spec.agent in AGENTS and not cell.problem.is_own_code


@cache
def _world_digest(choice: ProblemChoice, _stamp: tuple[str, int, int] | None) -> str:
    problem = world(choice)
    # An environment is named by its id. The versions of the libraries are a part of the key.
    known = problem if hasattr(problem, "identity") else [problem.name, problem.horizon]
    return identify(known)


@cache
def _code() -> str:
    """Of all files of confide that can decide a result: a change of one of them makes older results another version's."""
    root = Path(__file__).parent.parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if counts(name):
            found.update(name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def counts(file: str) -> bool:
    """Whether a file, named from the root of the package, can decide a result."""
    return not any(file == other or file.startswith(f"{other}/") for other in DO_NOT_COUNT)


@cache
def _versions() -> dict[str, str]:
    return {name: version for name, version in versions().items() if name != "confide"}
