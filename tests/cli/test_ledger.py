"""confide ledger init | show."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from confide.cli import ledger_app
from confide.errors import ConfideError, InvalidParameter, LedgerError
from confide.privacy import ApproxDP, GaussianDP
from confide.privacy.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.sqlite"


def call(*words: object) -> Result:
    return CliRunner().invoke(ledger_app, [str(word) for word in words], env={"COLUMNS": "160"})


def fill(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.spend(
            "run-1",
            "returns [bold]of[/bold] policy",
            GaussianDP(0.1),
            "replace",
            release=lambda: b"x",
        )
        with pytest.raises(ZeroDivisionError):
            ledger.spend(
                "run-2", "histogram", ApproxDP(0.5, 1e-8), "replace", release=lambda: bytes(1 // 0)
            )


def test_init_makes_the_ledger_it_was_asked_for(path: Path) -> None:
    words = (
        "--epsilon",
        3,
        "--delta",
        1e-6,
        "--relation",
        "null",
        "--others-epsilon",
        1,
        "--others-delta",
        1e-7,
    )
    result = call("init", path, *words)
    assert result.exit_code == 0, result.output
    assert (
        "epsilon=3 at delta=1e-06, relation null, of which (epsilon=1, delta=1e-07) is reserved"
        in result.output
    )
    total = Ledger(path).total
    assert (total.epsilon, total.delta, total.relation) == (3.0, 1e-6, "null")
    assert (total.others_epsilon, total.others_delta) == (1.0, 1e-7)


def test_init_defaults_to_replace_and_nothing_aside(path: Path) -> None:
    assert call("init", path, "--epsilon", 3, "--delta", 1e-6).exit_code == 0
    total = Ledger(path).total
    assert (total.relation, total.others_epsilon, total.others_delta) == ("replace", 0.0, 0.0)


@pytest.mark.parametrize("missing", ["--epsilon", "--delta"])
def test_init_asks_for_both_totals(path: Path, missing: str) -> None:
    words = {"--epsilon": 3, "--delta": 1e-6}
    del words[missing]
    assert call("init", path, *(word for pair in words.items() for word in pair)).exit_code == 2
    assert not path.exists()


def test_show_is_readable(path: Path) -> None:
    call(
        "init", path, "--epsilon", 3, "--delta", 1e-6, "--others-epsilon", 1, "--others-delta", 1e-7
    )
    fill(path)
    output = call("show", path).output
    _, first, second = re.split(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", output, flags=re.MULTILINE)
    assert all(
        word in first
        for word in (
            "returns [bold]of[/bold] policy",
            "mu=0.1, relation replace, released",
            "id run-1",
        )
    )
    assert all(
        word in second
        for word in ("histogram", "epsilon=0.5, delta=1e-08, relation replace, pending", "id run-2")
    )
    assert (
        "guaranteed: epsilon=3 at delta=1e-06, relation replace, of which (epsilon=1, "
        "delta=1e-07) is reserved" in output
    )
    assert (
        "in 2 spends: mu=0.1 of Gaussian noise and (epsilon=0.5, delta=1e-08) of other noise"
        in output
    )
    assert f"nominally epsilon={Ledger(path).account.epsilon:.6g} at delta=1e-06" in output
    assert (
        f"left:       mu={Ledger(path).remaining.mu:.6g} for Gaussian noise and (epsilon=0.5, "
        "delta=9e-08) for other noise" in output
    )


def test_show_of_an_empty_ledger(path: Path) -> None:
    call("init", path, "--epsilon", 3, "--delta", 1e-6)
    output = call("show", path).output
    assert "nominally epsilon=0 at delta=1e-06 in 0 spends" in output
    assert "for Gaussian noise or (epsilon=3, delta=1e-06) for other noise" in output


def test_show_breaks_no_word_on_a_narrow_terminal(path: Path) -> None:
    ledger = Ledger.init(path, epsilon=3, delta=1e-6)
    id, what = (
        "WeightedImportanceSampling-0123456789abcdef",
        "WeightedImportanceSampling, CentralDP(epsilon=1, delta=1e-06), question 89abcdef",
    )
    ledger.spend(id, what, GaussianDP(0.1), "replace", release=lambda: b"x")
    output = CliRunner().invoke(ledger_app, ["show", str(path)], env={"COLUMNS": "80"}).output
    assert all(len(line) <= 80 for line in output.splitlines())
    words = output.split()
    assert {id, *what.split(), *ledger.account.left.split(), "mu=0.1,"} <= set(words)
    assert "in 1 spend:" in " ".join(words)


def test_show_as_json(path: Path) -> None:
    call(
        "init", path, "--epsilon", 3, "--delta", 1e-6, "--others-epsilon", 1, "--others-delta", 1e-7
    )
    fill(path)
    record = json.loads(call("show", path, "--json").output)
    ledger = Ledger(path)
    assert record["total"] == {
        "epsilon": 3,
        "delta": 1e-6,
        "relation": "replace",
        "others_epsilon": 1,
        "others_delta": 1e-7,
    }
    assert record["spent"] == {
        "mu": 0.1,
        "epsilon": 0.5,
        "delta": 1e-8,
        "epsilon_at_total_delta": ledger.account.epsilon,
        "nominal": True,
    }
    assert record["guaranteed"] == {"epsilon": 3, "delta": 1e-6} and "nominal" in record["note"]
    assert record["remaining"]["divided"] is True
    assert math.isclose(record["remaining"]["mu"], ledger.remaining.mu)
    assert [spend["loss"] for spend in record["spends"]] == [
        {"kind": "gaussian", "mu": 0.1},
        {"kind": "approximate", "epsilon": 0.5, "delta": 1e-8},
    ]
    assert [(spend["id"], spend["state"], spend["relation"]) for spend in record["spends"]] == [
        ("run-1", "released", "replace"),
        ("run-2", "pending", "replace"),
    ]


def test_errors_are_confides_own(path: Path) -> None:
    def error(*words: object) -> BaseException | None:
        result = call(*words)
        assert result.exit_code != 0
        assert isinstance(result.exception, ConfideError)
        return result.exception

    assert isinstance(error("init", path, "--epsilon", "nan", "--delta", 1e-6), InvalidParameter)
    assert isinstance(
        error("init", path, "--epsilon", 1, "--delta", 1e-6, "--relation", "both"), InvalidParameter
    )
    assert not path.exists()
    assert "confide ledger init" in str(error("show", path))
    call("init", path, "--epsilon", 1, "--delta", 1e-6)
    before = path.read_bytes()
    assert "exists" in str(error("init", path, "--epsilon", 9, "--delta", 1e-6))
    assert path.read_bytes() == before
    path.write_bytes(before[:5000])
    assert isinstance(error("show", path), LedgerError)


def test_importing_the_commands_is_cheap() -> None:
    slow = "('scipy', 'numba', 'dp_accounting', 'sqlite3')"
    code = "import sys, confide.cli.ledger\n"
    code += f"print([name for name in {slow} if name in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
