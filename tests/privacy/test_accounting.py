import itertools
import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import InvalidParameter
from confide.privacy.accounting import gaussian_delta, gaussian_epsilon, gaussian_mu

EPSILONS = st.floats(math.log(1e-3), math.log(100)).map(math.exp)
DELTAS = st.floats(math.log(1e-15), math.log(0.5)).map(math.exp)


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.5, 0.1422), (1, 0.2681), (2, 0.5016), (5, 1.1212), (10, 2.0004)]
)
def test_mu_at_delta_1e_5(epsilon, mu):
    assert round(gaussian_mu(epsilon, 1e-5), 4) == mu


def exact_delta(epsilon, mu):
    """The same formula in 60 digits."""
    with mpmath.workdps(60):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
            -mu / 2 - epsilon / mu
        )


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    list(itertools.product([1e-3, 1e-2, 0.1, 1, 10, 100], [1e-15, 1e-12, 1e-9, 1e-5, 1e-2, 0.5])),
)
def test_agrees_with_high_precision_over_the_whole_range(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    true = exact_delta(epsilon, mu)
    assert abs(true / delta - 1) < 1e-9
    assert abs(gaussian_delta(epsilon, mu) / true - 1) < 1e-9


@given(EPSILONS, DELTAS)
def test_inverses_round_to_the_safe_side(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    back = gaussian_epsilon(mu, delta)
    assert gaussian_delta(back, mu) <= delta
    assert back == pytest.approx(epsilon, rel=1e-9)


@given(EPSILONS, DELTAS, st.floats(1.001, 3))
def test_more_noise_is_more_private(epsilon, delta, factor):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu / factor) < delta
    assert gaussian_mu(epsilon * factor, delta) > mu
    assert gaussian_epsilon(mu, delta / factor) > epsilon * (1 - 1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-7, 1e-5, 1e-3, 1e-2])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1, 3, 10])
def test_agrees_with_dp_accounting(epsilon, delta):
    from dp_accounting import gaussian_mechanism as peer

    mu = gaussian_mu(epsilon, delta)
    assert peer.get_epsilon_gaussian(1 / mu, delta) == pytest.approx(epsilon, abs=1e-3)
    assert peer.get_sigma_gaussian(epsilon, delta) == pytest.approx(1 / mu, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1, 10])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_agrees_with_dp_accountings_privacy_loss_distribution(epsilon, delta):
    from dp_accounting.pld import privacy_loss_distribution as pld

    law = pld.from_gaussian_mechanism(
        1 / gaussian_mu(epsilon, delta), value_discretization_interval=1e-4
    )
    assert law.get_epsilon_for_delta(delta) == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-30), (0.0, 1e-15), (1e-12, 1e-12), (1e-7, 1e-9), (1e-5, 1e-20)]
)
def test_safe_side_far_outside_the_range(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert exact_delta(epsilon, mu) <= delta
    assert exact_delta(epsilon, mu) >= 0.5 * delta
    assert exact_delta(gaussian_epsilon(mu, delta), mu) <= delta * (1 + 1e-12)


def test_edges():
    assert gaussian_delta(1.0, 0.0) == 0
    assert gaussian_delta(1.0, math.inf) == 1
    # This delta alone covers it.
    assert gaussian_epsilon(0.1, 0.5) == 0
    assert gaussian_epsilon(0.1, 0.0) == math.inf
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(math.nan, 0.1), (-1, 0.1), (math.inf, 0.1), (1, 0), (1, 1), (1, math.nan), (1, -0.1)],
)
def test_bad_input_is_refused(epsilon, delta):
    with pytest.raises(InvalidParameter, match="must be"):
        gaussian_mu(epsilon, delta)


def test_nan_is_refused_everywhere():
    with pytest.raises(InvalidParameter):
        gaussian_delta(math.nan, 1.0)
    with pytest.raises(InvalidParameter):
        gaussian_delta(1.0, math.nan)
    with pytest.raises(InvalidParameter):
        gaussian_epsilon(1.0, math.nan)
