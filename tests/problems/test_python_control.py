"""Systems from python-control and back, with the library itself."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.linalg import expm

import confide
import control
from confide.errors import InvalidParameter, MissingExtra
from confide.problems import (
    LQSystem,
    double_integrator,
    from_control,
    load_problem,
    thermal,
    to_control,
)

SPRING = np.array([[0.0, 1.0], [-2.0, -0.3]]), np.array([[0.0], [1.0]])
COSTS = {"Q": np.eye(2), "R": [[0.1]], "horizon": 6, "noise_radius": 0.05}


def spring(C=None, D=None, **options):
    A, B = SPRING
    return control.ss(
        A, B, np.eye(2) if C is None else C, np.zeros((2, 1)) if D is None else D, **options
    )


def test_continuous_time_is_sampled_with_inputs_held():
    system = from_control(spring(), dt=0.2, **COSTS)
    # Of (x, u) with u' = 0.
    whole = expm(0.2 * np.block([[*SPRING], [np.zeros((1, 3))]]))
    assert (
        np.abs(system.A - whole[:2, :2]).max() < 1e-12
        and np.abs(system.B - whole[:2, 2:]).max() < 1e-12
    )
    assert (system.horizon, system.noise_radius, system.name, system.gain_bound) == (
        6,
        0.05,
        "control",
        1.2,
    )
    euler = from_control(spring(), dt=0.2, method="euler", **COSTS)
    assert np.allclose(euler.A, np.eye(2) + 0.2 * SPRING[0]) and np.allclose(
        euler.B, 0.2 * SPRING[1]
    )


def test_it_is_the_zoo_s_double_integrator():
    cart = control.ss([[0, 1], [0, 0]], [[0], [1]], np.eye(2), np.zeros((2, 1)))
    ours = double_integrator(dt=0.25)
    system = from_control(
        cart, Q=ours.Q, R=ours.R, horizon=ours.horizon, noise_radius=ours.noise_radius, dt=0.25
    )
    assert np.allclose(system.A, ours.A) and np.allclose(system.B, ours.B)
    assert system.optimal_value == pytest.approx(ours.optimal_value)


@pytest.mark.parametrize(("own", "dt"), [(0.5, None), (0.5, 0.5), (True, None), (True, 0.5)])
def test_discrete_time_is_taken_as_it_is(own, dt):
    given = control.ss(0.5 * np.eye(2), [[0.0], [1.0]], np.eye(2), np.zeros((2, 1)), own)
    system = from_control(given, dt=dt, parameter_bound=2.0, gain_bound=0.7, name="mine", **COSTS)
    assert np.array_equal(system.A, given.A) and np.array_equal(system.B, given.B)
    assert (system.parameter_bound, system.gain_bound, system.name) == (2.0, 0.7, "mine")


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (spring(), {}, "in continuous time needs dt, the length of a step, got dt=None"),
        (spring(), {"dt": -1.0}, "dt must be positive and finite, got dt=-1.0"),
        (spring(), {"dt": np.nan}, "dt must be positive and finite, got dt=nan"),
        (
            spring(),
            {"dt": 0.1, "method": "bilinear"},
            "method must be one of zoh, euler, got method='bilinear'",
        ),
        (
            spring(dt=0.5),
            {"dt": 0.1},
            "already in discrete time, with steps of 0.5, got dt=0.1: omit dt",
        ),
        (spring(dt=None), {"dt": 0.1}, "does not say whether its time is continuous"),
        (
            spring(C=[[1.0, 0.0]], D=[[0.0]]),
            {"dt": 0.1},
            r"C must be the identity and D zero, got C of shape \(1, 2\)",
        ),
        (spring(C=2 * np.eye(2)), {"dt": 0.1}, "pass state_observed=True"),
        (spring(D=[[0.0], [1.0]]), {"dt": 0.1}, "D zero"),
        (
            control.tf([1], [1, 1]),
            {"dt": 0.1},
            r"a control.StateSpace was expected, got TransferFunction: control.ss\(...\) makes one",
        ),
        (SPRING, {"dt": 0.1}, "a control.StateSpace was expected, got tuple"),
        (control.ss([], [], [], [[1.0]]), {"dt": 0.1}, "the StateSpace must have states, got none"),
        (
            spring(),
            {"dt": 0.1, "R": np.eye(2)},
            r"R must have shape \(1, 1\) to fit A, got \(2, 2\)",
        ),
    ],
)
def test_what_cannot_be_taken_is_said(given, options, message):
    with pytest.raises(InvalidParameter, match=message):
        from_control(given, **COSTS | options)


def test_outputs_are_left_out_if_the_state_is_observed():
    whole = from_control(spring(), dt=0.2, **COSTS)
    seen = from_control(spring(C=[[1.0, 0.0]], D=[[0.5]]), dt=0.2, state_observed=True, **COSTS)
    assert np.array_equal(seen.A, whole.A) and np.array_equal(seen.B, whole.B)
    one_output = control.ss(control.tf([1], [1, 0.3, 2]))
    assert from_control(one_output, dt=0.2, state_observed=True, **COSTS).controllable


def test_there_and_back():
    system = thermal()
    given = to_control(system)
    assert (
        given.dt is True
        and given.name == "thermal"
        and np.array_equal(given.C, np.eye(3))
        and not given.D.any()
    )
    back = from_control(
        given, Q=system.Q, R=system.R, horizon=10, noise_radius=0.1, parameter_bound=1.0
    )
    assert back.optimal_value == system.optimal_value
    assert to_control(system, dt=0.25).dt == 0.25
    with pytest.raises(InvalidParameter, match="dt must be positive and finite, got dt=0"):
        to_control(system, dt=0)


def test_the_infinite_horizon_is_the_one_of_python_control():
    system = thermal()
    gain, P, poles = control.dlqr(to_control(system), system.Q, system.R)
    limit = system.stationary()
    # theirs is u = -K x
    assert np.abs(limit.gain + gain).max() < 1e-10 and np.abs(limit.P - P).max() < 1e-10
    assert limit.spectral_radius == pytest.approx(np.abs(poles).max())


def test_a_noiseless_episode_is_the_response_of_python_control():
    system = LQSystem(thermal().A, thermal().B, np.eye(3), np.eye(2), 8, 0.0)
    users = system.sample(system.optimal_policy, 3, np.random.default_rng(0))
    for states, inputs in zip(users.states, users.actions, strict=True):
        response = control.forced_response(
            to_control(system, dt=1.0), inputs=inputs.T, initial_state=states[0]
        )
        assert np.abs(response.outputs.T - states[:-1]).max() < 1e-12


def test_agents_learn_it_and_files_keep_it(tmp_path):
    system = from_control(spring(), dt=0.5, gain_bound=4.0, **COSTS)
    agent = confide.agents.CertaintyEquivalentLQ(
        system.public, episodes=2_000, privacy=confide.NoPrivacy()
    )
    run = confide.run(agent, system, seed=0)
    assert run.regret[-1] < 0.2 * 2_000 * (run.optimal_value - run.uniform_value)
    system.save(tmp_path / "spring.npz")
    assert load_problem(tmp_path / "spring.npz").optimal_value == system.optimal_value


@pytest.mark.process
def test_the_library_is_imported_by_nobody_but_who_exports():
    code = (
        "import sys\n"
        "from confide.errors import InvalidParameter\n"
        "from confide.problems import from_control\n"
        "try:\n    from_control(1, Q=[[1]], R=[[1]], horizon=2, noise_radius=0)\n"
        "except InvalidParameter as error:\n    print(error)\nprint('control' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert done == [
        "a control.StateSpace was expected, got int: control.ss(...) makes one",
        "False",
    ]


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "control", None)
    with pytest.raises(MissingExtra, match=r"pip install 'confide\[control\]'"):
        to_control(thermal())
    with pytest.raises(InvalidParameter, match=r"a control\.StateSpace was expected"):
        from_control(spring(), dt=0.1, **COSTS)
