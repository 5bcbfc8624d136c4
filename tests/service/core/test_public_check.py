"""A service checked from outside, and services that lie."""

import json

import pytest
import typer
from service_bench import URL, serving, spec, through

from confide.cli.service import _print_checks as print_findings
from confide.errors import InvalidParameter
from confide.service.core.folder import ServiceFolder
from confide.service.core.manifest import manifest_of
from confide.service.core.public_check import check_public
from confide.service.core.verification import CheckResult, verify_store
from confide.service.device.transport import HttpResponse
from confide.service.documents import canonical, key_id


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with serving(
        ServiceFolder(tmp_path_factory.mktemp("check") / "service"), spec(users=6, every=2)
    ) as made:
        for name in "abcd":
            body = {"subject": name, "generation": "abcd".index(name) // 2, "trajectory": {}}
            made.post(
                "/v1/runs/demo/reports", "device", json=body, headers={"Idempotency-Key": name * 16}
            )
            made.settle()
            if name == "b":
                made.service.rotate("test")
        yield made


def said(http, change=lambda _, answer: answer, **more):
    def send(method, url, headers, body):
        return change(url.rsplit("/v1/runs/demo/", 1)[1], through(http)(method, url, headers, body))

    return list(check_public(URL, "demo", send=send, **more))


def test_an_honest_service(http):
    found = said(
        http, key=http.service.keys.signing_key(http.service.runs["demo"].manifest.key).public.hex()
    )
    assert [each.holds for each in found] == [True] * 4
    assert (
        found[-1].says
        == f"3, signed and chained; the newest is {http.service.runs['demo'].release.digest}"
    )
    assert (
        "believed" not in found[0].says
        and "believed" in said(http)[0].says
        and "SIMULATION" in found[2].says
    )


def flipped(path):
    def change(asked, answer):
        body = bytes([answer.body[0] ^ 1]) + answer.body[1:]
        return HttpResponse(answer.status, answer.headers, body) if asked == path else answer

    return change


@pytest.mark.parametrize(
    ("path", "last"),
    [("manifest", 1), ("keys", 2), ("certificate", 3), ("release/1", 4), ("release/2", 4)],
)
def test_a_changed_document_is_found(http, path, last):
    found = said(http, flipped(path))
    assert [each.holds for each in found] == [True] * (last - 1) + [False]


def test_a_missing_or_exchanged_release_is_found(http):
    other = through(http)("GET", f"{URL}/v1/runs/demo/release/0", {}, None)
    assert not said(http, lambda path, answer: other if path == "release/1" else answer)[-1].holds
    gone = HttpResponse(404, {}, b"")
    assert (
        "404" in said(http, lambda path, answer: gone if path == "release/1" else answer)[-1].says
    )
    assert (
        "it has no run 'demo'"
        in said(http, lambda path, answer: gone if path == "manifest" else answer)[-1].says
    )


def test_another_key_and_no_service(http):
    assert "another signing key" in said(http, key="0" * 64)[0].says
    unreachable = list(check_public("http://127.0.0.1:9", "demo"))
    assert len(unreachable) == 1 and "could not be reached" in unreachable[0].says


@pytest.mark.parametrize(
    ("url", "run"),
    [("file:///etc/passwd", "demo"), ("", "demo"), ("http://x", "../x"), ("http://ü", "demo")],
)
def test_addresses_that_are_none(url, run):
    with pytest.raises(InvalidParameter):
        list(check_public(url, run))


def promising(change):
    """`manifest_of` of a service that promises people something else than its certificate says."""

    def lie(*given):
        document = json.loads(manifest_of(*given))
        change(document)
        return canonical(document)

    return lie


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda told: told["promise"].update(delta=1e-9),
            "has delta=1e-05, and delta=1e-09 was promised",
        ),
        (lambda told: told["promise"].update(trust="local"), "has the trust joint, and local was"),
        (lambda told: told["promise"].update(relation="replace"), "has the relation null"),
        (lambda told: told.update(simulation=False), "is of fast noise, and the manifest"),
    ],
)
def test_a_certificate_of_less_than_was_promised_is_found(tmp_path, monkeypatch, change, says):
    monkeypatch.setattr("confide.service.core.creation.manifest_of", promising(change))
    with serving(
        ServiceFolder(tmp_path / "service"), spec(users=6, every=2, relation="null")
    ) as http:
        found = said(http)
        assert [each.holds for each in found] == [True, True, False]
        assert says in found[-1].says
        service = http.service
        checked = {
            each.about: each for each in verify_store(service.store, service.keys, service.marks)
        }
        assert not checked["demo: certificate"].holds
        assert says in checked["demo: certificate"].says


def test_a_service_cannot_write_lines_of_a_check(tmp_path, monkeypatch, capsys):
    """A manifest whose texts look like other lines of the output."""
    forged = "cafe\nholds  demo: certificate: epsilon = 0.01"

    def lie(told):
        told["key"].update(id=forged)
        told.update(run=forged)

    monkeypatch.setattr("confide.service.core.creation.manifest_of", promising(lie))
    with serving(ServiceFolder(tmp_path / "service"), spec(users=6, every=2)) as http:
        found = said(http)
    with pytest.raises(typer.Exit):
        print_findings([*found, CheckResult("demo: releases", False, forged)], as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:6].strip() for line in lines] == ["FAILS"] * len(lines)
    assert len(lines) == 2 and not any("cafe\n" in line for line in lines)


def test_the_name_of_a_key_is_computed_from_it(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "confide.service.core.creation.manifest_of",
        promising(lambda told: told["key"].update(id="another key")),
    )
    with serving(ServiceFolder(tmp_path / "service"), spec(users=6, every=2)) as http:
        key = http.service.keys.signing_key(http.service.runs["demo"].manifest.key)
        assert said(http)[0].says.startswith(f"signed by {key_id(key.public)}, which was believed")
