"""Golden values of the printed constants, computed by hand from the formulas."""

import math

import pytest

from confide.bandits.printed import printed_bandit
from confide.privacy import JointDP, LocalDP, NoPrivacy

JOINT = printed_bandit(JointDP(1.0, 1e-5), dimension=5, users=1000, levels=10, failure=0.1)
LOCAL = printed_bandit(LocalDP(1.0, 1e-5), dimension=5, users=1000, levels=10, failure=0.1)


def test_shariff_and_sheffet():
    """sigma = 4 sqrt(10) x 1.25 x ln(4e5) = 203.95.

    Upsilon = sigma sqrt(20) (4 sqrt 5 + 2 ln 20000) = 26,224.
    """
    sigma = 4 * math.sqrt(10) * 1.25 * math.log(4e5)
    assert sigma == pytest.approx(203.955, abs=1e-3)
    assert JOINT.std == pytest.approx(math.sqrt(2) * sigma)
    upsilon = sigma * math.sqrt(20) * (4 * math.sqrt(5) + 2 * math.log(20_000))
    assert JOINT.upsilon(7) == pytest.approx(upsilon) and JOINT.shift(7) == pytest.approx(
        2 * upsilon
    )
    gamma = sigma * math.sqrt(10 / upsilon) * (math.sqrt(5) + math.sqrt(2 * math.log(20_000)))
    log_determinant = 5 * math.log(2 * upsilon)
    sampling = 0.5 * math.sqrt(2 * math.log(20) + 5 * math.log(2))
    assert JOINT.beta(log_determinant, 7) == pytest.approx(
        sampling + 0.5 * math.sqrt(3 * upsilon) + gamma
    )


def test_the_true_loss_of_the_printed_noise():
    """mu = epsilon / (4 ln(4/delta)) for any tree: sqrt(2) (1 + 1/4) sqrt(m) / (sqrt(2) sigma)."""
    loss = JOINT.loss(JointDP(1.0, 1e-5), math.sqrt(10))
    assert loss.mu == pytest.approx(1 / (4 * math.log(4e5)), rel=1e-5)
    assert loss.epsilon_at(1e-5) == pytest.approx(0.0566, abs=1e-4)


def test_zheng():
    """sigma = 4 sqrt(2 ln 125000) = 19.38 on one message.

    Upsilon_t = sigma sqrt(t) (4 sqrt 5 + 2 ln 20000).
    """
    assert LOCAL.std == pytest.approx(19.379, abs=1e-3)
    upsilon = LOCAL.std * 10 * (4 * math.sqrt(5) + 2 * math.log(20_000))
    assert LOCAL.upsilon(100) == pytest.approx(upsilon) and LOCAL.shift(100) == pytest.approx(
        2 * upsilon
    )
    log = math.log(1000)
    width = (
        2 * LOCAL.std * math.sqrt(5 * log)
        + (math.sqrt(3 * upsilon) + LOCAL.std * math.sqrt(500 / upsilon)) * 5 * log
    )
    assert LOCAL.beta(0.0, 100) == pytest.approx(width)


def test_without_noise_the_shift_is_one():
    exact = printed_bandit(NoPrivacy(), dimension=5, users=1000, levels=10, failure=0.1)
    assert exact.shift(10) == 1.0 and exact.beta(0.0, 10) == pytest.approx(
        0.5 * math.sqrt(2 * math.log(20)) + 0.5
    )
