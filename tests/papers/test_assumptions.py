"""Assumption 1 part by part, and how far states and inputs get."""

from dataclasses import replace

import numpy as np
import pytest

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
from papers.chowdhury21.assumptions import Reach, check, controllability_margin, farthest

pytestmark = pytest.mark.long

NAMED = [oscillator(), thermal(), glucose(), double_integrator(), pendulum(), mass_chain()]
RANDOM = [random_lq(seed) for seed in range(8)] + [
    random_lq(seed, states=4, spectral_radius=1.1) for seed in range(4)
]


def rotated(A, B, seed=0):
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=np.shape(A)))[0]
    return turn @ A @ turn.T, turn @ B


def system_of(A, B, **changed):
    n, d = np.shape(B)
    return LQSystem(
        A, B, **{"Q": np.eye(n), "R": np.eye(d), "horizon": 5, "noise_radius": 0.1} | changed
    )


# Assumption 1.


@pytest.mark.parametrize("system", [oscillator(), thermal()], ids=lambda system: system.name)
def test_assumption_1_holds(system):
    report = check(system)
    assert report.holds and report.gains_within and all(part.holds for part in report.lemma)
    assert str(report).startswith(f"{system.name}: Assumption 1 of [Chowdhury21] holds\n(a) ")


def test_small_input_costs_break_lemma_2_and_not_assumption_1():
    """With R = .06 and gamma = 1.2 the optimal input is 1.42 at the first step."""
    report = check(replace(oscillator(), R=np.array([[0.06]])))
    assert report.holds and report.largest_gamma == pytest.approx(1.2) and report.gain_bound == 1.2
    assert not report.gains_within and round(max(report.gains), 2) == 1.42
    assert [part.holds for part in report.lemma] == [True, False, False]
    assert report.inputs[0].attained == pytest.approx(report.gains[0])  # x_1 may be any unit vector
    assert (
        "Lemma 2  no           ||u_h|| = 1.42 at worst, at most gamma = 1.2"
        in str(report).splitlines()
    )


def test_projected_gains_keep_lemma_2():
    """Agents project gains to gamma. With (e) states and inputs then keep to their bounds."""
    system = replace(oscillator(), R=np.array([[0.01]]))
    gains = system.optimal_policy.gains
    sizes = np.linalg.norm(gains, 2, axis=(1, 2))
    assert sizes.max() > 2
    shortened = LinearPolicy(gains * np.minimum(1, 1.2 / np.maximum(sizes, 1e-300))[:, None, None])
    report = check(system, shortened)
    assert all(part.holds for part in report.lemma) and "under the given gains" in str(report)
    with pytest.raises(InvalidParameter, match=r"gains of shape \(5, 1, 2\)"):
        check(system, LinearPolicy(np.zeros((4, 1, 2))))


@pytest.mark.parametrize(
    ("changed", "where", "text"),
    [
        (
            {"A": np.diag([0.9, 0.9]), "parameter_bound": 2.0},
            "(a)",
            "||(A, B)||_F = 1.297, at most 1",
        ),
        ({"A": 0.5 * np.eye(2)}, "(a)", "controllable: inputs reach 1 of 2 dimensions"),
        (
            {"A": np.array([[0.0, 1.1], [0.0, 0.0]]), "parameter_bound": 2.0},
            "(b)",
            "||A|| = 1.1, below 1",
        ),
        ({"A": np.zeros((2, 2)), "B": np.array([[0.0], [1.0]])}, "(b)", "||B|| = 1, below 1"),
        ({"Q": np.diag([1.0, 0.0])}, "(1)", "Q is positive definite: least eigenvalue 0"),
        ({"noise_radius": 1.0}, "(d)", "||w|| <= C_w = 1, below 1; independent, mean zero"),
        (
            {"gain_bound": 1.3},
            "(e)",
            "||A|| + gamma ||B|| + C_w = 1.025, at most 1; holds up to gamma = 1.2",
        ),
        (
            {"noise_radius": 0.5},
            "(e)",
            "||A|| + gamma ||B|| + C_w = 1.4, at most 1; no gamma is small enough",
        ),
    ],
)
def test_each_part_can_fail(changed, where, text):
    report = check(replace(oscillator(), **changed))
    assert not report.holds and "does not hold" in str(report)
    failed = [(part.where, part.text) for part in report.assumption if not part.holds]
    assert (where, text) in failed


def test_gamma_is_free_where_inputs_do_nothing():
    assert check(system_of(0.5 * np.eye(2), np.zeros((2, 1)))).largest_gamma == np.inf
    assert check(system_of(1.5 * np.eye(2), np.zeros((2, 1)))).largest_gamma == -np.inf


# How far states get.


def test_reach_of_one_state_is_a_sum():
    system = LQSystem([[0.8]], [[0.5]], [[1.0]], [[1.0]], 4, 0.3)
    report = check(system, LinearPolicy(np.full((4, 1, 1), -0.2)))
    expected = [0.7**h + 0.3 * sum(0.7**i for i in range(h)) for h in range(5)]
    assert [step.attained for step in report.states] == pytest.approx(expected)
    assert [step.bound for step in report.states] == pytest.approx(expected)
    assert [step.bound for step in report.inputs] == pytest.approx([0.2 * x for x in expected[:-1]])


@pytest.mark.parametrize("seed", range(20))
def test_the_farthest_point_is_between_the_two(seed):
    """Against all directions of the plane, one in 20 000."""
    rng = np.random.default_rng(seed)
    maps = rng.normal(size=(rng.integers(1, 8), 2, rng.integers(1, 4))) * rng.exponential()
    angles = np.linspace(0, np.pi, 20_001)
    directions = np.array([np.cos(angles), np.sin(angles)])
    true = np.linalg.norm(np.einsum("jab,as->jbs", maps, directions), axis=1).sum(axis=0).max()
    report = farthest(maps)
    assert report.attained <= true * (1 + 1e-6) and true <= report.bound * (1 + 1e-9)
    assert report.bound <= np.linalg.norm(maps, 2, axis=(1, 2)).sum() * (1 + 1e-9)


@pytest.mark.parametrize("system", NAMED, ids=lambda system: system.name)
def test_nobody_is_beyond_the_bound_and_somebody_comes_close(system):
    """20,000 users have noise at the edge of its ball. In named systems the bound is attained."""
    report = check(system)
    rng = np.random.default_rng(0)
    n = len(system.A)
    x = rng.normal(size=(20_000, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for h, K in enumerate(system.optimal_policy.gains):
        assert np.linalg.norm(x @ K.T, axis=1).max() <= report.inputs[h].bound * (1 + 1e-9)
        x = x @ (system.A + system.B @ K).T
        # away from the origin
        x += system.noise_radius * x / np.linalg.norm(x, axis=1, keepdims=True)
        assert np.linalg.norm(x, axis=1).max() <= report.states[h + 1].bound * (1 + 1e-9)
    assert all(step.bound <= step.attained * (1 + 1e-9) for step in report.states)
    assert np.linalg.norm(x, axis=1).max() > 0.5 * report.states[-1].attained


def test_what_lies_between_the_bounds_is_not_decided():
    assert (
        Reach(0.9, 1.1).within(1.0) is None
        and Reach(0.9, 1.0).within(1.0)
        and Reach(1.1, 1.2).within(1.0) is False
    )
    assert str(Reach(0.9, 1.1)) == "0.9 to 1.1" and str(Reach(1.0, 1.0)) == "1"


def test_without_noise_and_without_end():
    still = farthest(np.zeros((3, 2, 2)))
    assert (still.attained, still.bound) == (0.0, 0.0)
    explodes = system_of([[1e9]], [[0.0]], horizon=40)
    report = check(explodes, LinearPolicy(np.zeros((40, 1, 1))))
    assert report.states[-1].bound == np.inf and report.states[10].bound == pytest.approx(
        1e90, rel=1e-6
    )
    assert report.lemma[0].holds is False


# How far a system is from one that inputs do not reach.


@pytest.mark.parametrize("system", NAMED + RANDOM, ids=lambda system: system.name)
def test_all_named_systems_have_a_margin(system):
    assert controllability_margin(system.A, system.B) > 1e-3


@pytest.mark.parametrize(
    ("A", "B", "dimension"),
    [
        # defective: its eigenvalues are known to 1e-8 only
        ([[0.5, 1.0], [0.0, 0.5]], [[1.0], [0.0]], 1),
        ([[0.5, 1.0], [0.0, 0.5]], [[0.0], [1.0]], 2),
        ([[0.5, 0.0], [0.0, 1.2]], [[1.0], [0.0]], 1),
        ([[0.5, 0.0], [0.0, 0.5]], [[1.0, 0.0], [0.0, 1.0]], 2),
        ([[0.5, 0.0], [0.0, 0.7]], [[0.0], [0.0]], 0),
    ],
)
def test_without_a_margin_inputs_do_not_reach_everything(A, B, dimension):
    for seed in range(5):
        assert (controllability_margin(*rotated(A, B, seed)) < 1e-7) == (dimension < 2)
