"""Release schedules. They are fixed before there are data, so each user is in exactly one batch.

The users between two releases are a batch, which is one leaf of the counter. Fewer releases mean
fewer leaves, and so less noise and less planning. A batch may be closed before it is full, if the
decision is public (a deadline). The schedule then says how many users and releases there are at
most.

A guarantee names the users and the releases of its schedule, and saved states contain the identity
of a schedule. How a schedule is computed (`every`, `geometric`) may be changed: regret and bits
change, and no guarantee does.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from confide.arguments import check_size, listed, real, whole
from confide.errors import InvalidParameter, StateError, StreamExhausted
from confide.identity import Identity

# The bytes that one release time takes as a Python integer in a tuple (measured).
_BYTES_PER_TIME = 64
# Added before a share of users is rounded down. A share that is a whole number but for its rounding
# must not lose a user. Any number between the rounding (1e-16 of the users) and 1 would do.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Schedule:
    """Releases after times[0], times[1], ... users. The last time is the number of users covered.

    The times increase. They are a range or a tuple of integers.
    """

    times: Sequence[int]

    def __post_init__(self) -> None:
        if not isinstance(self.times, range):
            times = (whole("times", time) for time in listed("times", self.times, object))
            object.__setattr__(self, "times", tuple(times))
        if len(self.times) == 0 or self.times[0] < 1:
            raise InvalidParameter("a schedule needs at least one release, after at least one user")
        if isinstance(self.times, range):
            if self.times.step < 1:
                raise InvalidParameter("release times must increase")
            return
        for early, late in pairwise(self.times):
            if late <= early:
                raise InvalidParameter(f"release times must increase, got {early} before {late}")

    def identity(self) -> Identity:
        times = self.times if isinstance(self.times, range) else np.array(self.times, np.int64)
        return Identity("schedule", 1, times=times)

    @property
    def leaves(self) -> int:
        """How many releases there are."""
        return len(self.times)

    @property
    def users(self) -> int:
        """How many users are covered."""
        return self.times[-1]

    @property
    def first(self) -> int:
        """How many users there are at the first release."""
        return self.times[0]

    def size(self, generation: int) -> int:
        """Return the size of the batch after so many releases, if it is not closed before.

        After the last release it is zero.
        """
        if whole("generation", generation, at_least=0) >= len(self.times):
            return 0
        users_before = self.times[generation - 1] if generation else 0
        return self.times[generation] - users_before


@dataclass(frozen=True, slots=True)
class AtMost:
    """At most so many users in at most so many rounds. Releases decide the sizes of the rounds."""

    users: int
    leaves: int

    def __post_init__(self) -> None:
        for name in ("users", "leaves"):
            object.__setattr__(self, name, whole(name, getattr(self, name), at_least=1))

    def identity(self) -> Identity:
        return Identity("at-most", 1, users=self.users, leaves=self.leaves)

    @property
    def first(self) -> None:
        """Nobody knows in advance how many users there are at the first release."""

    def size(self, generation: int) -> None:
        """Nobody knows the size of a round in advance: `Batches.open` is told."""


def check_left(schedule: Schedule | AtMost, generation: int) -> None:
    """Raise an error unless the guarantee covers another release."""
    if generation >= schedule.leaves:
        plural = "s" if schedule.leaves > 1 else ""
        raise StreamExhausted(
            f"the guarantee covers {schedule.users} users in {schedule.leaves} release{plural}, "
            "and all were made"
        )


def check_batch(covered: int, users_before: int, users_now: int, users: int) -> None:
    """Raise an error unless a whole batch of `users` users may come from outside.

    Nobody may be in the open batch, and the guarantee must cover all of its users.
    """
    whole("users", users, at_least=0)
    if users_now != users_before:
        raise StateError(
            f"{users_now - users_before} users are in the open batch already: "
            "a batch comes as a whole, or user by user"
        )
    if users_before + users > covered:
        raise StreamExhausted(
            f"the guarantee covers {covered} users; this batch would make {users_before + users}"
        )


def every_episode(episodes: int) -> Schedule:
    """A release after every user."""
    return every(1, episodes)


def one_tree(episodes: int) -> Schedule:
    """A release after every user except the last but one.

    Nobody comes after the K-th release, so K - 1 leaves are enough, and the tree has ceil(log2 K)
    levels.
    """
    check_size(episodes=_BYTES_PER_TIME * whole("episodes", episodes, at_least=1))
    return Schedule((*range(1, episodes - 1), episodes))


def every(interval: int, episodes: int) -> Schedule:
    """A release after each `interval` users, and after the last one."""
    interval = whole("interval", interval, at_least=1)
    episodes = whole("episodes", episodes, at_least=1)
    regular = range(interval, episodes + 1, interval)
    if regular and regular[-1] == episodes:
        return Schedule(regular)
    check_size(releases=_BYTES_PER_TIME * len(regular))
    return Schedule((*regular, episodes))


def geometric(episodes: int, *, first: int = 30, ratio: float = 1.3) -> Schedule:
    """Releases after first, first x ratio, first x ratio^2, ... users, and after the last one.

    There are 32 releases for 1e5 episodes with the default values, which are a matter of taste.
    """
    episodes = whole("episodes", episodes, at_least=1)
    first = whole("first", first, at_least=1)
    ratio = real("ratio", ratio, above=1)
    releases = math.ceil(math.log(max(episodes / first, 1)) / math.log(ratio))
    check_size(releases=_BYTES_PER_TIME * releases)
    times: list[int] = []
    exact_time = float(first)
    while round(exact_time) < episodes:
        earliest = times[-1] + 1 if times else 1
        times.append(max(round(exact_time), earliest))
        exact_time *= ratio
    return Schedule((*(time for time in times if time < episodes), episodes))


def custom(times: Sequence[int]) -> Schedule:
    """Releases at these times."""
    return Schedule(times)


def divide_users(users: int, shares: Iterable[float]) -> list[int]:
    """Divide so many users by shares that need not add up to one: whole numbers that add up.

    Planning and serving divide the same users, so both must call this function.
    """
    sums_of_shares = list(accumulate(map(float, shares)))
    all_shares = sums_of_shares[-1]
    ends = [math.floor(users * (share / all_shares) + _ROUNDING) for share in sums_of_shares]
    ends[-1] = users
    return [end - start for start, end in pairwise([0, *ends])]
