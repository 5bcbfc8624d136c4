"""First-visit returns, counted and added up state by state [Balle16, Section 2.2].

PRIVATE side: this is what private policy evaluation is made of. The bound `FirstVisits` is what
noise is calibrated to, so a change needs a proof, and a case in tests/conformance/test_bounds.py.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.evaluation import _visit_kernels as _kernels
from confide.identity import Identity
from confide.privacy.bounded import Array, Bounded, grid_for
from confide.privacy.request import Relation
from confide.trajectory import LoggedUsers

# The largest scale kappa of squared returns. Required for privacy: kappa^2 <= 2.56, and the proof
# in `FirstVisits` needs kappa^2 <= 2.77.
_LARGEST_SQUARES_SCALE = 1.6


@dataclass(frozen=True, slots=True)
class FirstVisits:
    """Counts and sums (h n_s, sum g)_s of returns g in [-1, 1].

    With kappa = `squares` > 0 there are also kappa sum (g^2 - 1/2).

    Enforced: a user has at most L = `trajectories`. Each of them adds one row
        f = (h, g, kappa (g^2 - 1/2)), h = `balance`,
    for at most K = `visits` different states among N = `states`. A user whose data make no sense
    adds nothing.

    Sensitivity of one trajectory, squared. A state that only one of two neighbours visits moves by
    at most
        u = h^2 + 1 + kappa^2/4.
    A state that both visit, with returns g and g', moves by
        (g - g')^2 + kappa^2 (g^2 - g'^2)^2 = x^2 (1 + kappa^2 y^2),
    where x = |g - g'| and y = |g + g'| <= 2 - x. This is at most 4, which g = -g' = 1 attains, if
        kappa^2 <= (2 + x)/(x^2 (2 - x)) for all x.
    The right side is least at x = sqrt(5) - 1, where it is more than 2.77.

    With c common states, and a and b that only one of them visits, the square is at most
        4 c + u (a + b), where a + c <= K, b + c <= K and a + b + c <= N.
    A linear programme takes its maximum at a corner:
        c = K, a = b = 0                       4 K
        c = 0, a + b = min(2 K, N)             u min(2 K, N)
        c = 2 K - N, a = b = N - K, if 2K > N  4 (2 K - N) + 2 u (N - K)
    So for h = 1 and kappa = 0, replace is 2 sqrt(K) if 2K <= N, and never more. For K = N it is
    2 sqrt(N) up to h = sqrt(3). null is a trajectory against nothing, sqrt(K u).

    In L1 the corners are the same, with h + 1 + kappa/2 in the place of u, and in the place of 4
    the maximum over x of x + kappa x (2 - x). This is 2 up to kappa = 1/2, and (1 + 2 kappa)^2/(4
    kappa) from there on. null is K (h + 1 + kappa/2).

    L trajectories are L such terms (a missing one is nothing, which the corners cover): at most L
    times as far apart by the triangle inequality, attained by L equal ones.

    Arithmetic: g is rounded to a grid that holds +-1, and h and kappa/2 are put on it. Rounding
    leaves the bounds above as they are, but for the squares of common states, half a grid step for
    each neighbour, which is added.
    """

    states: int
    visits: int
    trajectories: int = 1
    balance: float = 1.0
    squares: float = 0.0

    def __post_init__(self) -> None:
        for name in ("states", "visits", "trajectories"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
                raise InvalidParameter.of(
                    name, "must be a whole number, at least 1", got=f"{value}"
                )
        if self.visits > self.states:
            raise InvalidParameter.of(
                "visits", f"must be at most states={self.states}", got=f"{self.visits}"
            )
        if not 1e-3 <= self.balance <= 1e3:
            raise InvalidParameter.of(
                "balance", "must be between 0.001 and 1000", got=f"{self.balance}"
            )
        if not (self.squares == 0 or 1e-3 <= self.squares <= _LARGEST_SQUARES_SCALE):
            raise InvalidParameter.of(
                "squares",
                f"must be 0, or between 0.001 and {_LARGEST_SQUARES_SCALE}",
                got=f"{self.squares}",
            )

    def identity(self) -> Identity:
        return Identity(
            "first-visits",
            1,
            states=self.states,
            visits=self.visits,
            trajectories=self.trajectories,
            balance=self.balance,
            squares=self.squares,
        )

    @property
    def about(self) -> str:
        return "counts and sums of first-visit returns"

    @property
    def size(self) -> int:
        return self.states * (3 if self.squares else 2)

    @property
    def largest(self) -> float:
        return self.trajectories * max(1.0, self.count_unit)

    @property
    def grid(self) -> float:
        return grid_for(self.trajectories * max(1.0, self.balance))

    @property
    def count_unit(self) -> float:
        """h as it is used: the nearest number on the grid."""
        return round(self.balance / self.grid) * self.grid

    @property
    def square_unit(self) -> float:
        """kappa as it is used: twice a number on the grid."""
        return round(self.squares / (2 * self.grid)) * 2 * self.grid

    def sensitivity(self, relation: Relation) -> float:
        h = self.count_unit
        kappa = self.square_unit
        alone = h**2 + 1 + kappa**2 / 4
        if relation == Relation.NULL:
            return self.trajectories * math.sqrt(self.visits * alone)
        rounding = self.grid * math.sqrt(self.visits) if kappa else 0.0
        return self.trajectories * (math.sqrt(self._largest_corner(4.0, alone)) + rounding)

    def l1_sensitivity(self, relation: Relation) -> float:
        h = self.count_unit
        kappa = self.square_unit
        alone = h + 1 + kappa / 2
        if relation == Relation.NULL:
            return self.trajectories * self.visits * alone
        common = 2.0 if kappa <= 0.5 else (1 + 2 * kappa) ** 2 / (4 * kappa)
        rounding = self.grid * self.visits if kappa else 0.0
        return self.trajectories * (self._largest_corner(common, alone) + rounding)

    def _largest_corner(self, common: float, alone: float) -> float:
        """The largest sum over states.

        A state that both neighbours visit adds `common`, and one that only one of them visits
        `alone`.
        """
        K = self.visits
        N = self.states
        corners = [common * K, alone * min(2 * K, N)]
        if 2 * K > N:
            corners.append(common * (2 * K - N) + 2 * alone * (N - K))
        return max(corners)

    def contains(self, values: Array) -> bool:
        """Whether one user may contribute this.

        Counts are whole, at most L of a state and K L in all. |sum g| <= n, and
        (sum g)^2 / n <= sum g^2 <= n.
        """
        counts, sums, squares = self.unpack(values)
        whole = np.rint(counts)
        possible = (
            (counts == whole)
            & (counts >= 0)
            & (counts <= self.trajectories)
            & (np.abs(sums) <= counts)
        )
        if squares is not None:
            rounding = (self.trajectories + 1) * self.grid / self.square_unit
            divisor = np.maximum(counts, 1.0)
            possible &= squares <= counts + rounding
            possible &= squares * divisor >= sums**2 - rounding * divisor
        return bool(possible.all() and whole.sum() <= self.visits * self.trajectories)

    def unpack(self, values: Array) -> tuple[Array, Array, Array | None]:
        """A released vector -> (counts n, sums of g, sums of g^2) [s], h and kappa divided out.

        The sums of g^2 are None if they were not released.
        """
        parts = values.reshape(-1, self.states)
        counts = parts[0] / self.count_unit
        if not self.squares:
            return counts, parts[1], None
        return counts, parts[1], parts[2] / self.square_unit + counts / 2


@dataclass(frozen=True, slots=True)
class FirstVisitReturns:
    """Turns whole users into counts and sums of first-visit returns.

    They are sums of g = (F - centre)/radius clipped to [-1, 1], where F is the discounted sum of
    rewards from the first visit on. Only the first K different states of a trajectory count.
    Whether a visit does is decided before its return, so what is kept is unbiased. Users who are
    not valid, or have a state that does not exist or a reward that is not finite anywhere,
    contribute zero.

    Picklable. Totals are whole numbers, and have the same bits for any partitioning.
    """

    bound: FirstVisits
    discount: float
    centre: float
    radius: float

    def __post_init__(self) -> None:
        if not 0 <= self.discount <= 1:
            raise InvalidParameter.of("discount", "must be in [0, 1]", got=f"{self.discount}")
        if not (1e-50 < self.radius < 1e50 and abs(self.centre) < 1e50):
            raise InvalidParameter(
                f"returns need a finite range, got {self.centre} +- {self.radius}"
            )

    def contribution(self, users: LoggedUsers) -> Bounded:
        bound = self.bound
        steps = 1 / bound.grid
        sums: npt.NDArray[np.int64] = _kernels.first_visits(
            users.states,
            users.rewards,
            users.trajectories,
            users.users,
            users.valid,
            bound.states,
            bound.visits,
            bound.trajectories,
            float(self.discount),
            float(self.centre),
            float(self.radius),
            steps,
            round(bound.count_unit * steps),
            float(bound.square_unit),
        )
        values: Array = sums[: 3 if bound.squares else 2].ravel().astype(np.float64) * bound.grid
        return Bounded(values, bound, users.count)
