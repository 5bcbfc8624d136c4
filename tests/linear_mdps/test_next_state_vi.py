"""Next-state value iteration: it learns, under every promise, and keeps it."""

import numpy as np
import pytest

import confide
from confide.agents import NextStateVI
from confide.errors import InvalidParameter
from confide.linear_mdps._model_kernels import project_rows, project_to_unit_interval
from confide.problems import LinearMDP, latent, lock, one_hot

LATENT = latent(0)
TABLE = one_hot()
PRIVATE = confide.JointDP(1.0, 1e-5)


def lost(problem, privacy, episodes=20_000, seeds=range(4), **more):
    """Regret relative to uniform play's."""
    done = [
        confide.run(
            NextStateVI(problem.public, episodes=episodes, privacy=privacy, **more),
            problem,
            seed=seed,
        )
        for seed in seeds
    ]
    return np.mean(
        [run.regret[-1] / (episodes * (run.optimal_value - run.uniform_value)) for run in done]
    )


@pytest.mark.parametrize(
    ("problem", "most"), [(LATENT, 0.10), (TABLE, 0.16)], ids=["latent", "one-hot"]
)
def test_it_learns_privately(problem, most):
    """Measured over 8 seeds of 20 000 users: .061 and .10 (standard deviations .012 and .015), so a
    false alarm is a 6-sigma event.
    """
    assert lost(problem, PRIVATE) < most


def test_it_learns_without_privacy_and_on_devices():
    assert lost(LATENT, confide.NoPrivacy(), seeds=range(2)) < 0.03
    assert lost(LATENT, confide.LocalDP(10.0, 1e-5), episodes=200_000, seeds=range(2)) < 0.3


def test_the_coordinates_of_features_do_not_matter():
    """The same MDP in other coordinates, far from orthogonal: a prior on coordinates would try too
    little (regret .2 and more).
    """
    squeezed = np.eye(5) - 0.17 * np.ones((5, 5))
    features = LATENT.features @ squeezed.T
    scale = np.linalg.norm(features, axis=2).max()
    back = np.linalg.inv(squeezed / scale)
    other = LinearMDP(
        features / scale,
        np.einsum("ji,hjs->his", back, LATENT.measures),
        LATENT.reward_weights @ back,
        LATENT.start,
    )
    assert lost(other, confide.NoPrivacy(), seeds=range(2)) < 0.03
    assert lost(other, PRIVATE, seeds=range(2)) < 0.3


def test_what_it_cannot_do_is_said():
    with pytest.raises(InvalidParameter, match="needs a linear MDP"):
        NextStateVI(lock(0).public, episodes=100, privacy=PRIVATE)
    with pytest.raises(InvalidParameter, match="in no paper"):
        NextStateVI(TABLE.public, episodes=100, privacy=PRIVATE, calibration="paper")


def test_projections():
    """On the simplex, and to where all rewards are possible: nothing nearer is possible, by
    comparison with random points.
    """
    rng = np.random.default_rng(0)
    rows = rng.multivariate_normal(np.zeros(6), np.eye(6), size=50)
    projected = project_rows(rows)
    assert (projected >= 0).all()
    np.testing.assert_allclose(projected.sum(axis=1), 1.0)
    others = rng.dirichlet(np.ones(6), size=2000)
    assert (
        ((rows - projected) ** 2).sum(axis=1)
        <= ((rows[:, None] - others[None]) ** 2).sum(axis=2).min(axis=1) + 1e-12
    ).all()
    features = rng.dirichlet(np.ones(3), size=40)
    root = rng.random((3, 3)) + np.eye(3)
    covariance = root @ root.T
    theta = np.array([1.7, -0.4, 0.3])
    moved = project_to_unit_interval(theta, covariance, features)
    assert (features @ moved > -1e-4).all() and (features @ moved < 1 + 1e-4).all()
    candidates = rng.random((20_000, 3))
    precision = np.linalg.inv(covariance)
    distance = np.einsum("ni,ij,nj->n", candidates - theta, precision, candidates - theta)
    assert (moved - theta) @ precision @ (moved - theta) <= distance.min() + 1e-3
