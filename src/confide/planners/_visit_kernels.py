"""The inner loops of planning on sums of transition codes."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@njit
def visits(actions: Ints, users: Array, states: Array, choices: int) -> Array:
    """Return how many users take each action in each state [s, a].

    `actions` [q, s] are the policies' at one step, which serve users [q]. `states` [q, s] are the
    distributions of states at this step.
    """
    Q, S = actions.shape
    expected = np.zeros((S, choices))
    for q in range(Q):
        for s in range(S):
            if 0 <= actions[q, s] < choices:
                expected[s, actions[q, s]] += users[q] * states[q, s]
    return expected


@njit
def move(actions: Ints, states: Array, transitions: Array) -> Array:
    """Return the distributions [q, s'] after one step of policies from states [q, s].

    `actions` [q, s] are the policies' at this step. `transitions` are [s, a, s'].
    """
    Q, S = states.shape
    moved = np.zeros((Q, S))
    for q in range(Q):
        for s in range(S):
            if states[q, s] > 0.0 and 0 <= actions[q, s] < transitions.shape[1]:
                for t in range(S):
                    moved[q, t] += states[q, s] * transitions[s, actions[q, s], t]
    return moved


@njit
def second_moments(expected: Array, transitions: Array, codes: Array) -> Array:
    """Return sum_{s, a} expected[s, a] E[c c^T | s, a] [i, j], for codes c [s, a, s', i]."""
    S, A, _, m = codes.shape
    result = np.zeros((m, m))
    for s in range(S):
        for a in range(A):
            if expected[s, a] > 0.0:
                for t in range(S):
                    weight = expected[s, a] * transitions[s, a, t]
                    if weight > 0.0:
                        for i in range(m):
                            scaled = weight * codes[s, a, t, i]
                            for j in range(m):
                                result[i, j] += scaled * codes[s, a, t, j]
    return result
