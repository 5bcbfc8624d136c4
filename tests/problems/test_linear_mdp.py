import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.problems import LinearMDP


def good():
    rng = np.random.default_rng(0)
    return {
        # S = 3, A = 2, d = 4.
        "features": rng.dirichlet(np.ones(4), size=(3, 2)),
        # H = 5.
        "measures": rng.dirichlet(np.ones(3), size=(5, 4)),
        "reward_weights": rng.random((5, 4)),
        "start": np.array([0.5, 0.5, 0.0]),
    }


def with_entry(key, index, value):
    arrays = good()
    arrays[key][index] = value
    return arrays


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            with_entry("features", (1, 1), [2.0, -1.0, 0.0, 0.0]),
            r"features\[s=1, a=1\] must be finite and of norm at most 1",
        ),
        (with_entry("features", (2, 0, 1), np.nan), r"features\[s=2, a=0\] must be finite"),
        (with_entry("features", (2, 1), 0.1), r"transitions\[h=0, s=2, a=1\] must sum to one"),
        (with_entry("measures", (3, 1), 0.5), r"transitions\[h=3, s=0, a=0\] must sum to one"),
        (
            with_entry("measures", (2, slice(None)), [1.5, -0.5, 0.0]),
            r"transitions\[h=2, s=0, a=0\] must not be negative",
        ),
        (with_entry("measures", (1, 0, 0), np.nan), r"measures\[h=1, i=0\] must be finite"),
        (with_entry("reward_weights", 4, -1.0), r"rewards\[h=4, s=0, a=0\] must be in \[0, 1\]"),
        (
            with_entry("reward_weights", (0, 1), np.nan),
            r"reward_weights\[h=0, i=1\] must be finite",
        ),
        (with_entry("start", 2, 1.0), "start must sum to one"),
        (good() | {"measures": np.ones((5, 3, 3)) / 3}, "features must have shape"),
        (good() | {"features": np.ones((3, 2))}, "features must have shape"),
        (
            good() | {"reward_weights": np.zeros((4, 4))},
            r"reward_weights must have shape \(5, 4\), got \(4, 4\)",
        ),
    ],
)
def test_bad_linear_mdps_are_refused_with_the_first_offending_row(arrays, message):
    with pytest.raises(InvalidParameter, match=message):
        LinearMDP(**arrays)


def test_the_truth_is_bilinear_and_stays_out_of_the_public_part():
    problem = LinearMDP(**good())
    for h in range(5):
        assert (
            np.abs(
                problem.truth.transitions.dense()[h] - problem.features @ problem.measures[h]
            ).max()
            < 1e-15
        )
        assert (
            np.abs(problem.truth.rewards[h] - problem.features @ problem.reward_weights[h]).max()
            < 1e-15
        )
    assert (
        problem.public.dimension,
        problem.public.states,
        problem.public.actions,
        problem.public.horizon,
    ) == (4, 3, 2, 5)
    assert not hasattr(problem.public, "measures") and not hasattr(problem.public, "reward_weights")
    assert "measures" not in repr(problem)


def test_optimal_values_are_linear_in_the_features():
    """Q_h(s, a) = <phi(s, a), theta_h + mu_h V_{h+1}>: the Bellman residual, in the form that
    learners use.
    """
    problem = LinearMDP(**good())
    values = problem._optimum[0]
    for h in range(5):
        Q = problem.features @ (problem.reward_weights[h] + problem.measures[h] @ values[h + 1])
        assert np.abs(Q.max(axis=1) - values[h]).max() < 1e-10


def test_what_cancels_is_zero():
    """.1 (-3) + .2 (1.5) is -6e-17 in floating point: not a negative reward."""
    features = np.full((2, 1, 3), [0.1, 0.2, 0.7])
    measures = np.full((1, 3, 2), [1.0, 0.0])
    problem = LinearMDP(features, measures, np.array([[-3.0, 1.5, 0.0]]), np.array([1.0, 0.0]))
    assert not problem.truth.rewards.any()


def test_stochastic_rewards_are_coins():
    problem = LinearMDP(
        **good() | {"reward_weights": np.full((5, 4), 0.5)}, stochastic_rewards=True
    )
    assert set(
        np.unique(problem.sample(problem.optimal_policy, 1000, np.random.default_rng(0)).rewards)
    ) == {0.0, 1.0}
    with pytest.raises(InvalidParameter, match=r"rewards\[h=0, s=0, a=0\] must be in \[0, 1\]"):
        LinearMDP(**good() | {"reward_weights": np.full((5, 4), 1.5)}, stochastic_rewards=True)
