"""The rows and transitions of logged users, counted with weights.

PRIVATE until a privatizer has added noise. What leaves this file is a `Bounded` sum, and the
`identity` of the bound, which stands in ledgers and certificates.

Nothing here may be changed without a new proof: privacy rests on the sensitivity of `RootCounts`,
and that on the clipping in `RootTransitions` and its kernel, which holds for any data.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.arguments import flag, real, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.offline import _counting_kernels as _kernels
from confide.privacy.bounded import Array, Bounded, grid_for
from confide.privacy.request import Relation, parse_relation
from confide.tables.support_features import Support
from confide.trajectory import LoggedUsers

_NO_GAPS = np.zeros(0, np.bool_)
# The most transitions of one user. Required for privacy: with more, the products of weights and
# rewards would not be exact.
MOST_TRANSITIONS = 2**20


@dataclass(frozen=True, slots=True)
class RootCounts:
    """Weighted counts N of `cells` transitions, and of `rows` where the next state is not known
    (`cuts`), w times the totals of `rows`, kappa times their sums of rewards, and first states.

    Enforced, whatever a user's data are: at most K = `transitions` rows count, each in one cell of
    its row, a cut being one cell more. With `root` weights the i-th one in the same row weighs
    sqrt(i) - sqrt(i - 1), else 1. Rewards are clipped to [-1, 1]. One first state counts, if
    `starts` > 0. w = `total_weight`, kappa = `reward_weight`; where they are zero, these parts are
    left out, as `cuts` may be.

    Sensitivity. A row that counted n_r times has cells u_r >= 0 that sum to U_r = sqrt(n_r), so
    ||u_r||^2 <= U_r^2 = n_r, and a sum of rewards v_r, |v_r| <= U_r; sum_r U_r^2 <= Q = K. With
    weights of 1, U_r = n_r, and sum_r U_r^2 <= Q = K^2. Cuts are among the cells, and totals are
    those of all cells, cuts included. Null: ||user||^2 <= Q (1 + w^2 + kappa^2) + 1 (the first
    state). Replace, row by row: ||u - u'||^2 <= U^2 + U'^2, because no cell is negative, and
        w^2 (U - U')^2 + kappa^2 (v - v')^2 <= w^2 (U - U')^2 + kappa^2 (U + U')^2
            = (w^2 + kappa^2)(U^2 + U'^2) + 2 (kappa^2 - w^2) U U' <= (kappa^2 + max(kappa^2, w^2))
            (U^2 + U'^2).
    Summed over rows: 2 Q (1 + kappa^2 + max(kappa^2, w^2)) + 2. Attained: each user K times in one
    cell, of two rows if kappa <= w, of the same row with opposite rewards if kappa >= w. In L1 a
    user's cells sum to sum_r U_r <= sqrt(K min(K, rows)) = L, or K for weights of 1, hence (1 + w +
    kappa) L + 1, and twice that for replace.

    Arithmetic: weights add up to sqrt(n_r) rounded down to 2^-16 of the largest, so that w times
    them is on the grid, and rewards are rounded towards zero: nothing exceeds the above.
    """

    cells: int
    rows: int
    starts: int
    transitions: int
    total_weight: float = 0.5
    reward_weight: float = 0.0
    cuts: bool = False
    root: bool = True

    def __post_init__(self) -> None:
        flag("cuts", self.cuts)
        flag("root", self.root)
        whole("cells", self.cells, at_least=1)
        whole("rows", self.rows, at_least=1)
        whole("starts", self.starts, at_least=0)
        whole("transitions", self.transitions, at_least=1, at_most=MOST_TRANSITIONS)
        for name in ("total_weight", "reward_weight"):
            weight = real(name, getattr(self, name), at_least=0, at_most=1)
            if weight * _kernels.PART != int(weight * _kernels.PART):
                raise InvalidParameter.of(
                    name, f"must be a multiple of 1/{_kernels.PART}", got=f"{weight}"
                )

    def identity(self) -> Identity:
        return Identity(
            "root-counts",
            2,
            cells=self.cells,
            rows=self.rows,
            starts=self.starts,
            transitions=self.transitions,
            total_weight=self.total_weight,
            reward_weight=self.reward_weight,
            cuts=self.cuts,
            root=self.root,
        )

    @property
    def about(self) -> str:
        kind_of_counts = "root-weighted counts" if self.root else "counts"
        return f"{kind_of_counts} of at most {self.transitions} transitions of a user"

    @property
    def size(self) -> int:
        return (
            self.cells
            + self.rows * (self.cuts + (self.total_weight > 0) + (self.reward_weight > 0))
            + self.starts
        )

    @property
    def largest(self) -> float:
        return math.sqrt(self._squares)

    @property
    def grid(self) -> float:
        # Weights of 1 are on any grid, and totals of all rows of a log must be exact.
        return grid_for(self.largest if self.root else 1.0)

    @property
    def _squares(self) -> int:
        """The most that the squares of a user's row totals add up to."""
        return self.transitions if self.root else self.transitions**2

    @property
    def _most(self) -> float:
        """The most that a user's cells add up to."""
        K = self.transitions
        return math.sqrt(K * min(K, self.rows)) if self.root else float(K)

    def sensitivity(self, relation: Relation) -> float:
        Q = self._squares
        w = self.total_weight**2
        kappa = self.reward_weight**2
        start = int(self.starts > 0)
        if parse_relation(relation) == Relation.NULL:
            return math.sqrt(Q * (1 + w + kappa) + start)
        return math.sqrt(2 * (Q * (1 + kappa + max(kappa, w)) + start))

    def l1_sensitivity(self, relation: Relation) -> float:
        one = (1 + self.total_weight + self.reward_weight) * self._most + (self.starts > 0)
        return one if parse_relation(relation) == Relation.NULL else 2 * one

    def contains(self, values: Array) -> bool:
        """Nothing negative but rewards, which are at most the row's total; each part within its
        norms; at most one first state.
        """
        counts, cuts, totals, rewards, starts = self.unpack(values)
        K = self.transitions
        room = 1 + 1e-9
        cells = np.concatenate([counts, cuts])
        inside = bool(
            (cells >= 0).all() and (totals >= 0).all() and (starts >= 0).all() and starts.sum() <= 1
        )
        if totals.size and rewards.size:
            inside = inside and bool(
                (np.abs(rewards) <= totals + K * self.grid / self.total_weight).all()
            )
        return inside and all(
            float(np.linalg.norm(part)) <= math.sqrt(self._squares) * room
            and float(np.abs(part).sum()) <= self._most * room
            for part in (cells, totals, rewards)
        )

    def unpack(self, values: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Counts [cell], cut rows [row], row totals [row], row sums of rewards [row], first states
        [state], weights divided out; empty if left out.
        """
        lengths = (
            self.cells,
            self.rows * self.cuts,
            self.rows * (self.total_weight > 0),
            self.rows * (self.reward_weight > 0),
        )
        counts, cuts, totals, rewards, starts = np.split(values, np.cumsum(lengths))
        return (
            counts,
            cuts,
            totals / (self.total_weight or 1.0),
            rewards / (self.reward_weight or 1.0),
            starts,
        )


@dataclass(frozen=True, slots=True, eq=False)
class RootTransitions:
    """Turns whole users into weighted counts of their first K rows, over their trajectories in
    order.

    Which rows count, and with what weight, depends on the past alone: the cells of a row are in
    proportion to its transition probabilities, whatever is cut. A row whose successor is not known
    counts as cut, with its reward: the last row of a trajectory, unless it leads to the end; a row
    before missing steps; and a row of a terminal state, after which nothing of its trajectory
    counts. Without cuts in the bound such rows are dropped. Transitions that the support says
    cannot be are dropped, too. A user who is not valid, or has a state or an action that does not
    exist anywhere, contributes zero. The first state is that of the first trajectory. Picklable;
    totals are whole numbers, the same bits for any partitioning.
    """

    bound: RootCounts
    support: Support
    # States that may be logged. The support has one more if ends of trajectories count as
    # transitions.
    logged: int
    # Rows of a trajectory from which on the log may have cut it.
    longest: int
    centre: float = 0.0
    radius: float = 1.0
    # The weight of the i-th visit to a row, in steps of the grid.
    weights: npt.NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        bound = self.bound
        support = self.support
        if (
            bound.cells != support.cells
            or bound.rows != support.pairs
            or support.states - self.logged not in (0, 1)
        ):
            raise InvalidParameter("the bound and the support are of different sizes")
        parts = round(1 / bound.grid) // _kernels.PART
        if bound.root:
            roots = [math.isqrt(i * parts**2) for i in range(bound.transitions + 1)]
            weights = np.diff(roots, prepend=0)
        else:
            weights = np.full(bound.transitions + 1, parts)
        object.__setattr__(self, "weights", weights * _kernels.PART)

    def contribution(self, users: LoggedUsers) -> Bounded:
        if users.actions is None:
            raise InvalidParameter('the log has no actions: open it with action="action"')
        bound = self.bound
        sums = np.zeros(bound.size, np.int64)
        _kernels.count(
            users.states,
            users.actions,
            users.rewards,
            users.trajectories,
            users.users,
            users.valid,
            _NO_GAPS if users.gaps is None else users.gaps,
            self.logged,
            self.support.actions,
            self.support.indptr,
            self.support.successors,
            self.weights,
            self.longest,
            int(bound.cuts),
            round(bound.total_weight * _kernels.PART),
            round(bound.reward_weight * _kernels.PART),
            float(self.centre),
            float(self.radius),
            round(1 / bound.grid) if bound.starts else 0,
            sums,
        )
        return Bounded(sums.astype(np.float64) * bound.grid, bound, users.count)
