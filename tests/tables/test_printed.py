"""The papers' constants: golden values from a derivation of their own, their true epsilon, and when learning can start."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import confide
from confide.agents import DPUCBVI, LDPOBI, PUCB, UCBVI
from confide.errors import ConfideError, InvalidParameter, PrivacyError
from confide.problems import TabularMDP, riverswim
from confide.tables.optimistic_planning import Errors
from confide.tables.printed import (
    MOST,
    DPUCBVIRule,
    OBIRule,
    PUCBRule,
    TableSetting,
    UCBVIRule,
    bonus_of_one,
    starts,
)

RIVER = riverswim()
COINS = TabularMDP(RIVER.transitions, RIVER.rewards, RIVER.start, stochastic_rewards=True)
USERS = (20_000, 10**6, 10**8)


def setting(users=20_000):
    return TableSetting(users, RIVER.horizon, RIVER.states, RIVER.actions)


def bonuses(rule):
    return [bonus_of_one(replace(rule, setting=setting(users))) for users in USERS]


def test_the_bonus_of_pucb():
    """By hand, H = 20, S = 6, A = 2, epsilon = 1, beta' = 1/90: E = 60 ln(1920 x 90) ln(K)^2.5 = 60 x 12.0599 x 709.44 = 513 342 at K =
    1e6, psi = 121 (3 x .513342 + 2 x .513342^2) = 250.12, phi = sqrt(2 ln(9e7) / 486 658) = .00867, so 21 phi + psi = 250.30."""
    assert bonuses(PUCBRule(setting(), 1.0)) == pytest.approx([34_344, 250.30, 3.8665], rel=1e-4)


def test_another_reading_of_pucb():
    """With logarithms of T = K H steps, and beta' = beta / 4, these are 1e5, 432 and 5.2: of the same order."""
    found = []
    for K in USERS:
        E = 60 * math.log(1920 / 0.025) * math.log(20 * K) ** 2.5
        found.append(
            21 * math.sqrt(2 * math.log(20 * K / 0.025) / max(K - E, 1))
            + 121 * (3 * E / K + 2 * (E / K) ** 2)
        )
    assert found == pytest.approx([1.06e5, 432, 5.24], rel=0.01)
    ours = bonuses(PUCBRule(setting(), 1.0))
    assert all(1 < other / one < 3.2 for other, one in zip(found, ours, strict=True))


def test_the_bonus_of_private_ucb_vi():
    """By hand at K = 1e6, central: E1 = 60 sqrt(8 x 19.9316^3 x ln(1.44e10)) = 72 951, E2 with ln(8.64e10) 75 694, n = 1 072 951:
    20 (6 x 75 694 + 2 x 72 951) / n = 11.185, and 20 sqrt(2 ln(9.6e9)) / sqrt(n) = .131 for sampling: together 11.32."""
    central, local = (
        UCBVIRule(setting(), 1.0, learned=False),
        UCBVIRule(setting(), 1.0, learned=False, local=True),
    )
    assert bonuses(central) == pytest.approx([111.18, 11.328, 0.21613], rel=1e-3)
    assert bonuses(local) == pytest.approx([139.48, 74.259, 13.509], rel=1e-3)


def test_the_bonus_of_ldp_obi():
    """By hand at K = 1e8: b = 120, l = ln(4 pi^2 1e16 x 12 / .3) = 44.21: c3 = 120 sqrt(6e8 x 8 l) = 5.528e7, and c4 with l = 46.00 and 1e8
    noises 2.302e7. n = 1e8 + 2 c3 = 2.1056e8; 20 (6 c4 + 3 c3) / n = 28.87, and sampling 20 sqrt(84 L / n) = .10 with L = 65.6."""
    assert bonuses(OBIRule(setting(), 1.0, learned=False)) == pytest.approx(
        [55.442, 50.429, 28.974], rel=1e-4
    )


@pytest.mark.parametrize(
    ("rule", "most", "one"),
    [
        (PUCBRule(setting(), 1.0, learned=False), 1.5e7, 4.7e8),
        (UCBVIRule(setting(), 1.0, learned=False), 4.8e5, 1.7e7),
        (UCBVIRule(setting(), 1.0, learned=False, local=True), 4.0e7, 2.55e10),
        (OBIRule(setting(), 1.0, learned=False), 4.0e8, 4.9e11),
        (DPUCBVIRule(setting(), 1.0, learned=False), 2.98e9, 8.5e10),
    ],
    ids=["pucb", "ucb-vi", "ucb-vi, local", "ldp-obi", "dp-ucbvi"],
)
def test_learning_cannot_start_before(rule, most, one):
    """Where the bonus of a pair that everybody visits gets below H, and below what one step can bring."""
    users = starts(rule)
    assert users == pytest.approx(most, rel=0.05) and starts(rule, 1.0) == pytest.approx(
        one, rel=0.1
    )
    below, above = (bonus_of_one(replace(rule, setting=setting(k))) for k in (users, users - 1))
    assert below < RIVER.horizon <= above
    assert starts(replace(rule, epsilon=math.inf)) < 0.01 * users


def test_the_bonus_of_dp_ucbvi():
    """By hand at K = 1e6, central: E = 4 x 60 sqrt(8 x 19.9316^3 x ln(8.64e10)) = 303 121, n = 1e6 + E / 2 = 1 151 560, i = ln(1.44e12) =
    27.9957: 20 x 20 x 6 E i / n = 17 686.1, 4 x 20 sqrt(i / n) = .394, and 2 sqrt(i / n) times a spread of at most H / 2, .099."""
    assert bonuses(DPUCBVIRule(setting(), 1.0, learned=False)) == pytest.approx(
        [93_487, 17_686.5, 396.18], rel=1e-4
    )
    local = DPUCBVIRule(setting(), 1.0, learned=False, local=True)
    assert (
        bonuses(local) == pytest.approx([106_024, 84_669, 24_457], rel=1e-4)
        and starts(local) > MOST
    )


def test_the_minimum_in_the_bonus_of_dp_ucbvi_is_h_squared():
    """Where the table of docs/tables.md ends, at 8.5e10 users of riverswim, for a state that all of them visit."""
    rule = DPUCBVIRule(setting(85 * 10**9), 1.0, learned=False)
    log, H, S, A = rule.errors(1).log, 20, 6, 2
    assert 1000**2 * H**3 * S * A * log**2 / 85e9 > H**2


def test_consistent_counts_are_next_to_the_noisy_ones():
    """Against linear programming, by which [QiaoWang24, Remark 5.7] finds them: the largest difference is the same."""
    rng, rule = np.random.default_rng(0), DPUCBVIRule(setting(), 1.0)
    cells = rng.normal(0, 10, size=(40, 6)) + (rng.random((40, 6)) < 0.3) * 40
    visits, slack = np.maximum(cells, 0).sum(axis=1) + rng.normal(0, 20, size=40), 5.0
    visits[0], cells[1] = -50.0, -np.abs(cells[1])
    found = rule.consistent(cells, visits, Errors(0.0, 4 * slack, 0.0, 1.0))
    assert (found >= 0).all() and (found.sum(axis=1) <= np.maximum(visits + slack, 0) + 1e-6).all()
    for c, v, x in zip(cells, visits, found, strict=True):
        sides = np.r_[
            np.c_[np.eye(6), -np.ones(6)],
            np.c_[-np.eye(6), -np.ones(6)],
            [np.r_[np.ones(6), 0], np.r_[-np.ones(6), 0]],
        ]
        limits = np.r_[c, -c, max(v + slack, 0), -(v - slack)]
        best = linprog(np.r_[np.zeros(6), 1], A_ub=sides, b_ub=limits, bounds=(0, None))
        assert best.success and np.abs(x - c).max() == pytest.approx(best.fun, abs=1e-6)


def test_an_unvisited_pair_may_be_worth_anything():
    for rule in (
        PUCBRule(setting(), math.inf),
        OBIRule(setting(), math.inf),
        DPUCBVIRule(setting(), math.inf),
    ):
        errors = rule.errors(1)
        assert np.isinf(rule.bonus(rule.totals(np.zeros(1), errors), errors).at_most(20)).all()
    rule = UCBVIRule(setting(), math.inf)
    errors = rule.errors(1)
    assert rule.bonus(rule.totals(np.zeros(1), errors), errors).at_most(20)[0] > 20


@pytest.mark.parametrize(
    ("kind", "problem", "privacy", "epsilon"),
    [
        (PUCB, COINS, confide.JointDP(1.0, delta=0.0), 2.0),
        (PUCB, RIVER, confide.JointDP(1.0, delta=0.0), 4 / 3),
        (PUCB, COINS, confide.JointDP(1.0, delta=0.0, relation="null"), 1.0),
        (UCBVI, COINS, confide.JointDP(1.0, delta=0.0), 2.0),
        (UCBVI, COINS, confide.LocalDP(1.0, delta=0.0), 2.0),
        (UCBVI, RIVER, confide.JointDP(1.0, delta=0.0, relation="null"), 2 / 3),
        (DPUCBVI, COINS, confide.JointDP(1.0, delta=0.0), 2.0),
        (DPUCBVI, COINS, confide.JointDP(1.0, delta=0.0, relation="null"), 1.0),
        (DPUCBVI, RIVER, confide.LocalDP(1.0, delta=0.0), 4 / 3),
        (LDPOBI, COINS, confide.LocalDP(1.0, delta=0.0), 1.0),
        (LDPOBI, RIVER, confide.LocalDP(1.0, delta=0.0), 1 / 3),
    ],
)
def test_the_true_epsilon_of_the_printed_noise(kind, problem, privacy, epsilon):
    """K = 1000: ten levels, printed and in the tree. What is more than was asked for is refused."""
    agent = kind(problem.public, episodes=1000, privacy=privacy, calibration="paper")
    assert agent.loss.epsilon == pytest.approx(epsilon)
    if epsilon > 1:
        with pytest.raises(ConfideError, match="more than the requested"):
            confide.run(agent, problem, seed=0)


def test_what_a_paper_does_not_print_is_refused():
    with pytest.raises(PrivacyError, match=r"no constants for LocalDP"):
        PUCB(
            RIVER.public, episodes=10, privacy=confide.LocalDP(1.0, delta=0.0), calibration="paper"
        )
    with pytest.raises(PrivacyError, match=r"LocalDP alone"):
        LDPOBI(
            RIVER.public, episodes=10, privacy=confide.JointDP(1.0, delta=0.0), calibration="paper"
        )
    with pytest.raises(InvalidParameter, match="episodes must be"):
        TableSetting(0, 1, 1, 1)
    with pytest.raises(InvalidParameter, match="below must be"):
        starts(PUCBRule(setting(), 1.0), 0.0)
