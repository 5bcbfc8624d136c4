"""Short runs of agents: what an algorithm of a paper does on a problem of the zoo."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.agents.catalogue import make_agent
from confide.errors import PromiseBroken
from confide.experiments.runner import prepare, run
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Request
from confide.problems.catalogue import make
from confide.reproduce.findings import Measurement, short

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """An agent under a promise on a problem."""

    agent: str
    problem: str
    privacy: Request
    episodes: int
    options: tuple[tuple[str, Any], ...] = ()

    def at(self, **changed: Any) -> "Case":
        return replace(self, **changed)

    def with_epsilon(self, epsilon: float) -> "Case":
        """The same promise at another epsilon."""
        kind = LocalDP if isinstance(self.privacy, LocalDP) else JointDP
        return replace(self, privacy=kind(epsilon, self.privacy.delta))

    @property
    def printed(self) -> "Case":
        """With the constants of its paper."""
        return replace(self, options=(*self.options, ("calibration", "paper")))

    def make(self) -> Any:
        return make_agent(self.agent, world(self.problem), episodes=self.episodes, privacy=self.privacy, **dict(self.options))

    def __str__(self) -> str:
        how = dict(self.options).get("calibration")
        said = {"paper": "as printed", None: "ours"}.get(how, str(how))
        promise = "no privacy" if isinstance(self.privacy, NoPrivacy) else str(self.privacy)
        return f"{said}, {promise}, {self.problem}, {self.episodes:,} users"


_WORLDS: dict[str, Any] = {}


def world(name: str) -> Any:
    """Instance 0 of a problem, made once."""
    if name not in _WORLDS:
        _WORLDS[name] = make(name)
    return _WORLDS[name]


def promised_epsilon(case: Case) -> float:
    """What the noise of the agent really gives, at the delta that was asked for."""
    agent = case.make()
    prepare(agent, 0)
    return float(agent.guarantee.epsilon)


def regrets(case: Case, seeds: Sequence[int]) -> Array:
    """Exact regret after all users, one per seed. Local users are simulated by counts: the same law."""
    counts = True if isinstance(case.privacy, LocalDP) else None
    return np.array([run(case.make(), world(case.problem), seed=seed, counts=counts).regret[-1] for seed in seeds])


def at_random(case: Case) -> float:
    """The regret of uniform play (in a linear system, of doing nothing) over as many users."""
    here = world(case.problem)
    return float(case.episodes * (here.optimal_value - here.uniform_value))


def measured(case: Case, seeds: Sequence[int]) -> Measurement:
    """One line of a table of algorithms; printed constants that break their own promise are refused, and that is said."""
    idle = "doing nothing" if hasattr(world(case.problem), "A") else "uniform play"
    beside = f"{idle} {short(at_random(case))}"
    try:
        epsilon = None if isinstance(case.privacy, NoPrivacy) else promised_epsilon(case)
    except PromiseBroken as refused:
        return Measurement(f"{case}: refused, {refused}", None, "regret", math.nan, None, beside)
    found = regrets(case, seeds)
    error = float(found.std(ddof=1) / math.sqrt(len(found))) if len(found) > 1 else None
    return Measurement(str(case), epsilon, "regret", float(found.mean()), error, beside)
