"""What admins do over HTTP: runs, keys and enrolments."""

import pytest
from service_bench import problem, report, serving, spec

from confide.service.core.spec import Batching

RUN = "/v1/runs/demo"


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
        written = (
            'name="second"\nagent="likelihood-vi"\nproblem="lock"\n'
            'epsilon=1.0\ndelta=1e-5\nusers=50\nnoise="fast"'
        )
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
    written = (
        f'name="second"\nagent="{agent}"\nproblem="{chosen}"\n'
        'epsilon=1.0\ndelta=1e-5\nusers=50\nnoise="fast"'
    )
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


HOSTILE_RUNS = (
    "problem = ['lock']",
    "[options]\nnoise = 1",
    "[options]\nepisodes = 1",
    "seed = " + "[" * 5000,
)


@pytest.mark.parametrize("line", HOSTILE_RUNS, ids=lambda line: line[:20])
def test_a_hostile_run_is_refused(http, line):
    problem_line = "" if line.startswith("problem") else 'problem = "lock"\n'
    written = (
        f'name = "hostile"\nagent = "likelihood-vi"\n{problem_line}'
        f"epsilon = 1.0\ndelta = 1e-6\nusers = 60\n{line}"
    )
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
