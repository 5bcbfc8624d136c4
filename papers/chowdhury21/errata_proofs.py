"""The errata of [Chowdhury21] in its proofs, each with the computation that shows it. "Appendix" is that of the long version."""

import math

import numpy as np

from confide.planners.riccati import riccati
from confide.privacy.request import JointDP
from confide.problems.zoo.control import oscillator
from papers.chowdhury21.bounds import FAILURE, K, constants
from papers.findings import Erratum, short


def errata() -> tuple[Erratum, ...]:
    return (
        confidence_levels(),
        two_bounds(),
        both_sides(),
        martingales(),
        notation(),
        missing_proofs(),
        loose(),
    )


def confidence_levels() -> Erratum:
    spent = FAILURE + FAILURE / 2
    return Erratum(
        10,
        "Lemma 1 and Thm. 3",
        "Lemma 1 holds with probability 1 - alpha under Assumption 2, and so does Thm. 3.",
        "Lemma 1 gives alpha/2 to each of its parts, so it needs Assumption 2 at alpha/2. Thm. 3 makes it hold at alpha (alpha/2 for N_k, "
        "alpha/2 for L_k).",
        f"At alpha = {FAILURE:g} the two together may fail with {spent:g}.",
        spent > FAILURE,
        "arithmetic",
        {"spent": spent},
    )


def two_bounds() -> Erratum:
    n, d = 3, 2
    return Erratum(
        11,
        "Thm. 1 against Appendix C",
        "sqrt(n (n + d) psi) in the theorem, sqrt((n + d) psi) in its proof, beside sqrt(lambda_max) + nu.",
        "The proof is right: ln det <= (n + d) psi stands under that root. The theorem is true, but sqrt(n) larger.",
        f"n = 3, d = 2: {math.sqrt(n * (n + d)):.2f} and {math.sqrt(n + d):.2f} times sqrt(psi).",
        math.sqrt(n * (n + d)) > math.sqrt(n + d),
        "arithmetic",
        {"theorem": math.sqrt(n * (n + d)), "proof": math.sqrt(n + d)},
    )


def both_sides() -> Erratum:
    """Theta~ and Theta* on opposite sides of the confidence ball, along z."""
    rng, beta, D = np.random.default_rng(2), 1.0, 4.0
    V = np.diag([2.0, 5.0, 9.0])
    z = rng.standard_normal(3)
    length = math.sqrt(float(z @ np.linalg.solve(V, z)))
    direction = np.linalg.solve(V, z) / length  # of norm 1 in the norm of V
    gap = 2 * beta * np.outer(direction, [1.0, 0.0])
    distance = math.sqrt(float(np.trace(gap.T @ V @ gap)))
    moved = D * float(np.square(gap.T @ z).sum())
    printed, corrected = 2 * D**2 * beta**2 * length**2, 4 * D * beta**2 * length**2
    small = 2 * 0.25**2 * beta**2 * length**2
    return Erratum(
        12,
        "Claims 1, 2",
        "||P^(1/2)(Theta~ - Theta*)^T z||^2 <= 2 D^2 beta^2 ||V^(-1/2) z||^2; the sum has 8 and then 4.",
        "Both are in the set, so they are up to 2 beta apart: 4 beta^2. And ||P^(1/2)||^2 <= D, not D^2 (Claim 1 has D for sqrt(D)). The "
        "factor 8 of the second-last line is lost in the last.",
        f"Opposite sides, beta = 1: {distance:.2f} apart. With P = 4 I the left side is {moved:.4f} = {moved / corrected:.3f} x 4 D beta^2 "
        f"||.||^2 (printed: {printed:.4f}); with P = I/4 it is {moved / 16:.4f}, above the printed {small:.4f}.",
        math.isclose(distance, 2 * beta) and math.isclose(moved, corrected) and moved / 16 > small,
        "construction",
        {"distance": distance, "moved": moved, "corrected": corrected, "printed": printed},
    )


def martingales() -> Erratum:
    system = oscillator()
    P = riccati(system.A, system.B, system.Q, system.R, system.horizon)[0]
    D, C = float(np.linalg.norm(P, 2, axis=(1, 2)).max()), float(max(np.linalg.norm(system.Q, 2), np.linalg.norm(system.R, 2)))
    return Erratum(
        13,
        "Appendix D: Lemmas 6, 7",
        "|Delta'| <= 2C; psi~_{h+1} = J*_h(M~, x) - ...; sums over h to H in the lemma and to H - 1 in its proof.",
        "2D, D the bound on ||P_h||; J*_{h+1}(Theta~, x); both sums are the same, since the terms at H are 0.",
        f"Oscillator: C = {C:.2f}, but ||P_h|| is up to {D:.3f}.",
        D > C,
        "`planners/riccati.py`",
        {"C": C, "D": D},
    )


def notation() -> Erratum:
    return Erratum(
        14,
        "Sec. III-A, Appendix",
        "||x||_P for x^T P x, beside ||A||_B^2 = tr(A^T B A); delta for the confidence level as well as for privacy; Theorem ??, Lemma ??.",
        "||x||_P^2; alpha; Lemma 1 and the lemma of erratum 15.",
        "",
        None,
    )


def missing_proofs() -> Erratum:
    """The self-normalised bound for matrices, by simulation."""
    rng, runs, steps, outside, largest = np.random.default_rng(3), 400, 300, 0, 0.0
    n, p, C_w, ridge = 2, 3, 0.1, 1.0
    limit = 2 * math.log(1 / FAILURE)
    for _ in range(runs):
        Z = rng.uniform(-1, 1, size=(steps, p))
        W = rng.standard_normal((steps, n))
        W *= (C_w / np.linalg.norm(W, axis=1))[:, None]  # on the sphere: as large as noise may be
        V = Z.T @ Z + ridge * np.eye(p)
        sums = Z.T @ W
        found = math.sqrt(float(np.trace(sums.T @ np.linalg.solve(V, sums))))
        bound = C_w * math.sqrt(limit + n * float(np.linalg.slogdet(V / ridge)[1]))
        outside, largest = outside + (found > bound), max(largest, found / bound)
    return Erratum(
        15,
        "Lemma 1, Claim 1",
        "The self-normalised inequality for matrix-valued martingales is announced; neither it nor the proof of Claim 1 is in the paper.",
        "It holds: mixing over matrices with independent normal columns gives the power n of the determinant.",
        f"{runs} runs of {steps} steps: the bound was exceeded in {outside} (allowed: {FAILURE:g}), at most {largest:.2f} of it.",
        outside <= FAILURE * runs,
        "simulation, n = 2, p = 3, noise on the sphere",
        {"outside": float(outside), "largest": largest},
    )


def loose() -> Erratum:
    gamma, rng, p = 1.2, np.random.default_rng(4), 3
    drawn = rng.standard_normal((4000, p, p))
    mirrored = np.triu(drawn) + np.triu(drawn, 1).swapaxes(1, 2)
    isotropic = (drawn + drawn.swapaxes(1, 2)) / 2
    quantiles = [float(np.quantile(np.linalg.norm(noise, 2, axis=(1, 2)), 0.99)) for noise in (mirrored, isotropic)]
    bound = 4 * math.sqrt(p) + math.sqrt(8 * math.log(2 / 0.01))
    squares = (1 + gamma) ** 2, 1 + gamma**2
    shift = constants(JointDP(1.0, 1e-5)).shift
    return Erratum(
        16,
        "Lemma 2, Thm. 3, Lemma 4",
        "||z|| <= 1 + gamma; ||N_k|| <= sigma sqrt(m) (4 sqrt(n + d) + sqrt(8 ln ...)); entries off the diagonal get full noise, mirrored.",
        "Loose: ||z||^2 <= 1 + gamma^2; the norm is about 2 sigma sqrt(m (n + d)); sigma/sqrt(2) off the diagonal suffices.",
        f"gamma = 1.2: {squares[0]:.2f} against {squares[1]:.2f}. 99 % quantile of the norm at n + d = 3, sigma = 1: {quantiles[0]:.2f} "
        f"mirrored, {quantiles[1]:.2f} isotropic, bound {bound:.2f}. At epsilon = 1, K = {K:,} the shift eta is {short(shift)}.",
        quantiles[1] < quantiles[0] < bound and squares[1] < squares[0],
        "4000 draws; oscillator",
        {"mirrored": quantiles[0], "isotropic": quantiles[1], "bound": bound},
    )
