"""python -m papers, as a user sees it."""

import json
import sys

import pytest
from typer.testing import CliRunner

import papers
from confide.errors import InvalidParameter
from papers.__main__ import app, main
from papers.findings import Claim, Erratum, Reproduction

pytestmark = pytest.mark.long


def small(stands):
    claims = (Claim("Thm. 1", "all [0, 1] is well", "it is not", False, "by hand"),)
    return Reproduction(
        "balle16",
        "[Balle16]",
        "A paper",
        True,
        claims,
        (),
        (),
        (Erratum(7, "(1)", "a", "b", "b", stands),),
    )


def call(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"})


@pytest.mark.parametrize(("stands", "code"), [(True, 0), (None, 0), (False, 1)])
def test_false_claims_are_findings_and_false_errata_are_failures(monkeypatch, stands, code):
    monkeypatch.setattr(papers, "reproduce", lambda *_, **__: small(stands))
    done = call("balle16", "--quick")
    assert done.exit_code == code
    assert "does not hold" in done.stdout and "all [0, 1] is well" in done.stdout
    assert "claims checked: 1, do not hold: 1; errata: 1" in done.stdout
    assert ("errata that the computation does not confirm: 7" in done.stderr) == (code == 1)


def test_json_is_machine_readable(monkeypatch):
    monkeypatch.setattr(papers, "reproduce", lambda *_, **__: small(True))
    document = json.loads(call("balle16", "--json").stdout)
    assert (
        document["paper"] == "balle16" and document["calibrations"][0]["verdict"] == "does not hold"
    )


def test_out_writes_the_page(tmp_path):
    done = call("chowdhury21", "--quick", "--out", str(tmp_path / "pages"))
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {
        "chowdhury21.md",
        "chowdhury21.json",
        "chowdhury21.svg",
    }
    assert done.stdout.rstrip().endswith("chowdhury21.md")
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 120


def test_unknown_papers_are_refused(monkeypatch, capsys):
    assert isinstance(call("dwork06").exception, InvalidParameter)
    monkeypatch.setattr(sys, "argv", ["papers", "dwork06"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("error: unknown paper 'dwork06'")
