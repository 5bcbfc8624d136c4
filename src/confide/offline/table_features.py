"""What is public about a logged table: sizes, rewards, what can follow, and where trajectories end."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.identity import Identity
from confide.tables.support_features import Support

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """States 0..states - 1 and actions 0..actions - 1, as logged; the support has one more state, the end, if ends are transitions.

    A terminal state [s] has no row: it pays its reward once, and nothing follows. `rewards` [s, a] are None if they are learned, from
    rewards in [reward_low, reward_high]; returns lie in [lowest, highest]. `start` [s] is None if it is learned.
    """

    states: int
    actions: int
    discount: float
    support: Support = field(repr=False)
    terminal: Bools = field(repr=False)
    rewards: Array | None = field(repr=False)
    reward_low: float
    reward_high: float
    lowest: float
    highest: float
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


def return_range(
    rewards: Array, terminal: Bools, discount: float, *, ends: bool
) -> tuple[float, float] | None:
    """The least and the largest return that any transition probabilities could give; None if there is no bound.

    A terminal state pays once; elsewhere rewards go on, or end where ends are transitions.
    """
    last = [0.0] * ends + [float(reward) for reward in rewards[terminal].ravel()]
    going = rewards[~terminal]
    if going.size == 0:
        return min(last), max(last)
    if discount == 1:
        return (min(last, default=0.0), max(last, default=0.0)) if not going.any() else None
    on = [float(going.min()) / (1 - discount), float(going.max()) / (1 - discount)]
    return min(on[0], *last, on[0]), max(on[1], *last, on[1])


def step_ranges(table: Table, horizon: int) -> tuple[Array, Array]:
    """The least and the largest return of k steps [k], k = 0..horizon, whatever follows what; a trajectory may stop before."""
    rewards = (
        np.array([[table.reward_low, table.reward_high]])
        if table.rewards is None
        else table.rewards
    )
    terminal = np.zeros(len(rewards), bool) if table.rewards is None else table.terminal
    going, last = rewards[~terminal], rewards[terminal]
    low, high = np.zeros(horizon + 1), np.zeros(horizon + 1)
    for k in range(horizon):
        low[k + 1] = min(
            0.0, last.min(initial=0.0), going.min(initial=np.inf) + table.discount * low[k]
        )
        high[k + 1] = max(
            0.0, last.max(initial=0.0), going.max(initial=-np.inf) + table.discount * high[k]
        )
    return low, high
