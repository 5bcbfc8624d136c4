"""Reward regression [Zhou22, (2)]: what a reward tells about its parameter, alone and beside what its transition tells."""

import numpy as np

from confide.planners.reward_features import RewardFeatures
from confide.privacy.bounded import Array, Bounded, real_numbers
from confide.statistics.bounds import Rows
from confide.statistics.transitions import indices
from confide.trajectory import Indices, Trajectories, TransitionCounts


class RewardTargets:
    """Turns the users of a batch into rows varphi(s, a) with targets r - offset(s, a), one per step, the same at every step.

    Rows and targets are multiplied by `weights` [s, a] (or one number), which must be public; by default by 1/sqrt(G(s, a)), G =
    ||varphi||^2 + kappa^2 Y^2 / 2 with Y(s, a) the largest target of a reward in [0, 1], so that no row is clipped. A reward outside [0, 1]
    is clipped to it; one that is not finite, and a state or an action that does not exist, contribute zero.
    """

    def __init__(self, bound: Rows, features: RewardFeatures, weights: Array | float | None = None) -> None:
        G = (features.rows**2).sum(axis=-1) + (bound.balance * features.largest) ** 2 / 2  # positive: Y >= 1/2
        self._weight = np.broadcast_to(1 / np.sqrt(G) if weights is None else np.asarray(weights), G.shape)
        self._bound, self._offset, self._rows = bound, features.offset, features.rows * self._weight[..., None]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        h, s, a, reward, n = outcomes(users, self._bound.steps, *self._weight.shape)
        y = (reward - self._offset[s, a]) * self._weight[s, a]
        return self._bound.counted(h, self._rows[s, a], y, n, users=users.users)


def outcomes(
    users: Trajectories | TransitionCounts, steps: int, states: int, actions: int
) -> tuple[Indices, Indices, Indices, Array, Indices]:
    """(step, state, action, reward, count) of the first `steps` steps: rewards clipped to [0, 1]; what does not exist is left out.

    Of trajectories one row per user and step, since rewards are real numbers.
    """
    if isinstance(users, TransitionCounts):
        step, state, action, reward, count = users.step, users.state, users.action, real_numbers(users.reward), users.count
    else:
        n, H = users.rewards.shape
        step, count = np.tile(np.arange(H), n), np.ones(n * H, dtype=np.int64)
        state, action = (part.ravel() for part in (indices(users.states[:, :-1], states), indices(users.actions, actions)))
        reward = real_numbers(users.rewards).ravel()
    keep = (step >= 0) & (step < steps) & (state >= 0) & (state < states) & (action >= 0) & (action < actions)
    keep &= np.isfinite(reward)
    step, state, action, count = (part[keep] for part in (step, state, action, count))
    return step, state, action, np.clip(reward[keep], 0.0, 1.0), count
