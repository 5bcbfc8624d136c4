"""What planning decides at one release. All of it is public, and a service publishes it."""

from dataclasses import dataclass

from confide.policy import Policy
from confide.privacy.bounded import Memory


@dataclass(frozen=True, slots=True, eq=False)
class PublicRound:
    """A round without its statistic, which the private side adds.

    - `policies` serve the users of the round.
    - `memory` has the arrays that planning after the next release needs of this round.
    - `signal` is the size of the released statistics in the units of their noise.
    - `shares` are the shares of the users, one for each policy. None: all policies have the same.
    """

    policies: tuple[Policy, ...]
    memory: Memory
    signal: float | None = None
    shares: tuple[float, ...] | None = None
