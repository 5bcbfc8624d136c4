"""Weights from sums of codes: exact sums give them back, and noise is in the covariance."""

import numpy as np
import pytest

from confide.mixtures._likelihood_kernels import filter_rounds
from confide.mixtures.code_features import directions, mean_codes
from confide.mixtures.likelihood_planning import CodeSums, estimate_posterior, prior_state
from confide.planners.history import History, Layout
from confide.planners.visits import SERVED, ServedPolicies, fold, recall_served_policies
from confide.policy import TabularPolicy
from confide.problems import LinearMixtureMDP, rand

_DRAWN = rand(5, states=6, actions=2, horizon=4, dimension=3)
WEIGHTS = np.array(
    [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3], [1.0, 0.0, 0.0]]
)  # inside the simplex where they are learned
WORLD = LinearMixtureMDP(_DRAWN.kernels, WEIGHTS, _DRAWN.rewards, _DRAWN.start)
CODES = directions(WORLD.public.kernels)
COMMON = {
    "kernels": WORLD.public.kernels,
    "codes": CODES,
    "code_means": mean_codes(CODES, WORLD.public.kernels),
    "start": WORLD.public.start,
}
POLICIES = np.random.default_rng(0).integers(2, size=(5, 4, 6))


def expected_sums(users):
    """The exact means of the sums of codes, by pushing the true state distributions forward."""
    sums = np.zeros((3, 3))
    for policy, n in zip(POLICIES, users, strict=True):
        at = WORLD.start
        for h in range(3):
            P = np.einsum("i,isat->sat", WORLD.weights[h], WORLD.public.kernels)
            rows = np.arange(6), policy[h]
            sums[h] += n * np.einsum("s,st,stc->c", at, P[rows], CODES[rows])
            at = at @ P[rows]
    return sums


def serve(users):
    return ServedPolicies(POLICIES, np.asarray(users, dtype=float), np.zeros((3, 6, 2)))


def estimate(sums, served, *, noise_std, **common):
    """From one release, a prefix sum."""
    leaves = CodeSums(
        sums[None], np.array([noise_std]), np.zeros(len(served.users), dtype=np.int64)
    )
    nothing = prior_state(len(sums), len(common["kernels"]), sums.shape[1])
    return estimate_posterior(leaves, served, nothing, ratio=0.0, **common)


@pytest.mark.parametrize("ratio", [0.0, 0.7])
def test_the_filter_is_generalised_least_squares_over_all_rounds(ratio):
    """Against one large system: round t shares its noise z_t - ratio z_{t-1} with others."""
    rng = np.random.default_rng(2)
    T = 6
    c = 2
    d = 3
    M = rng.normal(size=(T, c, d))
    noise = rng.uniform(0.5, 2.0, T)
    truth = rng.normal(size=d)
    halves = rng.normal(size=(T, c, c))
    sampling = halves @ halves.transpose(0, 2, 1)
    sums = M @ truth + rng.normal(size=(T, c))
    shared = (
        np.diag(noise)
        + ratio**2 * np.diag(np.append(0.0, noise[:-1]))
        - ratio * (np.diag(noise[:-1], 1) + np.diag(noise[:-1], -1))
    )
    covariance = np.kron(shared, np.eye(c))
    for t in range(T):
        covariance[t * c : (t + 1) * c, t * c : (t + 1) * c] += sampling[t]
    rows = M.reshape(T * c, d)
    precision = rows.T @ np.linalg.solve(covariance, rows) + d * np.eye(d)
    expected = np.linalg.solve(precision, rows.T @ np.linalg.solve(covariance, sums.ravel()) + 1.0)
    nothing = prior_state(1, d, c)
    means, covariances = filter_rounds(
        sums, M, sampling, noise, ratio, nothing.mean[0], nothing.covariance[0]
    )
    np.testing.assert_allclose(means[-1, :d], expected, rtol=1e-8)
    np.testing.assert_allclose(covariances[-1, :d, :d], np.linalg.inv(precision), rtol=1e-8)


def test_rounds_that_were_folded_say_the_same():
    """Begun after two of five rounds with what the filter knew then."""
    rng = np.random.default_rng(3)
    T = 5
    c = 2
    d = 3
    M = rng.normal(size=(T, c, d))
    noise = rng.uniform(0.5, 2.0, T)
    sums = rng.normal(size=(T, c))
    sampling = np.tile(np.eye(c), (T, 1, 1))
    nothing = prior_state(1, d, c)
    means, covariances = filter_rounds(
        sums, M, sampling, noise, 0.7, nothing.mean[0], nothing.covariance[0]
    )
    later = filter_rounds(sums[2:], M[2:], sampling[2:], noise[2:], 0.7, means[2], covariances[2])
    np.testing.assert_allclose(later[0][-1], means[-1], rtol=1e-10)


def test_exact_sums_of_many_users_give_the_weights_back():
    users = [2e7, 1e7, 3e7, 1e7, 1e7]
    posterior = estimate(expected_sums(users), serve(users), noise_std=0.0, **COMMON)
    assert posterior.weights == pytest.approx(WORLD.weights[:3], abs=1e-4)
    assert posterior.weights.sum(axis=1) == pytest.approx(1.0) and (posterior.weights >= 0).all()


def test_nobody_served_means_equal_weights_and_the_prior():
    posterior = estimate(
        np.zeros((3, 3)),
        ServedPolicies(POLICIES[:0], np.zeros(0), np.zeros((3, 6, 2))),
        noise_std=0.0,
        **COMMON,
    )
    assert posterior.weights == pytest.approx(1 / 3)
    assert posterior.covariance[0] == pytest.approx((np.eye(3) - 1 / 3) / 3)
    assert posterior.signal == 0.0


def test_errors_are_as_large_as_the_covariance_says():
    """400 draws of the noise, error along each direction against its stated variance: a ratio of 1
    +- 0.07 (one s.e.).
    """
    users = [4000.0, 4000.0, 4000.0, 4000.0, 4000.0]
    exact = expected_sums(users)
    rng = np.random.default_rng(1)
    first = np.empty((400, 3))
    covariance = np.zeros((3, 3))
    for i in range(400):
        posterior = estimate(
            exact + rng.normal(0, 500.0, size=(3, 3)), serve(users), noise_std=500.0, **COMMON
        )
        first[i] = posterior.weights[0] - WORLD.weights[0]
        covariance = posterior.covariance[0]
    ratio = np.trace(np.cov(first.T)) / np.trace(covariance)
    # below one: the sampling covariance is in the stated one, and these sums have none
    assert 0.7 < ratio < 1.1
    assert np.linalg.eigvalsh(covariance).min() > -1e-12


def test_more_noise_means_more_uncertainty():
    users = [400.0] * 5
    little, much = (
        estimate(expected_sums(users), serve(users), noise_std=s, **COMMON) for s in (1.0, 100.0)
    )
    assert np.trace(much.covariance[0]) > 3 * np.trace(little.covariance[0])


def test_folding_keeps_the_expected_visits():
    users = [2e6, 1e6, 3e6, 1e6, 1e6]
    whole = serve(users)
    history = History(
        Layout(SERVED),
        {"policies": whole.policies, "users": whole.users, "earlier": whole.earlier},
    )
    before = estimate(expected_sums(users), whole, noise_std=0.0, **COMMON)
    folded = fold(history, before.states, 2)
    assert folded.count("policy") == 2 and folded["earlier"].sum() == pytest.approx(3 * 6e6)
    assert fold(folded, before.states, 2) is folded
    after = estimate(expected_sums(users), recall_served_policies(folded), noise_std=0.0, **COMMON)
    assert after.weights == pytest.approx(before.weights, abs=1e-6)


def test_predicted_states_are_those_of_the_policies():
    users = [2e7] * 5
    posterior = estimate(expected_sums(users), serve(users), noise_std=0.0, **COMMON)
    actions = TabularPolicy(POLICIES[0], 2).actions
    P = np.einsum("i,isat->sat", WORLD.weights[0], WORLD.public.kernels)
    assert posterior.states[1, 0] == pytest.approx(
        WORLD.start @ P[np.arange(6), actions[0]], abs=1e-3
    )


def test_what_nobody_tried_stays_unknown_however_many_come():
    """Kernels 0 and 1 differ where everybody goes, 1 and 2 where nobody does: without noise 1e7
    users do not settle the latter.
    """
    kernels = np.zeros((3, 3, 2, 3))
    kernels[:, :, :, 1] = 1.0
    kernels[0, 0, 0] = [0.0, 0.0, 1.0]
    kernels[2, 0, 1] = [1.0, 0.0, 0.0]
    codes = directions(kernels)
    all_of_them = ServedPolicies(
        np.zeros((1, 2, 3), dtype=np.int64), np.array([1e7]), np.zeros((1, 3, 2))
    )
    # Kernel 0 has no weight.
    sums = 1e7 * codes[0, 0, 1][None]
    posterior = estimate(
        sums,
        all_of_them,
        noise_std=0.0,
        kernels=kernels,
        codes=codes,
        code_means=mean_codes(codes, kernels),
        start=np.eye(3)[0],
    )
    undecided = np.array([0.0, 1.0, -1.0]) / np.sqrt(2)
    assert undecided @ posterior.covariance[0] @ undecided == pytest.approx(1 / 3, rel=0.01)
    assert posterior.weights[0] == pytest.approx([0.0, 0.5, 0.5], abs=1e-3)
