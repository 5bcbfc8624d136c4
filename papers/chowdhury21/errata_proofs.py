"""The errata of [Chowdhury21] in its proofs, each with the computation that shows it.

"Appendix" is that of the long version.
"""

import math
from pathlib import Path

import numpy as np

from confide.planners.riccati import riccati
from confide.privacy.request import JointDP
from confide.problems.zoo.control import oscillator
from papers.chowdhury21.bounds import FAILURE, K, constants
from papers.findings import Erratum, short
from papers.text import Texts

ERRATA = Texts(Path(__file__).with_name("errata.toml"))


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
    return ERRATA.erratum(
        "confidence-levels",
        spent > FAILURE,
        {"spent": spent},
        failure=FAILURE,
        spent=spent,
    )


def two_bounds() -> Erratum:
    n = 3
    d = 2
    return ERRATA.erratum(
        "two-bounds",
        math.sqrt(n * (n + d)) > math.sqrt(n + d),
        {"theorem": math.sqrt(n * (n + d)), "proof": math.sqrt(n + d)},
        root_of_product=math.sqrt(n * (n + d)),
        root_of_sum=math.sqrt(n + d),
    )


def both_sides() -> Erratum:
    """Theta~ and Theta* on opposite sides of the confidence ball, along z."""
    rng = np.random.default_rng(2)
    beta = 1.0
    D = 4.0
    V = np.diag([2.0, 5.0, 9.0])
    z = rng.standard_normal(3)
    length = math.sqrt(float(z @ np.linalg.solve(V, z)))
    direction = np.linalg.solve(V, z) / length  # of norm 1 in the norm of V
    gap = 2 * beta * np.outer(direction, [1.0, 0.0])
    distance = math.sqrt(float(np.trace(gap.T @ V @ gap)))
    moved = D * float(np.square(gap.T @ z).sum())
    printed = 2 * D**2 * beta**2 * length**2
    corrected = 4 * D * beta**2 * length**2
    small = 2 * 0.25**2 * beta**2 * length**2
    return ERRATA.erratum(
        "both-sides",
        math.isclose(distance, 2 * beta) and math.isclose(moved, corrected) and moved / 16 > small,
        {"distance": distance, "moved": moved, "corrected": corrected, "printed": printed},
        distance=distance,
        moved=moved,
        factor=moved / corrected,
        printed=printed,
        sixteenth=moved / 16,
        small=small,
    )


def martingales() -> Erratum:
    system = oscillator()
    P = riccati(system.A, system.B, system.Q, system.R, system.horizon)[0]
    D = float(np.linalg.norm(P, 2, axis=(1, 2)).max())
    C = float(max(np.linalg.norm(system.Q, 2), np.linalg.norm(system.R, 2)))
    return ERRATA.erratum("martingales", D > C, {"C": C, "D": D}, C=C, D=D)


def notation() -> Erratum:
    return ERRATA.erratum("notation", None)


def missing_proofs() -> Erratum:
    """The self-normalised bound for matrices, by simulation."""
    rng = np.random.default_rng(3)
    runs = 400
    steps = 300
    outside = 0
    largest = 0.0
    n = 2
    p = 3
    C_w = 0.1
    ridge = 1.0
    limit = 2 * math.log(1 / FAILURE)
    for _ in range(runs):
        Z = rng.uniform(-1, 1, size=(steps, p))
        W = rng.standard_normal((steps, n))
        W *= (C_w / np.linalg.norm(W, axis=1))[:, None]  # on the sphere: as large as noise may be
        V = Z.T @ Z + ridge * np.eye(p)
        sums = Z.T @ W
        length = math.sqrt(float(np.trace(sums.T @ np.linalg.solve(V, sums))))
        bound = C_w * math.sqrt(limit + n * float(np.linalg.slogdet(V / ridge)[1]))
        outside = outside + (length > bound)
        largest = max(largest, length / bound)
    return ERRATA.erratum(
        "missing-proofs",
        outside <= FAILURE * runs,
        {"outside": float(outside), "largest": largest},
        runs=runs,
        steps=steps,
        outside=outside,
        failure=FAILURE,
        largest=largest,
    )


def loose() -> Erratum:
    gamma = 1.2
    rng = np.random.default_rng(4)
    p = 3
    drawn = rng.standard_normal((4000, p, p))
    mirrored = np.triu(drawn) + np.triu(drawn, 1).swapaxes(1, 2)
    isotropic = (drawn + drawn.swapaxes(1, 2)) / 2
    quantiles = [
        float(np.quantile(np.linalg.norm(noise, 2, axis=(1, 2)), 0.99))
        for noise in (mirrored, isotropic)
    ]
    bound = 4 * math.sqrt(p) + math.sqrt(8 * math.log(2 / 0.01))
    squares = (1 + gamma) ** 2, 1 + gamma**2
    shift = constants(JointDP(1.0, 1e-5)).shift
    return ERRATA.erratum(
        "loose",
        quantiles[1] < quantiles[0] < bound and squares[1] < squares[0],
        {"mirrored": quantiles[0], "isotropic": quantiles[1], "bound": bound},
        printed_square=squares[0],
        square=squares[1],
        mirrored=quantiles[0],
        isotropic=quantiles[1],
        bound=bound,
        K=K,
        shift=short(shift),
    )
