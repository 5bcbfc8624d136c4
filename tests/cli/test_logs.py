"""confide logs import and check, and a log that is evaluated after it."""

import hashlib
import importlib.util
import io
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.cli import main
from confide.logs import write
from confide.trajectory import LoggedUsers

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "messy_log.py"
COLUMNS = [
    "--user",
    "patient_id",
    "--stay",
    "stay_id",
    "--time",
    "charttime",
    "--state",
    "condition",
    "--action",
    "treatment",
]


@pytest.fixture(scope="module")
def messy():
    spec = importlib.util.spec_from_file_location("messy_log", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def path(tmp_path):
    users = LoggedUsers(
        np.array([1, 2, 50]),
        np.array([0.0, np.nan, 1.0]),
        np.arange(4),
        np.arange(4),
        np.ones(3, np.bool_),
    )
    write(tmp_path / "log.parquet", users)
    return str(tmp_path / "log.parquet")


def code_of(*arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code


def test_check(path, capsys):
    assert code_of("logs", "check", path, "--json", "--states", "40") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["label"] == "NOT PRIVATE: for the data holder only"
    assert (found["users"], found["non_finite"], found["out_of_range"], found["zero"]) == (
        3,
        1,
        1,
        2,
    )
    assert code_of("logs", "check", path, path.replace("log", "l?g")) == 2
    assert "given twice" in capsys.readouterr().err
    assert code_of("logs", "check", path, "--trajectory", "", "--step", "") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("NOT PRIVATE: for the data holder only\n")
    assert "users who would contribute zero" in shown


def test_one_line_and_exit_2(path, capsys):
    assert code_of("logs", "check", path, "--state", "cluster") == 2
    error = capsys.readouterr().err
    assert "column 'cluster' is missing" in error and error.count("\n") == 1
    assert code_of("logs", "check", path + "x") == 2


def test_from_a_messy_file_to_values_without_a_line_of_python(messy, tmp_path, call):
    """Rows, stays and users as they were made, whatever happened to the file.

    The budget is charged once.
    """
    messy.write_messy(tmp_path / "raw.csv", 300, seed=3)
    log, labels = (
        tmp_path / "log.parquet",
        ["--states-file", tmp_path / "states.txt", "--actions-file", tmp_path / "actions.txt"],
    )
    found = json.loads(
        call("logs", "import", tmp_path / "raw.csv", "--out", log, *COLUMNS, *labels, "--json")
    )
    truth = messy.clean_rows(300, np.random.default_rng(3))
    counts, steps = found["counts"], len(truth["stay"])
    assert (
        counts["users"] == 300
        and counts["duplicates"] > 0.02 * steps
        and 0 < counts["incomplete"] < 0.04 * steps
    )
    # what is left is lost rows, not rows that came from nowhere
    assert counts["steps"] + counts["incomplete"] <= steps
    assert counts["steps"] > 0.95 * steps and len(set(truth["stay"])) - 3 <= counts["stays"] <= len(
        set(truth["stay"])
    )
    budget = tmp_path / "budget.sqlite"
    call("ledger", "init", budget, "--epsilon", "2", "--delta", "1e-6")
    ask = [
        "evaluate",
        log,
        "--states",
        "6",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--ledger",
        budget,
        "--yes",
        "--return-bound",
        "1",
        "--source",
        "fast",
        "--seed",
        "1",
    ]
    shown = json.loads(call(*ask, "--out", tmp_path / "out", "--json"))
    assert shown["labels"] == list(messy.STATES) and shown["users"] == 300
    assert [
        line.split(",")[-1] for line in (tmp_path / "out" / "values.csv").read_text().splitlines()
    ] == [
        "label",
        *messy.STATES,
    ]
    assert "critical" in (tmp_path / "out" / "report.html").read_text()
    # again, at no cost
    assert "discharged" in call(*ask, "--out", tmp_path / "out") and "already released" in call(
        *ask
    )
    assert len(json.loads(call("ledger", "show", budget, "--json"))["spends"]) == 1
    assert "5  discharged" in call("logs", "check", log)


def _unharmed(log, key, truth):
    """How many patients have as many steps as they had.

    Each of their stays, in time order, must be as it was made.
    """
    rows, secret = pq.read_table(log).to_pydict(), bytes.fromhex(key.read_text())
    by_user = {}
    for user, *row in zip(
        *(rows[name] for name in ("user", "trajectory", "state", "action", "reward")), strict=True
    ):
        by_user.setdefault(user, []).append(tuple(row))
    whole = 0
    for patient in range(300):
        mine = np.flatnonzero(truth["patient"] == patient)
        mine = mine[np.argsort(truth["time"][mine], kind="stable")]
        stays = list(dict.fromkeys(truth["stay"][mine].tolist()))
        made = [
            (place, *(truth[name][row].item() for name in ("state", "action", "reward")))
            for place, stay in enumerate(stays)
            for row in mine
            if truth["stay"][row] == stay
        ]
        digest = hashlib.blake2b(f"P{patient:07d}".encode(), key=secret, digest_size=8).digest()
        found = by_user[int.from_bytes(digest) >> 1]
        if len(found) == len(made):
            assert found == made
            whole += 1
    return whole


def test_whether_a_log_is_used_never_depends_on_what_is_in_it(tmp_path, call):
    """States that are all missing, or none: the same exit code and the same charge.

    A stop would depend on one person in a thousand.
    """
    ask = [
        "--states",
        "3",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--return-bound",
        1,
        "--source",
        "fast",
        "--yes",
    ]
    columns = {
        "user": np.arange(9),
        "trajectory": np.zeros(9, int),
        "step": np.zeros(9, int),
        "reward": np.ones(9),
    }
    shown = []
    for name, present in (("most", 5), ("fewer", 4), ("none", 0)):
        states = [0] * present + [None] * (9 - present)
        pq.write_table(
            pa.table(columns | {"state": pa.array(states, pa.int64())}),
            tmp_path / f"{name}.parquet",
        )
        budget = tmp_path / f"{name}.sqlite"
        call("ledger", "init", budget, "--epsilon", "2", "--delta", "1e-6")
        found = json.loads(
            call("evaluate", tmp_path / f"{name}.parquet", *ask, "--ledger", budget, "--json")
        )
        spends = json.loads(call("ledger", "show", budget, "--json"))["spends"]
        shown.append(
            (
                found["certificate"]["assumptions"],
                found["warnings"],
                [each["state"] for each in spends],
            )
        )
    assert shown[0] == shown[1] == shown[2] and shown[0][2] == ["released"]
    said = call("logs", "check", tmp_path / "fewer.parquet")
    assert (
        said.startswith("NOT PRIVATE")
        and "MOST USERS CONTRIBUTE ZERO" in said
        and "most trajectories have one step" in said
    )
    assert "MOST USERS" not in call("logs", "check", tmp_path / "most.parquet")


def test_the_question_before_a_charge_is_always_the_same(tmp_path, call, monkeypatch):
    """On a terminal it is asked before every new charge; elsewhere `--yes` is needed."""
    columns = {
        "user": np.arange(9),
        "trajectory": np.zeros(9, int),
        "step": np.zeros(9, int),
        "reward": np.ones(9),
    }
    pq.write_table(pa.table(columns | {"state": np.zeros(9, int)}), tmp_path / "log.parquet")
    budget = tmp_path / "budget.sqlite"
    call("ledger", "init", budget, "--epsilon", "2", "--delta", "1e-6")
    ask = [
        tmp_path / "log.parquet",
        "--states",
        "3",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--source",
        "fast",
        "--ledger",
        budget,
    ]
    evaluate = ["evaluate", *ask, "--return-bound", 1]
    learn = [
        "learn",
        *ask,
        "--actions",
        1,
        "--ends",
        "--reward-range",
        0,
        1,
        "--action",
        "state",
        "--state",
        "step",
    ]
    for command in (evaluate, learn):
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        assert "add --yes" in call(*command, code=2)
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        refused = call(*command, code=2, lines=None)
        assert (
            "cannot be undone" in refused
            and "confide logs check" in refused
            and "nothing was charged" in refused
        )
    assert json.loads(call("ledger", "show", budget, "--json"))["spends"] == []
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert "charged to budget.sqlite" in call(*evaluate)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "already released" in call(*evaluate)  # nothing is charged, so nothing is asked


def test_fewer_states_than_labels_are_refused(messy, tmp_path, call):
    messy.write_messy(tmp_path / "raw.csv", 20)
    labels = ["--states-file", tmp_path / "states.txt", "--actions-file", tmp_path / "actions.txt"]
    call(
        "logs", "import", tmp_path / "raw.csv", "--out", tmp_path / "log.parquet", *COLUMNS, *labels
    )
    refused = call(
        "evaluate",
        tmp_path / "log.parquet",
        "--states",
        "5",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--return-bound",
        1,
        code=2,
    )
    assert "the log declares 6 states" in refused


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (["--time", ""], "--in-order"),
        (["--states", "6", "--states-file", "states.txt"], "not both"),
        (["--states-file", "nowhere.txt"], "No such file"),
        (["--delimiter", ";"], "--delimiter"),
        (["--rows", "both"], "rows must be one of last, first"),
        (["--time", "treatment"], "columns must have different names"),
        (["--key", "/proc/key"], "--key"),
    ],
)
def test_errors_name_the_fix(messy, tmp_path, call, options, fix, monkeypatch):
    messy.write_messy(tmp_path / "raw.csv", 20)
    monkeypatch.chdir(tmp_path)
    assert fix in call(
        "logs", "import", "raw.csv", "--out", "log.parquet", *COLUMNS, *options, code=2
    )
    assert not os.path.exists("log.parquet")


def test_several_files_and_steps_of_a_fixed_length(tmp_path, call):
    for name, rows in (
        ("a", "p,2024-01-01 01:00,0,1\np,2024-01-01 14:00,0,0\n"),
        ("b", "q,2024-01-01,1,0\np,2024-01-01 04:30,1,1\n"),
    ):
        (tmp_path / f"{name}.csv").write_text(f"user,time,state,reward\n{rows}")
    ask = [
        "logs",
        "import",
        tmp_path / "a.csv",
        tmp_path / "b.csv",
        "--out",
        tmp_path / "log.parquet",
        "--time",
        "time",
        "--states",
        2,
    ]
    found = json.loads(call(*ask, "--every", "4h", "--json"))
    assert (found["counts"]["users"], found["counts"]["steps"], found["counts"]["merged"]) == (
        2,
        3,
        1,
    )
    rows = pq.read_table(tmp_path / "log.parquet").to_pydict()
    assert sorted(zip(rows["step"], rows["state"], rows["reward"], strict=True)) == [
        (0, 1, 0.0),
        (0, 1, 2.0),
        (3, 0, 0.0),
    ]
    assert "MOST USERS CONTRIBUTE ZERO" in call(*ask, "--every", "4")
