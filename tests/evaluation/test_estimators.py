"""What all estimators have in common: promise, certificate, ledger, files."""

import numpy as np
import pytest

import confide
from confide.audit.verify import taken_on_trust, verify
from confide.errors import InvalidParameter, LedgerError, PromiseBroken
from confide.evaluation import DPLSL, DPLSW, LSL, LSW, CountsAndSums
from confide.logs import in_memory
from confide.mechanisms.sources import noise_source
from confide.trajectory import LoggedUsers

STATES, DISCOUNT = 8, 0.95
COMMON = {"states": STATES, "discount": DISCOUNT, "return_bound": 1.0}
PRIVATE = confide.CentralDP(1.0, 1e-6)
MADE = {
    "counts-and-sums": CountsAndSums(**COMMON),
    "few visits": CountsAndSums(**COMMON, visits=3),
    "empirical Bayes": CountsAndSums(
        **COMMON, shrink="empirical-bayes", components=np.arange(8.0)[:, None]
    ),
    "dp-lsw": DPLSW(**COMMON),
    "dp-lsw paper": DPLSW(**COMMON, calibration="paper"),
    "dp-lsl": DPLSL(**COMMON, ridge=100.0),
}
PRIVATE_ONES = pytest.mark.parametrize("estimator", MADE.values(), ids=MADE)


class Untouchable:
    """A log that must not be read."""

    assumptions = ()
    max_trajectories = 1

    def __init__(self, identity=""):
        self.identity = identity

    def total(self, statistic, *, progress=None):  # noqa: ARG002
        raise AssertionError("the log was read")

    def blocks(self):
        raise AssertionError("the log was read")


@PRIVATE_ONES
def test_promise_and_certificate(estimator, chain):
    estimate = estimator.release(chain.log(), privacy=PRIVATE, rng=np.random.default_rng(0))
    assert estimate.values.shape == (STATES,)
    assert (
        estimate.guarantee.epsilon <= 1.0 + 1e-9
        and estimate.guarantee.delta == 1e-6
        and estimate.guarantee.users == 2000
    )
    assert verify(estimate.certificate).epsilon == pytest.approx(1.0, rel=1e-5)
    counted = isinstance(estimator, CountsAndSums)
    assert (estimate.noise_std is not None) == counted
    assert (taken_on_trust(estimate.certificate) == []) == counted


def test_noise_does_not_depend_on_how_the_log_is_cut(chain):
    whole, cut = chain.users(500, 1), [chain.users(500, 1)]
    from confide.logs import in_memory

    parts = [in_memory(whole), in_memory(cut)]
    one, two = (
        MADE["counts-and-sums"].release(part, privacy=PRIVATE, rng=np.random.default_rng(1))
        for part in parts
    )
    assert (one.values == two.values).all()


def test_the_answer_about_one_log_is_not_given_for_another(tmp_path, chain):
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=5.0, delta=1e-4)
    estimator = CountsAndSums(**COMMON)
    for log in (chain.log(), chain.log()):
        estimator.release(log, privacy=PRIVATE, ledger=ledger, rng=np.random.default_rng(0))
    assert len(ledger.spends) == 2
    estimator.release(log, privacy=PRIVATE, ledger=ledger, rng=np.random.default_rng(0), id="june")
    # Nor under a name that one chooses.
    with pytest.raises(LedgerError):
        estimator.release(
            chain.log(), privacy=PRIVATE, ledger=ledger, rng=np.random.default_rng(0), id="june"
        )


def test_smooth_sensitivity_tells_nothing_about_its_noise(chain):
    estimate = DPLSW(**COMMON).release(chain.log(), privacy=PRIVATE, rng=np.random.default_rng(0))
    assert estimate.noise_std is None and not estimate.released
    with pytest.raises(InvalidParameter, match="no intervals"):
        estimate.interval(0.9)
    (mechanism,) = estimate.certificate.document["mechanisms"]
    assert mechanism["sensitivity"] is None and mechanism["scale"] is None


@pytest.mark.parametrize(
    "estimator",
    [
        DPLSW(states=1, calibration="paper", return_bound=1.0),
        DPLSL(states=1, ridge=2.0, calibration="paper", return_bound=1.0),
    ],
)
def test_printed_constants_that_are_false_are_refused_before_the_log_is_read(estimator):
    with pytest.raises(PromiseBroken, match="Lemma 1"):
        estimator.release(
            Untouchable(), privacy=confide.CentralDP(55.0, 0.1), rng=np.random.default_rng(0)
        )


def test_sources_and_requests(chain):
    estimator = MADE["counts-and-sums"]
    secure = estimator.release(chain.log(300), privacy=PRIVATE)
    assert secure.guarantee.source == "secure"
    verify(secure.certificate)
    with pytest.raises(InvalidParameter, match="not both"):
        estimator.release(
            Untouchable(),
            privacy=PRIVATE,
            rng=np.random.default_rng(0),
            noise=noise_source("fast", 0),
        )
    smooth = MADE["dp-lsw"].release(chain.log(300), privacy=PRIVATE)
    assert smooth.guarantee.source == "secure"
    verify(smooth.certificate)
    with pytest.raises(InvalidParameter, match="CentralDP"):
        estimator.release(
            Untouchable(), privacy=confide.LocalDP(1.0, delta=0.0), rng=np.random.default_rng(0)
        )
    pure = estimator.release(
        chain.log(300), privacy=confide.CentralDP(1.0, delta=0.0), rng=np.random.default_rng(0)
    )
    assert verify(pure.certificate).delta == 0


def test_without_privacy_they_are_the_plain_estimates(chain):
    plain = LSW(**COMMON).release(chain.log())
    assert str(plain.guarantee).startswith("NO PRIVACY")
    verify(plain.certificate)
    counted = chain.users(2000, 0)
    for estimate in (
        DPLSW(**COMMON).release(chain.log(), privacy=confide.NoPrivacy()),
        MADE["counts-and-sums"].release(chain.log(), privacy=confide.NoPrivacy()),
    ):
        np.testing.assert_allclose(estimate.values, plain.values, atol=1e-6)
    paid = DISCOUNT ** (counted.trajectories[1:] - counted.trajectories[:-1] - 1.0)
    starts = counted.states[counted.trajectories[:-1]]
    # State 0 is first visited by those who start there.
    mean = [paid[starts == 0].mean()]
    np.testing.assert_allclose(plain.values[:1], mean, atol=1e-6)
    assert np.abs(LSL(**COMMON, ridge=1e-6).release(chain.log()).values - plain.values).max() < 1e-6


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_dp_lsl_has_a_solution_whatever_the_counts_are(scale):
    """Everybody in one state, and a ridge that floating point cannot see beside them.

    No user may decide whether there is an error.
    """
    phi = scale * np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0]])
    estimator = DPLSL(states=3, ridge=1e-12, features=phi, return_bound=1.0)
    one = np.arange(20_001)
    for states in (
        np.zeros(20_000, dtype=np.int64),
        np.append(np.zeros(19_999, dtype=np.int64), 1),
    ):
        log = in_memory(
            LoggedUsers(
                states, np.full(20_000, 0.5), one, one.copy(), np.ones(20_000, dtype=np.bool_)
            )
        )
        estimate = estimator.release(log, privacy=PRIVATE, rng=np.random.default_rng(0))
        assert np.isfinite(estimate.values).all()


def test_dp_lsl_solves_the_normal_equations():
    rng = np.random.default_rng(0)
    phi, counts, rho = (
        rng.normal(size=(6, 3)),
        rng.integers(0, 30, size=6).astype(float),
        rng.uniform(0.1, 1.0, size=6),
    )
    returns = counts * rng.random(6)
    theta = DPLSL(states=6, ridge=2.0, features=phi, weights=rho, return_bound=1.0).solve(
        counts, returns
    )
    expected = np.linalg.solve(
        phi.T @ ((rho * counts)[:, None] * phi) + np.eye(3), phi.T @ (rho * returns)
    )
    np.testing.assert_allclose(theta, expected, rtol=1e-9)
