import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.problems import LinearMixtureMDP


def good():
    rng = np.random.default_rng(0)
    return {
        # d = 4, S = 3, A = 2.
        "kernels": rng.dirichlet(np.ones(3), size=(4, 3, 2)),
        # H = 5.
        "weights": rng.dirichlet(np.ones(4), size=5),
        "rewards": rng.random((5, 3, 2)),
        "start": np.array([0.5, 0.5, 0.0]),
    }


def with_entry(key, index, value):
    arrays = good()
    arrays[key][index] = value
    return arrays


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (with_entry("kernels", (2, 1, 0, 0), 2.0), r"kernels\[i=2, s=1, a=0\] must sum to one"),
        (with_entry("kernels", (1, 2, 1, 0), np.nan), r"kernels\[i=1, s=2, a=1\] must be finite"),
        (
            with_entry("kernels", (0, 2, 1), [-0.5, 1.0, 0.5]),
            r"kernels\[i=0, s=2, a=1\] must not be negative",
        ),
        (
            with_entry("weights", 3, [0.5, 0.5, 0.5, 0.0]),
            r"weights\[h=3\] must sum to one, got a sum of 1\.5",
        ),
        (with_entry("weights", 2, [1.5, -0.5, 0.0, 0.0]), r"weights\[h=2\] must not be negative"),
        (with_entry("weights", (4, 0), np.nan), r"weights\[h=4\] must be finite"),
        (with_entry("rewards", (1, 2, 0), -1.0), r"rewards\[h=1, s=2, a=0\] must be in \[0, 1\]"),
        (with_entry("start", 0, 0.6), "start must sum to one"),
        (
            good() | {"kernels": np.ones((3, 2, 3)) / 3},
            r"kernels must have shape .* got \(3, 2, 3\)",
        ),
        (
            good() | {"weights": np.ones((5, 3)) / 3},
            r"weights must have shape \(horizon, 4\), got \(5, 3\)",
        ),
        (good() | {"rewards": np.zeros((4, 3, 2))}, r"rewards must have shape \(5, 3, 2\)"),
        (good() | {"start": np.ones(2) / 2}, r"start must have shape \(3,\)"),
    ],
)
def test_bad_mixtures_are_refused_with_the_first_offending_row(arrays, message):
    with pytest.raises(InvalidParameter, match=message):
        LinearMixtureMDP(**arrays)


def linear_rewards(scale=1.0):
    """Features [s, a, j] and rewards [h, s, a] in their span."""
    features = np.full((3, 2, 2), 0.1)
    features[..., 0] += np.linspace(0, 0.5, 6).reshape(3, 2)
    weights = np.linspace(0.5, 1.0, 5)[:, None] * np.array([1.0, 0.5])
    return features, scale * np.einsum("saj,hj->hsa", features, weights)


def test_reward_features_hide_the_rewards_and_make_them_coins():
    features, rewards = linear_rewards()
    hidden = LinearMixtureMDP(**good() | {"rewards": rewards}, reward_features=features)
    with_public_rewards = LinearMixtureMDP(**good() | {"rewards": rewards})
    assert (
        with_public_rewards.public.rewards is not None
        and not with_public_rewards.truth.stochastic_rewards
    )
    assert (
        hidden.public.rewards is None
        and hidden.public.reward_features is not None
        and hidden.truth.stochastic_rewards
    )
    assert hidden.optimal_value == with_public_rewards.optimal_value
    seen = hidden.sample(hidden.optimal_policy, 1000, np.random.default_rng(0))
    assert set(np.unique(seen.rewards)) == {0.0, 1.0}


def test_bad_reward_features_are_refused():
    features, rewards = linear_rewards()
    arrays = good() | {"rewards": rewards}
    bent = rewards.copy()
    bent[2, 1, 0] += 0.01
    with pytest.raises(InvalidParameter, match=r"rewards\[h=2\] is not linear"):
        LinearMixtureMDP(**arrays | {"rewards": bent}, reward_features=features)
    with pytest.raises(
        InvalidParameter, match=r"reward_features\[s=1, a=1\] must be finite and of norm at most 1"
    ):
        LinearMixtureMDP(
            **arrays, reward_features=np.where(np.arange(6).reshape(3, 2, 1) == 3, 1.0, features)
        )
    with pytest.raises(InvalidParameter, match=r"reward_features\[s=0, a=1\] must be finite"):
        LinearMixtureMDP(
            **arrays, reward_features=np.where(np.arange(6).reshape(3, 2, 1) == 1, np.nan, features)
        )
    with pytest.raises(InvalidParameter, match="reward_features must have shape"):
        LinearMixtureMDP(**arrays, reward_features=features[:2])
    # At once, not when it is first sampled.
    with pytest.raises(InvalidParameter, match=r"rewards\[h=., s=., a=.\] must be in \[0, 1\]"):
        LinearMixtureMDP(**arrays | {"rewards": 5 * rewards}, reward_features=features)


def test_the_truth_is_the_mixture_and_stays_out_of_the_public_part():
    problem = LinearMixtureMDP(**good())
    mixed = np.zeros((5, 3, 2, 3))
    for h in range(5):
        for i in range(4):
            mixed[h] += problem.weights[h, i] * problem.kernels[i]
    assert np.abs(problem.truth.transitions.dense() - mixed).max() < 1e-15
    assert (
        problem.public.dimension,
        problem.public.states,
        problem.public.actions,
        problem.public.horizon,
    ) == (4, 3, 2, 5)
    assert not hasattr(problem.public, "weights")
    assert "weights" not in repr(problem) and "kernels" not in repr(problem)


def test_one_step_is_enough():
    arrays = good()
    problem = LinearMixtureMDP(
        arrays["kernels"], arrays["weights"][:1], arrays["rewards"][:1], arrays["start"]
    )
    assert problem.horizon == 1
    assert problem.optimal_value == pytest.approx(
        arrays["start"] @ arrays["rewards"][0].max(axis=1)
    )


def test_bellman_residual():
    problem = LinearMixtureMDP(**good())
    values = problem._optimum[0]
    for h in range(5):
        Q = problem.rewards[h] + np.einsum(
            "i,isat,t->sa", problem.weights[h], problem.kernels, values[h + 1]
        )
        assert np.abs(Q.max(axis=1) - values[h]).max() < 1e-10
