"""Identities are equal for equal facts only, and they are never read off the code."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import confide
from confide.agents.catalogue import AGENTS, private_agents
from confide.control.regularizers import AddedIdentity
from confide.errors import InvalidParameter, PrivacyError
from confide.identity import Identity, identify, identity_of
from confide.planners.regression import Repair
from confide.planners.regularity import Regularity
from confide.privatizers import every
from confide.problems import linear_bandit, lock, one_hot, oscillator, riverswim


class Thing:
    def __init__(self, value):
        self.value = value

    def identity(self):
        return Identity("thing", 1, value=self.value)


def test_different_values_have_different_identities():
    values = [
        (1, (2, 3)),
        ((1, 2), 3),
        (1, 2, 3),
        ("ab", "c"),
        ("a", "bc"),
        ("a", b"bc"),
        np.zeros(4),
        np.zeros((2, 2)),
        np.zeros(4, dtype=np.float32),
        np.zeros(4, dtype=np.int64),
        [0.0] * 4,
        Thing(1),
        Thing(2),
        Thing(np.ones(2)),
        Thing(Thing(1)),
        Identity("thing", 2, value=1),
        Identity("thing", 1, worth=1),
        Identity("other", 1, value=1),
        {"kind": "thing", "version": 1, "value": 1},
        1,
        1.0,
        -0.0,
        0.0,
        True,
        "1",
        None,
        range(1, 10, 2),
        range(1, 11, 2),
    ]
    assert len({identify(value) for value in values}) == len(values)


def test_equal_values_have_the_same_identity():
    assert identify(Thing(np.arange(3))) == identify(Identity("thing", 1, value=np.arange(3)))
    assert identify(np.float64(1.5), np.int32(3)) == identify(1.5, 3)
    assert identify([1, 2]) == identify((1, 2))
    assert identify({"a": 1, "b": 2}) == identify({"b": 2, "a": 1})
    assert identify(np.arange(6).reshape(2, 3).T) == identify(np.array([[0, 3], [1, 4], [2, 5]]))
    assert identify(np.zeros(2, dtype=">f8")) == identify(np.zeros(2))


def test_what_has_no_explicit_identity_is_refused():
    for value in (object(), lambda: 1, np.array(["text"]), {1, 2}):
        with pytest.raises(InvalidParameter, match="identity"):
            identify(value)
    with pytest.raises(InvalidParameter, match="must have a method identity"):
        identity_of(3)


def test_the_identity_is_the_same_in_another_process():
    code = (
        "from confide.identity import identify; import numpy as np; "
        "print(identify(np.arange(3.0), 'x', 1e-5))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == identify(np.arange(3.0), "x", 1e-5)


def written(*options):
    """What tests/golden/written.py prints, in a process of its own."""
    script = Path(__file__).parent / "golden" / "written.py"
    command = [sys.executable, str(script), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


GOLDEN = json.loads((Path(__file__).parent / "golden" / "written.json").read_text())


@pytest.mark.process
def test_states_ids_messages_and_certificates_are_those_of_the_golden_file():
    """If this change is meant: python tests/golden/written.py --write, and say in the changelog
    what became incompatible.
    """
    assert written() == GOLDEN


@pytest.mark.process
def test_nothing_that_is_written_depends_on_names_in_the_code():
    """All classes have other names, and neither repr nor dataclasses.fields works for them."""
    assert written("--renamed") == GOLDEN


# What changes nothing in an agent without an effect on its plans.
NO_EFFECT = {"noise"}
# Another value than the default, for each option of an agent.
OTHER = {
    "calibration": "paper",
    "schedule": every(10, 30),
    "bonus_scale": 0.123,
    "failure": 0.05,
    "exploration": "proven",
    "step": 0.3,
    "support": np.eye(3, dtype=bool) | np.eye(3, k=1, dtype=bool) | np.eye(3, k=-1, dtype=bool),
    "regularizer": lambda regression: Repair(regression.balance),
    "row_bound": "H",
}
# An option whose values differ from family to family.
OTHER_OF_FAMILY = {
    ("linear control", "regularizer"): lambda _public: AddedIdentity(
        5.0, Regularity(4.0, 6.0, 1.0)
    ),
}
# What an option needs beside it.
BESIDE = {"row_bound": {"calibration": "paper"}}
WORLDS = {
    "mixture": lock(0, states=5, actions=2, horizon=3, jump=2),
    "linear MDP": one_hot(states=3, horizon=3),
    "table": riverswim(states=3, horizon=3),
    "linear bandit": linear_bandit(3, 2, population=64),
    "linear control": oscillator(horizon=3),
}


@pytest.mark.parametrize("name", private_agents())
def test_every_option_of_an_agent_is_in_its_settings(name):
    kind = AGENTS[name]
    world = WORLDS[kind.profile.family]
    given = {"episodes": 30, "privacy": confide.JointDP(1.0, 1e-5)}
    plain = kind(world.public, **given).settings
    assert kind(world.public, **given).settings == plain
    assert kind(world.public, **given | {"episodes": 31}).settings != plain
    changed = set(inspect.signature(kind).parameters) - {"public", *given, *NO_EFFECT}
    for option in changed:
        value = OTHER_OF_FAMILY.get((kind.profile.family, option), OTHER[option])
        beside = BESIDE.get(option, {})
        try:
            other = kind(world.public, **given, **beside, **{option: value})
        except (InvalidParameter, PrivacyError):
            # There is only one value of it.
            assert option == "calibration"
            continue
        without = kind(world.public, **given, **beside).settings if beside else plain
        assert other.settings != without, option
