import numpy as np
import pytest

import confide
from confide.audit.verify import verify
from confide.errors import InvalidParameter
from confide.evaluation.lstd import PrivateLSTD
from confide.mechanisms.sources import noise_source
from confide.problems.zoo.tables import chain_values

S, GAMMA = 8, 0.95
PRIVATE = confide.CentralDP(1.0, 1e-6)
LINES = np.polynomial.legendre.legvander(np.linspace(-1, 1, S), 1)
VALUES = chain_values(states=S, discount=GAMMA)
# Features that express the truth.
TRUE = np.stack([np.ones(S), VALUES], axis=1)


class Seen:
    """A log in memory."""

    assumptions = ()

    def __init__(self, users):
        self.users = users

    def total(self, statistic, *, progress=None):  # noqa: ARG002
        return statistic.contribution(self.users)


def test_without_noise_it_solves_the_empirical_bellman_equation(chain):
    """On a table.

    The values of the empirical model, exactly (the prior's shrinkage is below 1e-4).
    """
    users = chain.users(3000)
    estimate = PrivateLSTD(np.eye(S), GAMMA, norm=200.0, return_bound=1.0).release(
        Seen(users), privacy=confide.NoPrivacy()
    )
    P, r, n = np.zeros((S, S)), np.zeros(S), np.zeros(S)
    last = np.zeros(len(users.states), bool)
    last[users.trajectories[1:] - 1] = True
    for i, s in enumerate(users.states):
        n[s] += 1
        r[s] += users.rewards[i]
        if not last[i]:
            P[s, users.states[i + 1]] += 1
    values = np.linalg.solve(np.eye(S) - GAMMA * P / n[:, None], r / n)
    np.testing.assert_allclose(estimate.values, values, atol=1e-4)


def test_private_values_are_near_with_enough_users(chain):
    estimator = PrivateLSTD(TRUE, GAMMA, norm=6.0, return_bound=1.0)
    runs = [
        estimator.release(
            Seen(chain.users(20_000, i)), privacy=PRIVATE, rng=np.random.default_rng(i)
        )
        for i in range(5)
    ]
    assert np.mean([chain.rmse(run) for run in runs]) < 0.02


def test_promise_certificate_secure_noise_and_pure_privacy(chain):
    estimator = PrivateLSTD(LINES, GAMMA, visits=8, return_bound=1.0)
    for privacy in (
        PRIVATE,
        confide.CentralDP(1.0, delta=0.0),
        confide.CentralDP(1.0, 1e-6, relation="null"),
    ):
        estimate = estimator.release(chain.log(2000), privacy=privacy, noise=noise_source("secure"))
        assert verify(estimate.certificate).epsilon == pytest.approx(1.0, rel=1e-3)
        assert estimate.guarantee.source == "secure"
        low, high = estimate.interval(0.9)
        assert (low <= high).all()
    assert (
        estimator.release(
            Seen(chain.users(9)), privacy=PRIVATE, rng=np.random.default_rng(1)
        ).values
        >= 0
    ).all()


def test_an_unknown_error_gives_the_whole_range_at_every_level(chain):
    drowned = confide.CentralDP(1e-6, 1e-6)
    estimate = PrivateLSTD(LINES, GAMMA, return_bound=1.0).release(
        Seen(chain.users(9)), privacy=drowned, rng=np.random.default_rng(0)
    )
    for level in (1e-300, 0.9):
        low, high = estimate.interval(level)
        assert (low == estimate.lowest).all() and (high == estimate.highest).all()


def test_intervals_cover(chain):
    """90 % intervals, 200 runs: 85 to 98 % with noise, and without, where it is all sampling.

    One standard error is at most 2.1 %.
    """
    for privacy, count in ((PRIVATE, 4000), (confide.NoPrivacy(), 1000)):
        hits = []
        for seed in range(200):
            estimate = PrivateLSTD(TRUE, GAMMA, norm=6.0, return_bound=1.0).release(
                Seen(chain.users(count, seed)),
                privacy=privacy,
                rng=np.random.default_rng([seed, 1]),
            )
            low, high = estimate.interval(0.9)
            hits.append(((low <= chain.values) & (chain.values <= high)).mean())
        assert 0.85 <= np.mean(hits) <= 0.98


def test_a_matrix_that_noise_hides_gives_the_whole_range(chain):
    estimate = PrivateLSTD(np.eye(S), GAMMA, return_bound=1.0).release(
        Seen(chain.users(200)), privacy=PRIVATE, rng=np.random.default_rng(0)
    )
    low, high = estimate.interval(0.9)
    assert (low == 0).all() and (high == 1).all()


def test_a_budget_that_runs_out_does_not_bias(chain):
    """Most users' steps stop counting half-way.

    Without noise the values stay, as those of users who were scaled as a whole would not.
    """
    short = PrivateLSTD(np.eye(S), GAMMA, norm=4.5, return_bound=1.0).release(
        Seen(chain.users(40_000)), privacy=confide.NoPrivacy()
    )
    assert chain.rmse(short) < 0.005
    A = short.released["A"]
    assert np.trace(A) < 0.8 * np.trace(
        PrivateLSTD(np.eye(S), GAMMA, norm=200.0, return_bound=1.0)
        .release(Seen(chain.users(40_000)), privacy=confide.NoPrivacy())
        .released["A"]
    )


@pytest.mark.parametrize(
    "wrong", [{"norm": 0.1}, {"visits": 0}, {"discount": -0.1}, {"weights": [-1.0, 1, 1]}], ids=str
)
def test_public_parameters_are_checked(wrong):
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        PrivateLSTD(**({"features": np.eye(3), "discount": 0.9, "return_bound": 1.0} | wrong))
