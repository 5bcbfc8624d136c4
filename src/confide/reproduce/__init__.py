"""The four papers, reproduced: `reproduce("luyo21", quick=True)` computes every claim, and `out=` writes the page."""

import importlib
from pathlib import Path

from confide.errors import InvalidParameter
from confide.reproduce.findings import (
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
    "luyo21": "Differentially Private Exploration in Reinforcement Learning with Linear Representation",
    "zhou22": "Differentially Private Reinforcement Learning with Linear Function Approximation",
    "chowdhury21": "Adaptive Control of Differentially Private Linear Quadratic Systems",
}

__all__ = ["PAPERS", "Algorithm", "Claim", "Erratum", "Figure", "Measurement", "Reproduction", "Table", "reproduce"]


def reproduce(paper: str, *, quick: bool = False, out: str | Path | None = None, progress: Say | None = None) -> Reproduction:
    """All of a paper: its constants and what they really promise, its algorithms run, its claims measured, its errata shown.

    `quick` takes fewer seeds and fewer users; calibrations and errata are the same. With `out` the page, its figures and the numbers
    as JSON go into that folder. `progress` is told in words what is being computed.
    """
    if paper not in PAPERS:
        raise InvalidParameter(f"there is no paper {paper!r} here; there are {', '.join(PAPERS)}")
    module = importlib.import_module(f"confide.reproduce.{paper}")
    found: Reproduction = module.reproduce(quick, progress or (lambda _: None))
    if out is not None:
        from confide.reproduce.page import write

        write(found, Path(out))
    return found
