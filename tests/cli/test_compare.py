"""confide compare: one file in, a table, a report and figures out; mistakes in one line."""

import json

import pytest

from confide.cli import main
from confide.comparison.comparison import Comparison

SPEC = """\
agents = ["likelihood-vi", "uniform"]
problems = ["lock"]
episodes = 100
seeds = 2
[privacy]
epsilons = [5]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tonight.toml").write_text(SPEC)
    return tmp_path


def test_a_file_becomes_a_folder(here, call):
    said = json.loads(call("compare", "tonight.toml", "--json", "--workers", "1"))
    assert said["name"] == "tonight" and not said["failures"]
    assert [(row["agent"], row["epsilon"]) for row in said["results"]] == [
        ("likelihood-vi", 5),
        ("likelihood-vi", None),
        ("uniform", None),
    ]
    assert (here / "tonight/report.html").stat().st_size < 1e6 and (
        here / "tonight/figures/regret.pdf"
    ).exists()
    assert len(Comparison.load(here / "tonight").rows) == 3
    again = call("compare", "tonight")
    assert "likelihood-vi" in again and "regret (95 %)" in again


def test_what_would_run_can_be_seen_first(here, call):
    shown = call("compare", "tonight.toml", "--dry-run").splitlines()
    assert (
        len(shown) == 6
        and shown[0]
        == "confide run likelihood-vi lock --epsilon 5 --delta 1e-05 --episodes 100 --seed 0"
    )
    assert not (here / "tonight").exists() and not (here / ".confide-store").exists()


def test_a_mistake_is_one_line(here, call):
    (here / "tonight.toml").write_text(SPEC.replace("episodes", "epsiodes"))
    done = call("compare", "tonight.toml", code=2)
    assert (
        done
        == "error: tonight.toml, line 3: epsiodes: unknown key epsiodes; did you mean episodes?\n"
    )
    assert "nothing.toml" in call("compare", "nothing.toml", code=2)


def test_what_fails_is_said_with_its_command(here, capsys):
    (here / "tonight.toml").write_text(SPEC.replace('"likelihood-vi"', '"lsvi-ucb"'))
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["compare", "tonight.toml", "--workers", "1"])
    done = capsys.readouterr().out
    assert stop.value.code == 1
    assert (
        "failed: lsvi-ucb on lock, epsilon 5, seed 0: lsvi-ucb is for linear MDP problems" in done
    )
    assert "confide run lsvi-ucb lock --epsilon 5" in done and "report: tonight/report.html" in done


def test_any_option_of_an_agent_can_be_set(call):
    arguments = ("run", "lsvi-ucb", "latent", "--epsilon", "1", "--episodes", "50", "--json")
    told = json.loads(call(*arguments, "--set", "failure=0.05", "--set", "bonus_scale=0.5"))[0]
    assert told["agent"] == "lsvi-ucb failure=0.05 bonus_scale=0.5"
    assert "NAME=VALUE" in call(*arguments, "--set", "failure", code=2)
    assert "has no option colour" in call(*arguments, "--set", "colour=red", code=2)


def test_a_file_in_the_way_is_seen_before_anything_runs(here, call):
    (here / "sweep").write_text(SPEC)
    assert "a file has this name; choose another folder" in call("compare", "sweep", code=2)
    assert not (here / ".confide-store").exists()
