"""What the runner asks of an agent, and nothing more."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from confide.mechanisms.sources import NoiseSource
from confide.policy import Policy
from confide.privacy.guarantee import Guarantee
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class Batch:
    """This policy, for so many users, until the next replanning."""

    policy: Policy
    users: int


class Agent(Protocol):
    """Two methods and a promise. `noise` and `rng` are given by the runner, once, where the agent has such attributes and they are None.

    Optional: `accepts_counts = True` if `observe` takes exact TransitionCounts; `ignores_data = True` if it only counts users;
    `mechanisms() -> list[Mechanism]` for the certificate; `save() -> bytes` and `restore(bytes)` for runs that can be interrupted;
    `client()`, `absorb(bytes)` and `current_round()` in place of `observe` under `LocalDP`: see `Learner`;
    `noise_level` (the NoiseLevel of the last release) and `signal` (what stands against it, from the release) for the report.
    """

    guarantee: Guarantee
    episodes: int

    def next_batch(self) -> Batch: ...
    def observe(self, users: Trajectories | TransitionCounts) -> None:
        """1 to `users` users of the batch at a time: clip, absorb, release, replan."""


class NeedsNoise(Protocol):
    """An agent that draws noise through a privatizer."""

    noise: NoiseSource | None
    rng: np.random.Generator | None


def agent_name(agent: Any) -> str:
    return str(getattr(agent, "name", type(agent).__name__))
