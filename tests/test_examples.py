"""Every script of examples/ runs from end to end, in an empty folder; and the adversary of
glucose.py reads what a learner releases.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

import confide
from confide.agents import CertaintyEquivalentLQ
from confide.mechanisms.sources import FastSource

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def glucose():
    spec = importlib.util.spec_from_file_location("glucose_example", EXAMPLES / "glucose.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda script: script.name)
def test_runs_in_an_empty_folder(script, tmp_path):
    quick = ["--quick"] if "--quick" in script.read_text() else []
    done = subprocess.run(
        [sys.executable, script, *quick], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    for picture in tmp_path.rglob("*.svg"):
        assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    if script.name == "glucose.py":
        assert {picture.name for picture in tmp_path.rglob("*.svg")} == {
            "patient.svg",
            "learning.svg",
            "adversary.svg",
        }


@pytest.mark.parametrize("world", [0, 1])
def test_the_adversary_reads_what_the_learner_releases(glucose, world):
    system, privacy = confide.problems.glucose(), confide.JointDP(1.0, 1e-5)
    attacked = glucose.Eavesdropper(system, privacy, 20_000, glucose.extremes(system))
    seen = attacked.observe(world, 1, np.random.default_rng(7))[0]
    noise = FastSource(np.random.default_rng(7))
    learner = CertaintyEquivalentLQ(system.public, episodes=20_000, privacy=privacy, noise=noise)
    learner.next_batch()
    learner.observe(attacked.leaves[world])
    assert learner.released().generation == 1
    np.testing.assert_array_equal(seen, learner.released().values)


def test_without_privacy_the_adversary_reads_the_patient(glucose):
    system = confide.problems.glucose()
    attacked = glucose.Eavesdropper(system, confide.NoPrivacy(), 20_000, glucose.ordinary(system))
    score = attacked.score()
    zero, one = (score(attacked.observe(world, 3, np.random.default_rng(0))) for world in (0, 1))
    assert (zero < 0).all()
    assert (one > 0).all()


def run_of(*segments):
    """Doing nothing costs 1; users and their cost, one stretch after another."""
    batches = [SimpleNamespace(users=users, value=-cost) for users, cost in segments]
    return SimpleNamespace(
        segments=batches, uniform_value=-1.0, episodes=sum(users for users, _ in segments)
    )


def test_when_exploring_is_repaid(glucose):
    # Nothing was ever owed.
    assert glucose.repaid(run_of((10, 1.0), (10, 0.5))) == 0
    # 10 owed after 20, half repaid by each patient after
    assert glucose.repaid(run_of((10, 1.0), (10, 2.0), (40, 0.5))) == 40
    # There are fewer than 21, so it is never repaid.
    assert glucose.repaid(run_of((10, 2.0), (10, 0.5))) == 21
