"""Linear systems with quadratic costs: oscillator, thermal, glucose, and random ones."""

import numpy as np

from confide.problems.lq import LQSystem


def oscillator(*, horizon: int = 5) -> LQSystem:
    """A damped oscillation, pushed along one axis: A = 0.6 times the rotation by 0.9."""
    c, s = 0.6 * np.cos(0.9), 0.6 * np.sin(0.9)
    A = np.array([[c, -s], [s, c]])
    return LQSystem(A, np.array([[0.0], [0.25]]), np.eye(2), np.array([[0.1]]), horizon, 0.1, name="oscillator")


def thermal(*, horizon: int = 10) -> LQSystem:
    """Three rooms in a row that exchange heat; the outer two have a heater."""
    A = np.array([[0.42, 0.08, 0.0], [0.08, 0.40, 0.08], [0.0, 0.08, 0.42]])
    B = np.array([[0.25, 0.0], [0.0, 0.0], [0.0, 0.25]])
    return LQSystem(A, B, np.eye(3), 0.08 * np.eye(2), horizon, 0.1, name="thermal")


def glucose(*, horizon: int = 8) -> LQSystem:
    """Blood glucose, the remote action of insulin, and insulin in the plasma, all as deviations; the input is the insulin given."""
    A = np.array([[0.62, -0.25, 0.0], [0.0, 0.45, 0.22], [0.0, 0.0, 0.30]])
    B = np.array([[0.0], [0.05], [0.28]])
    return LQSystem(A, B, np.diag([1.0, 0.05, 0.05]), np.array([[0.035]]), horizon, 0.05, name="glucose")


def random_lq(seed: int = 0) -> LQSystem:
    """A stable system of 2 to 4 states and 1 or 2 inputs over 5 to 10 steps, Q = I, R = I/10, C_w = 1/10, ||(A, B)||_F <= 1.

    From default_rng(seed), in this order: n, d, H; A and B normal; the spectral radius of A, uniform in [.4, .9]; the norm of B, uniform in
    [.2, .6]; then both are scaled down if the norm of all is above 1.
    """
    rng = np.random.default_rng(seed)
    n, d, H = int(rng.integers(2, 5)), int(rng.integers(1, 3)), int(rng.integers(5, 11))
    A, B = rng.normal(size=(n, n)), rng.normal(size=(n, d))
    A *= rng.uniform(0.4, 0.9) / np.abs(np.linalg.eigvals(A)).max()
    B *= rng.uniform(0.2, 0.6) / np.linalg.norm(B)
    size = max(1.0, float(np.hypot(np.linalg.norm(A), np.linalg.norm(B))))
    return LQSystem(A / size, B / size, np.eye(n), 0.1 * np.eye(d), H, 0.1, parameter_bound=1.0, name="random-lq")
