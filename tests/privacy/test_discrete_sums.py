"""The bound on sums of discrete Gaussian variables, against their exact distribution by
convolution.
"""

import math

import numpy as np
import pytest

import confide
from confide.errors import InvalidParameter
from confide.privacy.accounting import gaussian_mu
from confide.privacy.discrete_sums import (
    LEAST_SHARE,
    distance_from_gaussian,
    least_share,
    renyi_epsilon,
    rounded_epsilon,
    sum_divergence,
    sum_epsilon,
)

DELTA = 1e-5


def discrete_gaussian(variance, reach):
    x = np.arange(-reach, reach + 1.0)
    p = np.exp(-(x**2) / (2 * variance))
    return p / p.sum()


def exact_sum(share, terms):
    """The distribution of the sum of so many shares, on -R..R; what is cut off has probability
    below 1e-40.
    """
    one = discrete_gaussian(share**2, math.ceil(14 * share) + 2)
    total = np.array([1.0])
    for _ in range(terms):
        total = np.convolve(total, one)
    return total[total > 1e-200]


def loss_values(p, shift):
    """(log ratio of probabilities, probability) of a sum against the same sum moved by `shift`
    steps; infinite where the other has none.
    """
    moved = np.concatenate([np.zeros(shift), p])[: len(p)]
    return np.log(p) - np.log(moved, out=np.full(len(p), -np.inf), where=moved > 0), p


def hockey_stick(p, shifts, epsilon):
    """The exact delta for a query that moves coordinate i by shifts[i] steps."""
    ratio, weight = np.zeros(1), np.ones(1)
    for shift in shifts:
        more, chance = loss_values(p, shift)
        ratio, weight = np.add.outer(ratio, more).ravel(), np.multiply.outer(weight, chance).ravel()
    return float((weight * -np.expm1(np.minimum(epsilon - ratio, 0.0))).sum())


@pytest.mark.parametrize("share", [0.5, 0.7, 1.0, LEAST_SHARE, 3.0])
@pytest.mark.parametrize("terms", [1, 2, 3, 8])
def test_the_sum_is_as_close_to_a_discrete_gaussian_as_the_bound_says(share, terms):
    exact = exact_sum(share, terms)
    near = discrete_gaussian(terms * share**2, len(exact) // 2)
    # Below this, rounding of the convolution matters.
    seen = exact > 1e-12
    apart = np.abs(np.log(exact[seen] / near[seen])).max()
    assert apart <= distance_from_gaussian(share, terms) / 2 + 1e-6


@pytest.mark.parametrize("share", [0.5, 0.6, 1.0, LEAST_SHARE])
@pytest.mark.parametrize("terms", [2, 5, 20])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_exact_divergence_is_at_most_the_bound(share, terms, shift):
    ratio, weight = loss_values(exact_sum(share, terms), shift)
    seen = np.isfinite(ratio)
    for order in (1.01, 1.5, 2.0, 4.0):
        exact = np.log((weight[seen] * np.exp((order - 1) * ratio[seen])).sum()) / (order - 1)
        (bound,) = sum_divergence(np.array([order]), share, terms, float(shift), 1)
        assert exact <= bound + 1e-9
        if share >= 1:
            assert bound <= 1.02 * exact


@pytest.mark.parametrize(("share", "terms"), [(LEAST_SHARE, 50), (4.0, 8), (9.0, 2), (15.0, 1)])
@pytest.mark.parametrize("shifts", [(1,), (4,), (2, 2), (1, 1, 1)])
def test_epsilon_holds_and_is_close(share, terms, shifts):
    """The exact hockey-stick divergence at the stated epsilon is at most delta, and at a fifth less
    it is more.
    """
    p = exact_sum(share, terms)
    # A few hundred points are left, whose products are counted.
    p = p[p > 1e-12] if len(shifts) > 1 else p
    epsilon = sum_epsilon(share, terms, math.hypot(*shifts), len(shifts), DELTA)
    assert hockey_stick(p, shifts, epsilon) <= DELTA * (1 + 1e-6)
    assert hockey_stick(p, shifts, 0.8 * epsilon) > DELTA


@pytest.mark.parametrize(("share", "terms"), [(30.0, 1), (20.0, 3), (40.0, 2)])
def test_the_distance_from_a_rounded_gaussian(share, terms):
    """On a lattice that is fine enough for the second bound to be the smaller one, it still holds,
    and is within 5 % of the truth.
    """
    p, shift = exact_sum(share, terms), math.ceil(0.27 * share * math.sqrt(terms))
    epsilon = rounded_epsilon(share, terms, float(shift), 1, DELTA)
    assert (
        epsilon
        == sum_epsilon(share, terms, float(shift), 1, DELTA)
        < renyi_epsilon(share, terms, float(shift), 1, DELTA)
    )
    assert hockey_stick(p, (shift,), epsilon) <= DELTA < hockey_stick(p, (shift,), 0.95 * epsilon)


@pytest.mark.parametrize("S", [3.0, 8.0, 40.0])
def test_a_rounded_gaussian_is_as_close_as_the_proof_says(S):
    from scipy.stats import norm

    R = 6.0
    z = np.arange(-math.floor(R * S), math.floor(R * S) + 1)
    # By symmetry, and because differences of tails do not cancel there.
    upper = np.abs(z)
    rounded = norm.sf((upper - 0.5) / S) - norm.sf((upper + 0.5) / S)
    exact = discrete_gaussian(S**2, math.ceil(14 * S))
    middle = len(exact) // 2
    apart = np.abs(np.log(exact[middle + z] / rounded)).max()
    assert apart <= (R**2 + 3) / (24 * S**2) + 3 * math.exp(-2 * math.pi**2 * S**2) + 1e-9


def test_converting_costs_a_tenth_on_a_coarse_lattice_and_nothing_on_a_fine_one():
    share = least_share(1.0, DELTA, 1000, 2.0**24, 60)
    needed = share * math.sqrt(1000) / 2.0**24
    assert 1 < needed * gaussian_mu(1.0, DELTA) < 1 + 1e-5
    coarse = least_share(1.0, DELTA, 1000, 20.0, 60)
    assert 1.05 < coarse * math.sqrt(1000) / 20.0 * gaussian_mu(1.0, DELTA) < 1.10
    assert (
        sum_epsilon(share, 1000, 2.0**24, 60, DELTA)
        <= 1.0
        < sum_epsilon(share / 1.001, 1000, 2.0**24, 60, DELTA)
    )


def test_drop_outs_cost_what_they_should():
    """A sum with fewer shares than planned gives less; one with more gives more."""
    share = least_share(1.0, DELTA, 900, 2.0**24, 10)
    assert (
        sum_epsilon(share, 1000, 2.0**24, 10, DELTA)
        < 1
        < sum_epsilon(share, 800, 2.0**24, 10, DELTA)
        < 1.1
    )


def test_small_shares_are_never_used():
    assert least_share(1.0, DELTA, 10**6, 1.0, 10) == LEAST_SHARE
    assert distance_from_gaussian(LEAST_SHARE, 10**6) < 1e-7
    assert distance_from_gaussian(0.5, 2) > 0.05
    assert sum_epsilon(0.4, 10**6, 1.0, 1, DELTA) == math.inf
    assert distance_from_gaussian(0.6, 5000) >= 10 * sum(
        math.exp(-2 * math.pi**2 * 0.36 * k / (k + 1)) for k in range(1, 5000)
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delta": 0.0}, "delta must be positive"),
        ({"delta": 1e-5, "dropouts": 1.0}, "dropouts"),
        ({"delta": 1e-5, "dropouts": -0.1}, "dropouts"),
        ({"delta": 1e-5, "dropouts": math.nan}, "dropouts"),
        ({"delta": 1e-5, "relation": "null"}, "replace"),
        ({"delta": 1e-5, "epsilon": 0.0}, "epsilon"),
    ],
)
def test_requests_are_checked(options, said):
    with pytest.raises(InvalidParameter, match=said):
        confide.DistributedDP(**({"epsilon": 1.0} | options))


def test_a_request_says_its_dropouts():
    assert (
        str(confide.DistributedDP(1, 1e-5)) == "DistributedDP(epsilon=1, delta=1e-05, dropouts=0.1)"
    )
    assert confide.DistributedDP(1, 1e-5).trust is confide.Trust.DISTRIBUTED
