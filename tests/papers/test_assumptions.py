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


# --- Assumption 1 ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", [oscillator(), thermal()], ids=lambda system: system.name)
def test_assumption_1_holds(system):
    found = check(system)
    assert found.holds and found.gains_within and all(part.holds for part in found.lemma)
    assert str(found).startswith(f"{system.name}: Assumption 1 of [Chowdhury21] holds\n(a) ")


def test_small_input_costs_break_lemma_2_and_not_assumption_1():
    """R = .06: Assumption 1 holds with gamma = 1.2, and the optimal input is 1.42 at the first step."""
    found = check(replace(oscillator(), R=np.array([[0.06]])))
    assert found.holds and found.largest_gamma == pytest.approx(1.2) and found.gain_bound == 1.2
    assert not found.gains_within and round(max(found.gains), 2) == 1.42
    assert [part.holds for part in found.lemma] == [True, False, False]
    assert found.inputs[0].attained == pytest.approx(found.gains[0])  # x_1 may be any unit vector
    assert (
        "Lemma 2  no           ||u_h|| = 1.42 at worst, at most gamma = 1.2"
        in str(found).splitlines()
    )


def test_projected_gains_keep_lemma_2():
    """What agents do: no gain above gamma, and with (e) states and inputs are within the bounds whatever the noise."""
    system = replace(oscillator(), R=np.array([[0.01]]))
    gains = system.optimal_policy.gains
    sizes = np.linalg.norm(gains, 2, axis=(1, 2))
    assert sizes.max() > 2
    shortened = LinearPolicy(gains * np.minimum(1, 1.2 / np.maximum(sizes, 1e-300))[:, None, None])
    found = check(system, shortened)
    assert all(part.holds for part in found.lemma) and "under the given gains" in str(found)
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
    found = check(replace(oscillator(), **changed))
    assert not found.holds and "does not hold" in str(found)
    failed = [(part.where, part.text) for part in found.assumption if not part.holds]
    assert (where, text) in failed


def test_gamma_is_free_where_inputs_do_nothing():
    assert check(system_of(0.5 * np.eye(2), np.zeros((2, 1)))).largest_gamma == np.inf
    assert check(system_of(1.5 * np.eye(2), np.zeros((2, 1)))).largest_gamma == -np.inf


# --- how far states get ----------------------------------------------------------------------------------------------------------------


def test_reach_of_one_state_is_a_sum():
    system = LQSystem([[0.8]], [[0.5]], [[1.0]], [[1.0]], 4, 0.3)
    found = check(system, LinearPolicy(np.full((4, 1, 1), -0.2)))
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
    found, rng, n = check(system), np.random.default_rng(0), len(system.A)
    x = rng.normal(size=(20_000, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for h, K in enumerate(system.optimal_policy.gains):
        assert np.linalg.norm(x @ K.T, axis=1).max() <= found.inputs[h].bound * (1 + 1e-9)
        x = x @ (system.A + system.B @ K).T
        # away from the origin
        x += system.noise_radius * x / np.linalg.norm(x, axis=1, keepdims=True)
        assert np.linalg.norm(x, axis=1).max() <= found.states[h + 1].bound * (1 + 1e-9)
    assert all(step.bound <= step.attained * (1 + 1e-9) for step in found.states)
    assert np.linalg.norm(x, axis=1).max() > 0.5 * found.states[-1].attained


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
    found = check(explodes, LinearPolicy(np.zeros((40, 1, 1))))
    assert found.states[-1].bound == np.inf and found.states[10].bound == pytest.approx(
        1e90, rel=1e-6
    )
    assert found.lemma[0].holds is False


# --- how far a system is from one that inputs do not reach -----------------------------------------------------------------------------


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
