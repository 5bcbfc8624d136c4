"""The figures of the zoo: published ones, and closed forms."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import confide
from confide.agents import OFULQ, CertaintyEquivalentLQ
from confide.errors import InvalidParameter, MissingExtra
from confide.planners.backward_induction import optimal
from confide.problems import (
    chain,
    chain_values,
    deep_sea,
    double_chain,
    double_integrator,
    garnet,
    glucose,
    icu_sepsis,
    icu_sepsis_centres,
    icu_sepsis_expert,
    latent,
    liao_hard,
    lock,
    mass_chain,
    one_hot,
    oscillator,
    pendulum,
    rand,
    random_lq,
    riverswim,
    riverswim_stage,
    thermal,
)


@pytest.mark.parametrize(
    ("problem", "best", "uniform", "blind"),
    [(lock(), 1.17, 0.11, 0.08), (rand(), 1.17, 0.49, 0.91)],
)
def test_mixtures(problem, best, uniform, blind):
    assert round(problem.optimal_value, 2) == best and round(problem.uniform_value, 2) == uniform
    average = problem.public.kernels.mean(axis=0)
    _, policy = optimal(lambda _, values: average @ values, problem.rewards)
    assert round(problem.value(policy), 2) == blind
    assert (problem.states, problem.actions, problem.horizon, problem.public.dimension) == (
        20,
        4,
        5,
        5,
    )


def test_lock_costs_uniform_play_this_much():
    problem = lock()
    assert round(1e5 * (problem.optimal_value - problem.uniform_value), -2) == 105_700


def worst_value(problem):
    """The least value of any policy."""
    P = problem.truth.transitions.dense()
    V = np.zeros(problem.states)
    for h in reversed(range(problem.horizon)):
        V = (problem.truth.rewards[h] + P[min(h, len(P) - 1)] @ V).min(axis=1)
    return problem.truth.start @ V


@pytest.mark.parametrize("seed", [0, 1])
def test_liao_hard(seed):
    problem = liao_hard(seed)
    assert (problem.states, problem.actions, problem.horizon, problem.public.dimension) == (
        8,
        16,
        6,
        5,
    )
    assert round(1e4 * (problem.optimal_value - problem.uniform_value)) == 272
    assert round(1e4 * (problem.optimal_value - worst_value(problem))) == 547


def test_liao_hard_is_the_papers_instance():
    """The exits are 1/H + <m_h, a> with |m_hj| = D, read back from the transitions."""
    problem = liao_hard(3)
    D = np.sqrt(1 / 6e4) / (4 * np.sqrt(2))
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


def test_riverswim_with_steps_that_differ_is_riverswim_for_whoever_knows_the_swaps():
    problem = riverswim_stage()
    usual = riverswim()
    assert problem.optimal_value == pytest.approx(3.407, abs=1e-3) and not problem.public.stationary
    for h in range(20):
        for s in range(6):
            rows = problem.transitions.dense()[h, s]
            usual_rows = usual.transitions.dense()[0, s]
            assert np.array_equal(rows, usual_rows) or np.array_equal(rows, usual_rows[::-1])


def test_double_chain():
    problem = double_chain()
    assert (problem.states, problem.actions, problem.horizon) == (19, 2, 20) and problem.start[
        9
    ] == 1
    assert problem.optimal_value == pytest.approx(4.008, abs=1e-3)
    assert (problem.optimal_policy.actions[0] == 1)[9:].all()
    with pytest.raises(InvalidParameter, match="states must be at least 3"):
        double_chain(states=2)


def test_garnet():
    problem = garnet(seed=3)
    assert (problem.states, problem.actions, problem.horizon) == (50, 5, 10)
    assert (np.diff(problem.transitions.indptr) == 3).all() and problem.rewards[0].sum() == 5 * 5
    with pytest.raises(InvalidParameter, match="at most states=2"):
        garnet(states=2)


def test_riverswim():
    problem = riverswim()
    assert round(problem.optimal_value, 3) == 3.397
    assert (problem.states, problem.actions, problem.horizon) == (6, 2, 20)
    with pytest.raises(InvalidParameter, match="states must be at least 2, got states=1"):
        riverswim(states=1)


def test_chain():
    values = chain_values()
    # The constant predictor.
    assert round(np.sqrt(np.mean((values - 0.5) ** 2)), 3) == 0.252
    assert (
        values[-1] == 1
        and np.abs(values[:-1] - 0.99 * (0.5 * values[:-1] + 0.5 * values[1:])).max() < 1e-14
    )
    problem = chain()
    assert (problem.states, problem.actions) == (41, 1)
    returns = problem.sample(problem.optimal_policy, 2000, np.random.default_rng(0))
    assert (
        (returns.rewards.sum(axis=1) == 1).all()
        and (returns.states[:, -1] == 40).all()
        and (returns.states[:, 0] < 40).all()
    )
    # who starts in state 0 and has not reached the end after 200 steps
    assert stats.binom.cdf(38, 199, 0.5) < 1e-18
    with pytest.raises(InvalidParameter, match="stay must be in"):
        chain(stay=1.0)


def test_chain_discounted_returns_have_these_values():
    """20 000 users from each of four states: mean discounted returns within 5.5 standard
    deviations (one false alarm in 6e6).
    """
    problem = chain()
    values = chain_values()
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
    P = problem.transitions.dense()
    # The distribution over columns of all 2^(size - 1) sequences.
    reached = np.eye(size)[0]
    for h in range(size - 1):
        reached = np.einsum("s,sat->t", reached, P[h]) / 2
    assert reached[-1] == 0.5 ** (size - 1)
    assert problem.uniform_value == pytest.approx(
        0.5 ** (size - 1) + 0.01 / size * visits_to_the_left(size)
    )


def visits_to_the_left(size):
    mass = np.eye(size)[0]
    total = 0.0
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
    assert (problem.states, problem.actions, problem.horizon, problem.public.dimension) == (
        20,
        4,
        5,
        5,
    )
    assert round(problem.optimal_value, 4) == best and round(problem.uniform_value, 4) == uniform
    assert (problem.features.max(axis=2) >= 0.85).all() and np.allclose(
        problem.features.sum(axis=2), 1
    )
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
    assert (problem.states, problem.actions, problem.horizon, problem.public.dimension) == (
        5,
        2,
        5,
        10,
    )
    P = problem.truth.transitions.dense()[0]
    assert P[2, 0].tolist() == [0, 1, 0, 0, 0] and P[2, 1].tolist() == [0, 0.05, 0.15, 0.8, 0]
    assert (
        np.allclose(P[0, 1], [0.2, 0.8, 0, 0, 0])
        and np.allclose(P[4, 1], [0, 0, 0, 0.05, 0.95])
        and P[0, 0, 0] == 1
    )
    assert problem.truth.rewards[0, 4].tolist() == [0, 1] and problem.truth.rewards[
        4, 0
    ].tolist() == [0.02, 0]
    assert problem.start.tolist() == [0.5, 0.5, 0, 0, 0]


@pytest.mark.parametrize(
    ("system", "published", "exact"), [(oscillator(), 18103, 18087.5), (thermal(), 8834, 8837.8)]
)
def test_doing_nothing_costs_this_much(system, published, exact):
    """The published figures are from 1e5 sampled episodes; exact ones are within their noise."""
    regret = 1e5 * (system.optimal_value - system.uniform_value)
    assert regret == pytest.approx(published, rel=2e-3) and round(regret, 1) == exact


def gains_within(system):
    """Whether projecting the optimal gains changes nothing."""
    return max(np.linalg.norm(K, 2) for K in system.optimal_policy.gains) <= system.gain_bound * (
        1 + 1e-9
    )


@pytest.mark.parametrize("system", [oscillator(), thermal(), glucose()])
def test_the_truth_is_within_what_agents_are_told(system):
    assert np.linalg.norm(np.hstack([system.A, system.B])) <= system.parameter_bound
    assert max(np.linalg.norm(K, 2) for K in system.optimal_policy.gains) <= system.gain_bound
    assert system.spectral_radius < 1 and (len(system.A), len(system.R), system.horizon) in {
        (2, 1, 5),
        (3, 2, 10),
        (3, 1, 8),
    }


def test_the_double_integrator_has_a_closed_form():
    system = double_integrator(dt=0.2, horizon=7)
    assert (
        np.allclose(system.A, [[1, 0.2], [0, 1]])
        and np.allclose(system.B, [[0.02], [0.2]])
        and system.horizon == 7
    )
    assert system.controllable and system.spectral_radius == pytest.approx(1.0)


@pytest.mark.parametrize(("length", "dt"), [(1.0, 0.05), (0.5, 0.1)])
def test_the_pendulum_falls_and_can_be_held(length, dt):
    """Undamped it grows like exp(dt sqrt(g/l)) per step; the damping takes at most exp(-dt/10) of
    it.
    """
    system = pendulum(length=length, dt=dt)
    fastest = np.exp(dt * np.sqrt(9.81 / length))
    assert (
        fastest * np.exp(-dt / 10) < system.spectral_radius < fastest and system.spectral_radius > 1
    )
    # u = -angle cancels gravity: at rest it stays
    held = system.A + system.B @ np.array([[-1.0, 0.0]])
    assert np.allclose(held @ [1.0, 0.0], [1.0, 0.0])
    assert system.optimal_value > 0.4 * system.uniform_value


@pytest.mark.parametrize("masses", [1, 3, 6])
def test_the_chain_of_masses_swings_at_its_own_frequencies(masses):
    """Between walls omega_k = 2 sin(k pi / (2 (n + 1))), damped by exp(-dt/10) per step."""
    system = mass_chain(masses=masses)
    omega = 2 * np.sin(np.arange(1, masses + 1) * np.pi / (2 * (masses + 1)))
    angles = 0.5 * np.sqrt(omega**2 - 0.1**2)
    values = np.linalg.eigvals(system.A)
    assert np.abs(values) == pytest.approx(np.exp(-0.05))
    assert np.sort(np.abs(np.angle(values)))[::2] == pytest.approx(np.sort(angles))
    assert (len(system.A), len(system.R)) == (2 * masses, 1) and system.controllable


@pytest.mark.parametrize(
    "system",
    [
        double_integrator(),
        double_integrator(dt=0.1, horizon=100),
        pendulum(),
        pendulum(length=0.3, horizon=100),
        mass_chain(),
        mass_chain(masses=8, horizon=50),
    ],
    ids=lambda system: f"{system.name}-{system.horizon}",
)
def test_bounds_that_agents_are_told_of_sampled_systems_hold(system):
    assert np.linalg.norm(np.hstack([system.A, system.B])) <= system.parameter_bound
    assert gains_within(system) and np.log2(system.gain_bound).is_integer()


def test_options_of_random_systems():
    for seed in range(20):
        system = random_lq(seed, states=5, inputs=3, spectral_radius=1.3, horizon=4)
        assert (system.A.shape, system.B.shape, system.horizon) == ((5, 5), (5, 3), 4)
        assert system.spectral_radius == pytest.approx(1.3)
        assert (
            np.hypot(np.linalg.norm(system.A), np.linalg.norm(system.B))
            <= system.public.parameter_bound
        )
        assert gains_within(system)
        drawn = random_lq(seed)
        longer = random_lq(seed, horizon=50)
        assert np.array_equal(drawn.A, longer.A) and drawn.horizon <= 10 < longer.horizon
        assert drawn.spectral_radius < 0.9 + 1e-9 and drawn.parameter_bound == 1.0
        # the draws before it are the same
        assert random_lq(seed, spectral_radius=0.8).A.shape == drawn.A.shape
    assert random_lq(states=2, spectral_radius=0).spectral_radius == 0


@pytest.mark.parametrize("seed", range(3))
def test_random_systems_are_as_they_were(seed):
    """The recipe of the docstring: benchmarks name instances by seed."""
    rng = np.random.default_rng(seed)
    n, d, H = (int(rng.integers(*ends)) for ends in ((2, 5), (1, 3), (5, 11)))
    A = rng.normal(size=(n, n))
    B = rng.normal(size=(n, d))
    A = A * (rng.uniform(0.4, 0.9) / np.abs(np.linalg.eigvals(A)).max())
    B = B * (rng.uniform(0.2, 0.6) / np.linalg.norm(B))
    scale = max(1.0, np.sqrt((A**2).sum() + (B**2).sum()))
    system = random_lq(seed)
    assert (
        np.allclose(system.A, A / scale, rtol=1e-13)
        and np.allclose(system.B, B / scale, rtol=1e-13)
        and system.horizon == H
    )


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (double_integrator, {"dt": 0.0}, r"dt must be in \(0, 100\], got dt=0.0"),
        (pendulum, {"length": -1.0}, r"length must be in \[0.01, 100\], got length=-1.0"),
        (mass_chain, {"masses": 0}, "masses must be at least 1, got masses=0"),
        (random_lq, {"states": 0}, "states must be at least 1, got states=0"),
        (
            random_lq,
            {"spectral_radius": -0.1},
            r"spectral_radius must be in \[0, 1000\], got spectral_radius=-0.1",
        ),
        (random_lq, {"horizon": 0}, "horizon must be at least 1, got horizon=0"),
    ],
)
def test_options_of_systems_are_checked(build, options, message):
    with pytest.raises(InvalidParameter, match=message):
        build(**options)


@pytest.mark.parametrize(
    "build", [double_integrator, pendulum, mass_chain, lambda: random_lq(1, spectral_radius=1.1)]
)
@pytest.mark.parametrize("learner", [CertaintyEquivalentLQ, OFULQ])
@pytest.mark.parametrize(
    "privacy", [confide.NoPrivacy(), confide.JointDP(1.0, 1e-5)], ids=["exact", "private"]
)
def test_controllers_serve_systems_that_leave_the_unit_ball(build, learner, privacy):
    """Certainty equivalence without privacy: .02 to .13 of what doing nothing costs, measured at
    1000 users over 5 seeds.
    """
    system = build()
    run = confide.run(learner(system.public, episodes=1_000, privacy=privacy), system, seed=0)
    assert np.isfinite(run.regret).all()
    if learner is CertaintyEquivalentLQ and isinstance(privacy, confide.NoPrivacy):
        assert run.regret[-1] < 0.3 * 1_000 * (run.optimal_value - run.uniform_value)


# Icu-sepsis.

installed = pytest.mark.skipif(
    importlib.util.find_spec("icu_sepsis") is None, reason='needs pip install "confide[icu]"'
)


@installed
def test_icu_sepsis():
    """Survival under the clinicians, at random and at best; the paper prints .78, .78 and .88
    [Choudhary24].
    """
    problem = icu_sepsis()
    expert = icu_sepsis_expert()
    assert (problem.states, problem.actions) == (716, 25)
    assert [
        round(x, 2) for x in (problem.value(expert), problem.uniform_value, problem.optimal_value)
    ] == [0.78, 0.78, 0.88]
    P = problem.transitions
    assert P.probabilities.nbytes + P.successors.nbytes + P.cumulative.nbytes < 35e6
    # Death, survival, and the end that absorbs.
    for s in (713, 714, 715):
        assert P.expect(0, np.eye(716)[715])[s].tolist() == [1.0] * 25
    assert problem.rewards[0].any(axis=1).nonzero()[0].tolist() == [714]


@installed
def test_icu_sepsis_returns_are_survival():
    problem = icu_sepsis(horizon=30)
    expert = icu_sepsis_expert(horizon=30)
    users = problem.sample(expert, 4000, np.random.default_rng(0))
    returns = users.rewards.sum(axis=1)
    assert set(np.unique(returns)) == {0.0, 1.0}
    assert np.array_equal(returns == 1, (users.states[:, :-1] == 714).any(axis=1))
    spread = np.sqrt(problem.value(expert) * (1 - problem.value(expert)) / 4000)
    # One false alarm in 2.6e7.
    assert abs(returns.mean() - problem.value(expert)) < 5.5 * spread


@installed
def test_icu_sepsis_side_information():
    assert icu_sepsis_centres().shape == (716, 47) and np.isfinite(icu_sepsis_centres()).all()
    assert icu_sepsis_expert(horizon=3).weights.shape == (3, 716, 25)
    # Read once.
    assert icu_sepsis().transitions is icu_sepsis(horizon=5).transitions


@installed
@pytest.mark.process
def test_icu_sepsis_imports_neither_its_package_nor_the_old_gym():
    code = (
        "import sys\n"
        "from confide.problems import make\n"
        "make('icu-sepsis')\n"
        "print({'icu_sepsis', 'gym', 'gymnasium'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()" and not done.stderr


def test_icu_sepsis_without_its_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'confide\[icu\]'"):
        icu_sepsis_expert()
