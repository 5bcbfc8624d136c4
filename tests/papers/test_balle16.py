"""[Balle16]: golden values of the errata, the chain, and computations that must be able to fail."""

import math

import numpy as np
import pytest

from papers.balle16 import bounds, chain, errata, figure

pytestmark = pytest.mark.long


def test_golden_values():
    first = errata.lemma_1().numbers
    assert first["delta_at_55"] == pytest.approx(0.132093, rel=1e-4)  # eps = 55, delta = .1, d = 1
    assert first["fails_0.1_1"] == pytest.approx(51, abs=1)
    assert bounds.main_text(0.1, 0.1, 40) == pytest.approx((122.387, 5.8145e-4), rel=1e-4)
    assert bounds.lemma_10(1000.0, 0.01)[0] == pytest.approx(np.exp(-9.99))


def test_the_printed_constants_are_closer_than_delta_at_the_settings_of_the_figure():
    assert bounds.true_epsilon(*bounds.main_text(0.1, 0.1, 40), 0.1, 40) == 0.0
    assert bounds.true_epsilon(*bounds.main_text(1.0, 1e-5, 40), 1e-5, 40) == pytest.approx(
        0.170, abs=1e-3
    )


def test_lemma_12_mended_is_a_bound():
    for m in (3, 50, 700):
        for p in (0.01, 0.3, 0.99):
            for beta in (1e-4, 0.05, 1.5):
                exact, _, mended = bounds.lemma_12(m, p, beta)
                assert exact <= mended * (1 + 1e-12)


def test_expectations_are_exact():
    """Against simulation: 4e5 draws, beyond 5 standard errors with probability 6e-7."""
    rng = np.random.default_rng(0)
    m = 20
    p = 0.4
    beta = 0.3
    counts = rng.binomial(m, p, 400_000)
    values = np.maximum(
        1 / np.maximum(counts, 1.0) ** 2, np.exp(-beta * np.maximum(counts - 1.0, 0.0))
    )
    exact = bounds.lemma_12(m, p, beta)[0]
    assert abs(values.mean() - exact) < 5 * values.std() / np.sqrt(len(values))
    assert abs(values.mean() - 1.05 * exact) > 5 * values.std() / np.sqrt(len(values))


def test_a_wrong_computation_is_not_shown(monkeypatch):
    # the printed value for the true one
    monkeypatch.setattr(errata, "lemma_10", lambda a, b: bounds.lemma_10(a, b)[::-1])
    assert errata.interior_value().stands is False
    monkeypatch.setattr(errata, "theorem_19", lambda *_: 1e12)
    assert errata.case_conditions().stands is False


def test_the_chain_is_the_paper_s():
    """Values agree with dynamic programming within 5 standard errors (about .003), and visits."""
    log = chain.ChainLog(20_000, (1,))
    assert chain.rmse(chain.lsw().release(log).values) < 0.003
    counts = sum(
        np.bincount(np.unique(block.states[a:b]), minlength=40)
        for block in log.blocks()
        for a, b in _spans(block, 500)
    )
    assert counts[-1] == 500  # everybody ends in the last state
    assert counts[19] == pytest.approx(250, abs=5 * np.sqrt(125))


def _spans(block, users):
    return list(zip(block.trajectories[:users], block.trajectories[1 : users + 1], strict=True))


def test_noise_falls_with_users_and_with_aggregation():
    stds = [chain.noise_std(chain.dp_lsw("paper", group), 1e5) for group in (1, 2, 4)]
    assert stds == sorted(stds, reverse=True)
    assert chain.noise_std(chain.dp_lsw("paper"), 1e9) == pytest.approx(
        chain.noise_std(chain.dp_lsw("paper"), 1e8) / 10, rel=1e-3
    )


def test_the_figure_has_every_curve_that_the_text_names_for_both_starts(quick_reproduction):
    drawn = quick_reproduction("balle16").figures
    assert [each.name for each in drawn] == ["balle16", "balle16_first"]
    for each in drawn:
        first, second, third, last = ([line.label for line in panel.lines] for panel in each.panels)
        assert {label.partition(",")[0] for label in first} == {"LSW", "LSL"}
        for panel in (second, third):
            named = {label.partition(",")[0] for label in panel}
            assert named >= {"LSW", "LSL", "DP-LSW paper", "DP-LSL paper"}
        # Two sizes in the second panel, and each curve of the last one was measured: it has a band.
        assert sum(label.startswith("LSW, m = ") for label in second) == 2
        assert len(last) == 8
        assert all(line.error is not None for line in each.panels[3].lines)


def test_excess_risk_is_that_of_the_objectives():
    """J_X is written out as in [Balle16, (7), (11)]. LSW and LSL minimise it, and noise adds."""
    users = 300
    rng = np.random.default_rng(0)
    log = chain.ChainLog(users, (1,), "uniform")
    counts = log.counts()
    block = next(log.blocks())
    visits = sum(
        np.bincount(np.unique(block.states[a:b]), minlength=40) for a, b in _spans(block, users)
    )
    np.testing.assert_array_equal(counts, visits)
    for group in (1, 2):
        risk = figure.ridge_risk(log, group, np.random.default_rng(5))
        ridge = 10 * math.sqrt(users)
        moved = chain.release_values(
            chain.dp_lsl(ridge, "paper", group), log, np.random.default_rng(5)
        )
        plain = chain.lsl(ridge, group).release(log).values
        phi = np.eye(40) if group == 1 else chain.features(group)
        # The sums of F [s], from the averages of the table.
        sums = counts * chain.lsw().release(log).values

        def J(values, ridge=ridge, group=group, sums=sums):
            theta = values[::group]
            squares = counts @ values**2 - 2 * sums @ values
            return (squares + ridge / 2 * theta @ theta) / users

        assert risk == pytest.approx(J(moved) - J(plain), rel=1e-6)
        assert phi.shape == (40, 40 // group) and J(plain) <= J(
            plain + 1e-3 * rng.normal() * phi[:, 0]
        )
        assert figure.weighted_risk(log, group, np.random.default_rng(5)) > 0


def test_dp_lsw_with_pairs_is_as_good_as_lsw_from_fewer_trajectories(quick_reproduction):
    """The third panel has pairs of states, where LSW keeps the error of the features."""
    numbers = next(
        claim.numbers
        for claim in quick_reproduction("balle16").empirical
        if claim.locator == "Sec. 6, third plot" and "lsw_paper" in claim.numbers
    )
    assert numbers["lsw_paper"] == pytest.approx(692_000, rel=0.01)
    assert numbers["lsw_tight"] == pytest.approx(16_600, rel=0.01)
    assert numbers["lsw_first_paper"] == pytest.approx(76_700, rel=0.01)
    assert numbers["lsw_first_tight"] == pytest.approx(2_070, rel=0.01)
    assert numbers["table_paper"] > 1e9
    # DP-LSL is compared with LSL, and needs more trajectories than DP-LSW.
    for setting in ("paper", "tight", "first_paper", "first_tight"):
        assert numbers[f"lsl_{setting}"] > 100 * numbers[f"lsw_{setting}"]


def test_the_expected_estimate_of_lsl_is_that_of_a_large_log():
    users = 20_000
    ridge = 10 * math.sqrt(users)
    log = chain.ChainLog(users, (1,))
    for group in (1, 2):
        estimate = chain.lsl(ridge, group).release(log).values
        expected = chain.expected_lsl(users, ridge, group)
        assert np.abs(estimate - expected).max() < 0.02


def test_sizes_of_batches_are_limited_by_users():
    assert figure.batch_sizes(True, "uniform") == (100, 1_000, 10_000)
    assert figure.batch_sizes(True, "uniform", 1_000) == (100, 1_000)
    assert figure.batch_sizes(False, "first", 100_000)[-1] == 100_000
    assert figure.batch_sizes(False, "uniform")[-1] == 1_000_000


def test_from_the_first_state_fewer_trajectories_are_enough():
    """The noise at the expected counts against the constant 1/2, which needs no data."""
    enough = {
        start: figure.crossing("paper", lambda _: chain.constant_error(), start=start)
        for start in chain.STARTS
    }
    assert enough["uniform"] == pytest.approx(851_000, rel=0.01)
    assert enough["first"] == pytest.approx(27_600, rel=0.01)
    log = chain.ChainLog(50, (1,), "first")
    np.testing.assert_array_equal(log.counts(), np.full(40, 50.0))
