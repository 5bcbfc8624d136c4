"""The rollback mark: the newest release that may have been shown.

It is in a file outside of the database.

A backup of the database that is put back is older than the mark, and refused. Going on from it
would draw new noise for users whose release is known already. Keep the marks on another disk, or
where backups do not reach.

Required for privacy: a mark never goes back, and it is written before its release is shown. The
files are a format, which services of earlier versions have written.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from confide._durable import make_folder, replace
from confide._locks import lock, open_lock
from confide.errors import StateError


class RolledBack(StateError):
    """The database is not the one that was shown, or nobody can tell."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The newest release of a run that may have been shown: its generation and its digest."""

    generation: int
    digest: str


class Marks:
    """A folder with the marks of all runs.

    It is public, but nobody may put it back to an older state.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, run: str) -> Mark | None:
        """Return the mark of a run, or None if nothing was ever shown."""
        try:
            mark = json.loads((self.folder / f"{run}.mark").read_text())
            return Mark(int(mark["generation"]), str(mark["digest"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise StateError(
                f"the rollback mark of run {run} in {self.folder} is damaged. It says which "
                "release was shown last: put back the newest copy of the file"
            ) from None

    def write(self, run: str, generation: int, digest: str) -> None:
        """Mark a release, which may be shown afterwards.

        A mark never goes back. Of several workers, a slow one may write an older release.
        """
        make_folder(self.folder)
        handle = open_lock(self.folder / f"{run}.lock")
        try:
            lock(handle)
            mark = self.read(run)
            if mark is None or mark.generation < generation:
                data = json.dumps({"generation": generation, "digest": digest}).encode()
                replace(self.folder / f"{run}.mark", data, mode=0o600)
        finally:
            os.close(handle)

    def check(self, run: str, generation: int, digest: str) -> None:
        """Refuse a database that is older than what was shown, or that shows something else."""
        check_mark(run, self.read(run), generation, digest)


def check_mark(run: str, mark: Mark | None, generation: int, digest: str) -> None:
    """Refuse a run whose newest release is older than its mark, or another one.

    `generation` and `digest` are those of the newest release in the database.
    """
    if mark is None or mark.generation < generation:
        return
    if mark.generation > generation:
        raise RolledBack(
            f"run {run} has release {generation}, but release {mark.generation} was already shown: "
            "a backup was put back, and going on from it would noise the same users twice. "
            "Put the newer database back, or give the run up: confide service finish"
        )
    if mark.digest != digest:
        raise RolledBack(f"run {run} has another release {generation} than the one that was shown")
