"""The HTTP side: roles, status codes, limits, tags. Whatever is sent, the answer is a 4xx in one sentence."""

import asyncio
import base64
import json
import logging

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_bench import URL, serving, spec

from confide.service.core.live_runs import Failure
from confide.service.core.spec import Batching
from confide.service.documents import Statement, check_signature, digest
from confide.service.web.gate import Limits

RUN = "/v1/runs/demo"


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    from confide.service.core.folder import ServiceFolder

    folder = ServiceFolder(tmp_path_factory.mktemp("http") / "service")
    with serving(
        folder, spec(users=6000, every=2000), spec("local", trust="local", users=6000, every=2000)
    ) as made:
        yield made


def report(http, subject="ann", *, nonce="n" * 16, role="device", run="demo", **more):
    body = {
        "subject": subject,
        "generation": 0,
        "trajectory": {"states": [0] * 6, "actions": [0] * 5, "rewards": [0.0] * 5},
    }
    return http.post(
        f"/v1/runs/{run}/reports", role, json=body | more, headers={"Idempotency-Key": nonce}
    )


def problem(answer, status, kind):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"/problems/{kind}" and answer.json()["status"] == status
    return answer


def test_reports_have_the_status_codes_of_the_contract(http):
    assert report(http, "codes", nonce="a" * 16).status_code == 201
    again = report(http, "codes", nonce="a" * 16)
    assert (again.status_code, again.json()) == (200, {"outcome": "same", "generation": 0})
    problem(report(http, "codes", nonce="b" * 16), 409, "another-report")
    problem(report(http, "future", generation=1), 400, "invalid")
    problem(report(http, "x", role=None), 401, "unauthorised")
    problem(report(http, "x", role="auditor"), 403, "forbidden")
    problem(report(http, "x", nonce="short"), 400, "invalid")
    problem(report(http, "x", run="nothing"), 404, "unknown")
    problem(report(http, ""), 400, "invalid")
    problem(report(http, 5), 400, "invalid")
    problem(report(http, "x", generation="0"), 400, "invalid")
    problem(report(http, "x", trajectory=None), 400, "invalid")


@pytest.mark.parametrize(
    "content",
    [{}, {"states": "x"}, {"states": [1e300, None], "actions": {}, "rewards": [[]]}],
    ids=str,
)
def test_content_that_makes_no_sense_is_counted_and_adds_zero(http, content):
    http.settle()
    run = http.service.runs["demo"]
    before, users = http.service.store.open_sum("demo").total, run.users
    assert report(http, f"nonsense {content}", trajectory=content).status_code == 201
    http.settle()
    assert http.service.store.open_sum("demo").total == before and run.users == users + 1


def test_a_number_of_thousands_of_digits_is_counted_and_adds_zero(http):
    """Other nonsense is counted. If this was refused, people could find out whether their report was counted."""
    http.settle()
    run = http.service.runs["demo"]
    before, users = http.service.store.open_sum("demo").total, run.users
    long = f'{{"states": [{"9" * 5000}], "actions": [], "rewards": []}}'
    body = f'{{"subject": "digits", "generation": {run.generation}, "trajectory": {long}}}'
    assert (
        http.post(
            f"{RUN}/reports", "device", content=body, headers={"Idempotency-Key": "d" * 16}
        ).status_code
        == 201
    )
    http.settle()
    assert http.service.store.open_sum("demo").total == before and run.users == users + 1


@pytest.mark.parametrize(
    "message", [None, "", "!", "AAAA", base64.b64encode(b"cfdm" + bytes(60)).decode()], ids=str
)
def test_what_is_no_message_is_refused(http, message):
    problem(report(http, "m", run="local", message=message), 400, "invalid")


def test_documents_are_signed_and_tagged(http):
    run = http.service.runs["demo"]
    manifest = http.get(f"{RUN}/manifest")
    public = bytes.fromhex(manifest.json()["key"]["public"])
    signature = bytes.fromhex(manifest.headers["confide-signature"])
    check_signature(
        public, signature, Statement("manifest", "demo", "", 0, digest(manifest.content)).to_bytes()
    )
    assert manifest.json()["simulation"] is True
    for path in ("manifest", "certificate", "release", "release/0", "round/0"):
        answer = http.get(f"{RUN}/{path}")
        assert answer.status_code == 200 and answer.headers["x-content-type-options"] == "nosniff"
        again = http.get(f"{RUN}/{path}", **{"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304 and again.content == b""
    release = http.get(f"{RUN}/release")
    assert release.content == run.release.body and release.headers["confide-generation"] == "0"
    assert release.headers["confide-previous"] == digest(manifest.content)
    assert (
        "immutable" in http.get(f"{RUN}/release/0").headers["cache-control"]
        and "no-cache" in release.headers["cache-control"]
    )
    problem(http.get(f"{RUN}/release/7"), 404, "unknown")
    problem(http.get(f"{RUN}/round/7"), 404, "unknown")
    assert [key["id"] for key in http.get(f"{RUN}/keys").json()["keys"]] == [run.manifest.key]
    assert http.get("/v1/runs").json() == {"runs": ["demo", "local"]}


def test_an_action_for_those_who_cannot_read_rounds(http):
    body = {"subject": "ann", "state": 0, "step": 0}
    first = http.post(f"{RUN}/act", "device", json=body)
    assert first.status_code == 200 and first.json()["action"] in range(4)
    assert http.post(f"{RUN}/act", "device", json=body).json() == first.json()
    problem(http.post(f"{RUN}/act", "device", json=body | {"step": 99}), 400, "invalid")
    problem(http.post(f"{RUN}/act", "device", json=body | {"state": {"x": 1}}), 400, "invalid")
    problem(http.post("/v1/runs/local/act", "device", json=body), 400, "invalid")


def test_who_may_do_what(http):
    asked = {
        ("GET", f"{RUN}/status"): {"operator", "admin"},
        ("GET", "/v1/audit"): {"auditor", "admin"},
        ("POST", f"{RUN}/enrolments"): {"admin"},
        ("POST", "/v1/runs"): {"admin"},
        ("POST", "/v1/keys"): {"admin"},
        ("DELETE", "/v1/keys/none"): {"admin"},
    }
    for (method, path), allowed in asked.items():
        problem(http.request(method, path), 401, "unauthorised")
        for role in ("device", "operator", "admin", "auditor"):
            answer = http.request(
                method, path, headers={"Authorization": f"Bearer {http.keys[role]}"}
            )
            assert (answer.status_code == 403) == (role not in allowed), (path, role, answer.text)
            assert answer.status_code < 500


@pytest.mark.parametrize("role", ["device", "operator", "admin", "auditor"])
def test_a_key_of_one_run_is_for_that_run_alone(http, role):
    scope = {"role": role, "run": "demo", "expires": "30d"}
    key = http.post("/v1/keys", "admin", json=scope).json()["key"]
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": f"scoped to one run {role}"}

    def status(method, path, **more):
        return http.request(method, path, headers=headers, **more).status_code

    body = {"subject": f"scoped {role}", "generation": 0, "trajectory": {}}
    assert (status("POST", f"{RUN}/reports", json=body) == 201) == (role in ("device", "admin"))
    assert (status("GET", f"{RUN}/status") == 200) == (role in ("operator", "admin"))
    assert status("POST", "/v1/runs/local/reports", json=body) == 403
    assert status("POST", "/v1/runs/none/reports", json=body) == 403
    assert status("GET", "/v1/runs/local/status") == 403
    assert status("GET", "/v1/audit") == 403
    for path in ("/v1/runs", "/v1/keys", "/v1/signing-keys"):
        assert status("POST", path, json={"role": "admin"}) == 403
    assert status("DELETE", f"/v1/keys/{key.split('_')[1]}") == 403
    assert "run demo" in http.get("/v1/audit", "auditor").json()["rows"][-1]["detail"]


def test_keys_with_a_scope_that_cannot_be_are_refused(http):
    for wrong in (
        {"run": "none"},
        {"run": 5},
        {"expires": "soon"},
        {"expires": 5},
        {"expires": "1999-01-01"},
    ):
        problem(http.post("/v1/keys", "admin", json={"role": "device"} | wrong), 400, "invalid")


def test_an_administrator_makes_runs_and_keys(folder):
    with serving(folder, spec()) as http:
        made = http.post(
            "/v1/keys", "admin", json={"role": "device", "label": "new phones"}
        ).json()["key"]
        sent = {"Authorization": f"Bearer {made}", "Idempotency-Key": "n" * 16}
        body = {"subject": "ann", "generation": 0, "trajectory": {}}
        assert http.request("POST", f"{RUN}/reports", json=body, headers=sent).status_code == 201
        assert (
            http.request(
                "DELETE", f"/v1/keys/{made.split('_')[1]}", headers=http._key("admin")
            ).status_code
            == 204
        )
        problem(
            http.request("POST", f"{RUN}/reports", json=body, headers=sent), 401, "unauthorised"
        )
        problem(http.post("/v1/keys", "admin", json={"role": "king"}), 400, "invalid")
        written = 'name="second"\nagent="likelihood-vi"\nproblem="lock"\nepsilon=1.0\ndelta=1e-5\nusers=50\nnoise="fast"'
        assert http.post("/v1/runs", "admin", content=written).status_code == 201
        problem(http.post("/v1/runs", "admin", content="name="), 400, "invalid")
        assert http.get("/v1/runs").json()["runs"] == ["demo", "second"]
        for action, status in (("pause", 503), ("resume", 200), ("finish", 410)):
            assert http.post(f"{RUN}/{action}", "admin").status_code == 200
            nonce = "n" * 16 if action == "resume" else "m" * 16
            answer = report(http, "ann" if action == "resume" else "bob", nonce=nonce)
            assert answer.status_code == status
            assert ("retry-after" in answer.headers) == (status == 503)
        assert http.post("/v1/signing-keys", "admin").status_code == 201
        actions = [row["action"] for row in http.get("/v1/audit", "auditor").json()["rows"]]
        assert actions[-6:] == ["revoke API key", "create", "paused", "open", "finished", "rotate"]
        assert http.get(f"{RUN}/status", "operator").json()["status"] == "finished"


@pytest.mark.parametrize(
    ("agent", "problem"),
    [("likelihood-vi", "{file}"), ("likelihood-vi", "gym:called:now"), ("called:now", "lock")],
)
def test_an_administrator_calls_no_code_and_opens_no_file_of_the_machine(
    http, tmp_path, monkeypatch, agent, problem
):
    (tmp_path / "called.py").write_text("def now():\n    open('was called', 'w').close()\n")
    (tmp_path / "problem.npz").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = problem.format(file=tmp_path / "problem.npz")
    written = f'name="second"\nagent="{agent}"\nproblem="{chosen}"\nepsilon=1.0\ndelta=1e-5\nusers=50\nnoise="fast"'
    answer = http.post("/v1/runs", "admin", content=written)
    assert answer.status_code == 400 and "must be of the catalogues" in answer.json()["detail"]
    assert not (tmp_path / "was called").exists()


def test_people_are_enrolled_by_an_administrator(folder):
    deadline = spec(users=12, batch=Batching(rule="deadline", schedule=4, every=1e6))
    with serving(folder, deadline) as http:
        problem(report(http, "ann"), 403, "not-enrolled")
        body = {"subjects": ["ann", "bob"], "generation": 0}
        assert http.post(f"{RUN}/enrolments", "admin", json=body).json() == {"enrolled": 2}
        assert report(http, "ann").status_code == 201
        for wrong in (
            {"subjects": "ann", "generation": 0},
            {"subjects": ["ann"]},
            {"subjects": [5], "generation": 0},
            {"subjects": ["eve"], "generation": 2**70},
        ):
            problem(http.post(f"{RUN}/enrolments", "admin", json=wrong), 400, "invalid")
        shown = http.get(f"{RUN}/manifest").json()["batch"]
        assert (shown["rule"], shown["every"]) == ("deadline", 1e6)


def test_readiness_follows_the_writer(folder):
    with serving(folder, spec()) as http:
        assert http.get("/health").json() == {"alive": True}
        assert http.get("/ready").status_code == 200
        http.service._live.failures["demo"] = Failure("a test")
        answer = http.get("/ready")
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
        assert report(http).status_code == 201  # it reads the store again, and goes on
        assert http.get("/ready").status_code == 200


# limits


def test_too_many_requests(folder):
    with serving(folder, spec(), limits=Limits(reports=2.0, reads=1.0)) as http:
        codes = [report(http, f"person {i}").status_code for i in range(8)]
        assert codes[:4] == [201] * 4 and codes[-1] == 429
        reads = [http.get(f"{RUN}/release") for _ in range(5)]
        assert (
            reads[0].status_code == 200
            and int(problem(reads[-1], 429, "too-many").headers["retry-after"]) >= 1
        )


def test_a_body_of_a_gigabyte_is_refused_at_once(http):
    read = 0

    async def endless():
        nonlocal read
        for _ in range(10_000):
            read += 1
            yield b"x" * 100_000

    headers = {"Idempotency-Key": "n" * 16}
    problem(
        http.post(f"{RUN}/reports", "device", content=endless(), headers=headers), 413, "too-large"
    )
    assert read < 10
    answer = http.post(
        f"{RUN}/reports", "device", content=b"{}", headers=headers | {"Content-Length": str(2**30)}
    )
    problem(answer, 413, "too-large")


def test_numbers_of_thousands_of_digits_are_no_error_of_the_server(http):
    digits = "9" * 5000
    problem(http.get(f"{RUN}/release/{digits}"), 404, "unknown")
    headers = {"Idempotency-Key": "n" * 16, "Content-Length": digits}
    problem(http.post(f"{RUN}/reports", "device", content=b"{}", headers=headers), 413, "too-large")
    body = f'{{"subject": "ann", "generation": {digits}, "trajectory": {{}}}}'
    problem(
        http.post(f"{RUN}/reports", "device", content=body, headers={"Idempotency-Key": "n" * 16}),
        400,
        "invalid",
    )


HOSTILE_RUNS = (
    "problem = ['lock']",
    "[options]\nnoise = 1",
    "[options]\nepisodes = 1",
    "seed = " + "[" * 5000,
)


@pytest.mark.parametrize("line", HOSTILE_RUNS, ids=lambda line: line[:20])
def test_a_hostile_run_is_refused(http, line):
    problem_line = "" if line.startswith("problem") else 'problem = "lock"\n'
    written = f'name = "hostile"\nagent = "likelihood-vi"\n{problem_line}epsilon = 1.0\ndelta = 1e-6\nusers = 60\n{line}'
    problem(http.post("/v1/runs", "admin", content=written), 400, "invalid")


def test_numbers_that_json_cannot_hold_are_refused_in_a_run(http):
    written = (
        'name = "hostile"\nagent = "likelihood-vi"\nproblem = "lock"\ndelta = 1e-6\nusers = 60\n'
    )
    problem(
        http.post("/v1/runs", "admin", content=f"{written}epsilon = {2**63 - 1}"), 400, "invalid"
    )


def test_a_key_cannot_expire_after_the_last_year(http):
    given = {"role": "device", "expires": "9999-12-31T23:59:59-23:59"}
    problem(http.post("/v1/keys", "admin", json=given), 400, "invalid")


HUGE = 10**400
ODD_PLACES = (
    (0, [HUGE]),
    (0, HUGE),
    (0, 2**63),
    (2**63, 0),
    (0, -1),
    (-1, 0),
    (0, True),
    (0, None),
    (0, {}),
    (0, [[[0]]]),
)


@pytest.mark.parametrize(("step", "state"), ODD_PLACES, ids=lambda value: str(value)[:20])
def test_there_is_an_action_for_steps_and_states_alone(http, step, state):
    http.settle()
    body = {"subject": "ann", "step": step, "state": state}
    problem(http.post(f"{RUN}/act", "device", json=body), 400, "invalid")


def test_an_action_that_is_not_finite_is_no_error_of_the_server(folder):
    with serving(
        folder, spec("pendulum", agent="thompson-lq", problem="oscillator", users=60)
    ) as http:
        for state in ([HUGE, 0], [float("nan"), 0.0]):
            body = json.dumps({"subject": "ann", "step": 0, "state": state}).encode()
            problem(http.post("/v1/runs/pendulum/act", "device", content=body), 400, "invalid")


def test_a_body_that_comes_slowly_is_given_up(folder):
    with serving(folder, spec(), limits=Limits(body_seconds=0.05)) as http:

        async def slow():
            yield b"{"
            await asyncio.sleep(1)

        problem(
            http.post(
                f"{RUN}/reports", "device", content=slow(), headers={"Idempotency-Key": "n" * 16}
            ),
            408,
            "too-slow",
        )
        for path in (f"{RUN}/enrolments", "/v1/runs", "/v1/keys"):
            problem(http.post(path, "admin", content=slow()), 408, "too-slow")
        # anybody can ask for this one
        assert http.post("/operator/login", content=slow()).status_code == 408


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.text(st.characters(codec="ascii", exclude_characters="\x00"), max_size=40))
def test_whatever_is_asked_for_the_answer_is_no_error_of_the_server(http, path):
    try:
        url = httpx.URL(f"{URL}/v1/runs/{path}")
    except httpx.InvalidURL:
        return
    assert http.request("GET", str(url)).status_code < 500


def test_an_error_that_nobody_foresaw_says_nothing(folder, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    with serving(folder, spec()) as http:
        monkeypatch.setattr(
            type(http.service),
            "submit",
            lambda *_: (_ for _ in ()).throw(RuntimeError("planted secret")),
        )
        answer = problem(report(http, "planted-subject"), 500, "internal")
    assert "planted" not in answer.text + caplog.text and "RuntimeError" in caplog.text


def test_nothing_about_people_is_logged_or_counted(folder, caplog):
    caplog.set_level(logging.DEBUG, logger="confide")
    from prometheus_client import CollectorRegistry, generate_latest

    from confide.service.web.metrics import Collector

    with serving(folder, spec()) as http:
        report(http, "planted-subject", trajectory={"states": ["planted-state"]})
        report(http, "planted-subject", nonce="m" * 16)
        registry = CollectorRegistry()
        registry.register(Collector(http.service, http.application.state.gate.refused))
        shown = generate_latest(registry).decode()
        assert 'confide_reports_total{outcome="counted",run="demo"} 1.0' in shown
        assert "planted" not in shown + caplog.text
    written = b"".join(path.read_bytes() for path in folder.folder.rglob("*") if path.is_file())
    assert b"planted" not in written
