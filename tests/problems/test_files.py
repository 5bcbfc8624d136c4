import dataclasses
import pickle

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.policy import uniform_policy
from confide.problems import (
    LinearMixtureMDP,
    TabularMDP,
    deep_sea,
    glucose,
    latent,
    load_problem,
    lock,
    make,
    rand,
    riverswim,
    save_problem,
)

pytestmark = pytest.mark.kernels


def hidden_rewards():
    features = np.full((20, 4, 1), 0.7)
    rewards = np.full((5, 20, 4), 0.35)
    problem = rand()
    return LinearMixtureMDP(
        problem.kernels, problem.weights, rewards, problem.start, features, name="hidden"
    )


def uneven():
    """Rows whose sums are off by rounding and more: what is stored must be what is in memory."""
    rng = np.random.default_rng(0)
    return TabularMDP(
        rng.dirichlet(np.ones(50), size=(3, 50, 2)) * (1 + 1e-10),
        rng.random((3, 50, 2)),
        rng.dirichlet(np.ones(50)),
        name="é",
    )


PROBLEMS = [lock, rand, hidden_rewards, riverswim, deep_sea, uneven, latent, glucose]


def fields_of(problem):
    for field in dataclasses.fields(problem):
        value = getattr(problem, field.name)
        if dataclasses.is_dataclass(value):
            yield from fields_of(value)
        else:
            yield field.name, value


@pytest.mark.parametrize("build", PROBLEMS)
def test_round_trip_is_exact(build, tmp_path):
    # No ending is added.
    problem = build()
    path = tmp_path / "problem"
    save_problem(problem, path)
    back = load_problem(path)
    assert type(back) is type(problem)
    for (name, one), (_, two) in zip(fields_of(problem), fields_of(back), strict=True):
        if isinstance(one, np.ndarray):
            assert one.dtype == two.dtype and np.array_equal(one, two), name
        else:
            assert one == two and type(one) is type(two), name
    assert (
        back.optimal_value == problem.optimal_value and back.uniform_value == problem.uniform_value
    )
    samples = [p.sample(p.optimal_policy, 20, np.random.default_rng(0)) for p in (problem, back)]
    assert np.array_equal(samples[0].states, samples[1].states)
    again = tmp_path / "again"
    save_problem(back, again)
    assert load_problem(again).optimal_value == problem.optimal_value


def test_a_saved_problem_can_be_made_by_its_path(tmp_path):
    save_problem(riverswim(horizon=7), tmp_path / "mine.npz")
    assert make(tmp_path / "mine.npz").horizon == 7
    assert make(str(tmp_path / "mine.npz")).optimal_value == riverswim(horizon=7).optimal_value
    with pytest.raises(
        InvalidParameter, match="horizon is that of the saved problem, got horizon="
    ):
        make(tmp_path / "mine.npz", horizon=3)
    with pytest.raises(InvalidParameter, match="no such file"):
        make(tmp_path / "yours.npz")


def test_only_problems_can_be_saved(tmp_path):
    with pytest.raises(InvalidParameter, match=r"only TabularMDP, .* can be saved, got dict"):
        save_problem({}, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_foreign_files_are_refused(tmp_path):
    def check_refusal(message, write):
        path = tmp_path / "foreign.npz"
        path.unlink(missing_ok=True)
        with open(path, "wb") as file:
            write(file)
        with pytest.raises(InvalidParameter, match=message):
            load_problem(path)

    check_refusal("not a saved problem", lambda file: file.write(b""))
    check_refusal("not a saved problem", lambda file: file.write(b"confide"))
    check_refusal("not a saved problem", lambda file: pickle.dump({"kind": "table"}, file))
    check_refusal("not a saved problem", lambda file: np.save(file, np.zeros(3)))
    check_refusal("names no format", lambda file: np.savez(file, kind=np.array("lq")))
    check_refusal(
        "format confide-problem/9, and this version",
        lambda file: np.savez(file, format=np.array("confide-problem/9"), kind=np.array("lq")),
    )
    check_refusal(
        "kind must be one of",
        lambda file: np.savez(file, format=np.array("confide-problem/1"), kind=np.array("maze")),
    )
    check_refusal(
        "not a saved problem",
        lambda file: np.savez(file, format=np.array("confide-problem/1"), kind=np.array("table")),
    )
    check_refusal(
        "not a saved problem",
        lambda file: np.savez(
            file, format=np.array("confide-problem/1"), kind=np.array("lq"), Z=np.zeros(2)
        ),
    )
    uniform_policy(2, 3, 4).save(tmp_path / "policy.npz")
    with pytest.raises(InvalidParameter, match="names no format"):
        load_problem(tmp_path / "policy.npz")
    with pytest.raises(InvalidParameter, match="not a saved problem"):
        load_problem(tmp_path)


def rewrite(path, **arrays):
    with np.load(path) as data:
        stored = dict(data) | arrays
    with open(path, "wb") as file:
        np.savez(file, **stored)


def test_files_that_hold_no_valid_problem_are_refused_with_the_reason(tmp_path):
    path = tmp_path / "p.npz"
    save_problem(riverswim(), path)
    with np.load(path) as data:
        weights = data["probabilities"]
    rewrite(path, probabilities=weights * 1.5)
    with pytest.raises(
        InvalidParameter, match=r"not valid: transitions\[s=0, a=0\] must sum to one"
    ):
        load_problem(path)
    rewrite(path, probabilities=weights, rewards=np.zeros((20, 5, 2)))
    with pytest.raises(InvalidParameter, match="not valid: rewards must have shape"):
        load_problem(path)
    save_problem(glucose(), path)
    rewrite(path, Q=-np.eye(3))
    with pytest.raises(InvalidParameter, match="not valid: Q must be positive semidefinite"):
        load_problem(path)


def test_damage_is_noticed(tmp_path):
    """Every file that is cut or has a byte changed gives our own error or, where the byte carries
    nothing, the same problem.
    """
    path = tmp_path / "p.npz"
    save_problem(riverswim(), path)
    whole = path.read_bytes()
    truth = riverswim()
    rng = np.random.default_rng(0)
    refused = 0
    for trial in range(300):
        data = bytearray(whole)
        if trial % 3 == 0:
            del data[rng.integers(len(data)) :]
        else:
            data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(data)
        try:
            loaded = load_problem(path)
        except InvalidParameter:
            refused += 1
        else:
            assert all(
                np.array_equal(a, b)
                for (_, a), (_, b) in zip(fields_of(loaded), fields_of(truth), strict=True)
            )
    assert refused > 150
