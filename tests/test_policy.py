import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.policy import (
    ContextPolicy,
    LinearPolicy,
    StochasticPolicy,
    TabularPolicy,
    load_policy,
    uniform_policy,
)


@pytest.mark.parametrize(
    "policy",
    [
        TabularPolicy(np.array([[0, 1], [2, 0]]), 3),
        uniform_policy(2, 3, 4),
        LinearPolicy(np.arange(6.0).reshape(1, 2, 3)),
        ContextPolicy(np.array([1.0, 2.0])),
        ContextPolicy(np.array([1.0, 2.0]), np.eye(2)),
    ],
    ids=["tabular", "stochastic", "linear", "contexts", "optimistic"],
)
def test_saved_policies_open_again_and_act_the_same(policy, tmp_path):
    policy.save(tmp_path / "policy.npz")
    back = load_policy(tmp_path / "policy.npz")
    assert type(back) is type(policy)
    state = (
        np.ones(3)
        if isinstance(policy, LinearPolicy)
        else np.eye(2)
        if isinstance(policy, ContextPolicy)
        else 1
    )
    one, other = (p.act(0, state, np.random.default_rng(3)) for p in (policy, back))
    np.testing.assert_array_equal(one, other)
    assert [path.name for path in tmp_path.iterdir()] == ["policy.npz"]


def test_stochastic_policies_act_with_their_probabilities():
    """5000 draws: 6 standard errors are 0.04."""
    policy, rng = StochasticPolicy(np.array([[[0.2, 0.8]]])), np.random.default_rng(0)
    assert np.mean([policy.act(0, 0, rng) for _ in range(5000)]) == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TabularPolicy(np.array([[0, 3]]), 3), r"actions must be in 0\.\.2"),
        (lambda: TabularPolicy(np.array([0]), 3), r"shape \(horizon, states\)"),
        (
            lambda: StochasticPolicy(np.array([[[0.5, 0.5], [0.5, 0.6]]])),
            r"weights\[h=0, s=1\] must be probabilities",
        ),
        (lambda: StochasticPolicy(np.full((1, 1, 2), np.nan)), r"weights\[h=0, s=0\]"),
        (lambda: LinearPolicy(np.full((1, 1, 1), np.inf)), "finite"),
    ],
)
def test_bad_policies_are_refused(make, message):
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_what_is_not_a_policy_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"nonsense")
    for path in (tmp_path / "x.npz", tmp_path / "none.npz"):
        with pytest.raises(InvalidParameter, match="not a saved policy"):
            load_policy(path)
