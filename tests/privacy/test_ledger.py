"""The ledger is a filter, and a file that forgets nothing."""

import errno
import math
import os
import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import BudgetExceeded, InvalidParameter, LedgerError
from confide.privacy import ApproxDP, GaussianDP, Loss, PureDP
from confide.privacy.accounting import gaussian_delta, gaussian_epsilon, gaussian_mu
from confide.privacy.ledger import Account, Amount, Ledger, Total

SLACK = 1 + 1e-8


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """No disk, where the system has such a folder: nothing here cuts the power, and 20000 times
    fsync may take minutes.
    """
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=folder) as name:
        yield Path(name)


@pytest.fixture
def path(memory: Path) -> Path:
    return new(memory)


def new(memory: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=memory)) / "budget.sqlite"


def never() -> bytes:
    raise AssertionError("release was called")


def spend(
    ledger: Ledger, id: str, loss: Loss, release: Callable[[], bytes] = lambda: b"released"
) -> bytes:
    return ledger.spend(id, "a test", loss, "replace", release=release)


def contents(path: Path) -> bytes:
    return path.read_bytes()


# The filter


def assert_within(total: Total, losses: list[Loss]) -> None:
    """By what the losses are, not by what the ledger keeps: the Gaussian ones at the delta the
    others leave, plus the others.
    """
    mu = math.sqrt(sum(loss.mu**2 for loss in losses if isinstance(loss, GaussianDP)))
    epsilon = sum(loss.epsilon for loss in losses if not isinstance(loss, GaussianDP))
    delta = sum(loss.delta for loss in losses if isinstance(loss, ApproxDP))
    assert epsilon <= total.epsilon * SLACK
    assert delta <= total.delta * SLACK
    if mu > 0:
        assert gaussian_delta(
            max(0.0, total.epsilon * SLACK - epsilon), mu
        ) + delta <= total.delta * (1 + 1e-6)


def spend_all(total: Total, losses: list[Loss]) -> tuple[list[Loss], Account]:
    """What the filter lets through, with the sums taken plainly here."""
    accepted: list[Loss] = []
    account = Account(total, Amount(0.0, 0.0, 0.0))
    for loss in losses:
        try:
            caps = account.admit(loss)
        except BudgetExceeded:
            continue
        # The caps are set once.
        assert account.caps is None or caps == account.caps
        accepted.append(loss)
        mu = math.sqrt(sum(x.mu**2 for x in accepted if isinstance(x, GaussianDP)))
        epsilon = sum(x.epsilon for x in accepted if not isinstance(x, GaussianDP))
        account = Account(
            total,
            Amount(mu, epsilon, sum(x.delta for x in accepted if isinstance(x, ApproxDP))),
            caps,
        )
    return accepted, account


totals = st.builds(
    lambda epsilon, delta, e0, d0: Total(
        epsilon, delta, others_epsilon=e0 * epsilon, others_delta=d0 * delta
    ),
    st.floats(0.01, 10),
    st.sampled_from([0.0, 1e-9, 1e-6, 1e-2, 0.3]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.3, 1.0]),
)
losses = st.one_of(
    st.builds(GaussianDP, st.floats(0, 2)),
    st.builds(PureDP, st.floats(0, 3)),
    st.builds(ApproxDP, st.floats(0, 3), st.sampled_from([0.0, 1e-10, 1e-7, 1e-3, 0.1])),
)


@settings(max_examples=400, deadline=None)
@given(totals, st.lists(losses, max_size=12))
def test_whatever_the_filter_accepts_stays_within_the_total(
    total: Total, attempts: list[Loss]
) -> None:
    accepted, account = spend_all(total, attempts)
    assert_within(total, accepted)
    assert account.epsilon <= total.epsilon * SLACK


@settings(max_examples=200, deadline=None)
@given(totals, st.lists(losses, max_size=6))
def test_what_is_said_to_remain_can_be_spent_and_not_more(
    total: Total, attempts: list[Loss]
) -> None:
    _, account = spend_all(total, attempts)
    left = account.remaining
    account.admit(ApproxDP(left.epsilon, left.delta))
    with pytest.raises(BudgetExceeded):
        account.admit(ApproxDP(left.epsilon + 1e-6 * total.epsilon, left.delta))
    with pytest.raises(BudgetExceeded):
        account.admit(ApproxDP(0.0, left.delta + 1e-6 * total.delta + 1e-300))
    if left.mu > 0:
        account.admit(GaussianDP(left.mu))
    with pytest.raises(BudgetExceeded):
        account.admit(GaussianDP(left.mu + 1e-3))


@settings(max_examples=40, deadline=None)
@given(total=totals, attempts=st.lists(losses, min_size=1, max_size=8))
def test_the_ledger_accepts_what_the_filter_accepts_and_a_refusal_changes_nothing(
    memory: Path, total: Total, attempts: list[Loss]
) -> None:
    path = new(memory)
    Ledger.init(
        path,
        epsilon=total.epsilon,
        delta=total.delta,
        others_epsilon=total.others_epsilon,
        others_delta=total.others_delta,
    )
    for i, loss in enumerate(attempts):
        before = contents(path)
        try:
            # The ledger is opened anew, because all that counts is in the file.
            spend(Ledger(path), str(i), loss)
        except BudgetExceeded:
            assert contents(path) == before
    ledger = Ledger(path)
    accepted, account = spend_all(total, attempts)
    assert [line.loss for line in ledger.spends] == accepted
    assert_within(total, accepted)
    assert ledger.account.caps == account.caps
    assert ledger.spent.mu == pytest.approx(account.spent.mu)


def test_adaptive_gaussian_spends_use_the_whole_total_and_no_more(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-5)
    mu = gaussian_mu(1.0, 1e-5)
    for i, share in enumerate((0.5, 0.3, 0.2)):
        spend(ledger, str(i), GaussianDP(mu * math.sqrt(share)))
    assert ledger.account.epsilon == pytest.approx(1.0, rel=1e-7)
    with pytest.raises(BudgetExceeded):
        spend(ledger, "more", GaussianDP(1e-3), never)


@pytest.mark.parametrize("count", [3, 7, 49, 1000])
def test_equal_shares_of_the_total_all_fit_whatever_the_rounding(count: int) -> None:
    mu = gaussian_mu(0.3, 1e-6)
    assert (
        len(spend_all(Total(0.3, 1e-6), [ApproxDP(0.3 / count, 1e-6 / count)] * (count + 1))[0])
        == count
    )
    assert (
        len(spend_all(Total(0.3, 1e-6), [GaussianDP(mu / math.sqrt(count))] * (count + 1))[0])
        == count
    )


def test_the_first_gaussian_spend_divides_the_total_for_good(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=3.0, delta=1e-6, others_epsilon=1.0, others_delta=1e-7)
    # more than was set aside: allowed, since there is no Gaussian spend yet
    spend(ledger, "a", PureDP(1.5))
    spend(ledger, "b", GaussianDP(0.1))
    mu = gaussian_mu(1.5, 1e-6 - 1e-7)
    assert ledger.account.caps == Amount(mu, 1.5, 1e-7)
    assert ledger.remaining.mu == pytest.approx(math.sqrt(mu**2 - 0.01))
    assert (ledger.remaining.epsilon, ledger.remaining.delta) == (0.0, 1e-7)
    with pytest.raises(
        BudgetExceeded,
        match=r"requested PureDP\(epsilon=0.001\), left mu=0\.3.* and \(epsilon=0, delta=1e-07\)",
    ):
        spend(ledger, "c", PureDP(0.001), never)
    spend(ledger, "d", ApproxDP(0.0, 1e-7))
    spend(ledger, "e", GaussianDP(ledger.remaining.mu))
    assert ledger.account.caps == Amount(mu, 1.5, 1e-7)
    assert ledger.account.epsilon == pytest.approx(1.5 + gaussian_epsilon(mu, 9e-7))


def test_without_gaussian_spends_others_may_use_all(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=3.0, delta=1e-6, others_epsilon=1.0)
    spend(ledger, "a", ApproxDP(3.0, 1e-6))
    assert (ledger.remaining, ledger.account.epsilon) == (Amount(0.0, 0.0, 0.0), 3.0)
    for loss in (GaussianDP(0.0), GaussianDP(1e-200), PureDP(1e-8)):
        with pytest.raises(BudgetExceeded):
            spend(ledger, "b", loss, never)


def test_what_rounding_leaves_of_delta_is_no_budget() -> None:
    with pytest.raises(BudgetExceeded, match="left mu=0 for"):
        Account(Total(3.0, 1e-6), Amount(0.0, 1.0, 1e-6 * (1 - 1e-12))).admit(GaussianDP(1e-20))


def test_a_refused_gaussian_spend_does_not_divide_the_total(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=3.0, delta=1e-6)
    before = contents(path)
    with pytest.raises(BudgetExceeded):
        spend(ledger, "large", GaussianDP(5.0), never)
    assert contents(path) == before
    spend(ledger, "others", PureDP(3.0))


def test_a_pure_ledger_takes_no_gaussian_noise(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=0.0)
    with pytest.raises(BudgetExceeded, match="left mu=0 for Gaussian noise or"):
        spend(ledger, "a", GaussianDP(1e-200), never)
    spend(ledger, "b", PureDP(1.0))


def test_another_relation_is_refused(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6, relation="null")
    before = contents(path)
    with pytest.raises(LedgerError, match=r'"null".*"replace"'):
        ledger.spend("a", "a test", PureDP(0.1), "replace", release=never)
    assert contents(path) == before
    ledger.spend("a", "a test", PureDP(0.1), "null", release=lambda: b"")


# One spend


def test_a_retry_returns_the_stored_release_and_costs_nothing(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    first = spend(ledger, "a", PureDP(0.7), lambda: os.urandom(64))
    before = contents(path)
    with Ledger(path) as again:
        assert spend(again, "a", PureDP(0.7), never) == first
    assert contents(path) == before
    assert len(ledger.spends) == 1


def test_an_empty_release_is_a_release(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    assert spend(ledger, "a", PureDP(0.7), lambda: b"") == b""
    assert spend(ledger, "a", PureDP(0.7), never) == b""


@pytest.mark.parametrize(
    ("what", "loss", "relation"),
    [
        ("another", GaussianDP(0.1), "replace"),
        ("a test", GaussianDP(0.1000001), "replace"),
        ("a test", PureDP(0.1), "replace"),
        ("a test", GaussianDP(0.1), "null"),
    ],
)
def test_an_id_cannot_be_used_for_something_else(
    path: Path, what: str, loss: Loss, relation: str
) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    spend(ledger, "a", GaussianDP(0.1), lambda: b"secret to the holder of the id")
    before = contents(path)
    with pytest.raises(LedgerError, match="choose a new id"):
        ledger.spend("a", what, loss, relation, release=never)
    assert contents(path) == before


def test_a_release_that_fails_stays_charged_and_goes_on_under_its_id(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    with pytest.raises(ZeroDivisionError):
        spend(ledger, "a", PureDP(0.7), lambda: bytes(1 // 0))
    with pytest.raises(InvalidParameter, match="bytes, got str"):
        spend(ledger, "a", PureDP(0.7), lambda: "text")  # type: ignore[arg-type, return-value]
    assert [line.released for line in ledger.spends] == [False]
    with pytest.raises(BudgetExceeded):
        spend(ledger, "b", PureDP(0.7), never)
    assert spend(ledger, "a", PureDP(0.7), lambda: b"at last") == b"at last"
    assert ledger.spent == Amount(0.0, 0.7, 0.0)
    assert [line.released for line in ledger.spends] == [True]


def test_the_charge_is_in_the_file_before_the_noise_is_drawn_and_no_lock_is_held(
    path: Path,
) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    seen: list[tuple[bool, ...]] = []

    def draw() -> bytes:
        seen.append(tuple(line.released for line in Ledger(path).spends))
        # With a lock this would wait forever.
        spend(ledger, "inner", PureDP(0.1))
        return b"outer"

    assert spend(ledger, "outer", PureDP(0.1), draw) == b"outer"
    assert seen == [(False,)]
    assert [(line.id, line.released) for line in ledger.spends] == [
        ("outer", True),
        ("inner", True),
    ]


def test_of_two_draws_under_one_id_the_first_stored_is_handed_to_both(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)

    def overtaken() -> bytes:
        assert spend(Ledger(path), "a", PureDP(0.7), lambda: b"first") == b"first"
        return b"never leaves"

    assert spend(ledger, "a", PureDP(0.7), overtaken) == b"first"
    assert b"never leaves" not in contents(path)


def test_a_spend_records_what_when_loss_and_relation(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=3.0, delta=1e-6, others_epsilon=1.0, others_delta=1e-7)
    all_losses: list[Loss] = [ApproxDP(1 / 3, 1e-8), GaussianDP(0.1), PureDP(0.1)]
    for i, loss in enumerate(all_losses):
        ledger.spend(f"id {i}", f"what {i}", loss, "replace", release=lambda: b"")
    assert [(s.id, s.what, s.loss, s.relation) for s in ledger.spends] == [
        (f"id {i}", f"what {i}", loss, "replace") for i, loss in enumerate(all_losses)
    ]
    assert all(abs(time.time() - _seconds(line.when)) < 60 for line in ledger.spends)


def _seconds(when: str) -> float:
    from datetime import datetime

    assert when.endswith("+00:00")
    return datetime.fromisoformat(when).timestamp()


# Bad input


@pytest.mark.parametrize(
    "loss", [PureDP(math.inf), GaussianDP(math.inf), ApproxDP(math.inf, 0.0), "much", None]
)
def test_what_is_no_finite_loss_is_refused(path: Path, loss: Loss) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    before = contents(path)
    with pytest.raises(InvalidParameter, match="finite"):
        spend(ledger, "a", loss, never)
    assert contents(path) == before


@pytest.mark.parametrize(
    ("id", "what"), [("", "a"), ("a", ""), ("a\n", "a"), ("a", "\ud800"), ("\0", "a")]
)
def test_names_are_printable(path: Path, id: str, what: str) -> None:
    with pytest.raises(InvalidParameter, match="printable"):
        Ledger.init(path, epsilon=1.0, delta=1e-6).spend(
            id, what, PureDP(0.1), "replace", release=never
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"delta": math.nan},
        {"delta": 1.0},
        {"delta": -1e-9},
        {"relation": "add"},
        {"others_epsilon": math.nan},
        {"others_epsilon": 3.1},
        {"others_delta": 1e-5},
        {"others_delta": -1e-9},
    ],
)
def test_a_total_that_is_none_makes_no_file(path: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        Ledger.init(path, **{"epsilon": 3.0, "delta": 1e-6, **wrong})  # type: ignore[arg-type]
    assert not path.exists()


def test_init_makes_a_file_for_its_owner_and_never_overwrites(path: Path) -> None:
    spend(Ledger.init(path, epsilon=1.0, delta=1e-6), "a", PureDP(0.1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = contents(path)
    with pytest.raises(LedgerError, match="exists"):
        Ledger.init(path, epsilon=9.0, delta=1e-6)
    assert contents(path) == before
    with pytest.raises(LedgerError, match="No such file"):
        Ledger.init(path.parent / "nowhere" / "budget.sqlite", epsilon=1.0, delta=1e-6)


def test_a_failed_init_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LedgerError, match="No space left"):
        Ledger.init(path, epsilon=1.0, delta=1e-6)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(("step", "made"), [("fsync", False), ("link", False), ("unlink", True)])
def test_a_killed_init_does_not_lock_out(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str, made: bool
) -> None:
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(os, step, lambda *_: os._exit(9))
        try:
            Ledger.init(path, epsilon=1.0, delta=1e-6)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert path.exists() is made
    if made:
        with pytest.raises(LedgerError, match="exists"):
            Ledger.init(path, epsilon=1.0, delta=1e-6)
        ledger = Ledger(path)
    else:
        ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    assert ledger.total == Total(1.0, 1e-6)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_release_that_cannot_be_called_is_not_charged(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidParameter, match="release must be a function"):
        ledger.spend("a", "a", PureDP(0.1), "replace", release=None)  # type: ignore[arg-type]
    assert ledger.spends == ()


def test_a_missing_file_names_the_way_to_make_one(path: Path) -> None:
    with pytest.raises(LedgerError, match="confide ledger init"):
        Ledger(path)
    assert not path.exists()
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    path.rename(path.with_suffix(".moved"))
    with pytest.raises(LedgerError, match="confide ledger init"):
        spend(ledger, "a", PureDP(0.1), never)


def test_every_truncation_is_noticed(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    for i in range(10):
        spend(ledger, str(i), PureDP(0.01), lambda: os.urandom(2000))
    whole = contents(path)
    for length in [0, 1, 15, 50, 99, 100, 1000, *range(2560, len(whole), 512), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerError, match=r"damaged|cannot be used"):
            Ledger(path)
        with pytest.raises(LedgerError):
            spend(ledger, "a", PureDP(0.01), never)
        assert contents(path) == whole[:length]
    path.write_bytes(whole)
    assert len(Ledger(path).spends) == 10


@pytest.mark.parametrize(
    "garbage", [b"not a ledger", b"\0" * 8192, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_garbage_is_no_ledger_and_is_left_alone(path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    with pytest.raises(LedgerError, match=r"damaged|cannot be used"):
        Ledger(path)
    assert contents(path) == garbage


def test_an_overwritten_page_is_noticed(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    for i in range(10):
        spend(ledger, str(i), PureDP(0.01), lambda: os.urandom(2000))
    whole = contents(path)
    for page in range(1, len(whole) // 4096):
        path.write_bytes(whole[: page * 4096] + b"\xa5" * 4096 + whole[(page + 1) * 4096 :])
        with pytest.raises(LedgerError, match=r"damaged|cannot be used"):
            Ledger(path)


def test_other_databases_and_newer_ledgers_are_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE total (epsilon REAL)")
    connection.close()
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger(path)
    path.unlink()
    Ledger.init(path, epsilon=1.0, delta=1e-6)
    connection = sqlite3.connect(path)
    for version, why in ((3, "newer confide"), (1, "written by confide 0.2")):
        connection.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(LedgerError, match=why):
            Ledger(path)
    connection.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE spend SET epsilon = 0",
        "DELETE FROM spend",
        "UPDATE total SET epsilon = 9",
        "DELETE FROM release",
    ],
)
def test_what_is_written_is_not_changed_by_accident(path: Path, change: str) -> None:
    spend(Ledger.init(path, epsilon=1.0, delta=1e-6), "a", PureDP(0.1))
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="only grows"):
        connection.execute(change)
    connection.close()


def test_a_commit_is_one_whole_file_on_the_disk(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    with ledger._transaction() as db:
        names = ("journal_mode", "synchronous", "fullfsync", "busy_timeout")
        # 3: EXTRA
        assert [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names] == [
            "delete",
            3,
            1,
            60_000,
        ]
    spend(ledger, "a", PureDP(0.1))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# Many writers, and sudden ends

CHILD = """
import os, sys
from confide.errors import BudgetExceeded
from confide.privacy import GaussianDP, PureDP
from confide.privacy.ledger import Ledger

path, log, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
log = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
with Ledger(path) as ledger:
    for i in range(first, last):
        loss = PureDP(0.001) if i % 2 else GaussianDP(0.001)
        try:
            release = lambda: os.urandom(16)
            payload = ledger.spend(str(i), "a test", loss, "replace", release=release)
        except BudgetExceeded:
            payload = b"refused"
        os.write(log, f"{i} {payload.hex()}\\n".encode())
        os.fsync(log)
"""


def start(path: Path, log: Path, first: int, last: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(log), str(first), str(last)]
    )


def lines(log: Path) -> list[tuple[str, bytes]]:
    """What was handed out: (id, bytes)."""
    text = log.read_text() if log.exists() else ""
    return [
        (id, bytes.fromhex(payload)) for id, payload in (line.split() for line in text.splitlines())
    ]


def stored(path: Path) -> dict[str, bytes]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT id, bytes FROM spend JOIN release USING (number)").fetchall()
    connection.close()
    return dict(rows)


@pytest.mark.process
def test_concurrent_processes_fill_the_total_exactly(path: Path) -> None:
    """50 Gaussian and 50 other spends fit; 4 processes try 160, of which 80 of each kind."""
    mu = 0.001 * math.sqrt(50)
    gaussian = gaussian_epsilon(mu, 1e-6)
    ledger = Ledger.init(path, epsilon=gaussian + 0.05, delta=1e-6, others_epsilon=0.05)
    logs = [path.with_name(f"log {i}") for i in range(4)]
    children = [start(path, log, 40 * i, 40 * (i + 1)) for i, log in enumerate(logs)]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    answers = [answer for log in logs for answer in lines(log)]
    accepted = {id: payload for id, payload in answers if payload != b"refused"}
    assert len(answers) == 160
    assert accepted == stored(path)
    kinds = [type(line.loss) for line in ledger.spends]
    assert (kinds.count(GaussianDP), kinds.count(PureDP)) == (50, 50)
    assert ledger.account.epsilon == pytest.approx(ledger.total.epsilon, rel=1e-6)


@pytest.mark.process
def test_concurrent_processes_under_the_same_ids_hand_out_the_same_bytes(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6, others_epsilon=0.5)
    logs = [path.with_name(f"log {i}") for i in range(4)]
    children = [start(path, log, 0, 40) for log in logs]
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    assert [dict(lines(log)) for log in logs] == [stored(path)] * 4
    assert len(ledger.spends) == 40


def test_threads_may_share_a_ledger(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    with ThreadPoolExecutor(4) as pool:
        handed_out = list(
            pool.map(
                lambda i: spend(ledger, str(i % 10), PureDP(0.1), lambda: os.urandom(16)), range(40)
            )
        )
    assert handed_out == [stored(path)[str(i % 10)] for i in range(40)]
    assert ledger.remaining.epsilon == pytest.approx(0.0, abs=1e-9)


@pytest.mark.process
def test_a_spend_that_died_between_charge_and_release_is_finished_by_its_retry(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=1.0, delta=1e-6)
    code = (
        "import os, signal, sys\n"
        "from confide.privacy import PureDP\n"
        "from confide.privacy.ledger import Ledger\n"
        "die = lambda: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Ledger(sys.argv[1]).spend('a', 'a test', PureDP(0.7), 'replace', release=die)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert [line.released for line in ledger.spends] == [False]
    assert ledger.spent.epsilon == 0.7
    assert spend(ledger, "a", PureDP(0.7), lambda: b"at last") == b"at last"
    assert (len(ledger.spends), ledger.spent.epsilon) == (1, 0.7)


@pytest.mark.process
def test_kill_9_in_the_middle_of_1000_spends_loses_none_and_counts_none_twice(path: Path) -> None:
    """The total covers the 1000 spends and not one more, so that a spend counted twice would end in
    a refusal.
    """
    count, rng, kills = 1000, random.Random(0), 0
    gaussian = gaussian_epsilon(0.001 * math.sqrt(count / 2), 1e-6)
    ledger = Ledger.init(
        path, epsilon=gaussian + 0.001 * count / 2, delta=1e-6, others_epsilon=0.001 * count / 2
    )
    handed_out: list[tuple[str, bytes]] = []
    for life in range(8):
        log, done = path.with_name(f"log {life}"), len(stored(path))
        # The last 50 are requested again.
        child = start(path, log, max(0, done - 50), count)
        target = 50 + rng.randrange(1, 120)
        while (
            child.poll() is None and (log.read_bytes().count(b"\n") if log.exists() else 0) < target
        ):
            time.sleep(0.001)
        # The process is killed anywhere within a spend.
        time.sleep(rng.uniform(0, 0.004))
        child.kill()
        kills += child.wait(60) == -9
        handed_out += lines(log)
        now = stored(path)
        assert all(now[id] == payload for id, payload in handed_out), (
            f"life {life} handed out what is not in the ledger"
        )
        # at most the one it died in is charged and not released
        assert 0 <= len(ledger.spends) - len(now) <= 1
    assert kills >= 3, "the machine is so slow that the child was done before it could be killed"
    log = path.with_name("last log")
    assert start(path, log, 0, count).wait(60) == 0
    handed_out += lines(log)
    now = stored(path)
    assert {id for id, _ in handed_out} == set(now) == {str(i) for i in range(count)}
    assert all(now[id] == payload for id, payload in handed_out)
    assert len(ledger.spends) == count and all(line.released for line in ledger.spends)
    assert ledger.spent.mu == pytest.approx(0.001 * math.sqrt(count / 2))
    assert ledger.spent.epsilon == pytest.approx(0.001 * count / 2)


def test_what_was_spent_is_nominal() -> None:
    """`Account.epsilon` is no guarantee for a reader who decides after each release when to stop.

    There are up to 400 releases of mu = 0.1. The reader stops when the log-likelihood ratio is 0.3
    above the epsilon that `Account.epsilon` states. At that epsilon, delta is more than twice the
    stated one. With 20,000 runs, this is more than 5 standard errors away from the stated delta.
    """
    mu, delta, steps, runs = 0.1, 0.01, 400, 20_000
    spent = np.array(
        [
            Account(Total(9.0, delta), Amount(mu * math.sqrt(t), 0.0, 0.0)).epsilon
            for t in range(1, steps + 1)
        ]
    )
    # The logarithm of the likelihood ratio under P [run, release].
    normal = np.random.default_rng(0).normal(size=(runs, steps))
    log_ratio = np.cumsum(mu**2 / 2 + mu * normal, axis=1)
    would_stop = log_ratio > spent + 0.3
    stops = would_stop.any(axis=1)
    last_release = would_stop.argmax(axis=1)
    # P - e^epsilon Q, as a share of P, at the release at which the reader stops.
    excess = spent[last_release] - log_ratio[np.arange(runs), last_release]
    gained = (1 - np.exp(np.minimum(0.0, excess))) * stops
    assert gained.mean() - 5 * gained.std() / math.sqrt(runs) > 2 * delta
    # If the number of releases is fixed in advance, all of them together have the stated delta.
    assert gaussian_epsilon(mu * math.sqrt(steps), delta) == spent[-1]


def test_a_ledger_of_an_earlier_version_takes_spends_on_parts(tmp_path, monkeypatch):
    """Parts of one split cost the most of any, of two splits their sum of squares; the id of a
    pending spend stays with its part.
    """
    from confide.privacy import ledger as module

    monkeypatch.setattr(
        module, "_TABLES", {name: rows for name, rows in module._TABLES.items() if name != "part"}
    )
    old = Ledger.init(tmp_path / "old.sqlite", epsilon=1.0, delta=1e-6)
    monkeypatch.undo()
    for id, part in (
        ("a", ("split", "learn")),
        ("b", ("split", "test")),
        ("c", ("other", "learn")),
    ):
        old.spend(id, "what", GaussianDP(0.1), "replace", release=lambda: b"x", part=part)
    assert old.spent.mu == pytest.approx(0.1 * 2**0.5)
    assert old.account_of(("split", "test")).spent.mu == pytest.approx(0.1 * 2**0.5)
    assert [spend.part for spend in old.spends] == [
        ("split", "learn"),
        ("split", "test"),
        ("other", "learn"),
    ]
    with pytest.raises(RuntimeError):
        old.spend("d", "what", GaussianDP(0.1), "replace", release=_fails, part=("split", "test"))
    with pytest.raises(LedgerError, match="another part"):
        old.spend(
            "d", "what", GaussianDP(0.1), "replace", release=lambda: b"x", part=("split", "learn")
        )
    with pytest.raises(InvalidParameter):
        old.spend("e", "what", GaussianDP(0.1), "replace", release=lambda: b"x", part="learn")


def _fails():
    raise RuntimeError
