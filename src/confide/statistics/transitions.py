"""From trajectories to transitions and rewards.

Invalid entries are dropped silently, so that no message depends on the data. `RewardTargets` makes
the rows of reward regression [Zhou22, (2)]: what a reward tells about its parameter. Everything
here is PRIVATE, and nothing leaves it but the `Bounded` contributions that a bound has clipped.
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

# So many transitions are worth counting before they are clipped. Measured by speed: the result is
# the same.
_MANY = 4096


def valid_transitions(
    users: Trajectories | TransitionCounts, steps: int, states: int, actions: int
) -> TransitionCounts:
    """The transitions of the first `steps` steps between states and actions that exist.

    All others contribute zero.
    """
    if isinstance(users, Trajectories):
        return _transitions_of_trajectories(users, steps, states, actions)
    exists = (
        (users.step >= 0)
        & (users.step < steps)
        & (users.state >= 0)
        & (users.state < states)
        & (users.action >= 0)
        & (users.action < actions)
        & (users.next_state >= 0)
        & (users.next_state < states)
    )
    step = users.step[exists]
    count = users.count[exists]
    if not _kernels.one_row_per_step(step, count, steps, users.users):
        raise InvalidParameter("every user has at most one transition per step")
    return TransitionCounts(
        step,
        users.state[exists],
        users.action[exists],
        users.next_state[exists],
        users.reward[exists],
        count,
        users.users,
        users.horizon,
    )


def _transitions_of_trajectories(
    users: Trajectories, steps: int, states: int, actions: int
) -> TransitionCounts:
    """The transitions of trajectories, without rewards. Many transitions are counted."""
    step, state, action, next_state = _kernels.transitions(
        indices(users.states, states), indices(users.actions, actions), steps, states, actions
    )
    if len(step) <= _MANY:
        count = np.ones(len(step), dtype=np.int64)
    else:
        # Equal transitions are counted: everything that is clipped row by row is the same for them.
        codes = ((step * states + state) * actions + action) * states + next_state
        codes, count = _count_codes(codes, steps * states * actions * states)
        codes, next_state = np.divmod(codes, states)
        codes, action = np.divmod(codes, actions)
        step, state = np.divmod(codes, states)
    no_rewards = np.full(len(step), math.nan)
    return counts_without_check(
        step,
        state,
        action,
        next_state,
        no_rewards,
        count,
        users=users.users,
        horizon=users.horizon,
    )


def _count_codes(codes: Indices, size: int) -> tuple[Indices, Indices]:
    """The different codes in 0..size-1, in order, and how often each occurs."""
    if size > len(codes):
        return np.unique(codes, return_counts=True)
    # Without sorting this is several times as fast.
    counts = np.bincount(codes, minlength=size)
    present = np.flatnonzero(counts)
    return present, counts[present]


def indices(values: npt.NDArray[Any], size: int) -> Indices:
    """States or actions [user, step] as int64. What is no whole number in 0..size-1 becomes -1.

    An array of integers stays as it is, so the caller must check the range.
    """
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
    """Turns the users of a batch into rows of reward regression, one for each step.

    A row is varphi(s, a), and its target is r - offset(s, a). The rows are the same at every step.
    Both are multiplied by `weights` [s, a] (or one number), which must be public. By default the
    weight is 1/sqrt(G(s, a)) with G = ||varphi||^2 + kappa^2 Y^2 / 2, where Y(s, a) is the largest
    target of a reward in [0, 1]. Then no row is clipped.

    A reward outside of [0, 1] is clipped to it. A reward that is not finite, and a state or an
    action that does not exist, contribute zero.
    """

    def __init__(
        self, bound: Rows, features: RewardFeatures, weights: Array | float | None = None
    ) -> None:
        # G is positive, because Y >= 1/2.
        G = (features.rows**2).sum(axis=-1) + (bound.balance * features.largest) ** 2 / 2
        if weights is None:
            weights = 1 / np.sqrt(G)
        self._bound = bound
        self._weight = np.broadcast_to(np.asarray(weights), G.shape)
        self._offset = features.offset
        self._rows = features.rows * self._weight[..., None]

    def tables(self) -> list[Array]:
        """Everything that the rows are made of."""
        return [self._rows, self._offset, self._weight]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        """The clipped rows of these users, added up."""
        step, state, action, reward, count = outcomes(users, self._bound.steps, *self._weight.shape)
        rows = self._rows[state, action]
        targets = (reward - self._offset[state, action]) * self._weight[state, action]
        return self._bound.clip_and_add(step, rows, targets, count, users=users.users)


def outcomes(
    users: Trajectories | TransitionCounts, steps: int, states: int, actions: int
) -> tuple[Indices, Indices, Indices, Array, Indices]:
    """(step, state, action, reward, count) [row] of the first `steps` steps.

    Rewards are clipped to [0, 1]. What does not exist is left out. Trajectories give one row for
    each user and step, because rewards are real numbers.
    """
    if isinstance(users, TransitionCounts):
        step = users.step
        state = users.state
        action = users.action
        reward = real_numbers(users.reward)
        count = users.count
    else:
        step = np.tile(np.arange(users.horizon), users.users)
        state = indices(users.states[:, :-1], states).ravel()
        action = indices(users.actions, actions).ravel()
        reward = real_numbers(users.rewards).ravel()
        count = np.ones(users.users * users.horizon, dtype=np.int64)
    exists = (
        (step >= 0)
        & (step < steps)
        & (state >= 0)
        & (state < states)
        & (action >= 0)
        & (action < actions)
        & np.isfinite(reward)
    )
    clipped_reward = np.clip(reward[exists], 0.0, 1.0)
    return step[exists], state[exists], action[exists], clipped_reward, count[exists]
