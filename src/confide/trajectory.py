"""What users did, in batched arrays. PRIVATE: never logged, never in an error, and its repr hides it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """Whole episodes of many users, all under one policy.

    Shapes: states [user, h] with h = 0..H (the last one is where the episode ended), actions and rewards [user, h] with h = 0..H-1. In a
    linear system states [user, h, n] and actions [user, h, d] are vectors, and rewards are minus the costs; in a world played step by
    step states are features [user, h, action, i].
    """

    states: npt.NDArray[Any] = field(repr=False)
    actions: npt.NDArray[Any] = field(repr=False)
    rewards: Array = field(repr=False)

    def __post_init__(self) -> None:
        users, steps = self.rewards.shape
        if self.states.shape[:2] != (users, steps + 1) or self.actions.shape[:2] != (users, steps):
            shapes = f"states {self.states.shape}, actions {self.actions.shape}, rewards {self.rewards.shape}"
            raise InvalidParameter(f"states must have one step more than actions and rewards, for the same users, got {shapes}")

    @property
    def users(self) -> int:
        return len(self.rewards)

    @property
    def horizon(self) -> int:
        return int(self.rewards.shape[1])

    def __getitem__(self, users: slice) -> "Trajectories":
        return Trajectories(self.states[users], self.actions[users], self.rewards[users])


@dataclass(frozen=True, slots=True, eq=False)
class TransitionCounts:
    """How often each transition happened in a simulated batch: exact, and enough for everything that adds up over users.

    For simulation only: a real service sees trajectories, and nobody may count them before the clip. A certificate made from counts
    says so.

    Shapes: one row per different transition: step, state, action, next_state [row], reward [row], count [row].
    """

    step: Indices = field(repr=False)
    state: Indices = field(repr=False)
    action: Indices = field(repr=False)
    next_state: Indices = field(repr=False)
    reward: Array = field(repr=False)
    count: Indices = field(repr=False)
    users: int
    horizon: int


def nobody_counted(users: int, horizon: int) -> TransitionCounts:
    """Users whom the agent does not look at: only their number."""
    empty = np.zeros(0, dtype=np.int64)
    return TransitionCounts(empty, empty, empty, empty, np.zeros(0), empty, users, horizon)
