"""Users in whose place another one can be put: with arbitrary data, or with data that contribute zero."""

from typing import Any

import numpy as np

from confide.problems.problem import Problem
from confide.trajectory import Trajectories


def stranger(user: Trajectories, problem: Problem, rng: np.random.Generator) -> Trajectories:
    """Arbitrary data of the same kind, possible or not."""

    def drawn(values: Any, most: int) -> Any:
        if values.dtype.kind in "iu":
            return rng.integers(most, size=values.shape, dtype=values.dtype)
        return rng.normal(size=values.shape) * (1 + np.abs(np.nan_to_num(values)).max())

    states, actions = (getattr(problem, name, 1) for name in ("states", "actions"))
    rewards = rng.random(user.rewards.shape)
    return Trajectories(drawn(user.states, states), drawn(user.actions, actions), rewards)


def nobody(user: Trajectories) -> Trajectories:
    """Data that contribute zero: states and actions do not exist, or are no numbers."""

    def missing(values: Any) -> Any:
        return (
            np.full_like(values, -1) if values.dtype.kind in "iu" else np.full_like(values, np.nan)
        )

    return Trajectories(missing(user.states), missing(user.actions), np.zeros_like(user.rewards))
