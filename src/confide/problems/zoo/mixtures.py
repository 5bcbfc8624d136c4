"""Mixtures of known kernels: lock and rand."""

import numpy as np

from confide.problems.linear_mixture import LinearMixtureMDP


def lock(seed: int = 0, *, states: int = 20, actions: int = 4, horizon: int = 5, jump: int = 7) -> LinearMixtureMDP:
    """A combination lock: one action per step moves right, all others left; which one is hidden. The reward is at the right end."""
    S, A = states, actions
    kernels = np.zeros((A + 1, S, A, S))
    for s in range(S):
        right, left = min(s + jump, S - 1), max(s - jump, 0)
        for i in range(A):
            for a in range(A):
                kernels[i, s, a, right if a == i else left] += 0.9
                kernels[i, s, a, s] += 0.1
        kernels[A, s, :, s] += 0.8
        kernels[A, s, :, left] += 0.1
        kernels[A, s, :, right] += 0.1
    rng = np.random.default_rng(seed)
    weights = np.full((horizon, A + 1), 0.2 / A)
    for h in range(horizon):
        weights[h, rng.integers(A)] = 0.8
    rewards = np.zeros((horizon, S, A))
    rewards[:, S - 1], rewards[:, 0] = 1.0, 0.02
    start = np.zeros(S)
    start[: S // 2] = 0.5 / (S // 2)
    start[0] += 0.5
    return LinearMixtureMDP(kernels, weights, rewards, start, name="lock")


def rand(seed: int = 0, *, states: int = 20, actions: int = 4, horizon: int = 5, dimension: int = 5) -> LinearMixtureMDP:
    """Random sparse kernels, random weights, a reward on two random states."""
    S, A, d = states, actions, dimension
    rng = np.random.default_rng(seed)
    kernels = rng.dirichlet(np.full(S, 0.05), size=(d, S, A)) + 1e-9
    kernels /= kernels.sum(axis=-1, keepdims=True)
    weights = rng.dirichlet(np.full(d, 0.3), size=horizon)
    rewards = np.zeros((horizon, S, A))
    rewards[:, rng.choice(S, size=2, replace=False)] = 1.0
    return LinearMixtureMDP(kernels, weights, rewards, np.full(S, 1 / S), name="rand")
