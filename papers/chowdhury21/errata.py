"""The errata of [Chowdhury21] in its algorithm, assumptions and privacy.

Each has the computation that shows it.
"""

import math
from pathlib import Path

import numpy as np

from confide.control.optimistic_planning import cost as expected_cost
from confide.planners.riccati import linear_costs, riccati
from confide.privacy.request import JointDP
from confide.problems.lq import LQSystem
from confide.problems.zoo.control import oscillator
from papers.chowdhury21.assumptions import check
from papers.chowdhury21.bounds import (
    Array,
    constants,
    first_failure,
    printed_norm_epsilon,
    true_epsilon,
    width,
    with_input_cost,
)
from papers.findings import Erratum
from papers.text import Texts

ERRATA = Texts(Path(__file__).with_name("errata.toml"))


def errata() -> tuple[Erratum, ...]:
    return (
        gains(),
        second_counter(),
        sensitivities(),
        overshoot(),
        leak(),
        levels(),
        long_gains(),
        constant_that_grows(),
        open_set(),
    )


def _printed_gains(system: LQSystem) -> Array:
    """(3) as it is printed: P_h in place of P_{h+1}."""
    A = system.A
    B = system.B
    R = system.R
    P = riccati(A, B, system.Q, R, system.horizon)[0]
    return np.stack([-np.linalg.solve(R + B.T @ Ph @ B, B.T @ Ph @ A) for Ph in P])


def gains() -> Erratum:
    system = oscillator()
    A = system.A
    B = system.B
    Q = system.Q
    R = system.R
    H = system.horizon
    P, best = riccati(A, B, Q, R, H)
    printed = _printed_gains(system)
    residuals = [
        float(np.abs(linear_costs(A, B, Q, R, each) - P).max()) for each in (best.gains, printed)
    ]
    n = len(A)
    costs = [
        float(
            np.trace(p[0]) / n
            + system.noise_radius**2 / (n + 2) * sum(np.trace(later) for later in p[1:])
        )
        for p in (linear_costs(A, B, Q, R, each) for each in (best.gains, printed))
    ]
    return ERRATA.erratum(
        "gains",
        residuals[0] < 1e-12 and residuals[1] > 1e-3 and costs[1] > costs[0],
        {
            "residual": residuals[0],
            "printed_residual": residuals[1],
            "cost": costs[0],
            "printed_cost": costs[1],
        },
        residual=residuals[0],
        printed_residual=residuals[1],
        cost=costs[0],
        printed_cost=costs[1],
    )


def second_counter() -> Erratum:
    return ERRATA.erratum("second-counter", None)


def sensitivities() -> Erratum:
    gamma = 1.2
    rng = np.random.default_rng(0)
    b = 1 + gamma**2
    matrix = vector = 0.0
    for _ in range(4000):
        z, y = rng.standard_normal((2, 3))
        z = math.sqrt(b) * z / np.linalg.norm(z)
        y = math.sqrt(b) * y / np.linalg.norm(y)
        if rng.random() < 0.5:
            y = y - (z @ y) / b * z
            y *= math.sqrt(b) / np.linalg.norm(y)
        x, other = rng.standard_normal((2, 2))
        x = x / np.linalg.norm(x)
        other = other / np.linalg.norm(other)
        if rng.random() < 0.5:
            y = z
            other = -x
        matrix = max(matrix, float(np.linalg.norm(np.outer(z, z) - np.outer(y, y))))
        vector = max(vector, float(np.linalg.norm(np.outer(z, x) - np.outer(y, other))))
    printed = (1 + gamma) ** 2, 1 + gamma
    return ERRATA.erratum(
        "sensitivities",
        abs(matrix - math.sqrt(2) * b) < 1e-6
        and abs(vector - 2 * math.sqrt(b)) < 1e-6
        and matrix < printed[0]
        and vector > printed[1],
        {"matrix": matrix, "vector": vector},
        matrix=matrix,
        printed_matrix=printed[0],
        vector=vector,
        printed_vector=printed[1],
    )


def overshoot() -> Erratum:
    delta = 1e-5

    def over(epsilon: float) -> float:
        rho = epsilon**2 / (16 * math.log(2 / delta))
        return (rho + 2 * math.sqrt(rho * math.log(2 / delta))) / (epsilon / 2) - 1

    shares = {epsilon: over(epsilon) for epsilon in (0.1, 1.0, 5.0)}
    loose = printed_norm_epsilon(JointDP(1.0, delta))
    tight = true_epsilon(JointDP(1.0, delta))
    fails = first_failure(printed_norm_epsilon, delta), first_failure(true_epsilon, delta)
    return ERRATA.erratum(
        "overshoot",
        0.009 < shares[1.0] < 0.011 and tight < loose < 1 and 6 < fails[0] < 8,
        {
            "true": tight,
            "by_printed_norm": loose,
            "fails": fails[1],
            "fails_by_printed_norm": fails[0],
        },
        shares=", ".join(
            (f"{100 * value:.1f} % (epsilon = {epsilon:g})" for epsilon, value in shares.items())
        ),
        tight=tight,
        fails=fails[1],
        loose=loose,
        fails_by_printed_norm=fails[0],
    )


def leak() -> Erratum:
    """Two data sets that differ in one user, noises that make their releases equal, and widths."""
    system = oscillator()
    rng = np.random.default_rng(1)
    public = system.public
    H = system.horizon
    numbers = constants(JointDP(1.0, 1e-5), public)
    Z = rng.uniform(-0.5, 0.5, size=(2000 * H, 3))
    one = Z.copy()
    other = Z.copy()
    other[:H] = np.array([0.6, 0.8, 1.2])  # the first user is somebody else
    exact = [each.T @ each for each in (one, other)]
    noise = numbers.sigma_1 * np.diag(rng.standard_normal(3))
    release = exact[0] + noise
    # the noise that gives the same release for the other data set: as possible as the first
    second = release - exact[1]
    same = float(np.abs(exact[1] + second - release).max())
    widths = [width(numbers, S, public.noise_radius, public.states) for S in exact]
    mended = 2 * numbers.lambda_min * np.eye(3) + release
    log_det = float(np.linalg.slogdet(mended / numbers.lambda_min)[1])
    return ERRATA.erratum(
        "leak",
        widths[0] != widths[1] and same < 1e-9,
        {"first": widths[0], "second": widths[1], "difference": widths[1] - widths[0]},
        same=same,
        first=widths[0],
        second=widths[1],
        log_det=log_det,
    )


def levels() -> Erratum:
    agree = all((k - 1).bit_length() == math.ceil(math.log2(k)) for k in range(2, 5000))
    powers = sum(k.bit_length() != math.ceil(math.log2(k)) for k in range(2, 5000))
    return ERRATA.erratum("levels", agree and powers == 12, {"more": float(powers)}, powers=powers)


def long_gains() -> Erratum:
    system = with_input_cost(oscillator(), 0.06)
    report = check(system)
    longest = max(report.gains)
    inputs = max(step.attained for step in report.inputs)
    A = np.array([[0.95, 0.0], [0.0, 0.1]])
    B = np.array([[0.1], [0.1]])
    size = float(np.hypot(np.linalg.norm(A), np.linalg.norm(B)))
    reached = int(np.linalg.matrix_rank(np.hstack([B, A @ B])))
    return ERRATA.erratum(
        "long-gains",
        report.holds
        and longest > system.gain_bound
        and inputs > system.gain_bound
        and size <= 1
        and reached == 2,
        {"gain": longest, "input": inputs, "gamma": system.gain_bound},
        satisfied="yes" if report.holds else "no",
        gain_bound=system.gain_bound,
        longest=longest,
        inputs=inputs,
        size=size,
    )


def constant_that_grows() -> Erratum:
    A, B, Q, R = (np.array([[value]]) for value in (0.9999, 0.01, 1.0, 1.0))
    sizes = {H: float(riccati(A, B, Q, R, H)[0][0, 0, 0]) for H in (5, 10, 20, 40)}
    return ERRATA.erratum(
        "constant-that-grows",
        sizes[40] > 7 * sizes[5],
        {f"H_{H}": value for H, value in sizes.items()},
        sizes=", ".join((f"{value:.1f} (H = {H})" for H, value in sizes.items())),
    )


def open_set() -> Erratum:
    """Two states, one input: the cheapest system of all has A = 0, and is not controllable."""
    Q = np.eye(2)
    R = np.array([[0.1]])
    H = 5
    B = np.array([[0.0], [0.25]])
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])

    def J(t: float) -> float:
        return expected_cost(np.concatenate([t * turn, B], axis=1).T, Q, R, H, 0.1)

    costs = {t: J(t) for t in (0.1, 0.01, 0.001, 0.0)}
    ranks = {t: int(np.linalg.matrix_rank(np.hstack([B, t * turn @ B]), tol=1e-12)) for t in costs}
    falling = costs[0.1] > costs[0.01] > costs[0.001] > costs[0.0]
    return ERRATA.erratum(
        "open-set",
        falling and ranks[0.001] == 2 and ranks[0.0] == 1,
        {f"t_{t:g}": value for t, value in costs.items()},
        costs=", ".join(
            (f"{value:.6f} (t = {t:g}, rank {ranks[t]})" for t, value in costs.items())
        ),
    )
