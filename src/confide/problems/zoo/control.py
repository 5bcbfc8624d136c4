"""Linear systems with quadratic costs: oscillator, thermal, glucose."""

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
