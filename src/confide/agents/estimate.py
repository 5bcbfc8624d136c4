"""How much memory and time a run will need, before anything of its size is made.

Estimates decide whether a run is refused. Results and guarantees do not depend on them.
"""

from dataclasses import dataclass
from typing import Any

from confide._memory import in_words, refuse_more_than_available
from confide.agents.catalogue import agent_class, read_schedule
from confide.arguments import whole
from confide.errors import InvalidParameter
from confide.learning.learner import Learner
from confide.privacy.request import Request, check_privacy_request
from confide.privatizers import Schedule
from confide.problems.problem import Problem
from confide.problems.sizes import ProblemSizes, sizes_by_name, sizes_of
from confide.tables.footprint import FEWER_STATES, STATE_SUPPORT

# What helps against an estimate that is too large.
_ADVICE = {
    "table": FEWER_STATES,
    "mixture": "choose a problem with fewer states, actions or kernels, or a shorter horizon",
    "linear MDP": "choose a problem with fewer states or features, or a shorter horizon",
    "features": "choose fewer users or features, or a shorter horizon",
    "linear bandit": "choose contexts with fewer numbers, or a smaller population",
}
_USUAL_ADVICE = "choose a smaller problem or a shorter horizon"


@dataclass(frozen=True, slots=True)
class Resources:
    """The estimated needs of a run.

    They are bytes for the problem and for the agent, and seconds of planning for one release. What
    Python and its libraries take is not counted, and neither is a problem that exists already.
    """

    problem: int
    agent: int
    planning_seconds: float

    @property
    def memory(self) -> int:
        """The peak of the whole run, in bytes."""
        return self.problem + self.agent

    def to_json(self) -> dict[str, Any]:
        return {"memory_bytes": self.memory, "planning_seconds": self.planning_seconds}


def estimate_resources(
    agent: str | type,
    problem: Problem | ProblemSizes | str,
    *,
    episodes: int,
    privacy: Request,
    horizon: int | None = None,
    secure: bool = False,
    **options: Any,
) -> Resources:
    """Estimate the peak memory and the planning time per release of an agent on a problem.

    The agent is not made. `agent` is a name of the catalogue, package.module:Class, or a class.
    `problem` is a problem, its sizes, or a name as in `confide.problems.make`. With a name, the
    problem is not made either, and `horizon` is that of `make`. `secure` noise may need more
    memory. Options are those of the agent. An agent that says nothing about its needs counts as one
    that needs nothing.
    """
    sizes = sizes_by_name(problem, horizon) if isinstance(problem, str) else sizes_of(problem)
    kind = agent_class(agent) if isinstance(agent, str) else agent
    given = {name: value for name, value in options.items() if value is not None}
    whole("episodes", episodes, at_least=1)
    check_privacy_request(privacy)
    if "schedule" in given:
        given["schedule"] = read_schedule(given["schedule"], episodes)
    compute_footprint = getattr(kind, "footprint", None)
    footprint = None
    if compute_footprint is not None:
        footprint = compute_footprint(sizes, episodes=episodes, privacy=privacy, **given)
    if footprint is None:
        return Resources(sizes.memory, 0, 0.0)
    memory = footprint.memory(privacy, discrete=secure)
    return Resources(sizes.memory, memory, footprint.planning_seconds)


def estimate_agent(agent: Any, problem: Problem | ProblemSizes) -> Resources:
    """Estimate the same for an agent that exists already."""
    sizes = sizes_of(problem)
    if not isinstance(agent, Learner) or not _says_what_it_needs(type(agent)) or not sizes.family:
        return Resources(0, 0, 0.0)
    options: dict[str, Any] = {
        "schedule": agent.schedule if isinstance(agent.schedule, Schedule) else None,
        "calibration": _calibration_of(agent),
        "support": getattr(agent.algorithm, "support", None),
    }
    secure = agent.noise is not None and agent.noise.discrete
    return estimate_resources(
        type(agent), sizes, episodes=agent.episodes, privacy=agent.privacy, secure=secure, **options
    )


def _calibration_of(agent: Learner) -> str:
    try:
        calibration = agent.describe().calibration
    except AttributeError:
        # Parts of somebody's own need not describe themselves.
        return "tight"
    return "paper" if calibration == "paper" else "tight"


def _says_what_it_needs(kind: type[Learner]) -> bool:
    """Whether the class, or one between it and `Learner`, has a footprint of its own."""
    own = kind.__mro__[: kind.__mro__.index(Learner)]
    return any("footprint" in vars(each) for each in own)


def refuse_what_does_not_fit(
    resources: Resources, agent: str, problem: Problem | ProblemSizes
) -> None:
    """Raise an error if a run needs more than 80 % of the available memory.

    Call this before anything is made.
    """
    refuse_more_than_available(resources.memory, agent, advice(agent, problem))


def refuse_above(
    resources: Resources, limit: int, agent: str, problem: Problem | ProblemSizes
) -> None:
    """Raise an error if a run needs more than `limit` bytes.

    It is what an operator allows one run of a service.
    """
    if resources.memory > limit:
        raise InvalidParameter(
            f"{agent} needs about {in_words(resources.memory)} of memory, and a run may need "
            f"at most {in_words(limit)}: {advice(agent, problem)}, or raise the limit"
        )


def advice(agent: str, problem: Problem | ProblemSizes) -> str:
    """Say what would help, for the end of a sentence."""
    sizes = problem if isinstance(problem, ProblemSizes) else sizes_of(problem)
    return (
        STATE_SUPPORT
        if agent.startswith("tabular-psrl")
        else _ADVICE.get(sizes.family, _USUAL_ADVICE)
    )
