"""confide audit of a running service."""

import json

import pytest
from service_bench import URL, serving, spec, through

from confide.service import target
from confide.service.core import admission
from confide.service.core.folder import ServiceFolder

ADDRESS = f"{URL}/runs/demo"


@pytest.fixture
def served(tmp_path, monkeypatch):
    with serving(ServiceFolder(tmp_path / "service"), spec(users=200, every=10)) as made:
        monkeypatch.setattr(target, "over_http", lambda: through(made))
        monkeypatch.setenv("CONFIDE_API_KEY", made.keys["admin"])
        yield made


def test_attacks_are_listed_and_what_was_seen_is_compared(call, served, tmp_path):
    seen = tmp_path / "seen.json"
    said = call(
        "audit",
        ADDRESS,
        "--seen",
        str(seen),
        "--signing-key",
        json.loads(served.service.runs["demo"].manifest.body)["key"]["public"],
    )
    assert "refused    replay" in said and "not tried  re-noise" in said and "WORKED" not in said
    assert "cost: 10 invented people" in said and "not refuted" in said.splitlines()[-1]
    again = json.loads(call("audit", f"{URL}/v1/runs/demo", "--json"))
    assert (again["worked"], again["undecided"], again["counted"]) == (False, False, 2)
    assert {row["verdict"] for row in again["tried"]} == {"refused", "not tried"}
    assert (
        "re-noise      compare with what an audit saw before a restart: 4 documents: the same"
        in call("audit", ADDRESS, "--seen", str(seen))
    )
    kept = json.loads(seen.read_text())
    seen.write_text(json.dumps(kept | {"seen": kept["seen"] | {"release/1": "0" * 64}}))
    broken = seen.read_bytes()
    call("audit", ADDRESS, "--seen", str(seen), code=1)
    assert seen.read_bytes() == broken  # what was expected stays


@pytest.mark.usefixtures("served")
def test_an_attack_that_works_is_an_exit_code(confide, monkeypatch):
    refusal = admission.Admission._refusal
    monkeypatch.setattr(
        admission.Admission,
        "_refusal",
        lambda *given: "" if refusal(*given) == "late" else refusal(*given),
    )
    done = confide("audit", ADDRESS)
    assert done.returncode == 1 and "WORKED     late" in done.stdout and "REFUTED" in done.stdout


@pytest.mark.parametrize(
    ("address", "more", "why"),
    [
        (URL, (), "address of a run"),
        (f"{URL}/runs/../x", (), "address of a run"),
        (f"{URL}/runs/UP", (), "run must be lower-case"),
        (ADDRESS, ("--seen", "{folder}/other"), "another run"),
        (ADDRESS, ("--seen", "{folder}/nothing"), "not a file of an audit"),
    ],
)
def test_what_cannot_be_attacked(call, served, tmp_path, address, more, why):
    (tmp_path / "other").write_text('{"address": "http://other/runs/demo", "seen": {}}')
    (tmp_path / "nothing").write_text("[")
    assert why in call("audit", address, *(each.format(folder=tmp_path) for each in more), code=2)
    assert served.service.store.participants("demo") == {}


def test_a_key_is_needed(call, monkeypatch):
    monkeypatch.delenv("CONFIDE_API_KEY", raising=False)
    assert "API key" in call("audit", ADDRESS, code=2)
