"""What papers prove of their agents."""

from collections.abc import Mapping
from dataclasses import dataclass

from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Trust


@dataclass(frozen=True, slots=True)
class Theorem:
    """What a paper proves of its agent: regret grows at most like users to the power of `exponent`, up to logarithms."""

    exponent: float
    locator: str


# By agent and promise; `pure` is delta = 0. What is missing here is not proved in the agent's paper.
THEOREMS: Mapping[tuple[str, str], Theorem] = {
    ("ucrl-vtr", "none"): Theorem(1 / 2, "[Luyo21, Thm. 7]"),
    ("ucrl-vtr", "joint"): Theorem(1 / 2, "[Luyo21, Cor. 5]"),
    ("ucrl-vtr", "local"): Theorem(3 / 4, "[Luyo21, Cor. 6]"),
    ("ucrl-vtr", "pure joint"): Theorem(1 / 2, "[Luyo21, C.4]"),
    ("ucrl-vtr", "pure local"): Theorem(3 / 4, "[Luyo21, C.4]"),
    ("ucrl-vtr-plus", "none"): Theorem(1 / 2, "[Luyo21, Thm. 9]"),
    ("ucrl-vtr-plus", "joint"): Theorem(1 / 2, "[Luyo21, Cor. 10]"),
    ("ucrl-vtr-plus", "local"): Theorem(3 / 4, "[Luyo21, Cor. 11]"),
    ("lsvi-ucb", "joint"): Theorem(3 / 5, "[Luyo21, Thm. 8]"),
    ("lsvi-ucb", "pure joint"): Theorem(2 / 3, "[Luyo21, E.3]"),
    ("linopt-vi", "none"): Theorem(1 / 2, "[Zhou22, Thm. 4.1]"),
    ("linopt-vi", "joint"): Theorem(1 / 2, "[Zhou22, Thm. 6.5]"),
    ("linopt-po", "none"): Theorem(1 / 2, "[Zhou22, Thm. 5.1]"),
    ("linopt-po", "joint"): Theorem(1 / 2, "[Zhou22, Thm. 6.5]"),
    ("ofu-lq", "none"): Theorem(1 / 2, "[Chowdhury21, Thm. 1]"),
    ("ofu-lq", "joint"): Theorem(1 / 2, "[Chowdhury21, Thm. 3]"),
}


def theorem_of(variant: str, guarantee: Guarantee) -> Theorem | None:
    """By the agent's own name: options other than the calibration make it another algorithm than the theorem's."""
    pure = "pure " if guarantee.trust is not Trust.NONE and guarantee.delta == 0 else ""
    return THEOREMS.get((variant, pure + guarantee.trust))
