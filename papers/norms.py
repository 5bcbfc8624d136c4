"""Norms of Gaussian matrices and vectors, by simulation.

[Zhou22] and [Chowdhury21] have the same three lemmas about them.
"""

import math
from pathlib import Path

import numpy as np

from papers.findings import Claim
from papers.text import Texts

CLAIMS = Texts(Path(__file__).with_name("norms.toml"))


def norm_claims(locators: tuple[str, str, str], dimension: int) -> tuple[Claim, ...]:
    """The lemmas at t = 1.5.

    They are about full matrices, symmetric ones whose upper half is mirrored, and chi-square.
    """
    rng = np.random.default_rng(1)
    draws = 20_000
    d = dimension
    t = 1.5
    z = rng.standard_normal((draws, d, d))
    mirrored = np.triu(z) + np.triu(z, 1).swapaxes(1, 2)
    cases = (
        (np.linalg.norm(z, 2, axis=(1, 2)), 2 * math.sqrt(d) + t, math.exp(-(t**2) / 2)),
        (
            np.linalg.norm(mirrored, 2, axis=(1, 2)),
            4 * math.sqrt(d) + 2 * t,
            2 * math.exp(-(t**2) / 2),
        ),
        (rng.chisquare(d, draws), d + 2 * math.sqrt(d * t) + 2 * t, math.exp(-t)),
    )
    return tuple(
        CLAIMS.claim(
            "norm-claims",
            bool((norms > bound).mean() <= chance),
            {"share": float((norms > bound).mean()), "stated": chance},
            locator=locator,
            bound=bound,
            chance=chance,
            d=d,
            percent=100 * float((norms > bound).mean()),
            draws=draws,
        )
        for locator, (norms, bound, chance) in zip(locators, cases, strict=True)
    )
