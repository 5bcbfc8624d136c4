"""The application: whatever is sent, the answer is a 4xx in one sentence, and nothing about people
is logged.
"""

import logging

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_bench import URL, problem, report, serving, spec

RUN = "/v1/runs/demo"


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
