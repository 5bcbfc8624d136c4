"""Mixtures of signed features for tests: probabilities are a base plus moves that sum to zero, so
features have both signs.
"""

import numpy as np

from confide.problems import FeatureMixtureMDP, SuccessorFeatures


def signed_mixture(
    seed=0, *, states=6, actions=3, moves=3, horizon=4, successors=3, length=1.0, **more
):
    """P = base + sum_i w_i move_i with few successors for each pair; the largest ||phi_v|| is one,
    and ||w|| grows with 1 / `length`.
    """
    rng = np.random.default_rng(seed)
    rows = states * actions
    after = np.concatenate([rng.choice(states, successors, replace=False) for _ in range(rows)])
    psi = np.concatenate([_row(rng, successors, moves, length) for _ in range(rows)])
    weights = rng.normal(size=(horizon, moves))
    weights /= length * np.linalg.norm(weights, axis=1, keepdims=True)
    weights = np.column_stack([np.ones(horizon), weights])
    features = SuccessorFeatures(states, actions, successors * np.arange(rows + 1), after, psi)
    scale = features.largest_norm()
    rewards = more.pop("rewards", rng.random((states, actions)))
    return FeatureMixtureMDP(
        features.divide_by(scale),
        scale * weights,
        rewards,
        np.full(states, 1 / states),
        weight_bound=scale * np.sqrt(1 + 1 / length**2),
        value_bound=1.0,
        **more,
    )


def _row(rng, successors, moves, length):
    base = rng.dirichlet(np.full(successors, 3.0))
    move = rng.normal(size=(successors, moves))
    move -= move.mean(axis=0)
    return np.column_stack([base, length * base.min() * move / np.linalg.norm(move, axis=1).max()])
