"""Golden values, computed independently in high precision; locators in [Luyo21]."""

import mpmath
import pytest

from confide.agents.ucrl_vtr import paper_constants, paper_joint, tight_joint
from confide.errors import InvalidParameter
from confide.mechanisms.counters import Toeplitz, Tree
from confide.privacy import JointDP

SETTINGS = [(100_000, 5, 5, 1.0, 1e-5, 0.1), (1000, 3, 8, 0.5, 1e-6, 0.05), (10**6, 10, 2, 5.0, 1e-3, 0.01)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_corollary_5(setting):
    K, H, d, epsilon, delta, p = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        K0 = mpmath.ceil(mpmath.log(K, 2) + 1)
        logs = mpmath.log(8 * H / mp(delta)) * mpmath.log(4 / mp(delta)) * mpmath.log(16 * H * K0 / mp(delta))
        sigma = 32 * mp(H) ** 2 / mp(epsilon) * mpmath.sqrt(2 * H * K0 * logs)
        upsilon = sigma * mpmath.sqrt(K0) * (4 * mpmath.sqrt(d) + 2 * mpmath.log(6 * K * H / mp(p)))
    found = paper_constants(JointDP(epsilon, delta), episodes=K, horizon=H, dimension=d, failure=p)
    assert found.levels == int(K0)
    assert found.sigma == pytest.approx(float(sigma), rel=1e-12)
    assert found.upsilon == pytest.approx(float(upsilon), rel=1e-12)


def test_the_printed_constants_really_give_a_thousandth_of_the_epsilon():
    """ERRATUM: at nominal epsilon = 1 Cor. 5 adds about a thousand times too much noise."""
    made = paper_joint(JointDP(1.0, 1e-5), episodes=100_000, horizon=5, dimension=5)
    assert made.loss.epsilon_at(1e-5) == pytest.approx(1e-3, rel=0.2)


def test_tight_noise_is_sensitivity_over_mu_times_the_counter():
    made = tight_joint(JointDP(1.0, 1e-5), Toeplitz(32), horizon=5, dimension=5)
    assert made.noise == pytest.approx(4 / 0.268051 * 2.16698, rel=1e-4)  # sqrt(4 steps) x sqrt(2 + 2) = 4
    assert made.users() == 512
    assert tight_joint(JointDP(1.0, 1e-5), Tree(32), horizon=5, dimension=5).noise > 2 * made.noise


def test_bad_settings_are_refused():
    with pytest.raises(InvalidParameter, match="delta > 0"):
        paper_constants(JointDP(1.0), episodes=10, horizon=2, dimension=2)
    with pytest.raises(InvalidParameter, match="delta > 0"):
        tight_joint(JointDP(1.0), Tree(3), horizon=2, dimension=2)
    with pytest.raises(InvalidParameter, match=r"failure must be in \(0, 1\), got failure=1.5"):
        paper_constants(JointDP(1.0, 0.1), episodes=10, horizon=2, dimension=2, failure=1.5)
