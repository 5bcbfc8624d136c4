"""Readiness is that of each run: one that cannot be served is named, and all others work."""

import shutil
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from service_bench import Bench, serving, spec

from confide.cli.service import _facts
from confide.errors import InvalidParameter
from confide.policy import TabularPolicy
from confide.service.core import live, live_runs
from confide.service.core import service as core

RUN = "/v1/runs/bad"


def change(path, statement, *values):
    """As somebody would who has the database, or as a disk may."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement, values)
        db.commit()


def damage_the_settings(path):
    change(path, "UPDATE run SET spec = 'name = [' WHERE name = 'bad'")


def damage_the_state(path):
    change(path, "UPDATE run SET state = ? WHERE name = 'bad'", bytes(1000))


def damage_the_open_sum(path):
    change(path, "UPDATE open_sum SET total = ?, users = 1 WHERE run = 'bad'", bytes(1000))


def remove_the_open_sum(path):
    change(path, "DELETE FROM open_sum WHERE run = 'bad'")


def remove_the_release(path):
    change(path, "DROP TRIGGER release_is_not_deleted")
    change(path, "DELETE FROM release WHERE run = 'bad'")


def put_a_backup_back(path):
    shutil.copy(path.with_name("backup"), path)


DAMAGES = [
    damage_the_settings,
    damage_the_state,
    damage_the_open_sum,
    remove_the_open_sum,
    remove_the_release,
    put_a_backup_back,
]


@pytest.fixture
def two_runs(folder):
    """A folder with the runs `bad` and `good`, and a backup from before the first release
    of `bad`.
    """
    bench = Bench(folder)
    bench.create("good")
    bench.create("bad", every=4, person_epsilon=1.1, person_delta=1e-5)
    bench.service.store.backup(str(folder.folder / "backup"))
    bench.send(*(bench.report(f"person {i}", "bad") for i in range(4)))
    bench.stop()
    return folder


def report(http, run, subject="ann"):
    body = {"subject": subject, "generation": 0, "trajectory": {}}
    return http.post(
        f"/v1/runs/{run}/reports",
        "device",
        json=body,
        headers={"Idempotency-Key": f"a random key {subject}"},
    )


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_one_bad_run_is_named_and_the_others_work(two_runs, damage, caplog):
    damage(two_runs.database)
    with serving(two_runs) as http:
        assert http.get("/ready").status_code == 200
        assert http.get("/ready").json() == {"ready": True, "not_ready": ["bad"]}
        for answer in (
            report(http, "bad"),
            http.get(f"{RUN}/release"),
            http.get(f"{RUN}/manifest"),
        ):
            assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
        assert report(http, "good").status_code == 201
        assert http.get("/v1/runs/good/release").status_code == 200
        cause = http.get(f"{RUN}/status", "operator").json()["cause"]
        assert cause and cause in caplog.text and "run bad is not ready" in caplog.text
        assert http.get("/v1/runs/good/status", "operator").json()["ready"] is True
        assert http.get("/v1/runs/none/status", "operator").status_code == 404


@pytest.mark.parametrize(
    "damage",
    [damage_the_state, put_a_backup_back, damage_the_settings],
    ids=lambda each: each.__name__,
)
def test_what_a_bad_run_promises_a_person_is_kept_by_others(two_runs, damage):
    """Ann took part in `bad` and was promised a budget over all runs."""
    bench = Bench(two_runs)
    assert bench.send(bench.report("ann", "bad")) == ["counted"]
    bench.stop()
    damage(two_runs.database)
    other = Bench(two_runs)
    assert other.service.not_ready.keys() == {"bad"}
    expected = "counted" if damage is put_a_backup_back else "over-budget"
    # Before the backup was made, Ann had spent nothing: the account is in the database.
    assert other.send(other.report("ann", "good")) == [expected]
    assert other.send(other.report("bob", "good")) == ["counted"]
    other.create("another")
    assert other.send(other.report("bob", "another")) == ["over-budget"]
    other.stop()


def test_a_bad_run_is_finished_over_http_and_left_out(two_runs):
    put_a_backup_back(two_runs.database)
    with serving(two_runs) as http:
        assert http.post(f"{RUN}/pause", "device").status_code == 403
        assert http.post(f"{RUN}/finish", "admin").status_code == 200
    with serving(two_runs) as http:
        assert http.get("/ready").json() == {"ready": True, "not_ready": []}
        assert http.get(f"{RUN}/release").status_code == 404


def test_a_bad_run_that_is_mended_is_served_without_a_restart(two_runs, monkeypatch):
    monkeypatch.setattr(live_runs, "RETRY_SECONDS", 0.0)
    with closing(sqlite3.connect(two_runs.database)) as db:
        (settings,) = db.execute("SELECT spec FROM run WHERE name = 'bad'").fetchone()
    damage_the_settings(two_runs.database)
    bench = Bench(two_runs)
    assert bench.service.not_ready.keys() == {"bad"}
    change(two_runs.database, "UPDATE run SET spec = ? WHERE name = 'bad'", settings)
    bench.service.handle([])
    assert bench.service.ready and not bench.service.not_ready
    bench.stop()


def test_a_bad_run_is_not_read_again_all_the_time(two_runs, monkeypatch):
    damage_the_state(two_runs.database)
    bench = Bench(two_runs)
    attempts = []
    monkeypatch.setattr(
        live_runs,
        "load",
        lambda *given, **_: (
            attempts.append(given) or (_ for _ in ()).throw(live_runs.StateError("no"))
        ),
    )
    now = live_runs.time.monotonic()
    for second in range(200):
        monkeypatch.setattr(live_runs.time, "monotonic", lambda second=second: now + second)
        bench.service.handle([])
    assert 5 <= len(attempts) <= 8
    monkeypatch.undo()
    bench.stop()


def test_a_file_of_a_bad_run_does_not_keep_the_service_from_starting(two_runs):
    """As `confide serve` with the files of all runs does."""
    damage_the_settings(two_runs.database)
    bench = Bench(two_runs)
    bench.service.create(spec("bad", every=4))
    bench.service.create(spec("good"))
    with pytest.raises(InvalidParameter, match="other settings"):
        bench.service.create(spec("good", users=61))
    bench.stop()


def test_a_new_run_does_not_make_the_service_unready(folder, monkeypatch):
    seen = []
    with serving(folder, spec()) as http:
        load = live_runs.load

        def slow(name, *given, **more):
            seen.append((http.get("/ready").status_code, report(http, "demo").status_code))
            return load(name, *given, **more)

        monkeypatch.setattr(live_runs, "load", slow)
        http.service.create(spec("new"))
        assert http.get("/ready").json() == {"ready": True, "not_ready": []}
        assert report(http, "new").status_code == 201
    assert seen == [(200, 201)]


def test_a_service_is_not_ready_if_none_of_its_runs_is(two_runs):
    damage_the_state(two_runs.database)
    change(two_runs.database, "UPDATE run SET state = ? WHERE name = 'good'", bytes(1000))
    with serving(two_runs) as http:
        assert http.get("/ready").status_code == 503
        assert http.get("/ready").json()["not_ready"] == ["bad", "good"]


ON_BOTH = pytest.mark.parametrize("folder", ["sqlite", "postgres"], indirect=True)


@contextmanager
def another_processor(run):
    """While it lasts, this run is planned as on another kind of processor: from the same release
    follow other policies.
    """
    make_learner = live.make_learner

    def make(spec):
        learner = make_learner(spec)
        if spec.name == run:
            current_round = learner.current_round
            learner.current_round = lambda: turn_around(current_round())
        return learner

    def turn_around(planned):
        return replace(
            planned,
            policies=tuple(
                TabularPolicy(p.choices - 1 - p.actions, p.choices) for p in planned.policies
            ),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "make_learner", make)
        yield


def open_sum(service, run="bad"):
    total = service.store.open_sum(run)
    return total.generation, total.users, total.total


def assert_not_served(http, caplog, generation=0):
    """The run `bad` takes nothing and shows no round, and the run `good` works."""
    assert http.get("/ready").json() == {"ready": True, "not_ready": ["bad"]}
    assert report(http, "bad", "dora").status_code == 503
    assert http.get(f"{RUN}/round/{generation}").status_code == 503
    assert report(http, "good", f"eve {generation}").status_code == 201
    cause = http.get(f"{RUN}/status", "operator").json()["cause"]
    assert (
        f"round of release {generation}" in cause
        and "the kind of processor that planned the round" in cause
    )
    assert cause in caplog.text


@ON_BOTH
@pytest.mark.parametrize("trust", ["joint", "local"])
def test_a_restart_on_another_processor_does_not_serve_the_open_round(folder, trust, caplog):
    bench = Bench(folder)
    bench.create("good")
    bench.create("bad", every=4, trust=trust)
    assert bench.send(*(bench.report(name, "bad") for name in ("ann", "bob"))) == ["counted"] * 2
    before = open_sum(bench.service)
    bench.stop()
    with another_processor("bad"):
        with serving(folder) as http:
            assert_not_served(http, caplog)
            assert open_sum(http.service) == before
        # A command that only shows the status stores nothing, and finds the same.
        with closing(folder.store()) as store:
            facts = {
                each["run"]: each["cause"]
                for each in (_facts(name, store, folder) for name in store.runs())
            }
        assert facts["good"] is None and "plans a different one" in facts["bad"]
    back = Bench(folder)
    assert not back.service.not_ready
    assert back.send(*(back.report(name, "bad") for name in ("cleo", "dan"))) == ["counted"] * 2
    assert back.service.runs["bad"].generation == 1
    back.stop()


@pytest.mark.parametrize("folder", ["postgres"], indirect=True)
def test_workers_on_two_kinds_of_processors_do_not_add_to_one_sum(folder, caplog, monkeypatch):
    monkeypatch.setattr(live_runs, "RETRY_SECONDS", 0.0)
    first = Bench(folder)
    first.create("good")
    first.create("bad", every=4)
    assert first.send(first.report("ann", "bad")) == ["counted"]
    before = open_sum(first.service)
    with another_processor("bad"), serving(folder) as http:
        assert_not_served(http, caplog)
        assert open_sum(first.service) == before
        # The first worker closes the batch and plans the next round. The other one refuses that,
        # too.
        assert (
            first.send(*(first.report(f"person {i}", "bad") for i in range(3))) == ["counted"] * 3
        )
        assert open_sum(first.service) == (1, 0, b"")
        deadline = time.monotonic() + 30
        while "release 1" not in http.get(f"{RUN}/status", "operator").json()["cause"]:
            assert time.monotonic() < deadline
        assert_not_served(http, caplog, generation=1)
    first.stop()


@ON_BOTH
def test_a_round_is_not_planned_again_while_another_one_is_open(folder, monkeypatch):
    monkeypatch.setattr(live_runs, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(core, "LOOK_SECONDS", 0.0)
    bench = Bench(folder)
    bench.create("bad", every=4)
    bench.stop()
    with another_processor("bad"):
        bench = Bench(folder)
        assert bench.service.not_ready.keys() == {"bad"}
        loads = []
        monkeypatch.setattr(live_runs, "load", lambda *given, **_: loads.append(given))
        for _ in range(5):
            bench.service.handle([])
        assert bench.service.not_ready.keys() == {"bad"} and not loads
        monkeypatch.undo()
        bench.service.set_status("bad", "finished", "test")
    bench.stop()
    # A finished run takes no reports, so that any processor may show its releases.
    with another_processor("bad"), serving(folder) as http:
        assert http.get("/ready").json() == {"ready": True, "not_ready": []}
        assert http.get(f"{RUN}/release").status_code == 200
        assert http.get(f"{RUN}/round/0").status_code == 410
        assert report(http, "bad").status_code == 410


@ON_BOTH
@pytest.mark.parametrize("point", ["closed", "marked"])
def test_after_a_crash_between_close_and_plan_whoever_comes_next_plans(folder, point):
    class Crash(BaseException):
        pass

    def crash(reached):
        if reached == point:
            raise Crash

    bench = Bench(folder)
    bench.create("bad", every=2)
    bench.service._fault = crash
    with pytest.raises(Crash):
        bench.send(*(bench.report(f"person {i}", "bad") for i in range(2)))
    assert bench.service.store.round_digest("bad", 1) is None
    bench.stop()
    with another_processor("bad"):
        bench = Bench(folder)
        assert not bench.service.not_ready
        assert bench.send(bench.report("ann", "bad")) == ["counted"]
        assert (
            bench.service.store.round_digest("bad", 1)
            == bench.service.runs["bad"].learner.current_round().digest
        )
        bench.stop()
    bench = Bench(folder)
    assert bench.service.not_ready.keys() == {"bad"}
    bench.stop()
