"""[Zhou22]: golden values, and computations that must be able to fail."""

import pytest

from confide.privacy.request import JointDP, LocalDP
from papers.zhou22 import bounds, errata

pytestmark = pytest.mark.long


def test_golden_values():
    assert bounds.true_epsilon(JointDP(1.0, 1e-5)) == pytest.approx(0.19196, rel=1e-3)
    # the tree and m cancel
    assert bounds.true_epsilon(LocalDP(1.0, 1e-5)) == pytest.approx(0.19196, rel=1e-3)
    assert bounds.first_failure(0.1, 2) == pytest.approx(68, abs=1)
    # ln(4e5) = 12.899
    assert errata.concentrated().numbers["at_1"] == pytest.approx(1 + 1 / (16 * 12.899), rel=1e-4)


def test_the_agent_s_own_account_agrees(quick_reproduction):
    """The agent's epsilon is a little smaller, because its features are never negative."""
    epsilons = [
        run.true_epsilon
        for algorithm in quick_reproduction("zhou22").algorithms
        for run in algorithm.measured
        if run.setting.startswith("paper, JointDP")
    ]
    assert len(epsilons) == 2
    for epsilon in epsilons:
        assert 0.15 < epsilon <= bounds.true_epsilon(JointDP(1.0, 1e-5))


def test_a_wrong_computation_is_not_shown(monkeypatch):
    monkeypatch.setattr(errata, "true_epsilon", lambda _: 1.2)
    assert errata.sensitivities().stands is False
    monkeypatch.setattr(errata, "terms", lambda *given: (float(given[5]), 0.0))
    assert errata.reward_factor().stands is False
