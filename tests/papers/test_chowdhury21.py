"""[Chowdhury21]: golden values, and computations that must be able to fail."""

import numpy as np
import pytest

from confide.privacy.request import JointDP
from confide.problems.zoo.control import oscillator
from papers.chowdhury21 import bounds, errata

pytestmark = pytest.mark.long


def test_golden_values():
    assert bounds.true_epsilon(JointDP(1.0, 1e-5)) == pytest.approx(0.5057, rel=1e-3)
    assert bounds.printed_norm_epsilon(JointDP(1.0, 1e-5)) == pytest.approx(0.784, rel=1e-3)
    numbers = errata.overshoot().numbers
    assert numbers["fails"] == pytest.approx(39.3, abs=0.1)
    assert numbers["fails_by_printed_norm"] == pytest.approx(6.75, abs=0.1)
    assert errata.long_gains().numbers["gain"] == pytest.approx(1.42, abs=0.005)


def test_printed_gains_are_those_of_the_optimum_one_step_later():
    """K_h with P_h is the optimal gain of an episode that is one step longer, at its step h."""
    system = oscillator()
    longer = oscillator(horizon=system.horizon + 1)
    np.testing.assert_allclose(
        errata._printed_gains(system), longer.optimal_policy.gains[:-1], atol=1e-12
    )


def test_the_width_is_a_function_of_exact_data():
    made = bounds.constants(JointDP(1.0, 1e-5))
    S = np.diag([100.0, 90.0, 80.0])
    more = S + np.outer([1.0, 0, 0], [1.0, 0, 0])
    assert bounds.width(made, S, 0.1, 2) < bounds.width(made, more, 0.1, 2)


def test_a_wrong_computation_is_not_shown(monkeypatch):
    monkeypatch.setattr(errata, "width", lambda *_: 1.0)  # a width that reads no data leaks nothing
    assert errata.leak().stands is False
    monkeypatch.setattr(errata, "_printed_gains", lambda system: system.optimal_policy.gains)
    assert errata.gains().stands is False
