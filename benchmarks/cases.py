"""The cases of a benchmark, run as the cells of a sweep.

Cases run on all cores with one thread each. Finished ones are kept in `.confide-store`.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from confide.privacy.request import JointDP, NoPrivacy, Request
from confide.runs.run_sweep import STORE, run_cells
from confide.runs.spec import RunSpec
from confide.runs.store import Store, key_of
from confide.runs.sweep import Cell, ProblemChoice, make_problem

DELTA = 1e-5


@dataclass(frozen=True)
class Case:
    """One row of a table, and everything that decides its numbers."""

    # A name of the catalogue, or the file of a saved problem.
    problem: str
    agent: str
    privacy: Request
    episodes: int = 100_000
    seeds: Sequence[int] = tuple(range(8))
    options: tuple[tuple[str, Any], ...] = ()
    instance: int = 0

    @property
    def loaded_problem(self) -> Any:
        return make_problem(ProblemChoice(self.problem, self.instance))

    @property
    def spec(self) -> RunSpec:
        return RunSpec(
            agent=self.agent,
            problem=self.problem,
            privacy=self.privacy,
            episodes=self.episodes,
            options=self.options,
        )

    @property
    def cells(self) -> list[Cell]:
        return [
            Cell(self.spec, ProblemChoice(self.problem, self.instance), seed) for seed in self.seeds
        ]


@dataclass(frozen=True)
class Sample:
    """The results of a case: one regret and one number of episodes for each seed."""

    # The regret after all users [seed].
    regret: np.ndarray
    # The episodes until policies stay 90 % of the way to the optimum, or infinity [seed].
    episodes: np.ndarray
    # The regret of uniform play. In a linear system it is that of doing nothing.
    nothing: float = math.nan
    # The numbers of users at which the curves are known [checkpoint].
    users: np.ndarray = field(default_factory=lambda: np.zeros(0))
    # The regret at each checkpoint [seed, checkpoint].
    curves: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))


def joint(epsilon: float) -> Request:
    return NoPrivacy() if epsilon == math.inf else JointDP(epsilon, DELTA)


def save_problem(name: str, problem: Any) -> str:
    """Save a problem that is not in the catalogue, and return its file."""
    path = Path(STORE) / "problems" / f"{re.sub(r'[^a-zA-Z0-9]+', '-', name).strip('-')}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        problem.save(path)
    return str(path)


def measure_cases(cases: Iterable[Case]) -> dict[Case, Sample]:
    """Run all cases that are not in the store. A case that fails ends the benchmark."""
    chosen = list(dict.fromkeys(cases))
    results = run_cells((cell for case in chosen for cell in case.cells), store=Store(STORE))
    broken = [result for result in results.values() if result["status"] != "done"]
    if broken:
        raise SystemExit(f"{broken[0]['command']}: {broken[0]['error']}")
    return {case: _sample(case, [results[key_of(cell)] for cell in case.cells]) for case in chosen}


def _sample(case: Case, results: list[dict[str, Any]]) -> Sample:
    curves = np.array([result["regret"] for result in results], dtype=float)
    reached = [result["episodes_to_90"] for result in results]
    loss = results[0]["optimal_value"] - results[0]["uniform_value"]
    return Sample(
        curves[:, -1],
        np.array([math.inf if k is None else k for k in reached], dtype=float),
        case.episodes * loss,
        np.array(results[0]["users"], dtype=float),
        curves,
    )
