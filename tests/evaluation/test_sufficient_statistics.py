import numpy as np
import pytest

import confide
from confide.audit.verify import taken_on_trust, verify
from confide.errors import BudgetExceeded, InvalidParameter
from confide.evaluation.linear_values import solve, whiten_features
from confide.evaluation.sufficient_statistics import SufficientStatistics, _noise_of_product
from confide.mechanisms.sources import noise_source
from confide.mechanisms.symmetric import smat
from confide.privacy import Relation
from confide.trajectory import LoggedUsers

S, GAMMA = 8, 0.95
PRIVATE = confide.CentralDP(1.0, 1e-6)
LINES = np.polynomial.legendre.legvander(np.linspace(-1, 1, S), 2)


class Seen:
    """A log in memory that counts how often it is read."""

    assumptions = ()

    def __init__(self, users):
        self.users, self.reads = users, 0

    def total(self, statistic, *, progress=None):  # noqa: ARG002
        self.reads += 1
        return statistic.contribution(self.users)


def covered(estimator, chain, runs, count, privacy=PRIVATE):
    """How many states' intervals hold the true value, on average over runs."""
    hits = []
    for seed in range(runs):
        estimate = estimator.release(
            Seen(chain.users(count, seed)), privacy=privacy, rng=np.random.default_rng([seed, 1])
        )
        low, high = estimate.interval(0.9)
        hits.append(((low <= chain.values) & (chain.values <= high)).mean())
    return float(np.mean(hits))


@pytest.mark.parametrize("features", [np.eye(S), LINES], ids=["table", "lines"])
def test_without_noise_it_is_the_regression(features, chain):
    users = chain.users(3000)
    estimate = SufficientStatistics(features, GAMMA, visits=S, return_bound=1.0).release(
        Seen(users), privacy=confide.NoPrivacy()
    )
    rows, targets = [], []
    for t in range(users.count):
        first, last = users.trajectories[t], users.trajectories[t + 1]
        seen = set()
        for i in range(first, last):
            if users.states[i] not in seen:
                seen.add(users.states[i])
                rows.append(users.states[i])
                targets.append(GAMMA ** (last - 1 - i))
    root = np.sqrt(whiten_features(features, None).weights[rows])
    theta = np.linalg.lstsq(
        features[rows] * root[:, None], (np.array(targets) - 0.5) * root, rcond=None
    )[0]
    np.testing.assert_allclose(estimate.values, 0.5 + features @ theta, atol=2e-4)
    np.testing.assert_allclose(0.5 + features @ estimate.parameters, estimate.values, atol=1e-9)
    assert estimate.noise_std.max() == 0
    assert "NO PRIVACY" in str(estimate.guarantee)


def test_private_values_are_near(chain):
    for features in (np.eye(S), LINES):
        estimator = SufficientStatistics(features, GAMMA, visits=S, return_bound=1.0)
        runs = [
            estimator.release(
                Seen(chain.users(3000, i)), privacy=PRIVATE, rng=np.random.default_rng(i)
            )
            for i in range(10)
        ]
        assert np.mean([chain.rmse(run) for run in runs]) < 0.03


def test_promise_certificate_and_two_readings(chain):
    log = Seen(chain.users(2000))
    estimate = SufficientStatistics(LINES, GAMMA, visits=4, return_bound=1.0).release(
        log, privacy=PRIVATE, rng=np.random.default_rng(0)
    )
    assert log.reads == 3
    assert estimate.guarantee.users == 2000
    assert verify(estimate.certificate).epsilon == pytest.approx(1.0, rel=1e-5)
    assert next(m["query"] for m in estimate.certificate.document["mechanisms"]).startswith(
        "first visits"
    )
    assert "public table" in taken_on_trust(estimate.certificate)[0]
    once = Seen(chain.users(2000))
    plain = SufficientStatistics(
        LINES, GAMMA, visits=4, interval_share=0.0, return_bound=1.0
    ).release(once, privacy=PRIVATE, rng=np.random.default_rng(0))
    assert once.reads == 2
    assert plain.guarantee.epsilon == pytest.approx(1.0, rel=1e-5)
    with pytest.raises(InvalidParameter, match="no intervals"):
        plain.interval(0.9)


@pytest.mark.parametrize(
    "privacy",
    [PRIVATE, confide.CentralDP(1.0, delta=0.0), confide.CentralDP(1.0, 1e-6, relation="null")],
    ids=str,
)
def test_secure_noise_pure_privacy_and_null_users(privacy, chain):
    estimator = SufficientStatistics(LINES, GAMMA, visits=4, return_bound=1.0)
    for source in (None, noise_source("secure")):
        rng = np.random.default_rng(0) if source is None else None
        estimate = estimator.release(chain.log(3000), privacy=privacy, noise=source, rng=rng)
        verify(estimate.certificate)
        low, high = estimate.interval(0.9)
        assert (low <= estimate.values).all() and (estimate.values <= high).all()


@pytest.mark.parametrize("features", [np.eye(S), LINES], ids=["table", "lines"])
def test_intervals_cover(features, chain):
    """90 % intervals over 150 runs of 8 states.

    85 to 98 %, where noise rules, and without noise, where sampling does.

    Runs are independent, states of a run are not: one standard error is at most 2.5 %, and seeds
    are fixed.
    """
    estimator = SufficientStatistics(features, GAMMA, visits=S, return_bound=1.0)
    assert 0.85 <= covered(estimator, chain, 150, 2000) <= 0.98
    # Without noise the error of three features is the features'.
    if features is not LINES:
        assert 0.85 <= covered(estimator, chain, 150, 2000, confide.NoPrivacy()) <= 0.98


def test_few_users_fall_back_on_the_prior_and_say_so(chain):
    estimate = SufficientStatistics(np.eye(S), GAMMA, visits=S, return_bound=1.0).release(
        Seen(chain.users(3)), privacy=PRIVATE, rng=np.random.default_rng(0)
    )
    low, high = estimate.interval(0.9)
    assert (high - low).min() > 0.5
    assert np.abs(estimate.values - 0.5).max() < 0.3
    nobody = LoggedUsers(
        np.zeros(0, np.int64),
        np.zeros(0),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(0, bool),
    )
    alone = SufficientStatistics(np.eye(S), GAMMA, return_bound=1.0).release(
        Seen(nobody), privacy=PRIVATE, rng=np.random.default_rng(0)
    )
    assert np.isfinite(alone.values).all()


def test_hostile_users_move_nothing_but_themselves(chain):
    good = chain.users(500)
    n, t = len(good.states), len(good.trajectories) - 1
    bad = LoggedUsers(
        np.append(good.states, [2**40, 0, 1, -1]),
        np.append(good.rewards, [0.0, np.nan, np.inf, 1e300]),
        np.append(good.trajectories, n + np.arange(1, 5)),
        np.append(good.users, t + np.arange(1, 5)),
        np.append(good.valid, [True] * 4),
    )
    estimator = SufficientStatistics(LINES, GAMMA, visits=4, return_bound=1.0)
    one, other = (
        estimator.release(Seen(users), privacy=PRIVATE, rng=np.random.default_rng(3))
        for users in (good, bad)
    )
    np.testing.assert_array_equal(one.values, other.values)


def test_the_balance_is_the_best_of_those_tried_and_redundant_features_cost_nothing():
    where = whiten_features(LINES, None)
    bound = (
        SufficientStatistics(LINES, GAMMA, visits=4, return_bound=1.0)
        .statistic(where, Relation.REPLACE)
        .bound
    )
    doubled = whiten_features(np.hstack([LINES, 3 * LINES]), None)
    assert doubled.table.shape == where.table.shape
    twice = (
        SufficientStatistics(np.hstack([LINES, 3 * LINES]), GAMMA, visits=4, return_bound=1.0)
        .statistic(doubled, Relation.REPLACE)
        .bound
    )
    assert twice.sensitivity(Relation.REPLACE) == pytest.approx(
        bound.sensitivity(Relation.REPLACE), rel=1e-6
    )


def test_the_noise_of_a_product_is_that_of_goe_matrices():
    """200 000 draws: each entry within five standard errors or so."""
    rng, theta = np.random.default_rng(0), np.array([0.5, -1.0, 2.0])
    products = smat(rng.normal(size=(200_000, 6)), 3) @ theta
    want = _noise_of_product(np.outer(theta, theta), np.ones((3, 3), bool))
    np.testing.assert_allclose(np.cov(products.T), want, atol=0.06)


def test_the_solution_is_the_posterior_mean():
    rng = np.random.default_rng(0)
    A, b, Q = rng.normal(size=(3, 3)), rng.normal(size=3), np.diag([1.0, 2.0, 0.5])
    solution = solve(A, b, variance=0.3, prior=Q)
    precision = A.T @ A / 0.3 + np.linalg.inv(Q)
    np.testing.assert_allclose(solution.theta, np.linalg.solve(precision, A.T @ b / 0.3))
    np.testing.assert_allclose(
        solution.shrinkage + 0.3 * solution.gain @ solution.gain.T,
        np.linalg.inv(precision),
        atol=1e-12,
    )


def test_a_ledger_pays_once_and_answers_again(tmp_path, chain):
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=1.0, delta=1e-6)
    log, estimator = (
        Seen(chain.users(1000)),
        SufficientStatistics(LINES, GAMMA, visits=4, return_bound=1.0),
    )
    one, two = (
        estimator.release(log, privacy=PRIVATE, ledger=ledger, rng=np.random.default_rng(i))
        for i in range(2)
    )
    assert log.reads == 3 and (one.values == two.values).all()
    np.testing.assert_array_equal(np.stack(one.interval(0.9)), np.stack(two.interval(0.9)))
    with pytest.raises(BudgetExceeded):
        SufficientStatistics(LINES, 0.9, visits=4, return_bound=1.0).release(
            log, privacy=PRIVATE, ledger=ledger, rng=np.random.default_rng(1)
        )
    assert log.reads == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": np.zeros((3, 2))},
        {"features": [1.0, 2.0]},
        {"features": [[np.nan]]},
        {"discount": 1.5},
        {"return_bound": 0.0},
        {"visits": 0},
        {"weights": [1.0]},
        {"centre": np.inf},
        {"interval_share": 1.0},
    ],
    ids=str,
)
def test_public_parameters_are_checked(wrong):
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        SufficientStatistics(
            **({"features": np.eye(3), "discount": 0.9, "return_bound": 1.0} | wrong)
        )
