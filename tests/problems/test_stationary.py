"""What inputs reach, and the infinite horizon as the limit of finite ones."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import signal

from confide.errors import InvalidParameter
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
from confide.problems.stationary import reached_space

NAMED = [oscillator(), thermal(), glucose(), double_integrator(), pendulum(), mass_chain()]
RANDOM = [random_lq(seed) for seed in range(8)] + [
    random_lq(seed, states=4, spectral_radius=1.1) for seed in range(4)
]


def rotate(A, B, seed=0):
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=np.shape(A)))[0]
    return turn @ A @ turn.T, turn @ B


def system_of(A, B, **changed):
    n, d = np.shape(B)
    return LQSystem(
        A, B, **{"Q": np.eye(n), "R": np.eye(d), "horizon": 5, "noise_radius": 0.1} | changed
    )


# What inputs reach.


@pytest.mark.parametrize("system", NAMED + RANDOM, ids=lambda system: system.name)
def test_all_named_systems_are_controllable(system):
    n = len(system.A)
    scaled = system.A / np.linalg.norm(system.A, 2)
    matrix = np.hstack([np.linalg.matrix_power(scaled, k) @ system.B for k in range(n)])
    # Few states: the textbook's matrix is good enough.
    assert np.linalg.matrix_rank(matrix) == n
    assert (
        system.controllable and system.stabilisable and reached_space(system.A, system.B).rest == 0
    )


def test_many_states():
    system = mass_chain(masses=10)
    assert system.controllable
    scaled = system.A / np.linalg.norm(system.A, 2)
    columns = np.hstack([np.linalg.matrix_power(scaled, k) @ system.B for k in range(20)])
    # which is why it is not computed from this
    assert np.linalg.svd(columns, compute_uv=False)[-1] < 1e-13
    # the same input twice
    half = LQSystem(system.A, np.hstack([system.B, system.B]), system.Q, np.eye(2), 5, 0.1)
    assert half.controllable
    F = np.block(
        [
            [np.zeros((3, 3)), np.eye(3)],
            [np.eye(3, k=1) + np.eye(3, k=-1) - 2 * np.eye(3), np.zeros((3, 3))],
        ]
    )
    A, B, *_ = signal.cont2discrete((F, np.eye(6)[:, 4:5], np.eye(6), np.zeros((6, 1))), 0.5)
    # both neighbours move alike: what is antisymmetric is out of reach
    pushed_in_the_middle = reached_space(A, B)
    assert pushed_in_the_middle.dimension == 4 and pushed_in_the_middle.rest == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("A", "B", "dimension", "rest"),
    [
        # defective: its eigenvalues are known to 1e-8 only
        ([[0.5, 1.0], [0.0, 0.5]], [[1.0], [0.0]], 1, 0.5),
        ([[0.5, 1.0], [0.0, 0.5]], [[0.0], [1.0]], 2, 0.0),
        ([[0.5, 0.0], [0.0, 1.2]], [[1.0], [0.0]], 1, 1.2),
        # By rounding sometimes below 1.
        ([[0.5, 0.0], [0.0, 1.0]], [[1.0], [0.0]], 1, 1.0),
        ([[1.2, 0.0], [0.0, 0.5]], [[1.0], [0.0]], 1, 0.5),
        ([[0.5, 0.0], [0.0, 0.5]], [[1.0], [1.0]], 1, 0.5),
        ([[0.5, 0.0], [0.0, 0.5]], [[1.0, 0.0], [0.0, 1.0]], 2, 0.0),
        ([[0.5, 0.0], [0.0, 0.7]], [[0.0], [0.0]], 0, 0.7),
        ([[0.0, 0.0], [0.0, 0.0]], [[1.0], [0.0]], 1, 0.0),
    ],
)
def test_what_inputs_reach(A, B, dimension, rest):
    for seed in range(5):
        turned = system_of(*rotate(A, B, seed))
        space = reached_space(turned.A, turned.B)
        assert space.dimension == dimension and space.rest == pytest.approx(rest, abs=1e-7)
        assert turned.controllable == (dimension == 2) and turned.stabilisable == (rest < 1)


# The infinite horizon.


@pytest.mark.parametrize("system", NAMED + RANDOM, ids=lambda system: system.name)
def test_finite_horizons_tend_to_the_infinite_one(system):
    """P_1 and K_1 approach their limits like rho^(2H), rho the spectral radius of A + B K: five
    decades of rho^(2H) bring at least four.
    """
    limit = system.stationary()
    assert limit.is_limit and limit.spectral_radius < 1
    rate = 2 * np.log(limit.spectral_radius)

    def errors(logarithm):
        H = 2 + int(np.ceil(logarithm * np.log(10) / rate))
        P, policy = replace(system, horizon=H)._optimum
        return np.array(
            [
                np.abs(P[0] - limit.P).max() / np.abs(limit.P).max(),
                np.abs(policy.gains[0] - limit.gain).max(),
            ]
        )

    early = errors(-3)
    late = errors(-8)
    assert (late < 1e-5).all() and (late <= 1e-4 * early).all()
    assert (errors(-16) < 1e-9).all()
    A = system.A
    B = system.B
    P = limit.P
    gain = -np.linalg.inv(system.R + B.T @ P @ B) @ B.T @ P @ A
    assert np.abs(system.Q + A.T @ P @ (A + B @ gain) - P).max() < 1e-9 * np.abs(P).max()


def test_the_same_gain_at_every_step_costs_a_little_more():
    system = thermal()
    constant = system.stationary().policy(system.horizon)
    assert constant.gains.shape == (10, 2, 3) and np.array_equal(
        constant.gains[0], constant.gains[9]
    )
    lost = system.optimal_value - system.value(constant)
    assert 0 < lost < 0.02 * (system.optimal_value - system.uniform_value)


def test_what_costs_nothing_is_left_alone_at_every_finite_horizon():
    """An unstable mode that Q does not see: the stabilising gain steers it, the best gain of a
    finite horizon never does.
    """
    A = np.diag([0.5, 1.2])
    B = np.eye(2)
    Q = np.diag([1.0, 0.0])
    limit = system_of(A, B, Q=Q, horizon=300).stationary()
    assert not limit.is_limit and abs(limit.gain[1, 1]) > 0.3 and limit.spectral_radius < 1
    assert not system_of(A, B, Q=Q, horizon=300).optimal_policy.gains[0, 1].any()


@pytest.mark.parametrize(
    ("A", "B", "Q", "why"),
    [
        (
            np.diag([0.5, 1.2]),
            [[1.0], [0.0]],
            np.eye(2),
            "inputs do not reach a part of A with spectral radius 1.2",
        ),
        (
            np.diag([0.5, 1.0]),
            [[1.0], [1.0]],
            np.diag([1.0, 0.0]),
            "a mode of A on the unit circle costs nothing under Q",
        ),
        (
            np.diag([1.0, 1.2]),
            np.eye(2),
            np.zeros((2, 2)),
            "a mode of A on the unit circle costs nothing under Q",
        ),
    ],
)
def test_no_stabilising_gain(A, B, Q, why):
    system = system_of(A, B, Q=Q)
    # The finite horizon does not mind.
    assert np.isfinite(system.optimal_value)
    with pytest.raises(
        InvalidParameter,
        match=f"needs a gain that stabilises the system, and none was found: {why}",
    ):
        system.stationary()
