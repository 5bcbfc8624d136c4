"""First-visit returns regressed on public features: one user's rows, added up, as one query.

PRIVATE side. The numbers of a `VisitRows` bound are what noise is calibrated to: they follow from a
public table, and must never be too small.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from confide.errors import InvalidParameter
from confide.evaluation import _contribution_kernels as _kernels
from confide.evaluation.contributions import sum_users
from confide.identity import Identity
from confide.mechanisms.symmetric import smat, svec_size
from confide.privacy.bounded import Array, Bounded, grid_for
from confide.privacy.request import Relation
from confide.trajectory import LoggedUsers

# How many pairs of states are held in memory at a time. A matter of taste.
_PAIRS_IN_MEMORY = 2**21
# For more states than this, not all pairs are looked at, but a bound is used. A matter of taste.
_MOST_STATES_FOR_PAIRS = 2**11


@dataclass(frozen=True, slots=True)
class VisitRows:
    """Sums f = (sum x x^T, kappa sum v g x) over at most K different states s.

    (x, v) = (x_s, v_s) are from a public table, kappa = `balance`, and |g| <= 1.

    Enforced: rows are looked up, a state counts once for a user, and g is clipped. Whatever a
    user's data are, f is such a sum, or zero.

    The numbers here are public properties of the table. With t = x_s.x_s' they hold for all sets S,
    S' of at most K states:
        trace    >= sum_S (||x_s||^2 + kappa^2 v_s^2 / 2)
        design   >= ||sum_S x x^T||_F^2 = sum_SxS t^2
        response >= ||kappa sum_S v g x||^2, for all |g| <= 1
        overlap  >= sum_SxS' (kappa^2 v v' |t| - t^2)_+

    Sensitivity. With w = (x, kappa v g / sqrt(2)), f is isometric to two of the three blocks of the
    PSD matrix M = sum_S w w^T, whose trace is at most `trace`. For PSD matrices <M, M'> >= 0, so
        null <= trace, replace <= sqrt(2) trace.
    Also null, ||f||, is at most sqrt(design + response), and replace is bounded by
        ||f - f'||^2 = ||f||^2 + ||f'||^2 - 2 <f, f'>,
        -<f, f'> = -sum_SxS' (t^2 + kappa^2 v v' g g' t) <= overlap.
    At the same time -<f, f'> <= response, since <sum x x^T, sum x' x'^T> >= 0. The smallest of
    these bounds is taken.

    For orthonormal x (a table of states), replace is 2 kappa sqrt(K) if kappa >= 1, attained by the
    same states with g = -g', and sqrt(2 K (1 + kappa^2)) if kappa <= 1, attained by different
    states if there are 2K. In L1 it is sqrt(size) times as much. Rounding moves each coordinate of
    either neighbour by half a grid step, which is added.
    """

    # The numbers are properties of a public table, which a certificate does not hold.
    of_table: ClassVar[bool] = True

    dimension: int
    trace: float
    design: float
    response: float
    overlap: float
    balance: float = 1.0

    def __post_init__(self) -> None:
        if (
            isinstance(self.dimension, bool)
            or not isinstance(self.dimension, int)
            or self.dimension < 1
        ):
            raise InvalidParameter.of(
                "dimension", "must be a whole number, at least 1", got=f"{self.dimension}"
            )
        for name in ("trace", "design", "response", "balance"):
            if not 1e-50 < getattr(self, name) < 1e50:
                raise InvalidParameter.of(
                    name, "must be positive and finite", got=f"{getattr(self, name)}"
                )
        if not 0 <= self.overlap < 1e50:
            raise InvalidParameter.of(
                "overlap", "must be finite and not negative", got=f"{self.overlap}"
            )

    def identity(self) -> Identity:
        return Identity(
            "visit-rows",
            1,
            dimension=self.dimension,
            trace=self.trace,
            design=self.design,
            response=self.response,
            overlap=self.overlap,
            balance=self.balance,
        )

    @property
    def about(self) -> str:
        return "rows of a regression of first-visit returns"

    @property
    def size(self) -> int:
        return svec_size(self.dimension) + self.dimension

    @property
    def largest(self) -> float:
        return self._null

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    @property
    def _null(self) -> float:
        return min(self.trace, math.sqrt(self.design + self.response))

    def sensitivity(self, relation: Relation) -> float:
        rounding = math.sqrt(self.size) * self.grid
        if relation == Relation.NULL:
            return self._null + rounding
        by_norms = math.sqrt(2 * (self.design + self.response + min(self.overlap, self.response)))
        return min(math.sqrt(2) * self.trace, by_norms) + rounding

    def l1_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(self.size) * self.sensitivity(relation)

    def contains(self, values: Array) -> bool:
        """Whether this may be a sum of rows of some table with these numbers.

        The bound does not know which rows are in its own table.
        """
        split = svec_size(self.dimension)
        A = smat(values[:split], self.dimension)
        b = values[split:]
        rounding = self.size * self.grid
        return bool(
            np.trace(A) <= self.trace + rounding
            and np.linalg.norm(values) <= self._null + rounding
            and np.linalg.norm(A) <= math.sqrt(self.design) + rounding
            and np.linalg.norm(b) <= math.sqrt(self.response) + rounding
            and np.linalg.eigvalsh(A)[0] >= -rounding
        )

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector, or users' rows [..., size] -> (A [..., d, d], b [..., d]).

        kappa is divided out.
        """
        split = svec_size(self.dimension)
        return smat(values[..., :split], self.dimension), values[..., split:] / self.balance


def visit_rows(table: Array, scales: Array, visits: int, balance: float) -> VisitRows:
    """The bound for this public table x [s, d] with scales v [s] and K = `visits`.

    A sum over S x S' of non-negative entries is at most the sum of the K largest among the rows'
    sums of their K largest entries, and at most the sum of all. Also ||sum v g x||^2 <= (sum_S v^2)
    lambda_max(sum_S x x^T) <= (the K largest v^2) lambda_max(sum x x^T).
    """
    K = min(visits, len(table))
    kappa = balance
    squares = (table**2).sum(axis=1)
    trace = _sum_of_largest(squares + kappa**2 * scales**2 / 2, K)
    largest_eigenvalue = float(np.linalg.eigvalsh(table.T @ table)[-1])
    response_by_eigenvalue = kappa**2 * _sum_of_largest(scales**2, K) * largest_eigenvalue
    if len(table) > _MOST_STATES_FOR_PAIRS:
        design = min(_sum_of_largest(squares, K), largest_eigenvalue) * _sum_of_largest(squares, K)
        response = response_by_eigenvalue
        return VisitRows(table.shape[1], trace, design, response, response, kappa)
    # Of each state, the sums of its K largest entries of t^2, of kappa^2 v v' |t|, and of the
    # excess of the second over the first: [quantity, state].
    row_sums = np.empty((3, len(table)))
    total_design = 0.0
    total_response = 0.0
    step = max(1, _PAIRS_IN_MEMORY // len(table))
    for first in range(0, len(table), step):
        rows = slice(first, first + step)
        t = np.abs(table[rows] @ table.T)
        squared = t**2
        weighted = kappa**2 * np.outer(scales[rows], scales) * t
        total_design += float(squared.sum())
        total_response += float(weighted.sum())
        for place, entries in enumerate((squared, weighted, np.maximum(weighted - squared, 0.0))):
            largest_entries = np.partition(entries, -K, axis=1)[:, -K:]
            row_sums[place, rows] = largest_entries.sum(axis=1)
    design, response, overlap = (_sum_of_largest(row, K) for row in row_sums)
    response = min(response, total_response, response_by_eigenvalue)
    return VisitRows(
        table.shape[1],
        trace,
        min(design, total_design),
        response,
        min(overlap, response),
        kappa,
    )


@dataclass(frozen=True, slots=True, eq=False)
class VisitSums:
    """Turns whole users into sums over their first K different states, K = `visits`.

    They are sums of g = (F - centre)/radius clipped to [-1, 1], where F is the discounted sum of
    rewards from the first visit on. A state counts once for a user, in the first trajectory that
    has it. Which visits count is decided before their returns are, so what is kept is unbiased.
    Users who are not valid, or have a state that does not exist or a reward that is not finite,
    contribute zero.
    """

    bound: VisitRows
    table: Array = field(repr=False)  # x [s, d]
    scales: Array = field(repr=False)  # v [s]
    visits: int
    discount: float
    centre: float
    radius: float

    def per_user(self, users: LoggedUsers) -> Array:
        """[user, coordinate], before rounding. PRIVATE."""
        return _kernels.visit_sums(
            users.states,
            users.rewards,
            users.trajectories,
            users.users,
            users.valid,
            self.table,
            self.bound.balance * self.scales,
            self.visits,
            self.discount,
            self.centre,
            self.radius,
        )

    def contribution(self, users: LoggedUsers) -> Bounded:
        return sum_users(self, users)


def _sum_of_largest(values: Array, count: int) -> float:
    return float(np.sort(values)[-count:].sum())
