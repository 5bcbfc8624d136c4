"""Exploration with a proved width: the confidence set holds, and values are optimistic."""

import numpy as np
import pytest

import confide
from confide.agents import UCRLVTR, LinOptVI
from confide.errors import InvalidParameter
from confide.mechanisms.sources import noise_source
from confide.mixtures.planning import optimistic
from confide.planners.regression import Proven
from confide.problems import lock_rewards, rand

WORLD = rand(3, states=4, actions=2, horizon=3, dimension=3)


@pytest.mark.parametrize(
    "privacy", [confide.JointDP(5.0, 1e-2), confide.NoPrivacy()], ids=["private", "none"]
)
def test_the_width_is_never_left_and_values_are_optimistic(privacy):
    """20 runs of 400 users, every release and step: failure 0.1 allows two runs to fail; the bound
    is loose, and none does.
    """
    for seed in range(20):
        agent = UCRLVTR(
            WORLD.public,
            episodes=400,
            privacy=privacy,
            noise=noise_source("fast", seed),
            exploration="proven",
            failure=0.1,
        )
        both = agent.algorithm.regressions.planner
        rng = np.random.default_rng(seed)
        truth = both.features.coordinates(WORLD.weights[:2])
        while agent.users < 400:
            batch = agent.next_batch()
            released = agent.released()
            estimates = agent.algorithm.regressions.read(released)
            off = estimates.estimate.weights - truth
            distance = np.sqrt(np.einsum("hi,hij,hj->h", off, estimates.estimate.precision, off))
            assert (distance <= both.regularizer.beta(released.noise.std)).all()
            plan = optimistic(
                both.kernels,
                estimates.rewards,
                estimates.estimate,
                feature_map=both.features,
                width=estimates.width,
            )
            assert WORLD.start @ plan.values[0] >= WORLD.optimal_value - 1e-9
            agent.observe(WORLD.sample(batch.policy, batch.users, rng))


def test_with_the_noise_left_out_of_the_width_it_is_left():
    """The same runs under much noise, with the width and the shift of a learner without any: the
    test above can fail.
    """
    outside = 0
    for seed in range(20):
        agent = UCRLVTR(
            WORLD.public,
            episodes=400,
            privacy=confide.JointDP(0.05, 1e-5),
            noise=noise_source("fast", seed),
            exploration="proven",
        )
        both = agent.algorithm.regressions.planner
        rng = np.random.default_rng(seed)
        truth = both.features.coordinates(WORLD.weights[:2])
        batch = agent.next_batch()
        agent.observe(WORLD.sample(batch.policy, batch.users, rng))
        Lambda, u = agent.algorithm.bound.unpack(agent.released().values)
        wrong = both.regularizer.estimate(Lambda, u, noise_std=0.0)
        off = wrong.weights - truth
        outside += bool(
            np.einsum("hi,hij,hj->h", off, wrong.precision, off).max()
            > both.regularizer.beta(0.0) ** 2
        )
    assert outside > 15


def test_the_norms_of_the_noise_are_bounded_as_the_proof_says():
    """2000 GOE matrices and vectors against S and N for one release and problem: at most the
    failure probability, 0.1.
    """
    regularizer = Proven(4, 1.05, 2.0, 1.0, 100, 1, 1, 0.1)
    rng = np.random.default_rng(0)
    S, N = regularizer._noise(1.0)
    entries = rng.normal(size=(2000, 4, 4))
    # variance one on the diagonal, one half off it
    matrices = (entries + entries.swapaxes(1, 2)) / 2
    assert (np.abs(np.linalg.eigvalsh(matrices)).max(axis=1) > S).mean() <= 0.1 / 4
    assert (np.linalg.norm(rng.normal(size=(2000, 4)) / 1.05, axis=1) > N).mean() <= 0.1 / 4
    # And not vacuous.
    assert 3 * np.abs(np.linalg.eigvalsh(matrices)).max() > S


def test_it_learns_without_privacy():
    run = confide.run(
        UCRLVTR(WORLD.public, episodes=20_000, privacy=confide.NoPrivacy(), exploration="proven"),
        WORLD,
        seed=0,
    )
    uniform = confide.run(confide.agents.Uniform(WORLD.public, episodes=20_000), WORLD, seed=0)
    assert run.regret[-1] < 0.5 * uniform.regret[-1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"exploration": "bold"}, "exploration"),
        ({"exploration": "proven", "bonus_scale": 0.1}, "omit"),
        ({"exploration": "proven", "calibration": "paper"}, "omit"),
        ({"exploration": "proven", "privacy": confide.JointDP(1.0, delta=0.0)}, "Gaussian noise"),
        ({"exploration": "proven", "privacy": confide.LocalDP(1.0, 1e-5)}, "Gaussian noise"),
    ],
)
def test_what_is_not_proved_is_refused(more, message):
    with pytest.raises(InvalidParameter, match=message):
        LinOptVI(WORLD.public, **{"episodes": 100, "privacy": confide.JointDP(1.0, 1e-5)} | more)


def test_learned_rewards_have_no_proved_width():
    with pytest.raises(InvalidParameter, match="known rewards"):
        LinOptVI(
            lock_rewards(0).public,
            episodes=100,
            privacy=confide.JointDP(1.0, 1e-5),
            exploration="proven",
        )


def test_explain_says_it():
    agent = UCRLVTR(
        WORLD.public, episodes=100, privacy=confide.JointDP(1.0, 1e-5), exploration="proven"
    )
    assert (
        "proved width" in agent.describe().planning and "explore" not in agent.describe().planning
    )
