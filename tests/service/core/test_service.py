"""Reports in, releases out: who is counted, once, and what is on the disk before anybody is
told.
"""

import json
import math
import shutil
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from service_bench import Bench, spec, still_open

import confide
from confide.audit.verify import verify
from confide.errors import InvalidParameter, PrivacyError, StateError, StoreError
from confide.mechanisms.sources import noise_source
from confide.privacy.certificate import Certificate
from confide.service.core import live, live_runs
from confide.service.core import service as core
from confide.service.core.folder import ServiceFolder
from confide.service.core.spec import Batching
from confide.trajectory import collect

# the same on both databases; what looks at files is of SQLite alone
ON_SQLITE = pytest.mark.parametrize("folder", ["sqlite"], indirect=True)
DEADLINE = Batching(rule="deadline", schedule=4, every=100.0, start=1000.0)


class Clock:
    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


def pytest_generate_tests(metafunc):
    given = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "folder" in metafunc.fixturenames and "folder" not in given:
        metafunc.parametrize("folder", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def seeded(monkeypatch):
    """The same noise in every learner."""
    monkeypatch.setattr(live, "noise_source", lambda _: noise_source("fast", 0))


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_a_person_is_counted_once(bench, trust):
    bench.create(trust=trust)
    report = bench.report("ann")
    assert bench.send(report, report) == ["counted", "same"]
    assert bench.send(report) == ["same"]
    assert bench.send(bench.report("ann")) == ["another-report"]
    # a nonce is a person's own
    assert bench.send(bench.report("bob", nonce=report.nonce)) == ["counted"]
    assert bench.service.runs["demo"].users == 2


@pytest.mark.usefixtures("seeded")
def test_what_is_released_is_what_the_library_releases(bench):
    """The same users, the same noise: the bytes of a learner in one process."""
    run = bench.create(every=5, users=15)
    alone = live.make_learner(run.spec)
    for batch in range(3):
        contents = [bench.content() for _ in range(5)]
        bench.send(
            *(bench.report(f"{batch} {i}", content=content) for i, content in enumerate(contents))
        )
        users = collect(contents, 5)
        for i in range(5):
            alone.next_batch()
            alone.observe(users[i : i + 1])
        assert bench.service.runs["demo"].release.body == alone.publish("demo")


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("likelihood-vi", "lock"),
        ("ucrl-vtr", "lock"),
        ("tabular-psrl", "riverswim"),
        ("lin-ts", "linear-bandit"),
        ("thompson-lq", "oscillator"),
    ],
)
def test_a_group_is_the_sum_of_its_people(bench, agent, problem):
    """Also of people who send nonsense: each of them adds what they add alone."""
    run = bench.create(agent=agent, problem=problem)
    world, rng = run.spec.make_problem(), np.random.default_rng(0)
    played = world.sample(run.learner.assign().policy, 4, rng)
    contents = [
        tuple(part[i].tolist() for part in (played.states, played.actions, played.rewards))
        for i in range(4)
    ]
    contents += [
        None,
        ("x", None, [[]]),
        ([1e300] * 9, [-1] * 9, [math.nan] * 9),
        ([0, 1], [0], [1.0]),
        ({}, {}, {}),
        (1, 2, 3),
    ]
    together = run.contribution(contents)
    np.testing.assert_array_equal(together, sum(run.contribution([each]) for each in contents))
    assert together.any() and not run.contribution([contents[4]]).any()


def test_a_full_batch_is_closed_and_those_after_it_are_late(bench):
    run = bench.create(every=4, users=8)
    reports = [bench.report(f"person {i}") for i in range(6)]
    assert bench.send(*reports) == ["counted"] * 4 + ["late"] * 2
    assert (run.generation, run.users) == (1, 0)
    assert bench.send(reports[0], bench.report("new", generation=0)) == ["same", "late"]
    assert bench.send(bench.report("new", generation=2)) == ["invalid"]
    assert bench.send(*(bench.report(f"later {i}") for i in range(4))) == ["counted"] * 4
    assert run.status == "finished"
    assert bench.send(bench.report("too late"), reports[0]) == ["finished", "same"]
    assert bench.service.store.participants("demo") == {0: 4, 1: 4}


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_a_restart_goes_on_where_it_stopped(bench, trust):
    run = bench.create(trust=trust, every=4)
    bench.send(*(bench.report(f"person {i}") for i in range(6)))
    bench.send(bench.report("open"))
    other = bench.restart()
    again = other.service.runs["demo"]
    for name in (
        "release",
        "manifest",
        "certificate",
        "round",
        "users",
        "size",
        "generation",
        "status",
    ):
        assert getattr(again, name) == getattr(run, name), name
    opened = other.service.store.open_sum("demo")
    assert (opened.users, opened.generation) == (run.users, 1) and any(opened.total)
    other.stop()


def test_a_batch_that_is_full_is_closed_after_a_restart(bench):
    """Full, not yet closed, is a state on the disk."""
    bench.create(every=4)
    bench.service._close = lambda _: (_ for _ in ()).throw(StoreError("no space left"))
    reports = [bench.report(f"person {i}") for i in range(5)]
    assert bench.send(*reports) == ["counted"] * 4 + ["unavailable"]
    assert not bench.service.ready
    other = bench.restart()
    assert other.send(reports[0], reports[4]) == ["same", "late"]
    assert other.service.runs["demo"].generation == 1
    other.stop()


def test_what_cannot_be_written_is_not_counted(bench, monkeypatch):
    run = bench.create()
    report = bench.report("ann")
    with monkeypatch.context() as patch:
        patch.setattr(
            type(bench.service.store),
            "transaction",
            lambda _: (_ for _ in ()).throw(StoreError("disk full")),
        )
        assert bench.send(report) == ["unavailable"]
        assert not bench.service.ready
    assert bench.send(report) == ["counted"]
    assert bench.service.ready and bench.service.runs["demo"] is not run  # memory was thrown away
    assert bench.service.runs["demo"].users == 1


def test_two_writers_of_one_database(bench):
    """The one that comes second loses, and reads again."""
    bench.create(every=4, users=8)
    second = Bench.__new__(Bench)
    second.folder, second.rng = bench.folder, bench.rng
    second.service = type(bench.service)(
        bench.folder.store(), bench.folder.keys, bench.folder.marks
    )
    late = second.report("in the second")
    assert bench.send(*(bench.report(f"person {i}") for i in range(4))) == ["counted"] * 4
    assert second.send(late) == ["late"]
    second.service.stop()


@ON_SQLITE
def test_one_process_serves_a_folder(bench):
    bench.create()
    with pytest.raises(StateError, match="another process serves"):
        type(bench.folder)(bench.folder.folder).open()


@ON_SQLITE
def test_a_backup_that_is_put_back_is_refused(bench, tmp_path):
    bench.create(every=4)
    bench.service.store.backup(str(tmp_path / "backup"))
    bench.send(*(bench.report(f"person {i}") for i in range(4)))
    bench.stop()
    now = bench.folder.database.read_bytes()
    shutil.copy(tmp_path / "backup", bench.folder.database)
    old = bench.folder.open()
    assert (
        not old.ready
        and "release 1 was already shown: a backup was put back" in old.not_ready["demo"]
    )
    old.stop()
    assert still_open(bench.folder.database) == []
    bench.folder.let_go()
    bench.folder.database.write_bytes(now)
    again = bench.folder.open()
    assert again.runs["demo"].generation == 1
    again.stop()


@ON_SQLITE
def test_after_a_backup_was_put_back_the_run_is_finished_and_others_go_on(bench, tmp_path):
    bench.create(every=4)
    bench.create("other")
    bench.service.store.backup(str(tmp_path / "backup"))
    bench.send(*(bench.report(f"person {i}") for i in range(4)))
    bench.stop()
    shutil.copy(tmp_path / "backup", bench.folder.database)
    with pytest.raises(InvalidParameter, match="no run none"):
        bench.folder.finish("none")
    bench.folder.finish("demo")
    with pytest.raises(InvalidParameter, match="is finished"):
        bench.folder.finish("demo")
    other = Bench(bench.folder)
    assert set(other.service.runs) == {"other"} and other.service.ready
    with pytest.raises(StateError, match="Choose another name"):
        other.create(every=4)
    other.create("next", every=4)
    assert other.send(other.report("ann", "next"), other.report("ann", "other")) == ["counted"] * 2
    other.stop()


@pytest.mark.parametrize("people", [1, 4])
def test_a_run_without_its_mark_is_not_served_until_somebody_says_so(bench, people):
    """A forgotten --marks, or a backup on a new machine, would go unnoticed, also before the first
    release.
    """
    bench.create(every=4)
    bench.send(*(bench.report(f"person {i}") for i in range(people)))
    bench.stop()
    shutil.rmtree(bench.folder.marks.folder)
    unmarked = bench.folder.open()
    assert not unmarked.ready and "Give --marks as before" in unmarked.not_ready["demo"]
    if not bench.folder.shared:
        with pytest.raises(StateError, match="another process"):
            type(bench.folder)(bench.folder.folder).mark()
    unmarked.stop()
    bench.folder.let_go()
    assert bench.folder.mark() == ["demo"] and bench.folder.mark() == []
    other = Bench(bench.folder)
    assert other.service.runs["demo"].generation == people // 4
    assert [row.action for row in other.service.store.audit_rows()][-1] == "mark"
    other.stop()


def test_a_run_without_reports_needs_no_mark(bench):
    """A kill between the transaction that makes a run and its mark must not stop the run."""
    bench.create(every=4)
    bench.stop()
    shutil.rmtree(bench.folder.marks.folder)
    again = Bench(bench.folder)
    assert again.service.ready and again.send(again.report("ann")) == ["counted"]
    again.stop()


@ON_SQLITE
def test_a_run_that_was_served_from_a_lost_database_is_not_served_again(bench):
    bench.create()
    bench.stop()
    for path in bench.folder.folder.glob("service.sqlite*"):
        path.unlink()
    shutil.rmtree(bench.folder.keys.folder)
    other = Bench(bench.folder)
    with pytest.raises(StateError, match="was served before"):
        other.create()
    other.stop()


def test_a_manifest_is_never_changed(bench):
    run = bench.create()
    bench.service.create(spec())
    assert bench.service.runs["demo"] is run
    with pytest.raises(InvalidParameter, match="other settings"):
        bench.create(users=61)
    with pytest.raises(InvalidParameter, match="other settings"):
        bench.create(noise="secure")


def test_agents_that_keep_data_are_not_served(bench):
    with pytest.raises(PrivacyError, match="cannot be served"):
        bench.create(agent="lsvi-ucb", problem="one-hot")
    with pytest.raises(InvalidParameter, match="has no option"):
        bench.service.create(spec(agent="uniform"))


def test_the_certificate_can_be_recomputed_and_says_simulation(bench, tmp_path):
    run = bench.create()
    path = tmp_path / "certificate.json"
    path.write_bytes(run.certificate)
    found = Certificate.load(path)
    assert verify(found).epsilon == pytest.approx(1.0, abs=1e-6)
    assert found.document["subject"].startswith("SIMULATION")
    assert any("SIMULATION" in each.text for each in found.assumptions)


# budgets


def test_a_person_has_one_budget_over_all_runs(bench):
    """mu^2 adds up: four runs of epsilon = 1 fit into twice its mu, and a fifth does not."""
    mu = confide.privacy.accounting.gaussian_mu(1.0, 1e-5)
    most = confide.privacy.accounting.gaussian_epsilon(2 * mu, 1e-5)
    runs = [f"run-{i}" for i in range(5)]
    for name in runs:
        bench.create(name, person_epsilon=most, person_delta=1e-5)
    assert [bench.send(bench.report("ann", name))[0] for name in runs] == ["counted"] * 4 + [
        "over-budget"
    ]
    assert bench.send(bench.report("bob", runs[4])) == ["counted"]
    assert bench.service.runs[runs[4]].users == 1


def test_an_account_measures_all_runs_under_one_relation(bench):
    """To replace a report is to remove it and to add another: under `replace`, a run under `null`
    costs twice its mu.
    """
    mu = confide.privacy.accounting.gaussian_mu(1.0, 1e-5)
    most = confide.privacy.accounting.gaussian_epsilon(2 * mu, 1e-5)
    first = bench.create("first", person_epsilon=most, person_delta=1e-5, relation="null")
    second = bench.create("second")
    assert [first.cost(1) / mu**2, second.cost(1) / mu**2] == pytest.approx([4, 1])
    assert bench.send(bench.report("ann", "first")) == ["counted"]
    assert bench.send(bench.report("ann", "second")) == ["over-budget"]
    assert json.loads(first.manifest.body)["person"] == {
        "epsilon": most,
        "delta": 1e-5,
        "relation": "replace",
    }


def test_a_budget_over_all_runs_is_kept_by_those_that_promise_none(bench):
    """Also by a run that is made later: who took part in the first was told what all of them cost
    together.
    """
    bench.create("limited", person_epsilon=1.5, person_delta=1e-5)
    bench.create("free")
    assert bench.send(bench.report("ann", "free"), bench.report("bob", "free")) == ["counted"] * 2
    bench.create("free-too")
    assert (
        bench.send(bench.report("ann", "limited"))
        == bench.send(bench.report("cem", "limited"))
        == ["counted"]
    )
    assert bench.send(*(bench.report(name, "free-too") for name in ("ann", "bob", "cem"))) == [
        "over-budget",
        "counted",
        "counted",
    ]
    assert bench.send(bench.report("cem", "free")) == ["over-budget"]


def test_a_run_in_which_nobody_could_report_is_refused(bench):
    with pytest.raises(InvalidParameter, match="nobody could report"):
        bench.create(person_epsilon=0.5, person_delta=1e-5)
    bench.create(person_epsilon=1.5, person_delta=1e-5)
    with pytest.raises(InvalidParameter, match="nobody could report"):
        bench.create("free", epsilon=5.0)


def test_a_run_whose_first_deadline_has_passed_is_refused(bench):
    """Its batches would be closed at once, one after the other, before anybody could be
    enrolled.
    """
    with pytest.raises(InvalidParameter, match="start plus every must lie in the future"):
        bench.create(users=12, batch=DEADLINE)
    assert not bench.service.runs


def test_a_person_who_reports_twice_loses_as_a_group(bench):
    joint, local = (
        bench.create(reports_per_person=2),
        bench.create("local", trust="local", reports_per_person=2),
    )
    mu = confide.privacy.accounting.gaussian_mu(1.0, 1e-5)
    assert [joint.cost(k) / mu**2 for k in (1, 2, 3)] == pytest.approx([1, 3, 5])
    pure = 2 * NormalDist().inv_cdf(1 / (1 + math.exp(-4.0)))  # the mu of 4-DP
    assert local.cost(1) == local.cost(2) == pytest.approx(pure**2)
    assert bench.send(bench.report("ann"), bench.report("ann"), bench.report("ann")) == [
        "counted",
        "counted",
        "another-report",
    ]


# deadlines


@pytest.fixture
def timed(folder, seeded):  # noqa: ARG001
    clock = Clock()
    made = Bench(folder, clock=clock)
    made.clock = clock
    made.create(users=12, batch=DEADLINE)
    made.service.enrol("demo", ["ann", "bob"], 0, "test")
    made.service.enrol("demo", ["cem"], 1, "test")
    yield made
    made.stop()


def test_a_deadline_closes_whoever_came(timed):
    run = timed.service.runs["demo"]
    ann = timed.report("ann")
    assert timed.send(ann, ann, timed.report("ann")) == ["counted", "same", "another-report"]
    assert timed.send(timed.report("zoe"), timed.report("cem")) == ["not-enrolled", "not-enrolled"]
    bob = timed.report("bob")
    timed.clock.now = 1100.0
    assert timed.send(bob, ann) == ["late", "same"]
    assert run.generation == 1
    timed.clock.now = 1399.0  # the service was busy for three deadlines
    assert timed.send(timed.report("cem")) == ["finished"]
    assert (run.generation, run.status) == (3, "finished")


@pytest.mark.parametrize("people", [[], ["ann"]])
def test_a_local_release_shows_who_came_and_the_manifest_says_so(folder, people):
    """Without messages there is no noise: a release that is zero tells everybody that
    nobody came.
    """
    clock = Clock()
    bench = Bench(folder, clock=clock)
    bench.create(trust="local", users=12, batch=DEADLINE)
    bench.service.enrol("demo", ["ann", "bob"], 0, "test")
    run = bench.service.runs["demo"]
    assert bench.send(*(bench.report(name) for name in people)) == ["counted"] * len(people)
    clock.now = 1100.0
    bench.service.handle([])
    assert run.generation == 1
    assert np.any(run.learner.released().values) == bool(people)
    protects = json.loads(run.manifest.body)["batch"]["protects"]
    assert "That the person took part is not" in protects
    bench.stop()


def test_who_took_part_cannot_be_asked_with_reports_that_are_not_counted(timed):
    """Ann has reported, Bob has not, and Zoe is not enrolled: with another release, or after the
    close, all are answered alike.
    """
    people = ("ann", "bob", "zoe")
    timed.send(timed.report("ann"))
    assert {timed.send(timed.report(name, generation=9))[0] for name in people} == {"invalid"}
    timed.clock.now = 1100.0
    timed.service.handle([])
    assert {timed.send(timed.report(name, generation=0))[0] for name in people} == {"late"}
    assert {timed.send(timed.report(name))[0] for name in people} == {"not-enrolled"}


@pytest.mark.parametrize("rule", ["count", "deadline"])
def test_what_is_no_message_is_refused_before_the_service_looks_at_the_person(folder, rule):
    """Ann has reported, Bob is enrolled and has not, and Zoe is unknown.

    With nonsense nobody finds out who is who.
    """
    bench = Bench(folder, clock=Clock())
    bench.create(trust="local", users=12, batch=DEADLINE if rule == "deadline" else None)
    if rule == "deadline":
        bench.service.enrol("demo", ["ann", "bob"], 0, "test")
    message = bench.content()
    assert bench.send(bench.report("ann", content=message)) == ["counted"]
    other_release = message[:6] + bytes([9]) + message[7:]
    not_a_number = message[:-8] + b"\xff" * 8
    malformed = (
        b"",
        b"nonsense",
        message[:-1],
        message + b"x",
        other_release,
        not_a_number,
        message[:20] + bytes(len(message) - 20),
    )
    for content in malformed:
        answers = [
            bench.send(bench.report(name, content=content)) for name in ("ann", "bob", "zoe")
        ]
        assert answers == [["invalid"]] * 3, content
    bench.service.set_status("demo", "paused", "test")
    assert bench.send(bench.report("ann", content=b"nonsense"), bench.report("ann")) == [
        "invalid",
        "paused",
    ]
    bench.stop()


def test_nobody_comes_in_after_a_deadline_that_could_not_be_kept(timed, monkeypatch):
    """The disk was full at the deadline: those who come then are asked to come again, and
    are late.
    """
    ann, bob = timed.report("ann"), timed.report("bob")
    timed.send(ann)
    timed.clock.now = 1100.0
    with monkeypatch.context() as patch:
        patch.setattr(
            type(timed.service.store),
            "transaction",
            lambda _: (_ for _ in ()).throw(StoreError("disk full")),
        )
        assert timed.send(bob) == ["unavailable"]
    assert timed.send(bob, ann) == ["late", "same"]
    assert (
        timed.service.store.participants("demo") == {0: 1}
        and timed.service.runs["demo"].generation == 1
    )


def test_a_deadline_that_could_not_be_kept_is_kept_later_though_nobody_reports(timed, monkeypatch):
    """Behind a proxy that asks /ready nobody can report to a service that is not ready.

    Meanwhile the writer waits, and does not spin.
    """
    monkeypatch.setattr(live_runs, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(core, "LOOK_SECONDS", 0.0)
    timed.clock.now = 1100.0
    with monkeypatch.context() as patch:
        patch.setattr(
            type(timed.service.store),
            "transaction",
            lambda _: (_ for _ in ()).throw(StoreError("disk full")),
        )
        timed.service.handle([])
    assert not timed.service.ready
    waits = []
    timed.service._reports = SimpleNamespace(
        next_group=lambda *, seconds, **_: waits.append(seconds), take_overdue=lambda _: []
    )
    timed.service._next_group()
    assert waits == [1.0 if timed.service.store.workers == 1 else core.LOOK_SECONDS]
    timed.service.handle([])
    assert timed.service.ready and timed.service.runs["demo"].generation == 1


def test_what_is_public_does_not_depend_on_who_reported(timed, tmp_path):
    """Somebody whose report adds zero, and somebody who stays away, are the same: all public bytes,
    with the noise fixed.
    """
    silent = Bench(ServiceFolder(tmp_path / "other"), clock=Clock())
    silent.create(users=12, batch=DEADLINE)
    silent.service.enrol("demo", ["ann", "bob"], 0, "test")
    content = timed.content()
    timed.send(timed.report("ann", content=content), timed.report("bob", content=([], [], [])))
    silent.send(silent.report("ann", content=content))
    for each, clock in ((timed, timed.clock), (silent, silent.service._clock)):
        clock.now = 1150.0
        each.service.handle([])
    one, two = timed.service.runs["demo"], silent.service.runs["demo"]
    assert (one.release.body, one.round.body, one.release.users) == (
        two.release.body,
        two.round.body,
        two.release.users,
    )
    silent.stop()


def test_places_of_a_batch_are_limited_when_people_are_enrolled(timed):
    with pytest.raises(InvalidParameter, match="4 places"):
        timed.service.enrol("demo", ["d", "e", "f"], 0, "test")
    assert timed.service.enrol("demo", ["d", "ann"], 0, "test") == 1
    timed.clock.now = 1100.0
    timed.service.handle([])
    with pytest.raises(InvalidParameter, match="closed"):
        timed.service.enrol("demo", ["g"], 0, "test")
    timed.service.create(spec("other"))
    with pytest.raises(InvalidParameter, match="rule deadline"):
        timed.service.enrol("other", ["g"], 0, "test")


@pytest.fixture
def changing(folder, seeded):  # noqa: ARG001
    """A run with deadlines whose batches change size from release to release."""
    made = Bench(folder, clock=Clock())
    batch = Batching(rule="deadline", every=100.0, start=1000.0)
    made.create(agent="questions-vi", epsilon=4.0, delta=0.0, users=200, batch=batch)
    yield made
    made.stop()


def test_nobody_is_enrolled_into_a_batch_whose_size_is_not_decided(changing):
    """More people than the batch has in the end would have made a sum that no release was
    made for.
    """
    run = changing.service.runs["demo"]
    with pytest.raises(InvalidParameter, match="the size of batch 1 is decided by release 1"):
        changing.service.enrol("demo", ["ann"], 1, "test")
    with pytest.raises(InvalidParameter, match=f"{run.size} places"):
        changing.service.enrol("demo", [f"person {i}" for i in range(run.size + 1)], 0, "test")
    assert (
        changing.service.enrol("demo", [f"person {i}" for i in range(run.size)], 0, "test")
        == run.size
    )
    changing.service._clock.now = 1100.0
    changing.service.handle([])
    assert changing.service.enrol("demo", ["ann"], 1, "test") == 1
    assert [row.action for row in changing.service.store.audit_rows()] == [
        "init",
        "create",
        "enrol",
        "enrol",
    ]


@pytest.mark.parametrize("steps", [-(2**60), 2**60])
def test_a_deadline_is_kept_whatever_the_sum_is(changing, steps):
    run = changing.service.runs["demo"]
    people = [f"person {i}" for i in range(run.size)]
    changing.service.enrol("demo", people, 0, "test")
    run.contribution = lambda episodes: np.full(run.coordinates, steps // len(episodes))
    assert changing.send(*(changing.report(name) for name in people)) == ["counted"] * run.size
    changing.service._clock.now = 1100.0
    changing.service.handle([])
    assert changing.service.runs["demo"].generation == 1 and changing.service.ready


# operators


def test_a_run_is_paused_and_finished(bench):
    bench.create()
    report = bench.report("ann")
    bench.service.set_status("demo", "paused", "admin")
    assert bench.send(report) == ["paused"]
    other = bench.restart()
    assert other.send(report) == ["paused"]
    other.service.set_status("demo", "open", "admin")
    assert other.send(report) == ["counted"]
    other.service.set_status("demo", "finished", "admin")
    assert other.send(report, other.report("bob")) == ["same", "finished"]
    with pytest.raises(InvalidParameter, match="finished"):
        other.service.set_status("demo", "open", "admin")
    assert [row.action for row in other.service.store.audit_rows()] == [
        "init",
        "create",
        "paused",
        "open",
        "finished",
    ]
    other.stop()


def test_the_writer_answers_what_was_queued_before_it_stops(bench):
    bench.create()
    bench.service.start()
    answers = []
    for i in range(10):
        bench.service.submit(bench.report(f"person {i}"), answers.append)
    bench.stop()
    assert [answer.status for answer in answers] == [201] * 10
    bench.service.submit(None, answers.append)
    assert answers[-1].outcome == "unavailable"


@ON_SQLITE
def test_nothing_of_a_report_is_written_anywhere(bench, caplog):
    """Not in the database, its log, the keys or the marks; not in what is logged; not in a repr."""
    bench.create(every=4)
    states = [7, 11, 13, 5, 17, 3]
    report = bench.report("subject-4711", content=(states, [1, 2, 3, 1, 2], [0.123456789] * 5))
    bench.send(report, bench.report("ann", content=("planted-text", {"planted": 1}, None)))
    files = [path for path in bench.folder.folder.rglob("*") if path.is_file()]
    assert any("wal" in path.name for path in files)
    written = (
        b"".join(path.read_bytes() for path in files) + caplog.text.encode() + repr(report).encode()
    )
    for planted in (
        b"4711",
        b"planted",
        b"0.123456789",
        np.array(0.123456789).tobytes(),
        np.array(states).tobytes(),
        b"7, 11, 13",
    ):
        assert planted not in written


@ON_SQLITE
def test_exact_sums_are_never_in_the_files_and_old_records_are_gone_after_a_close(bench):
    run = bench.create(every=4)
    store = bench.service.store
    sums, records = [], []
    written = lambda: b"".join(  # noqa: E731
        path.read_bytes() for path in bench.folder.folder.glob("service.sqlite*")
    )
    for i in range(3):
        bench.send(bench.report(f"person {i}"))
        sums.append(store.open_sum("demo").total)
        records.append(store._read("SELECT total FROM open_sum")[0][0])
        assert not any(total in written() for total in sums)
    assert all(record in written() for record in records)
    bench.send(bench.report("last"))
    assert run.generation == 1 and not any(record in written() for record in records)


def pages(store, more):
    """Room for so many more pages: what a disk that is nearly full gives."""
    (count,) = store._writer.execute("PRAGMA page_count").fetchone()
    store._writer.execute(f"PRAGMA max_page_count = {count + more}")


@ON_SQLITE
def test_a_full_disk_loses_nobody(bench):
    """503 while nothing can be written, also when a batch is closed; then everything goes on."""
    bench.create(every=40, users=80)
    store, told = bench.service.store, {}
    reports = [bench.report(f"person {i}") for i in range(50)]
    pages(store, 1)
    for i, report in enumerate(reports):
        told[i] = bench.send(report)[0]
    assert set(told.values()) == {"counted", "unavailable"} and not bench.service.ready
    pages(store, 10_000)
    again = [bench.send(report)[0] for report in reports]
    assert all(now == "same" for i, now in enumerate(again) if told[i] == "counted")
    assert [again.count(each) for each in ("same", "counted", "late")] == [
        sum(each == "counted" for each in told.values()),
        40 - sum(each == "counted" for each in told.values()),
        10,
    ]
    assert bench.service.ready and bench.service.store.participants("demo") == {0: 40}
