"""Rewards of a table: known, or from noisy sums. All post-processing of a release."""

import numpy as np

from confide.offline.row_planning import Array, Rows
from confide.offline.table_features import Table
from confide.tables.model_planning import common_or_own


def rewards_of(table: Table, rows: Rows, sums: Array, noise: float) -> tuple[Array, Array]:
    """Mean rewards [s, a] of all states of the support, and their standard deviations; the end pays nothing.

    Learned rewards: sums [row] of (r - centre)/radius in [-1, 1] over noisy visits. Most rows have the same reward, as in
    `confide.tables`, namely zero unless the sums contradict that; the others have one of their own.
    """
    S, A = table.support.states, table.actions
    rewards, std = np.zeros((S, A)), np.zeros((S, A))
    if table.rewards is not None:
        rewards[: table.states] = table.rewards
        return rewards, std
    open_rows = table.support.open
    visits = np.maximum(rows.visits, rows.visit_std / 2)
    ratio = np.clip(sums / visits, -5.0, 5.0)  # in [-1, 1], but for noise
    spread = np.sqrt((noise / visits) ** 2 + (np.clip(np.abs(ratio), 0, 1) * rows.visit_std / visits) ** 2 + 1 / visits)
    span = table.reward_high - table.reward_low
    nothing = -table.reward_low / span  # a reward of zero
    found = common_or_own((1 + ratio) / 2, np.minimum(spread / 2 + 1e-9, 5.0), open_rows, nothing if 0 <= nothing <= 1 else None)
    rewards[:] = np.where(open_rows, table.reward_low + span * found.mean, 0.0).reshape(S, A)
    std[:] = np.where(open_rows, span * found.std, 0.0).reshape(S, A)
    return rewards, std
