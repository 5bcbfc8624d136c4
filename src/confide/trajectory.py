"""Trajectories of users, in batched arrays. PRIVATE: never in a log message, an error or a repr."""

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


@dataclass(frozen=True, slots=True, eq=False)
class LoggedUsers:
    """Whole users of a log, each with one or more trajectories of any length.

    `valid` is False for users with a row that makes no sense (disorder, a number that is not finite): such a user contributes zero, and
    nothing that is published tells. Statistics check what only they can know, the range of states and actions.

    Shapes: states, rewards [row] and, where logged, actions, probabilities [row] (of the action under the policy that was followed);
    the rows of trajectory t are trajectories[t]:trajectories[t + 1], the trajectories of user u are users[u]:users[u + 1]; valid [user].
    """

    states: Indices = field(repr=False)
    rewards: Array = field(repr=False)
    trajectories: Indices = field(repr=False)
    users: Indices = field(repr=False)
    valid: npt.NDArray[np.bool_] = field(repr=False)
    actions: Indices | None = field(default=None, repr=False)
    probabilities: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        rows, trajectories, count = len(self.states), len(self.trajectories) - 1, len(self.users) - 1
        shapes = self.rewards.shape == (rows,) and self.valid.shape == (max(count, 0),) and trajectories >= 0 and count >= 0
        for optional in (self.actions, self.probabilities):
            shapes = shapes and (optional is None or optional.shape == (rows,))
        for offsets, end in ((self.trajectories, rows), (self.users, trajectories)):
            shapes = shapes and offsets[0] == 0 and offsets[-1] == end and bool((np.diff(offsets) >= 0).all())
        if not shapes:
            raise InvalidParameter("rows, trajectories and users of a log do not fit together")

    @property
    def count(self) -> int:
        return len(self.users) - 1
