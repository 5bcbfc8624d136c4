"""What planning decides at one release. All of it is public."""

from dataclasses import dataclass

from confide.policy import Policy
from confide.privacy.bounded import Memory


@dataclass(frozen=True, slots=True, eq=False)
class PublicRound:
    """A round without its statistic, which the private side adds."""

    policies: tuple[Policy, ...]
    # what planning after the next release needs of this round
    memory: Memory
    # size of the released statistics, in the units of their noise
    signal: float | None = None
    # of the users, one for each policy; None: all the same
    shares: tuple[float, ...] | None = None
