"""The figures of the zoo: published ones, and closed forms."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from confide.errors import InvalidParameter, MissingExtra
from confide.planners.backward_induction import optimal
from confide.problems import (
    chain,
    chain_values,
    deep_sea,
    glucose,
    icu_sepsis,
    icu_sepsis_centres,
    icu_sepsis_expert,
    latent,
    liao_hard,
    lock,
    one_hot,
    oscillator,
    rand,
    riverswim,
    thermal,
)


@pytest.mark.parametrize(("problem", "best", "uniform", "blind"), [(lock(), 1.17, 0.11, 0.08), (rand(), 1.17, 0.49, 0.91)])
def test_mixtures(problem, best, uniform, blind):
    assert round(problem.optimal_value, 2) == best and round(problem.uniform_value, 2) == uniform
    average = problem.public.kernels.mean(axis=0)
    _, policy = optimal(lambda _, values: average @ values, problem.rewards)
    assert round(problem.value(policy), 2) == blind
    assert (problem.states, problem.actions, problem.horizon, problem.public.dimension) == (20, 4, 5, 5)


def test_lock_costs_uniform_play_this_much():
    problem = lock()
    assert round(1e5 * (problem.optimal_value - problem.uniform_value), -2) == 105_700


def worst_value(problem):
    """The least value of any policy."""
    P, V = problem.truth.transitions.dense(), np.zeros(problem.states)
    for h in reversed(range(problem.horizon)):
        V = (problem.truth.rewards[h] + P[min(h, len(P) - 1)] @ V).min(axis=1)
    return problem.truth.start @ V


@pytest.mark.parametrize("seed", [0, 1])
def test_liao_hard(seed):
    problem = liao_hard(seed)
    assert (problem.states, problem.actions, problem.horizon, problem.public.dimension) == (8, 16, 6, 5)
    assert round(1e4 * (problem.optimal_value - problem.uniform_value)) == 272
    assert round(1e4 * (problem.optimal_value - worst_value(problem))) == 547


def test_liao_hard_is_the_papers_instance():
    """The exits are 1/H + <m_h, a> with |m_hj| = D, read back from the transitions."""
    problem, D = liao_hard(3), np.sqrt(1 / 6e4) / (4 * np.sqrt(2))
    P = problem.truth.transitions.dense()
    bits = np.array([[1 if a >> j & 1 else -1 for j in range(4)] for a in range(16)])
    for h in range(6):
        exits = P[h, h, :, 7]
        m = bits.T @ exits / 16
        assert np.abs(np.abs(m) - D).max() < 1e-14
        assert np.abs(exits - (1 / 6 + bits @ m)).max() < 1e-14
        assert np.abs(P[h, h, :, h + 1] - (1 - exits)).max() < 1e-14
    assert (P[:, 7, :, 7] == 1).all() and (P[:, 6, :, 6] == 1).all()
    with pytest.raises(InvalidParameter, match="episodes=18"):
        liao_hard(episodes=18)
    assert liao_hard(episodes=19).weights.min() >= 0


def test_riverswim():
    problem = riverswim()
    assert round(problem.optimal_value, 3) == 3.397
    assert (problem.states, problem.actions, problem.horizon) == (6, 2, 20)
    with pytest.raises(InvalidParameter, match="states must be at least 2, got states=1"):
        riverswim(states=1)


def test_chain():
    values = chain_values()
    assert round(np.sqrt(np.mean((values - 0.5) ** 2)), 3) == 0.252  # the constant predictor
    assert values[-1] == 1 and np.abs(values[:-1] - 0.99 * (0.5 * values[:-1] + 0.5 * values[1:])).max() < 1e-14
    problem = chain()
    assert (problem.states, problem.actions) == (41, 1)
    returns = problem.sample(problem.optimal_policy, 2000, np.random.default_rng(0))
    assert (returns.rewards.sum(axis=1) == 1).all() and (returns.states[:, -1] == 40).all() and (returns.states[:, 0] < 40).all()
    assert stats.binom.cdf(38, 199, 0.5) < 1e-18  # who starts in state 0 and has not reached the end after 200 steps
    with pytest.raises(InvalidParameter, match="stay must be in"):
        chain(stay=1.0)


def test_chain_discounted_returns_have_these_values():
    """20 000 users from each of four states: mean discounted returns within 5.5 standard deviations (one false alarm in 6e6)."""
    problem, values = chain(), chain_values()
    for s in (0, 10, 30, 39):
        started = chain()
        object.__setattr__(started, "start", np.eye(41)[s])
        rewards = started.sample(problem.optimal_policy, 20_000, np.random.default_rng(s)).rewards
        returns = rewards @ 0.99 ** np.arange(200)
        assert abs(returns.mean() - values[s]) <= 5.5 * returns.std() / np.sqrt(20_000) + 1e-12


@pytest.mark.parametrize("size", [2, 5, 10])
def test_deep_sea_has_one_way_to_the_treasure(size):
    problem = deep_sea(size)
    assert problem.optimal_value == pytest.approx(1 + 0.01 / size)
    seen = problem.count(problem.optimal_policy, 7, np.random.default_rng(0))
    assert seen.state[seen.step == size - 1].tolist() == [size - 1]
    P, reached = problem.transitions.dense(), np.eye(size)[0]  # of all 2^(size - 1) sequences
    for h in range(size - 1):
        reached = np.einsum("s,sat->t", reached, P[h]) / 2
    assert reached[-1] == 0.5 ** (size - 1)
    assert problem.uniform_value == pytest.approx(0.5 ** (size - 1) + 0.01 / size * visits_to_the_left(size))


def visits_to_the_left(size):
    mass, total = np.eye(size)[0], 0.0
    for _ in range(size):
        total += mass[0]
        left = np.append(mass[1:], 0.0) + np.eye(size)[0] * mass[0]
        right = np.append(0.0, mass[:-1]) + np.eye(size)[-1] * mass[-1]
        mass = (left + right) / 2
    return total


def test_deep_sea_rewards_do_not_tell_the_actions_apart():
    rewards = deep_sea().public.rewards
    assert (rewards[..., 0] == rewards[..., 1]).all()


@pytest.mark.parametrize(("seed", "best", "uniform"), [(0, 1.0611, 0.3207), (1, 1.4074, 0.4801)])
def test_latent(seed, best, uniform):
    problem = latent(seed)
    assert (problem.states, problem.actions, problem.horizon, problem.public.dimension) == (20, 4, 5, 5)
    assert round(problem.optimal_value, 4) == best and round(problem.uniform_value, 4) == uniform
    assert (problem.features.max(axis=2) >= 0.85).all() and np.allclose(problem.features.sum(axis=2), 1)
    assert problem.reward_weights.sum(axis=1).tolist() == [0, 0, 0, 1, 1]


def test_latent_draws_for_h_then_j():
    rng = np.random.default_rng(1)
    rng.integers(5, size=(20, 4))
    rng.dirichlet(np.full(5, 0.5), size=(20, 4))
    measures = [[rng.dirichlet(np.full(20, 0.12)) for _ in range(5)] for _ in range(5)]
    problem = latent(1)
    assert np.array_equal(problem.measures, measures)
    assert problem.reward_weights[3:].argmax(axis=1).tolist() == [rng.integers(5), rng.integers(5)]


def test_one_hot():
    problem = one_hot()
    assert (problem.states, problem.actions, problem.horizon, problem.public.dimension) == (5, 2, 5, 10)
    P = problem.truth.transitions.dense()[0]
    assert P[2, 0].tolist() == [0, 1, 0, 0, 0] and P[2, 1].tolist() == [0, 0.05, 0.15, 0.8, 0]
    assert np.allclose(P[0, 1], [0.2, 0.8, 0, 0, 0]) and np.allclose(P[4, 1], [0, 0, 0, 0.05, 0.95]) and P[0, 0, 0] == 1
    assert problem.truth.rewards[0, 4].tolist() == [0, 1] and problem.truth.rewards[4, 0].tolist() == [0.02, 0]
    assert problem.start.tolist() == [0.5, 0.5, 0, 0, 0]


@pytest.mark.parametrize(("system", "published", "exact"), [(oscillator(), 18103, 18087.5), (thermal(), 8834, 8837.8)])
def test_doing_nothing_costs_this_much(system, published, exact):
    """The published figures are sampled over 1e5 episodes; the exact ones are within their noise."""
    regret = 1e5 * (system.optimal_value - system.uniform_value)
    assert regret == pytest.approx(published, rel=2e-3) and round(regret, 1) == exact


@pytest.mark.parametrize("system", [oscillator(), thermal(), glucose()])
def test_the_truth_is_within_what_agents_are_told(system):
    assert np.linalg.norm(np.hstack([system.A, system.B])) <= system.parameter_bound
    assert max(np.linalg.norm(K, 2) for K in system.optimal_policy.gains) <= system.gain_bound
    assert system.spectral_radius < 1 and (len(system.A), len(system.R), system.horizon) in {(2, 1, 5), (3, 2, 10), (3, 1, 8)}


# --- ICU-Sepsis ------------------------------------------------------------------------------------------------------------------------

installed = pytest.mark.skipif(importlib.util.find_spec("icu_sepsis") is None, reason='needs pip install "confide[icu]"')


@installed
def test_icu_sepsis():
    """Survival under the clinicians, at random and at best; the paper prints .78, .78 and .88 [Choudhary24]."""
    problem, expert = icu_sepsis(), icu_sepsis_expert()
    assert (problem.states, problem.actions) == (716, 25)
    assert [round(x, 2) for x in (problem.value(expert), problem.uniform_value, problem.optimal_value)] == [0.78, 0.78, 0.88]
    P = problem.transitions
    assert P.probabilities.nbytes + P.successors.nbytes + P.cumulative.nbytes < 35e6
    for s in (713, 714, 715):  # death, survival, and the end that absorbs
        assert P.expect(0, np.eye(716)[715])[s].tolist() == [1.0] * 25
    assert problem.rewards[0].any(axis=1).nonzero()[0].tolist() == [714]


@installed
def test_icu_sepsis_returns_are_survival():
    problem, expert = icu_sepsis(horizon=30), icu_sepsis_expert(horizon=30)
    users = problem.sample(expert, 4000, np.random.default_rng(0))
    returns = users.rewards.sum(axis=1)
    assert set(np.unique(returns)) == {0.0, 1.0}
    assert np.array_equal(returns == 1, (users.states[:, :-1] == 714).any(axis=1))
    spread = np.sqrt(problem.value(expert) * (1 - problem.value(expert)) / 4000)
    assert abs(returns.mean() - problem.value(expert)) < 5.5 * spread  # one false alarm in 2.6e7


@installed
def test_icu_sepsis_side_information():
    assert icu_sepsis_centres().shape == (716, 47) and np.isfinite(icu_sepsis_centres()).all()
    assert icu_sepsis_expert(horizon=3).weights.shape == (3, 716, 25)
    assert icu_sepsis().transitions is icu_sepsis(horizon=5).transitions  # read once


@installed
def test_icu_sepsis_imports_neither_its_package_nor_the_old_gym():
    code = "import sys\nfrom confide.problems import make\nmake('icu-sepsis')\nprint({'icu_sepsis', 'gym', 'gymnasium'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()" and not done.stderr


def test_icu_sepsis_without_its_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r'pip install "confide\[icu\]"'):
        icu_sepsis_expert()
