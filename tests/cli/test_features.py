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
