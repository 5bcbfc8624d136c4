"""The rollback mark: the newest release that may have been shown, in a file outside of the database.

A backup of the database that is put back is older than the mark, and refused: going on from it would draw new noise for users whose release
is known already. Keep the marks on another disk, or where backups do not reach.
"""

import json
import os
from pathlib import Path

from confide._durable import make_folder, replace
from confide._locks import lock, open_lock
from confide.errors import StateError


class RolledBack(StateError):
    """The database is not the one that was shown, or nobody can tell."""


class Marks:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, run: str) -> tuple[int, str] | None:
        """The generation and the digest of its release; None if nothing was ever shown."""
        try:
            found = json.loads((self.folder / f"{run}.mark").read_text())
            return int(found["generation"]), str(found["digest"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise StateError(
                f"the rollback mark of run {run} is damaged: it says which release was shown last"
            ) from None

    def write(self, run: str, generation: int, digest: str) -> None:
        """A mark never goes back: of several workers one may be slow."""
        make_folder(self.folder)
        handle = open_lock(self.folder / f"{run}.lock")
        try:
            lock(handle)
            marked = self.read(run)
            if marked is None or marked[0] < generation:
                made = json.dumps({"generation": generation, "digest": digest}).encode()
                replace(self.folder / f"{run}.mark", made, mode=0o600)
        finally:
            os.close(handle)

    def check(self, run: str, generation: int, digest: str) -> None:
        """The database is not older than what was shown, and shows the same."""
        check_mark(run, self.read(run), generation, digest)


def check_mark(run: str, marked: tuple[int, str] | None, generation: int, digest: str) -> None:
    if marked is None or marked[0] < generation:
        return
    if marked[0] > generation:
        raise RolledBack(
            f"run {run} has release {generation}, but release {marked[0]} was already shown: a backup was put back, and going on "
            "from it would noise the same users twice. Put the newer database back, or give the run up: confide service finish"
        )
    if marked[1] != digest:
        raise RolledBack(f"run {run} has another release {generation} than the one that was shown")
