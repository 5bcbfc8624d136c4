"""Backward induction: optimal values, and values of a policy, in a finite problem whose transitions are given."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from confide.policy import FinitePolicy, TabularPolicy

Array = npt.NDArray[np.float64]
Expect = Callable[[int, Array], Array]  # (h, V [s]) -> E[V(s') | s, a] [s, a]


def optimal(expect: Expect, rewards: Array) -> tuple[Array, TabularPolicy]:
    """Optimal values V [h, s] for h = 0..H (V_H = 0), and a greedy policy: V_h(s) = max_a r_h(s, a) + E[V_{h+1}(s') | s, a]."""
    H, S, A = rewards.shape
    values, actions = np.zeros((H + 1, S)), np.zeros((H, S), dtype=np.int64)
    for h in reversed(range(H)):
        Q = rewards[h] + expect(h, values[h + 1])
        actions[h] = Q.argmax(axis=1)
        values[h] = Q.max(axis=1)
    return values, TabularPolicy(actions, A)


def policy_values(expect: Expect, rewards: Array, policy: FinitePolicy) -> Array:
    """Values V [h, s] of a policy: V_h(s) = sum_a pi_h(a | s) (r_h(s, a) + E[V_{h+1}(s') | s, a])."""
    H, S, _ = rewards.shape
    weights = policy.probabilities()
    values = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        values[h] = (weights[h] * (rewards[h] + expect(h, values[h + 1]))).sum(axis=1)
    return values
