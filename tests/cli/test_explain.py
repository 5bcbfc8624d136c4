"""confide explain, as a user sees it."""

import json
import os
import subprocess
import sys

import pytest

from confide.cli import main


def confide(*arguments):
    command = [sys.executable, "-c", "from confide.cli import main; main()", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "100"}
    )


def test_a_table_beside_the_paper():
    done = confide(
        "explain",
        "ucrl-vtr",
        "likelihood-vi",
        "--on",
        "lock",
        "--episodes",
        5000,
        "--compare-with",
        "paper",
    )
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    header = done.stdout.splitlines()[1]
    assert [cell.strip() for cell in header.split("┃")[2:5]] == [
        "ucrl-vtr",
        "ucrl-vtr paper",
        "likelihood-vi",
    ]
    assert "times as much noise as ucrl-vtr for the same privacy request" in " ".join(
        done.stdout.split()
    )


def test_beside_means_what_it_means_in_run(capsys):
    with pytest.raises(SystemExit):
        main(
            [
                "explain",
                "ucrl-vtr",
                *[
                    "--compare-with",
                    "no-privacy",
                    "--compare-with",
                    "likelihood-vi",
                    "--compare-with",
                    "ucrl-vtr",
                ],
                "--json",
            ]
        )
    told = json.loads(capsys.readouterr().out)["agents"]
    assert [(one["agent"].split()[0], one["epsilon"]) for one in told] == [
        ("ucrl-vtr", pytest.approx(1.0)),
        ("ucrl-vtr", None),
        ("likelihood-vi", pytest.approx(1.0)),
    ]


def test_json_and_options(capsys):
    options = [
        "--trust",
        "local",
        "--epsilon",
        "4",
        "--episodes",
        "200",
        "--schedule",
        "50",
        "--json",
    ]
    with pytest.raises(SystemExit):
        main(["explain", "ucrl-vtr", *options])
    (told,) = json.loads(capsys.readouterr().out)["agents"]
    assert (told["agent"], told["trust"], told["mechanism"]) == (
        "ucrl-vtr schedule=50",
        "local",
        "local",
    )
    assert (told["releases"], told["first_release"]) == (4, 50)
    assert told["epsilon"] == pytest.approx(4.0, rel=1e-5)  # of a codebook: just below


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["uniform"],
            "uniform is a reference agent: it does not learn from users and has no guarantee to "
            "explain",
        ),
        (["likelihood-vi", "--compare-with", "paper"], "LikelihoodVI is in no paper"),
        (["likelihood-vi", "--calibration", "paper"], "LikelihoodVI is in no paper"),
        (["ucrl-vtr", "--on", "riverswim"], "is for mixture problems"),
        (
            ["ucrl-vtr", "--schedule", "now"],
            "schedule must be geometric, every, adaptive or a number of users, got 'now'",
        ),
    ],
)
def test_errors_are_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["explain", *arguments])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_memory_and_planning_time_are_printed_and_in_json(call):
    shown = call("explain", "tabular-psrl", "--on", "riverswim", "--episodes", "1000")
    assert "peak memory" in shown
    assert "planning time" in shown
    (facts,) = json.loads(
        call("explain", "tabular-psrl", "--on", "riverswim", "--episodes", "1000", "--json")
    )["agents"]
    assert 50e6 < facts["memory_bytes"] < 100e6
    assert 0 < facts["planning_seconds"] < 1
