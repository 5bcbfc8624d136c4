"""The bonuses of the papers about optimistic agents for tabular MDPs. All post-processing.

Each function has the form of one paper's bonus. Nobody has checked these forms against the texts of
the papers, so `calibration="paper"` is not offered. Letters are the papers': H is the number of
steps (`table.horizon`), S the number of states (`table.states`), and n a noisy count of visits.
Factors such as 3, 20 or 14 belong to the formulas. `OptimisticRule` multiplies a whole bonus.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TableShape:
    """What a bonus depends on besides counts and noise."""

    horizon: int
    states: int
    learned_rewards: bool


@dataclass(frozen=True, slots=True)
class Widths:
    """How far a noisy count may be from the exact one.

    In the papers these are bounds that hold with high probability, and `log` is the logarithm of
    the bound on sampling errors. Here they are standard deviations, and `log` is a constant.
    """

    visits: float
    transitions: float
    rewards: float
    log: float


@dataclass(frozen=True, slots=True, eq=False)
class Bonus:
    """What is added to the value of each pair: (steps left) * per_step + spread * sqrt(Var V).

    Var V is the variance of the value of the next state. Both arrays are [pair].
    """

    per_step: Array
    spread: Array


BonusFormula = Callable[[Array, Widths, TableShape], Bonus]


def vietri20_bonus(visits: Array, widths: Widths, table: TableShape) -> Bonus:
    """[Vietri20, Alg. 2]: (H + 1) phi + psi, which have E = `widths.visits`."""
    H = table.horizon
    S = table.states
    E = widths.visits
    n = visits
    phi = np.sqrt(2 * widths.log / np.maximum(n - E, 1.0))
    psi = (1 + S * H) * (3 * E / n + 2 * E**2 / n**2)
    return Bonus(((H + 1) * phi + psi) / H, np.zeros_like(n))


def chowdhury_zhou21_bonus(visits: Array, widths: Widths, table: TableShape) -> Bonus:
    """[ChowdhuryZhou21], Private-UCB-VI: H L / sqrt(n) + H (S E2 + 2 E1) / n, with n = N + E1."""
    return _chowdhury_zhou21(visits, widths, table, 1.0)


def chowdhury_zhou21_policy_bonus(visits: Array, widths: Widths, table: TableShape) -> Bonus:
    """[ChowdhuryZhou21], Private-UCB-PO: like Private-UCB-VI, but L is sqrt(2 S) times as large.

    The reason is that transitions are bounded in L1.
    """
    return _chowdhury_zhou21(visits, widths, table, np.sqrt(2.0 * table.states))


def _chowdhury_zhou21(
    visits: Array, widths: Widths, table: TableShape, transition_factor: float
) -> Bonus:
    H = table.horizon
    S = table.states
    n = np.maximum(visits + widths.visits, 1.0)
    sampling = math.sqrt(2 * widths.log) / np.sqrt(n)
    bonus = H * (transition_factor * sampling)
    bonus = bonus + H * (S * widths.transitions + 2 * widths.visits) / n
    if table.learned_rewards:
        bonus = bonus + sampling + (widths.rewards + 2 * widths.visits) / n
    return Bonus(bonus / H, np.zeros_like(n))


def garcelon21_bonus(visits: Array, widths: Widths, table: TableShape) -> Bonus:
    """[Garcelon21]: (H - h + 1) beta_p + beta_r, with n = N + alpha c3; alpha > 1 may be chosen."""
    alpha = 2.0
    S = table.states
    n = visits + alpha * widths.visits
    beta_p = np.sqrt(14 * S * widths.log / n)
    beta_p = beta_p + (S * widths.transitions + (alpha + 1) * widths.visits) / n
    beta_r = np.zeros_like(n)
    if table.learned_rewards:
        beta_r = np.sqrt(2 * widths.log / n) + (alpha + 2) * widths.rewards / n
    return Bonus(beta_p + beta_r / table.horizon, np.zeros_like(n))


def qiao_wang23_bonus(visits: Array, widths: Widths, table: TableShape) -> Bonus:
    """[QiaoWang23]: a Bernstein bonus, 2 sqrt(Var(V) i / n) + 20 H S E i / n + 4 H sqrt(i / n).

    The last term is 4 sqrt(i sum_s' P(s') min(G(s'), H^2) / n) with H^2 in place of the minimum.
    """
    H = table.horizon
    S = table.states
    i = widths.log
    n = visits + widths.visits / 2
    bonus = 20 * H * S * widths.transitions * i / n + 4 * H * np.sqrt(i / n)
    if table.learned_rewards:
        bonus = bonus + np.sqrt(2 * i / n)
    return Bonus(bonus / H, 2 * np.sqrt(i / n))
