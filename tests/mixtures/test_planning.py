"""Value features and optimistic planning: the algebra, the compiled loops, and exact planning in
the limit of much data.
"""

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.mixtures import _kernels
from confide.mixtures.planning import optimistic
from confide.mixtures.value_features import (
    centred,
    fitted_features,
    raw,
    reduced,
    sparse,
    transition_rows,
    value_features,
)
from confide.planners.regression import NO_BONUS, RegressionEstimate, Width, bonus, least_squares
from confide.planners.regression import tight_width as tight
from confide.policy import uniform_policy
from confide.problems import LinearMixtureMDP, lock

MAPS = {"raw": lambda d: raw(d, span=3.0), "centred": centred, "reduced": reduced}
every_map = pytest.mark.parametrize("make", MAPS.values(), ids=MAPS.keys())


def mixture(seed, *, d=3, S=4, A=3, H=4):
    rng = np.random.default_rng(seed)
    kernels = rng.dirichlet(np.ones(S), size=(d, S, A))
    weights = rng.dirichlet(np.ones(d), size=H)
    return LinearMixtureMDP(
        kernels, weights, rng.uniform(size=(H, S, A)), rng.dirichlet(np.ones(S))
    )


def exact_estimate(problem, fm, confidence=1e4):
    """An estimate that is right."""
    steps = problem.horizon - 1
    return RegressionEstimate(
        fm.coordinates(problem.weights[:steps]),
        np.repeat(confidence * np.eye(fm.dimension)[None], steps, axis=0),
    )


def value_features_twin(kernels, values, fm):
    low, scale = (0.0, fm.span) if fm.span else (values.min(), np.ptp(values) or 1.0)
    phi = np.einsum("isat,t->sai", kernels, (values - low) / scale)
    return phi @ fm.basis, low + scale * phi @ fm.origin, scale


def optimistic_twin(kernels, rewards, estimate, fm, width, ceilings):
    H, S, A = rewards.shape
    values = np.zeros((H + 1, S))
    Q = np.zeros((H, S, A))
    for h in reversed(range(H)):
        X, expected, scale = value_features_twin(kernels, values[h + 1], fm)
        if h < H - 1:
            expected = (
                expected
                + scale * X @ estimate.weights[h]
                + bonus(X, estimate.precision[h], scale, width)
            )
        Q[h] = np.clip(rewards[h] + expected, 0, ceilings[h])
        values[h] = Q[h].max(axis=1)
    return values, Q, Q.argmax(axis=2)


def noisy(rng, steps, m):
    G = rng.normal(size=(steps, m, m))
    return least_squares(
        10 * G @ G.swapaxes(1, 2), rng.normal(scale=9.0, size=(steps, m)), noise_std=5.0
    )


@every_map
def test_kernels_equal_their_twins(make):
    rng = np.random.default_rng(0)
    for d, S, A, H in ((2, 1, 1, 2), (5, 20, 4, 5), (3, 7, 2, 9)):
        fm = make(d)
        problem = mixture(1, d=d, S=S, A=A, H=H)
        estimate = noisy(rng, H - 1, fm.dimension)
        width = Width(0.25, 9.0, factor=0.3)
        plan = optimistic(problem.kernels, problem.rewards, estimate, feature_map=fm, width=width)
        values, Q, actions = optimistic_twin(
            problem.kernels, problem.rewards, estimate, fm, width, np.arange(H, 0, -1)
        )
        np.testing.assert_allclose(plan.values, values, atol=1e-12)
        np.testing.assert_allclose(plan.Q, Q, atol=1e-12)
        np.testing.assert_array_equal(plan.policy.actions, actions)
        seen = sparse(fm, problem.kernels)
        X, offset, scale = _kernels.value_features(seen.arrays, values[1], seen.span)
        expected = value_features_twin(problem.kernels, values[1], fm)
        np.testing.assert_allclose(X.reshape(S, A, -1), expected[0], atol=1e-14)
        np.testing.assert_allclose(offset.reshape(S, A), expected[1], atol=1e-14)
        assert scale == pytest.approx(expected[2], rel=1e-15)


@every_map
def test_features_predict_the_next_value(make):
    """offset + scale X.theta = E[V(s')], for the truth, and targets average to X.theta."""
    problem = mixture(2, d=4)
    fm = make(4)
    V = np.random.default_rng(3).uniform(-1, 2, size=(4, 4))
    features = value_features(fm, problem.kernels, V)
    theta = fm.coordinates(problem.weights)
    P = np.einsum("hi,isat->hsat", problem.weights, problem.kernels)
    expected = np.einsum("hsat,ht->hsa", P, V)
    means = np.einsum("hsam,hm->hsa", features.rows, theta)
    np.testing.assert_allclose(
        features.offset + features.scale[:, None, None] * means, expected, atol=1e-13
    )
    # y of every (h, s, a, s')
    targets = (V[:, None, None, :] - features.offset[..., None]) / features.scale[
        :, None, None, None
    ]
    np.testing.assert_allclose((P * targets).sum(axis=-1), means, atol=1e-13)
    np.testing.assert_allclose(
        largest_targets(fm, problem.kernels, V), np.abs(targets).max(axis=-1), atol=1e-7
    )
    np.testing.assert_allclose(fm.mixture(theta), problem.weights, atol=1e-14)


@every_map
def test_visited_rows_are_those_of_the_tables(make):
    rng = np.random.default_rng(11)
    for problem in (mixture(12, d=4), lock(0)):
        fm = make(len(problem.kernels))
        H = problem.horizon
        seen = sparse(fm, problem.kernels)
        V = rng.uniform(size=(H, problem.states))
        features, fitting = fitted_features(fm, seen, V, balance=1.3)
        h, s, a, t = (
            rng.integers(size, size=200)
            for size in (H, problem.states, problem.actions, problem.states)
        )
        for weights in (None, rng.uniform(size=fitting.shape)):
            X, y = transition_rows(seen, V, h, s, a, t, balance=1.3, weights=weights)
            weight = (fitting if weights is None else weights)[h, s, a]
            np.testing.assert_allclose(X, features.rows[h, s, a] * weight[:, None], atol=1e-13)
            targets = (V[h, t] - features.offset[h, s, a]) / features.scale[h] * weight
            np.testing.assert_allclose(y, targets, atol=1e-13)


def test_sparse_kernels_are_for_one_feature_map():
    seen = sparse(reduced(5), lock(0).kernels)
    assert len(seen.arrays[1]) == (lock(0).kernels > 0).any(axis=0).sum()
    with pytest.raises(InvalidParameter, match="another feature map"):
        fitted_features(reduced(5), seen, np.zeros((1, 20)), balance=1.0)


def test_precisions_are_inverted():
    rng = np.random.default_rng(13)
    for m in (1, 4, 30):
        G = rng.normal(size=(m, m))
        # The second one is for LAPACK.
        for P in (G @ G.T + 0.1 * np.eye(m), G + G.T):
            np.testing.assert_allclose(_kernels._inverse(P), np.linalg.inv(P), rtol=1e-8, atol=1e-8)


def test_largest_targets_look_at_possible_states_only():
    problem = lock(0)
    V = problem.values(problem.optimal_policy)[1:5]
    features = value_features(reduced(5), problem.kernels, V)
    possible = np.broadcast_to((problem.kernels > 0).any(axis=0), (4, 20, 4, 20))
    targets = (V[:, None, None, :] - features.offset[..., None]) / features.scale[
        :, None, None, None
    ]
    expected = np.where(possible, np.abs(targets), 0).max(axis=-1)
    np.testing.assert_allclose(largest_targets(reduced(5), problem.kernels, V), expected, atol=1e-7)
    assert (expected < np.abs(targets).max(axis=-1) - 0.1).any()


def largest_targets(fm, kernels, values):
    """Y, from the weights 1/sqrt(||X||^2 + balance^2 Y^2 / 2)."""
    features, weight = fitted_features(fm, kernels, values, balance=1.3)
    G = np.where(weight > 0, 1 / np.where(weight > 0, weight, 1.0) ** 2, 0.0)
    return np.sqrt(np.maximum(2 * (G - (features.rows**2).sum(axis=-1)), 0)) / 1.3


@pytest.mark.parametrize("d", [2, 3, 30])
def test_reduced_coordinates_are_an_orthonormal_basis_of_the_rest(d):
    fm = reduced(d)
    np.testing.assert_allclose(fm.basis.T @ fm.basis, np.eye(d - 1), atol=1e-14)
    np.testing.assert_allclose(fm.basis.sum(axis=0), 0, atol=1e-14)
    w = np.random.default_rng(d).dirichlet(np.ones(d), size=6)
    np.testing.assert_allclose(fm.mixture(fm.coordinates(w)), w, atol=1e-14)


def test_a_constant_value_function_teaches_nothing():
    problem = mixture(4)
    for make in (centred, reduced):
        features = value_features(make(3), problem.kernels, np.full((1, 4), 2.5))
        assert not features.rows.any() and (features.offset == 2.5).all() and features.scale == 1.0
        assert not fitted_features(make(3), problem.kernels, np.full((1, 4), 2.5), balance=1.0)[
            1
        ].any()


@every_map
def test_with_the_true_weights_and_no_bonus_it_is_exact_planning(make):
    for problem in (mixture(5), mixture(6, d=2, S=6, A=2, H=1), lock(0)):
        fm = make(len(problem.kernels))
        plan = optimistic(
            problem.kernels,
            problem.rewards,
            exact_estimate(problem, fm),
            feature_map=fm,
            width=NO_BONUS,
        )
        np.testing.assert_allclose(
            plan.values[:-1], problem.values(problem.optimal_policy)[: problem.horizon], atol=1e-12
        )
        assert problem.value(plan.policy) == pytest.approx(problem.optimal_value, abs=1e-12)


@every_map
def test_a_bonus_makes_it_optimistic_but_never_more_than_possible(make):
    problem = mixture(7)
    fm = make(3)
    exact = optimistic(
        problem.kernels,
        problem.rewards,
        exact_estimate(problem, fm),
        feature_map=fm,
        width=NO_BONUS,
    )
    hopeful = optimistic(
        problem.kernels,
        problem.rewards,
        exact_estimate(problem, fm),
        feature_map=fm,
        width=Width(50.0, 0.0, factor=1.0),
    )
    assert (hopeful.Q >= exact.Q - 1e-12).all() and (hopeful.Q[0] > exact.Q[0] + 1e-3).any()
    wild = RegressionEstimate(
        100 * np.ones((3, fm.dimension)), exact_estimate(problem, fm).precision
    )
    for sign in (1, -1):
        plan = optimistic(
            problem.kernels,
            problem.rewards,
            RegressionEstimate(sign * wild.weights, wild.precision),
            feature_map=fm,
            width=NO_BONUS,
        )
        assert (plan.Q >= 0).all() and (plan.Q.max(axis=(1, 2)) <= [4, 3, 2, 1]).all()
    capped = optimistic(
        problem.kernels,
        problem.rewards,
        wild,
        feature_map=fm,
        width=NO_BONUS,
        ceiling=[2.0, 1.5, 1.0, 0.5],
    )
    assert (capped.Q.max(axis=(1, 2)) <= [2.0, 1.5, 1.0, 0.5]).all()


def episode_statistics(problem, fm, V, users, rng):
    """Lambda and u of sampled episodes under uniform play, all looking through the values V [h,
    s'].
    """
    features = value_features(fm, problem.kernels, V)
    steps = len(V)
    played = problem.sample(
        uniform_policy(problem.horizon, problem.states, problem.actions), users, rng
    )
    h = np.arange(steps)
    s = played.states[:, :steps]
    a = played.actions[:, :steps]
    X = features.rows[h, s, a]
    y = (V[h, played.states[:, 1 : steps + 1]] - features.offset[h, s, a]) / features.scale[h]
    return np.einsum("uhi,uhj->hij", X, X), np.einsum("uhi,uh->hi", X, y)


@every_map
def test_exact_statistics_of_much_data_reproduce_exact_planning_in_lock(make):
    """Every (s, a) 1e9 times with the mean of its targets, through the optimal values: values to
    1e-6, and the optimal policy.
    """
    problem = lock(0)
    fm = make(5)
    V = problem.values(problem.optimal_policy)[1:5]
    features = value_features(fm, problem.kernels, V)
    P = np.einsum("hi,isat->hsat", problem.weights, problem.kernels)[:4]
    y = (np.einsum("hsat,ht->hsa", P, V) - features.offset) / features.scale[:, None, None]
    Lambda = 1e9 * np.einsum("hsai,hsaj->hij", features.rows, features.rows)
    u = 1e9 * np.einsum("hsai,hsa->hi", features.rows, y)
    for simplex in (False, True):
        estimate = least_squares(Lambda, u, noise_std=0.0, simplex=simplex, coordinates=fm)
        plan = optimistic(
            problem.kernels, problem.rewards, estimate, feature_map=fm, width=NO_BONUS
        )
        np.testing.assert_allclose(
            plan.values[:5], problem.values(problem.optimal_policy)[:5], atol=1e-6
        )
        assert problem.value(plan.policy) == pytest.approx(problem.optimal_value, abs=1e-9)


@pytest.mark.parametrize("make", [centred, reduced])
def test_sampled_statistics_come_close(make):
    problem = lock(0)
    fm = make(5)
    Lambda, u = episode_statistics(
        problem, fm, problem.values(problem.optimal_policy)[1:5], 20_000, np.random.default_rng(8)
    )
    estimate = least_squares(Lambda, u, noise_std=0.0, simplex=True, coordinates=fm)
    width = tight(target_std=0.5, response_noise=0.0, gram_noise=0.0)
    plan = optimistic(problem.kernels, problem.rewards, estimate, feature_map=fm, width=width)
    assert problem.value(plan.policy) > 0.99 * problem.optimal_value
    assert np.abs(fm.mixture(estimate.weights) - problem.weights[:4]).max() < 0.15


def test_arrays_of_any_layout():
    problem = mixture(9)
    fm = reduced(3)
    estimate = exact_estimate(problem, fm)
    plain = optimistic(problem.kernels, problem.rewards, estimate, feature_map=fm, width=NO_BONUS)
    kernels = np.asfortranarray(problem.kernels)
    frozen = problem.rewards.copy()
    frozen.flags.writeable = False
    one = RegressionEstimate(
        estimate.weights[:, ::-1].copy()[:, ::-1],
        np.broadcast_to(estimate.precision[0], estimate.precision.shape),
    )
    plan = optimistic(kernels, frozen, one, feature_map=fm, width=NO_BONUS)
    np.testing.assert_allclose(plan.values, plain.values, atol=1e-14)


def test_bad_arguments_are_refused():
    problem = mixture(10)
    fm = reduced(3)
    good = exact_estimate(problem, fm)

    def plan(kernels=problem.kernels, rewards=problem.rewards, estimate=good, **more):
        return optimistic(kernels, rewards, estimate, feature_map=fm, width=NO_BONUS, **more)

    with pytest.raises(InvalidParameter, match=r"kernels must have shape \(3, states"):
        plan(kernels=problem.kernels[:2])
    with pytest.raises(
        InvalidParameter, match=r"rewards must have shape \(horizon, 4, 3\), got \(4, 3, 3\)"
    ):
        plan(rewards=problem.rewards[:, :3])
    with pytest.raises(InvalidParameter, match=r"estimates must have shapes \(3, 2\)"):
        plan(estimate=RegressionEstimate(good.weights[:2], good.precision[:2]))
    with pytest.raises(InvalidParameter, match=r"ceiling must have shape \(4,\)"):
        plan(ceiling=[1.0])
    with pytest.raises(InvalidParameter, match=r"values must have shape \(steps, 4\)"):
        value_features(fm, problem.kernels, np.zeros(4))
    with pytest.raises(InvalidParameter, match="at least 2"):
        reduced(1)
    with pytest.raises(InvalidParameter, match="span must be positive"):
        raw(3, span=0.0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("d", [3, 5, 6, 7])
def test_a_rounding_error_is_no_row(d, scale):
    """Where all kernels agree on the next state, X and y are zero up to rounding, and so must be
    what a user contributes.
    """
    problem = mixture(0, d=d)
    kernels = problem.kernels.copy()
    values = scale * np.random.default_rng(1).uniform(size=(3, 4))
    kernels[:, 0] = np.eye(4)[1]
    for fm in (reduced(d), raw(d, span=2.0 * scale)):
        features, weight = fitted_features(fm, kernels, values, balance=1.05)
        if fm.span is None:
            assert (weight[:, 0] == 0.0).all()
        assert (weight[:, 1:] > 0.0).all() and np.isfinite(features.rows).all()
    step = np.arange(3)
    zeros = np.zeros(3, dtype=np.int64)
    X, y = transition_rows(
        sparse(reduced(d), kernels), values, step, zeros, zeros, zeros + 1, balance=1.05
    )
    assert not X.any() and not y.any()
