"""From trajectories to transitions and rewards. Invalid entries are dropped silently, so that no message depends on the data.

`RewardTargets` are the rows of reward regression [Zhou22, (2)]: what a reward tells about its parameter.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.planners.reward_features import RewardFeatures
from confide.privacy.bounded import Array, Bounded, real_numbers
from confide.statistics import _kernels
from confide.statistics.bounds import Rows
from confide.trajectory import Indices, Trajectories, TransitionCounts, counts_without_check

_MANY = 4096  # rows that are worth counting


def valid_transitions(
    users: Trajectories | TransitionCounts, steps: int, states: int, actions: int
) -> TransitionCounts:
    """The transitions of the first `steps` steps between states and actions that exist; all others contribute zero."""
    if isinstance(users, Trajectories):
        return _of_trajectories(users, steps, states, actions)
    seen = users
    keep = (seen.step >= 0) & (seen.step < steps) & (seen.state >= 0) & (seen.state < states)
    keep &= (
        (seen.action >= 0)
        & (seen.action < actions)
        & (seen.next_state >= 0)
        & (seen.next_state < states)
    )
    step, state, action, after = (
        part[keep] for part in (seen.step, seen.state, seen.action, seen.next_state)
    )
    count = seen.count[keep]
    if not _kernels.one_row_per_step(step, count, steps, seen.users):
        raise InvalidParameter("every user has at most one transition per step")
    # These are rows of counts that were checked when they were made.
    return counts_without_check(
        step,
        state,
        action,
        after,
        seen.reward[keep],
        count,
        users=seen.users,
        horizon=seen.horizon,
    )


def _of_trajectories(
    users: Trajectories, steps: int, states: int, actions: int
) -> TransitionCounts:
    n, H = users.rewards.shape
    found = _kernels.transitions(
        indices(users.states, states), indices(users.actions, actions), steps, states, actions
    )
    step, state, action, after = found
    if len(step) <= _MANY:
        count = np.ones(len(step), dtype=np.int64)
    # equal transitions, counted: everything that is clipped row by row is the same for equal rows
    else:
        codes, count = _counted(
            ((step * states + state) * actions + action) * states + after,
            steps * states * actions * states,
        )
        rest, after = np.divmod(codes, states)
        rest, action = np.divmod(rest, actions)
        step, state = np.divmod(rest, states)
    return counts_without_check(
        step, state, action, after, np.full(len(step), math.nan), count, users=n, horizon=H
    )


def _counted(codes: Indices, size: int) -> tuple[Indices, Indices]:
    """The different codes in 0..size-1, in order, and how often each is there."""
    if size > len(codes):
        return np.unique(codes, return_counts=True)
    counts = np.bincount(codes, minlength=size)  # without sorting: several times as fast
    present = np.flatnonzero(counts)
    return present, counts[present]


def indices(values: npt.NDArray[Any], size: int) -> Indices:
    """Whole numbers as they are, the others in 0..size-1 if they are whole, and -1 for anything else."""
    if values.ndim != 2:
        raise InvalidParameter(
            f"states and actions must have shape (users, steps), got {values.shape}"
        )
    if values.dtype.kind == "i":
        return values.astype(np.int64, copy=False)
    numbers = real_numbers(values)
    valid = (numbers >= 0) & (numbers < size)
    whole = np.where(valid, numbers, -1.0)
    return np.where(whole == np.floor(whole), whole, -1.0).astype(np.int64)


class RewardTargets:
    """Turns the users of a batch into rows varphi(s, a) with targets r - offset(s, a), one per step, the same at every step.

    Rows and targets are multiplied by `weights` [s, a] (or one number), which must be public; by default by 1/sqrt(G(s, a)), G =
    ||varphi||^2 + kappa^2 Y^2 / 2 with Y(s, a) the largest target of a reward in [0, 1], so that no row is clipped. A reward outside [0, 1]
    is clipped to it; one that is not finite, and a state or an action that does not exist, contribute zero.
    """

    def __init__(
        self, bound: Rows, features: RewardFeatures, weights: Array | float | None = None
    ) -> None:
        # positive: Y >= 1/2
        G = (features.rows**2).sum(axis=-1) + (bound.balance * features.largest) ** 2 / 2
        self._weight = np.broadcast_to(
            1 / np.sqrt(G) if weights is None else np.asarray(weights), G.shape
        )
        self._bound, self._offset, self._rows = (
            bound,
            features.offset,
            features.rows * self._weight[..., None],
        )

    def tables(self) -> list[Array]:
        return [self._rows, self._offset, self._weight]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        h, s, a, reward, n = outcomes(users, self._bound.steps, *self._weight.shape)
        y = (reward - self._offset[s, a]) * self._weight[s, a]
        return self._bound.clip_and_add(h, self._rows[s, a], y, n, users=users.users)


def outcomes(
    users: Trajectories | TransitionCounts, steps: int, states: int, actions: int
) -> tuple[Indices, Indices, Indices, Array, Indices]:
    """(step, state, action, reward, count) of the first `steps` steps: rewards clipped to [0, 1]; what does not exist is left out.

    Of trajectories one row per user and step, since rewards are real numbers.
    """
    if isinstance(users, TransitionCounts):
        step, state, action, reward, count = (
            users.step,
            users.state,
            users.action,
            real_numbers(users.reward),
            users.count,
        )
    else:
        n, H = users.rewards.shape
        step, count = np.tile(np.arange(H), n), np.ones(n * H, dtype=np.int64)
        state, action = (
            part.ravel()
            for part in (indices(users.states[:, :-1], states), indices(users.actions, actions))
        )
        reward = real_numbers(users.rewards).ravel()
    keep = (
        (step >= 0)
        & (step < steps)
        & (state >= 0)
        & (state < states)
        & (action >= 0)
        & (action < actions)
    )
    keep &= np.isfinite(reward)
    step, state, action, count = (part[keep] for part in (step, state, action, count))
    return step, state, action, np.clip(reward[keep], 0.0, 1.0), count
