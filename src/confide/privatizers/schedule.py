"""Release schedules: fixed before the data, so that each user is in exactly one leaf.

The users between two releases are one leaf of the counter. Fewer releases mean fewer leaves, less noise and less planning. A batch may be
closed before it is full, by a decision that is public (a deadline): a schedule then says how many users and releases there are at most.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from confide.arguments import check_size, listed, real, whole
from confide.errors import InvalidParameter, StateError, StreamExhausted
from confide.identity import Identity

_BYTES = 64  # of the memory that a release time takes in Python, where a number of an array takes 8


@dataclass(frozen=True, slots=True)
class Schedule:
    """A release after times[0], times[1], ... users: increasing, and the last one is the number of users covered."""

    times: Sequence[int]

    def __post_init__(self) -> None:
        if not isinstance(self.times, range):
            object.__setattr__(
                self,
                "times",
                tuple(whole("times", time) for time in listed("times", self.times, object)),
            )
        if len(self.times) == 0 or self.times[0] < 1:
            raise InvalidParameter("a schedule needs at least one release, after at least one user")
        if isinstance(self.times, range) and self.times.step < 1:
            raise InvalidParameter("release times must increase")
        if not isinstance(self.times, range):
            for early, late in pairwise(self.times):
                if late <= early:
                    raise InvalidParameter(
                        f"release times must increase, got {early} before {late}"
                    )

    def identity(self) -> Identity:
        times = self.times if isinstance(self.times, range) else np.array(self.times, np.int64)
        return Identity("schedule", 1, times=times)

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

    def size(self, generation: int) -> int:
        """How many users the batch after so many releases has, unless it is closed before; none after the last release."""
        if whole("generation", generation, at_least=0) >= len(self.times):
            return 0
        return self.times[generation] - (self.times[generation - 1] if generation else 0)


@dataclass(frozen=True, slots=True)
class AtMost:
    """At most so many users in at most so many rounds, whose sizes are decided from releases."""

    users: int
    leaves: int

    def __post_init__(self) -> None:
        for name in ("users", "leaves"):
            object.__setattr__(self, name, whole(name, getattr(self, name), at_least=1))

    def identity(self) -> Identity:
        return Identity("at-most", 1, users=self.users, leaves=self.leaves)

    @property
    def first(self) -> None:
        """Not known in advance."""

    def size(self, generation: int) -> None:
        """Not known in advance: `Batches.open` says it."""


def check_left(schedule: Schedule | AtMost, generation: int) -> None:
    """Another release is covered."""
    if generation >= schedule.leaves:
        raise StreamExhausted(
            f"the guarantee covers {schedule.users} users in {schedule.leaves} release{'s' * (schedule.leaves > 1)}, and all were made"
        )


def check_batch(covered: int, begun: int, now: int, users: int) -> None:
    """A whole batch of `users` users may come from outside: nobody is in the open one, and the guarantee covers all of them."""
    whole("users", users, at_least=0)
    if now != begun:
        raise StateError(
            f"{now - begun} users are in the open batch already: a batch comes as a whole, or user by user"
        )
    if begun + users > covered:
        raise StreamExhausted(
            f"the guarantee covers {covered} users; this batch would make {begun + users}"
        )


def every_episode(episodes: int) -> Schedule:
    return every(1, episodes)


def one_tree(episodes: int) -> Schedule:
    """A release after every user but the last but one: K - 1 leaves, since nobody comes after a K-th release, so that m = ceil(log2 K)."""
    check_size(episodes=_BYTES * whole("episodes", episodes, at_least=1))
    return Schedule((*range(1, episodes - 1), episodes))


def every(interval: int, episodes: int) -> Schedule:
    """A release after each `interval` users, and after the last one."""
    interval, episodes = (
        whole("interval", interval, at_least=1),
        whole("episodes", episodes, at_least=1),
    )
    regular = range(interval, episodes + 1, interval)
    if regular and regular[-1] == episodes:
        return Schedule(regular)
    check_size(releases=_BYTES * len(regular))
    return Schedule((*regular, episodes))


def geometric(episodes: int, *, first: int = 30, ratio: float = 1.3) -> Schedule:
    """Releases after first, first x ratio, first x ratio^2, ... users, and after the last one: 32 of them for 1e5 episodes."""
    episodes, first, ratio = (
        whole("episodes", episodes, at_least=1),
        whole("first", first, at_least=1),
        real("ratio", ratio, above=1),
    )
    check_size(releases=_BYTES * math.ceil(math.log(max(episodes / first, 1)) / math.log(ratio)))
    times: list[int] = []
    time = float(first)
    while round(time) < episodes:
        times.append(max(round(time), times[-1] + 1 if times else 1))
        time *= ratio
    return Schedule((*(time for time in times if time < episodes), episodes))


def custom(times: Sequence[int]) -> Schedule:
    return Schedule(times)


def divide_users(users: int, shares: Iterable[float]) -> list[int]:
    """Divide so many users by shares that need not add up to one: whole numbers that add up.

    Planning and serving divide the same users, so both must call this function.
    """
    sums_of_shares = list(accumulate(map(float, shares)))
    all_shares = sums_of_shares[-1]
    # A sum that is a whole number but for its rounding must not lose a user.
    ends = [math.floor(users * (share / all_shares) + 1e-9) for share in sums_of_shares]
    ends[-1] = users
    return [end - start for start, end in pairwise([0, *ends])]
