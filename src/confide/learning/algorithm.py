"""What the author of an agent writes: what users contribute, and how a release becomes a round.

Everything else that a learner needs is the same for all agents (`learner.py`).

A round is public. A device that plans from a published release must plan the same round as the
server, so planning must not depend on anything but the release. The digest of a round stands in
the messages of devices. All other names and words in this file may be changed freely.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np

from confide.learning.agent import Batch
from confide.learning.arguments import check_policies
from confide.learning.round_digest import round_digest
from confide.mechanisms.counters import Factorisation
from confide.policy import Policy
from confide.privacy.bounded import Bound, Bounded, Memory, Released
from confide.privacy.loss import Loss
from confide.privatizers import AtMost, Batches, Schedule
from confide.privatizers.schedule import divide_users
from confide.trajectory import Trajectories, TransitionCounts

# A device draws its policy by a whole number below this one.
POLICY_DRAWS = 2**128


class Statistic(Protocol):
    """What the users of one round contribute."""

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        """Return the sum of what these users contribute, each of them clipped. PRIVATE."""


@dataclass(frozen=True, eq=False)
class Round:
    """What is decided at one release, all of it public: how the next users are served, and more.

    - `policies` serve the users of the round one after the other.
    - `statistic` says what these users contribute.
    - `memory` has the arrays that planning after the next release needs of this round.
    - `signal` is the size of the released statistics in the units of their noise. Reports compare
      it with the noise.
    - `shares` are the shares of the users, one for each policy. None: all policies have the same.
    - `size` is the bound of the users' contributions and the number of users, if both are decided
      anew in each round. None: the algorithm's bound and the schedule decide them.
    """

    policies: tuple[Policy, ...]
    statistic: Statistic
    memory: Memory = field(default_factory=dict)
    signal: float | None = None
    shares: tuple[float, ...] | None = None
    size: tuple[Bound, int] | None = None

    def __post_init__(self) -> None:
        check_policies(self.policies)

    @cached_property
    def digest(self) -> bytes:
        """What a device's message names: a server never takes it for an answer to another round."""
        coordinates = None if self.size is None else self.size[0].size
        return round_digest(self.policies, self.shares, self.statistic, coordinates)

    def serves(self, users: int) -> list[int]:
        """Return how many of so many users each policy serves."""
        return divide_users(users, self._shares)

    def batch_at(self, position: int, users: int) -> Batch:
        """Return the policy of the user at this position among the users of the round.

        The policies serve `users` users one after the other. The batch ends where the next policy
        begins.
        """
        ends = list(accumulate(self.serves(users)))
        which = bisect_right(ends, position)
        return Batch(self.policies[which], ends[which] - position)

    def draw_policy(self, number: int) -> Policy:
        """Return the policy of a device that drew `number` from range(POLICY_DRAWS).

        The device drew it before there were any data, so the choice says nothing about a user.
        """
        sums_of_shares = np.cumsum(self._shares)
        position = number / float(POLICY_DRAWS) * sums_of_shares[-1]
        return self.policies[int(np.searchsorted(sums_of_shares[:-1], position, side="right"))]

    @property
    def _shares(self) -> tuple[float, ...]:
        return self.shares or (1.0,) * len(self.policies)


@dataclass(frozen=True, slots=True)
class Description:
    """An algorithm in words, for `confide.explain`.

    - `calibration` is "tight", "paper", or a word of the author's own.
    - `planning` says how a release becomes a plan, and what is done about its noise.
    - `rows` are the dimension and the largest norm of the rows of a least-squares regression. None:
      there is no regression.
    """

    calibration: str
    planning: str
    rows: tuple[int, float] | None = None


class Algorithm(Protocol):
    """A bound, and a pure function from releases to rounds.

    The same release must give the same round, on a server and on a device.
    """

    @property
    def bound(self) -> Bound:
        """The bound of one user's contribution."""

    def plan(self, released: Released) -> Round:
        """Plan the round that follows a release.

        `released.memory` is the memory of the round before. Before the first round it contains only
        a public `seed` [] for whatever is drawn at random.
        """

    def describe(self) -> Description:
        """Say in words how the algorithm plans."""


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """All that is chosen before there are data. Agents make it with `tight(...)` or `paper(...)`.

    - `counter` None: the privatizer takes the counter with the least noise.
    - `loss` None: the noise gives the loss that was requested. The constants of some papers give
      another loss, which then stands here.
    - `privatizer` is called like `make_privatizer`. None: `PRIVATIZERS` decides by the request.
    - `constants` says whose constants calibration="paper" has, if the paper does not print them.
    """

    algorithm: Algorithm
    schedule: Schedule | AtMost
    counter: Factorisation | None = None
    loss: Loss | None = None
    privatizer: Callable[..., Batches] | None = None
    constants: str = ""
