import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import InvalidParameter
from confide.privacy import ApproxDP, CentralDP, GaussianDP, PureDP, compose, loss_for

SMALL = st.floats(0.01, 5.0)


def test_gaussian_losses_stay_gaussian():
    assert compose([GaussianDP(3.0), GaussianDP(4.0)]) == GaussianDP(5.0)
    assert compose([]) == GaussianDP(0.0)


def test_pure_losses_add_up():
    assert compose([PureDP(0.25)] * 4) == PureDP(1.0)


def test_mixtures_are_composed_by_privacy_loss_distributions():
    both = compose([GaussianDP(0.5), PureDP(0.5)], delta=1e-5)
    assert isinstance(both, ApproxDP)
    assert GaussianDP(0.5).epsilon_at(1e-5) < both.epsilon < GaussianDP(0.5).epsilon_at(1e-5) + 0.5


def test_many_small_pure_losses_with_a_delta_beat_plain_addition():
    losses = [ApproxDP(0.1, 0.0)] * 40
    assert compose(losses, delta=1e-5).epsilon < 4.0


@pytest.mark.parametrize(
    ("losses", "delta", "message"),
    [
        (
            [ApproxDP(0.1, 1e-3), GaussianDP(0.1)],
            1e-5,
            "at least 0.001, the sum .*largest is that of ApproxDP.*got delta=1e-05",
        ),
        (
            [ApproxDP(1.0, 1e-6), ApproxDP(1.0, 3e-6)],
            0.0,
            "at least 4e-06, .*delta=3e-06.*, got delta=0. Pass a larger one",
        ),
        (
            [GaussianDP(1.0), PureDP(1.0)],
            0.0,
            "larger than 0, .*a Gaussian loss needs a part of it",
        ),
        (
            [GaussianDP(1.0), ApproxDP(1.0, 1e-5)],
            1e-5,
            "larger than 1e-05, .*a Gaussian loss needs a part of it",
        ),
    ],
)
def test_a_delta_that_no_epsilon_keeps_is_refused(losses, delta, message):
    with pytest.raises(InvalidParameter, match=message):
        compose(losses, delta=delta)


def test_a_loss_has_no_epsilon_below_its_own_delta():
    together = compose([ApproxDP(1.0, 1e-6)] * 2, delta=1e-5)
    assert together.epsilon_at(1e-5) <= 2
    with pytest.raises(
        InvalidParameter, match="at least 1e-05, the delta of this loss itself, got delta=1e-06"
    ):
        together.epsilon_at(1e-6)


def test_a_mechanism_without_privacy_has_no_finite_epsilon():
    assert compose([PureDP(math.inf), GaussianDP(0.1)], delta=1e-5).epsilon == math.inf


@given(SMALL, st.floats(0, 0.3), st.floats(0.31, 0.9))
def test_the_profile_of_an_approximate_loss_is_the_one_of_randomised_response(
    epsilon, delta, larger
):
    loss = ApproxDP(epsilon, delta)
    assert loss.epsilon_at(delta) == pytest.approx(epsilon)
    at = loss.epsilon_at(larger)
    assert at <= epsilon
    if at > 0:
        assert loss.delta_at(at) == pytest.approx(larger)
    else:
        assert loss.delta_at(0.0) <= larger + 1e-12


def test_the_profile_agrees_with_dp_accounting():
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    peer = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(1.0, 0.01))
    for epsilon in (0.0, 0.3, 0.7, 1.0, 2.0):
        assert ApproxDP(1.0, 0.01).delta_at(epsilon) == pytest.approx(
            peer.get_delta_for_epsilon(epsilon), abs=1e-4
        )


@settings(max_examples=30)
@given(st.integers(1, 6), SMALL)
def test_groups(k, amount):
    assert GaussianDP(amount).group(k).mu == pytest.approx(k * amount)
    assert PureDP(amount).group(k).epsilon == pytest.approx(k * amount)
    chain, delta = ApproxDP(amount, 1e-9), 0.0
    for _ in range(k):
        # This is one more neighbour.
        delta = math.exp(amount) * delta + 1e-9
    assert chain.group(k).delta == pytest.approx(delta)


def test_pure_losses_with_a_delta_beat_plain_addition():
    assert compose([PureDP(0.1)] * 100, delta=1e-6).epsilon == pytest.approx(4.77, abs=0.01)


def test_wild_mixtures_fall_back_to_addition():
    assert compose([PureDP(800.0), GaussianDP(1.0)], delta=1e-5).epsilon > 800
    assert compose([PureDP(1.0), GaussianDP(1e-300)], delta=1e-5).epsilon == pytest.approx(1.0)
    assert compose([PureDP(1.0), GaussianDP(1e4)], delta=1e-5).epsilon > 1e4
    assert ApproxDP(1000.0, 1e-310).group(2).delta == 1.0


def test_large_losses_do_not_overflow():
    assert ApproxDP(1e4, 1e-6).group(3).delta == 1.0
    assert ApproxDP(1e4, 0.0).epsilon_at(0.5) == pytest.approx(1e4 - math.log(2))
    assert PureDP(math.inf).epsilon_at(0.1) == math.inf


def test_the_loss_for_a_request_is_in_the_currency_of_its_noise():
    assert loss_for(CentralDP(1.0, 1e-5)).mu == pytest.approx(0.2681, abs=1e-4)
    assert loss_for(CentralDP(1.0, delta=0.0)) == PureDP(1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianDP(-1),
        lambda: GaussianDP(math.nan),
        lambda: PureDP(-1),
        lambda: ApproxDP(1, 2),
    ],
)
def test_bad_losses_are_refused(make):
    with pytest.raises(InvalidParameter, match=r"must be .*, got"):
        make()
