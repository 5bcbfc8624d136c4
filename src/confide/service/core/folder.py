"""A service in one folder: the database, the keys and the marks, each of which may be put elsewhere; the database into PostgreSQL."""

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confide._durable import clean, make_folder, make_private_folder, replace
from confide._locks import lock, open_lock
from confide.arguments import read_text
from confide.errors import InvalidParameter, StateError
from confide.service.core.service import Service
from confide.service.documents import missing
from confide.service.store.interface import ServiceStore
from confide.service.store.keys import KeyFolder
from confide.service.store.marks import Marks
from confide.service.store.signing_keys import key_row, rotated
from confide.service.store.sqlite import SqliteStore
from confide.service.store.vault import Vault

_ADDRESSES = ("postgresql://", "postgres://")
# What a service keeps in its folder, with what kills have left.
_OWN_NAMES = ("service.*", "setup.lock", "database.address*", "keys", "marks", "*.part")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class ServiceFolder:
    """`keys` and `marks` should lie outside of what is backed up with the database: a backup with the keys tells who took part, and a
    mark that is put back with it does not notice that it was. `address`: of a database in PostgreSQL, which several processes may serve
    with the same keys. The folder remembers it, with its password if it has one. PRIVATE."""

    def __init__(
        self,
        folder: str | Path,
        *,
        keys: str | Path | None = None,
        marks: str | Path | None = None,
        address: str | None = None,
    ) -> None:
        if address is not None and not address.startswith(_ADDRESSES):
            raise InvalidParameter(
                "the database must be an address such as postgresql://user@host/name"
            )
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

    def init(self) -> bool:
        """Create what is missing of a service, and return whether something was missing.

        After a kill the same call finishes. The row of the signing key is written last. If it is
        there and a key is not, then the key was lost, and a new one would not fit the database.
        """
        self._check_address()
        if self.exists():
            make_folder(self.folder)
        else:
            make_private_folder(self.folder, _OWN_NAMES)
        with self._setup_lock(), contextlib.closing(self._opened()) as store:
            clean(self.folder, self._remembered.name)
            rows = store.signing_keys()
            if rows:
                self.keys.check(rows[-1].id)
            else:
                key = self.keys.init()
                with store.transaction() as tx:
                    tx.add_signing_key(key_row(key, None))
                    tx.audit(_now(), "command line", "init", key.id)
            remembers = self._address is None or self._remembered.exists()
            if not remembers:
                assert self._address is not None
                replace(self._remembered, self._address.encode(), mode=0o600)
        return not (rows and remembers)

    def _check_address(self) -> None:
        if self._address is None or not self._remembered.exists():
            return
        if read_text(self._remembered, 2**16).strip() != self._address:
            raise StateError(
                f"{self.folder} has a database at another address, and a service cannot change its database. "
                "Give the same --database as before, or none"
            )

    def hold(self) -> None:
        """One process serves a folder; of one with a database in PostgreSQL, any number."""
        if self.shared:
            return
        handle = open_lock(self.folder / "service.lock")
        try:
            lock(handle, wait=False)
        except OSError:
            os.close(handle)
            raise StateError(f"another process serves {self.folder}: stop it first") from None
        self._handle = handle

    @contextlib.contextmanager
    def setting_up(self) -> Iterator[None]:
        """Workers that are started at the same time make the service and its runs one after the other."""
        with self._setup_lock() if self.shared else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def _setup_lock(self) -> Iterator[None]:
        handle = open_lock(self.folder / "setup.lock")
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
        """The run is finished. If a backup was put back, so that it cannot be served, it is left out from then on."""
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

    def replace_vault_key(self) -> int:
        """Seal everything again with a new key, delete the old one, and return the number of runs.

        Earlier copies of the database can then be opened only with a copy of the old key. After a
        kill both keys are there, and the same call finishes.
        """
        with self._alone() as store:
            self.keys.begin_vault_replacement()
            store.vault.reload()
            names = store.runs()
            with store.transaction() as tx:
                for name in names:
                    tx.hold(name, alone=True)
                    tx.seal_again(name)
                tx.audit(_now(), "command line", "rotate vault", f"{len(names)} runs")
            store.forget()
            self.keys.finish_vault_replacement()
        return len(names)

    def mark(self) -> list[str]:
        """Marks that are lost are written again, from the newest releases in the database. Those that are there stay."""
        with self._alone() as store:
            lost = [
                row
                for row in map(store.run, store.runs())
                if row is not None and self.marks.read(row.name) is None
            ]
            for row in lost:
                newest = store.release(row.name, row.generation)
                if newest is None:
                    raise StateError(
                        f"run {row.name} has no release {row.generation}: the database is damaged"
                    )
                with store.transaction() as tx:
                    tx.audit(_now(), "command line", "mark", f"{row.name} {row.generation}")
                self.marks.write(row.name, row.generation, newest.digest)
        return [row.name for row in lost]

    @contextlib.contextmanager
    def _alone(self) -> Iterator[ServiceStore]:
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

    def store(self) -> ServiceStore:
        self._must_exist()
        return self._opened()

    def _opened(self) -> ServiceStore:
        address = self.address
        if address is None:
            return SqliteStore(self.database, Vault(self.keys))
        if self.database.exists():
            raise StateError(
                f"{self.folder} has a database of its own: a service does not change its database"
            )
        try:
            from confide.service.store.postgres import PostgresStore
        except ImportError:
            raise missing() from None
        return PostgresStore(address, Vault(self.keys))

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
