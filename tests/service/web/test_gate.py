"""Roles, rate limits, and bodies that are too large or too slow."""

import asyncio

import pytest
from service_bench import problem, report, serving, spec

from confide.service.web.gate import Limits

RUN = "/v1/runs/demo"


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
