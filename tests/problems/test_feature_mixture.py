import math
import re

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.problems import (
    FeatureMixtureMDP,
    SuccessorFeatures,
    TabularMDP,
    load_problem,
    riverswim,
)
from confide.problems.sizes import sizes_by_name, sizes_of

# Two states and one action: psi.w is (0.75, 0.25) in state 0 and (0, 1) in state 1 for w = (1,
# -0.5).
PSI = np.array([[[[0.5, -0.5], [0.5, 0.5]]], [[[0.0, 0.0], [1.0, 0.0]]]])
WEIGHTS = np.array([[1.0, -0.5], [1.0, -0.5]])


def good():
    return {
        "features": SuccessorFeatures.from_dense(PSI),
        "weights": WEIGHTS,
        "rewards": np.array([[0.0], [1.0]]),
        "start": np.array([1.0, 0.0]),
        "weight_bound": 1.2,
    }


def test_signed_features_make_the_probabilities_of_the_truth():
    problem = FeatureMixtureMDP(**good())
    np.testing.assert_allclose(problem.truth.transitions.dense()[0, :, 0], [[0.75, 0.25], [0, 1]])
    assert problem.truth.transitions.layers == 1
    public = problem.public
    assert (public.dimension, public.states, public.actions, public.horizon) == (2, 2, 1, 2)
    assert not public.nonnegative
    assert public.family == "mixture"
    assert not hasattr(public, "weights")
    assert "weights" not in repr(problem).replace("weight_bound", "")
    assert problem.optimal_value == pytest.approx(0.25)


def test_steps_may_differ():
    arrays = good()
    arrays["weights"] = np.array([[1.0, -0.5], [1.0, 0.5]])
    transitions = FeatureMixtureMDP(**arrays).truth.transitions
    assert transitions.layers == 2
    np.testing.assert_allclose(transitions.dense()[1, 0, 0], [0.25, 0.75])


def test_the_bound_on_values_is_computed_from_the_features():
    problem = FeatureMixtureMDP(**good())
    # phi_v = ((v0 + v1) / 2, (v1 - v0) / 2): at most (1, 1/2) entry by entry, and at most the sum
    # of two norms of 1 / sqrt(2)
    assert problem.value_bound == pytest.approx(math.sqrt(1.25))
    values = np.random.default_rng(0).random((1000, 2))
    phi = np.einsum("sati,vt->vsai", PSI, values)
    assert np.linalg.norm(phi, axis=-1).max() <= problem.value_bound


def test_a_table_is_a_mixture_of_one_feature_for_each_transition():
    table = riverswim(states=4, horizon=3)
    problem = FeatureMixtureMDP.from_table(table)
    S = 4
    A = 2
    assert problem.public.dimension == S * S * A
    assert problem.public.weight_bound == pytest.approx(math.sqrt(S * S * A))
    assert problem.public.value_bound == 1.0
    assert problem.features.largest_norm() == pytest.approx(1.0)
    assert np.linalg.norm(problem.weights, axis=1).max() <= problem.public.weight_bound
    np.testing.assert_allclose(problem.truth.transitions.dense(), table.transitions.dense())
    assert problem.optimal_value == pytest.approx(table.optimal_value)
    assert problem.public.rewards is not None


def test_a_table_with_unknown_rewards_has_a_feature_of_the_reward_for_each_pair():
    P = np.eye(2)[np.array([[0, 1], [1, 0]])]
    table = TabularMDP(P, np.full((2, 2), 0.5), [1.0, 0.0], horizon=3, stochastic_rewards=True)
    public = FeatureMixtureMDP.from_table(table).public
    assert public.rewards is None
    assert public.reward_features.shape == (2, 2, 4)


def test_features_from_a_function_are_those_of_the_arrays():
    calls = []

    def features(s, a):
        calls.append((s, a))
        return ([0, 1], PSI[0, 0]) if s == 0 else (np.array([1]), PSI[1, 0, 1:])

    from_function = SuccessorFeatures.from_function(features, states=2, actions=1, dimension=2)
    dense = SuccessorFeatures.from_dense(PSI)
    for name in ("indptr", "successors", "features"):
        np.testing.assert_array_equal(getattr(from_function, name), getattr(dense, name))
    assert calls == [(0, 0), (1, 0)]
    problem = FeatureMixtureMDP(**good() | {"features": from_function})
    assert problem.identity().digest() == FeatureMixtureMDP(**good()).identity().digest()


def test_a_function_that_returns_the_same_array_each_time_is_copied():
    again = np.zeros((1, 1))

    def features(s, _):
        again[:] = s
        return [s], again

    copied = SuccessorFeatures.from_function(features, states=3, actions=1, dimension=1)
    np.testing.assert_array_equal(copied.features[:, 0], [0, 1, 2])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _s, _a: None, "must return (successors, features), got None"),
        (lambda _s, _a: 1 / 0, "raised ZeroDivisionError"),
        (lambda _s, _a: ([0], [[np.nan, 0.0]]), "must be finite"),
        (lambda _s, _a: ([0], [[np.inf, 0.0]]), "must be finite"),
        (lambda _s, _a: ([0], [1.0, 0.0]), "got shapes (1,) and (2,)"),
        (lambda _s, _a: ([0, 1], [[1.0, 0.0]]), "features [n, 2], got shapes"),
        (lambda _s, _a: ([], np.zeros((0, 2))), "at least one"),
        (lambda _s, _a: ([2], [[1.0, 0.0]]), "must lead to states 0..1, got 2"),
        (lambda _s, _a: ([-1], [[1.0, 0.0]]), "must lead to states 0..1, got -1"),
        (lambda _s, _a: ([0.5], [[1.0, 0.0]]), "must be an array of whole numbers"),
        (lambda _s, _a: ([1, 1], [[1.0, 0.0]] * 2), "must name each successor once, got 1 twice"),
        (lambda _s, _a: ([0], [["x", 0.0]]), "must be an array of numbers"),
    ],
)
def test_hostile_functions_are_refused(function, message):
    with pytest.raises(InvalidParameter, match=re.escape(message)):
        SuccessorFeatures.from_function(function, states=2, actions=1, dimension=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"weight_bound": 1.0},
            "weight_bound must be at least the largest norm of the weights, 1.118",
        ),
        ({"weight_bound": math.nan}, "weight_bound must be positive and finite"),
        ({"value_bound": 0.9}, r"value_bound=0.9 does not hold: features of \(s=0, a=0\)"),
        ({"value_bound": -1.0}, "value_bound must be positive"),
        (
            {"weights": np.array([[1.0, -1.5]]), "weight_bound": 2.0},
            r"a=0\] must be finite and not negative",
        ),
        ({"weights": np.array([[0.9, -0.5]])}, r"must sum to one, got a sum of 0.9"),
        ({"weights": WEIGHTS[:, :1]}, r"weights must have shape \(horizon, 2\)"),
        ({"weights": np.full((2, 2), np.nan)}, "weights must be finite"),
        ({"features": PSI}, "features must be SuccessorFeatures"),
        ({"start": np.ones(2)}, "start"),
        ({"rewards": np.full((2, 1), 2.0)}, "scale the rewards"),
    ],
)
def test_what_is_no_mixture_is_refused(change, message):
    with pytest.raises(InvalidParameter, match=message):
        FeatureMixtureMDP(**good() | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": [0, 1]}, "indptr must have states x actions"),
        ({"indptr": [0, 2, 2]}, "indptr must go from 0"),
        ({"indptr": [0, 3, 3]}, "must have a successor"),
        ({"features": np.zeros((2, 2))}, r"features must have shape \(3, dimension\)"),
        ({"states": 0}, "states must be at least 1"),
        ({"features": np.full((3, 2), np.nan)}, r"features of \(s=0, a=0\) must be finite"),
    ],
)
def test_rows_that_do_not_fit_are_refused(change, message):
    rows = {
        "states": 2,
        "actions": 1,
        "indptr": [0, 2, 3],
        "successors": [0, 1, 1],
        "features": PSI.reshape(4, 2)[[0, 1, 3]],
    }
    SuccessorFeatures(**rows)
    with pytest.raises(InvalidParameter, match=message):
        SuccessorFeatures(**rows | change)


def test_it_is_saved_and_loaded_exactly(tmp_path):
    problem = FeatureMixtureMDP(**good())
    problem.save(tmp_path / "signed.npz")
    loaded = load_problem(tmp_path / "signed.npz")
    assert isinstance(loaded, FeatureMixtureMDP)
    assert loaded.identity().digest() == problem.identity().digest()
    by_name = sizes_by_name(str(tmp_path / "signed.npz"))
    direct = sizes_of(problem)
    assert (by_name.family, by_name.transitions, by_name.dimension, by_name.states) == (
        "mixture",
        3,
        2,
        2,
    )
    assert direct.transitions == 3
    assert by_name.memory > 0
