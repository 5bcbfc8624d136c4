"""Assumption 1 part by part, what inputs reach, how far states get, and the infinite horizon as the limit of finite ones."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import signal

from confide.errors import InvalidParameter
from confide.policy import LinearPolicy
from confide.problems import (
    LQSystem,
    double_integrator,
    glucose,
    mass_chain,
    oscillator,
    pendulum,
    random_lq,
    thermal,
)
from confide.problems.lq_checks import Reach, controllability_margin, farthest, steered

NAMED = [oscillator(), thermal(), glucose(), double_integrator(), pendulum(), mass_chain()]
RANDOM = [random_lq(seed) for seed in range(8)] + [random_lq(seed, states=4, spectral_radius=1.1) for seed in range(4)]


def rotated(A, B, seed=0):
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=np.shape(A)))[0]
    return turn @ A @ turn.T, turn @ B


def system_of(A, B, **changed):
    n, d = np.shape(B)
    return LQSystem(A, B, **{"Q": np.eye(n), "R": np.eye(d), "horizon": 5, "noise_radius": 0.1} | changed)


# --- Assumption 1 ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", [oscillator(), thermal()], ids=lambda system: system.name)
def test_assumption_1_holds(system):
    found = system.check()
    assert found.holds and found.gains_within and all(part.holds for part in found.lemma)
    assert str(found).startswith(f"{system.name}: Assumption 1 of [Chowdhury21] holds\n(a) ")


def test_small_input_costs_break_lemma_2_and_not_assumption_1():
    """R = .06: Assumption 1 holds with gamma = 1.2, and the optimal input is 1.42 at the first step."""
    found = replace(oscillator(), R=np.array([[0.06]])).check()
    assert found.holds and found.largest_gamma == pytest.approx(1.2) and found.gain_bound == 1.2
    assert not found.gains_within and round(max(found.gains), 2) == 1.42
    assert [part.holds for part in found.lemma] == [True, False, False]
    assert found.inputs[0].attained == pytest.approx(found.gains[0])  # x_1 may be any unit vector
    assert "Lemma 2  no           ||u_h|| = 1.42 at worst, at most gamma = 1.2" in str(found).splitlines()


def test_projected_gains_keep_lemma_2():
    """What agents do: no gain above gamma, and with (e) states and inputs are within the bounds whatever the noise."""
    system = replace(oscillator(), R=np.array([[0.01]]))
    gains = system.optimal_policy.gains
    sizes = np.linalg.norm(gains, 2, axis=(1, 2))
    assert sizes.max() > 2
    shortened = LinearPolicy(gains * np.minimum(1, 1.2 / np.maximum(sizes, 1e-300))[:, None, None])
    found = system.check(shortened)
    assert all(part.holds for part in found.lemma) and "under the given gains" in str(found)
    with pytest.raises(InvalidParameter, match=r"gains of shape \(5, 1, 2\)"):
        system.check(LinearPolicy(np.zeros((4, 1, 2))))


@pytest.mark.parametrize(
    ("changed", "where", "text"),
    [
        ({"A": np.diag([0.9, 0.9]), "parameter_bound": 2.0}, "(a)", "||(A, B)||_F = 1.297, at most 1"),
        ({"A": 0.5 * np.eye(2)}, "(a)", "controllable: inputs reach 1 of 2 dimensions"),
        ({"A": np.array([[0.0, 1.1], [0.0, 0.0]]), "parameter_bound": 2.0}, "(b)", "||A|| = 1.1, below 1"),
        ({"A": np.zeros((2, 2)), "B": np.array([[0.0], [1.0]])}, "(b)", "||B|| = 1, below 1"),
        ({"Q": np.diag([1.0, 0.0])}, "(1)", "Q is positive definite: least eigenvalue 0"),
        ({"noise_radius": 1.0}, "(d)", "||w|| <= C_w = 1, below 1; independent, mean zero"),
        ({"gain_bound": 1.3}, "(e)", "||A|| + gamma ||B|| + C_w = 1.025, at most 1; holds up to gamma = 1.2"),
        ({"noise_radius": 0.5}, "(e)", "||A|| + gamma ||B|| + C_w = 1.4, at most 1; no gamma is small enough"),
    ],
)
def test_each_part_can_fail(changed, where, text):
    found = replace(oscillator(), **changed).check()
    assert not found.holds and "does not hold" in str(found)
    failed = [(part.where, part.text) for part in found.assumption if not part.holds]
    assert (where, text) in failed


def test_gamma_is_free_where_inputs_do_nothing():
    assert system_of(0.5 * np.eye(2), np.zeros((2, 1))).check().largest_gamma == np.inf
    assert system_of(1.5 * np.eye(2), np.zeros((2, 1))).check().largest_gamma == -np.inf


# --- how far states get ----------------------------------------------------------------------------------------------------------------


def test_reach_of_one_state_is_a_sum():
    system = LQSystem([[0.8]], [[0.5]], [[1.0]], [[1.0]], 4, 0.3)
    found = system.check(LinearPolicy(np.full((4, 1, 1), -0.2)))
    expected = [0.7**h + 0.3 * sum(0.7**i for i in range(h)) for h in range(5)]
    assert [step.attained for step in found.states] == pytest.approx(expected)
    assert [step.bound for step in found.states] == pytest.approx(expected)
    assert [step.bound for step in found.inputs] == pytest.approx([0.2 * x for x in expected[:-1]])


@pytest.mark.parametrize("seed", range(20))
def test_the_farthest_point_is_between_the_two(seed):
    """Against all directions of the plane, one in 20 000."""
    rng = np.random.default_rng(seed)
    maps = rng.normal(size=(rng.integers(1, 8), 2, rng.integers(1, 4))) * rng.exponential()
    angles = np.linspace(0, np.pi, 20_001)
    directions = np.array([np.cos(angles), np.sin(angles)])
    true = np.linalg.norm(np.einsum("jab,as->jbs", maps, directions), axis=1).sum(axis=0).max()
    found = farthest(maps)
    assert found.attained <= true * (1 + 1e-6) and true <= found.bound * (1 + 1e-9)
    assert found.bound <= np.linalg.norm(maps, 2, axis=(1, 2)).sum() * (1 + 1e-9)


@pytest.mark.parametrize("system", NAMED, ids=lambda system: system.name)
def test_nobody_is_beyond_the_bound_and_somebody_comes_close(system):
    """20 000 users, with noise pushed to the edge of its ball; in named systems bound and worst case are the same."""
    found, rng, n = system.check(), np.random.default_rng(0), len(system.A)
    x = rng.normal(size=(20_000, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for h, K in enumerate(system.optimal_policy.gains):
        assert np.linalg.norm(x @ K.T, axis=1).max() <= found.inputs[h].bound * (1 + 1e-9)
        x = x @ (system.A + system.B @ K).T
        x += system.noise_radius * x / np.linalg.norm(x, axis=1, keepdims=True)  # away from the origin
        assert np.linalg.norm(x, axis=1).max() <= found.states[h + 1].bound * (1 + 1e-9)
    assert all(step.bound <= step.attained * (1 + 1e-9) for step in found.states)
    assert np.linalg.norm(x, axis=1).max() > 0.5 * found.states[-1].attained


def test_what_lies_between_the_bounds_is_not_decided():
    assert Reach(0.9, 1.1).within(1.0) is None and Reach(0.9, 1.0).within(1.0) and Reach(1.1, 1.2).within(1.0) is False
    assert str(Reach(0.9, 1.1)) == "0.9 to 1.1" and str(Reach(1.0, 1.0)) == "1"


def test_without_noise_and_without_end():
    still = farthest(np.zeros((3, 2, 2)))
    assert (still.attained, still.bound) == (0.0, 0.0)
    explodes = system_of([[1e9]], [[0.0]], horizon=40)
    found = explodes.check(LinearPolicy(np.zeros((40, 1, 1))))
    assert found.states[-1].bound == np.inf and found.states[10].bound == pytest.approx(1e90, rel=1e-6)
    assert found.lemma[0].holds is False


# --- what inputs reach -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", NAMED + RANDOM, ids=lambda system: system.name)
def test_all_named_systems_are_controllable(system):
    n = len(system.A)
    scaled = system.A / np.linalg.norm(system.A, 2)
    matrix = np.hstack([np.linalg.matrix_power(scaled, k) @ system.B for k in range(n)])
    assert np.linalg.matrix_rank(matrix) == n  # few states: the textbook's matrix is good enough
    assert system.controllable and system.stabilisable and steered(system.A, system.B).rest == 0
    assert controllability_margin(system.A, system.B) > 1e-3


def test_many_states():
    system = mass_chain(masses=10)
    assert system.controllable
    scaled = system.A / np.linalg.norm(system.A, 2)
    columns = np.hstack([np.linalg.matrix_power(scaled, k) @ system.B for k in range(20)])
    assert np.linalg.svd(columns, compute_uv=False)[-1] < 1e-13  # which is why it is not computed from this
    half = LQSystem(system.A, np.hstack([system.B, system.B]), system.Q, np.eye(2), 5, 0.1)  # the same input twice
    assert half.controllable
    F = np.block([[np.zeros((3, 3)), np.eye(3)], [np.eye(3, k=1) + np.eye(3, k=-1) - 2 * np.eye(3), np.zeros((3, 3))]])
    A, B, *_ = signal.cont2discrete((F, np.eye(6)[:, 4:5], np.eye(6), np.zeros((6, 1))), 0.5)
    pushed_in_the_middle = steered(A, B)  # both neighbours move alike: what is antisymmetric is out of reach
    assert pushed_in_the_middle.dimension == 4 and pushed_in_the_middle.rest == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("A", "B", "dimension", "rest"),
    [
        ([[0.5, 1.0], [0.0, 0.5]], [[1.0], [0.0]], 1, 0.5),  # defective: its eigenvalues are known to 1e-8 only
        ([[0.5, 1.0], [0.0, 0.5]], [[0.0], [1.0]], 2, 0.0),
        ([[0.5, 0.0], [0.0, 1.2]], [[1.0], [0.0]], 1, 1.2),
        ([[0.5, 0.0], [0.0, 1.0]], [[1.0], [0.0]], 1, 1.0),  # by rounding sometimes below 1
        ([[1.2, 0.0], [0.0, 0.5]], [[1.0], [0.0]], 1, 0.5),
        ([[0.5, 0.0], [0.0, 0.5]], [[1.0], [1.0]], 1, 0.5),
        ([[0.5, 0.0], [0.0, 0.5]], [[1.0, 0.0], [0.0, 1.0]], 2, 0.0),
        ([[0.5, 0.0], [0.0, 0.7]], [[0.0], [0.0]], 0, 0.7),
        ([[0.0, 0.0], [0.0, 0.0]], [[1.0], [0.0]], 1, 0.0),
    ],
)
def test_what_inputs_reach(A, B, dimension, rest):
    for seed in range(5):
        turned = system_of(*rotated(A, B, seed))
        found = steered(turned.A, turned.B)
        assert found.dimension == dimension and found.rest == pytest.approx(rest, abs=1e-7)
        assert turned.controllable == (dimension == 2) and turned.stabilisable == (rest < 1)
        assert (controllability_margin(turned.A, turned.B) < 1e-7) == (dimension < 2)


# --- the infinite horizon --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", NAMED + RANDOM, ids=lambda system: system.name)
def test_finite_horizons_tend_to_the_infinite_one(system):
    """P_1 and K_1 approach their limits like rho^(2H), rho the spectral radius of A + B K: five decades of rho^(2H) bring at least four."""
    limit = system.stationary()
    assert limit.is_limit and limit.spectral_radius < 1
    rate = 2 * np.log(limit.spectral_radius)

    def errors(logarithm):
        H = 2 + int(np.ceil(logarithm * np.log(10) / rate))
        P, policy = replace(system, horizon=H)._optimum
        return np.array([np.abs(P[0] - limit.P).max() / np.abs(limit.P).max(), np.abs(policy.gains[0] - limit.gain).max()])

    early, late = errors(-3), errors(-8)
    assert (late < 1e-5).all() and (late <= 1e-4 * early).all()
    assert (errors(-16) < 1e-9).all()
    A, B, P = system.A, system.B, limit.P
    gain = -np.linalg.inv(system.R + B.T @ P @ B) @ B.T @ P @ A
    assert np.abs(system.Q + A.T @ P @ (A + B @ gain) - P).max() < 1e-9 * np.abs(P).max()


def test_the_same_gain_at_every_step_costs_a_little_more():
    system = thermal()
    constant = system.stationary().policy(system.horizon)
    assert constant.gains.shape == (10, 2, 3) and np.array_equal(constant.gains[0], constant.gains[9])
    lost = system.optimal_value - system.value(constant)
    assert 0 < lost < 0.02 * (system.optimal_value - system.uniform_value)


def test_what_costs_nothing_is_left_alone_at_every_finite_horizon():
    """An unstable mode that Q does not see: the stabilising gain steers it, the best gain of a finite horizon never does."""
    A, B, Q = np.diag([0.5, 1.2]), np.eye(2), np.diag([1.0, 0.0])
    limit = system_of(A, B, Q=Q, horizon=300).stationary()
    assert not limit.is_limit and abs(limit.gain[1, 1]) > 0.3 and limit.spectral_radius < 1
    assert not system_of(A, B, Q=Q, horizon=300).optimal_policy.gains[0, 1].any()


@pytest.mark.parametrize(
    ("A", "B", "Q", "why"),
    [
        (np.diag([0.5, 1.2]), [[1.0], [0.0]], np.eye(2), "inputs do not reach a part of A with spectral radius 1.2"),
        (np.diag([0.5, 1.0]), [[1.0], [1.0]], np.diag([1.0, 0.0]), "a mode of A on the unit circle costs nothing under Q"),
        (np.diag([1.0, 1.2]), np.eye(2), np.zeros((2, 2)), "a mode of A on the unit circle costs nothing under Q"),
    ],
)
def test_no_stabilising_gain(A, B, Q, why):
    system = system_of(A, B, Q=Q)
    assert np.isfinite(system.optimal_value)  # the finite horizon does not mind
    with pytest.raises(InvalidParameter, match=f"needs a gain that stabilises the system, and none was found: {why}"):
        system.stationary()
