"""What the runner needs from an agent: two methods and a guarantee.

Everything else is optional, and the agent declares it.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from confide.errors import InvalidParameter
from confide.policy import Policy
from confide.privacy.guarantee import Guarantee
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class Batch:
    """A policy, and how many users it serves until the next one follows."""

    policy: Policy
    users: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """How one user is served, and the release that the policy was planned with.

    The user's report must name the generation of the release.
    """

    policy: Policy
    generation: int


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known about the agents of a class before one is made. `confide list` shows it."""

    # What they do, in a few words.
    about: str = ""
    # The family of problems that they learn (`problem.public.family`). Empty: any family.
    family: str = ""
    # Their reference, or "confide". Empty: they do not learn.
    paper: str = ""
    # Whether they can keep a local guarantee.
    local: bool = True
    # Whether they need public rewards.
    known_rewards: bool = False
    # Whether they need a mixture of probability kernels, with weights on the simplex.
    kernels: bool = False
    # Whether they also learn from features of observations, where states are not numbered.
    observations: bool = False
    # Whether they are made from the problem itself, so that they are a yardstick and no learner.
    knows_truth: bool = False
    # The problems on which `benchmarks/stuck.py` found runs that stay away from the optimum.
    stuck: str = ""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an agent can do beyond `next_batch` and `observe`: its attribute `abilities`."""

    # `observe` takes exact TransitionCounts of a simulated batch.
    counts: bool = False
    # It only counts users, so nobody has to be simulated for it.
    ignores_data: bool = False
    # It has attributes `noise` and `rng`. The runner sets them once, if they are None.
    noise: bool = False
    # It has `mechanisms() -> list[Mechanism]` for the certificate.
    mechanisms: bool = False
    # It has `save() -> bytes` and `restore(bytes)`, so that runs can be interrupted.
    saves: bool = False
    # It accepts DistributedDP: its planner knows that fewer users may be in the sums than were
    # served.
    distributed: bool = False
    # Its users have devices: `client()` and `absorb(bytes)`, or under `DistributedDP`
    # `shares.client()` and `shares.simulate_aggregation(batch, share)`. It also has
    # `current_round()`, `released()` and `observe_crowd(users)`.
    devices: bool = False
    # It has `questions() -> list[Question]` for the report: what users were asked.
    questions: bool = False
    # A service may add up contributions itself, with `contribution`, `decoded` and
    # `close(total, users)`.
    sums: bool = False
    # It has `noise_level` and `signal` of the newest release, for the report.
    levels: bool = False


class Agent(Protocol):
    """Serves batches of users and learns from them.

    Optional attributes:

    - `name` (default: that of the class), `profile`, and `abilities` (default: none)
    - `settings`, a text that differs between agents of the same name
    - `private`, the names of public members that hold private state, each with the reason. An audit
      lists them and does not compare them.
    """

    guarantee: Guarantee
    episodes: int

    def next_batch(self) -> Batch: ...
    def observe(self, users: Trajectories | TransitionCounts) -> None:
        """Learn from 1 to `users` users of the batch at a time: clip, absorb, release, replan."""


def agent_name(agent: Any) -> str:
    return str(getattr(agent, "name", type(agent).__name__))


def abilities_of(agent: Any) -> Abilities:
    """Return the abilities that the agent declares.

    An agent that declares nothing is given noise if it has an attribute for it.
    """
    declared = getattr(agent, "abilities", None)
    if declared is None:
        return Abilities(noise=hasattr(agent, "noise"))
    if not isinstance(declared, Abilities):
        raise InvalidParameter(
            f"{agent_name(agent)}.abilities must be Abilities(...), got {type(declared).__name__}"
        )
    return declared
