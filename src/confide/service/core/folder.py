"""A service in one folder: the database, the keys and the marks.

Each of them may be put elsewhere, and the database may be in PostgreSQL. The names of the files are
a format: services of earlier versions have them. Required for privacy: one process at a time serves
a database of SQLite (`hold`), and no file here can be read by other users of the machine.
"""

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
from confide.service.documents import missing_packages
from confide.service.store.interface import ServiceStore
from confide.service.store.keys import KeyFolder
from confide.service.store.marks import Marks
from confide.service.store.signing_keys import key_row, rotate_signing_key
from confide.service.store.sqlite import SqliteStore
from confide.service.store.vault import Vault

_ADDRESSES = ("postgresql://", "postgres://")
# A file with an address has at most so many bytes. A matter of taste.
_MAX_ADDRESS_BYTES = 2**16
# What a service keeps in its folder, with what kills have left. A folder with other files in it is
# not taken for a new service.
_OWN_NAMES = ("service.*", "setup.lock", "database.address*", "keys", "marks", "*.part")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class ServiceFolder:
    """The folder of a service. PRIVATE.

    `keys` and `marks` should lie outside of what is backed up with the database. A backup with the
    keys tells who took part, and a mark that is put back with the database cannot notice this.
    `address` is that of a database in PostgreSQL, which several processes may serve with the same
    keys. The folder remembers it, with its password if it has one.
    """

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
                "the address of the database must begin with postgresql://, such as "
                "postgresql://user@host/name"
            )
        self.folder = Path(folder)
        self.keys = KeyFolder(Path(keys) if keys else self.folder / "keys")
        self.marks = Marks(Path(marks) if marks else self.folder / "marks")
        self.database = self.folder / "service.sqlite"
        self._given_address = address
        self._address_file = self.folder / "database.address"
        # The lock of the folder, while this process serves it.
        self._lock_handle: int | None = None

    @property
    def address(self) -> str | None:
        """The address of the database in PostgreSQL; None: the database is in the folder."""
        if self._given_address is None and self._address_file.exists():
            return self._read_address()
        return self._given_address

    def _read_address(self) -> str:
        return read_text(self._address_file, _MAX_ADDRESS_BYTES).strip()

    @property
    def shared(self) -> bool:
        """Whether several processes may serve it."""
        return self.address is not None

    def exists(self) -> bool:
        return self.database.exists() or self._address_file.exists()

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
        with self._setup_lock(), contextlib.closing(self._open_store()) as store:
            clean(self.folder, self._address_file.name)
            rows = store.signing_keys()
            if rows:
                self.keys.check(rows[-1].id)
            else:
                key = self.keys.init()
                with store.transaction() as tx:
                    tx.add_signing_key(key_row(key, None))
                    tx.audit(_now(), "command line", "init", key.id)
            address_is_written = self._given_address is None or self._address_file.exists()
            if not address_is_written:
                assert self._given_address is not None
                replace(self._address_file, self._given_address.encode(), mode=0o600)
        return not (rows and address_is_written)

    def _check_address(self) -> None:
        if self._given_address is None or not self._address_file.exists():
            return
        if self._read_address() != self._given_address:
            raise StateError(
                f"{self.folder} has a database at another address, and a service cannot change its "
                "database. Give the same --database as before, or none"
            )

    def hold(self) -> None:
        """Make sure that no other process serves the folder.

        Any number of processes may serve a database in PostgreSQL.
        """
        if self.shared:
            return
        handle = open_lock(self.folder / "service.lock")
        try:
            lock(handle, wait=False)
        except OSError:
            os.close(handle)
            raise StateError(f"another process serves {self.folder}: stop it first") from None
        self._lock_handle = handle

    @contextlib.contextmanager
    def setting_up(self) -> Iterator[None]:
        """Wait until no other worker makes the service or its runs, and keep others waiting."""
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
        """Let another process serve the folder."""
        if self._lock_handle is not None:
            os.close(self._lock_handle)
            self._lock_handle = None

    def finish(self, run: str) -> None:
        """Finish a run.

        A run that cannot be served, because a backup was put back, is left out from then on.
        """
        with self._alone() as store, store.transaction() as tx:
            if run not in store.runs():
                raise InvalidParameter(f"{self.folder} has no run {run}")
            if tx.hold(run, alone=True).status == "finished":
                raise InvalidParameter(f"run {run} is finished")
            tx.audit(_now(), "command line", "finished", run)
            tx.set_status(run, "finished")

    def rotate(self) -> str:
        """Make a new signing key and return its id. Workers on PostgreSQL notice within seconds."""
        with self._alone() as store:
            return rotate_signing_key(store, self.keys, "command line", _now()).id

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
        """Write the marks that are lost, and return the names of their runs.

        They are written from the newest releases in the database. Marks that are there stay.
        """
        with self._alone() as store:
            rows = map(store.run, store.runs())
            unmarked = [
                row for row in rows if row is not None and self.marks.read(row.name) is None
            ]
            for row in unmarked:
                newest = store.release(row.name, row.generation)
                if newest is None:
                    raise StateError(
                        f"run {row.name} has no release {row.generation}: the database is damaged"
                    )
                with store.transaction() as tx:
                    tx.audit(_now(), "command line", "mark", f"{row.name} {row.generation}")
                self.marks.write(row.name, row.generation, newest.digest)
        return [row.name for row in unmarked]

    @contextlib.contextmanager
    def _alone(self) -> Iterator[ServiceStore]:
        """Open the database, while no process serves it."""
        self._check_exists()
        self.hold()
        try:
            with contextlib.closing(self.store()) as store:
                yield store
        finally:
            self.let_go()

    def _check_exists(self) -> None:
        if not self.exists():
            raise StateError(f"{self.folder} has no service: confide service init makes one")

    def store(self) -> ServiceStore:
        """Open the database of the service."""
        self._check_exists()
        return self._open_store()

    def _open_store(self) -> ServiceStore:
        address = self.address
        if address is None:
            return SqliteStore(self.database, Vault(self.keys))
        if self.database.exists():
            raise StateError(
                f"{self.folder} has a database of its own, and a service cannot change its "
                "database. Leave out --database"
            )
        try:
            from confide.service.store.postgres import PostgresStore
        except ImportError:
            raise missing_packages() from None
        return PostgresStore(address, Vault(self.keys))

    def open(self, **more: Any) -> Service:
        """Open the service for this process alone. `more` are options of `Service`.

        `service` among them is another class to make it from: tests watch and break it.
        """
        self.hold()
        service_class: Callable[..., Service] = more.pop("service", Service)
        store = self.store()
        try:
            return service_class(store, self.keys, self.marks, **more)
        except BaseException:
            store.close()
            raise
