"""[Luyo21]: golden values, and computations that must be able to fail."""

import pytest

from confide.privacy.request import JointDP, LocalDP
from papers.fits import exponent
from papers.luyo21 import bounds as luyo21_bounds
from papers.luyo21 import claims as luyo21
from papers.luyo21 import errata as luyo21_errata
from papers.luyo21 import errata_linear as luyo21_errata_linear

pytestmark = pytest.mark.long


def test_golden_values():
    by_name = {(one.locator): luyo21.promise(one).numbers["epsilon"] for one in luyo21.CONSTANTS}
    assert by_name["Cor. 5"] == pytest.approx(9.325e-4, rel=1e-3)
    assert by_name["Cor. 6"] == pytest.approx(0.0988, rel=1e-3)
    assert by_name["Thm. 8, E.1"] == pytest.approx(1.377e-5, rel=1e-3)
    assert by_name["Remark 1, C.4, joint"] == pytest.approx(0.7556, rel=1e-3)
    assert by_name["Remark 2, E.3"] == pytest.approx(0.7, rel=1e-3)


@pytest.mark.parametrize(("d", "distance"), [(2, 2.2361), (3, 2.8723), (5, 4.2720)])
def test_l1_sensitivities(d, distance):
    assert luyo21_errata.largest_l1(d) == pytest.approx(distance, abs=1e-4)


def test_bounds_are_increasing_and_cross_what_is_trivial_once():
    joint = JointDP(1.0, 1e-5)
    for bound in (
        luyo21_bounds.mixture_bound,
        luyo21_bounds.plus_bound,
        luyo21_bounds.linear_bound,
    ):
        start = luyo21_bounds.nontrivial_from(lambda K, bound=bound: bound(joint, K))
        assert bound(joint, 0.9 * start) >= 0.9 * start * 5
        assert bound(joint, 1.1 * start) < 1.1 * start * 5
        assert bound(joint, 1e6) < bound(joint, 1e7)


def test_pure_variants_are_all_judged_with_noise_of_the_printed_order():
    """With enough noise for the guarantee the exponent of d grows by 1/2 or 1/3 (erratum 4)."""
    pure = [one for one in luyo21.CONSTANTS if one.pure]
    assert len(pure) == 3
    for one in pure:
        claim = luyo21.rates(one)
        assert claim.holds is True
        assert claim.numbers["d"] == pytest.approx(one.exponents[2], abs=0.06)
        assert claim.numbers["d_enough_noise"] > one.exponents[2] + 0.3
        assert "of the order that the paper prints" in claim.computed
        assert "too little for pure differential privacy" in claim.computed


def test_local_noise_costs_a_quarter_more_in_the_exponent():
    joint, local = (
        luyo21_bounds.in_episodes(lambda K, p=p: luyo21_bounds.mixture_bound(p, K))
        for p in (JointDP(1, 1e-5), LocalDP(1, 1e-5))
    )
    assert local - joint == pytest.approx(0.25, abs=0.01)


def test_the_mended_bound_is_smaller_and_linear_in_d():
    small = JointDP(1e-3, 1e-5)
    assert luyo21_bounds.mended_bound(small, 1e90, 5, 1000) < luyo21_bounds.linear_bound(
        small, 1e90, 5, 1000
    )
    assert exponent(
        lambda d: luyo21_bounds.mended_bound(small, 1e90, 5, int(d)), 1e5
    ) == pytest.approx(1.0, abs=0.05)


def test_a_wrong_computation_is_not_shown(monkeypatch):
    monkeypatch.setattr(luyo21_errata, "largest_l1", lambda *_: 2.0)  # were the paper right
    assert luyo21_errata.l1_sensitivity().stands is False
    monkeypatch.setattr(luyo21_errata_linear, "mended_bound", luyo21_bounds.linear_bound)
    assert luyo21_errata_linear.tree_twice().stands is False
