"""Weights from sums of codes: exact sums give them back, and noise is reflected in the covariance."""

import numpy as np
import pytest

from confide.mixtures.code_features import directions, means
from confide.mixtures.likelihood_planning import posterior
from confide.planners.visits import Served, fold
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
    "code_means": means(CODES, WORLD.public.kernels),
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


def served(users):
    return Served(POLICIES, np.asarray(users, dtype=float), np.zeros((3, 6, 2)))


def test_exact_sums_of_many_users_give_the_weights_back():
    users = [2e7, 1e7, 3e7, 1e7, 1e7]
    known = posterior(expected_sums(users), served(users), noise_std=0.0, **COMMON)
    assert known.weights == pytest.approx(WORLD.weights[:3], abs=1e-4)
    assert known.weights.sum(axis=1) == pytest.approx(1.0) and (known.weights >= 0).all()


def test_nobody_served_means_equal_weights_and_the_prior():
    known = posterior(np.zeros((3, 3)), Served(POLICIES[:0], np.zeros(0), np.zeros((3, 6, 2))), noise_std=0.0, **COMMON)
    assert known.weights == pytest.approx(1 / 3)
    assert known.covariance[0] == pytest.approx((np.eye(3) - 1 / 3) / 3)
    assert known.signal == 0.0


def test_errors_are_as_large_as_the_covariance_says():
    """400 draws of the noise, error along each direction against its stated variance: a ratio of 1 +- 0.07 (one s.e.)."""
    users = [4000.0, 4000.0, 4000.0, 4000.0, 4000.0]
    exact, rng = expected_sums(users), np.random.default_rng(1)
    first = np.empty((400, 3))
    covariance = np.zeros((3, 3))
    for i in range(400):
        known = posterior(exact + rng.normal(0, 500.0, size=(3, 3)), served(users), noise_std=500.0, **COMMON)
        first[i], covariance = known.weights[0] - WORLD.weights[0], known.covariance[0]
    ratio = np.trace(np.cov(first.T)) / np.trace(covariance)
    assert 0.7 < ratio < 1.1  # below one: the sampling covariance is in the stated one, and these sums have none
    assert np.linalg.eigvalsh(covariance).min() > -1e-12


def test_more_noise_means_more_uncertainty():
    users = [400.0] * 5
    little, much = (posterior(expected_sums(users), served(users), noise_std=s, **COMMON) for s in (1.0, 100.0))
    assert np.trace(much.covariance[0]) > 3 * np.trace(little.covariance[0])


def test_folding_keeps_the_expected_visits():
    users = [2e6, 1e6, 3e6, 1e6, 1e6]
    whole = served(users)
    before = posterior(expected_sums(users), whole, noise_std=0.0, **COMMON)
    folded = fold(whole, before.states, 2)
    assert len(folded.users) == 2 and folded.earlier.sum() == pytest.approx(3 * 6e6)
    assert fold(folded, before.states, 2) is folded
    after = posterior(expected_sums(users), folded, noise_std=0.0, **COMMON)
    assert after.weights == pytest.approx(before.weights, abs=1e-6)


def test_predicted_states_are_those_of_the_policies():
    users = [2e7] * 5
    known = posterior(expected_sums(users), served(users), noise_std=0.0, **COMMON)
    actions = TabularPolicy(POLICIES[0], 2).actions
    P = np.einsum("i,isat->sat", WORLD.weights[0], WORLD.public.kernels)
    assert known.states[1, 0] == pytest.approx(WORLD.start @ P[np.arange(6), actions[0]], abs=1e-3)


def test_what_nobody_tried_stays_unknown_however_many_come():
    """Kernels 0 and 1 differ where everybody goes, 1 and 2 where nobody does: without noise 1e7 users do not settle the latter."""
    kernels = np.zeros((3, 3, 2, 3))
    kernels[:, :, :, 1] = 1.0
    kernels[0, 0, 0] = [0.0, 0.0, 1.0]
    kernels[2, 0, 1] = [1.0, 0.0, 0.0]
    codes = directions(kernels)
    all_of_them = Served(np.zeros((1, 2, 3), dtype=np.int64), np.array([1e7]), np.zeros((1, 3, 2)))
    sums = 1e7 * codes[0, 0, 1][None]  # kernel 0 has no weight
    known = posterior(
        sums, all_of_them, noise_std=0.0, kernels=kernels, codes=codes, code_means=means(codes, kernels), start=np.eye(3)[0]
    )
    undecided = np.array([0.0, 1.0, -1.0]) / np.sqrt(2)
    assert undecided @ known.covariance[0] @ undecided == pytest.approx(1 / 3, rel=0.01)
    assert known.weights[0] == pytest.approx([0.0, 0.5, 0.5], abs=1e-3)
