"""The posterior of a table: against quadrature, brute force and simulated rounds."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from confide.errors import InvalidParameter
from confide.planners.backward_induction import optimal
from confide.policy import TabularPolicy
from confide.privacy.bounded import NoiseLevel, Released
from confide.privacy.guarantee import no_guarantee
from confide.problems import garnet, riverswim
from confide.tables import _model_kernels as kernels
from confide.tables import model_planning
from confide.tables.contributions import BudgetedCounts, BudgetedVisits
from confide.tables.model_planning import (
    append_round,
    best_policy,
    draw_model,
    estimate_counts,
    expected_visits,
    fold_old_releases,
    model_posterior,
    predict_contributions,
    recall_rounds,
)
from confide.tables.support_features import support_of

GARNET = garnet(states=4, actions=2, branches=2, horizon=6, rewarded=1)
SUPPORT = support_of(None, layers=1, states=4, actions=2, terminal=None)
TRUTH = GARNET.transitions.dense()[0].ravel()
Q = 4


@pytest.mark.parametrize(
    ("y", "s", "N"),
    [(3.0, 2.0, 10.0), (-4.0, 2.0, 10.0), (9.5, 1.0, 10.0), (25.0, 3.0, 10.0), (0.1, 5.0, 2.0)],
)
def test_spike_and_slab_is_what_quadrature_gives(y, s, N):
    slab = 0.2
    inside = integrate.quad(lambda n: stats.norm.pdf(y, n, s) / N, 0, N)[0]
    first = integrate.quad(lambda n: n * stats.norm.pdf(y, n, s) / N, 0, N)[0]
    (chance,), (mean,) = kernels.spike_and_slab(
        np.array([y]), np.array([s]), np.array([N]), np.array([slab]), np.array([0, 1])
    )
    assert chance == pytest.approx(
        slab * inside / (slab * inside + (1 - slab) * stats.norm.pdf(y, 0, s)), rel=1e-6
    )
    assert mean == pytest.approx(first / inside, rel=1e-6)


def test_far_away_and_without_noise_nothing_is_lost_to_rounding():
    y = np.array([-1e6, 1e6, 0.0, 3.0])
    chances, means = kernels.spike_and_slab(
        y, np.array([1.0]), np.array([10.0]), np.array([0.2]), np.array([0, 4])
    )
    assert (
        np.isfinite(chances).all()
        and np.isfinite(means).all()
        and chances[0] < 1e-3
        and (chances[1], means[1]) == (1.0, 10.0)
    )
    chances, means = kernels.spike_and_slab(
        y, np.zeros(1), np.array([10.0]), np.array([0.2]), np.array([0, 4])
    )
    np.testing.assert_array_equal(chances, [0, 1, 0, 1])
    np.testing.assert_array_equal(means, [0, 1e6, 0, 3])


@pytest.mark.parametrize(
    ("a", "b"),
    [(-1.0, 1.0), (-5.0, 0.5), (0.5, 0.9), (2.0, 9.0), (-9.0, -3.0), (6.0, 6.1), (-0.2, 8.0)],
)
def test_truncated_normals(a, b):
    """A Kolmogorov-Smirnov test with 4,000 draws. The false-alarm rate of each case is 1e-4."""
    rng = np.random.default_rng(3)
    draws = np.array([kernels._draw_truncated_normal(a, b, rng) for _ in range(4000)])
    assert draws.min() >= a and draws.max() <= b
    assert stats.kstest(draws, stats.truncnorm(a, b).cdf).pvalue > 1e-4


def test_best_policy_and_visits_are_those_of_the_exact_planner():
    rewards = GARNET.rewards
    actions = best_policy(TRUTH, rewards, SUPPORT)
    assert GARNET.value(TabularPolicy(actions, 2)) == pytest.approx(GARNET.optimal_value, rel=1e-12)
    visits = expected_visits(actions[None], TRUTH, SUPPORT, GARNET.start)[0].reshape(4, 2)
    assert visits.sum() == pytest.approx(6) and (visits * rewards[0]).sum() == pytest.approx(
        GARNET.optimal_value
    )


@pytest.mark.parametrize("graph", [None, TRUTH.reshape(4, 2, 4) > 0], ids=["all", "support"])
@pytest.mark.parametrize("large", [2**19, 0], ids=["dense", "thinned"])
def test_a_hopeful_pair_leads_to_the_best_that_may_follow(graph, large, monkeypatch):
    monkeypatch.setattr(model_planning, "LARGE_TABLE_CELLS", large)
    support = support_of(graph, layers=1, states=4, actions=2, terminal=None)
    model = TRUTH if graph is None else TRUTH[TRUTH > 0]
    hopeful = np.arange(8) % 3 == 0
    reached = np.ones((8, 4), bool) if graph is None else graph.reshape(8, 4)

    def ahead(_, v):
        best = np.where(reached, v, -np.inf).max(axis=1)
        return np.where(hopeful, best, TRUTH.reshape(8, 4) @ v).reshape(4, 2)

    rewards = np.random.default_rng(0).random((6, 4, 2))
    np.testing.assert_array_equal(
        best_policy(model, rewards, support, hopeful), optimal(ahead, rewards)[1].actions
    )


def test_untried_is_what_may_be_noise():
    counts = model_planning.Counts(
        np.repeat([2.0, 30.0, 2.0, 100.0, 1.0, 9.0, 400.0, 0.0], 4) / 4,
        np.zeros(0),
        np.repeat([0.0, 10.0], 4),
    )
    untried = model_planning.untried_pairs(model_posterior(counts, SUPPORT), SUPPORT).tolist()
    assert untried[:4] == [True, False, True, False] and untried[4:] == [True, True, False, True]


def test_a_terminal_state_keeps_what_it_earns():
    """Stop for .5 per step, or go on: the terminal state has no cells, and stays where it is."""
    support = support_of(None, layers=1, states=2, actions=2, terminal=np.array([False, True]))
    model = np.array([0.0, 1.0, 1.0, 0.0])
    rewards = np.broadcast_to(np.array([[0.0, 0.2], [0.5, 0.5]]), (5, 2, 2))
    actions = best_policy(model, rewards, support)
    P = np.array([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    np.testing.assert_array_equal(
        actions[:, 0], optimal(lambda _, v: P @ v, rewards)[1].actions[:, 0]
    )


def release(values, std, generation, memory):
    return Released(
        values, NoiseLevel(std, "gaussian"), no_guarantee(10**6), 10**6, generation, memory
    )


def beginning(window=12):
    size = BudgetedCounts(SUPPORT.cells, SUPPORT.pairs, 6).size
    first = release(np.zeros(size), 0.0, 0, {"seed": np.array(0)})
    return recall_rounds(first, SUPPORT, policies=Q, horizon=6, window=window)


def rounds(n, users, sigma, ratio, seed=0, window=12):
    """So many rounds of random policies in the true model, and what is remembered of them."""
    rng = np.random.default_rng(seed)
    bound = BudgetedCounts(SUPPORT.cells, SUPPORT.pairs, 6)
    weights = np.full(SUPPORT.pairs, math.sqrt(1 / 6))
    visits = BudgetedVisits(SUPPORT, weights, bound)
    history = beginning()
    total = np.zeros(bound.size)
    variance = 0.0
    for generation in range(1, n + 1):
        policies = rng.integers(2, size=(Q, 6, 4))
        leaf = sum(
            visits.contribution(GARNET.sample(TabularPolicy(p, 2), users, rng)).values
            for p in policies
        )
        noise = rng.normal(size=bound.size) * sigma
        if ratio:
            total = ratio * total + leaf
            variance = sigma**2
            values = total + noise
        else:
            total, variance = total + leaf + noise, variance + sigma**2
            values = total
        history = append_round(
            history.replace(shown=policies, counted=weights),
            release(values, math.sqrt(variance), generation, {}),
            np.full(Q, float(users)),
            differences=not ratio,
        )
        for _ in range(2):
            history = predict_contributions(history, SUPPORT, GARNET.start)
            posterior = model_posterior(estimate_counts(history, SUPPORT, ratio), SUPPORT)
            history = history.replace(model=posterior.mean)
        history = fold_old_releases(history, SUPPORT, ratio, window)
    return history, posterior


@pytest.mark.parametrize("ratio", [0.0, 1 / 1.3])
@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_the_mean_and_the_draws_find_the_table(ratio, sigma):
    _, posterior = rounds(8, 500, sigma, ratio)
    assert np.abs(posterior.mean - TRUTH).max() < 0.05
    draws = np.stack([draw_model(posterior, SUPPORT, np.random.default_rng(i)) for i in range(50)])
    np.testing.assert_allclose(draws.reshape(50, 8, 4).sum(axis=2), 1.0)
    assert np.abs(draws.mean(axis=0) - TRUTH).max() < 0.05


@pytest.mark.parametrize("ratio", [0.0, 1 / 1.3])
def test_folding_old_releases_away_changes_little(ratio):
    whole, few = (rounds(9, 200, 1.0, ratio, window=window)[1] for window in (12, 4))
    assert np.abs(whole.mean - few.mean).max() < 0.05
    history, _ = rounds(9, 200, 1.0, ratio, window=4)
    assert history.count("release") == 4 and history.count("round") == 9


@pytest.mark.parametrize("ratio", [0.0, 1 / 1.3])
def test_the_noise_of_a_count_has_the_stated_standard_deviation(ratio):
    """The same users get fresh noise 300 times, and standard deviations must agree within 15 %.

    The false-alarm rate is below 1e-3 for all 32 cells together.
    """
    noisy_counts = []
    for seed in range(300):
        history, _ = CACHED[ratio]
        rng = np.random.default_rng([seed, 7])
        noisy = (
            history["releases"]
            + rng.normal(size=history["releases"].shape) * np.sqrt(history["noises"])[:, None]
        )
        noisy_counts.append(estimate_counts(history.replace(releases=noisy), SUPPORT, ratio))
    spread = np.stack([counts.moves for counts in noisy_counts]).std(axis=0)
    np.testing.assert_allclose(spread, np.repeat(noisy_counts[0].noise, 4), rtol=0.15)


CACHED = {ratio: rounds(6, 100, 1.0, ratio) for ratio in (0.0, 1 / 1.3)}


@pytest.mark.parametrize(
    "change",
    [
        {"policies": np.full((6, Q, 6, 4), 2)},
        {"policies": np.full((6, Q, 6, 4), -1)},
        {"policies": np.zeros((6, Q, 6, 4))},
        {"means": np.zeros((5, 8))},
        {"noises": np.full(6, -1.0)},
        {"releases": np.full((6, 32), np.nan)},
        {"model": np.zeros(31)},
        {"last": None},
        {"shown": np.full((Q, 6, 4), 2)},
        {"counted": np.full(8, 1.5)},
        {"total": np.array(10**6 + 1)},
        {"another": np.zeros(1)},
    ],
)
def test_a_memory_that_does_not_fit_is_refused(change):
    """On a device a server says what was: nothing of it may lead a compiled loop astray."""
    history, _ = CACHED[1 / 1.3]
    sizes = {"policies": Q, "horizon": 6, "window": 12}
    fits = release(np.zeros(32), 1.0, 7, history.arrays)
    assert recall_rounds(fits, SUPPORT, **sizes).count("round") == 6
    wrong = release(np.zeros(32), 1.0, 7, {**history.arrays, **change})
    with pytest.raises(InvalidParameter, match="does not fit"):
        recall_rounds(wrong, SUPPORT, **sizes)
    assert beginning().count("round") == 0
    assert riverswim().public.stationary


def test_a_large_table_is_planned_as_if_small_chances_were_equal(monkeypatch):
    """The thinned model has the visits and policies of the dense model with evened-out cells."""
    S = 12
    A = 3
    H = 6
    rng = np.random.default_rng(4)
    ends = np.arange(S) == S - 1
    support = support_of(None, layers=1, states=S, actions=A, terminal=ends)
    dense = rng.random((support.cells // S, S)) * 0.01
    dense[np.arange(len(dense)), rng.integers(S, size=len(dense))] += 1.0
    dense /= dense.sum(axis=1, keepdims=True)
    faint = dense < model_planning.THINNING_MULTIPLE / S
    assert faint.sum() == len(dense) * (S - 1)
    evened = np.where(faint, 0.0, dense) + (dense * faint).sum(axis=1, keepdims=True) / S
    start = np.full(S, 1 / S)
    rewards = rng.random((H, S, A))
    expected = best_policy(evened.ravel(), rewards, support)
    visits = expected_visits(expected[None], evened.ravel(), support, start)
    monkeypatch.setattr(model_planning, "LARGE_TABLE_CELLS", 0)
    assert np.array_equal(best_policy(dense.ravel(), rewards, support), expected)
    assert np.allclose(expected_visits(expected[None], dense.ravel(), support, start), visits)
