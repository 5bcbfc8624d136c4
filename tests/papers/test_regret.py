"""Verdicts about regret: what a run with the paper's constants can say, and what it cannot."""

from dataclasses import replace

import numpy as np
import pytest

from confide.privacy.request import JointDP, LocalDP, NoPrivacy
from papers.regret import PaperRuns, judge, paper_lines, run_paper
from papers.runs import case

SPEC = case("ofu-lq", "oscillator", JointDP(1.0, 1e-5), 10_000).with_paper_constants()


def runs(regrets, power):
    """Three sizes, at which uniform play loses 10, 100 and 1,000."""
    uniform = np.array([10.0, 100.0, 1_000.0])
    return PaperRuns(SPEC, (100, 1_000, 10_000), np.array([regrets]), uniform, power)


def test_a_bound_above_uniform_play_at_every_size_cannot_be_tested():
    judged = judge(runs([1.0, 3.0, 9.0], 0.5), lambda users: users)
    assert judged.holds == "not tested"
    assert judged.numbers["bound_over_uniform"] == pytest.approx(10)
    assert "at least 10 times the regret of uniform play" in judged.text


def test_linear_regret_tests_nothing():
    judged = judge(runs([9.0, 90.0, 900.0], 1.0), lambda users: 0.5 * users**0.5)
    assert judged.holds == "not tested"
    assert "power 1.000 of users (linear)" in judged.text


def test_regret_that_has_bent_is_compared_with_the_bound():
    """The bound is 5, 15.8 and 50: below uniform play at two sizes."""
    bent = runs([4.0, 12.0, 40.0], 0.5)
    assert judge(bent, lambda users: 0.5 * users**0.5).holds is True
    assert judge(bent, lambda users: 0.3 * users**0.5).holds is False


def test_refused_constants_test_nothing():
    refused = run_paper(case("ofu-lq", "oscillator", JointDP(60.0, 1e-5), 100), (10, 100), range(1))
    assert isinstance(refused, str) and "more than the requested epsilon=60" in refused
    judged = judge(refused, lambda users: users)
    assert judged.holds == "not tested" and "refused" in judged.text
    assert paper_lines("ofu-lq", refused, 0) == ()


def test_runs_use_the_paper_s_constants():
    spec = case("ofu-lq", "oscillator", NoPrivacy(), 1_000)
    made = run_paper(spec, (100, 1_000), range(2))
    assert isinstance(made, PaperRuns)
    assert made.spec == replace(spec.with_paper_constants(), episodes=1_000)
    assert made.regrets.shape == (2, 2) and made.uniform.shape == (2,)
    assert made.share == pytest.approx(made.regrets[:, -1].mean() / made.uniform[-1])
    assert 0 < made.power < 0.95  # without privacy it learns
    assert len(paper_lines("ofu-lq", made, 0)) == 1
    with pytest.raises(ValueError, match="has no constants for local privacy"):
        run_paper(replace(spec, privacy=LocalDP(1.0, 1e-5)), (100,), range(1))
