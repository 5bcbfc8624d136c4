"""Release schedules: fixed before the data, so that each user is in exactly one leaf.

The users between two releases are one leaf of the counter. Fewer releases mean fewer leaves, less noise and less planning.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Schedule:
    """A release after times[0], times[1], ... users: increasing, and the last one is the number of users covered."""

    times: Sequence[int]

    def __post_init__(self) -> None:
        if len(self.times) == 0 or self.times[0] < 1:
            raise InvalidParameter("a schedule needs at least one release, after at least one user")
        if isinstance(self.times, range) and self.times.step < 1:
            raise InvalidParameter("release times must increase")
        if not isinstance(self.times, range):
            if any(time != int(time) for time in self.times):
                raise InvalidParameter("release times must be whole numbers of users")
            object.__setattr__(self, "times", tuple(int(time) for time in self.times))
            for early, late in pairwise(self.times):
                if late <= early:
                    raise InvalidParameter(f"release times must increase, got {early} before {late}")

    @property
    def name(self) -> str:
        """For saved states: the same schedule has the same name, and a long one a short name."""
        said = repr(self)
        return said if len(said) < 200 else f"Schedule {hashlib.sha256(said.encode()).hexdigest()}"

    @property
    def leaves(self) -> int:
        return len(self.times)

    @property
    def users(self) -> int:
        return self.times[-1]

    @property
    def first(self) -> int:
        """How many users there are at the first release."""
        return self.times[0]

    def batch(self, generation: int) -> tuple[int, int]:
        """How many users there are at a release, and at the next one."""
        return self.times[generation - 1] if generation else 0, self.times[generation]


@dataclass(frozen=True, slots=True)
class AtMost:
    """At most so many users in at most so many rounds, whose sizes are decided from releases."""

    users: int
    leaves: int

    def __post_init__(self) -> None:
        for name in ("users", "leaves"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidParameter(f"{name} must be a whole number, at least 1, got {name}={value!r}")

    @property
    def name(self) -> str:
        return repr(self)

    @property
    def first(self) -> None:
        """Not known in advance."""


def every_episode(episodes: int) -> Schedule:
    return every(1, episodes)


def one_tree(episodes: int) -> Schedule:
    """A release after every user but the last but one: K - 1 leaves, since nobody comes after a K-th release, so that m = ceil(log2 K)."""
    _check_episodes(episodes)
    return Schedule((*range(1, episodes - 1), episodes))


def every(interval: int, episodes: int) -> Schedule:
    """A release after each `interval` users, and after the last one."""
    if interval < 1:
        raise InvalidParameter(f"interval must be at least 1, got interval={interval}")
    _check_episodes(episodes)
    regular = range(interval, episodes + 1, interval)
    return Schedule(regular if regular and regular[-1] == episodes else (*regular, episodes))


def geometric(episodes: int, *, first: int = 30, ratio: float = 1.3) -> Schedule:
    """Releases after first, first x ratio, first x ratio^2, ... users, and after the last one: 32 of them for 1e5 episodes."""
    _check_episodes(episodes)
    if first < 1:
        raise InvalidParameter(f"first must be at least 1, got first={first}")
    if not (ratio > 1 and math.isfinite(ratio)):
        raise InvalidParameter(f"ratio must be above 1, got ratio={ratio}")
    times: list[int] = []
    time = float(first)
    while round(time) < episodes:
        times.append(max(round(time), times[-1] + 1 if times else 1))
        time *= ratio
    return Schedule((*(time for time in times if time < episodes), episodes))


def custom(times: Sequence[int]) -> Schedule:
    return Schedule(times)


def _check_episodes(episodes: int) -> None:
    if episodes < 1:
        raise InvalidParameter(f"episodes must be at least 1, got episodes={episodes}")


def divided(users: int, shares: npt.ArrayLike) -> list[int]:
    """So many users, by shares: whole numbers that add up."""
    edges = np.cumsum(np.asarray(shares, dtype=float))
    ends = np.floor(users * (edges / edges[-1]) + 1e-9).astype(np.int64)
    ends[-1] = users
    return [int(count) for count in np.diff(ends, prepend=0)]
