"""What the runner needs from an agent: two methods and a guarantee. Everything else is optional and declared."""

from dataclasses import dataclass
from typing import Any, Protocol

from confide.errors import InvalidParameter
from confide.policy import Policy
from confide.privacy.guarantee import Guarantee
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class Batch:
    """This policy, for so many users, until the next replanning."""

    policy: Policy
    users: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """How one user is served, and the generation of the release that it was planned with: a report must name it."""

    policy: Policy
    generation: int


@dataclass(frozen=True, slots=True)
class Profile:
    """What there is to know about the agents of a class before one is made. `confide list` shows it."""

    about: str = ""
    # of problems that it learns: `problem.public.family`; empty: any
    family: str = ""
    # its reference, or "confide"; empty: it learns from nobody
    paper: str = ""
    # whether it can keep a local guarantee
    local: bool = True
    # whether rewards must be public
    known_rewards: bool = False
    # whether a mixture must be one of probability kernels, with weights on the simplex
    kernels: bool = False
    # whether it also learns from features of observations, where states are not numbered
    observations: bool = False
    # made from the problem itself: a yardstick, not a learner
    knows_truth: bool = False
    # problems on which `benchmarks/stuck.py` found runs that stay away from optimal
    stuck: str = ""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an agent can do beyond `next_batch` and `observe`. An agent declares it as the attribute `abilities`."""

    counts: bool = False  # `observe` takes exact TransitionCounts of a simulated batch
    ignores_data: bool = False  # it only counts users: nobody has to be simulated for it
    # it has attributes `noise` and `rng`, which the runner fills once, where they are None
    noise: bool = False
    mechanisms: bool = False  # `mechanisms() -> list[Mechanism]`, for the certificate
    saves: bool = False  # `save() -> bytes` and `restore(bytes)`, for runs that can be interrupted
    # it accepts DistributedDP: its planner knows that fewer users are in the sums than were served
    distributed: bool = False
    # Users have devices: `client()` and `absorb(bytes)`, or under `DistributedDP` `shares.client()` and
    # `shares.simulate_aggregation(batch, share)`; also `current_round()`, `released()` and `observe_crowd(users)`.
    devices: bool = False
    # `questions() -> list[Question]`: what users were asked, for the report
    questions: bool = False
    # a service may add up contributions itself: `contribution`, `decoded`, `close(total, users)`
    sums: bool = False
    levels: bool = False  # `noise_level` and `signal` of the last release, for the report


class Agent(Protocol):
    """Serves batches of users and learns from them.

    Optional attributes: `name` (default: the class's), `profile`, `abilities` (default: none),
    `settings` (a text that tells agents with the same name apart), and `private` (names of public
    members that hold private state, each with the reason: an audit does not compare them, and lists
    them).
    """

    guarantee: Guarantee
    episodes: int

    def next_batch(self) -> Batch: ...
    def observe(self, users: Trajectories | TransitionCounts) -> None:
        """1 to `users` users of the batch at a time: clip, absorb, release, replan."""


def agent_name(agent: Any) -> str:
    return str(getattr(agent, "name", type(agent).__name__))


def abilities_of(agent: Any) -> Abilities:
    """What the agent declares. One that declares nothing is given noise if it has an attribute for it, and can do nothing else."""
    declared = getattr(agent, "abilities", None)
    if declared is None:
        return Abilities(noise=hasattr(agent, "noise"))
    if not isinstance(declared, Abilities):
        raise InvalidParameter(
            f"{agent_name(agent)}.abilities must be Abilities(...), got {type(declared).__name__}"
        )
    return declared
