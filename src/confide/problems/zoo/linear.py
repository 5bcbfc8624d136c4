"""Linear MDPs: latent and one-hot."""

import numpy as np

from confide.arguments import check_size, sizes, whole
from confide.problems.linear_mdp import LinearMDP
from confide.problems.zoo import named


@named("a linear MDP with hidden modes, observed through blurred features", family="linear MDP")
def latent(
    seed: int = 0, *, states: int = 20, actions: int = 4, horizon: int = 5, dimension: int = 5
) -> LinearMDP:
    """A few hidden modes determine transitions, and features show the mode with a blur; rewards come at the last two steps.

    From default_rng(seed), in this order: mode(s, a); the blur Dirichlet(.5), phi(s, a) = .85 one-hot(mode) + .15 blur; the measures
    mu_h(j, .) ~ Dirichlet(.12) for h, then j; for each of the last two steps the feature that has the reward weight 1.
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


@named("a small tabular MDP as a linear MDP, one feature per state and action", family="linear MDP")
def one_hot(*, states: int = 5, horizon: int = 5) -> LinearMDP:
    """A table written as a linear MDP, one feature per state and action: walk right for a large reward, left for a small one.

    Action 0 moves left. Action 1 moves right with .8, stays with .15, moves left with .05; whoever would leave stays.
    """
    states, horizon = sizes(states=(states, 2), horizon=(horizon, 1))
    S, A, d = states, 2, 2 * states
    check_size(states=S, actions=A, features=d)
    check_size(horizon=horizon, features=d, successors=S)
    P, r = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S):
        left, right = max(s - 1, 0), min(s + 1, S - 1)
        P[s, 0, left] = 1.0
        for target, probability in ((right, 0.8), (s, 0.15), (left, 0.05)):
            P[s, 1, target] += probability
    r[S - 1, 1], r[0, 0] = 1.0, 0.02
    start = np.zeros(S)
    start[:2] = 0.5
    measures = np.repeat(P.reshape(1, d, S), horizon, axis=0)
    return LinearMDP(
        np.eye(d).reshape(S, A, d),
        measures,
        np.repeat(r.reshape(1, d), horizon, axis=0),
        start,
        name="one-hot",
    )
