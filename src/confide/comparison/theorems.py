"""What papers prove of their agents.

A theorem is about an agent with its paper's constants. Nobody has proved it for the tight form,
whose bonus and schedule are ours, so it never stands beside tight runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Trust


@dataclass(frozen=True, slots=True)
class Theorem:
    """What a paper proves of its agent with its own constants.

    Regret grows at most like the number of users to the power of `exponent`, up to logarithms.
    """

    exponent: float
    locator: str


# By agent and kind of guarantee; `pure` means delta = 0. Proved in the paper that each line names.
# What is missing here is not proved in the agent's paper.
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


def theorem_of(variant: str, calibration: str, guarantee: Guarantee) -> Theorem | None:
    """The theorem about runs of an agent, or None.

    `variant` is the agent with all options but the calibration. Any such option makes it another
    algorithm than the theorem's, and so do the tight constants. Without privacy there is no noise
    to calibrate, but the bonus and the schedule differ, so the same rule applies.
    """
    if calibration != "paper":
        return None
    is_pure = guarantee.trust is not Trust.NONE and guarantee.delta == 0
    kind = f"pure {guarantee.trust}" if is_pure else str(guarantee.trust)
    return THEOREMS.get((variant, kind))
