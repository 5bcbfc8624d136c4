"""Backward induction in a finite problem with given transitions: values of policies."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from confide.policy import FinitePolicy, TabularPolicy

Array = npt.NDArray[np.float64]
# From a step h and values V [s'] to their expectation E[V(s') | s, a] [s, a].
Expect = Callable[[int, Array], Array]


def optimal(expect: Expect, rewards: Array) -> tuple[Array, TabularPolicy]:
    """Return optimal values V [h, s] for h = 0..H, where V_H = 0, and a greedy policy.

    V_h(s) = max_a r_h(s, a) + E[V_{h+1}(s') | s, a], for rewards r [h, s, a].
    """
    horizon, states, action_count = rewards.shape
    values = np.zeros((horizon + 1, states))  # [h, s]
    actions = np.zeros((horizon, states), dtype=np.int64)  # [h, s]
    for h in reversed(range(horizon)):
        action_values = rewards[h] + expect(h, values[h + 1])
        actions[h] = action_values.argmax(axis=1)
        values[h] = action_values.max(axis=1)
    return values, TabularPolicy(actions, action_count)


def policy_values(expect: Expect, rewards: Array, policy: FinitePolicy) -> Array:
    """Return the values V [h, s] of a policy pi, where V_H = 0.

    V_h(s) = sum_a pi_h(a | s) (r_h(s, a) + E[V_{h+1}(s') | s, a]), for rewards r [h, s, a].
    """
    horizon, states, _ = rewards.shape
    weights = policy.probabilities()
    values = np.zeros((horizon + 1, states))  # [h, s]
    for h in reversed(range(horizon)):
        values[h] = (weights[h] * (rewards[h] + expect(h, values[h + 1]))).sum(axis=1)
    return values
