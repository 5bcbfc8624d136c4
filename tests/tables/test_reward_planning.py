"""The posterior of learned rewards agrees with quadrature, and is open about untried actions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from confide.policy import TabularPolicy
from confide.privacy.bounded import NoiseLevel, Released
from confide.privacy.guarantee import no_guarantee
from confide.problems import TabularMDP, riverswim
from confide.tables.contributions import BudgetedCounts, BudgetedVisits
from confide.tables.model_planning import (
    Counts,
    Posterior,
    append_round,
    estimate_counts,
    predict_contributions,
    recall_rounds,
)
from confide.tables.reward_planning import (
    ALIKE_STATES,
    APART_STATES,
    OWN_REWARDS,
    UnitNormals,
    reward_posterior,
)
from confide.tables.support_features import support_of

S = 40
A = 3
SUPPORT = support_of(None, layers=1, states=S, actions=A, terminal=None)
BALANCE = 180 / 256


def posterior_of(rewards, samples, noise):
    """A posterior of S states, from exact sums of rewards [s, a] in so many samples [s, a]."""
    rewards, samples = (
        np.broadcast_to(np.asarray(each, dtype=float), (S, A)).ravel()
        for each in (rewards, samples)
    )
    counts = Counts(np.zeros(SUPPORT.cells), rewards * samples, np.full(S * A, float(noise)))
    return Posterior(counts, np.maximum(samples, max(2 * noise, 1e-12)), np.zeros(0), np.zeros(0))


@pytest.mark.parametrize(
    ("m", "s"), [(0.5, 0.1), (0.5, 2.0), (-1.0, 0.4), (1.4, 0.3), (0.01, 0.02), (0.0, 100.0)]
)
def test_normals_that_are_cut(m, s):
    unit = UnitNormals(np.full(4000, m), np.full(4000, s))
    exact = stats.truncnorm(-m / s, (1 - m) / s, m, s)
    assert unit.mass[0] == pytest.approx(
        integrate.quad(lambda r: stats.norm.pdf(r, m, s), 0, 1)[0], rel=1e-6
    )
    assert unit.mean[0] == pytest.approx(exact.mean(), rel=1e-5)
    assert stats.kstest(unit.draw(np.random.default_rng(0)), exact.cdf).pvalue > 1e-4


def test_far_from_the_range_draws_are_at_its_ends():
    unit = UnitNormals(np.array([-50.0, 40.0, 1.05]), np.array([0.5, 0.5, 1e-4]))
    np.testing.assert_allclose(unit.draw(np.random.default_rng(0)), [0, 1, 1], atol=0.05)
    np.testing.assert_allclose(unit.mean, [0, 1, 1], atol=0.05)


def test_chances_are_what_quadrature_gives():
    """In a table of zeros, the first action of one state earns 0.8. Its others have few samples."""
    rewards = np.zeros((S, A))
    samples = np.full((S, A), 2000.0)
    noise = 10.0
    rewards[0] = [0.8, 0.5, 0.1]
    samples[0] = [100.0, 60.0, 30.0]
    posterior = reward_posterior(posterior_of(rewards, samples, noise), SUPPORT, BALANCE)
    m = posterior.action_reward.centres[0]
    s = posterior.action_reward.stds[0]
    np.testing.assert_allclose(m, rewards[0])
    spike = stats.norm.pdf(m, posterior.common[0], s)
    slab = np.array(
        [integrate.quad(lambda r, a=a: stats.norm.pdf(m[a], r, s[a]), 0, 1)[0] for a in range(A)]
    )
    alike = integrate.quad(lambda r: stats.norm.pdf(m, r, s).prod(), 0, 1)[0]
    mixed = ((1 - OWN_REWARDS) * spike + OWN_REWARDS * slab).prod()
    weights = np.array(
        [
            (1 - ALIKE_STATES - APART_STATES) * spike.prod(),
            ALIKE_STATES * alike,
            APART_STATES * mixed,
        ]
    )
    np.testing.assert_allclose(posterior.chances[:, 0], weights / weights.sum(), rtol=1e-5)
    np.testing.assert_allclose(
        posterior.own[0],
        OWN_REWARDS * slab / ((1 - OWN_REWARDS) * spike + OWN_REWARDS * slab),
        rtol=1e-5,
    )


@pytest.mark.parametrize("noise", [0.0, 10.0])
def test_the_mean_and_the_draws_find_rewards(noise):
    truth = np.random.default_rng(0).random((S, A)) * (np.arange(S) % 4 == 0)[:, None]
    posterior = reward_posterior(posterior_of(truth, 20_000.0, noise), SUPPORT, BALANCE)
    draws = np.stack([posterior.draw(np.random.default_rng(i)) for i in range(50)])
    assert (
        not posterior.common.any()
        and np.abs(posterior.mean - truth.ravel()).max() < 0.01
        and np.abs(draws - truth.ravel()).max() < 0.05
    )


@pytest.mark.parametrize("noise", [0.0, 10.0])
def test_what_nobody_tried_may_be_worth_anything(noise):
    """States 0 and 1 are untried, and so are two actions of state 2, whose third action earns 1.

    All other pairs were tried often and earn nothing. Shares are those of 4,000 draws, whose four
    standard deviations are at most 0.032.
    """
    rewards = np.zeros((S, A))
    samples = np.full((S, A), 1000.0)
    samples[:2] = 0.0
    samples[2] = [0.0, 0.0, 1000.0]
    rewards[2] = [0.0, 0.0, 1.0]
    posterior = reward_posterior(posterior_of(rewards, samples, noise), SUPPORT, BALANCE)
    draws = np.stack([posterior.draw(np.random.default_rng([i, 1])) for i in range(4000)]).reshape(
        4000, S, A
    )
    prior = ALIKE_STATES + APART_STATES * OWN_REWARDS
    np.testing.assert_allclose((draws[:, :2] > 0).mean(axis=0), prior, atol=0.02)
    np.testing.assert_allclose((draws[:, :2] > 0.9).mean(axis=0), 0.1 * prior, atol=0.01)
    # In a tie the untried action is tried.
    equal = (draws[:, 2, 0] == draws[:, 2, 2]).mean()
    assert equal == pytest.approx(
        ALIKE_STATES / (ALIKE_STATES + APART_STATES * OWN_REWARDS), abs=0.032
    )


def test_actions_may_have_a_common_reward_each():
    """Action 2 earns nothing and the others 0.3, and a state where it is untried expects the same.

    If only one state differs from all others, there is one common reward for all actions.
    """
    samples = np.full((S, A), 300.0)
    samples[0, 2] = 0.0
    posterior = reward_posterior(posterior_of([0.3, 0.3, 0.0], samples, 10.0), SUPPORT, BALANCE)
    np.testing.assert_allclose(posterior.common, [0.3, 0.3, 0.0], atol=1e-9)
    assert posterior.mean[2] < 0.2
    rewards = np.zeros((S, A))
    rewards[0] = 1.0, 0.0, 0.5
    np.testing.assert_array_equal(
        reward_posterior(posterior_of(rewards, 300.0, 10.0), SUPPORT, BALANCE).common, np.zeros(A)
    )


def test_noise_in_few_samples_is_no_evidence():
    """Sums far below zero, of pairs whose samples are within their noise: they may still earn 1."""
    rewards = np.zeros((S, A))
    samples = np.full((S, A), 1000.0)
    rewards[0] = -3.0
    samples[0] = 20.0
    posterior = reward_posterior(posterior_of(rewards, samples, 10.0), SUPPORT, BALANCE)
    draws = np.stack([posterior.draw(np.random.default_rng(i)) for i in range(4000)]).reshape(
        4000, S, A
    )
    np.testing.assert_allclose(
        (draws[:, 0] > 0.5).mean(axis=0), (ALIKE_STATES + APART_STATES * OWN_REWARDS) / 2, atol=0.02
    )


def test_sums_are_in_the_unit_of_counts():
    """Without noise, what a pair earned divided by its samples is its mean reward.

    The balance is divided out. The users are those of riverswim.
    """
    river = riverswim()
    problem = TabularMDP(
        river.transitions, river.rewards, river.start, stochastic_rewards=True, name="coins"
    )
    support = support_of(None, layers=1, states=6, actions=2, terminal=None)
    bound = BudgetedCounts(support.cells, support.pairs, 20, BALANCE)
    weights = np.full(12, np.sqrt(1 / 20))
    right = np.ones((1, 20, 6), dtype=np.int64)
    users = problem.sample(TabularPolicy(right[0], 2), 5_000, np.random.default_rng(0))
    values = BudgetedVisits(support, weights, bound).contribution(users).values
    no_noise = NoiseLevel(0.0, "none")
    users_by_policy = np.array([5_000.0])
    first = Released(
        np.zeros(bound.size), no_noise, no_guarantee(5_000), 0, 0, {"seed": np.array(0)}
    )
    history = recall_rounds(first, support, policies=1, horizon=20, window=12)
    history = append_round(
        history.replace(shown=right, counted=weights),
        replace(first, values=values, users=5_000, generation=1),
        users_by_policy,
        differences=True,
    )
    counts = estimate_counts(
        predict_contributions(history, support, problem.start), support, 0.0, BALANCE
    )
    samples = counts.moves.reshape(12, 6).sum(axis=1)
    # the right end, to the right
    assert counts.rewards[11] / samples[11] == pytest.approx(1.0, abs=1e-3)
