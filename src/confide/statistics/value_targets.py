"""Value-targeted regression: what a transition tells about the mixture, seen through a public value function [Luyo21, Alg. 1]."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.planners.value_features import FeatureMap, largest_targets, value_features
from confide.privacy.bounded import Bounded, real_numbers
from confide.statistics.bounds import WeightedRows
from confide.trajectory import Trajectories, TransitionCounts

Array = npt.NDArray[np.float64]


class ValueTargets:
    """Turns the users of one batch into a bounded contribution, for the values that this batch was planned with.

    Row and target of (h, s, a, s') are divided by sqrt(G(s, a)), G = ||X||^2 + kappa^2 Y^2 / 2 with Y(s, a) the largest target that a
    possible s' can give: public weights, under which a user's row has norm at most one, so that nothing is lost to the clip. An impossible
    transition is clipped like any other; a state or an action that does not exist contributes zero.
    """

    def __init__(self, bound: WeightedRows, feature_map: FeatureMap, kernels: Array, values: Array) -> None:
        later = values[1 : bound.steps + 1]  # step h is about the value after it
        features = value_features(feature_map, kernels, later)
        Y = largest_targets(features, kernels, later)
        G = (features.rows**2).sum(axis=-1) + (bound.balance * Y) ** 2 / 2
        weight = np.where(G > 0, 1 / np.sqrt(np.where(G > 0, G, 1.0)), 0.0)
        self._bound, self._later, self._weight = bound, later, weight
        self._rows = features.rows * weight[..., None]
        self._offset, self._scale = features.offset, features.scale

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        seen = count_transitions(users, *self._weight.shape[1:]) if isinstance(users, Trajectories) else users
        H, S, A = self._weight.shape
        keep = (seen.step < H) & (seen.state >= 0) & (seen.state < S) & (seen.action >= 0) & (seen.action < A)
        keep &= (seen.next_state >= 0) & (seen.next_state < S)
        h, s, a, after, count = (part[keep] for part in (seen.step, seen.state, seen.action, seen.next_state, seen.count))
        targets = (self._later[h, after] - self._offset[h, s, a]) / self._scale[h] * self._weight[h, s, a]
        return self._bound.contribution(h, self._rows[h, s, a], targets, count, users=seen.users)


def count_transitions(users: Trajectories, states: int, actions: int) -> TransitionCounts:
    """Equal transitions of a batch, counted: everything that is clipped row by row is the same for equal rows.

    A transition with a state or an action that does not exist is left out: it contributes zero.
    """
    n, H = users.rewards.shape
    every_state, every_action = _indices(users.states, states), _indices(users.actions, actions)
    s, a, after = every_state[:, :-1], every_action, every_state[:, 1:]
    valid = (s >= 0) & (a >= 0) & (after >= 0)
    h = np.broadcast_to(np.arange(H), (n, H))
    codes = ((h[valid] * states + s[valid]) * actions + a[valid]) * states + after[valid]
    different, count = np.unique(codes, return_counts=True)
    rest, next_state = np.divmod(different, states)
    rest, action = np.divmod(rest, actions)
    step, state = np.divmod(rest, states)
    return TransitionCounts(step, state, action, next_state, np.full(len(step), math.nan), count, n, H)


def _indices(values: npt.NDArray[Any], size: int) -> npt.NDArray[np.int64]:
    """Whole numbers in 0..size-1; -1 for anything else, silently: what is printed must not depend on the data."""
    numbers = real_numbers(values)
    if numbers.ndim != 2:
        raise InvalidParameter(f"states and actions must have shape (users, steps), got {numbers.shape}")
    valid = (numbers >= 0) & (numbers < size)
    whole = np.where(valid, numbers, -1.0)
    return np.where(whole == np.floor(whole), whole, -1.0).astype(np.int64)
