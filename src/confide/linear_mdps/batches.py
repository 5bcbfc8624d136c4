"""Batch schedules for agents that spend budget on each policy change [Luyo21, Section 4, Remarks 4, 7 and 8]."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.mechanisms.additive import additive_noise
from confide.mechanisms.counters import Exact
from confide.privacy.bounded import Bound
from confide.privacy.loss import Loss
from confide.privacy.request import LocalDP, Relation, Request
from confide.privatizers import Schedule, every, every_episode, geometric


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Lambda is released at the schedule's times, and policies may change there, `switches` times at most.

    growth=None: at every time. Otherwise where a released Lambda is, in some direction, `growth` times what it was at the last change:
    the rule looks at releases and at nothing else, so that the times of changes are public, and the cap is fixed in advance, so that what
    a change costs is known. (The determinant of the exact Lambda, as without privacy, would tell about single users: Remark 8.
    Remark 4 names the sparse vector technique as another way to protect the times.)
    """

    schedule: Schedule
    switches: int
    growth: float | None = None

    def __post_init__(self) -> None:
        if (
            isinstance(self.switches, bool)
            or not isinstance(self.switches, int)
            or self.switches < 1
        ):
            raise InvalidParameter(
                f"switches must be a whole number, at least 1, got switches={self.switches}"
            )
        if self.growth is not None and not 1 < self.growth < math.inf:
            raise InvalidParameter(f"growth must be above 1, got growth={self.growth}")
        if self.growth is None and self.switches != _before_the_end(self.schedule):
            raise InvalidParameter(
                "without growth the policy changes at every time of the schedule but the last"
            )

    def identity(self) -> Identity:
        return Identity(
            "batches",
            1,
            schedule=self.schedule,
            switches=self.switches,
            growth=self.growth,
        )

    def shares(self, steps: int, weights: Sequence[float] | None = None) -> tuple[float, ...]:
        """Of the budget for responses, one for each switch and step; by default more for later ones, which serve more users.

        In proportion to the fourth root of the users so far, rounded to a power of two: equal shares are one line of a certificate.
        """
        times = self.schedule.times
        late = (
            [2 ** (round(math.log2(time)) / 4) for time in times[: self.switches]]
            if self.growth is None
            else [1.0] * self.switches
        )
        chosen = late if weights is None else list(weights)
        if len(chosen) != self.switches:
            raise InvalidParameter(
                f"weights must be {self.switches}, one for each change of policy, got {len(chosen)}"
            )
        total = math.fsum(chosen) * steps * (1 + 1e-12)
        return tuple(weight / total for weight in chosen for _ in range(steps))


def at_every(schedule: Schedule) -> BatchPlan:
    """A change at each time of the schedule, but for the last: nobody comes after it."""
    return BatchPlan(schedule, _before_the_end(schedule))


def static(episodes: int, batches: int) -> BatchPlan:
    """[Luyo21, Alg. 2]: a change every ceil(K / B) episodes."""
    if not 1 <= batches <= episodes:
        raise InvalidParameter(
            f"batches must be between 1 and episodes={episodes}, got batches={batches}"
        )
    return at_every(every(math.ceil(episodes / batches), episodes))


def growing(episodes: int, *, first: int = 30, ratio: float = 1.3) -> BatchPlan:
    """Geometric: batches that grow by `ratio`."""
    return at_every(geometric(episodes, first=first, ratio=ratio))


def adaptive(
    episodes: int, *, switches: int = 20, growth: float = 2.0, first: int = 200, ratio: float = 1.15
) -> BatchPlan:
    """Where a released Lambda has grown, looked at on a geometric grid."""
    grid = geometric(episodes, first=first, ratio=ratio)
    return BatchPlan(grid, min(switches, _before_the_end(grid)), growth)


def one_by_one(episodes: int) -> BatchPlan:
    """[Luyo21, Remark 7]: B = K."""
    return at_every(every_episode(episodes))


def _before_the_end(schedule: Schedule) -> int:
    return max(schedule.leaves - 1, 1)


def first_release(
    bound: Bound, loss: Loss, episodes: int, *, privacy: Request, deviations: float, least: int
) -> int:
    """Before that many users even a count of all of them is within so many standard deviations of its noise; at least `least`."""
    made = additive_noise(
        bound, loss, Relation(privacy.relation), Exact(1), discrete=False, users=1
    )
    # the noise grows with the root of the users: a third of the deviations will do
    if isinstance(privacy, LocalDP):
        deviations = deviations**2 * made.std / 9
    return max(1, min(max(least, math.ceil(deviations * made.std)), episodes // 4))
