"""The privacy ledger: one total budget for a data set or a service, in one SQLite file.

Symbols, and their names in the code: (E, D) is `Total.epsilon` and `Total.delta`. (E_o, D_o) and
(E_g, D_g) are the caps for other noise and for Gaussian noise, once the total is divided. E_o and
D_o are `caps.epsilon` and `caps.delta`, and sqrt(B) is `caps.mu`.

Guarantee: all releases together are (E, D)-DP under the ledger's relation. This holds although what
to ask next, and with which loss, may depend on every answer so far: the ledger is a privacy filter
[Rogers16]. The total (E, D), and what is set aside for noise that is not Gaussian, are fixed when
the ledger is made. Other noise adds up (epsilon, delta), and may use all of (E, D) until the first
Gaussian spend. That spend divides the total for good:

- Other noise keeps (E_o, D_o), the larger of what it has spent and what was set aside.
- Gaussian noise gets (E_g, D_g) = (E, D) - (E_o, D_o). So the sum of its mu^2 may be at most
  B = gaussian_mu(E_g, D_g)^2.

Proof. Fix two neighbours. P and Q are the laws of all answers on the one and on the other.

1. Gaussian noise alone. A mu-GDP answer can be computed from one draw of N(0, 1) or N(mu, 1)
   [Dong22, Thm. 2.10]. So it can be computed from the increment, over a time mu^2, of a Brownian
   motion with drift 0 or 1. The next mu may depend on the past of the motion. So adaptive answers
   with a sum of mu^2 up to B can be computed from its path on [0, B]. The end point is sufficient
   for this path: N(0, B) or N(B, B).
2. Other noise alone. An (e, d)-DP answer fails openly with probability d, and otherwise has a
   likelihood ratio of at most e^e [Kairouz15, Thm. 3.1]. On every path the ratios multiply to at
   most e^E_o, and the d add up to at most D_o.
3. Interleaved. Let R answer Gaussian questions as Q does, and others as P does. Given the answers
   up to the division, P and R differ in Gaussian answers only, so for every event S

       P(S, no failure) <= e^E_g R(S, no failure) + D_g   and   R(S, no failure) <= e^E_o Q(S).

   Failures have a P-mass of at most D_o, so P(S) <= e^(E_g + E_o) Q(S) + D_g + D_o. Whatever the
   division is, this is e^E Q(S) + D on every path.

Parts of different people. A spend may be on one part of a split, which is given as (name of the
split, name of the part). The split says for every person, by what neighbours have in common, in
which one part they are. Two neighbours differ in one person. Answers on other parts than this
person's have the same law on both, given the answers before, because they are a function of those
and of common data. So the proof above needs only the answers that see this person. A spend on a
part is therefore admitted if it keeps the caps together with the spends that the people of the part
are in: all spends but those on other parts of the same split. What is spent in all is, for each
split, the most that any of its parts has spent.

What leaves this file: the SQLite file with the tables in `_TABLES`, the ids and descriptions in it,
and the stored releases. Ledgers in use must stay readable, so a change of the tables needs a new
version. Errors and messages may be changed freely, and contain public values only.
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

# The file says with these two numbers that it is a ledger ("conf" in ASCII), and of which version.
_APPLICATION = 0x636F6E66
_VERSION = 2
# Another transaction may hold the file for so many seconds. Taste.
_SECONDS_TO_WAIT = 60.0
_TABLES = {
    # One row: what may be spent in all.
    "total": "epsilon REAL, delta REAL, relation TEXT, others_epsilon REAL, others_delta REAL",
    # One row, once the first Gaussian spend has divided the total: the caps.
    "division": """one INTEGER PRIMARY KEY CHECK (one = 1), mu REAL NOT NULL,
                   epsilon REAL NOT NULL, delta REAL NOT NULL""",
    "spend": """number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, at TEXT NOT NULL,
                what TEXT NOT NULL, relation TEXT NOT NULL,
                kind TEXT NOT NULL CHECK (kind IN ('gaussian', 'pure', 'approx')),
                mu REAL NOT NULL CHECK (mu >= 0), epsilon REAL NOT NULL CHECK (epsilon >= 0),
                delta REAL NOT NULL CHECK (delta >= 0)""",
    # For spends on one part of a split. Ledgers of earlier versions do not have this table.
    "part": """number INTEGER PRIMARY KEY REFERENCES spend (number),
               split TEXT NOT NULL, part TEXT NOT NULL""",
    "release": "number INTEGER PRIMARY KEY REFERENCES spend (number), bytes BLOB NOT NULL",
}
# What says that two spends under one id are the same.
_LINE_COLUMNS = "what, relation, kind, mu, epsilon, delta"
# A part of a split: (name of the split, name of the part).
Part = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Total:
    """What may be spent in all.

    `others_epsilon` and `others_delta` are set aside for noise that is not Gaussian.
    """

    epsilon: float
    delta: float
    relation: Relation = Relation.REPLACE
    others_epsilon: float = 0.0
    others_delta: float = 0.0

    def __post_init__(self) -> None:
        # The request checks all three values.
        request = CentralDP(self.epsilon, self.delta, self.relation)
        object.__setattr__(self, "relation", request.relation)
        arguments.real("others_epsilon", self.others_epsilon)
        arguments.real("others_delta", self.others_delta)
        if not (0 <= self.others_epsilon <= self.epsilon and 0 <= self.others_delta <= self.delta):
            raise InvalidParameter(
                "others_epsilon and others_delta must be non-negative and within the total, "
                f"got {self}"
            )


@dataclass(frozen=True, slots=True)
class Amount:
    """How much Gaussian noise and how much other noise, counted apart.

    `mu` is the root of the sum of squares of the Gaussian losses. `epsilon` and `delta` are sums
    over the other losses.
    """

    mu: float
    epsilon: float
    delta: float

    def row(self) -> tuple[float, float, float]:
        return self.mu, self.epsilon, self.delta


@dataclass(frozen=True, slots=True)
class Spend:
    """One line of the ledger.

    `when` is the time of the charge in UTC (ISO 8601). `released` is False if the loss is charged
    and no release is stored yet. If there is a `part`, only the data of its users were used.
    """

    id: str
    when: str
    what: str
    relation: Relation
    loss: Loss
    released: bool
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """The privacy filter of this module's docstring at one moment.

    `caps` is None until the first Gaussian spend has divided the total.
    """

    total: Total
    spent: Amount
    caps: Amount | None = None

    def admit(self, loss: Loss) -> Amount | None:
        """Return the caps that hold once `loss` is spent, and refuse a loss that does not fit."""
        is_gaussian = isinstance(loss, GaussianDP)
        caps = self._caps_for(is_gaussian)
        _, mu, epsilon, delta = _columns(loss)
        after = (
            math.hypot(self.spent.mu, mu),
            self.spent.epsilon + epsilon,
            self.spent.delta + delta,
        )
        fits = all(spent <= cap * (1 + SLACK) for spent, cap in zip(after, caps.row(), strict=True))
        # Without delta there can be no Gaussian noise, however small its loss is.
        if not fits or (is_gaussian and caps.mu == 0):
            raise BudgetExceeded(str(loss), self.left)
        return caps if is_gaussian else self.caps

    @property
    def epsilon(self) -> float:
        """The NOMINAL epsilon of all spends so far, at the total delta.

        It is a guarantee only if the spends were fixed in advance. Somebody who stops when the
        answers look worst has a delta that is several times as large at this epsilon
        (tests/privacy/test_ledger.py). The filter guarantees the total, and nothing smaller before
        the total is spent.
        """
        delta_left = max(0.0, self.total.delta - self.spent.delta)
        return self.spent.epsilon + gaussian_epsilon(self.spent.mu, delta_left)

    @property
    def remaining(self) -> Amount:
        """What the next spends may be.

        While the total is not divided, this is a choice: so much Gaussian noise if no other noise
        comes before it, or so much other noise.
        """
        spent = self.spent
        largest_mu = self._caps_for(True).mu
        others = self._caps_for(False)
        # The root of largest_mu^2 - spent.mu^2, without cancellation.
        mu = math.sqrt(max(0.0, largest_mu - spent.mu) * (largest_mu + spent.mu))
        epsilon = max(0.0, others.epsilon - spent.epsilon)
        delta = max(0.0, others.delta - spent.delta)
        return Amount(mu, epsilon, delta)

    @property
    def left(self) -> str:
        """`remaining` in words."""
        left = self.remaining
        conjunction = "or" if self.caps is None else "and"
        divided = "" if self.caps is None else " (divided for good by the first Gaussian spend)"
        return (
            f"mu={left.mu:.6g} for Gaussian noise {conjunction} (epsilon={left.epsilon:.6g}, "
            f"delta={left.delta:.6g}) for other noise{divided}"
        )

    def _caps_for(self, is_gaussian: bool) -> Amount:
        """The caps that the next spend must keep.

        These are the caps that were set by the division. Before the division other noise may use
        the whole total, and a Gaussian spend keeps the caps that it would set.
        """
        total = self.total
        if self.caps is not None:
            return self.caps
        if not is_gaussian:
            return Amount(0.0, total.epsilon, total.delta)
        # (E_o, D_o) of the docstring.
        epsilon = max(self.spent.epsilon, total.others_epsilon)
        delta = max(self.spent.delta, total.others_delta)
        # What rounding leaves of delta is no budget.
        if total.delta - delta <= SLACK * total.delta:
            return Amount(0.0, epsilon, delta)
        mu = gaussian_mu(max(0.0, total.epsilon - epsilon), total.delta - delta)
        return Amount(mu, epsilon, delta)


class Ledger:
    """A privacy budget in the file at `path`, created by `Ledger.init` or `confide ledger init`.

    Every transaction opens the file anew. So threads and forked processes may share a ledger, it
    holds no lock while a release is being computed, and it never writes to a file that was moved
    away. It cannot detect that the file was replaced by an older copy.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(arguments.path("path", path)).absolute()
        with self._transaction() as db:
            verdict = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise LedgerError(f"the ledger {self.path} is damaged: {verdict}")

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
        """Create the file, whole or not at all. An existing file is not changed.

        Only the owner of the file can read and write it.
        """
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
        part: Part | None = None,
    ) -> bytes:
        """Charge `loss`, then make the release and store it.

        If a release is stored under the id already, that one is returned and nothing is charged.

        The charge is durable before `release` is called, and the release is durable before it is
        returned. If `release` raises an error, or the process dies, the spend stays charged. The
        same spend, retried under its id, resumes at no further cost. If two calls race under one
        id, both return the bytes that were stored first, and the other release is discarded.

        The id, the description `what` and the release are public. `release` must publish nothing
        itself, and whether it fails must not depend on the private data. If there is a `part`, only
        the users of this part of a split are in the release (see the docstring of the module).
        """
        arguments.text("id", id, empty=False)
        arguments.text("what", what, empty=False)
        if not callable(release):
            raise InvalidParameter.of(
                "release", f"must be a function that returns bytes, got {arguments.shown(release)}"
            )
        line = (what, parse_relation(relation).value, *_columns(loss))
        number, stored = self._charge(id, line, loss, _check_part(part))
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
            query = "SELECT bytes FROM release WHERE number = ?"
            return bytes(db.execute(query, (number,)).fetchone()[0])

    @property
    def account(self) -> Account:
        """Total, spent and remaining, read at one moment."""
        with self._transaction() as db, self._rows():
            return _account(db)

    def account_of(self, part: Part | None) -> Account:
        """The account of the users of one part of a split.

        What was spent on other parts of the same split is left out.
        """
        with self._transaction() as db, self._rows():
            return _account(db, _check_part(part))

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
        """All lines of the ledger, in the order of the charges."""
        query = (
            "SELECT spend.number, id, at, what, relation, kind, mu, epsilon, delta, "
            "release.number IS NOT NULL "
            "FROM spend LEFT JOIN release USING (number) ORDER BY spend.number"
        )
        with self._transaction() as db, self._rows():
            parts = _parts(db)
            rows = db.execute(query).fetchall()
            return tuple(_spend(row, parts.get(number)) for number, *row in rows)

    def _charge(
        self, id: str, line: tuple[str | float, ...], loss: Loss, part: Part | None
    ) -> tuple[int, bytes | None]:
        """Charge the spend, unless it was charged before.

        `line` holds the columns what, relation, kind, mu, epsilon and delta. Returned are the
        number of the spend, and its release if one is stored already.
        """
        with self._transaction(write=True) as db:
            earlier = _earlier_charge(db, id, line, part)
            if earlier is not None:
                return earlier
            with self._rows():
                account = _account(db, part)
            relation = line[1]
            if relation != account.total.relation:
                raise LedgerError(
                    f'the ledger adds up relation "{account.total.relation}", '
                    f'and this release has "{relation}"'
                )
            caps = account.admit(loss)
            if caps is not None and caps is not account.caps:
                db.execute("INSERT INTO division VALUES (1, ?, ?, ?)", caps.row())
            row = (id, datetime.now(UTC).isoformat(timespec="seconds"), *line)
            insert = f"INSERT INTO spend (id, at, {_LINE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            number = db.execute(insert, row).lastrowid or 0
            if part is not None:
                # A ledger of an earlier version has no such table.
                if not _has_parts(db):
                    _create_table(db, "part")
                db.execute("INSERT INTO part VALUES (?, ?, ?)", (number, *part))
            return number, None

    @contextlib.contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction. It is durable when the block ends, and undone when an error leaves it."""
        if not os.path.isfile(self.path):
            raise LedgerError(f"no ledger at {self.path}; create one with confide ledger init")
        with _connect(self.path) as db:
            application, version = (
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            )
            # A file that ends within a page is torn. SQLite would fill up the page with zeros.
            torn = os.path.getsize(self.path) % db.execute("PRAGMA page_size").fetchone()[0]
            if application != _APPLICATION or torn:
                raise LedgerError(f"{self.path} is not a ledger, or it is damaged")
            if version < _VERSION:
                raise LedgerError(
                    f"the ledger {self.path} was written by confide 0.2, which named releases "
                    "differently: create a new one with confide ledger init"
                )
            if version > _VERSION:
                raise LedgerError(
                    f"the ledger {self.path} was written by a newer confide: "
                    "upgrade confide to use it"
                )
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield db
            db.execute("COMMIT")

    @contextlib.contextmanager
    def _rows(self) -> Iterator[None]:
        """What confide never wrote into the file is damage of the file, and no wrong argument."""
        try:
            yield
        except (InvalidParameter, TypeError, ValueError, OverflowError):
            raise LedgerError(
                f"the ledger {self.path} is damaged, or somebody has edited it"
            ) from None


@contextlib.contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file for one transaction. `mode=rw` never creates a file."""
    # With a rollback journal, and not a write-ahead log, the one file is the whole ledger after a
    # commit, and can be copied or put on a share. With EXTRA the removal of the journal is on the
    # disk, too. Otherwise a journal could come back after a power cut and undo the commit.
    pragmas = """PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;
                 PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON"""
    uri = path.as_uri() + "?mode=rw"
    try:
        with contextlib.closing(
            sqlite3.connect(uri, uri=True, timeout=_SECONDS_TO_WAIT, isolation_level=None)
        ) as db:
            db.executescript(pragmas)
            yield db
    except (sqlite3.Error, UnicodeError) as error:
        # The name of a damaged table may not be text, so SQLite's own error cannot be printed.
        why = "it is damaged" if isinstance(error, UnicodeError) else error
        raise LedgerError(f"the ledger {path} cannot be used: {why}") from error


def _empty(total: Total) -> bytes:
    """A ledger without spends, as the bytes of its file."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for table in _TABLES:
            _create_table(db, table)
        row = (total.epsilon, total.delta, total.relation, total.others_epsilon, total.others_delta)
        db.execute("INSERT INTO total VALUES (?, ?, ?, ?, ?)", row)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
        return db.serialize()


def _create_table(db: sqlite3.Connection, table: str) -> None:
    """A table whose rows can be neither changed nor deleted."""
    db.execute(f"CREATE TABLE {table} ({_TABLES[table]})")
    for action in ("UPDATE", "DELETE"):
        db.execute(
            f"CREATE TRIGGER {table}_{action} BEFORE {action} ON {table} "
            "BEGIN SELECT RAISE(ABORT, 'only grows'); END"
        )


def _has_parts(db: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'part'"
    return db.execute(query).fetchone() is not None


def _parts(db: sqlite3.Connection) -> dict[int, Part]:
    """The split and the part of each spend that has one, by the spend's number."""
    if not _has_parts(db):
        return {}
    return {
        number: (arguments.text("split", split), arguments.text("part", part))
        for number, split, part in db.execute("SELECT number, split, part FROM part").fetchall()
    }


def _check_part(part: Part | None) -> Part | None:
    """Return the argument `part` if it names a part of a split, or None."""
    if part is None:
        return None
    if not isinstance(part, tuple) or len(part) != 2:
        raise InvalidParameter.of(
            "part", f"must be (name of the split, name of the part), got {arguments.shown(part)}"
        )
    split_name, part_name = part
    return (
        arguments.text("part", split_name, empty=False),
        arguments.text("part", part_name, empty=False),
    )


def _earlier_charge(
    db: sqlite3.Connection, id: str, line: tuple[str | float, ...], part: Part | None
) -> tuple[int, bytes | None] | None:
    """The number of the spend with this id, and its release if there is one. None: no such spend.

    The id of another spend is refused.
    """
    query = (
        f"SELECT number, bytes, {_LINE_COLUMNS} "
        "FROM spend LEFT JOIN release USING (number) WHERE id = ?"
    )
    row = db.execute(query, (id,)).fetchone()
    if row is None:
        return None
    number, release, *earlier_line = row
    if tuple(earlier_line) != line:
        raise LedgerError(
            f"the id {id!r} was spent on another description, loss or relation: choose a new id"
        )
    if release is None and _parts(db).get(number) != part:
        raise LedgerError(f"the id {id!r} was spent on another part of the log: choose a new id")
    return number, release


def _account(db: sqlite3.Connection, part: Part | None = None) -> Account:
    """The account of all spends, or of those that the people of a part are in."""
    query = "SELECT epsilon, delta, relation, others_epsilon, others_delta FROM total"
    total = Total(*db.execute(query).fetchone())
    division = db.execute("SELECT mu, epsilon, delta FROM division").fetchone()
    caps = None if division is None else Amount(*division)
    spent = _spent(db, part)
    # Somebody may have edited the file.
    for amount in (spent, caps):
        if amount is not None:
            arguments.real("mu", amount.mu, at_least=0)
            arguments.real("epsilon", amount.epsilon, at_least=0)
            arguments.real("delta", amount.delta, at_least=0)
    return Account(total, spent, caps)


def _spent(db: sqlite3.Connection, part: Part | None) -> Amount:
    """What was spent on the people of a part. None: of each split, the most of any of its parts."""
    parts = _parts(db)
    # Rows (mu, epsilon, delta) that count in any case, and those of other parts.
    common: list[tuple[float, ...]] = []
    on_parts: dict[Part, list[tuple[float, ...]]] = {}
    for number, *amounts in db.execute("SELECT number, mu, epsilon, delta FROM spend"):
        place = parts.get(number)
        if place is None or place == part:
            common.append(tuple(amounts))
        elif part is None or place[0] != part[0]:
            on_parts.setdefault(place, []).append(tuple(amounts))
    most_of_split: dict[str, Amount] = {}
    for (split, _), rows in on_parts.items():
        amount = _add(rows)
        most = most_of_split.get(split, Amount(0.0, 0.0, 0.0))
        most_of_split[split] = Amount(*map(max, most.row(), amount.row()))
    return _add([*common, *(amount.row() for amount in most_of_split.values())])


def _spend(row: list[Any], part: Part | None) -> Spend:
    """A line of the file. What somebody has edited is refused, whatever it is."""
    id, at, what, relation, *loss, released = row
    for name, value in (("id", id), ("at", at), ("what", what)):
        arguments.text(name, value)
    return Spend(id, at, what, Relation(relation), _loss(*loss), bool(released), part)


def _add(rows: Iterable[Iterable[float]]) -> Amount:
    """The sum of rows (mu, epsilon, delta).

    It is taken anew each time, because a running sum would gather rounding errors.
    """
    mu, epsilon, delta = list(zip(*rows, strict=True)) or [(), (), ()]
    return Amount(math.hypot(*mu), math.fsum(epsilon), math.fsum(delta))


def _columns(loss: Loss) -> tuple[str, float, float, float]:
    """A loss as the columns kind, mu, epsilon and delta of a spend."""
    kind = {GaussianDP: "gaussian", PureDP: "pure", ApproxDP: "approx"}.get(type(loss))
    mu, epsilon, delta = (float(getattr(loss, name, 0.0)) for name in ("mu", "epsilon", "delta"))
    if kind is None or not all(map(math.isfinite, (mu, epsilon, delta))):
        raise InvalidParameter.of(
            "loss",
            f"must be a finite GaussianDP, PureDP or ApproxDP, got {loss if kind else type(loss)}",
        )
    return kind, mu, epsilon, delta


def _loss(kind: str, mu: float, epsilon: float, delta: float) -> Loss:
    """The loss that `_columns` wrote."""
    if kind == "gaussian":
        return GaussianDP(mu)
    if kind == "pure":
        return PureDP(epsilon)
    return ApproxDP(epsilon, delta)
