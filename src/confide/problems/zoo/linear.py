"""Linear MDPs: latent and one-hot."""

import numpy as np

from confide.arguments import check_size, sizes, whole
from confide.problems.linear_mdp import LinearMDP
from confide.problems.zoo import describe


@describe("a linear MDP with hidden modes, observed through blurred features", family="linear MDP")
def latent(
    seed: int = 0, *, states: int = 20, actions: int = 4, horizon: int = 5, dimension: int = 5
) -> LinearMDP:
    """A few hidden modes determine transitions, and features show the mode with a blur.

    Rewards come at the last two steps. From default_rng(seed), in this order: mode(s, a); the blur
    Dirichlet(0.5), where phi(s, a) = 0.85 one-hot(mode) + 0.15 blur; the measures
    mu_h(j, .) ~ Dirichlet(0.12) for h, then j; for each of the last two steps the feature that has
    the reward weight 1.
    """
    S, A, H, d = sizes(
        states=(states, 1), actions=(actions, 1), horizon=(horizon, 1), dimension=(dimension, 1)
    )
    whole("seed", seed, at_least=0)
    check_size(states=S, actions=A, horizon=H, successors=S)
    check_size(states=S, actions=A, dimension=d)
    check_size(dimension=d, modes=d)
    rng = np.random.default_rng(seed)
    modes = rng.integers(d, size=(S, A))
    features = 0.85 * np.eye(d)[modes] + 0.15 * rng.dirichlet(np.full(d, 0.5), size=(S, A))
    measures = rng.dirichlet(np.full(S, 0.12), size=(H, d))
    weights = np.zeros((H, d))
    for h in range(max(H - 2, 0), H):
        weights[h, rng.integers(d)] = 1.0
    return LinearMDP(features, measures, weights, np.full(S, 1 / S), name="latent")


@describe(
    "a small tabular MDP as a linear MDP, one feature per state and action", family="linear MDP"
)
def one_hot(*, states: int = 5, horizon: int = 5) -> LinearMDP:
    """A table written as a linear MDP, with one feature for each state and action.

    Walk right for a large reward, or left for a small one. Action 0 moves left. Action 1 moves
    right with 0.8, stays with 0.15, and moves left with 0.05. A user who would leave the table
    stays.
    """
    S, horizon = sizes(states=(states, 2), horizon=(horizon, 1))
    actions = 2
    dimension = actions * S
    check_size(states=S, actions=actions, features=dimension)
    check_size(horizon=horizon, features=dimension, successors=S)
    P = np.zeros((S, actions, S))
    for s in range(S):
        left = max(s - 1, 0)
        right = min(s + 1, S - 1)
        P[s, 0, left] = 1.0
        # At the ends two of the three are the same state.
        P[s, 1, right] += 0.8
        P[s, 1, s] += 0.15
        P[s, 1, left] += 0.05
    rewards = np.zeros((S, actions))
    rewards[S - 1, 1] = 1.0
    rewards[0, 0] = 0.02
    start = np.zeros(S)
    start[:2] = 0.5
    return LinearMDP(
        np.eye(dimension).reshape(S, actions, dimension),
        np.repeat(P.reshape(1, dimension, S), horizon, axis=0),
        np.repeat(rewards.reshape(1, dimension), horizon, axis=0),
        start,
        name="one-hot",
    )
