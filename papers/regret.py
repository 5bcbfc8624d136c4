"""Claims about regret, judged by runs of the algorithm with the paper's constants.

A run can contradict a bound only if the bound is below the regret of an agent that learns nothing.
It can support a bound only if regret has stopped growing in proportion to users. Otherwise the
claim is not tested.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from confide.comparison.growth import growth
from confide.errors import PrivacyError
from confide.privacy.request import NoPrivacy
from confide.runs.spec import RunSpec
from papers.findings import Holds, Line, Numbers, short
from papers.runs import at_random, curves

Array = npt.NDArray[np.float64]

# Over the last factor of ten of users, regret that grows with at least this power of users counts
# as linear.
LINEAR = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class PaperRuns:
    """Runs of one algorithm with the paper's constants, for growing numbers of users."""

    # The run with the largest number of users.
    spec: RunSpec
    users: tuple[int, ...]
    # Regret after all users.
    regrets: Array  # [seed, number of users]
    # The regret of uniform play; in a linear system, of doing nothing.
    uniform: Array  # [number of users]
    # Regret of the largest run grew with this power of users, over the last factor of ten of users.
    power: float

    @property
    def share(self) -> float:
        """The regret of the largest run as a share of that of uniform play."""
        return float(self.regrets[:, -1].mean() / self.uniform[-1])


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a bound on regret, in words and numbers."""

    holds: Holds
    text: str
    numbers: Numbers


def sizes(largest: int, users: int | None) -> tuple[int, ...]:
    """Three numbers of users, a factor of ten apart.

    `users` lowers the largest one, for a slow machine.
    """
    most = largest if users is None else min(largest, users)
    return max(most // 100, 10), max(most // 10, 30), max(most, 100)


def run_paper(spec: RunSpec, users: Sequence[int], seeds: Sequence[int]) -> PaperRuns | str:
    """Run with the paper's constants, or say why they are refused."""
    specs = [replace(spec, episodes=n).with_paper_constants() for n in users]
    try:
        curves_by_size = [curves(each, seeds) for each in specs]
    except PrivacyError as refused:
        return str(refused)
    points, largest = curves_by_size[-1]
    return PaperRuns(
        specs[-1],
        tuple(users),
        np.stack([regret[:, -1] for _, regret in curves_by_size], axis=1),
        np.array([at_random(each) for each in specs]),
        growth(points, largest, after=users[-1] / 10).slope,
    )


def judge(runs: PaperRuns | str, bound: Callable[[float], float]) -> Judgement:
    """Whether regret stays below the bound, if these runs can tell."""
    if isinstance(runs, str):
        return Judgement("not tested", f"With the paper's constants: refused, {runs}.", {})
    bounds = np.array([bound(float(users)) for users in runs.users])
    over_uniform = bounds / runs.uniform
    linear = runs.power >= LINEAR
    holds: Holds = "not tested"
    if over_uniform.min() <= 1 and not linear:
        holds = bool((runs.regrets.mean(axis=0) <= bounds).all())
    guarantee = "" if isinstance(runs.spec.privacy, NoPrivacy) else f", {runs.spec.privacy}"
    sizes = f"{runs.users[0]:,}"
    if len(runs.users) > 1:
        sizes += f" to {runs.users[-1]:,}"
    text = (
        f"With the paper's constants on {runs.spec.problem}{guarantee}, {sizes} users: the bound "
        f"is at least {short(float(over_uniform.min()))} times the regret of uniform play. "
        "Over the last factor of ten of users regret grew with the power "
        f"{runs.power:.3f} of users{' (linear)' if linear else ''}. "
        f"At the end it was {short(runs.share)} of that of uniform play."
    )
    numbers = {
        "bound_over_uniform": float(over_uniform.min()),
        "power": runs.power,
        "share": runs.share,
        "users": float(runs.users[-1]),
    }
    assert all(math.isfinite(value) for value in numbers.values())
    return Judgement(holds, text, numbers)


def paper_lines(name: str, runs: PaperRuns | str, tone: int) -> tuple[Line, ...]:
    """The curve of an algorithm with the paper's constants, if they are not refused."""
    if isinstance(runs, str):
        return ()
    means = tuple(float(mean) for mean in runs.regrets.mean(axis=0))
    return (Line(f"{name}, paper", tuple(map(float, runs.users)), means, None, tone, "dash"),)
