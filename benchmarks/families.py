"""Families of small problems on which an agent can get stuck.

On these problems a policy may look best from what the agent has seen, and not be best. An instance
is decided by its seed. Seeds below 100 are for choosing defaults; seeds from 100 on are aside:
nothing is chosen on them.
"""

from collections.abc import Callable

import numpy as np

from confide.problems import LinearMDP, LinearMixtureMDP

TUNING = range(8)
ASIDE = range(100, 108)


def _hidden(rng: np.random.Generator, horizon: int, dimension: int, share: float) -> np.ndarray:
    """Weights [h, i] with `share` on one kernel, another one at each step."""
    weights = np.full((horizon, dimension), (1 - share) / (dimension - 1))
    weights[np.arange(horizon), rng.integers(dimension, size=horizon)] = share
    return weights


def detour(seed: int) -> LinearMixtureMDP:
    """Return a problem in which several steps look bad at first.

    A safe action pays a little for ever. The others pay nothing until some hidden ones were right
    in a row.
    """
    rng = np.random.default_rng(seed)
    length = int(rng.integers(2, 5))
    d = 3
    H = 8
    S = length + 2
    A = d + 1
    goal = length
    safe = length + 1
    kernels = np.zeros((d, S, A, S))
    kernels[:, [goal, safe], :, [goal, safe]] = 1.0
    for s in range(length):
        kernels[:, s, 0, safe] = 1.0
        for i in range(d):
            kernels[i, s, 1:, 0] = 1.0
            kernels[i, s, 1 + i] = np.eye(S)[s + 1]
    rewards = np.zeros((H, S, A))
    rewards[:, safe], rewards[:, goal] = 0.1 + 0.2 * rng.random(), 1.0
    return LinearMixtureMDP(kernels, _hidden(rng, H, d, 0.96), rewards, np.eye(S)[0], name="detour")


def far(seed: int) -> LinearMixtureMDP:
    """Return a problem whose kernels agree except far away.

    On the way they are all the same. Only at its end a hidden action pays more than staying did.
    """
    rng, (way, A, H, d) = np.random.default_rng(seed), (3, 3, 8, 4)
    S = way + 3
    goal = way + 1
    lost = way + 2
    kernels = np.zeros((d, S, A, S))
    # To stay pays a little.
    kernels[:, 0, 0, 0] = 1.0
    for s in range(way):
        kernels[:, s, int(s == 0) :, s + 1] = 0.9
        kernels[:, s, int(s == 0) :, 0] += 0.1
    # the last state of the way: each kernel has an action that is right, the last kernel has none
    for i in range(d):
        kernels[i, way, :, lost] = 1.0
        if i < A:
            kernels[i, way, i] = np.eye(S)[goal]
    kernels[:, [goal, lost], :, [goal, lost]] = 1.0
    rewards = np.zeros((H, S, A))
    rewards[:, 0, 0], rewards[:, goal] = 0.2 + 0.1 * rng.random(), 1.0
    weights = np.full((H, d), 0.05)
    weights[np.arange(H), rng.integers(A, size=H)] = 0.85
    return LinearMixtureMDP(kernels, weights, rewards, np.eye(S)[0], name="far")


def scattered_kernels(seed: int) -> LinearMixtureMDP:
    """Sparse random kernels, random weights, one state that pays and one that pays a little."""
    rng, (S, A, H, d) = np.random.default_rng(seed), (12, 3, 6, 6)
    kernels = rng.dirichlet(np.full(S, 0.03), size=(d, S, A)) + 1e-9
    kernels /= kernels.sum(axis=-1, keepdims=True)
    rewards = np.zeros((H, S, A))
    good, fair = rng.choice(S, size=2, replace=False)
    rewards[:, good], rewards[:, fair] = 1.0, 0.3
    return LinearMixtureMDP(
        kernels,
        rng.dirichlet(np.full(d, 0.1), size=H),
        rewards,
        np.eye(S)[rng.integers(S)],
        name="scattered",
    )


def river(seed: int) -> LinearMixtureMDP:
    """Return a river: one action swims against a current of unknown strength, one drifts.

    The near end pays a little, and the far end a lot.
    """
    rng, (S, A, H) = np.random.default_rng(seed), (5, 2, 12)
    kernels = []
    # strong arms to a strong current
    for swim, back in ((0.9, 0.0), (0.5, 0.1), (0.2, 0.5), (0.0, 0.9)):
        kernel = np.zeros((S, A, S))
        for s in range(S):
            kernel[s, 0, max(s - 1, 0)] += 1.0
            for other, p in (
                (min(s + 1, S - 1), swim),
                (max(s - 1, 0), back),
                (s, 1 - swim - back),
            ):
                kernel[s, 1, other] += p
        kernels.append(kernel)
    rewards = np.zeros((H, S, A))
    rewards[:, 0, 0], rewards[:, S - 1, 1] = 0.1 + 0.2 * rng.random(), 1.0
    weights = rng.dirichlet([8.0, 1.0, 0.5, 0.5], size=H)
    return LinearMixtureMDP(np.stack(kernels), weights, rewards, np.eye(S)[0], name="river")


def wide(seed: int) -> LinearMixtureMDP:
    """More kernels than actions: twelve random kernels, two actions."""
    rng, (S, A, H, d) = np.random.default_rng(seed), (8, 2, 5, 12)
    kernels = rng.dirichlet(np.full(S, 0.2), size=(d, S, A))
    rewards = np.zeros((H, S, A))
    rewards[:, rng.integers(S)] = 1.0
    return LinearMixtureMDP(
        kernels, rng.dirichlet(np.full(d, 0.3), size=H), rewards, np.full(S, 1 / S), name="wide"
    )


def absorbing(seed: int) -> LinearMixtureMDP:
    """Return a problem in which half of the states absorb, where all kernels agree.

    Some of them pay. One pays a little, and is easy to reach.
    """
    rng, (S, A, H, d) = np.random.default_rng(seed), (10, 3, 6, 7)
    kernels = rng.dirichlet(np.full(S, 0.1), size=(d, S, A))
    ends = np.arange(S // 2, S)
    kernels[:, ends] = np.eye(S)[ends][:, None]
    rewards = np.zeros((H, S, A))
    rewards[:, ends] = np.array([0.0, 0.1, 0.3, 0.5, 1.0])[:, None]
    start = np.append(np.full(S // 2, 2 / S), np.zeros(S - S // 2))
    return LinearMixtureMDP(
        kernels, rng.dirichlet(np.full(d, 0.3), size=H), rewards, start, name="absorbing"
    )


Family = Callable[[int], LinearMixtureMDP]
MIXTURES: dict[str, Family] = {
    "detour": detour,
    "far": far,
    "scattered": scattered_kernels,
    "river": river,
    "wide": wide,
    "absorbing": absorbing,
}


def tabular(problem: LinearMixtureMDP) -> LinearMDP:
    """The same transitions as a linear MDP with one feature for each (s, a)."""
    S = problem.states
    A = problem.actions
    P = np.einsum("hi,isat->hsat", problem.weights, problem.kernels)
    return LinearMDP(
        np.eye(S * A).reshape(S, A, S * A),
        P.reshape(len(P), S * A, S),
        problem.rewards.reshape(len(P), S * A),
        problem.start,
        name=problem.name,
    )
