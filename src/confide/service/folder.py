"""A service in one folder: the database, the keys and the marks, each of which may be put elsewhere; the database into PostgreSQL."""

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confide._durable import make_folder, replace
from confide._locks import lock, open_lock
from confide.arguments import read_text
from confide.errors import InvalidParameter, StateError
from confide.service.core import Service, key_row, rotated
from confide.service.documents import missing
from confide.service.keys import KeyFolder
from confide.service.marks import Marks
from confide.service.sqlite import SqliteStore
from confide.service.store import Store

_ADDRESSES = ("postgresql://", "postgres://")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class ServiceFolder:
    """`keys` and `marks` should lie outside of what is backed up with the database: a backup with the keys tells who took part, and a
    mark that is put back with it does not notice that it was. `address`: of a database in PostgreSQL, which several processes may serve
    with the same keys. The folder remembers it, with its password if it has one. PRIVATE."""

    def __init__(
        self, folder: str | Path, *, keys: str | Path | None = None, marks: str | Path | None = None, address: str | None = None
    ) -> None:
        if address is not None and not address.startswith(_ADDRESSES):
            raise InvalidParameter("the database must be an address such as postgresql://user@host/name")
        self.folder = Path(folder)
        self.keys = KeyFolder(Path(keys) if keys else self.folder / "keys")
        self.marks = Marks(Path(marks) if marks else self.folder / "marks")
        self.database = self.folder / "service.sqlite"
        self._address, self._remembered = address, self.folder / "database.address"
        self._handle: int | None = None

    @property
    def address(self) -> str | None:
        """Of the database in PostgreSQL; None: it is in the folder."""
        if self._address is None and self._remembered.exists():
            return read_text(self._remembered, 2**16).strip()
        return self._address

    @property
    def shared(self) -> bool:
        """Several processes may serve it."""
        return self.address is not None

    def exists(self) -> bool:
        return self.database.exists() or self._remembered.exists()

    def init(self) -> None:
        """A new service without runs."""
        if self.exists():
            raise StateError(f"{self.folder} has a service already")
        make_folder(self.folder)
        self.folder.chmod(0o700)
        with contextlib.closing(self._opened()) as store:
            if store.signing_keys():  # of another folder: its keys must be here
                self.keys.signing_key(store.signing_keys()[-1].id)
            else:
                key = self.keys.init()
                with store.transaction() as tx:
                    tx.add_signing_key(key_row(key, None))
                    tx.audit(_now(), "command line", "init", key.id)
        if self._address is not None:
            replace(self._remembered, self._address.encode(), mode=0o600)

    def hold(self) -> None:
        """One process serves a folder; of one with a database in PostgreSQL, any number."""
        if self.shared:
            return
        handle = self._lock_file()
        try:
            lock(handle, wait=False)
        except OSError:
            os.close(handle)
            raise StateError(f"another process serves {self.folder}: stop it first") from None
        self._handle = handle

    def _lock_file(self) -> int:
        return open_lock(self.folder / "service.lock")

    @contextlib.contextmanager
    def setting_up(self) -> Iterator[None]:
        """Workers that are started at the same time make the service and its runs one after the other."""
        if not self.shared:
            yield
            return
        make_folder(self.folder)
        handle = self._lock_file()
        try:
            lock(handle)
            yield
        finally:
            os.close(handle)

    def let_go(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def finish(self, run: str) -> None:
        """Of a service that does not start, because a backup was put back: the run is finished, and left out from then on."""
        with self._alone() as store, store.transaction() as tx:
            if run not in store.runs():
                raise InvalidParameter(f"{self.folder} has no run {run}")
            if tx.hold(run, alone=True).status == "finished":
                raise InvalidParameter(f"run {run} is finished")
            tx.audit(_now(), "command line", "finished", run)
            tx.set_status(run, "finished")

    def rotate(self) -> str:
        """A new signing key, and its id. Workers on PostgreSQL notice within seconds."""
        with self._alone() as store:
            return rotated(store, self.keys, "command line", _now()).id

    def mark(self) -> list[str]:
        """Marks that are lost are written again, from the newest releases in the database. Those that are there stay."""
        with self._alone() as store:
            lost = [row for row in map(store.run, store.runs()) if row is not None and self.marks.read(row.name) is None]
            for row in lost:
                newest = store.release(row.name, row.generation)
                if newest is None:
                    raise StateError(f"run {row.name} has no release {row.generation}: the database is damaged")
                with store.transaction() as tx:
                    tx.audit(_now(), "command line", "mark", f"{row.name} {row.generation}")
                self.marks.write(row.name, row.generation, newest.digest)
        return [row.name for row in lost]

    @contextlib.contextmanager
    def _alone(self) -> Iterator[Store]:
        """The database, while no process serves it."""
        self._must_exist()
        self.hold()
        try:
            with contextlib.closing(self.store()) as store:
                yield store
        finally:
            self.let_go()

    def _must_exist(self) -> None:
        if not self.exists():
            raise StateError(f"{self.folder} has no service: confide service init makes one")

    def store(self) -> Store:
        self._must_exist()
        return self._opened()

    def _opened(self) -> Store:
        address = self.address
        if address is None:
            return SqliteStore(self.database)
        if self.database.exists():
            raise StateError(f"{self.folder} has a database of its own: a service does not change its database")
        try:
            from confide.service.postgres import PostgresStore
        except ImportError:
            raise missing() from None
        return PostgresStore(address)

    def open(self, **more: Any) -> Service:
        """The service, for this process alone."""
        self.hold()
        made: Callable[..., Service] = more.pop("service", Service)
        store = self.store()
        try:
            return made(store, self.keys, self.marks, **more)
        except BaseException:
            store.close()
            raise
