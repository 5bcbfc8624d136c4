"""Golden values, computed independently in high precision; locators in [Luyo21]."""

import mpmath
import numpy as np
import pytest

import confide
from confide.agents.ucrl_vtr import UCRLVTR, paper_constants, paper_joint, tight_joint
from confide.errors import InvalidParameter
from confide.experiments.runner import run
from confide.mechanisms.counters import Toeplitz, Tree
from confide.mechanisms.sources import noise_source
from confide.privacy import JointDP
from confide.problems import lock
from confide.trajectory import Trajectories

SETTINGS = [(100_000, 5, 5, 1.0, 1e-5, 0.1), (1000, 3, 8, 0.5, 1e-6, 0.05), (10**6, 10, 2, 5.0, 1e-3, 0.01)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_corollary_5(setting):
    K, H, d, epsilon, delta, p = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        K0 = mpmath.ceil(mpmath.log(K, 2) + 1)
        logs = mpmath.log(8 * H / mp(delta)) * mpmath.log(4 / mp(delta)) * mpmath.log(16 * H * K0 / mp(delta))
        sigma = 32 * mp(H) ** 2 / mp(epsilon) * mpmath.sqrt(2 * H * K0 * logs)
        upsilon = sigma * mpmath.sqrt(K0) * (4 * mpmath.sqrt(d) + 2 * mpmath.log(6 * K * H / mp(p)))
    found = paper_constants(JointDP(epsilon, delta), episodes=K, horizon=H, dimension=d, failure=p)
    assert found.levels == int(K0)
    assert found.sigma == pytest.approx(float(sigma), rel=1e-12)
    assert found.upsilon == pytest.approx(float(upsilon), rel=1e-12)


def test_the_printed_constants_really_give_a_thousandth_of_the_epsilon():
    """ERRATUM: at nominal epsilon = 1 Cor. 5 adds about a thousand times too much noise."""
    made = paper_joint(JointDP(1.0, 1e-5), episodes=100_000, horizon=5, dimension=5)
    assert made.loss.epsilon_at(1e-5) == pytest.approx(1e-3, rel=0.2)


def test_tight_noise_is_sensitivity_over_mu_times_the_counter():
    made = tight_joint(JointDP(1.0, 1e-5), Toeplitz(32), horizon=5, dimension=5)
    assert made.noise == pytest.approx(4 / 0.268051 * 2.16698, rel=1e-4)  # sqrt(4 steps) x sqrt(2 + 2) = 4
    assert made.users() == 512
    assert tight_joint(JointDP(1.0, 1e-5), Tree(32), horizon=5, dimension=5).noise > 2 * made.noise


def test_bad_settings_are_refused():
    with pytest.raises(InvalidParameter, match="delta > 0"):
        paper_constants(JointDP(1.0), episodes=10, horizon=2, dimension=2)
    with pytest.raises(InvalidParameter, match="delta > 0"):
        tight_joint(JointDP(1.0), Tree(3), horizon=2, dimension=2)
    with pytest.raises(InvalidParameter, match=r"failure must be in \(0, 1\), got failure=1.5"):
        paper_constants(JointDP(1.0, 0.1), episodes=10, horizon=2, dimension=2, failure=1.5)


LOCK = lock(0)


def regret(privacy, seeds=range(4), problem=LOCK, episodes=20_000, **more):
    runs = [run(UCRLVTR(problem.public, episodes=episodes, privacy=privacy, **more), problem, seed=seed) for seed in seeds]
    return float(np.mean([one.regret[-1] for one in runs])), runs


def test_it_learns_privately():
    """lock, 20 000 users, 4 seeds. Uniform play loses 21 136; the private learner was measured at 200 to 600."""
    private, runs = regret(confide.JointDP(1.0, 1e-5))
    assert private < 1500
    assert runs[0].guarantee == "JointDP(epsilon=1, delta=1e-05), replace one user, 20000 users, fast noise"
    assert all(one.value[-1] > 0.9 * LOCK.optimal_value for one in runs)
    exact, _ = regret(confide.NoPrivacy())
    assert exact < 150


def test_pure_privacy_costs_more_and_learns_too():
    pure, runs = regret(confide.JointDP(10.0), episodes=100_000, seeds=range(2))
    assert pure < 0.3 * 105_700
    assert "delta=0)" in runs[0].guarantee


def test_counts_and_trajectories_make_the_same_learner():
    """Both are exact: with the same world only the sampling differs, so the first release differs but the law does not."""
    agent = UCRLVTR(LOCK.public, episodes=3000, privacy=confide.JointDP(1.0, 1e-5))
    agent.accepts_counts = False
    by_trajectories = run(agent, LOCK, seed=0)
    assert by_trajectories.complete
    assert "Simulated" not in str(by_trajectories.certificate.document["assumptions"])


def test_hostile_users_cannot_crash_it_or_reach_beyond_the_bound():
    agent = UCRLVTR(LOCK.public, episodes=60, privacy=confide.JointDP(1.0, 1e-5), noise=noise_source("fast", 0))
    rng = np.random.default_rng(0)
    while agent.users < 60:
        agent.next_batch()
        states = rng.integers(-5, 30, size=(1, 6))
        agent.observe(Trajectories(states, rng.integers(-5, 9, size=(1, 5)), np.full((1, 5), np.nan)))
    assert agent.guarantee.epsilon == pytest.approx(1.0)


def test_saved_and_restored_it_goes_on_with_the_same_bits():
    def fresh(seed):
        return UCRLVTR(LOCK.public, episodes=500, privacy=confide.JointDP(1.0, 1e-5), noise=noise_source("fast", seed))

    world = [LOCK.sample(LOCK.optimal_policy, 10, np.random.default_rng(i)) for i in range(50)]
    one, other = fresh(1), fresh(2)

    def feed(agent, users):
        at = 0
        while at < users.users:
            size = min(agent.next_batch().users, users.users - at)
            agent.observe(users[at : at + size])
            at += size

    for users in world[:20]:
        feed(one, users)
    other.restore(one.save())
    for users in world[20:]:
        feed(one, users)
        feed(other, users)
    np.testing.assert_array_equal(one._privatizer.release().values, other._privatizer.release().values)


def test_what_it_cannot_serve_is_refused():
    with pytest.raises(InvalidParameter, match="joint promises"):
        UCRLVTR(LOCK.public, episodes=10, privacy=confide.LocalDP(1.0, 1e-5))
    with pytest.raises(InvalidParameter, match="no noise yet"):
        UCRLVTR(LOCK.public, episodes=10, privacy=confide.NoPrivacy()).next_batch()
    agent = UCRLVTR(LOCK.public, episodes=10, privacy=confide.NoPrivacy(), noise=noise_source("fast", 0))
    with pytest.raises(InvalidParameter, match="call next_batch first"):
        agent.observe(LOCK.sample(LOCK.optimal_policy, 1, np.random.default_rng(0)))
