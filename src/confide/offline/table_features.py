"""What is public about a logged table: sizes, rewards, what can follow, and the terminal states.

A table names a release in a ledger (`identity`), so its fields may not change their meaning.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.identity import Identity
from confide.tables.support_features import Support

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LoggedTable:
    """States 0..states - 1 and actions 0..actions - 1, as logged; the support has one more state,
    the end, if ends are transitions.

    A terminal state [s] has no row: it pays its reward once, and nothing follows. `rewards` [s, a]
    are None if they are learned, from rewards in [reward_low, reward_high]. Returns of any length
    lie in [lowest, highest], if these are known. `start` [s] is None if it is learned.
    """

    states: int
    actions: int
    discount: float
    support: Support = field(repr=False)
    terminal: Bools = field(repr=False)
    rewards: Array | None = field(repr=False)
    reward_low: float
    reward_high: float
    lowest: float | None
    highest: float | None
    start: Array | None = field(default=None, repr=False)

    def identity(self) -> Identity:
        return Identity(
            "logged-table",
            1,
            states=self.states,
            actions=self.actions,
            discount=self.discount,
            support=[self.support.indptr, self.support.successors],
            terminal=self.terminal,
            rewards=self.rewards,
            reward_range=[self.reward_low, self.reward_high],
            returns=[self.lowest, self.highest],
            start=self.start,
        )

    @property
    def ends(self) -> bool:
        return self.support.states > self.states

    @property
    def logged_rows(self) -> Bools:
        """The rows [row] of the support that people can be in: all but those of the end."""
        logged: Bools = np.arange(self.support.pairs) < self.states * self.actions
        return logged


def step_ranges(table: LoggedTable, horizon: int) -> tuple[Array, Array]:
    """The least and the largest return of k steps [k], k = 0..horizon, whatever follows what; a
    trajectory may stop before.
    """
    rewards = (
        np.array([[table.reward_low, table.reward_high]])
        if table.rewards is None
        else table.rewards
    )
    terminal = np.zeros(len(rewards), bool) if table.rewards is None else table.terminal
    going = rewards[~terminal]
    last = rewards[terminal]
    least = float(going.min(initial=np.inf))
    most = float(going.max(initial=-np.inf))
    floor = float(min(0.0, last.min(initial=0.0)))
    ceiling = float(max(0.0, last.max(initial=0.0)))
    # Lists of numbers are much faster here than arrays, and a log may have 10,000 steps.
    low = [0.0]
    high = [0.0]
    for _ in range(horizon):
        low.append(min(floor, least + table.discount * low[-1]))
        high.append(max(ceiling, most + table.discount * high[-1]))
    return np.array(low), np.array(high)


def value_ranges(table: LoggedTable, horizon: int) -> tuple[Array, Array]:
    """As `step_ranges`, and no return is outside the range that was stated for all of them.

    For values in a model, never for a clip.
    """
    low, high = step_ranges(table, horizon)
    if table.lowest is None or table.highest is None:
        return low, high
    return np.maximum(low, min(table.lowest, 0.0)), np.minimum(high, max(table.highest, 0.0))
