"""Our own learner: measured, so the tests fix seeds and leave room."""

import numpy as np
import pytest

import confide
from confide.agents import LikelihoodVI
from confide.errors import InvalidParameter
from confide.mechanisms.sources import noise_source
from confide.mixtures.likelihood_memory import ROUNDS
from confide.mixtures.likelihood_planning import WeightPosterior, prior_state
from confide.mixtures.sampling_planning import POLICIES, draw_weights
from confide.privatizers import central, every_episode
from confide.problems import lock, lock_rewards, rand

pytestmark = pytest.mark.kernels

LOCK = lock(0)
RAND = rand(0)


def regrets(problem, privacy, episodes=20_000, seeds=range(6), **more):
    agents = [
        LikelihoodVI(problem.public, episodes=episodes, privacy=privacy, **more) for _ in seeds
    ]
    return np.array(
        [
            confide.run(agent, problem, seed=seed).regret[-1]
            for agent, seed in zip(agents, seeds, strict=True)
        ]
    )


@pytest.mark.parametrize(("problem", "most"), [(LOCK, 450), (RAND, 90)], ids=["lock", "rand"])
def test_it_learns_privately(problem, most):
    """Measured over 64 seeds at 100 000 users: 200 and 52 (standard deviations 88 and 10)."""
    assert regrets(problem, confide.JointDP(1.0, 1e-5)).mean() < most


def test_without_privacy_the_first_round_is_most_of_the_regret():
    assert regrets(LOCK, confide.NoPrivacy()).mean() < 50
    assert regrets(RAND, confide.NoPrivacy()).mean() < 35


def test_pure_privacy_learns():
    """Uniform play loses 106 000."""
    assert (
        regrets(LOCK, confide.JointDP(5.0, delta=0.0), episodes=100_000, seeds=range(3)).mean()
        < 2000
    )


def test_local_privacy_learns():
    """4e5 users; uniform play loses 423 000."""
    assert (
        regrets(LOCK, confide.LocalDP(2.0, 1e-5), episodes=400_000, seeds=range(3)).mean() < 20_000
    )


def test_rounding_does_not_decide_the_samples():
    """Another machine rounds otherwise, and must draw the same: before there are data all
    directions are equally uncertain.
    """
    covariance = np.tile((np.eye(5) - 0.2) / 5, (4, 1, 1))
    drawn = []
    for nudge in (0.0, 1e-15):
        posterior = WeightPosterior(
            np.full((4, 5), 0.2),
            covariance + nudge * np.random.default_rng(0).random((4, 5, 5)),
            np.zeros((4, 0, 20)),
            0,
            prior_state(4, 5, 4),
        )
        drawn.append(draw_weights(posterior, 0.35, np.random.default_rng([1, 0])))
    np.testing.assert_allclose(drawn[0], drawn[1], atol=1e-6)


@pytest.mark.parametrize("folded", [False, True])
def test_memory_does_not_grow_with_the_number_of_rounds(folded, monkeypatch):
    """With least squares over all releases, and with the last one alone."""
    monkeypatch.setattr(central, "_FEW_RELEASES", 100 if folded else 512)
    agent = LikelihoodVI(
        RAND.public,
        episodes=200,
        privacy=confide.NoPrivacy(),
        schedule=every_episode(200),
        noise=noise_source("fast", 0),
    )
    users = RAND.sample(RAND.optimal_policy, 200, np.random.default_rng(0))
    for i in range(199):
        agent.next_batch()
        agent.observe(users[i : i + 1])
    memory = agent.released().memory
    assert len(memory["policies"]) <= ROUNDS * (POLICIES + 1) and len(memory["stds"]) < ROUNDS
    assert memory["users"].sum() + memory["earlier"][0].sum() == pytest.approx(
        198 if folded else len(memory["stds"])
    )


def test_one_step_and_two_kernels_are_enough():
    small = rand(0, states=3, actions=2, horizon=2, dimension=2)
    assert confide.run(
        LikelihoodVI(small.public, episodes=100, privacy=confide.JointDP(1.0, 1e-5)), small, seed=0
    ).complete
    single = rand(0, states=3, actions=2, horizon=1, dimension=2)
    assert confide.run(
        LikelihoodVI(single.public, episodes=100, privacy=confide.JointDP(1.0, 1e-5)),
        single,
        seed=0,
    ).complete


def test_what_it_cannot_do_is_refused():
    with pytest.raises(InvalidParameter, match="in no paper"):
        LikelihoodVI(LOCK.public, episodes=10, privacy=confide.NoPrivacy(), calibration="paper")
    with pytest.raises(InvalidParameter, match="bonus_scale"):
        LikelihoodVI(LOCK.public, episodes=10, privacy=confide.NoPrivacy(), bonus_scale=-1.0)
    with pytest.raises(InvalidParameter, match="known rewards"):
        LikelihoodVI(lock_rewards(0).public, episodes=10, privacy=confide.NoPrivacy())
