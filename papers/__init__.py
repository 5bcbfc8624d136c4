"""Reproduce four papers.

`reproduce("luyo21", quick=True)` checks every claim of a paper, and `out=` writes a page. Each
paper has a folder. Its `claims.toml` and `errata.toml` have the text, and its code has the
computations. The keys of `PAPERS` name the commands, the pages and the JSON files.
"""

import importlib
from pathlib import Path

from confide.errors import InvalidParameter
from papers.findings import (
    Algorithm,
    Claim,
    Erratum,
    Figure,
    Measurement,
    Reproduction,
    Say,
    Table,
)

PAPERS = {
    "balle16": "Differentially Private Policy Evaluation",
    "luyo21": (
        "Differentially Private Exploration in Reinforcement Learning with Linear Representation"
    ),
    "zhou22": "Differentially Private Reinforcement Learning with Linear Function Approximation",
    "chowdhury21": "Adaptive Control of Differentially Private Linear Quadratic Systems",
}

__all__ = [
    "PAPERS",
    "Algorithm",
    "Claim",
    "Erratum",
    "Figure",
    "Measurement",
    "Reproduction",
    "Table",
    "reproduce",
]


def reproduce(
    paper: str,
    *,
    quick: bool = False,
    users: int | None = None,
    out: str | Path | None = None,
    progress: Say | None = None,
) -> Reproduction:
    """Check the constants of a paper, run its algorithms, measure its claims and verify its errata.

    `quick` uses fewer seeds and fewer users. Constants and errata are the same. `users` is the
    largest number of users of runs with the paper's constants that release once per user, and of
    the trajectories in Fig. 1 of [Balle16]. It is for a slow machine. `out` is a folder for the
    page, its figures and the numbers as JSON. `progress` is called with a short text at each step.
    """
    if paper not in PAPERS:
        raise InvalidParameter(f"unknown paper {paper!r}; choose one of {', '.join(PAPERS)}")
    module = importlib.import_module(f"papers.{paper}")
    reproduction: Reproduction = module.reproduce(quick, progress or (lambda _: None), users)
    if out is not None:
        from papers.page import write

        write(reproduction, Path(out), users)
    return reproduction
