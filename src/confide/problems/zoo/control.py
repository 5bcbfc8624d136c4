"""Linear systems with quadratic costs: small ones for tests, textbook systems, and random ones.

x' = A x + B u per step. Systems in continuous time have the rates F and G, x' = F x + G u.
"""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, real, sizes, whole
from confide.problems.lq import LQSystem
from confide.problems.zoo import describe

Array = npt.NDArray[np.float64]

# In metres per second squared.
GRAVITY = 9.81
# The longest step, and the longest pendulum: unstable modes grow exponentially with the step.
_LONGEST = 100.0
# The largest spectral radius: costs grow with its square at every step.
_LARGEST_RADIUS = 1e3


@describe("a damped oscillator with one input", family="linear control")
def oscillator(*, horizon: int = 5) -> LQSystem:
    """A damped oscillator with one input: A = 0.6 times the rotation by 0.9."""
    cosine = 0.6 * np.cos(0.9)
    sine = 0.6 * np.sin(0.9)
    A = np.array([[cosine, -sine], [sine, cosine]])
    B = np.array([[0.0], [0.25]])
    return LQSystem(A, B, np.eye(2), np.array([[0.1]]), horizon, 0.1, name="oscillator")


@describe("three rooms in a row, two heaters", family="linear control")
def thermal(*, horizon: int = 10) -> LQSystem:
    """Three rooms in a row that exchange heat; the outer two have a heater."""
    A = np.array([[0.42, 0.08, 0.0], [0.08, 0.40, 0.08], [0.0, 0.08, 0.42]])
    B = np.array([[0.25, 0.0], [0.0, 0.0], [0.0, 0.25]])
    return LQSystem(A, B, np.eye(3), 0.08 * np.eye(2), horizon, 0.1, name="thermal")


@describe("control of blood glucose by insulin", family="linear control")
def glucose(*, horizon: int = 8) -> LQSystem:
    """Blood glucose, the remote action of insulin, and insulin in the plasma.

    All three are deviations. The input is the insulin given.
    """
    A = np.array([[0.62, -0.25, 0.0], [0.0, 0.45, 0.22], [0.0, 0.0, 0.30]])
    B = np.array([[0.0], [0.05], [0.28]])
    Q = np.diag([1.0, 0.05, 0.05])
    return LQSystem(A, B, Q, np.array([[0.035]]), horizon, 0.05, name="glucose")


@describe("a cart without friction, controlled by force", family="linear control")
def double_integrator(*, dt: float = 0.5, horizon: int = 10) -> LQSystem:
    """A cart on a track without friction, with position and speed, controlled by a force.

    Its eigenvalues are 1, 1.
    """
    F = np.array([[0.0, 1.0], [0.0, 0.0]])
    G = np.array([[0.0], [1.0]])
    Q = np.diag([1.0, 0.1])
    R = np.array([[0.3]])
    return _discretize(F, G, Q, R, dt, horizon, 0.05, "double-integrator")


@describe("an inverted pendulum, unstable", family="linear control")
def pendulum(*, length: float = 1.0, dt: float = 0.05, horizon: int = 10) -> LQSystem:
    """An inverted pendulum, linearised at the upright position: angle and angular speed.

    It is unstable. The input is a torque in units of m g l: angle'' = g/l (angle + u) - angle'/10,
    so u = -angle just holds it.
    """
    real("length", length, at_least=1 / _LONGEST, at_most=_LONGEST)
    pull = GRAVITY / length
    F = np.array([[0.0, 1.0], [pull, -0.1]])
    G = np.array([[0.0], [pull]])
    Q = np.diag([1.0, 0.1])
    return _discretize(F, G, Q, np.array([[0.1]]), dt, horizon, 0.02, "pendulum")


@describe("masses connected by springs, with a force on the last one", family="linear control")
def mass_chain(*, masses: int = 3, dt: float = 0.5, horizon: int = 10) -> LQSystem:
    """Equal masses in a row between two walls, connected by springs with small damping.

    The input is a force on the last mass, and reaches the first one through all the others. The
    first half of the states are positions, the second half speeds.
    """
    whole("masses", masses, at_least=1)
    check_size(positions=2 * masses, speeds=2 * masses)
    springs = np.eye(masses, k=1) + np.eye(masses, k=-1) - 2 * np.eye(masses)
    F = np.block([[np.zeros((masses, masses)), np.eye(masses)], [springs, -0.2 * np.eye(masses)]])
    G = np.eye(2 * masses)[:, -1:]
    Q = np.eye(2 * masses)
    return _discretize(F, G, Q, np.array([[0.1]]), dt, horizon, 0.05, "mass-chain")


@describe("a random stable system", family="linear control")
def random_lq(
    seed: int = 0,
    *,
    states: int | None = None,
    inputs: int | None = None,
    spectral_radius: float | None = None,
    horizon: int | None = None,
) -> LQSystem:
    """A system of 2 to 4 states and 1 or 2 inputs over 5 to 10 steps, stable, ||(A, B)||_F <= 1.

    Q = I, R = I/10 and C_w = 1/10. From default_rng(seed), in this order: n, d, H; A and B normal;
    the spectral radius of A, uniform in [0.4, 0.9]; the norm of B, uniform in [0.2, 0.6]; then both
    are scaled down if the norm of all is above 1. What is given takes the place of what is drawn.

    A given spectral radius (1 or more is unstable) is kept. Nothing is scaled down then, and the
    bounds on ||(A, B)||_F and on gains are powers of two.
    """
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    # All three are drawn, so that a given number does not change what is drawn after it.
    drawn_states = int(rng.integers(2, 5))
    drawn_inputs = int(rng.integers(1, 3))
    drawn_horizon = int(rng.integers(5, 11))
    n, d, H = sizes(
        states=(drawn_states if states is None else states, 1),
        inputs=(drawn_inputs if inputs is None else inputs, 1),
        horizon=(drawn_horizon if horizon is None else horizon, 1),
    )
    check_size(states=n, successors=n)
    check_size(states=n, inputs=d)
    if spectral_radius is not None:
        real("spectral_radius", spectral_radius, at_least=0, at_most=_LARGEST_RADIUS)
    A = rng.normal(size=(n, n))
    B = rng.normal(size=(n, d))
    drawn_radius = rng.uniform(0.4, 0.9)
    radius = drawn_radius if spectral_radius is None else spectral_radius
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    B *= rng.uniform(0.2, 0.6) / np.linalg.norm(B)
    Q = np.eye(n)
    R = 0.1 * np.eye(d)
    if spectral_radius is not None:
        return _widen_gain_bound(LQSystem(A, B, Q, R, H, 0.1, name="random-lq"))
    norm = max(1.0, float(np.hypot(np.linalg.norm(A), np.linalg.norm(B))))
    return LQSystem(A / norm, B / norm, Q, R, H, 0.1, parameter_bound=1.0, name="random-lq")


def _discretize(
    F: Array, G: Array, Q: Array, R: Array, dt: float, horizon: int, noise_radius: float, name: str
) -> LQSystem:
    """A system in continuous time, with inputs that are held for steps of dt.

    Q and R are costs per step.
    """
    from scipy.signal import cont2discrete

    real("dt", dt, above=0, at_most=_LONGEST)
    whole("horizon", horizon, at_least=1)
    n, d = G.shape
    A, B, *_ = cont2discrete((F, G, np.eye(n), np.zeros((n, d))), dt, method="zoh")
    return _widen_gain_bound(LQSystem(A, B, Q, R, horizon, noise_radius, name=name))


def _widen_gain_bound(system: LQSystem) -> LQSystem:
    """Make the public bound on gains the next power of two above the optimal ones.

    The default of the bound on ||(A, B)||_F is chosen in the same way.
    """
    largest = max(float(np.linalg.norm(K, 2)) for K in system.optimal_policy.gains)
    return replace(system, gain_bound=2.0 ** math.ceil(math.log2(max(largest, 1.0))))
