"""Counts and sums: accuracy, intervals, plans."""

import math

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.evaluation import CountsAndSums, ValueEstimate
from confide.evaluation.shrinkage import Ratios, empirical_bayes, shrink_to_centre, standardise
from confide.privacy import CentralDP, NoPrivacy

STATES, DISCOUNT = 8, 0.95
COMMON = {"states": STATES, "discount": DISCOUNT, "return_bound": 1.0}
PRIVATE = CentralDP(1.0, 1e-6)


def errors(chain, estimator, users, runs, seed=0):
    data = [chain.held(users, s) for s in range(10)]
    rng = np.random.default_rng(seed)
    return [
        chain.rmse(estimator.release(data[i % 10], privacy=PRIVATE, rng=rng)) for i in range(runs)
    ]


def test_the_formula(chain):
    """V = c + R b n/(n^2 + (sigma_b R/s0)^2), as it is documented."""
    released = CountsAndSums(**COMMON | {"return_bound": 2.0}, prior_std=0.2)
    estimate = released.release(chain.log(), privacy=PRIVATE, rng=np.random.default_rng(0))
    n, b, std = (estimate.released[name] for name in ("counts", "sums", "sum_std"))
    n = np.maximum(n, 0)
    expected = 1.0 + 1.0 * b * n / (n**2 + (std * 1.0 / 0.4) ** 2)
    np.testing.assert_allclose(estimate.values, np.clip(expected, 0, 2), rtol=1e-12)


def test_noise_has_the_stated_size_on_the_values(chain):
    """300 releases of one log, 8 states: relative standard error 1.5 %.

    A scale wrong by 20 % must be rejected.
    """
    estimator, data, rng = CountsAndSums(**COMMON), chain.held(20_000), np.random.default_rng(0)
    estimates = [estimator.release(data, privacy=PRIVATE, rng=rng) for _ in range(300)]
    seen = np.std([estimate.values for estimate in estimates], axis=0)
    stated = np.mean([estimate.noise_std for estimate in estimates], axis=0)
    ratio = float(np.sqrt(np.mean((seen / stated) ** 2)))
    assert 0.93 < ratio < 1.07
    assert not 0.93 < ratio / 0.8 < 1.07


@pytest.mark.parametrize("users", [300, 2000])
def test_intervals_cover(users, chain):
    """200 runs x 8 states: the standard error of the coverage is about 1 %."""
    estimator, rng, hits = (
        CountsAndSums(**COMMON),
        np.random.default_rng(1),
        [],
    )
    for run in range(200):
        lower, upper = estimator.release(chain.held(users, run), privacy=PRIVATE, rng=rng).interval(
            0.9
        )
        hits.append((lower <= chain.values) & (upper >= chain.values))
    assert 0.85 <= np.mean(hits) <= 0.98


def test_the_value_of_the_logged_policy_has_an_interval_that_covers(chain):
    """200 runs of 500 users.

    Between 84 and 97 %, where 90 are expected and the standard error is 2 %.
    """
    estimator, rng, hits = CountsAndSums(**COMMON), np.random.default_rng(2), []
    for run in range(200):
        logged = estimator.release(chain.held(500, run), privacy=PRIVATE, rng=rng).logged_value()
        hits.append(logged.low <= chain.values.mean() <= logged.high)
    assert 0.84 <= np.mean(hits) <= 0.97


def test_without_noise_values_are_the_means_of_cells_with_the_textbooks_intervals(chain):
    users = chain.users(2000)
    estimate = CountsAndSums(**COMMON, visits=None).release(chain.held(2000), privacy=NoPrivacy())
    ends = users.trajectories[1:]
    own = DISCOUNT ** (np.diff(users.trajectories) - 1)
    logged = estimate.logged_value()
    assert logged.value == pytest.approx(own.mean(), abs=1e-6)
    width = 2 * 1.645 * own.std() / np.sqrt(len(own))
    assert logged.high - logged.low == pytest.approx(width, rel=0.02)
    low, high = estimate.interval()
    for state in range(STATES):
        first = [
            int(np.argmax(users.states[start:stop] == state)) + start
            for start, stop in zip(users.trajectories[:-1], ends, strict=True)
            if (users.states[start:stop] == state).any()
        ]
        cell = DISCOUNT ** (ends[np.searchsorted(ends, first, "right")] - 1 - np.array(first))
        assert estimate.values[state] == pytest.approx(cell.mean(), abs=1e-6)
        width = 2 * 1.645 * cell.std() / np.sqrt(len(cell))
        assert high[state] - low[state] == pytest.approx(width, rel=0.02, abs=2e-3)


def test_intervals_cover_everything_without_data(chain):
    plain = CountsAndSums(**COMMON)
    nobody = plain.release(chain.log(1), privacy=PRIVATE, rng=np.random.default_rng(0)).interval(
        0.99
    )
    assert (nobody[0] == 0).mean() > 0.5 and (nobody[1] == 1).mean() > 0.5
    with pytest.raises(InvalidParameter, match="level"):
        plain.release(chain.log(10), privacy=PRIVATE, rng=np.random.default_rng(0)).interval(1.0)


@pytest.mark.parametrize("visits", [None, 3])
@pytest.mark.parametrize("users", [1000, 10_000])
def test_the_plan_is_within_30_percent(users, visits, chain):
    estimator = CountsAndSums(**COMMON, visits=visits)
    shares = np.minimum(np.arange(STATES) + 1, visits or STATES) / STATES
    planned = estimator.plan(users, PRIVATE, shares, return_std=0.06).rmse
    assert planned == pytest.approx(np.mean(errors(chain, estimator, users, 40)), rel=0.3)


def test_a_plan_says_what_it_assumes_and_knows_no_data(chain):
    plan = CountsAndSums(states=716, visits=20, return_bound=1.0).plan(50_000, PRIVATE)
    assert "same share of users" in str(
        plan
    ) and "the largest variance that their range allows" in str(plan)
    assert plan.rmse == pytest.approx(math.hypot(plan.noise, plan.sampling))
    assert (
        CountsAndSums(states=716, visits=20, return_bound=1.0).plan(50_000, NoPrivacy()).noise
        < 1e-6
    )
    with pytest.raises(InvalidParameter, match="users"):
        CountsAndSums(states=4, return_bound=1.0).plan(0, PRIVATE)
    with pytest.raises(InvalidParameter, match="visit_shares"):
        CountsAndSums(states=4, return_bound=1.0).plan(10, PRIVATE, chain.shares)


def world(rng, states, visits, spread, noise, slope=0.0):
    z = np.linspace(-1, 1, states)
    n = rng.gamma(2.0, visits / 2, states)
    v = np.clip(0.4 + slope * z + spread * rng.standard_t(4, states), -1, 1)
    b = n * v + rng.normal(size=states) * np.sqrt(n * (1 - v**2))
    return (
        v,
        z[:, None],
        Ratios(
            n + noise * rng.normal(size=states),
            b + noise * rng.normal(size=states),
            n + noise * rng.normal(size=states),
            noise,
            noise,
        ),
    )


@pytest.mark.parametrize(
    ("visits", "spread", "slope"), [(20, 0.05, 0.0), (100, 0.1, 0.3), (2000, 0.2, 0.3)]
)
def test_borrowing_from_the_mean_and_from_components_helps(visits, spread, slope):
    errors_by_seed = []
    for seed in range(8):
        v, z, ratios = world(np.random.default_rng(seed), 300, visits, spread, 30.0, slope)
        estimates = (
            shrink_to_centre(ratios, 0.6),
            empirical_bayes(ratios, 0.6, standardise(None, 300)),
            empirical_bayes(ratios, 0.6, standardise(z, 300)),
        )
        errors_by_seed.append([np.sqrt(np.mean((shrunk.values - v) ** 2)) for shrunk in estimates])
    alone, mean, components = np.mean(errors_by_seed, axis=0)
    assert mean < 1.03 * alone
    assert components < (1.25 if slope == 0 else 1.0) * mean
    if visits == 20:
        assert mean < 0.5 * alone


def test_components_are_checked():
    with pytest.raises(InvalidParameter, match="components"):
        CountsAndSums(**COMMON, components=np.ones((STATES, 1)))
    with pytest.raises(InvalidParameter, match="shape"):
        CountsAndSums(**COMMON, shrink="empirical-bayes", components=np.ones((3, 1)))
    with pytest.raises(InvalidParameter, match="shrink"):
        CountsAndSums(**COMMON, shrink="always")


def test_several_trajectories_count_up_to_the_cap(chain):
    from confide.logs import in_memory
    from confide.trajectory import LoggedUsers

    one = chain.log(400)
    block = next(iter(one.blocks()))
    pairs = LoggedUsers(
        block.states,
        block.rewards,
        block.trajectories,
        np.arange(0, 401, 2),
        np.ones(200, dtype=bool),
    )
    for cap, visits in ((1, 1), (2, 2)):
        estimate = CountsAndSums(**COMMON).release(
            in_memory(pairs, max_trajectories=cap), privacy=NoPrivacy()
        )
        assert (
            estimate.released["counts"].max() == visits * 200
            if cap == 2
            else estimate.released["counts"].max() == 200
        )
    noisy = [
        CountsAndSums(**COMMON).release(
            in_memory(pairs, max_trajectories=cap), privacy=PRIVATE, rng=np.random.default_rng(0)
        )
        for cap in (1, 2)
    ]
    assert noisy[1].released["sum_std"][0] == pytest.approx(
        2 * noisy[0].released["sum_std"][0], rel=1e-6
    )


def test_damaged_files_are_refused():
    from confide.errors import StateError

    with pytest.raises(StateError):
        ValueEstimate.from_bytes(b"PK nothing")
