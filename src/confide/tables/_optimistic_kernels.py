"""Optimistic backward induction in a table."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@njit
def backward(
    probabilities: Array,
    rewards: Array,
    per_step: Array,
    spread: Array,
    bonus_steps: Array,
    ceiling: Array,
    ends: Bools,
    policy: Array,
) -> Array:
    """Q [h, s, a] = min(r + P V + bonus, ceiling_h), and not below zero, for probabilities [pair, s'].

    The bonus is bonus_steps_h per_step + spread sqrt(Var_P V), each [pair]; a NaN or an infinity in it gives the ceiling. Pairs are
    (layer, s, a) with one layer or one for each step. V_h is the maximum over actions, or the mean under `policy` [h, s, a], if it is not
    empty. States that end an episode stay where they are, at no bonus.
    """
    H, S, A = rewards.shape
    layers = probabilities.shape[0] // (S * A)
    Q, later, now = np.zeros((H, S, A)), np.zeros(S), np.zeros(S)
    for h in range(H - 1, -1, -1):
        for s in range(S):
            now[s] = 0.0
            for a in range(A):
                value = rewards[h, s, a]
                pair = ((h if layers > 1 else 0) * S + s) * A + a
                if ends[s]:
                    value += later[s]
                else:
                    mean, square = 0.0, 0.0
                    if h < H - 1 and (layers == 1 or h < layers):
                        for after in range(S):
                            mean += probabilities[pair, after] * later[after]
                            square += probabilities[pair, after] * later[after] ** 2
                    if layers == 1 or h < layers:
                        value += mean + bonus_steps[h] * per_step[pair]
                        value += spread[pair] * np.sqrt(max(square - mean * mean, 0.0))
                if not value < ceiling[h]:
                    value = ceiling[h]
                Q[h, s, a] = max(value, 0.0)
                if policy.size:
                    now[s] += policy[h, s, a] * Q[h, s, a]
                else:
                    now[s] = max(now[s], Q[h, s, a])
        later, now = now, later
    return Q
