"""Reports and questions for an action: status codes, and content that makes no sense."""

import base64
import json

import pytest
from service_bench import problem, report, serving, spec

RUN = "/v1/runs/demo"


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
    """Other nonsense is counted.

    If this was refused, people could find out whether their report was counted.
    """
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


def test_an_action_for_those_who_cannot_read_rounds(http):
    body = {"subject": "ann", "state": 0, "step": 0}
    first = http.post(f"{RUN}/act", "device", json=body)
    assert first.status_code == 200 and first.json()["action"] in range(4)
    assert http.post(f"{RUN}/act", "device", json=body).json() == first.json()
    problem(http.post(f"{RUN}/act", "device", json=body | {"step": 99}), 400, "invalid")
    problem(http.post(f"{RUN}/act", "device", json=body | {"state": {"x": 1}}), 400, "invalid")
    problem(http.post("/v1/runs/local/act", "device", json=body), 400, "invalid")


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
