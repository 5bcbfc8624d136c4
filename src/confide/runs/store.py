"""A store of results by their inputs: nothing is computed twice, and interrupted sweeps resume.

What leaves this file: one JSON file per result, `STORE/KEY[:2]/KEY.json`, with `FORMAT`, the key
and the result. If the meaning of a result changes, `FORMAT` needs a new number; old files are then
ignored, and computed again.
"""

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
from confide.runs.sweep import Cell, ProblemChoice, file_version, make_problem

FORMAT = "confide-cell/2"
# Folders and files that read results, show them or serve another purpose. None of them can change a
# number of a run. All other files count, new ones included. A test checks that no file that counts
# imports one of these, except to verify a certificate or to draw.
DO_NOT_COUNT = (
    "audit",
    "cli",
    "comparison",
    "evaluation",
    "logs",
    "offline",
    "release",
    "report",
    "service",
    "__init__.py",
    "__main__.py",
    "doctor.py",
    "agents/explain.py",
    "agents/facts.py",
    "runs/run_sweep.py",
)


class Store:
    """A folder of results, one file each, named after everything that decides it (`key_of`).

    A file is whole or not there.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(arguments.path("store", folder))

    def get(self, key: str) -> dict[str, Any] | None:
        """The result under this key. A damaged file, or one of another format, counts as none."""
        try:
            saved = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        is_right = (
            isinstance(saved, dict) and saved.get("format") == FORMAT and saved.get("key") == key
        )
        return saved if is_right else None

    def put(self, key: str, result: dict[str, Any]) -> None:
        path = self._path(key)
        make_folder(path.parent)
        document = {"format": FORMAT, "key": key, **result}
        replace(path, json.dumps(document, allow_nan=False).encode())

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Check before the work begins that files can be written here.

        A process that uses the store alone removes what killed processes left.
        """
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
    """32 hexadecimal digits of everything that decides a result.

    These are the cell, the problem itself, the code of confide, and the versions of the libraries
    that compute. The code of a user is not part of it, so results that depend on such code are not
    kept (`can_be_kept`).
    """
    inputs = {
        "cell": {
            **cell.facts,
            "options": list(cell.spec.options),
            "agent": cell.spec.agent,
            "counts": cell.spec.counts,
        },
        "world": _problem_digest(cell.problem, file_version(cell.problem)),
        "code": _code_digest(),
        "versions": _library_versions(),
        "format": FORMAT,
    }
    text = json.dumps(inputs, sort_keys=True, default=identify)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def can_be_kept(cell: Cell) -> bool:
    """Whether a result may be stored: not if an agent, an environment or features are a user's own.

    Such results are computed each time, because nobody knows which files they depend on.
    """
    return cell.spec.agent in AGENTS and not cell.problem.is_own_code


@cache
def _problem_digest(choice: ProblemChoice, _version: tuple[str, int, int] | None) -> str:
    problem = make_problem(choice)
    # An environment is known by its name, which has a version.
    has_identity = hasattr(problem, "identity")
    return identify(problem if has_identity else [problem.name, problem.horizon])


@cache
def _code_digest() -> str:
    """A digest of all files of confide that can decide a result.

    If one of them changes, older results are those of another version.
    """
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if counts(name):
            digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def counts(file: str) -> bool:
    """Whether a file, named from the root of the package, can decide a result."""
    return not any(file == other or file.startswith(f"{other}/") for other in DO_NOT_COUNT)


@cache
def _library_versions() -> dict[str, str]:
    return {name: version for name, version in versions().items() if name != "confide"}
