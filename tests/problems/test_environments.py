import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason='needs pip install "confide[gym]"')

from gymnasium.utils.env_checker import check_env  # noqa: E402

from confide.errors import InvalidParameter  # noqa: E402
from confide.policy import LinearPolicy  # noqa: E402
from confide.problems import (  # noqa: E402
    LinearMixtureMDP,
    LQSystem,
    deep_sea,
    from_gymnasium,
    glucose,
    lock,
    one_hot,
    oscillator,
    rand,
    riverswim,
    thermal,
    to_gymnasium,
)

# One false alarm in 2.6e7.
Z = 5.5


def coins():
    return LinearMixtureMDP(
        rand().kernels,
        rand().weights,
        np.full((5, 20, 4), 0.35),
        rand().start,
        np.full((20, 4, 1), 0.7),
        name="coins 1/2",
    )


def cliff():
    return from_gymnasium("CliffWalking-v1", 5)


def unstable():
    return LQSystem(np.diag([1.4, 1.1]), np.eye(2), np.eye(2), np.eye(2), 7, 0.3, name="unstable")


@pytest.mark.parametrize(
    "build",
    [lock, coins, riverswim, deep_sea, one_hot, cliff, oscillator, thermal, glucose, unstable],
)
def test_gymnasiums_own_checker_is_content(build):
    """Warnings are errors here."""
    check_env(to_gymnasium(build()))


@pytest.mark.parametrize("build", [lock, coins, riverswim])
def test_exported_finite_problems_keep_their_law(build):
    """3000 episodes, |z| < 5.5."""
    problem = build()
    env = to_gymnasium(problem)
    policy = problem.optimal_policy
    rng = np.random.default_rng(0)
    returns = np.zeros(3000)
    state, info = env.reset(seed=0)
    for i in range(3000):
        for h in range(problem.horizon):
            assert info == {"step": h}
            state, reward, terminated, truncated, info = env.step(policy.act(h, state, rng))
            returns[i] += reward
            assert terminated == (h == problem.horizon - 1) and not truncated
        state, info = env.reset()
    assert abs(returns.mean() - problem.optimal_value) < Z * returns.std() / np.sqrt(len(returns))


@pytest.mark.parametrize("build", [thermal, unstable])
def test_exported_linear_systems_keep_their_law(build):
    """2000 episodes, |z| < 5.5; gains within the bound are never clipped, and everything stays in
    the declared box.
    """
    system = build()
    env = to_gymnasium(system)
    returns = np.zeros(2000)
    gains = system.optimal_policy.gains
    gains = gains * min(1.0, system.gain_bound / max(np.linalg.norm(K, 2) for K in gains))
    x, _ = env.reset(seed=0)
    for i in range(2000):
        for h in range(system.horizon):
            action = gains[h] @ x / env.input_bound
            assert action in env.action_space and x in env.observation_space
            x, reward, *_ = env.step(action)
            returns[i] += reward
        x, _ = env.reset()
    assert abs(returns.mean() - system.value(LinearPolicy(gains))) < Z * returns.std() / np.sqrt(
        len(returns)
    )


@pytest.mark.parametrize("build", [riverswim, oscillator])
def test_an_episode_that_is_over_needs_a_reset(build):
    env = to_gymnasium(build())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(env.action_space.sample())
    env.reset(seed=0)
    while not env.step(env.action_space.sample())[2]:
        pass
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(env.action_space.sample())


def test_actions_that_do_not_exist_are_refused():
    env = to_gymnasium(riverswim())
    env.reset(seed=0)
    with pytest.raises(InvalidParameter, match=r"the action must be in 0\.\.1"):
        env.step(2)
