"""Where users went, counted under a budget that each of them spends along the way. PRIVATE until a privatizer has added noise."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arguments import real, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.privacy.bounded import Array, Bounded, grid_for, real_numbers
from confide.privacy.request import Relation, parse_relation
from confide.statistics.transitions import indices
from confide.tables import _contribution_kernels as _kernels
from confide.tables.support_features import Support, whole_costs
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class BudgetedCounts:
    """Weighted counts x of `cells` transitions, and with a `balance` weighted sums of rewards in [0, 1], y, of `pairs`.

    Enforced, for any sequence of at most `steps` steps: a step whose pair has the public weight w counts only if the user's budget of 1 can
    pay w^2. The c-th step of a pair that counts adds w (sqrt(c) - sqrt(c - 1)) to one cell, whichever is reached, and `balance` times that
    times the reward to y.

    Sensitivity. A pair that counted c times has added w sqrt(c) to its cells together, and x >= 0, so the squares of its cells sum to at
    most w^2 c. Over all pairs that is what was spent: ||x||^2 <= 1, and so ||y|| <= balance. Null: sqrt(1 + balance^2). Replace: no
    coordinate is negative, so ||v - v'||^2 <= ||v||^2 + ||v'||^2: sqrt(2) times as much, attained by users with no pair in common.
    In L1 a user's cells sum to sum w sqrt(c) <= sqrt(number of pairs it counted in) <= sqrt(min(steps, pairs)), and y to `balance` times
    that; replace: twice as much. All of it is computed in whole numbers, rounded down: there is nothing to add for rounding.
    """

    cells: int
    pairs: int
    steps: int
    balance: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cells", "pairs", "steps"):
            whole(name, getattr(self, name), at_least=1)
        real("balance", self.balance, at_least=0, at_most=1)

    def identity(self) -> Identity:
        return Identity(
            "budgeted-counts",
            1,
            cells=self.cells,
            pairs=self.pairs,
            steps=self.steps,
            balance=self.balance,
        )

    @property
    def about(self) -> str:
        rewards = f", and rewards of {self.pairs} pairs" if self.balance else ""
        return f"weighted counts of {self.cells} transitions{rewards}, of norm at most {self._norm:.4g}"

    @property
    def size(self) -> int:
        return self.cells + (self.pairs if self.balance else 0)

    @property
    def largest(self) -> float:
        return 1.0

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    @property
    def _norm(self) -> float:
        return math.hypot(1.0, self.balance)

    def sensitivity(self, relation: Relation) -> float:
        return self._norm * (1.0 if parse_relation(relation) == Relation.NULL else math.sqrt(2))

    def l1_sensitivity(self, relation: Relation) -> float:
        one = (1 + self.balance) * math.sqrt(min(self.steps, self.pairs))
        return one * (1.0 if parse_relation(relation) == Relation.NULL else 2.0)

    def contains(self, values: Array) -> bool:
        """Nothing negative, and counts and rewards each within their norms in L2 and L1."""
        room, most = 1 + 1e-9, math.sqrt(min(self.steps, self.pairs))
        inside = bool((values >= 0).all())
        for part, size in ((values[: self.cells], 1.0), (values[self.cells :], self.balance)):
            inside = (
                inside
                and float(np.linalg.norm(part)) <= size * room
                and float(part.sum()) <= size * most * room
            )
        return inside

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """Counts [cell], and sums of rewards [pair] with the balance divided out (none: empty)."""
        return values[: self.cells], values[self.cells :] / (self.balance or 1.0)


class BudgetedVisits:
    """Turns the users of one round into budgeted counts: `weights` [pair] are public, and chosen before the round.

    A state, an action or a successor that does not exist, or that the support says cannot follow, drops the step, at no cost; so does a
    reward that is not finite, where rewards are counted. Whether a step counts, and with what weight, depends on the steps before it and on
    its state and action alone: so the cells of a pair are in proportion to its transition probabilities, whatever the budget does.
    """

    def __init__(self, support: Support, weights: Array, bound: BudgetedCounts) -> None:
        if (
            weights.shape != (support.pairs,)
            or bound.cells != support.cells
            or bound.pairs != support.pairs
        ):
            raise InvalidParameter(
                f"weights must have shape ({support.pairs},), got {weights.shape}"
            )
        if not ((weights >= 0) & (weights <= 1)).all():
            raise InvalidParameter("weights must be in [0, 1]")
        self.bound, self._support = bound, support
        self.costs = whole_costs(weights)

    def plain(self) -> dict[str, Any]:
        """For clients: the tables of `_contribution_kernels.budgeted`. Public."""
        support, bound = self._support, self.bound
        sizes = {
            "layers": support.layers,
            "states": support.states,
            "actions": support.actions,
            "steps": bound.steps,
        }
        balance = math.floor(bound.balance * _kernels.PART)
        tables = {
            "indptr": support.indptr.tolist(),
            "successors": support.successors.tolist(),
            "costs": self.costs.tolist(),
        }
        return {"kind": "budget", "balance": balance, **sizes, **tables}

    def tables(self) -> list[npt.NDArray[np.int64]]:
        return [self._support.indptr, self._support.successors, self.costs]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        if isinstance(users, TransitionCounts):
            raise InvalidParameter(
                "a budget is spent along a path: users must come as trajectories, not as counts"
            )
        bound, support = self.bound, self._support
        sums = np.zeros(bound.size, dtype=np.int64)
        rewards = real_numbers(users.rewards) if bound.balance else np.zeros((0, 0))
        states, actions = (
            indices(users.states, support.states),
            indices(users.actions, support.actions),
        )
        _kernels.budgeted(
            states[:, : bound.steps + 1],
            actions[:, : bound.steps],
            rewards,
            support.layers,
            support.actions,
            support.indptr,
            support.successors,
            self.costs,
            math.floor(bound.balance * _kernels.PART),
            sums,
        )
        return Bounded(sums.astype(np.float64) * bound.grid, bound, users.users)
