"""Pages over HTTP: tags, policies of the browser, and the login of operators."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_bench import serving, spec

from confide.errors import StoreError
from confide.service.core.folder import ServiceFolder
from confide.service.web.pages import POLICY


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    folder = ServiceFolder(tmp_path_factory.mktemp("pages") / "service")
    with serving(folder, spec(users=6000, every=2000)) as made:
        yield made


@pytest.fixture
def browser(http):
    """Without cookies of other tests."""
    http._client.cookies.clear()
    yield http
    http._client.cookies.clear()


def token(page):
    return re.search(r'name="token" value="([0-9a-f]{64})"', page.text).group(1)


def login(http, role, **more):
    form = {"token": token(http.get("/operator")), "key": http.keys[role]} | more
    return http.post("/operator/login", data=form)


def test_public_pages_have_tags_and_a_strict_policy(http):
    for path in ("/", "/runs/demo"):
        first = http.get(path)
        assert (
            first.status_code == 200 and first.headers["content-type"] == "text/html; charset=utf-8"
        )
        assert first.headers["content-security-policy"] == POLICY and "unsafe" not in POLICY
        assert "SIMULATION" in first.text and first.headers["x-content-type-options"] == "nosniff"
        again = http.get(path, **{"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert "set-cookie" not in first.headers
    missing = http.get("/runs/nothing")
    assert missing.status_code == 404 and "There is nothing at this address" in missing.text


def test_a_page_follows_the_releases(folder):
    with serving(folder, spec(users=4, every=2)) as http:
        before = http.get("/runs/demo")
        for name in "ab":
            body = {"subject": name, "generation": 0, "trajectory": {}}
            assert (
                http.post(
                    "/v1/runs/demo/reports",
                    "device",
                    json=body,
                    headers={"Idempotency-Key": name * 16},
                ).status_code
                == 201
            )
        http.settle()
        after = http.get("/runs/demo", **{"If-None-Match": before.headers["etag"]})
        assert after.status_code == 200 and after.headers["etag"] != before.headers["etag"]
        assert "Release 2 is made when 2 more people" in after.text


def test_while_the_database_is_away_pages_say_so(folder, monkeypatch):
    """On call at night it is this page that is looked at."""
    with serving(folder, spec()) as http:
        login(http, "admin")
        for name in ("audit_rows", "releases"):
            monkeypatch.setattr(
                http.service.store, name, lambda *_: (_ for _ in ()).throw(StoreError("gone"))
            )
        for path in ("/operator", "/runs/demo"):
            answer = http.get(path)
            assert answer.status_code == 503 and "text/html" in answer.headers["content-type"]


def test_static_files(http):
    page = http.get("/").text
    for name in ("look.css", "page.css", "page.js", "icon.svg"):
        address = re.search(rf"/static/{name}\?v=[0-9a-f]+", page).group(0)
        answer = http.get(address)
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
    assert (
        http.get("/static/nothing").status_code == 404
        and http.get("/static/..%2fpages.py").status_code == 404
    )


def test_the_operators_page_needs_a_login(browser):
    page = browser.get("/operator")
    assert (
        "API key" in page.text
        and "Refusals" not in page.text
        and page.headers["cache-control"] == "no-store"
    )
    refused = login(browser, "device")
    assert refused.status_code == 403 and "not the key of an operator" in refused.text
    assert login(browser, "operator", key="cfd_x_y").status_code == 403
    answer = login(browser, "operator")
    assert answer.status_code == 303 and answer.headers["location"] == "/operator"
    cookie = answer.headers["set-cookie"]
    assert (
        all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/operator"))
        and "Secure" not in cookie
    )
    page = browser.get("/operator")
    for said in (
        "Health",
        "Refusals by reason",
        "Keys",
        "Audit",
        "Last backup",
        "each follows the one before",
    ):
        assert said in page.text
    assert browser.keys["operator"] not in page.text and "Pause" not in page.text


def test_auditors_see_the_audit_alone(browser):
    login(browser, "auditor")
    page = browser.get("/operator")
    assert "Audit" in page.text and "Refusals" not in page.text


def test_forms_of_other_sites_are_refused(browser):
    assert login(browser, "operator", token="0" * 64).status_code == 403
    assert (
        browser.post("/operator/login", data={"key": browser.keys["operator"]}).status_code == 403
    )
    login(browser, "admin")
    assert browser.post("/operator/runs/demo/pause", data={"token": "0" * 64}).status_code == 403
    assert browser.post("/operator/logout", data={}).status_code == 403
    assert browser.service.runs["demo"].status == "open"


def test_admins_pause_and_go_on(browser):
    login(browser, "admin")
    form = {"token": token(browser.get("/operator"))}
    assert browser.post("/operator/runs/demo/pause", data=form).status_code == 303
    assert (
        browser.service.runs["demo"].status == "paused"
        and "Resume" in browser.get("/operator").text
    )
    assert browser.post("/operator/runs/demo/resume", data=form).status_code == 303
    assert browser.service.runs["demo"].status == "open"
    assert browser.post("/operator/runs/demo/finish", data=form).status_code == 404
    assert browser.post("/operator/runs/nothing/pause", data=form).status_code == 404
    browser._client.cookies.clear()
    login(browser, "operator")
    form = {"token": token(browser.get("/operator"))}
    assert browser.post("/operator/runs/demo/pause", data=form).status_code == 403
    assert browser.service.runs["demo"].status == "open"


def test_a_session_ends_with_the_logout_and_with_its_key(folder):
    with serving(folder, spec()) as http:
        login(http, "operator")
        cookie = dict(http._client.cookies)
        form = {"token": token(http.get("/operator"))}
        assert http.post("/operator/logout", data=form).status_code == 303
        http._client.cookies.clear()
        http._client.cookies.update({"confide_session": cookie["confide_session"]})
        assert "Refusals" not in http.get("/operator").text
        http._client.cookies.clear()
        login(http, "auditor")
        assert "Audit" in http.get("/operator").text
        name = http.keys["auditor"].split("_")[1]
        answer = http.request(
            "DELETE", f"/v1/keys/{name}", headers={"Authorization": f"Bearer {http.keys['admin']}"}
        )
        assert answer.status_code == 204 and "Audit" not in http.get("/operator").text


def test_wrong_keys_are_limited_and_keep_nobody_out(folder):
    with serving(folder, spec()) as http:
        answers = [login(http, "operator", key="wrong").status_code for _ in range(12)]
        assert (
            answers[0] == 403 and answers[-1] == 429 and login(http, "operator").status_code == 303
        )


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(
        ["/operator/login", "/operator/logout", "/operator/runs/demo/pause", "/runs/demo", "/"]
    ),
    body=st.binary(max_size=100),
    cookie=st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), max_size=60),
)
def test_whatever_is_sent_to_pages_is_no_error_of_the_server(http, path, body, cookie):
    headers = {"Cookie": f"confide_session={cookie}; confide_form={cookie}"}
    assert http.request("POST", path, content=body, headers=headers).status_code in (
        400,
        401,
        403,
        405,
        429,
    )
