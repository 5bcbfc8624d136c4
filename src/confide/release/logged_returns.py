"""The value of the policy that made a log: the mean return of its users, with its square.

`LoggedReturns.contribution` is PRIVATE until noise is added; `LoggedReturns.value` reads a release.
What leaves this file is the `identity` of `ReturnMoments`, which stands in ledgers and
certificates. The clip and the weights of the three numbers may not be changed without a new proof,
because privacy rests on the sensitivity of `ReturnMoments`. How a value is computed from the
release may be changed freely.
"""

import math
from dataclasses import dataclass

import numpy as np

from confide.arguments import real
from confide.identity import Identity
from confide.privacy.bounded import Array, Bounded, Released, grid_for
from confide.privacy.request import Relation
from confide.release import _return_kernels as _kernels
from confide.release.value import Ratio
from confide.trajectory import LoggedUsers

# The share of the budget for this value, in a release that is about something else, too. A ledger
# is charged the same however a budget is divided.
LOGGED_SHARE = 0.09


@dataclass(frozen=True, slots=True)
class ReturnMoments:
    """One user's (h, g, g^2 - 1/2): that the user counts, the scaled return, and its square. h =
    `count`.

    Enforced: g is clipped to [-1, 1]. A user whose data make no sense adds nothing.

    Sensitivity.

    - Two users who count differ by x = |g - g'| in the second coordinate and by x y in the third
      one, y = |g + g'| <= 2 - x. So the squared distance is x^2 (1 + y^2) <= x^2 (1 + (2 - x)^2),
      which is at most 4, at x = 2: its derivative 2 x (2 x^2 - 6 x + 5) is positive, because 36 <
      40.
    - Somebody who counts is sqrt(h^2 + g^2 + (g^2 - 1/2)^2) <= sqrt(h^2 + 5/4) from somebody who
      does not: g^2 + (g^2 - 1/2)^2 = g^4 + 1/4.
    - So replace is max(2, sqrt(h^2 + 5/4)), and null is sqrt(h^2 + 5/4).
    - In L1: x + x (2 - x) is largest at x = 3/2, where it is 9/4; and h + |g| + |g^2 - 1/2| is at
      most h + 3/2.
    - Rounding moves each coordinate of either neighbour by half a grid step, which is added.
    """

    # About the largest weight that does not raise the sensitivity under replace, where sqrt(h^2 +
    # 5/4) = 2 at h = 1.658.
    count: float = 1.65625

    def __post_init__(self) -> None:
        real("count", self.count, at_least=1e-3, at_most=1e3)

    def identity(self) -> Identity:
        return Identity("return-moments", 1, count=self.count)

    @property
    def about(self) -> str:
        return "a return and its square"

    @property
    def size(self) -> int:
        return 3

    @property
    def largest(self) -> float:
        return max(1.0, self.count)

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        alone = math.sqrt(self.count**2 + 1.25)
        exact = alone if relation == Relation.NULL else max(2.0, alone)
        return exact + math.sqrt(3) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        alone = self.count + 1.5
        exact = alone if relation == Relation.NULL else max(2.25, alone)
        return exact + 3 * self.grid

    def contains(self, values: Array) -> bool:
        """Whether this can be one user."""
        counts = values[0] / self.count
        g = values[1]
        square = values[2]
        room = 4 * self.grid / min(self.count, 1.0)
        if abs(counts) <= room:
            return bool(abs(g) <= room and abs(square) <= room)
        curve = abs(square - (g**2 - 0.5)) <= room
        return bool(abs(counts - 1) <= room and abs(g) <= 1 + room and curve)


@dataclass(frozen=True, slots=True)
class LoggedReturns:
    """Turns whole users into sums of `ReturnMoments`: g is the mean over a user's trajectories.

    The rows of a trajectory are taken for all of it: it ends with the last one. Users who are not
    valid, or have a state of `states` or more or a reward that is not finite, contribute zero.
    """

    states: int
    discount: float
    centre: float
    radius: float
    bound: ReturnMoments = ReturnMoments()

    def contribution(self, users: LoggedUsers) -> Bounded:
        rows = _kernels.scaled_returns(
            users.states,
            users.rewards,
            users.trajectories,
            users.users,
            users.valid,
            self.states,
            float(self.discount),
            float(self.centre),
            float(self.radius),
        )
        counts = rows[:, 0]
        g = rows[:, 1]
        columns = [self.bound.count * counts, g, counts * (g**2 - 0.5)]
        # Whole numbers, so their sum is exact in any order.
        sums = [np.rint(column / self.bound.grid).sum() for column in columns]
        return Bounded(np.array(sums) * self.bound.grid, self.bound, users.count)

    def value(self, answer: Released) -> Ratio:
        """The mean return, with its variances, from the noisy sums.

        The sampling variance comes from the released squares. One standard deviation of their noise
        is added to it, because intervals would be too narrow where it is underestimated; it is at
        most what the range allows.
        """
        noise = answer.noise.std
        # What is released is g^2 - 1/2, so half of the count is added to get g^2.
        count = float(answer.values[0]) / self.bound.count
        total = float(answer.values[1])
        squares = float(answer.values[2]) + count / 2
        mean = min(max(total / count, -1.0), 1.0) if count > 0 else 0.0
        largest_spread = max(count, 0.0) * (1 - mean**2)
        # The sum of (g - mean)^2.
        spread = squares - count * mean**2
        if noise > 0:
            spread = min(max(spread, 0.0) + noise, largest_spread)
        count_noise = noise / self.bound.count
        # The return is centre + radius g.
        c = self.centre
        R = self.radius
        return Ratio(
            numerator=c * count + R * total,
            denominator=count,
            numerator_noise=(c * count_noise) ** 2 + (R * noise) ** 2,
            denominator_noise=count_noise**2,
            shared_noise=c * count_noise**2,
            sampling=R**2 * max(spread, 0.0),
            lowest=c - R,
            highest=c + R,
        )
