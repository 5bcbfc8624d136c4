import numpy as np
import pytest
from scipy.stats import binom

from confide import NoPrivacy
from confide.evaluation import CountsAndSums
from confide.evaluation.skewness import reach_beyond_normal, third_moment_per_variance
from confide.logs import in_memory
from confide.trajectory import LoggedUsers

Z = 1.6449


def moments(values, shares):
    mean = shares @ values
    deviation = values - mean
    return mean, shares @ values**2, shares @ deviation**2, shares @ deviation**3


def test_the_bound_never_exceeds_the_third_moment():
    rng = np.random.default_rng(0)
    for _ in range(500):
        values = rng.random(5) ** rng.uniform(0.2, 5)
        shares = rng.dirichlet(np.full(5, 0.3))
        mean, second, variance, third = moments(values, shares)
        bound = float(third_moment_per_variance(np.array(mean), np.array(second)))
        assert bound == 0 or bound * variance <= third + 1e-12


def test_the_bound_is_reached_by_returns_of_one_size():
    mean, second, variance, third = moments(np.array([0.0, 0.3]), np.array([0.9, 0.1]))
    bound = float(third_moment_per_variance(np.array(mean), np.array(second)))
    assert bound == pytest.approx(third / variance)


def test_rare_wins_move_the_upper_end_and_rare_losses_the_lower_end():
    counts = np.array([1000.0, 1000.0, 1000.0])
    # In units of [-1, 1]: ten wins, ten losses, and as many of both.
    sums = np.array([-980.0, 980.0, 0.0])
    below, above = reach_beyond_normal(counts, sums, counts, Z)
    assert above[0] > 0.001
    assert below[0] == 0
    np.testing.assert_allclose(below, above[[1, 0, 2]], rtol=1e-12)
    assert below[2] == above[2] == 0


def test_a_state_with_few_winners_is_covered_as_often_as_stated():
    """1,700 one-step users, of whom 0.2 % to 0.6 % earn 1.

    Exact coverage, averaged over the rate.
    """
    users = 1700
    wins = np.arange(100)
    counts = np.full(len(wins), float(users))
    below, above = reach_beyond_normal(counts, 2.0 * wins - users, counts, Z)
    share = wins / users
    half_width = Z * np.sqrt(share * (1 - share) / users)
    normal = []
    ours = []
    for rate in np.linspace(0.002, 0.006, 41):
        probability = binom.pmf(wins, users, rate)
        hit = np.abs(share - rate) <= half_width
        normal.append(probability[hit].sum())
        # Half of it, because these wins are in [0, 1] and not in [-1, 1].
        hit = (share - half_width - below / 2 <= rate) & (rate <= share + half_width + above / 2)
        ours.append(probability[hit].sum())
    assert np.mean(normal) < 0.875
    assert 0.9 < np.mean(ours) < 0.93


def test_an_estimate_reaches_farther_up_and_not_less_far_down():
    users = 1000
    rewards = np.zeros(users)
    rewards[:10] = 1.0
    every = np.arange(users + 1)
    states = np.zeros(users, dtype=np.int64)
    log = in_memory(LoggedUsers(states, rewards, every, every, np.ones(users, dtype=bool)))
    estimate = CountsAndSums(states=1, return_bound=1.0).release(log, privacy=NoPrivacy())
    low, high = estimate.interval(0.9)
    half_width = Z * np.sqrt(0.01 * 0.99 / users)
    assert low[0] == pytest.approx(0.01 - half_width, rel=1e-3)
    assert high[0] > 0.01 + half_width + 0.0005
