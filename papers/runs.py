"""Run the algorithms of a paper on problems of the zoo, as cells of a sweep."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import ConfideError, PromiseBroken
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Request
from confide.runs.run_sweep import run_cells
from confide.runs.spec import RunSpec
from confide.runs.sweep import Cell, ProblemChoice, make_problem
from papers.findings import Measurement, short

Array = npt.NDArray[np.float64]


def case(agent: str, problem: str, privacy: Request, episodes: int, **options: Any) -> RunSpec:
    """An agent with a privacy request on instance 0 of a problem.

    Local users are simulated by counts, which have the same distribution.
    """
    counts = True if isinstance(privacy, LocalDP) else None
    return RunSpec(
        agent=agent,
        problem=problem,
        privacy=privacy,
        episodes=episodes,
        options=tuple(options.items()),
        counts=counts,
    )


def with_epsilon(spec: RunSpec, epsilon: float) -> RunSpec:
    """The same guarantee at another epsilon."""
    kind = LocalDP if isinstance(spec.privacy, LocalDP) else JointDP
    return replace(spec, privacy=kind(epsilon, spec.privacy.delta))


def setting_text(spec: RunSpec) -> str:
    """The calibration, the guarantee, the problem and the users, as the page has them."""
    how = dict(spec.options).get("calibration")
    promise = "no privacy" if isinstance(spec.privacy, NoPrivacy) else str(spec.privacy)
    return f"{how or 'tight'}, {promise}, {spec.problem}, {spec.episodes:,} users"


def promised_epsilon(spec: RunSpec) -> float:
    """The epsilon of the noise that the agent adds, at the requested delta."""
    return float(spec.ready(make_problem(ProblemChoice(spec.problem)), 0).guarantee.epsilon)


def curves(spec: RunSpec, seeds: Sequence[int]) -> tuple[Array, Array]:
    """Numbers of users [point], and the exact regret until then [seed, point]."""
    choice = ProblemChoice(spec.problem)
    # A run that is refused raises its own error here.
    spec.ready(make_problem(choice), seeds[0])
    results = list(run_cells((Cell(spec, choice, seed) for seed in seeds), workers=1).values())
    for result in results:
        if result["status"] != "done":
            raise ConfideError(result["error"])
    return np.array(results[0]["users"], dtype=float), np.array(
        [result["regret"] for result in results]
    )


def regrets(spec: RunSpec, seeds: Sequence[int]) -> Array:
    """Exact regret after all users, one per seed."""
    last: Array = curves(spec, seeds)[1][:, -1]
    return last


def at_random(spec: RunSpec) -> float:
    """The regret of uniform play (in a linear system, of doing nothing) over as many users."""
    here = make_problem(ProblemChoice(spec.problem))
    return float(spec.episodes * (here.optimal_value - here.uniform_value))


def measure_runs(spec: RunSpec, seeds: Sequence[int]) -> Measurement:
    """One line of a table of algorithms.

    If the paper's constants are refused because they do not give the guarantee, the line says so.
    """
    idle = (
        "doing nothing"
        if hasattr(make_problem(ProblemChoice(spec.problem)), "A")
        else "uniform play"
    )
    beside = f"{idle} {short(at_random(spec))}"
    try:
        epsilon = None if isinstance(spec.privacy, NoPrivacy) else promised_epsilon(spec)
    except PromiseBroken as refused:
        return Measurement(
            f"{setting_text(spec)}: refused, {refused}", None, "regret", math.nan, None, beside
        )
    samples = regrets(spec, seeds)
    error = float(samples.std(ddof=1) / math.sqrt(len(samples))) if len(samples) > 1 else None
    mean = float(samples.mean())
    return Measurement(setting_text(spec), epsilon, "regret", mean, error, beside)
