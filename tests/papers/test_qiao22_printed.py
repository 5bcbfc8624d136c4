"""DP-APVI as printed: golden values, the true epsilon, and when its penalty lets learning start."""

import math

import pytest

from confide.errors import InvalidParameter
from confide.offline.transition_contributions import RootCounts
from papers.qiao22.printed import APVISetting

pytestmark = pytest.mark.long


def test_golden_values():
    grid = APVISetting(states=36, actions=4, horizon=20)
    assert grid.rho == pytest.approx(0.01746, rel=1e-3)
    assert grid.noise_std == pytest.approx(math.sqrt(40 / grid.rho))
    assert grid.threshold == pytest.approx(
        4 * math.sqrt(20 * math.log(4 * 20 * 36**2 * 4 / 0.1) / grid.rho)
    )
    assert grid.logarithm == pytest.approx(math.log(28_800))


@pytest.mark.parametrize(("nominal", "true", "excess"), [(1.0, 0.776, 1.27), (10.0, 8.70, 1.12)])
def test_the_true_epsilon_is_below_the_nominal_one(nominal, true, excess):
    """The paper's conversion to rho is loose. The tight one needs less noise by this factor."""
    paper, tight = (
        APVISetting(36, 4, 20, nominal, calibration=kind) for kind in ("paper", "tight")
    )
    assert paper.true_epsilon == pytest.approx(true, rel=2e-3)
    assert tight.true_epsilon == pytest.approx(nominal, rel=1e-6)
    assert paper.noise_std / tight.noise_std == pytest.approx(excess, abs=0.006)


def test_the_noise_is_for_the_sensitivity_of_both_kinds_of_counts():
    """A user visits a row once, so the bound is that of root counts with totals of weight 1."""
    setting = APVISetting(states=3, actions=2, horizon=5)
    bound = RootCounts(
        cells=5 * 3 * 2 * 3, rows=5 * 3 * 2, starts=0, transitions=5, total_weight=1.0
    )
    assert bound.sensitivity("replace") / setting.noise_std == pytest.approx(
        math.sqrt(2 * setting.rho)
    )


def test_learning_starts_where_the_penalty_is_below_the_largest_value():
    grid = APVISetting(states=36, actions=4, horizon=20)
    users = grid.users_to_start()
    share = 1 / (36 * 4)
    assert grid.penalty(users * share) < grid.horizon <= grid.penalty((users - 1) * share * 0.999)
    assert 1e8 < users < 1e9  # ours learns .97 of the way from 1e4
    assert grid.penalty(grid.threshold / 2) == grid.horizon
    assert grid.penalty(1e12, 100.0) > grid.penalty(1e12)
    tight = APVISetting(states=36, actions=4, horizon=20, calibration="tight")
    assert tight.users_to_start() < users


@pytest.mark.parametrize(
    "wrong", [{"states": 0}, {"delta": 0.0}, {"calibration": "loose"}, {"failure": 1.0}]
)
def test_what_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        APVISetting(**({"states": 3, "actions": 2, "horizon": 5} | wrong))
