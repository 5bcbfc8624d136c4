"""Linear systems with quadratic costs: small ones for tests, three textbook systems, and random ones."""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, real, sizes, whole
from confide.problems.lq import LQSystem
from confide.problems.zoo import describe

Array = npt.NDArray[np.float64]

GRAVITY = 9.81
_LONGEST = 100.0  # step, or pendulum: what is unstable grows exponentially with it
_FASTEST = 1e3  # spectral radius: costs grow with its square at every step


@describe("a damped oscillator with one input", family="linear control")
def oscillator(*, horizon: int = 5) -> LQSystem:
    """A damped oscillator with one input: A = 0.6 times the rotation by 0.9."""
    c, s = 0.6 * np.cos(0.9), 0.6 * np.sin(0.9)
    A = np.array([[c, -s], [s, c]])
    return LQSystem(
        A, np.array([[0.0], [0.25]]), np.eye(2), np.array([[0.1]]), horizon, 0.1, name="oscillator"
    )


@describe("three rooms in a row, two heaters", family="linear control")
def thermal(*, horizon: int = 10) -> LQSystem:
    """Three rooms in a row that exchange heat; the outer two have a heater."""
    A = np.array([[0.42, 0.08, 0.0], [0.08, 0.40, 0.08], [0.0, 0.08, 0.42]])
    B = np.array([[0.25, 0.0], [0.0, 0.0], [0.0, 0.25]])
    return LQSystem(A, B, np.eye(3), 0.08 * np.eye(2), horizon, 0.1, name="thermal")


@describe("control of blood glucose by insulin", family="linear control")
def glucose(*, horizon: int = 8) -> LQSystem:
    """Blood glucose, the remote action of insulin, and insulin in the plasma, all as deviations; the input is the insulin given."""
    A = np.array([[0.62, -0.25, 0.0], [0.0, 0.45, 0.22], [0.0, 0.0, 0.30]])
    B = np.array([[0.0], [0.05], [0.28]])
    return LQSystem(
        A, B, np.diag([1.0, 0.05, 0.05]), np.array([[0.035]]), horizon, 0.05, name="glucose"
    )


@describe("a cart without friction, controlled by force", family="linear control")
def double_integrator(*, dt: float = 0.5, horizon: int = 10) -> LQSystem:
    """A cart on a track without friction, with position and speed, controlled by a force. Its eigenvalues are 1, 1."""
    F, G = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])
    return _sampled(
        F, G, np.diag([1.0, 0.1]), np.array([[0.3]]), dt, horizon, 0.05, "double-integrator"
    )


@describe("an inverted pendulum, unstable", family="linear control")
def pendulum(*, length: float = 1.0, dt: float = 0.05, horizon: int = 10) -> LQSystem:
    """An inverted pendulum, linearised at the upright position: angle and angular speed. Unstable; the input is a torque in units of m g l.

    angle'' = g/l (angle + u) - angle'/10, so u = -angle just holds it.
    """
    real("length", length, at_least=1 / _LONGEST, at_most=_LONGEST)
    pull = GRAVITY / length
    F, G = np.array([[0.0, 1.0], [pull, -0.1]]), np.array([[0.0], [pull]])
    return _sampled(F, G, np.diag([1.0, 0.1]), np.array([[0.1]]), dt, horizon, 0.02, "pendulum")


@describe("masses connected by springs, with a force on the last one", family="linear control")
def mass_chain(*, masses: int = 3, dt: float = 0.5, horizon: int = 10) -> LQSystem:
    """Equal masses in a row between two walls, connected by springs with small damping; the input is a force on the last one.

    The first half of the states are positions, the second half speeds. The input reaches the first mass through all the others.
    """
    whole("masses", masses, at_least=1)
    check_size(positions=2 * masses, speeds=2 * masses)
    springs = np.eye(masses, k=1) + np.eye(masses, k=-1) - 2 * np.eye(masses)
    F = np.block([[np.zeros((masses, masses)), np.eye(masses)], [springs, -0.2 * np.eye(masses)]])
    G = np.eye(2 * masses)[:, -1:]
    return _sampled(F, G, np.eye(2 * masses), np.array([[0.1]]), dt, horizon, 0.05, "mass-chain")


@describe("a random stable system", family="linear control")
def random_lq(
    seed: int = 0,
    *,
    states: int | None = None,
    inputs: int | None = None,
    spectral_radius: float | None = None,
    horizon: int | None = None,
) -> LQSystem:
    """A system of 2 to 4 states and 1 or 2 inputs over 5 to 10 steps, Q = I, R = I/10, C_w = 1/10, stable, ||(A, B)||_F <= 1.

    From default_rng(seed), in this order: n, d, H; A and B normal; the spectral radius of A, uniform in [.4, .9]; the norm of B, uniform in
    [.2, .6]; then both are scaled down if the norm of all is above 1. What is given takes the place of what is drawn. A given spectral
    radius (1 or more is unstable) is kept: nothing is scaled down then, and the bounds on ||(A, B)||_F and on gains are powers of two.
    """
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    drawn = int(rng.integers(2, 5)), int(rng.integers(1, 3)), int(rng.integers(5, 11))
    n, d, H = (
        own if given is None else given
        for given, own in zip((states, inputs, horizon), drawn, strict=True)
    )
    n, d, H = sizes(states=(n, 1), inputs=(d, 1), horizon=(H, 1))
    check_size(states=n, successors=n)
    check_size(states=n, inputs=d)
    if spectral_radius is not None:
        real("spectral_radius", spectral_radius, at_least=0, at_most=_FASTEST)
    A, B = rng.normal(size=(n, n)), rng.normal(size=(n, d))
    radius = rng.uniform(0.4, 0.9)
    A *= (radius if spectral_radius is None else spectral_radius) / np.abs(
        np.linalg.eigvals(A)
    ).max()
    B *= rng.uniform(0.2, 0.6) / np.linalg.norm(B)
    costs = np.eye(n), 0.1 * np.eye(d)
    if spectral_radius is not None:
        return _with_room(LQSystem(A, B, *costs, H, 0.1, name="random-lq"))
    size = max(1.0, float(np.hypot(np.linalg.norm(A), np.linalg.norm(B))))
    return LQSystem(A / size, B / size, *costs, H, 0.1, parameter_bound=1.0, name="random-lq")


def _sampled(
    F: Array, G: Array, Q: Array, R: Array, dt: float, horizon: int, noise_radius: float, name: str
) -> LQSystem:
    """x' = F x + G u in continuous time, with inputs that are held for steps of dt; Q and R are costs per step."""
    from scipy.signal import cont2discrete

    real("dt", dt, above=0, at_most=_LONGEST), whole("horizon", horizon, at_least=1)
    n, d = G.shape
    A, B, *_ = cont2discrete((F, G, np.eye(n), np.zeros((n, d))), dt, method="zoh")
    return _with_room(LQSystem(A, B, Q, R, horizon, noise_radius, name=name))


def _with_room(system: LQSystem) -> LQSystem:
    """The public bound on gains is the next power of two above the optimal ones, as the default of the bound on ||(A, B)||_F is."""
    longest = max(float(np.linalg.norm(K, 2)) for K in system.optimal_policy.gains)
    return replace(system, gain_bound=2.0 ** math.ceil(math.log2(max(longest, 1.0))))
