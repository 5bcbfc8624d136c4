"""confide logs check."""

import json

import numpy as np
import pytest

from confide.cli import main
from confide.logs import write
from confide.trajectory import LoggedUsers


@pytest.fixture
def path(tmp_path):
    users = LoggedUsers(np.array([1, 2, 50]), np.array([0.0, np.nan, 1.0]), np.arange(4), np.arange(4), np.ones(3, np.bool_))
    write(tmp_path / "log.parquet", users)
    return str(tmp_path / "log.parquet")


def call(*arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code


def test_check(path, capsys):
    assert call("logs", "check", path, "--json", "--states", "40") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["label"] == "NOT PRIVATE: for the data holder only"
    assert (found["users"], found["non_finite"], found["out_of_range"], found["zero"]) == (3, 1, 1, 2)
    assert call("logs", "check", path, path.replace("log", "l?g")) == 2
    assert "given twice" in capsys.readouterr().err
    assert call("logs", "check", path, "--trajectory", "", "--step", "") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("NOT PRIVATE: for the data holder only\n")
    assert "users who would contribute zero" in shown


def test_one_line_and_exit_2(path, capsys):
    assert call("logs", "check", path, "--state", "cluster") == 2
    error = capsys.readouterr().err
    assert "column 'cluster' is missing" in error and error.count("\n") == 1
    assert call("logs", "check", path + "x") == 2
