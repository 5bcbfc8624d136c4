"""Large runs: refused before anything is made, or prepared while all other runs go on."""

import subprocess
import sys
import textwrap
import threading
import time
import urllib.request

import pytest
from service_bench import serving, spec

from confide.errors import InvalidParameter
from confide.service.core import live
from confide.service.core import service as core
from confide.service.core import spec as specs
from confide.service.core.folder import ServiceFolder

TOML = (
    'name = "large"\nagent = "{agent}"\nproblem = "{problem}"\n'
    'epsilon = 1.0\ndelta = 1e-5\nusers = 1000\nnoise = "fast"\n'
)


def report(http, run, subject, generation=0):
    body = {"subject": subject, "generation": generation, "trajectory": {}}
    return http.post(
        f"/v1/runs/{run}/reports",
        "device",
        json=body,
        headers={"Idempotency-Key": f"a random key of {subject}"},
    )


@pytest.mark.parametrize(
    ("agent", "problem", "horizon"),
    [
        ("tabular-psrl", "riverswim", 10**9),
        ("likelihood-vi", "lock", 10**7),
        ("ucbvi", "riverswim", 10**8),
    ],
)
def test_what_is_too_large_is_refused_at_once_and_before_anything_is_made(
    folder, monkeypatch, agent, problem, horizon
):
    with serving(folder, spec()) as http:
        monkeypatch.setattr(
            specs.ServiceRunSpec, "make_learner", lambda *_: pytest.fail("a learner was made")
        )
        answer = http.post(
            "/v1/runs",
            "admin",
            content=TOML.format(agent=agent, problem=problem) + f"horizon = {horizon}\n",
        )
        assert answer.status_code == 400, answer.text
        assert "of memory, and a run may need at most 1 GB: " in answer.json()["detail"]
        assert http.get("/v1/runs").json() == {"runs": ["demo"]}
        assert http.get("/ready").json() == {"ready": True, "not_ready": []}


def test_the_limit_is_the_operators(folder):
    with (
        serving(folder, run_memory=1000) as http,
        pytest.raises(InvalidParameter, match="raise the limit"),
    ):
        http.service.create(spec())
    with serving(folder, spec()) as http:
        assert report(http, "demo", "ann").status_code == 201
    with serving(folder, run_memory=1000) as http:
        assert "raise the limit" in http.service.not_ready["demo"]


@pytest.fixture
def planning(monkeypatch):
    """Rounds of the run `slow` are planned when the test says so."""
    go_on = threading.Event()
    begun = threading.Event()
    plan = live.LiveRun._plan_round

    def wait(run, *given):
        if run.name == "slow" and run.generation > 0:
            begun.set()
            assert go_on.wait(timeout=30)
        plan(run, *given)

    monkeypatch.setattr(live.LiveRun, "_plan_round", wait)
    yield begun, go_on
    go_on.set()


@pytest.mark.parametrize("folder", ["sqlite", "postgres"], indirect=True)
def test_other_runs_go_on_while_one_is_planned(folder, planning, monkeypatch):
    begun, go_on = planning
    monkeypatch.setattr(core, "PATIENCE_SECONDS", 0.2)
    with serving(folder, spec("slow", users=8, every=4), spec("quick", users=8, every=4)) as http:
        assert [report(http, "slow", f"{i}").status_code for i in range(4)] == [201] * 4
        assert begun.wait(timeout=10)
        began = time.monotonic()
        assert [report(http, "quick", f"{i}").status_code for i in range(4)] == [201] * 4
        assert time.monotonic() - began < 5.0
        assert http.get("/v1/runs/slow/release").headers["confide-generation"] == "1"
        assert http.get("/v1/runs/slow/round/1").status_code == 503
        assert http.get("/ready").json() == {"ready": True, "not_ready": []}
        late = report(http, "slow", "late", generation=1)
        assert late.status_code == 503 and int(late.headers["retry-after"]) >= 1
        go_on.set()
        assert http.get("/v1/runs/quick/release").headers["confide-generation"] == "1"
        assert [
            report(http, "slow", name, generation=1).status_code for name in ("late", "a", "b", "c")
        ] == [201] * 4


def test_reports_wait_for_a_round_that_is_planned_soon(folder, planning):
    begun, go_on = planning
    with serving(folder, spec("slow", users=8, every=4)) as http:
        assert [report(http, "slow", f"{i}").status_code for i in range(4)] == [201] * 4
        assert begun.wait(timeout=10)
        threading.Timer(0.3, go_on.set).start()
        assert report(http, "slow", "ann", generation=1).status_code == 201
        assert report(http, "slow", "bob", generation=0).status_code == 410


def test_a_deadline_waits_for_a_round_that_is_planned(folder, planning):
    """Batches are closed one after the other, each with its own round."""
    begun, go_on = planning
    now = [1000.0]
    batch = specs.Batching(rule="deadline", schedule=4, every=100.0, start=1000.0)
    with serving(folder, spec("slow", users=12, batch=batch), clock=lambda: now[0]) as http:
        now[0] = 1350.0
        assert begun.wait(timeout=10)
        assert http.service.runs["slow"].generation == 1
        go_on.set()
        for _ in range(200):
            if http.service.runs["slow"].status == "finished":
                break
            time.sleep(0.05)
        assert http.service.runs["slow"].generation == 3


def test_a_round_that_cannot_be_planned_concerns_its_run_alone(folder, monkeypatch):
    plan = live.LiveRun._plan_round

    def fail(run, *given):
        if run.name == "bad" and run.generation > 0:
            raise MemoryError
        plan(run, *given)

    monkeypatch.setattr(live.LiveRun, "_plan_round", fail)
    with serving(folder, spec("bad", users=8, every=4), spec("good")) as http:
        assert [report(http, "bad", f"{i}").status_code for i in range(4)] == [201] * 4
        assert report(http, "bad", "ann", generation=1).status_code == 503
        assert http.get("/ready").json() == {"ready": True, "not_ready": ["bad"]}
        assert report(http, "good", "ann").status_code == 201


@pytest.mark.process
@pytest.mark.parametrize("moment", ["created", "planned"])
def test_the_process_ends_soon_while_a_large_run_is_made(tmp_path, moment):
    """After SIGTERM it waits neither for a run that is being created, nor for one that is being
    planned.
    """
    place = ServiceFolder(tmp_path / "service")
    place.init()
    target = {"created": ("creation", "make_learner"), "planned": ("live.LiveRun", "_plan_round")}[
        moment
    ]
    script = textwrap.dedent(f"""
        import sys, time
        from confide.cli import main
        from confide.service.core import creation, live
        real = {target[0]}.{target[1]}
        def slow(what, *given):
            if getattr(what, "name", "") == "large":
                print("begun", flush=True)
                time.sleep(120)
            return real(what, *given)
        {target[0]}.{target[1]} = slow
        main(["serve", "--folder", {str(place.folder)!r}, "--port", "18741"])
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert "serving at" in server.stdout.readline()
            key = (place.keys.folder / "api-admin.key").read_text().strip()
            body = TOML.format(agent="likelihood-vi", problem="lock").encode()
            request = urllib.request.Request(
                "http://127.0.0.1:18741/v1/runs", body, {"Authorization": f"Bearer {key}"}
            )
            statuses = []

            def create():
                try:
                    statuses.append(urllib.request.urlopen(request, timeout=60).status)
                except urllib.error.HTTPError as error:
                    statuses.append(error.code)

            asking = threading.Thread(target=create)
            asking.start()
            assert server.stdout.readline() == "begun\n"
        finally:
            began = time.monotonic()
            server.terminate()
        asking.join(timeout=20)
        server.wait(timeout=20)
    assert time.monotonic() - began < 5.0
    assert server.returncode == 0 and statuses == [503]


def test_a_close_that_always_fails_does_not_keep_reports_waiting(folder, monkeypatch):
    """The run is read again after each attempt, which works.

    A report that waited for it must not wait for the next attempt.
    """
    monkeypatch.setattr(
        live.LiveRun,
        "draw",
        lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")),
    )
    with serving(folder, spec("full", users=8, every=4), spec("good")) as http:
        assert [report(http, "full", f"{i}").status_code for i in range(4)] == [201] * 4
        began = time.monotonic()
        assert report(http, "full", "late").status_code == 503
        assert report(http, "good", "ann").status_code == 201
        assert time.monotonic() - began < 3.0
