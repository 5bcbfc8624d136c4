"""A service in one folder: the database, the keys and the marks, each of which may be put elsewhere."""

import fcntl
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confide._durable import make_folder
from confide.errors import StateError
from confide.service.core import Service, key_row
from confide.service.keys import KeyFolder
from confide.service.marks import Marks
from confide.service.sqlite import SqliteStore


class ServiceFolder:
    """`keys` and `marks` should lie outside of what is backed up with the database: a backup with the keys tells who took part, and a
    mark that is put back with it does not notice that it was."""

    def __init__(self, folder: str | Path, *, keys: str | Path | None = None, marks: str | Path | None = None) -> None:
        self.folder = Path(folder)
        self.keys = KeyFolder(Path(keys) if keys else self.folder / "keys")
        self.marks = Marks(Path(marks) if marks else self.folder / "marks")
        self.database = self.folder / "service.sqlite"
        self._handle: int | None = None

    def exists(self) -> bool:
        return self.database.exists()

    def init(self) -> None:
        """A new service without runs."""
        if self.exists():
            raise StateError(f"{self.folder} has a service already")
        make_folder(self.folder)
        self.folder.chmod(0o700)
        key = self.keys.init()
        store = SqliteStore(self.database)
        with store.transaction() as tx:
            tx.add_signing_key(key_row(key, None))
            tx.audit(datetime.now(UTC).isoformat(timespec="seconds"), "command line", "init", key.id)
        store.close()

    def hold(self) -> None:
        """One process serves a folder."""
        handle = os.open(self.folder / "service.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise StateError(f"another process serves {self.folder}: stop it first") from None
        self._handle = handle

    def let_go(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def store(self) -> SqliteStore:
        if not self.exists():
            raise StateError(f"{self.folder} has no service: confide service init makes one")
        return SqliteStore(self.database)

    def open(self, **more: Any) -> Service:
        """The service, for this process alone."""
        self.hold()
        made: Callable[..., Service] = more.pop("service", Service)
        return made(self.store(), self.keys, self.marks, **more)
