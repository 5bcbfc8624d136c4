"""The command line under hostile arguments and files: a bounded part of what benchmarks/fuzz_cli.py
does.
"""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from command_lines import INTERNAL, _edit_ledger, call, commands, fuzz
from hostile import TITLE

BASE = ["run", "ucrl-vtr", "lock", "--episodes", "40", "--epsilon"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of one small run."""
    folder = tmp_path_factory.mktemp("saved")
    assert call([*BASE, "1", "--out", str(folder / "runs")], 120).kind == "done"
    return next((folder / "runs").rglob("run.json")).parent


def test_every_command_is_fuzzed():
    from command_lines import BASES

    # one takes no argument but --json, and the other one does not end
    assert set(commands()) - set(BASES) == {("doctor",), ("serve",)}


def test_no_command_line_ends_in_a_traceback_or_never(tmp_path):
    """Every call is judged: one clean line, no control characters, no error that nobody foresaw, an
    end in time.
    """
    counts, defects = fuzz(tmp_path, calls=120, seed=20, mutants=6, seconds=60)
    assert not defects, defects[:3]
    # Otherwise the fuzzer has lost its teeth.
    assert counts["refused"] > 40 and counts["done"] > 5


EVALUATE = ["--states", "5", "--epsilon", "1", "--delta", "1e-6", "--return-bound", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BASE, "1", "--horizon", "-1"], "--horizon must be at least 1, got --horizon -1"),
        (
            [*BASE, "1e-320"],
            "--epsilon must be at least 1e-30 and at most 1e30, got --epsilon 1e-320",
        ),
        ([*BASE, "1", "--seeds", "9" * 400], "seeds must be at most 10000"),
        ([*BASE, "1", "--seeds", "10001"], "--seeds must be at most 10000, got --seeds 10001"),
        ([*BASE, "1", "--set", "privacy=1"], "ucrl-vtr has no option privacy"),
        (["run", "ucrl-vtr", "lock", "--episodes", "9" * 400], "episodes must be at most 1e15"),
        (["explain", "ucrl-vtr", "--horizon", str(2**63)], "must be"),
        (["verify", "/dev/zero"], "not a regular file"),
        (["compare", "/dev/zero"], "not a regular file"),
        (["run", "uniform", "/dev/zero"], "not a regular file"),
        (["evaluate", "/dev/zero", *EVALUATE], "/dev/zero"),
        (["plan", "evaluate", *EVALUATE, "--users", "9", "--visit-shares", "/dev/zero"], "regular"),
    ],
)
def test_one_clean_line(arguments, message):
    outcome = call(arguments, 60)
    assert outcome.kind == "refused" and message in outcome.said, outcome


WRONG = [None, True, -1, 1.5, "x", "", [], {}, {"a": 1}, 10**400, 1e300, TITLE]


def test_wrong_types_in_run_json_give_one_line(saved, tmp_path):
    """Every key of run.json with every kind of wrong value: refused in one line, or shown; never
    anything else.
    """
    document = json.loads((saved / "run.json").read_text())
    refused = 0
    for number, key in enumerate([*document, "segments[0]", "users"]):
        for place, value in enumerate(WRONG):
            folder = tmp_path / f"{number}-{place}"
            edited = json.loads(json.dumps(document))
            if key == "segments[0]":
                edited["segments"][0] = value
            elif key == "users":
                edited["segments"][0]["users"] = value
            else:
                edited[key] = value
            shutil.copytree(saved, folder)
            (folder / "run.json").write_text(json.dumps(edited))
            outcome = call(["show", str(folder), "--json"], 60)
            assert outcome.kind in ("refused", "done"), (key, value, outcome)
            refused += outcome.kind == "refused"
    assert refused > 100


def test_edited_ledgers_are_refused(tmp_path):
    assert (
        call(
            ["ledger", "init", str(tmp_path / "good"), "--epsilon", "1", "--delta", "1e-6"], 60
        ).kind
        == "done"
    )
    for seed in range(40):
        edited = tmp_path / f"{seed}.sqlite"
        shutil.copy(tmp_path / "good", edited)
        _edit_ledger(edited, np.random.default_rng(seed))
        assert call(["ledger", "show", str(edited)], 60).kind in ("refused", "done")


def test_a_certificate_with_a_number_of_400_digits_is_refused(saved, tmp_path):
    text = (saved / "certificate.json").read_text()
    document = json.loads(text)
    document["guarantee"]["users"] = "digits"
    (tmp_path / "c.json").write_text(json.dumps(document).replace('"digits"', "9" * 400))
    outcome = call(["verify", str(tmp_path / "c.json")], 60)
    assert outcome.kind == "refused" and len(outcome.said) < 300, outcome


def test_a_wide_file_does_not_print_its_columns(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({f"a rather long name of a column, number {i}": [1] for i in range(5_000)}),
        tmp_path / "wide.parquet",
    )
    outcome = call(["logs", "check", str(tmp_path / "wide.parquet")], 60)
    assert (
        outcome.kind == "refused" and "and 4,990 more" in outcome.said and len(outcome.said) < 1_000
    )


def test_names_are_shown_and_not_obeyed(tmp_path):
    """A title sequence in a name reaches neither stream, whichever file it comes from."""
    for arguments in (
        ["show", f"{tmp_path}/{TITLE}"],
        ["run", TITLE, "lock"],
        ["run", "uniform", f"./{TITLE}"],
        ["verify", TITLE],
    ):
        outcome = call(arguments, 60)
        assert outcome.kind == "refused" and r"\x1b]0;owned\x07" in outcome.said, outcome


def test_an_error_that_nobody_foresaw_shows_no_data(monkeypatch, capsys):
    from confide.cli import main
    from confide.runs.run import Run

    def broken(_folder):
        raise RuntimeError("reward of patient 7: 0.25")

    monkeypatch.setattr(Run, "load", broken)
    monkeypatch.setattr(
        "pathlib.Path.rglob", lambda *_: iter([__import__("pathlib").Path("x/run.json")])
    )
    with pytest.raises(SystemExit) as stop:
        main(["show", "x"])
    captured = capsys.readouterr()
    assert stop.value.code == INTERNAL and captured.out == "" and captured.err.count("\n") == 1
    assert (
        "patient" not in captured.err
        and "internal error in confide.cli.results:" in captured.err
        and "RuntimeError" in captured.err
    )


@pytest.mark.process
def test_the_c_locale_works(saved):
    """Python's own answer to LC_ALL=C is ASCII: nothing may fail there, whatever a name or a table
    contains.
    """
    settings = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for arguments, code in ((["show", str(saved)], 0), (["show", "é-ε"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "confide", *arguments],
            capture_output=True,
            env=settings,
            timeout=300,
        )
        assert done.returncode == code and b"Traceback" not in done.stderr, done.stderr
        assert (done.stdout + done.stderr).isascii()
