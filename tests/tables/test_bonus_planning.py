"""The forms of the papers' bonuses, against numbers that were computed by hand."""

import numpy as np
import pytest

from confide.tables import bonus_planning
from confide.tables.bonus_planning import TableShape, Widths

# H = 20, S = 6, as in riverswim. The widths and logarithms are those of the derivations below.
KNOWN = TableShape(20, 6, learned_rewards=False)
LEARNED = TableShape(20, 6, learned_rewards=True)
MILLION = np.array([1e6])


def first_step(formula, widths, shape=KNOWN, visits=MILLION):
    """The bonus at the first step, for values that spread over all of [0, H]."""
    bonus = formula(visits, widths, shape)
    return float((shape.horizon * bonus.per_step + bonus.spread * shape.horizon / 2)[0])


def test_the_bonus_of_vietri20():
    """The bonus 21 phi + psi is 250.30, for E = 513,342 and a logarithm of 18.3153.

    psi = 121 (3 x 0.513342 + 2 x 0.513342^2) = 250.12, and
    phi = sqrt(36.63 / 486,658) = 0.00867.
    """
    widths = Widths(513_342.0, 513_342.0, 513_342.0, np.log(9e7))
    assert first_step(bonus_planning.vietri20_bonus, widths) == pytest.approx(250.30, rel=1e-4)


def test_the_bonus_of_chowdhury_zhou21():
    """The bonus is 11.185 + 0.131, for E1 = 72,951, E2 = 75,694 and n = 1,072,951.

    Noise: 20 (6 E2 + 2 E1) / n = 11.185. Sampling: 20 sqrt(2 ln(9.6e9)) / sqrt(n) = 0.131.
    Policy optimization has sqrt(12) times as much for sampling: 0.454.
    """
    widths = Widths(72_951.0, 75_694.0, 72_951.0, np.log(9.6e9))
    with_known_rewards = first_step(bonus_planning.chowdhury_zhou21_bonus, widths)
    assert with_known_rewards == pytest.approx(11.316, rel=1e-3)
    policy = first_step(bonus_planning.chowdhury_zhou21_policy_bonus, widths)
    assert policy == pytest.approx(11.185 + 0.454, rel=1e-3)
    with_learned_rewards = first_step(bonus_planning.chowdhury_zhou21_bonus, widths, LEARNED)
    assert with_learned_rewards - with_known_rewards == pytest.approx(
        0.131 / 20 + 3 * 72_951 / 1_072_951, rel=1e-3
    )


def test_the_bonus_of_garcelon21():
    """The bonus is 28.87 + 0.10, for c3 = 5.528e7, c4 = 2.302e7 and n = 1e8 + 2 c3 = 2.1056e8.

    Noise: 20 (6 c4 + 3 c3) / n = 28.87. Sampling: 20 sqrt(84 x 65.6 / n) = 0.10.
    """
    widths = Widths(5.528e7, 2.302e7, 5.528e7, 65.6)
    with_known_rewards = first_step(bonus_planning.garcelon21_bonus, widths, visits=np.array([1e8]))
    assert with_known_rewards == pytest.approx(28.97, rel=1e-3)
    with_learned_rewards = first_step(
        bonus_planning.garcelon21_bonus, widths, LEARNED, np.array([1e8])
    )
    assert with_learned_rewards - with_known_rewards == pytest.approx(
        4 * 5.528e7 / 2.1056e8 + 0.0008, rel=1e-3
    )


def test_the_bonus_of_qiao_wang23():
    """The bonus is 17,686.5, for E = 303,121, n = 1e6 + E / 2 = 1,151,560 and i = 27.9957.

    20 x 20 x 6 E i / n = 17,686.1, and 4 x 20 sqrt(i / n) = 0.394. The spread is at most H / 2,
    which adds 2 sqrt(i / n) H / 2 = 0.099.
    """
    widths = Widths(303_121.0, 303_121.0, 303_121.0, 27.9957)
    with_known_rewards = first_step(bonus_planning.qiao_wang23_bonus, widths)
    assert with_known_rewards == pytest.approx(17_686.5, rel=1e-4)
    with_learned_rewards = first_step(bonus_planning.qiao_wang23_bonus, widths, LEARNED)
    assert with_learned_rewards - with_known_rewards == pytest.approx(
        np.sqrt(2 * 27.9957 / 1_151_560), rel=1e-3
    )
