"""The errata of [Chowdhury21] in its algorithm, assumptions and privacy, each with the computation that shows it."""

import math

import numpy as np

from confide.control.optimistic_planning import cost as expected_cost
from confide.planners.riccati import linear_costs, riccati
from confide.privacy.request import JointDP
from confide.problems.lq import LQSystem
from confide.problems.zoo.control import oscillator
from papers.chowdhury21.bounds import (
    Array,
    constants,
    enlarged,
    first_failure,
    printed_norm_epsilon,
    true_epsilon,
    width,
)
from papers.findings import Erratum

_AT = "oscillator, gamma = 1.2, delta = 1e-5"


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
    A, B, R = system.A, system.B, system.R
    P = riccati(A, B, system.Q, R, system.horizon)[0]
    return np.stack([-np.linalg.solve(R + B.T @ Ph @ B, B.T @ Ph @ A) for Ph in P])


def gains() -> Erratum:
    system = oscillator()
    A, B, Q, R, H = system.A, system.B, system.Q, system.R, system.horizon
    P, best = riccati(A, B, Q, R, H)
    printed = _printed_gains(system)
    residuals = [float(np.abs(linear_costs(A, B, Q, R, each) - P).max()) for each in (best.gains, printed)]
    n = len(A)
    costs = [
        float(np.trace(p[0]) / n + system.noise_radius**2 / (n + 2) * sum(np.trace(later) for later in p[1:]))
        for p in (linear_costs(A, B, Q, R, each) for each in (best.gains, printed))
    ]
    return Erratum(
        1,
        "(3)",
        "K_h = -(R + B^T P_h B)^-1 B^T P_h A.",
        "P_{h+1} in both places: only those gains attain the cost to go of (4). The last gain is 0, since P_{H+1} = 0; as printed it is "
        "not.",
        f"Oscillator: the cost to go of the gains differs from (4) by {residuals[0]:.1e} with P_(h+1) and by {residuals[1]:.3f} with P_h; "
        f"the expected cost of an episode is {costs[0]:.4f} and {costs[1]:.4f}.",
        residuals[0] < 1e-12 and residuals[1] > 1e-3 and costs[1] > costs[0],
        "`planners/riccati.py`",
        {"residual": residuals[0], "printed_residual": residuals[1], "cost": costs[0], "printed_cost": costs[1]},
    )


def second_counter() -> Erratum:
    return Erratum(
        2,
        "Sec. III-B",
        "The counter B_2 keeps Sigma_2[i, j] = sum z z^T.",
        "sum z x'^T, as line 9 of Alg. 1 feeds it.",
        "",
        None,
    )


def sensitivities() -> Erratum:
    gamma, rng = 1.2, np.random.default_rng(0)
    b = 1 + gamma**2
    matrix = vector = 0.0
    for _ in range(4000):
        z, y = rng.standard_normal((2, 3))
        z, y = math.sqrt(b) * z / np.linalg.norm(z), math.sqrt(b) * y / np.linalg.norm(y)
        if rng.random() < 0.5:
            y = y - (z @ y) / b * z
            y *= math.sqrt(b) / np.linalg.norm(y)
        x, other = rng.standard_normal((2, 2))
        x, other = x / np.linalg.norm(x), other / np.linalg.norm(other)
        if rng.random() < 0.5:
            y, other = z, -x
        matrix = max(matrix, float(np.linalg.norm(np.outer(z, z) - np.outer(y, y))))
        vector = max(vector, float(np.linalg.norm(np.outer(z, x) - np.outer(y, other))))
    printed = (1 + gamma) ** 2, 1 + gamma
    return Erratum(
        3,
        "Thm. 2",
        "Delta_1 = H (1 + gamma)^2 and Delta_2 = H (1 + gamma), if the trajectory of a single episode is changed.",
        "Those are norms of one contribution, as for a user who is left out; replacing one moves matrices by up to sqrt(2) times and "
        "z x'^T by up to 2 times the norm. Since ||z||^2 <= 1 + gamma^2, the printed Delta_1 is large enough all the same (for gamma from "
        ".22 to 4.6); Delta_2 is not.",
        f"gamma = 1.2, per step: {matrix:.3f} for z z^T (printed {printed[0]:.2f}), {vector:.3f} for z x'^T (printed {printed[1]:.2f}).",
        abs(matrix - math.sqrt(2) * b) < 1e-6
        and abs(vector - 2 * math.sqrt(b)) < 1e-6
        and matrix < printed[0]
        and vector > printed[1],
        "search over ||x|| <= 1, ||u|| <= gamma",
        {"matrix": matrix, "vector": vector},
    )


def overshoot() -> Erratum:
    delta = 1e-5

    def over(epsilon: float) -> float:
        rho = epsilon**2 / (16 * math.log(2 / delta))
        return (rho + 2 * math.sqrt(rho * math.log(2 / delta))) / (epsilon / 2) - 1

    shares = {epsilon: over(epsilon) for epsilon in (0.1, 1.0, 5.0)}
    loose, tight = printed_norm_epsilon(JointDP(1.0, delta)), true_epsilon(JointDP(1.0, delta))
    fails = first_failure(printed_norm_epsilon, delta), first_failure(true_epsilon, delta)
    return Erratum(
        4,
        "Thm. 2",
        'sigma_i^2 "~" 8 m Delta_i^2 ln(2/delta)/epsilon^2 makes each counter (epsilon/2, delta/2)-DP, for any epsilon > 0.',
        "It overshoots epsilon/2 a little, and with the sensitivities of erratum 3 the guarantee fails for a large epsilon; for a "
        "small one it holds, since composition counts the worst case of both counters.",
        f"Overshoot {', '.join(f'{100 * value:.1f} % (epsilon = {epsilon:g})' for epsilon, value in shares.items())}. Both counters and "
        f"all releases together, a user replaced: true epsilon {tight:.3f} at nominal 1, more than nominal from {fails[1]:.1f} on; by the "
        f"printed ||z|| <= 1 + gamma {loose:.3f}, and from {fails[0]:.1f} on.",
        0.009 < shares[1.0] < 0.011 and tight < loose < 1 and 6 < fails[0] < 8,
        f"exact Gaussian accounting, `control/printed.py`; {_AT}",
        {"true": tight, "by_printed_norm": loose, "fails": fails[1], "fails_by_printed_norm": fails[0]},
    )


def leak() -> Erratum:
    """Two data sets that differ in one user, noises that make their releases equal, and the widths."""
    system, rng = oscillator(), np.random.default_rng(1)
    public, H = system.public, system.horizon
    made = constants(JointDP(1.0, 1e-5), public)
    Z = rng.uniform(-0.5, 0.5, size=(2000 * H, 3))
    one, other = Z.copy(), Z.copy()
    other[:H] = np.array([0.6, 0.8, 1.2])  # the first user is somebody else
    exact = [each.T @ each for each in (one, other)]
    noise = made.sigma_1 * np.diag(rng.standard_normal(3))
    release = exact[0] + noise
    second = release - exact[1]  # the noise that gives the same release for the other data set: as possible as the first
    same = float(np.abs(exact[1] + second - release).max())
    widths = [width(made, S, public.noise_radius, public.states) for S in exact]
    mended = 2 * made.lambda_min * np.eye(3) + release
    log_det = float(np.linalg.slogdet(mended / made.lambda_min)[1])
    return Erratum(
        5,
        "Lemma 1, (8), Alg. 1, line 4",
        "beta_k(alpha) has ln det(I + Z_k^T Z_k / lambda_min), and the confidence set that users' policies follow from is made with it.",
        "This leaks: Z_k^T Z_k is exact and was never released. Two neighbouring data sets with the same releases have different "
        "widths, so that an observer of the width can distinguish them, for any epsilon. With ln det of the released matrix it is "
        "valid and public.",
        f"Two data sets of 2000 users that differ in one, with equal releases (to {same:.0e}): beta = {widths[0]:.9f} and {widths[1]:.9f}. "
        f"ln det of the release is the same for both, {log_det:.3f}.",
        widths[0] != widths[1] and same < 1e-9,
        f"`papers/chowdhury21/bounds.py: width`; {_AT}, epsilon = 1",
        {"first": widths[0], "second": widths[1], "difference": widths[1] - widths[0]},
    )


def levels() -> Erratum:
    agree = all((k - 1).bit_length() == math.ceil(math.log2(k)) for k in range(2, 5000))
    powers = sum(k.bit_length() != math.ceil(math.log2(k)) for k in range(2, 5000))
    return Erratum(
        6,
        "Thm. 2, Alg. 1, line 9",
        "Every episode is in at most m = ceil(log2 K) partial sums; line 9 feeds all K episodes to the counters.",
        "It holds for K - 1 leaves: the last episode is not read by anybody. At K = 1 it is 0, and so is the noise.",
        f"K = 2 to 4999: levels over K - 1 leaves equal ceil(log2 K) always; over K leaves they are more for {powers} of them.",
        agree and powers == 12,
        "counting: powers of two",
        {"more": float(powers)},
    )


def long_gains() -> Erratum:
    system = enlarged(oscillator(), 0.06)
    found = system.check()
    longest, inputs = max(found.gains), max(step.attained for step in found.inputs)
    A, B = np.array([[0.95, 0.0], [0.0, 0.1]]), np.array([[0.1], [0.1]])
    size, reached = float(np.hypot(np.linalg.norm(A), np.linalg.norm(B))), int(np.linalg.matrix_rank(np.hstack([B, A @ B])))
    return Erratum(
        7,
        "Lemma 2, Assumption 1",
        "Under Assumption 1 the algorithm has ||u|| <= gamma. S asks for ||Theta||_F <= 1 and controllability.",
        "The optimal gains grow as R falls, and Assumption 1 bounds R from above only. S does not impose C_A and C_B either, so "
        "that the optimistic system need not satisfy (e). Gains must be projected.",
        f"The oscillator with R = .06 satisfies Assumption 1 ({'yes' if found.holds else 'no'}) with gamma = "
        f"{system.gain_bound:g}: ||K_h|| up to {longest:.2f}, and ||u|| up to {inputs:.2f} for some user. A controllable system "
        f"with ||A|| = .95 > C_A = .6 and ||Theta||_F = {size:.2f} is in S.",
        found.holds and longest > system.gain_bound and inputs > system.gain_bound and size <= 1 and reached == 2,
        "`problems/lq_checks.py: check`",
        {"gain": longest, "input": inputs, "gamma": system.gain_bound},
    )


def constant_that_grows() -> Erratum:
    A, B, Q, R = (np.array([[value]]) for value in (0.9999, 0.01, 1.0, 1.0))
    sizes = {H: float(riccati(A, B, Q, R, H)[0][0, 0, 0]) for H in (5, 10, 20, 40)}
    return Erratum(
        8,
        "Lemma 3, Thm. 1, Thm. 3",
        "||P_h(Theta)|| <= D for a constant D, over all of C_k and S.",
        "S contains systems with ||A|| near 1, for which P_1 grows in proportion to H: D is of the order of H, and the regret "
        "bounds, which hide D, have a power of H more.",
        "A = .9999, B = .01, Q = R = 1: ||P_1|| = " + ", ".join(f"{value:.1f} (H = {H})" for H, value in sizes.items()) + ".",
        sizes[40] > 7 * sizes[5],
        "`planners/riccati.py`",
        {f"H_{H}": value for H, value in sizes.items()},
    )


def open_set() -> Erratum:
    """Two states, one input: the cheapest system of all has A = 0, and is not controllable."""
    Q, R, H = np.eye(2), np.array([[0.1]]), 5
    B, turn = np.array([[0.0], [0.25]]), np.array([[0.0, -1.0], [1.0, 0.0]])

    def J(t: float) -> float:
        return expected_cost(np.concatenate([t * turn, B], axis=1).T, Q, R, H, 0.1)

    costs = {t: J(t) for t in (0.1, 0.01, 0.001, 0.0)}
    ranks = {t: int(np.linalg.matrix_rank(np.hstack([B, t * turn @ B]), tol=1e-12)) for t in costs}
    falling = costs[0.1] > costs[0.01] > costs[0.001] > costs[0.0]
    return Erratum(
        9,
        "Assumption 1 (a), (9)",
        "The search is over C_k and S, S the controllable systems with ||Theta||_F <= 1; the minimum is taken.",
        "S is not closed, and the argmin need not exist: with fewer inputs than states A = 0 is the cheapest system, and not controllable. "
        "Without controllability in S the minimum exists, and a finite horizon does not need controllability.",
        "n = 2, d = 1, A = t x rotation: J = "
        + ", ".join(f"{value:.6f} (t = {t:g}, rank {ranks[t]})" for t, value in costs.items())
        + ".",
        falling and ranks[0.001] == 2 and ranks[0.0] == 1,
        "`control/optimistic_planning.py: cost`",
        {f"t_{t:g}": value for t, value in costs.items()},
    )
