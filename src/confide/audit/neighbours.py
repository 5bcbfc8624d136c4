"""Users who take the place of another: with arbitrary data, or with data that contribute zero."""

from typing import Any

import numpy as np

from confide.problems.problem import Problem
from confide.trajectory import Trajectories


def make_stranger(user: Trajectories, problem: Problem, rng: np.random.Generator) -> Trajectories:
    """Arbitrary data of the same kind, possible or not."""

    def draw(values: Any, count: int) -> Any:
        if values.dtype.kind in "iu":
            return rng.integers(count, size=values.shape, dtype=values.dtype)
        return rng.normal(size=values.shape) * (1 + np.abs(np.nan_to_num(values)).max())

    rewards = rng.random(user.rewards.shape)
    states = draw(user.states, getattr(problem, "states", 1))
    actions = draw(user.actions, getattr(problem, "actions", 1))
    return Trajectories(states, actions, rewards)


def make_empty(user: Trajectories) -> Trajectories:
    """Data that contribute zero: states and actions do not exist, or are no numbers."""

    def missing(values: Any) -> Any:
        nothing = -1 if values.dtype.kind in "iu" else np.nan
        return np.full_like(values, nothing)

    return Trajectories(missing(user.states), missing(user.actions), np.zeros_like(user.rewards))
