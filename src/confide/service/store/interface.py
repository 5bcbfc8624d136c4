"""What a service needs of its database. There is one implementation per dialect of SQL.

`Service` knows none of them. All of them pass the same tests (tests/service/store), which hold two
promises that privacy needs: what is committed survives a crash, and of several processes only one
closes a batch.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from confide.errors import StateError
from confide.service.documents import ReleaseRow
from confide.service.store.vault import Vault


class Moved(StateError):
    """Another worker was faster. Nothing of this transaction is durable: read again and go on."""


class RoundConflict(StateError):
    """Another process has planned another round from the same release.

    Users answer that one.
    """

    def __init__(self, run: str, generation: int) -> None:
        self.generation = generation
        super().__init__(
            f"run {run}: another process planned the round of release {generation} first, and this "
            "process plans a different one, because processors and versions of libraries round "
            "differently. Serve this run on the kind of processor that planned the round, with the "
            "same versions of confide and its libraries"
        )


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run: its public documents, and where it is now.

    `spec` is TOML. `status` is open, paused or finished. `generation` is the number of its newest
    release.
    """

    name: str
    spec: str
    manifest: bytes
    signature: bytes
    key: str
    certificate: bytes
    status: str
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
    """The exact sum of the open batch, or a part of it. PRIVATE.

    `total` has one number per coordinate: whole steps of the grid, 64 bits each, little-endian. It
    may be empty, which stands for zero. This is a format.
    """

    generation: int
    users: int
    total: bytes = field(repr=False)

    def plus(self, other: "OpenSum") -> "OpenSum":
        if self.generation != other.generation:
            raise StateError("sums of two batches cannot be added: the database is damaged")
        if self.total and other.total:
            own_steps = np.frombuffer(self.total, dtype="<i8")
            other_steps = np.frombuffer(other.total, dtype="<i8")
            total = (own_steps + other_steps).tobytes()
        else:
            total = self.total or other.total
        return OpenSum(self.generation, self.users + other.users, total)


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """A person's place in a batch.

    `slot` numbers the places of one person in a run. `nonce` is the idempotency key of the report,
    or None if the person is enrolled and has not reported yet.
    """

    slot: int
    generation: int
    nonce: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class SigningKeyRow:
    """A public signing key, and the signature of the key that endorsed it."""

    id: str
    public: bytes
    endorsed_by: str
    endorsement: bytes
    retired: bool


@dataclass(frozen=True, slots=True)
class ApiKeyRow:
    """A key of the API. `secret` is the hash of what its owner sends.

    `run` is the only run that the key may be used for; None: all of them. `expires` is in seconds
    since 1970; None: never.
    """

    id: str
    role: str
    secret: bytes = field(repr=False)
    label: str
    revoked: bool
    run: str | None = None
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What somebody with a role did, and when.

    Rows are added, never changed. `digest` is computed from the row and the digest of the row
    before it.
    """

    number: int
    at: str
    actor: str
    action: str
    detail: str
    digest: str


class Transaction(Protocol):
    """What is done here becomes durable together, when the block ends without an error.

    After an error nothing of it is durable. Sums and states go in and come out in clear text. The
    store seals them before they reach the database.
    """

    def create_run(self, run: RunRow, first: ReleaseRow, state: bytes) -> None: ...
    def hold(self, run: str, *, alone: bool = False) -> Head:
        """Return where the run is.

        Until the block ends, nobody closes its batch. If `alone`, nobody adds to it either.
        """

    def settle_round(self, run: str, generation: int, digest: bytes) -> bytes:
        """Return the digest of the round of this generation.

        The first process that plans the round stores it.
        """

    def open_sum(self, run: str) -> OpenSum: ...
    def keep_alive(self) -> AbstractContextManager[None]:
        """Use this while the process computes for long.

        The transaction is then not taken for one whose process has stopped.
        """

    def places_of(self, run: str, people: Sequence[bytes]) -> dict[bytes, list[BatchPlace]]:
        """Return the places of these people, in the order of their slots.

        Somebody who has none is not in it.
        """

    def count_enrolled(self, run: str, generation: int) -> int:
        """Return how many people have a place in a batch."""

    def take_places(self, run: str, places: Sequence[tuple[bytes, BatchPlace]]) -> None:
        """Write new places, or the reports of people who have a place without a report."""

    def accounts(self, people: Sequence[bytes]) -> dict[bytes, float]:
        """Return what these people have spent over all runs, in mu^2.

        Somebody who has spent nothing is not in it.
        """

    def charge(self, amounts: Sequence[tuple[bytes, float]]) -> None:
        """Add to what people have spent, in mu^2."""

    def add_to_sum(self, run: str, added: OpenSum) -> None:
        """Add users to the open sum. If another batch is open, this raises `Moved`."""

    def close(self, release: ReleaseRow, state: bytes) -> None:
        """Write a release, the state after it, and an empty sum.

        If somebody else has made this generation, this raises `StateError`.
        """

    def set_status(self, run: str, status: str) -> None: ...
    def seal_again(self, run: str) -> None:
        """Seal everything private of a run again with the newest key.

        The run must be held alone.
        """

    def add_signing_key(self, key: SigningKeyRow) -> None: ...
    def add_api_key(self, key: ApiKeyRow) -> None: ...
    def revoke_api_key(self, name: str) -> bool: ...
    def audit(self, at: str, actor: str, action: str, detail: str) -> None: ...


class ServiceStore(Protocol):
    """The database of a service.

    What is committed survives a crash. Whatever goes wrong is a `StoreError`. `workers` is how many
    processes may take reports at the same time.
    """

    workers: int
    vault: Vault

    def transaction(self) -> AbstractContextManager[Transaction]: ...
    def runs(self) -> list[str]: ...
    def run(self, name: str) -> RunRow | None: ...
    def release(self, run: str, generation: int) -> ReleaseRow | None: ...
    def releases(self, run: str) -> Iterable[ReleaseRow]: ...
    def head(self, run: str) -> Head: ...
    def round_digest(self, run: str, generation: int) -> bytes | None:
        """Return the digest of the round of this generation, or None if nobody has planned it."""

    def open_sum(self, run: str) -> OpenSum: ...
    def state(self, run: str) -> SavedState: ...
    def participants(self, run: str) -> dict[int, int]:
        """Return how many reports were counted, by the generation of their batch."""

    def most_reports(self, run: str) -> int:
        """Return how often the person has reported who has reported most often."""

    def largest_account(self) -> float:
        """Return what the person has spent who has spent most, in mu^2."""

    def signing_keys(self) -> list[SigningKeyRow]: ...
    def api_keys(self) -> list[ApiKeyRow]: ...
    def audit_rows(self) -> Iterable[AuditRow]: ...
    def forget(self) -> None:
        """Remove old versions of the open sum from the disk. This happens at each close."""

    def backup(self, path: str) -> None:
        """Copy the whole database to a new file. PRIVATE, as the database is."""

    def close(self) -> None: ...
