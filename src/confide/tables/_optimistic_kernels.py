"""Optimistic backward induction in a table."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@njit
def optimistic_q_values(
    probabilities: Array,
    rewards: Array,
    per_step: Array,
    spread: Array,
    bonus_steps: Array,
    ceiling: Array,
    terminal: Bools,
    policy: Array,
) -> Array:
    """Return Q [h, s, a] = min(r + P V + bonus, ceiling_h), and at least zero.

    `probabilities` are [pair, s']. A pair is (layer, s, a), with one layer or one for each step.
    The bonus is bonus_steps_h * per_step + spread * sqrt(Var_P V), where both factors are [pair].
    A bonus that is NaN or infinite gives the ceiling. V_h is the maximum over actions, or the mean
    under `policy` [h, s, a] if that is not empty. Terminal states stay where they are, and have no
    bonus.
    """
    horizon, states, actions = rewards.shape
    layers = probabilities.shape[0] // (states * actions)
    q_values = np.zeros((horizon, states, actions))
    later_values = np.zeros(states)
    values = np.zeros(states)
    for h in range(horizon - 1, -1, -1):
        layer = h if layers > 1 else 0
        for s in range(states):
            values[s] = 0.0
            for a in range(actions):
                value = rewards[h, s, a]
                pair = (layer * states + s) * actions + a
                if terminal[s]:
                    value += later_values[s]
                elif layers == 1 or h < layers:
                    mean = 0.0
                    mean_square = 0.0
                    if h < horizon - 1:
                        for successor in range(states):
                            probability = probabilities[pair, successor]
                            mean += probability * later_values[successor]
                            mean_square += probability * later_values[successor] ** 2
                    value += mean + bonus_steps[h] * per_step[pair]
                    value += spread[pair] * np.sqrt(max(mean_square - mean * mean, 0.0))
                # This comparison is false for NaN, too.
                if not value < ceiling[h]:
                    value = ceiling[h]
                q_values[h, s, a] = max(value, 0.0)
                if policy.size:
                    values[s] += policy[h, s, a] * q_values[h, s, a]
                else:
                    values[s] = max(values[s], q_values[h, s, a])
        later_values, values = values, later_values
    return q_values
