"""Plans of batches, for agents that spend budget on each change of policy.

References: [Luyo21, Section 4, Remarks 4, 7 and 8]. A plan is public and part of an agent's
identity. Required for privacy: how many changes of policy there can be, and the share of the budget
of each, are fixed in advance. When they happen depends on releases alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.arguments import choose_schedule
from confide.mechanisms.additive import additive_noise
from confide.mechanisms.counters import Exact
from confide.privacy.bounded import Bound
from confide.privacy.loss import Loss
from confide.privacy.request import LocalDP, Relation, Request
from confide.privatizers import Schedule, every, every_episode, geometric

# Shares of the budget add up to one, less this, so that rounding cannot make them more.
ROUNDING = 1e-12
# The default of `growing`, chosen for a small regret: the factor by which the number of all users
# grows from release to release (docs/agents/linear_mdps.md).
GROWTH = 1.3
# Under local privacy the noise on a sum grows with the square root of its users. There the first
# batch is as large as its noise is at this part of the deviations. A matter of taste.
LOCAL_DEVIATIONS_DIVISOR = 3


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Lambda is released at the schedule's times, and policies may change there.

    They change `switches` times at most. With growth=None they change at every time. Otherwise they
    change where a released Lambda is, in some direction, `growth` times what it was at the last
    change. This rule looks at releases and at nothing else, so the times of changes are public. The
    number of changes is limited in advance, so it is known what they cost.

    The determinant of the exact Lambda, which is used without privacy, would tell about single
    users (Remark 8). Remark 4 names the sparse vector technique as another way to protect the
    times.
    """

    schedule: Schedule
    switches: int
    growth: float | None = None

    def __post_init__(self) -> None:
        is_whole = isinstance(self.switches, int) and not isinstance(self.switches, bool)
        if not is_whole or self.switches < 1:
            raise InvalidParameter(
                f"switches must be a whole number, at least 1, got switches={self.switches}"
            )
        if self.growth is not None and not 1 < self.growth < math.inf:
            raise InvalidParameter(f"growth must be above 1, got growth={self.growth}")
        expected = _times_before_the_end(self.schedule)
        if self.growth is None and self.switches != expected:
            raise InvalidParameter(
                f"switches must be {expected} without growth, because the policy changes at every "
                f"time of the schedule but the last, got switches={self.switches}"
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
        """The shares of the budget for responses, one for each change of policy and each step.

        By default later changes get more, because they serve more users: in proportion to the
        fourth root of the users so far, rounded to a power of two. So many shares are equal, and
        equal shares are one line of a certificate.
        """
        if weights is None:
            weights = self._weights_of_changes()
        if len(weights) != self.switches:
            raise InvalidParameter(
                f"weights must be {self.switches}, one for each change of policy, "
                f"got {len(weights)}"
            )
        total = math.fsum(weights) * steps * (1 + ROUNDING)
        return tuple(weight / total for weight in weights for _ in range(steps))

    def _weights_of_changes(self) -> list[float]:
        if self.growth is not None:
            # When the policy will change is not known in advance.
            return [1.0] * self.switches
        times = self.schedule.times[: self.switches]
        return [2 ** (round(math.log2(time)) / 4) for time in times]


def choose_batches(schedule: Schedule | BatchPlan | None, episodes: int) -> BatchPlan | None:
    """The batches that were asked for, which must be for this number of users."""
    if not isinstance(schedule, Schedule | BatchPlan | None):
        raise InvalidParameter(
            "schedule must be a Schedule or a plan of batches, such as "
            f"confide.linear_mdps.batches.static, got {type(schedule).__name__}"
        )
    batches = at_every(schedule) if isinstance(schedule, Schedule) else schedule
    if batches is not None:
        choose_schedule(batches.schedule, Schedule((episodes,)))
    return batches


def at_every(schedule: Schedule) -> BatchPlan:
    """A change at each time of the schedule, but for the last: nobody comes after it."""
    return BatchPlan(schedule, _times_before_the_end(schedule))


def static(episodes: int, batches: int) -> BatchPlan:
    """[Luyo21, Alg. 2]: a change every ceil(K / B) episodes."""
    if not 1 <= batches <= episodes:
        raise InvalidParameter(
            f"batches must be between 1 and episodes={episodes}, got batches={batches}"
        )
    return at_every(every(math.ceil(episodes / batches), episodes))


def growing(episodes: int, *, first: int = 30, ratio: float = GROWTH) -> BatchPlan:
    """Geometric: the number of all users grows by `ratio` from release to release."""
    return at_every(geometric(episodes, first=first, ratio=ratio))


def adaptive(
    episodes: int, *, switches: int = 20, growth: float = 2.0, first: int = 200, ratio: float = 1.15
) -> BatchPlan:
    """A change where a released Lambda has grown, looked at on a geometric grid."""
    grid = geometric(episodes, first=first, ratio=ratio)
    return BatchPlan(grid, min(switches, _times_before_the_end(grid)), growth)


def one_by_one(episodes: int) -> BatchPlan:
    """[Luyo21, Remark 7]: B = K."""
    return at_every(every_episode(episodes))


def _times_before_the_end(schedule: Schedule) -> int:
    return max(schedule.leaves - 1, 1)


def first_release(
    bound: Bound, loss: Loss, episodes: int, *, privacy: Request, deviations: float, least: int
) -> int:
    """How many users to wait for before the first release.

    So many that a count of all of them is `deviations` standard deviations of its noise, at least
    `least`, and at most a quarter of all users.
    """
    relation = Relation(privacy.relation)
    noise = additive_noise(bound, loss, relation, Exact(1), discrete=False, users=1)
    if isinstance(privacy, LocalDP):
        deviations = deviations**2 * noise.std / LOCAL_DEVIATIONS_DIVISOR**2
    users = max(least, math.ceil(deviations * noise.std))
    return max(1, min(users, episodes // 4))
