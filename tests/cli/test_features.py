"""`confide run --features`: an environment with continuous observations, from the command line."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("gymnasium", reason='needs pip install "confide[gym]"')

from confide.policy import load_policy

EXAMPLES = Path(__file__).parents[2] / "examples"
CORRIDOR = ("gym:corridor:Corridor", "--features", "corridor:features", "--horizon", "6")


@pytest.fixture(autouse=True)
def where_the_example_is(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    sys.modules.pop("corridor", None)


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_lsvi_ucb_runs_on_a_box_of_observations(call, tmp_path, calibration):
    options = ("--epsilon", 1, "--episodes", 300, "--calibration", calibration)
    shown = call("run", "lsvi-ucb", *CORRIDOR, *options, "--out", tmp_path / "out")
    assert "replace one user, 300 users" in shown
    assert "regret is unknown" in shown
    (saved,) = tmp_path.glob("out/*-joint-*/seed-0/policy.npz")
    policy = load_policy(saved, features="corridor:features")
    assert policy.features_name == "corridor:features"
    # The same command loads the result.
    again = call("run", "lsvi-ucb", *CORRIDOR, *options, "--out", tmp_path / "out")
    assert "replace one user, 300 users" in again


def test_the_stated_epsilon_is_at_most_the_requested_one(call):
    for delta in ("1e-5", "0"):
        asked = ("--epsilon", 1, "--delta", delta, "--episodes", 50, "--no-baseline", "--json")
        (done,) = json.loads(call("run", "lsvi-ucb", *CORRIDOR, *asked))
        assert done["guarantee"]["epsilon"] <= 1


def test_uniform_plays_features_too(call):
    shown = call("run", "uniform", *CORRIDOR, "--episodes", 20)
    assert "gym:Corridor" in shown


def test_list_says_who_learns_from_features(call):
    fitting = json.loads(call("list", "--for", *CORRIDOR, "--json"))
    assert (fitting["kind"], list(fitting["agents"])) == ("features", ["lsvi-ucb"])
    assert (
        fitting["others"]["tabular-psrl"]
        == "needs numbered states, and not features of observations"
    )
    assert "a problem with features of observations, 6 steps" in call("list", "--for", *CORRIDOR)
    assert "need --for PROBLEM" in call("list", *CORRIDOR[1:], code=2)


def test_explain_takes_features_and_states_the_noise_of_the_run(call):
    private = ("--epsilon", 1, "--episodes", 50)
    (facts,) = json.loads(call("explain", "lsvi-ucb", "--on", *CORRIDOR, *private, "--json"))[
        "agents"
    ]
    (run,) = json.loads(call("run", "lsvi-ucb", *CORRIDOR, *private, "--no-baseline", "--json"))
    assert facts["epsilon"] == pytest.approx(run["guarantee"]["epsilon"])
    wide = call("explain", "lsvi-ucb", "--on", *CORRIDOR, *private, "--feature-norm", 2, "--json")
    # Rows are divided by the norm before they are clipped, so the noise stays the same.
    assert json.loads(wide)["agents"][0]["sensitivity"] == facts["sensitivity"]
    assert facts["memory_bytes"] > 0


SWEEP = """\
agents = ["lsvi-ucb"]
episodes = 20
seeds = 1

[[problems]]
problem = "gym:corridor:Corridor"
horizon = 6
features = "corridor:features"
feature_norm = 2

[privacy]
none = false
"""


def test_a_sweep_takes_features_and_does_not_store_what_depends_on_them(confide, tmp_path):
    (tmp_path / "corridor.toml").write_text(SWEEP)
    # Both modules must be found by the processes of a sweep as well.
    (tmp_path / "corridor.py").write_text((EXAMPLES / "corridor.py").read_text())
    (command,) = confide("compare", "corridor.toml", "--dry-run", cwd=tmp_path).stdout.splitlines()
    assert "--features corridor:features --feature-norm 2.0" in command
    done = confide("compare", "corridor.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    compared = json.loads(done.stdout)
    assert compared["failures"] == []
    assert not list((tmp_path / ".confide-store").glob("*/*.json"))
    # The command of a row makes the same run.
    alone = confide(*command.split()[1:], "--no-baseline", "--json")
    assert alone.returncode == 0, alone.stderr
    (row,) = compared["results"]
    (run,) = json.loads(alone.stdout)
    assert run["mean_return"] is not None
    assert row["mean_return"] == pytest.approx(run["mean_return"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ('features = "corridor"', "package.module:function"),
        ("features = 3", "features must be package.module:function"),
        ('features = "corridor:features"\nrewards = "public"', "omit rewards"),
        ("", "give the features, too"),
    ],
)
def test_a_sweep_refuses_features_that_cannot_be_used(confide, tmp_path, changed, message):
    (tmp_path / "bad.toml").write_text(SWEEP.replace('features = "corridor:features"', changed))
    refused = confide("compare", "bad.toml", cwd=tmp_path)
    assert refused.returncode == 2
    assert message in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gym:CartPole-v1", "--features", "nowhere:features", "--horizon", 5), "nowhere"),
        (("gym:CartPole-v1", "--features", "corridor", "--horizon", 5), "package.module:function"),
        (("gym:CartPole-v1", "--feature-norm", 2), "give the features"),
        (("one-hot", "--features", "corridor:features"), "features are for environments"),
        (("gym:FrozenLake-v1", "--features", "corridor:features", "--rewards", "public"), "omit"),
        (("gym:Pendulum-v1", "--features", "corridor:features"), "finitely many actions"),
    ],
)
def test_what_is_refused_in_one_line(call, arguments, message):
    assert message in call("run", "lsvi-ucb", *arguments, code=2)


def test_other_agents_say_who_can(call):
    said = call("run", "next-state-vi", *CORRIDOR, "--epsilon", 1, code=2)
    assert "features of observations" in said
    assert "try lsvi-ucb" in said
