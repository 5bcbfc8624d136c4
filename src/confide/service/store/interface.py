"""What a service needs of its database. One implementation per dialect; `Service` knows none of them."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from confide.errors import StateError
from confide.service.documents import ReleaseRow
from confide.service.store.vault import Vault


class Moved(StateError):
    """Another worker was faster. Nothing of this transaction is durable: read again, and go on."""


class RoundConflict(StateError):
    """Another process has planned another round from the same release, and users answer that one."""

    def __init__(self, run: str, generation: int) -> None:
        self.generation = generation
        super().__init__(
            f"run {run}: another process planned the round of release {generation} first, and this process plans a "
            "different one, because processors and versions of libraries round differently. Serve this run on the "
            "kind of processor that planned the round, with the same versions of confide and its libraries"
        )


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run: its public documents, and where it is now."""

    name: str
    spec: str
    manifest: bytes
    signature: bytes
    key: str
    certificate: bytes
    status: str  # open | paused | finished
    generation: int


@dataclass(frozen=True, slots=True)
class SavedState:
    """What `Learner.save` returned after the release of this generation. PRIVATE."""

    generation: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Head:
    """Where a run is now, and how many users its open batch has. PRIVATE."""

    generation: int
    status: str
    users: int


@dataclass(frozen=True, slots=True)
class OpenSum:
    """The exact sum of the open batch. PRIVATE."""

    generation: int
    users: int
    # whole steps of the grid, 64 bits each, little-endian; empty: zero
    total: bytes = field(repr=False)

    def plus(self, other: "OpenSum") -> "OpenSum":
        if self.generation != other.generation:
            raise StateError("sums of two batches cannot be added: the database is damaged")
        if self.total and other.total:
            one, two = (np.frombuffer(each, dtype="<i8") for each in (self.total, other.total))
            total = (one + two).tobytes()
        else:
            total = self.total or other.total
        return OpenSum(self.generation, self.users + other.users, total)


@dataclass(frozen=True, slots=True)
class Taken:
    """A place in a batch: a report, or somebody who is enrolled and did not report yet (no nonce)."""

    slot: int
    generation: int
    nonce: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class SigningKeyRow:
    id: str
    public: bytes
    endorsed_by: str
    endorsement: bytes
    retired: bool


@dataclass(frozen=True, slots=True)
class ApiKeyRow:
    """A key of the API: only the hash of its secret."""

    id: str
    role: str
    secret: bytes = field(repr=False)
    label: str
    revoked: bool
    run: str | None = None  # the only run that it may be used for; None: all of them
    expires: int | None = None  # in seconds since 1970; None: never


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What somebody with a role did, and when. Rows are added, never changed: each has the digest of the one before."""

    number: int
    at: str
    actor: str
    action: str
    detail: str
    digest: str


class Transaction(Protocol):
    """Everything here becomes durable together, when the block ends without an error; or nothing does.

    Sums and states go in and come out in clear text. The store seals them before they reach the
    database.
    """

    def create_run(self, run: RunRow, first: ReleaseRow, state: bytes) -> None: ...
    def hold(self, run: str, *, alone: bool = False) -> Head:
        """Where the run is; until the block ends nobody closes its batch, and if `alone` nobody adds to it."""

    def settle_round(self, run: str, generation: int, digest: bytes) -> bytes:
        """Return the digest of the round of this generation. The first process that plans the round stores it."""

    def open_sum(self, run: str) -> OpenSum: ...
    def alive(self) -> AbstractContextManager[None]:
        """While this process computes for long: the transaction is not taken for one whose process has stopped."""

    def taken(self, run: str, people: Sequence[bytes]) -> dict[bytes, list[Taken]]:
        """The places of these people; nobody who has none is in it."""

    def enrolled(self, run: str, generation: int) -> int: ...
    def take(self, run: str, places: Sequence[tuple[bytes, Taken]]) -> None:
        """New places, or the reports of people who have one."""

    def accounts(self, people: Sequence[bytes]) -> dict[bytes, float]: ...
    def charge(self, amounts: Sequence[tuple[bytes, float]]) -> None: ...
    def add_to_sum(self, run: str, added: OpenSum) -> None:
        """More users of the open batch; `Moved` if another one is open."""

    def close(self, release: ReleaseRow, state: bytes) -> None:
        """The release, the state after it and an empty sum; `StateError` if somebody else has made this generation."""

    def set_status(self, run: str, status: str) -> None: ...
    def seal_again(self, run: str) -> None:
        """Seal everything private of a run again with the newest key. The run is held alone."""

    def add_signing_key(self, key: SigningKeyRow) -> None: ...
    def add_api_key(self, key: ApiKeyRow) -> None: ...
    def revoke_api_key(self, name: str) -> bool: ...
    def audit(self, at: str, actor: str, action: str, detail: str) -> None: ...


class ServiceStore(Protocol):
    """The database of a service. What is committed survives a crash; whatever goes wrong is a `StoreError`."""

    workers: int  # how many processes may take reports at the same time
    vault: Vault

    def transaction(self) -> AbstractContextManager[Transaction]: ...
    def runs(self) -> list[str]: ...
    def run(self, name: str) -> RunRow | None: ...
    def release(self, run: str, generation: int) -> ReleaseRow | None: ...
    def releases(self, run: str) -> Iterable[ReleaseRow]: ...
    def head(self, run: str) -> Head: ...
    def round_digest(self, run: str, generation: int) -> bytes | None:
        """The digest of the round of this generation, or None if nobody has planned it."""

    def open_sum(self, run: str) -> OpenSum: ...
    def state(self, run: str) -> SavedState: ...
    def participants(self, run: str) -> dict[int, int]:
        """How many people have reported, by generation."""

    def most_reports(self, run: str) -> int:
        """Of one person."""

    def largest_account(self) -> float:
        """Of one person, in mu^2."""

    def signing_keys(self) -> list[SigningKeyRow]: ...
    def api_keys(self) -> list[ApiKeyRow]: ...
    def audit_rows(self) -> Iterable[AuditRow]: ...
    def forget(self) -> None:
        """Old versions of the open sum are no longer on the disk: at each close."""

    def backup(self, path: str) -> None: ...
    def close(self) -> None: ...
