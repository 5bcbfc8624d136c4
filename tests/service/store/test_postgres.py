"""PostgreSQL: several workers on one database, exact sums, and nobody twice."""

import contextlib
import subprocess
import sys
import threading
import urllib.request

import numpy as np
import psycopg
import pytest
from crash_harness import CLOSES, POINTS, AnswersBeforeCommit, Crashes, ShowsBeforeCommit
from service_bench import Bench, Http, play

import confide
from confide.cli import main
from confide.errors import InvalidParameter, StateError, StoreError
from confide.service.core import service as core
from confide.service.core.admission import Admission
from confide.service.core.folder import ServiceFolder
from confide.service.core.spec import Batching
from confide.service.core.verification import verify_store
from confide.service.device.client import Accepts, Device
from confide.service.store import postgres
from confide.service.store.postgres import PostgresStore
from confide.service.store.vault import Vault
from confide.service.web.access import new_api_key
from confide.service.web.http import app

RUN = """
name = "demo"
agent = "likelihood-vi"
problem = "lock"
epsilon = 1.0
delta = 1e-5
users = 100
noise = "fast"
[batch]
schedule = 2
"""
pytestmark = pytest.mark.parametrize("folder", ["postgres"], indirect=True)


@pytest.fixture
def store(folder):
    made = PostgresStore(folder.address, Vault(folder.keys))
    yield made
    made.close()


@pytest.fixture
def second(bench, monkeypatch):
    """Another worker of the same service. Both look at once for what the other has done."""
    monkeypatch.setattr(core, "LOOK_SECONDS", 0.0)
    made = Bench(bench.folder)
    yield made
    made.service.store.close()


def execute(folder, query):
    with psycopg.connect(folder.address, autocommit=True) as db:
        found = db.execute(query)
        return found.fetchall() if found.description else []


def meanwhile(bench, point, act):
    """While the worker of `bench` is at this point for the first time."""
    calls = [act]
    bench.service._fault = lambda name: calls.pop()() if name == point and calls else None


def in_a_thread(bench, act):
    """Start it, and wait until it waits for a lock of the worker that is at the point."""
    thread = threading.Thread(target=act)

    def start():
        thread.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while thread.is_alive() and execute(bench.folder, waits) == [(0,)]:
            pass

    return thread, start


# the database


def test_of_two_workers_that_plan_at_once_the_first_one_settles_the_round(bench, second):
    bench.create()
    settled = []

    def settle():
        with second.service.store.transaction() as tx:
            settled.append(tx.settle_round("demo", 7, b"other"))

    thread, start = in_a_thread(bench, settle)
    with bench.service.store.transaction() as tx:
        assert tx.settle_round("demo", 7, b"first") == b"first"
        start()
        assert not settled
    thread.join()
    assert settled == [b"first"] and second.service.store.round_digest("demo", 7) == b"first"


@pytest.mark.parametrize("table", ["audit", "release"])
def test_audit_rows_and_releases_are_not_truncated(folder, table):
    folder.init()
    with pytest.raises(psycopg.errors.RaiseException, match="are added, never changed"):
        execute(folder, f"TRUNCATE {table}")


def test_other_databases_are_refused(folder, postgres):
    other = ServiceFolder(folder.folder.with_name("other"), address=postgres.url())
    execute(other, "CREATE TABLE run (name TEXT)")
    with pytest.raises(StoreError, match="DuplicateTable"):
        PostgresStore(other.address, Vault(folder.keys))
    assert "confide_schema" not in str(
        execute(other, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema")
    )


def test_addresses_that_are_none_are_refused_and_no_password_is_said(folder):
    for wrong in ("mysql://x", "/a/file", ""):
        with pytest.raises(InvalidParameter, match="postgresql://"):
            ServiceFolder(folder.folder, address=wrong)
    with pytest.raises(InvalidParameter) as error:
        PostgresStore("postgresql://ann:secret@host/x?nothing=1", Vault(folder.keys))
    assert "secret" not in str(error.value)
    with pytest.raises(StoreError, match="OperationalError") as failed:
        PostgresStore("postgresql://ann:secret@127.0.0.1:9/x", Vault(folder.keys))
    assert "secret" not in str(failed.value)


def test_nothing_of_a_report_is_written_anywhere(bench, postgres):
    """Neither in the tables nor in the write-ahead log."""
    bench.create(every=4)
    states = [7, 11, 13, 5, 17, 3]
    report = bench.report("subject-4711", content=(states, [1, 2, 3, 1, 2], [0.123456789] * 5))
    bench.send(report, bench.report("ann", content=("planted-text", {"planted": 1}, None)))
    execute(bench.folder, "CHECKPOINT")
    written = [path.read_bytes() for path in postgres.folder.rglob("*") if path.is_file()]
    assert any(report.who in each for each in written)
    for planted in (
        b"subject-4711",
        b"planted",
        b"0.123456789",
        np.array(0.123456789).tobytes(),
        np.array(states).tobytes(),
    ):
        assert not any(planted in each for each in written)


def test_a_lost_connection_loses_nobody(bench):
    """The server ends all sessions, as when it is started again: 503, and then everything
    goes on.
    """
    bench.create(every=4)
    reports = [bench.report(f"person {i}") for i in range(2)]
    bench.send(reports[0])
    execute(
        bench.folder,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'confide'",
    )
    assert bench.send(reports[1]) == ["unavailable"]
    assert not bench.service.ready
    assert bench.send(*reports) == ["same", "counted"]
    assert bench.service.ready and bench.service.store.open_sum("demo").users == 2


def test_the_folder_remembers_the_address_and_another_one_needs_its_keys(bench, folder, tmp_path):
    again = ServiceFolder(folder.folder)
    assert again.address == folder.address and again.shared
    assert (folder.folder / "database.address").stat().st_mode & 0o777 == 0o600
    elsewhere = ServiceFolder(tmp_path / "host", address=folder.address)
    with pytest.raises(StateError, match=r"cannot read pseudonym\.key"):
        elsewhere.init()
    ServiceFolder(tmp_path / "third", keys=folder.keys.folder, address=folder.address).init()
    assert len(bench.service.store.signing_keys()) == 1


def test_commands_find_the_database_by_the_folder(folder, monkeypatch, capsys):
    def said(*given):
        monkeypatch.setattr(sys, "argv", ["confide", *given])
        with pytest.raises(SystemExit) as stop:
            main(list(given))
        return stop.value.code, "".join(capsys.readouterr())

    place = str(folder.folder)
    assert said("service", "init", place, "--database", folder.address)[0] == 0
    assert "nothing is missing" in said("service", "init", place, "--database", folder.address)[1]
    assert said("service", "keys", place, "--new", "device")[1].startswith("cfd_")
    code, found = said("service", "verify", place)
    assert (code, "holds  audit: 2 rows" in found) == (0, True)
    code, found = said("service", "backup", place, str(folder.folder / "copy"))
    assert (code, "pg_dump" in found) == (2, True) and not (folder.folder / "copy").exists()
    assert "postgresql://" in said("service", "init", f"{place}-2", "--database", "mysql://host")[1]


def test_there_are_as_many_workers_as_rows_of_the_sum(bench, second, monkeypatch):
    monkeypatch.setattr(postgres, "WORKERS", 1)
    bench.create()
    second.service._look()
    assert bench.send(bench.report("ann")) == ["counted"]
    assert second.send(second.report("bob")) == ["unavailable"]
    bench.stop()
    assert second.send(second.report("bob")) == ["counted"]


def test_a_draw_may_take_longer_than_the_lease(bench, monkeypatch):
    monkeypatch.setattr(postgres, "LEASE", 0.1)
    other = bench.restart()
    run = other.create(every=4)
    draw = type(run).draw
    monkeypatch.setattr(
        type(run), "draw", lambda *given: [threading.Event().wait(0.4), draw(*given)][1]
    )
    assert other.send(*(other.report(f"person {i}") for i in range(4))) == ["counted"] * 4
    assert run.generation == 1 and other.service.ready
    other.stop()


def test_a_database_that_went_back_is_not_served(bench, second):
    """The tables of an older backup are put back while the service runs."""
    bench.create(every=4)
    ((before,),) = bench.service.store._read("SELECT state FROM run")
    second.service.handle([])
    assert bench.send(*(bench.report(f"person {i}") for i in range(4))) == ["counted"] * 4
    with bench.service.store.transaction() as tx:
        tx._execute("UPDATE run SET generation = 0, state = ?", before)
        tx._execute("UPDATE open_sum SET generation = 0")
    bench.service.handle([])
    assert not bench.service.ready
    assert bench.send(bench.report("ann", generation=0)) == ["unavailable"]
    # it has not seen release 1, and must not make another one
    second.send(*(second.report(f"more {i}") for i in range(4)))
    assert not second.service.ready and second.service.runs["demo"].generation == 0
    assert second.service.store.head("demo").generation == 0


# two workers


def test_what_one_worker_does_the_other_one_shows(bench, second):
    bench.create(every=4, users=8)
    second.service.handle([])
    assert list(second.service.runs) == ["demo"]
    assert second.send(second.report("person 0")) == ["counted"]
    late = second.report("late")
    assert bench.send(*(bench.report(f"person {i}") for i in range(1, 4))) == ["counted"] * 3
    assert bench.service.runs["demo"].generation == 1
    assert second.send(late) == ["late"]
    one, two = bench.service.runs["demo"], second.service.runs["demo"]
    assert one is not two and (one.release, one.round) == (two.release, two.round)
    bench.service.set_status("demo", "paused", "test")
    assert second.send(second.report("paul")) == ["paused"]
    bench.service.set_status("demo", "open", "test")
    key = bench.service.rotate("test")
    second.service.handle([])
    assert second.service.key.id == key
    assert second.send(*(second.report(f"last {i}") for i in range(4))) == ["counted"] * 4
    bench.service.handle([])
    assert (
        bench.service.runs["demo"].status == "finished"
        and bench.service.ready
        and second.service.ready
    )
    assert all(
        each.holds
        for each in verify_store(bench.service.store, bench.folder.keys, bench.folder.marks)
    )


def test_a_host_without_the_new_signing_key_says_so_once_and_goes_on(bench, second, caplog):
    bench.create(every=4)
    second.service.handle([])
    before, made = second.service.key.id, bench.service.rotate("test")
    (bench.folder.keys.folder / f"signing-{made}.key").unlink()  # as on another host
    for _ in range(3):
        second.service.handle([])
    (logged,) = (record.getMessage() for record in caplog.records)
    assert logged.startswith(
        "what other workers do could not be read: "
        f"cannot read signing-{made}.key in the folder of keys"
    )
    assert second.service.key.id == before and second.send(second.report("ann")) == ["counted"]


def test_nobody_is_shown_an_older_release_after_a_newer_one(bench, second):
    """A worker that does not show the newest one yet says so: a device would take it for a service
    that went back.
    """
    bench.create(every=4, users=100)
    second.service.handle([])
    bench.send(*(bench.report(f"person {i}") for i in range(4)))
    http, base = Http(app(second.service)), "/v1/runs/demo"
    try:
        for path in ("release", "release/1", "round/1"):
            assert (
                http.get(f"{base}/{path}").status_code,
                http.get(f"{base}/{path}").headers["Retry-After"],
            ) == (503, "1")
        assert http.get(f"{base}/release/0").status_code == 200
        second.service.handle([])
        assert http.get(f"{base}/release").headers["Confide-Generation"] == "1"
        assert [
            http.get(f"{base}/{path}").status_code for path in ("release/1", "round/1", "round/2")
        ] == [200, 200, 404]
    finally:
        http.close()


def test_a_batch_has_at_least_as_many_users_as_its_size(bench, second):
    """Two workers fill it at the same time: neither waits for the other, and all of them are
    counted.
    """
    run = bench.create(every=4, users=100)
    second.service.handle([])
    for each in (bench, second):
        assert each.send(each.report(f"early {each is second}")) == ["counted"]
    more = [second.report(f"second {i}") for i in range(2)]
    answers = []
    meanwhile(
        bench,
        "summed",
        lambda: second.service._settle("demo", [(each, answers.append) for each in more]),
    )
    assert bench.send(*(bench.report(f"first {i}") for i in range(2))) == ["counted"] * 2
    assert [answer.outcome for answer in answers] == ["counted"] * 2
    assert run.release.users == 6 and bench.service.store.participants("demo") == {0: 6}
    assert second.send(*more) == ["same", "same"]
    assert all(
        each.holds
        for each in verify_store(bench.service.store, bench.folder.keys, bench.folder.marks)
    )


@pytest.mark.parametrize(
    ("agent", "trust"),
    [
        ("questions-vi", "joint"),
        ("questions-vi", "local"),
        ("tabular-psrl", "joint"),
        ("likelihood-vi", "local"),
    ],
)
def test_learners_take_more_users_than_the_size_of_a_batch(bench, agent, trust):
    given = (
        {"problem": "riverswim"}
        if agent == "tabular-psrl"
        else {"batch": Batching()}
        if agent == "questions-vi"
        else {}
    )
    run = bench.create(agent=agent, trust=trust, users=200, **given)
    learner = run.learner
    learner.close(np.zeros(run.coordinates, dtype=np.int64), run.size + 3)
    assert learner.released().users == run.size + 3


def test_never_more_users_than_the_guarantee_covers(bench, second):
    """In the last batch each transaction is alone."""
    bench.create(every=4, users=8)
    second.service.handle([])
    assert bench.service.runs["demo"].most_users_at_once(postgres.WORKERS, 512) == 0
    answers = []
    more = [second.report(f"second {i}") for i in range(8)]
    thread, start = in_a_thread(bench, lambda: answers.extend(second.send(*more)))
    meanwhile(bench, "summed", start)
    assert bench.send(*(bench.report(f"first {i}") for i in range(3))) == ["counted"] * 3
    thread.join()
    assert answers == ["counted"] + ["late"] * 7
    assert bench.service.store.participants("demo") == {0: 4}


def test_the_same_report_to_two_workers_is_counted_once(bench, second):
    bench.create(every=4, users=100)
    second.service.handle([])
    report, answers = bench.report("ann"), []
    thread, start = in_a_thread(
        bench,
        lambda: answers.extend(second.send(report, second.report("ann"), second.report("bob"))),
    )
    meanwhile(bench, "summed", start)
    assert bench.send(report) == ["counted"]
    thread.join()
    assert answers == ["same", "another-report", "counted"]
    assert bench.service.store.open_sum("demo").users == 2 and second.service.ready


@pytest.mark.parametrize("before", [0, 1])
def test_a_person_has_one_budget_at_two_workers(bench, second, before, monkeypatch):
    """Also somebody who has an account already: the budget is for one report more.

    The other one comes after it was read.
    """
    mu = confide.privacy.accounting.gaussian_mu(1.0, 1e-5)
    most = confide.privacy.accounting.gaussian_epsilon(mu * (before + 1) ** 0.5, 1e-5)
    for name in ("zero", "one", "two"):
        bench.create(name, person_epsilon=most, person_delta=1e-5, users=100, every=4)
    second.service.handle([])
    assert bench.send(*[bench.report("ann", "zero")] * before) == ["counted"] * before
    answers = []
    both = [second.report("ann", "two"), second.report("bob", "two")]
    thread, start = in_a_thread(bench, lambda: answers.extend(second.send(*both)))
    calls, write = [start], Admission.write
    monkeypatch.setattr(
        Admission, "write", lambda group: [calls.pop()() if calls else None, write(group)][1]
    )
    assert bench.send(bench.report("ann", "one")) == ["counted"]
    thread.join()
    assert answers == ["over-budget", "counted"]
    spent = [mu**2, (before + 1) * mu**2]
    assert execute(bench.folder, "SELECT spent FROM account ORDER BY spent") == [
        (pytest.approx(each),) for each in spent
    ]


def test_who_is_refused_gets_no_account(bench):
    bench.create(person_epsilon=2.0)
    assert bench.send(bench.report("ann", generation=1)) == ["invalid"]
    assert execute(bench.folder, "SELECT * FROM account") == []


# processes


def settled(crashes, releases):
    while crashes.run("nowhere"):
        pass
    assert crashes.problems() == []
    assert sorted(crashes.shown) == list(range(releases))


@pytest.mark.process
@pytest.mark.parametrize(("count", "trust"), [(2, "local"), (3, "joint")])
def test_sums_of_several_workers_are_exact(folder, count, trust):
    crashes = Crashes(folder, trust=trust, users=120, every=20, noise="fast")
    crashes.people = 150
    crashes.workers(count)
    crashes.run("nowhere")
    assert crashes.problems() == []
    assert max(crashes.shown) >= 4


@pytest.mark.process
@pytest.mark.parametrize(("point", "others"), [("summed", 1), ("drawn", 2), ("closed", 1)])
def test_a_worker_that_is_stopped_past_its_lease(folder, point, others, monkeypatch):
    monkeypatch.setattr(postgres, "LEASE", 0.3)
    crashes = Crashes(folder, trust="joint", users=24, every=4, noise="fast")
    crashes.stopped(point, others=others)
    settled(crashes, 7)


@pytest.mark.process
@pytest.mark.parametrize("point", POINTS)
def test_killed_again_and_again_nothing_is_lost(folder, point):
    crashes = Crashes(
        folder, trust="local" if point in ("summed", "drawn") else "joint", users=12, every=4
    )
    for nth in (1, 2):
        crashes.run(point, nth)
    assert crashes.kills >= (1 if point in CLOSES else 2)
    settled(crashes, 4)


@pytest.mark.process
@pytest.mark.parametrize(
    ("twin", "point"), [(AnswersBeforeCommit, "summed"), (ShowsBeforeCommit, "drawn")]
)
def test_broken_twins_are_caught(folder, twin, point):
    crashes = Crashes(folder, trust="joint", service=twin, users=12, every=4)
    crashes.run(point, 1)
    crashes.run("nowhere")
    assert any("lost" in problem or "two releases" in problem for problem in crashes.problems())


@pytest.mark.process
def test_two_processes_serve_one_folder(folder, tmp_path):
    """By one option: both are started at the same time, and each shows the release that the other
    one has made.
    """
    (tmp_path / "run.toml").write_text(RUN)
    command = [
        sys.executable,
        "-m",
        "confide",
        "serve",
        "run.toml",
        "--folder",
        str(folder.folder),
        "--database",
        folder.address,
    ]
    ports, said = (18731, 18732), []
    with contextlib.ExitStack() as stack:
        servers = []
        for port in ports:
            given = [*command, "--port", str(port)]
            server = subprocess.Popen(
                given, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            servers.append(stack.enter_context(server))
            stack.callback(server.terminate)
        for server in servers:
            assert "serving at" in [server.stdout.readline() for _ in range(3)][2]
        key = new_api_key(
            stack.enter_context(contextlib.closing(folder.store())), "device", "", "test"
        )
        accepts = Accepts(1.0, 1e-5, trust="joint", simulation=True)
        for number in range(2):  # the batch is full after the second
            one = Device(
                f"http://127.0.0.1:{ports[number]}",
                "demo",
                subject=f"{number}",
                api_key=key,
                accepts=accepts,
            )
            one.join()
            one.report(*play(one, np.random.default_rng(number)))
        for port in ports:
            reader = Device(
                f"http://127.0.0.1:{port}", "demo", subject="reader", api_key=key, accepts=accepts
            )
            # the second is answered before the batch is closed
            while reader.join().generation != 1:
                pass
        bodies = {read(f"http://127.0.0.1:{port}/v1/runs/demo/release")[0] for port in ports}
        for server in servers:
            server.terminate()
            said.append(server.stderr.read())
    assert len(bodies) == 1 and [server.returncode for server in servers] == [0, 0]
    assert sum("API key for admin" in each for each in said) == 1 and "Traceback" not in "".join(
        said
    )


def read(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read(), answer.headers
