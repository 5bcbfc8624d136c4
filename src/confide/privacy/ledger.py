"""The privacy ledger: one total budget for a data set or a service, in one SQLite file.

Guarantee: all releases together are (E, D)-DP under the ledger's relation, although what to ask next, and with which loss, may
depend on every answer so far: a privacy filter [Rogers16]. The total (E, D) and what is set aside for noise that is not Gaussian
are fixed when the ledger is made. Other noise adds up (epsilon, delta), and may use all of (E, D) until the first Gaussian
spend. That one divides the total for good: other noise keeps (E_o, D_o), the larger of what it has spent and what was set aside;
Gaussian noise gets (E_g, D_g) = (E, D) - (E_o, D_o), that is, a sum of mu^2 of at most B = gaussian_mu(E_g, D_g)^2.

Proof. Fix two neighbours; P and Q are the laws of all answers on the one and on the other. Gaussian noise alone: a mu-GDP answer
can be computed from one draw of N(0, 1) or N(mu, 1) [Dong22, Thm. 2.10], so from the increment, over a time mu^2, of a Brownian
motion with drift 0 or 1. The next mu may depend on the past of the motion, so adaptive answers with a sum of mu^2 up to B can be
computed from its path on [0, B], for which the end point is sufficient: N(0, B) or N(B, B). Other noise alone: an (e, d)-DP
answer fails openly with probability d, and otherwise has a likelihood ratio of at most e^e [Kairouz15, Thm. 3.1]; on every path
the ratios multiply to at most e^E_o, the d add up to at most D_o. Interleaved: let R answer Gaussian questions as Q does, others
as P does. Given the answers up to the division, P and R differ in Gaussian answers only, so for every event S
    P(S, no failure) <= e^E_g R(S, no failure) + D_g    and    R(S, no failure) <= e^E_o Q(S).
Failures have P-mass at most D_o, so P(S) <= e^(E_g + E_o) Q(S) + D_g + D_o: whatever the division, e^E Q(S) + D on every path.

Parts of different people. A spend may be on one part of a split, as (name of the split, name of the part): the split says for every
person, by what neighbours have in common, in which one part they are. Two neighbours differ in one person, and answers on other parts
than theirs have the same law on both, given the answers before: they are a function of those and of common data, and the proof above
needs the answers that see this person only. So a spend on a part is admitted if the spends that its people are in, with it, keep the
caps: all but those on other parts of the same split. What is spent in all is, of each split, the most that any of its parts has spent.
"""

import contextlib
import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confide import arguments
from confide._durable import create
from confide.errors import BudgetExceeded, InvalidParameter, LedgerError
from confide.privacy.accounting import gaussian_epsilon, gaussian_mu
from confide.privacy.guarantee import SLACK
from confide.privacy.loss import ApproxDP, GaussianDP, Loss, PureDP
from confide.privacy.request import CentralDP, Relation, parse_relation

_APPLICATION, _VERSION = 0x636F6E66, 2  # "conf"
_TABLES = {
    "total": "epsilon REAL, delta REAL, relation TEXT, others_epsilon REAL, others_delta REAL",
    "division": "one INTEGER PRIMARY KEY CHECK (one = 1), mu REAL NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL",
    "spend": """number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, at TEXT NOT NULL, what TEXT NOT NULL, relation TEXT NOT NULL,
                kind TEXT NOT NULL CHECK (kind IN ('gaussian', 'pure', 'approx')), mu REAL NOT NULL CHECK (mu >= 0),
                epsilon REAL NOT NULL CHECK (epsilon >= 0), delta REAL NOT NULL CHECK (delta >= 0)""",
    "part": "number INTEGER PRIMARY KEY REFERENCES spend (number), split TEXT NOT NULL, part TEXT NOT NULL",
    "release": "number INTEGER PRIMARY KEY REFERENCES spend (number), bytes BLOB NOT NULL",
}


@dataclass(frozen=True, slots=True)
class Total:
    """What may be spent in all, and the part of it that is set aside for noise that is not Gaussian."""

    epsilon: float
    delta: float
    relation: Relation = Relation.REPLACE
    others_epsilon: float = 0.0
    others_delta: float = 0.0

    def __post_init__(self) -> None:
        # checks all three
        object.__setattr__(
            self, "relation", CentralDP(self.epsilon, self.delta, self.relation).relation
        )
        arguments.real("others_epsilon", self.others_epsilon)
        arguments.real("others_delta", self.others_delta)
        if not (0 <= self.others_epsilon <= self.epsilon and 0 <= self.others_delta <= self.delta):
            raise InvalidParameter(
                f"others_epsilon and others_delta must be non-negative and within the total, got {self}"
            )


@dataclass(frozen=True, slots=True)
class Amount:
    """Gaussian noise and other noise, counted apart."""

    mu: float  # the root of the sum of squares
    epsilon: float
    delta: float

    def row(self) -> tuple[float, float, float]:
        return self.mu, self.epsilon, self.delta


@dataclass(frozen=True, slots=True)
class Spend:
    """One line of the ledger."""

    id: str
    when: str  # it was charged: UTC, ISO 8601
    what: str
    relation: Relation
    loss: Loss
    released: bool  # False: charged, and no release is stored yet
    # of which split, and which part: nobody else's data were used
    part: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The filter of this module's docstring, as it stands: with `caps` once the first Gaussian spend has divided the total."""

    total: Total
    spent: Amount
    caps: Amount | None = None

    def admit(self, loss: Loss) -> Amount | None:
        """The caps that hold once `loss` is spent; a loss that does not fit is refused."""
        gaussian = isinstance(loss, GaussianDP)
        caps, (_, mu, epsilon, delta) = self._caps_for(gaussian), _columns(loss)
        after = (
            math.hypot(self.spent.mu, mu),
            self.spent.epsilon + epsilon,
            self.spent.delta + delta,
        )
        fits = all(spent <= cap * (1 + SLACK) for spent, cap in zip(after, caps.row(), strict=True))
        # without delta there is no Gaussian noise, however little
        if not fits or (gaussian and caps.mu == 0):
            raise BudgetExceeded(str(loss), self.left)
        return caps if gaussian else self.caps

    @property
    def epsilon(self) -> float:
        """What all spends so far amount to at the total delta: NOMINAL. It is a guarantee only if they were fixed in advance.

        Whoever stops when the answers look worst has several times as large a delta at this epsilon (tests/privacy/test_ledger.py). The
        filter guarantees the total, and nothing smaller on the way.
        """
        return self.spent.epsilon + gaussian_epsilon(
            self.spent.mu, max(0.0, self.total.delta - self.spent.delta)
        )

    @property
    def remaining(self) -> Amount:
        """Undivided, this is a choice: so much Gaussian noise if no other noise comes before it, or so much other noise."""
        spent, most, others = self.spent, self._caps_for(True).mu, self._caps_for(False)
        mu = math.sqrt(max(0.0, most - spent.mu) * (most + spent.mu))
        return Amount(
            mu, max(0.0, others.epsilon - spent.epsilon), max(0.0, others.delta - spent.delta)
        )

    @property
    def left(self) -> str:
        """`remaining` in words."""
        left, word = self.remaining, "or" if self.caps is None else "and"
        divided = "" if self.caps is None else " (divided for good by the first Gaussian spend)"
        return f"mu={left.mu:.6g} for Gaussian noise {word} (epsilon={left.epsilon:.6g}, delta={left.delta:.6g}) for other noise{divided}"

    def _caps_for(self, gaussian: bool) -> Amount:
        """The caps for the next spend: those set already, those that a Gaussian one would set, or the whole total."""
        total, spent = self.total, self.spent
        if self.caps is not None or not gaussian:
            return self.caps or Amount(0.0, total.epsilon, total.delta)
        epsilon, delta = (
            max(spent.epsilon, total.others_epsilon),
            max(spent.delta, total.others_delta),
        )
        if total.delta - delta <= SLACK * total.delta:  # what rounding leaves is no budget
            return Amount(0.0, epsilon, delta)
        return Amount(
            gaussian_mu(max(0.0, total.epsilon - epsilon), total.delta - delta), epsilon, delta
        )


class Ledger:
    """A privacy budget in the file at `path`, created by `Ledger.init` or `confide ledger init`.

    Every transaction opens the file anew: a ledger may be shared by threads and forked processes, holds no lock while a release
    is being computed, and never writes to a file that was moved away. It cannot detect that the file was replaced by an older copy.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(arguments.path("path", path)).absolute()
        with self._transaction() as db:
            if (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise LedgerError(f"the ledger {self.path} is damaged: {found}")

    @classmethod
    def init(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float,
        relation: Relation | str = Relation.REPLACE,
        others_epsilon: float = 0.0,
        others_delta: float = 0.0,
    ) -> "Ledger":
        """Create the file, whole or not at all, readable and writable for its owner only. An existing file is not changed."""
        path = arguments.path("path", path)
        total = Total(epsilon, delta, parse_relation(relation), others_epsilon, others_delta)
        try:
            create(Path(path).absolute(), _empty(total), mode=0o600)
        except OSError as error:
            raise LedgerError(
                f"cannot make a ledger at {os.fspath(path)}: {error.strerror}"
            ) from None
        return cls(path)

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open between two transactions."""

    def spend(
        self,
        id: str,
        what: str,
        loss: Loss,
        relation: Relation | str,
        *,
        release: Callable[[], bytes],
        part: tuple[str, str] | None = None,
    ) -> bytes:
        """Charge `loss`, then make the release and store it; under an id that has a stored release, return that one.

        The charge is durable before `release` is called, and the release before it is returned. If `release` raises, or the process
        dies, the spend stays charged; the same spend, retried under its id, resumes at no further cost. If two calls race under one
        id, both return the bytes that were stored first, and the other release is discarded. Id, description and release are public.
        `release` must publish nothing itself, and whether it fails must not depend on the private data. `part`: only the users of this
        part of a split are in it; see the docstring of the module.
        """
        arguments.text("id", id, empty=False)
        arguments.text("what", what, empty=False)
        if not callable(release):
            raise InvalidParameter.of(
                "release", f"must be a function that returns bytes, got {arguments.shown(release)}"
            )
        number, stored = self._charge(
            id, (what, parse_relation(relation).value, *_columns(loss)), loss, _named(part)
        )
        if stored is not None:
            return stored
        payload = release()
        if not isinstance(payload, bytes):
            raise InvalidParameter.of(
                "release",
                f"must return bytes, got {type(payload).__name__}; the spend stays charged",
            )
        with self._transaction(write=True) as db:
            db.execute(
                "INSERT OR IGNORE INTO release (number, bytes) VALUES (?, ?)", (number, payload)
            )
            return bytes(
                db.execute("SELECT bytes FROM release WHERE number = ?", (number,)).fetchone()[0]
            )

    @property
    def account(self) -> Account:
        """Total, spent and remaining, read at one moment."""
        with self._transaction() as db, self._rows():
            return _account(db)

    def account_of(self, part: tuple[str, str] | None) -> Account:
        """The same for the users of one part of a split, without what was spent on its other parts."""
        with self._transaction() as db, self._rows():
            return _account(db, _named(part))

    @property
    def total(self) -> Total:
        return self.account.total

    @property
    def spent(self) -> Amount:
        return self.account.spent

    @property
    def remaining(self) -> Amount:
        return self.account.remaining

    @property
    def spends(self) -> tuple[Spend, ...]:
        columns = "spend.number, id, at, what, relation, kind, mu, epsilon, delta, release.number IS NOT NULL"
        with self._transaction() as db, self._rows():
            parts = _parts(db)
            rows = db.execute(
                f"SELECT {columns} FROM spend LEFT JOIN release USING (number) ORDER BY spend.number"
            ).fetchall()
            return tuple(_spend(row, parts.get(number)) for number, *row in rows)

    def _charge(
        self, id: str, line: tuple[str | float, ...], loss: Loss, part: tuple[str, str] | None
    ) -> tuple[int, bytes | None]:
        """The number of the spend, charged now or before, and its release if there is one already."""
        columns = "what, relation, kind, mu, epsilon, delta"
        with self._transaction(write=True) as db:
            query = f"SELECT number, bytes, {columns} FROM spend LEFT JOIN release USING (number) WHERE id = ?"
            if (known := db.execute(query, (id,)).fetchone()) is not None:
                if known[2:] != line:
                    raise LedgerError(
                        f"the id {id!r} was spent on another description, loss or relation: choose a new id"
                    )
                if known[1] is None and _parts(db).get(known[0]) != part:
                    raise LedgerError(
                        f"the id {id!r} was spent on another part of the log: choose a new id"
                    )
                return known[0], known[1]
            with self._rows():
                account = _account(db, part)
            if line[1] != account.total.relation:
                raise LedgerError(
                    f'the ledger adds up relation "{account.total.relation}", and this release has "{line[1]}"'
                )
            caps = account.admit(loss)
            if caps is not account.caps and caps is not None:
                db.execute("INSERT INTO division VALUES (1, ?, ?, ?)", caps.row())
            row = (id, datetime.now(UTC).isoformat(timespec="seconds"), *line)
            number = (
                db.execute(
                    f"INSERT INTO spend (id, at, {columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
                ).lastrowid
                or 0
            )
            if part is not None:
                if not _has_parts(db):  # made by an earlier version
                    _grow(db, "part")
                db.execute("INSERT INTO part VALUES (?, ?, ?)", (number, *part))
            return number, None

    @contextlib.contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Committed, and durable, when the block ends; undone when an error leaves it."""
        if not os.path.isfile(self.path):
            raise LedgerError(f"no ledger at {self.path}; create one with confide ledger init")
        with _connect(self.path) as db:
            application, version = (
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            )
            # SQLite would fill up with zeros
            torn = os.path.getsize(self.path) % db.execute("PRAGMA page_size").fetchone()[0]
            if application != _APPLICATION or torn:
                raise LedgerError(f"{self.path} is not a ledger, or it is damaged")
            if version < _VERSION:
                raise LedgerError(
                    f"the ledger {self.path} was written by confide 0.2, which named releases differently: "
                    "create a new one with confide ledger init"
                )
            if version > _VERSION:
                raise LedgerError(
                    f"the ledger {self.path} was written by a newer confide: upgrade confide to use it"
                )
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield db
            db.execute("COMMIT")

    @contextlib.contextmanager
    def _rows(self) -> Iterator[None]:
        """Numbers and texts in the file that confide never wrote are damage, not wrong arguments."""
        try:
            yield
        except (InvalidParameter, TypeError, ValueError, OverflowError):
            raise LedgerError(
                f"the ledger {self.path} is damaged, or somebody has edited it"
            ) from None


@contextlib.contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    # A rollback journal, no write-ahead log: after a commit the one file is the whole ledger, to be copied or put on a share.
    # EXTRA: a journal whose removal is lost in a power cut would come back and undo the commit. mode=rw never creates a file.
    pragmas = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON"
    try:
        with contextlib.closing(
            sqlite3.connect(
                path.as_uri() + "?mode=rw", uri=True, timeout=60.0, isolation_level=None
            )
        ) as db:
            db.executescript(pragmas)
            yield db
    except (sqlite3.Error, UnicodeError) as error:  # a damaged name in the file cannot even be said
        why = "it is damaged" if isinstance(error, UnicodeError) else error
        raise LedgerError(f"the ledger {path} cannot be used: {why}") from error


def _empty(total: Total) -> bytes:
    """A ledger without spends, as the bytes of its file."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for table in _TABLES:
            _grow(db, table)
        row = (total.epsilon, total.delta, total.relation, total.others_epsilon, total.others_delta)
        db.execute("INSERT INTO total VALUES (?, ?, ?, ?, ?)", row)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
        return db.serialize()


def _grow(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"CREATE TABLE {table} ({_TABLES[table]})")
    for act in ("UPDATE", "DELETE"):
        db.execute(
            f"CREATE TRIGGER {table}_{act} BEFORE {act} ON {table} BEGIN SELECT RAISE(ABORT, 'only grows'); END"
        )


def _has_parts(db: sqlite3.Connection) -> bool:
    return (
        db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'part'").fetchone()
        is not None
    )


def _parts(db: sqlite3.Connection) -> dict[int, tuple[str, str]]:
    """The split and the part of each spend that has one, by the spend's number."""
    rows = db.execute("SELECT number, split, part FROM part").fetchall() if _has_parts(db) else []
    return {
        number: (arguments.text("split", split), arguments.text("part", part))
        for number, split, part in rows
    }


def _named(part: tuple[str, str] | None) -> tuple[str, str] | None:
    if part is None:
        return None
    if not isinstance(part, tuple) or len(part) != 2:
        raise InvalidParameter.of(
            "part", f"must be (name of the split, name of the part), got {arguments.shown(part)}"
        )
    return arguments.text("part", part[0], empty=False), arguments.text(
        "part", part[1], empty=False
    )


def _account(db: sqlite3.Connection, part: tuple[str, str] | None = None) -> Account:
    """Of all spends, or of those that the people of a part are in."""
    total = Total(
        *db.execute(
            "SELECT epsilon, delta, relation, others_epsilon, others_delta FROM total"
        ).fetchone()
    )
    caps = db.execute("SELECT mu, epsilon, delta FROM division").fetchone()
    spent = _spent(db, part)
    for amount in (spent, Amount(*caps)) if caps else (spent,):
        for name in ("mu", "epsilon", "delta"):
            arguments.real(name, getattr(amount, name), at_least=0)
    return Account(total, spent, caps and Amount(*caps))


def _spent(db: sqlite3.Connection, part: tuple[str, str] | None) -> Amount:
    """The spends that the people of a part are in; None: the most of any part."""
    parts, common = _parts(db), list[tuple[float, ...]]()
    on_parts: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for number, *amounts in db.execute("SELECT number, mu, epsilon, delta FROM spend"):
        place = parts.get(number)
        if place is None or place == part:
            common.append(tuple(amounts))
        elif part is None or place[0] != part[0]:
            on_parts.setdefault(place, []).append(tuple(amounts))
    most: dict[str, Amount] = {}
    for (split, _), rows in on_parts.items():
        before, here = most.get(split, Amount(0.0, 0.0, 0.0)), _add(rows)
        most[split] = Amount(*(max(pair) for pair in zip(before.row(), here.row(), strict=True)))
    return _add([*common, *(amount.row() for amount in most.values())])


def _spend(row: list[Any], part: tuple[str, str] | None) -> Spend:
    """A line of the file; what somebody has edited is refused, whatever it is."""
    id, at, what, relation, *loss, done = row
    for name, said in (("id", id), ("at", at), ("what", what)):
        arguments.text(name, said)
    return Spend(id, at, what, Relation(relation), _loss(*loss), bool(done), part)


def _add(rows: Iterable[Iterable[float]]) -> Amount:
    """The sum of rows (mu, epsilon, delta), taken anew each time: a running sum would gather rounding errors."""
    mu, epsilon, delta = list(zip(*rows, strict=True)) or [(), (), ()]
    return Amount(math.hypot(*mu), math.fsum(epsilon), math.fsum(delta))


def _columns(loss: Loss) -> tuple[str, float, float, float]:
    kind = {GaussianDP: "gaussian", PureDP: "pure", ApproxDP: "approx"}.get(type(loss))
    mu, epsilon, delta = (float(getattr(loss, name, 0.0)) for name in ("mu", "epsilon", "delta"))
    if kind is None or not all(map(math.isfinite, (mu, epsilon, delta))):
        raise InvalidParameter.of(
            "loss",
            f"must be a finite GaussianDP, PureDP or ApproxDP, got {loss if kind else type(loss)}",
        )
    return kind, mu, epsilon, delta


def _loss(kind: str, mu: float, epsilon: float, delta: float) -> Loss:
    return (
        GaussianDP(mu)
        if kind == "gaussian"
        else PureDP(epsilon)
        if kind == "pure"
        else ApproxDP(epsilon, delta)
    )
