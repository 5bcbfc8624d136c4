import subprocess
import sys

import numpy as np
import pytest

from confide import problems
from confide.errors import InvalidParameter
from confide.problems import PROBLEMS, make

SEEDED = {
    "garnet",
    "riverswim-stage",
    "lock",
    "lock-rewards",
    "rand",
    "liao-hard",
    "latent",
    "deep-sea",
    "random-lq",
}
SEEDED |= {"linear-bandit", "news"}


def test_every_entry_says_what_it_is_and_is_there():
    assert len(PROBLEMS) == 22 and all("_" not in name for name in PROBLEMS)
    for name, builder in PROBLEMS.items():
        assert getattr(problems, name.replace("-", "_")) is builder
        assert 10 < len(builder.profile.about) < 100


@pytest.mark.parametrize("name", sorted(set(PROBLEMS) - {"icu-sepsis"}))
def test_names_are_stable_and_seeds_are_instances(name):
    first = make(name)
    again = make(name, seed=0)
    other = make(name, seed=1)
    assert first.name == name
    assert first.optimal_value == again.optimal_value and first.uniform_value == again.uniform_value
    arrays = [
        p.A
        if hasattr(p, "A")
        else p.contexts
        if hasattr(p, "contexts")
        else np.append(p.truth.transitions.dense().ravel(), p.truth.rewards.ravel())
        for p in (first, other)
    ]
    assert np.array_equal(*arrays) == (name not in SEEDED)


def test_a_horizon_replaces_the_problems_own():
    for name, horizon in (("riverswim", 7), ("thermal", 3), ("pendulum", 4), ("random-lq", 2)):
        assert make(name, horizon=horizon).horizon == horizon
    with pytest.raises(
        InvalidParameter, match="horizon of deep-sea cannot be chosen, got horizon="
    ):
        make("deep-sea", horizon=3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lokc", "unknown problem 'lokc'; did you mean lock"),
        ("one_hot", "did you mean one-hot"),
        ("River-Swim", "did you mean riverswim"),
        ("icusepsis", "did you mean icu-sepsis"),
        ("CliffWalking-v1", "did you mean gym:CliffWalking-v1"),
        ("maze", "choose one of lock, .*gym:ID, or the file"),
        ("", "unknown problem ''"),
        ("nowhere/maze.npz", "no such file: nowhere/maze.npz"),
    ],
)
def test_unknown_names_get_the_nearest_spelling(name, message):
    with pytest.raises(InvalidParameter, match=message):
        make(name)


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidParameter, match="seed must be at least 0"):
        make("lock", seed=-1)


@pytest.mark.process
def test_listing_names_imports_nothing_heavy():
    code = (
        "import sys, confide.problems.catalogue as c, confide.problems as p\n"
        "names = [*c.PROBLEMS, *dir(p)]\n"
        "print([m for m in ('numpy', 'numba', 'scipy', 'gymnasium') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_every_public_name_is_there():
    pytest.importorskip("gymnasium")
    for name in problems.__all__:
        assert getattr(problems, name) is not None
    assert {*problems.__all__} <= {*dir(problems)}
    with pytest.raises(AttributeError, match="no attribute 'maze'"):
        _ = problems.maze
