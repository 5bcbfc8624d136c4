"""What held-out people contribute to say whether a policy is better: gains and returns, with their
squares.

PRIVATE until noise is added. What leaves this file is a `Bounded` sum, and the `identity` of
`Moments`, which stands in ledgers and certificates. Nothing here may be changed without a new
proof: privacy rests on the sensitivity of `Moments`, and the truth of a bound on what counts where
a trajectory is not known (`Gains`, `Shortfalls`).
"""

import math
from dataclasses import dataclass, field

import numpy as np

from confide.arguments import real
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.offline import _gain_kernels as _kernels
from confide.offline.table_features import Array, Bools, LoggedTable
from confide.privacy.bounded import Bounded, grid_for
from confide.privacy.request import Relation, parse_relation
from confide.trajectory import LoggedUsers

# The weight of squares beside the numbers. They cost at most 5.4 % more noise on the sum with it.
BALANCE = 1 / 3


@dataclass(frozen=True, slots=True)
class Moments:
    """Pairs (x, kappa x^2) with low <= x <= high, low <= 0 <= high: a number of each user and its
    square. kappa = `balance`.

    Enforced: x is clipped; what is not finite contributes zero. Sensitivity, with m = max(-low,
    high) and kappa m <= 1/2. Null: |x| and x^2 are largest at |x| = m: m sqrt(1 + kappa^2 m^2).
    Replace: f(x, y)^2 = (x - y)^2 (1 + kappa^2 (x + y)^2). Let x > y. If x >= -y, f grows with x:
    d(f^2)/dx = 2 (x - y) (1 + 2 kappa^2 x (x + y)) > 0, so x = high; and it falls with y: the root
    of 1 + 2 kappa^2 y (x + y) needs kappa^2 x^2 >= 2. If x < -y, the same with signs changed. So
    both are at the ends: (high - low) sqrt(1 + kappa^2 (high + low)^2). In L1 |x - y| (1 + kappa |x
    + y|): for x >= -y its derivative in y is -1 - 2 kappa y <= 0, and the ends again: (high -
    low)(1 + kappa |high + low|). Both are attained. Rounding moves each coordinate of either
    neighbour by half a grid step, which is added.
    """

    low: float
    high: float
    balance: float = BALANCE

    def __post_init__(self) -> None:
        real("low", self.low, at_least=-1e3, at_most=0)
        real("high", self.high, at_least=0, at_most=1e3)
        real("balance", self.balance, at_least=1e-3, at_most=1e3)
        if not self.high - self.low >= 1e-3 or self.balance * self._most > 0.5:
            raise InvalidParameter(
                f"low < high and balance * max(-low, high) <= 1/2 must hold, got {self}"
            )

    def identity(self) -> Identity:
        return Identity("moments", 1, low=self.low, high=self.high, balance=self.balance)

    @property
    def _most(self) -> float:
        return max(-self.low, self.high)

    @property
    def about(self) -> str:
        return f"a number in [{self.low:g}, {self.high:g}] and its square"

    @property
    def size(self) -> int:
        return 2

    @property
    def largest(self) -> float:
        return max(self._most, self.balance * self._most**2)

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        m = self._most
        k = self.balance
        if parse_relation(relation) == Relation.NULL:
            exact = m * math.hypot(1, k * m)
        else:
            exact = (self.high - self.low) * math.hypot(1, k * (self.high + self.low))
        return exact + math.sqrt(2) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        m = self._most
        k = self.balance
        if parse_relation(relation) == Relation.NULL:
            return m * (1 + k * m) + 2 * self.grid
        return (self.high - self.low) * (1 + k * abs(self.high + self.low)) + 2 * self.grid

    def contains(self, values: Array) -> bool:
        """Whether this can be one user."""
        x, square = values
        in_range = self.low - self.grid <= x <= self.high + self.grid
        # Rounding moves x and its square.
        room = (1 + 2 * self.balance * self._most) * self.grid
        return bool(in_range and abs(square - self.balance * x**2) <= room)

    def sum_of_numbers(self, numbers: Array, unit: float) -> Bounded:
        """Clip one number per user [user], divided by the unit, and add them up with their squares.

        A number that is not finite contributes zero.
        """
        # NumPy would warn about numbers that are not finite, and a warning must not depend on data.
        with np.errstate(all="ignore"):
            finite = np.where(np.isfinite(numbers), numbers / unit, 0.0)
            x = np.clip(finite, self.low, self.high)
            columns = (x, self.balance * x**2)
            sums = np.array([np.rint(column / self.grid).sum() for column in columns])
        return Bounded(sums * self.grid, self, len(numbers))


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """How much more a mixture of the policy with the logged one would have earned: D = sum_t
    discount^t r_t (min(rho_t, clip) - 1).

    rho_t is the product up to step t of 1 - share + share target(a | s) / p, p the logged
    probability of the action; 1 where the policy goes on as logged.

    Range: rewards are public or clipped, and not negative, so that -worth <= D <= (clip - 1) worth,
    worth = rest [-1] being the most that a return can be. `rest` [k] is the most that k steps can
    earn. Divided by clip * worth, D lies in [-1/clip, 1 - 1/clip].

    What is not known: a user's first trajectory counts, up to the first step that is missing. After
    it, and after a record that stops early and at no end, the least that D can be counts, so the
    bound on the gain stays one from below. A user who is not valid contributes zero, as if the
    policy changed nothing for them.
    """

    bound: Moments
    table: LoggedTable
    target: Array = field(repr=False)
    changed: Bools = field(repr=False)
    rest: Array = field(repr=False)
    share: float
    clip: float

    def contribution(self, users: LoggedUsers) -> Bounded:
        if users.actions is None or users.probabilities is None:
            raise InvalidParameter(
                "gains need logs with actions and the probabilities of taking them"
            )
        table = self.table
        highest = float(self.rest[-1])
        gains = _kernels.gains(
            users.states,
            users.actions,
            users.rewards,
            users.probabilities,
            users.trajectories,
            users.users,
            users.valid,
            _gaps(users),
            self.target,
            self.changed,
            table.terminal,
            _public_rewards(table),
            table.reward_low,
            table.reward_high,
            float(table.discount),
            self.rest,
            table.ends,
            float(self.share),
            float(self.clip),
        )
        return self.bound.sum_of_numbers(gains, self.clip * highest)


@dataclass(frozen=True, slots=True, eq=False)
class Shortfalls:
    """How far each user's return is below the most that it can be, over the range of returns: in
    [0, 1].

    A user who is not valid contributes zero, which is as if their return were the largest: for an
    upper bound of the mean return. After the first step that is missing, the most counts that could
    have followed. `rest` [k] is the most that k steps can earn.
    """

    bound: Moments
    table: LoggedTable
    rest: Array = field(repr=False)
    lowest: float

    def contribution(self, users: LoggedUsers) -> Bounded:
        if users.actions is None:
            raise InvalidParameter('the log has no actions: open it with action="action"')
        table = self.table
        highest = float(self.rest[-1])
        returns = _kernels.returns(
            users.states,
            users.actions,
            users.rewards,
            users.trajectories,
            users.users,
            users.valid,
            _gaps(users),
            table.terminal,
            table.actions,
            _public_rewards(table),
            table.reward_low,
            table.reward_high,
            float(table.discount),
            self.rest,
            table.ends,
            highest,
        )
        return self.bound.sum_of_numbers(highest - returns, highest - self.lowest)


def _gaps(users: LoggedUsers) -> Bools:
    """Whether steps are missing before each row; nothing, if the log does not number its steps."""
    return np.zeros(0, dtype=np.bool_) if users.gaps is None else users.gaps


def _public_rewards(table: LoggedTable) -> Array:
    return np.zeros((0, 0)) if table.rewards is None else table.rewards
