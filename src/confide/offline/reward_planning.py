"""Rewards of a table: known, or from noisy sums. All post-processing of a release."""

import numpy as np
import numpy.typing as npt

from confide.offline.row_planning import Array, Rows
from confide.offline.table_features import Table
from confide.tables.reward_planning import UnitNormals

SPARSE = 0.1  # the share of rows whose mean reward is not the common one


def rewards_of(table: Table, rows: Rows, sums: Array, noise: float) -> tuple[Array, Array]:
    """Mean rewards [s, a] of all states of the support, and their standard deviations; the end pays nothing.

    Learned rewards: sums [row] of (r - centre)/radius in [-1, 1] over noisy visits. Most rows have a common reward, namely zero unless the
    sums contradict that; the others have one of their own.
    """
    S, A = table.support.states, table.actions
    rewards, std = np.zeros((S, A)), np.zeros((S, A))
    if table.rewards is not None:
        rewards[: table.states] = table.rewards
        return rewards, std
    open_rows = table.support.open
    ratio, spread = _ratios(rows, sums, noise)
    span = table.reward_high - table.reward_low
    mean, deviation = common_or_own(
        (1 + ratio) / 2, np.minimum(spread / 2 + 1e-9, 5.0), open_rows, -table.reward_low / span
    )
    rewards[:] = np.where(open_rows, table.reward_low + span * mean, 0.0).reshape(S, A)
    std[:] = np.where(open_rows, span * deviation, 0.0).reshape(S, A)
    return rewards, std


def _ratios(rows: Rows, sums: Array, noise: float) -> tuple[Array, Array]:
    """Sums over visits [row], in [-1, 1] but for noise, and their standard deviations, noise and sampling together."""
    visits = np.maximum(rows.visits, rows.visit_std / 2)
    ratio = np.clip(sums / visits, -5.0, 5.0)
    spread = np.sqrt(
        (noise / visits) ** 2
        + (np.clip(np.abs(ratio), 0, 1) * rows.visit_std / visits) ** 2
        + 1 / visits
    )
    return ratio, spread


def lower_rewards(
    table: Table, chosen: npt.NDArray[np.bool_], rows: Rows, sums: Array, noise: float, z: float
) -> Array:
    """Rewards [s, a] that are z standard deviations below what these sums say in `chosen` rows [s, a], and the least reward elsewhere.

    Rows are chosen by other people's data, so that no noise of these sums is chosen for being large. With many rows even a lower value,
    cut at the least reward, is too large on average: the cut keeps what noise adds, and drops what it takes away.
    """
    ratio, spread = _ratios(rows, sums, noise)
    low, half = table.reward_low, (table.reward_high - table.reward_low) / 2
    lower = np.clip(low + half * (1 + ratio - z * spread), low, table.reward_high).reshape(
        chosen.shape
    )
    open_rows = table.support.open.reshape(chosen.shape)
    return np.where(open_rows, np.where(chosen, lower, low), 0.0)


def common_or_own(
    ratio: Array, spreads: Array, open: npt.NDArray[np.bool_], usual: float
) -> tuple[Array, Array]:
    """Means and standard deviations [row] of rewards in [0, 1], from estimates with their standard deviations.

    Most `open` rows have the common reward: the weighted median; or `usual`, if it is in [0, 1] and not contradicted.
    """
    order = np.argsort(np.where(open, ratio, 0.0))
    mass = np.cumsum(np.where(open, 1 / spreads**2, 0.0)[order])
    common = float(np.clip(ratio[order[int(np.searchsorted(mass, mass[-1] / 2))]], 0.0, 1.0))
    # two standard errors of a median
    if 0 <= usual <= 1 and abs(common - usual) <= 2.5 / np.sqrt(mass[-1]):
        common = usual
    own = UnitNormals(np.clip(ratio, -5.0, 6.0), spreads)
    spike = np.exp(-0.5 * ((ratio - common) / spreads) ** 2) / np.sqrt(2 * np.pi) / spreads
    chances = np.where(open, SPARSE * own.mass / (SPARSE * own.mass + (1 - SPARSE) * spike), 0.0)
    between = chances * (1 - chances) * (own.mean - common) ** 2
    return common + chances * (own.mean - common), np.sqrt(
        chances * np.minimum(spreads, 0.5) ** 2 + between
    )
