"""Mixtures of known kernels: lock, lock-rewards, rand and liao-hard."""

import math

import numpy as np

from confide.arguments import COPIES, check_size, sizes, whole
from confide.errors import InvalidParameter
from confide.problems.linear_mixture import LinearMixtureMDP
from confide.problems.zoo import describe


@describe(
    "a combination lock: one hidden action per step moves right, to the reward", family="mixture"
)
def lock(
    seed: int = 0, *, states: int = 20, actions: int = 4, horizon: int = 5, jump: int = 7
) -> LinearMixtureMDP:
    """A combination lock: one action per step moves right, all others left.

    Which one it is is hidden in the weights. The reward is 1 at the right end and 0.02 at the left
    one. Kernel i < A moves right for action i, and the last kernel moves at random.
    """
    S, A, horizon = sizes(states=(states, 2), actions=(actions, 1), horizon=(horizon, 1))
    whole("seed", seed, at_least=0)
    whole("jump", jump, at_least=1)
    check_size(actions=A + 1, states=S, choices=A, successors=S)
    check_size(copies=COPIES, horizon=horizon, states=S, choices=A, successors=S)
    kernels = np.zeros((A + 1, S, A, S))
    for s in range(S):
        right = min(s + jump, S - 1)
        left = max(s - jump, 0)
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
    rewards[:, S - 1] = 1.0
    rewards[:, 0] = 0.02
    # Half of the users start at the left end, the others anywhere in the left half.
    start = np.zeros(S)
    start[: S // 2] = 0.5 / (S // 2)
    start[0] += 0.5
    return LinearMixtureMDP(kernels, weights, rewards, start, name="lock")


@describe(
    "lock with random rewards that have to be learned", family="mixture", public_rewards=False
)
def lock_rewards(
    seed: int = 0, *, states: int = 20, actions: int = 4, horizon: int = 5, jump: int = 7
) -> LinearMixtureMDP:
    """The same lock with rewards that are unknown and random, 0 or 1 at each step.

    What has to be learned is how much the left end, the right end and all other states pay.
    """
    usual = lock(seed, states=states, actions=actions, horizon=horizon, jump=jump)
    # Each state is at the left end (0), at the right end (1), or elsewhere (2).
    place = np.full(states, 2)
    place[0] = 0
    place[-1] = 1
    features = np.repeat(np.eye(3)[place][:, None], actions, axis=1)  # [s, a, place]
    return LinearMixtureMDP(
        usual.kernels, usual.weights, usual.rewards, usual.start, features, name="lock-rewards"
    )


@describe("random sparse kernels in a random mixture, rewards on two states", family="mixture")
def rand(
    seed: int = 0, *, states: int = 20, actions: int = 4, horizon: int = 5, dimension: int = 5
) -> LinearMixtureMDP:
    """Random sparse kernels, random weights, a reward on two random states."""
    S, A, horizon, d = sizes(
        states=(states, 2), actions=(actions, 1), horizon=(horizon, 1), dimension=(dimension, 1)
    )
    whole("seed", seed, at_least=0)
    check_size(copies=COPIES, dimension=d + horizon, states=S, actions=A, successors=S)
    rng = np.random.default_rng(seed)
    kernels = rng.dirichlet(np.full(S, 0.05), size=(d, S, A)) + 1e-9
    kernels /= kernels.sum(axis=-1, keepdims=True)
    weights = rng.dirichlet(np.full(d, 0.3), size=horizon)
    rewards = np.zeros((horizon, S, A))
    rewards[:, rng.choice(S, size=2, replace=False)] = 1.0
    return LinearMixtureMDP(kernels, weights, rewards, np.full(S, 1 / S), name="rand")


@describe(
    "a hard instance: 10,000 users are too few to tell the actions apart",
    family="mixture",
    paper="Liao21",
    states_follow_horizon=True,
)
def liao_hard(
    seed: int = 0, *, episodes: int = 10_000, dimension: int = 5, horizon: int = 6
) -> LinearMixtureMDP:
    """A chain whose exits to the goal differ by less than `episodes` users can tell [Liao21].

    This is the experiment of LDP-UCRL-VTR. Action number a stands for its bits in {-1, 1}^(d-1).
    From chain state h it leads to the goal with probability 1/H + <m_h, a>, else to the next chain
    state. Entries of m_h are +-D, D = sqrt(1/(H K)) / (4 sqrt 2), with the signs of
    default_rng(seed).integers(2, size=(H, d-1)). The goal (the last state) and the end of the chain
    absorb. The reward is 1 per step in the goal.

    Departures: the paper's features carry signs, phi = +-(., a) with weights (1, m_h). The same
    transitions are mixtures of d probability kernels whose exits are 1/H + <c_i, a>, for
    c_0 = -(1, ..., 1) / (H (d-1)) and c_j = e_j / H. The simplex of the c_i holds every m_h.
    """
    H, d, K = sizes(horizon=(horizon, 0), dimension=(dimension, 0), episodes=(episodes, 1))
    whole("seed", seed, at_least=0)
    # With fewer episodes, or a larger problem, m_h leaves the simplex.
    if d < 2 or H < 1 or H * (3 * d - 5) ** 2 > 32 * K:
        limits = "dimension >= 2, horizon >= 1 and episodes >= horizon (3 dimension - 5)^2 / 32"
        raise InvalidParameter(
            f"liao-hard needs {limits}, got dimension={d}, horizon={H}, episodes={K}"
        )
    check_size(copies=COPIES, dimension=d + H, actions=2 ** min(d - 1, 99), states=(H + 2) ** 2)
    numbers = np.arange(2 ** (d - 1))[:, None]
    bits = 2.0 * (numbers >> np.arange(d - 1) & 1) - 1  # [a, j]
    corners = np.vstack([np.full(d - 1, -1 / (H * (d - 1))), np.eye(d - 1) / H])  # c_i [i, j]
    exits = 1 / H + corners @ bits.T  # [i, a]
    S = H + 2
    A = len(bits)
    end_of_chain = H
    goal = H + 1
    kernels = np.zeros((d, S, A, S))
    for s in range(H):
        kernels[:, s, :, goal] = exits
        kernels[:, s, :, s + 1] = 1 - exits
    kernels[:, end_of_chain, :, end_of_chain] = 1.0
    kernels[:, goal, :, goal] = 1.0
    signs = 2.0 * np.random.default_rng(seed).integers(2, size=(H, d - 1)) - 1
    m = signs * math.sqrt(1 / (H * K)) / (4 * math.sqrt(2))  # [h, j]
    first_weight = (1 - H * m.sum(axis=1, keepdims=True)) / 2  # of c_0, [h, 1]
    weights = np.hstack([first_weight, H * m + first_weight / (d - 1)])
    rewards = np.zeros((H, S, A))
    rewards[:, goal] = 1.0
    return LinearMixtureMDP(kernels, weights, rewards, np.eye(S)[0], name="liao-hard")
