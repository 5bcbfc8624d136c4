"""What an agent does with its users' data, in numbers, computed before a run.

Everything is computed from the agent's parameters. The agent is not changed: a run after an
explanation is identical to a run without one. The names in `Facts.to_json` are public.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from confide.agents.estimate import Resources, estimate_agent
from confide.arguments import has
from confide.errors import InvalidParameter
from confide.learning.agent import agent_name
from confide.learning.algorithm import Description
from confide.learning.learner import Learner
from confide.privacy.bounded import Bound
from confide.privacy.certificate import describe
from confide.privacy.guarantee import SLACK
from confide.privacy.request import DistributedDP, LocalDP, NoPrivacy, Relation, Request, Trust
from confide.privatizers import AtMost, ExpectedNoise, Schedule
from confide.problems.problem import Problem
from confide.problems.sizes import ProblemSizes


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about one agent, before a run.

    - `resources` is what a run on a problem needs, if a problem was given.
    - `stuck` names problems on which `benchmarks/stuck.py` found that the default may stay away
      from the optimum.
    - `constants` says whose constants they are, if the paper does not print them.
    """

    name: str
    description: Description
    request: Request
    trust: Trust
    schedule: Schedule | AtMost = field(repr=False)
    bound: Bound
    noise: ExpectedNoise
    resources: Resources | None = None
    stuck: str = ""
    constants: str = ""

    @property
    def calibration(self) -> str:
        return self.description.calibration

    @property
    def planning(self) -> str:
        return self.description.planning

    @property
    def epsilon(self) -> float:
        """The epsilon of the noise at the requested delta."""
        return self.noise.loss.epsilon_at(self.request.delta)

    @property
    def kept(self) -> bool:
        """Whether the noise gives the requested guarantee. If it does not, a run is refused."""
        return self.epsilon <= self.request.epsilon * (1 + SLACK)

    @property
    def relative_noise(self) -> float:
        """The noise at the worst release, relative to the most that one user can change.

        The change is measured in the norm of the noise. So the numbers of two agents can be
        compared if their noise has the same distribution, because another one belongs to another
        norm.
        """
        return self.noise.worst / self.noise.sensitivity if self.noise.worst else 0.0

    @property
    def users_until_signal(self) -> int | None:
        """After how many users, at best, the statistics are larger than their noise.

        The rows of k users, if they are as long as the bound allows, give Lambda eigenvalues of k
        L^2 / m, for rows of norm L in m dimensions. The norm of the noise is s sqrt(2m). Real rows
        are shorter, and do not point in all directions alike. None: there is no regression, or no
        noise.
        """
        if self.description.rows is None or self.noise.worst == 0:
            return None
        m, L = self.description.rows
        needed = m * math.sqrt(2 * m) / L**2
        if self.trust is Trust.LOCAL:
            # The noise grows with the users, too: s = s_1 sqrt(k).
            return math.ceil((needed * self.noise.worst) ** 2 / self.schedule.users)
        return math.ceil(needed * self.noise.worst)

    def to_json(self) -> dict[str, Any]:
        epsilon = self.epsilon
        return {
            "agent": self.name,
            "calibration": self.calibration,
            **({"constants": self.constants} if self.constants else {}),
            "request": None if isinstance(self.request, NoPrivacy) else str(self.request),
            "epsilon": epsilon if math.isfinite(epsilon) else None,
            "delta": self.request.delta,
            "kept": self.kept,
            "relation": str(Relation(self.request.relation)),
            "trust": self.trust.value,
            "users": self.schedule.users,
            "bound": describe(self.bound) or {"name": self.bound.identity().kind},
            "numbers_per_user": self.bound.size,
            "sensitivity": self.noise.sensitivity,
            "norm": self.noise.norm,
            "mechanism": self.noise.mechanism,
            "distribution": self.noise.distribution,
            "releases": self.schedule.leaves,
            "first_release": self.schedule.first,
            "noise_std_first": self.noise.first,
            "noise_std_last": self.noise.last,
            "noise_std_worst": self.noise.worst,
            "relative_noise": self.relative_noise,
            "planning": self.description.planning,
            "stuck": self.stuck or None,
            "users_until_signal": self.users_until_signal,
            **({} if self.resources is None else self.resources.to_json()),
        }


def facts(agent: Any, problem: Problem | ProblemSizes | None = None) -> Facts:
    """Return the facts about an agent, and with a problem what a run on it needs.

    The agent need not have a noise source yet.
    """
    if isinstance(agent, type | str):
        name = agent if isinstance(agent, str) else agent.__name__
        raise InvalidParameter(
            f"expected an agent, got the class {name}: "
            "create an agent first, with a problem, episodes and privacy"
        )
    if not isinstance(agent, Learner):
        raise InvalidParameter(
            f"explain needs a learner (confide.agents.Learner), got {agent_name(agent)}"
        )
    trust = (
        agent.privacy.trust
        if isinstance(agent.privacy, NoPrivacy | LocalDP | DistributedDP)
        else Trust.JOINT
    )
    description = agent.describe()
    if problem is not None and not isinstance(problem, ProblemSizes):
        has("problem", problem, ("public", "horizon"), "a problem, such as confide.problems.lock()")
    resources = None if problem is None else estimate_agent(agent, problem)
    stuck = agent.profile.stuck if description.calibration == "tight" else ""
    return Facts(
        agent_name(agent),
        description,
        agent.privacy,
        trust,
        agent.schedule,
        agent.algorithm.bound,
        agent.expected_noise(),
        resources,
        stuck,
        agent.calibration.constants,
    )
