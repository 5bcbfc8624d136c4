"""Counts where users went, under a budget that each user spends along the way.

PRIVATE: the sums of `BudgetedVisits` are exact until a privatizer has added noise. `BudgetedCounts`
states and proves their sensitivity. Its identity is part of ledger ids and certificates, and
`BudgetedVisits.plain` is part of published rounds, so their keys must not change. The clipping in
`_contribution_kernels` must enforce what the proof uses.
"""

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
    """Weighted counts x of `cells` transitions and, with a `balance`, sums y of rewards of `pairs`.

    What the kernel enforces, for any sequence of at most `steps` steps: a step whose pair has the
    public weight w counts only if the user's budget of 1 can still pay w^2. The c-th counted step
    of a pair adds w (sqrt(c) - sqrt(c - 1)) to one cell of the pair, whichever successor was
    reached. It adds `balance` times that, times the reward in [0, 1], to the pair's entry of y.

    Sensitivity in L2. A pair that counted c times has added w sqrt(c) to its cells together. All
    entries are non-negative, so the squares of its cells sum to at most w^2 c, which is what the
    pair took of the budget. Summed over all pairs, ||x||^2 <= 1, and in the same way
    ||y|| <= balance. Under NULL the sensitivity is therefore sqrt(1 + balance^2). Under REPLACE,
    ||v - v'||^2 <= ||v||^2 + ||v'||^2 because no coordinate is negative. The sensitivity is
    sqrt(2) times as large, which two users with no pair in common attain.

    Sensitivity in L1. A user's cells sum to at most sum w sqrt(c) over the pairs in which the user
    counted. By Cauchy-Schwarz this is at most the root of the number of these pairs, which is at
    most sqrt(min(steps, pairs)). y sums to at most `balance` times that. Under REPLACE both are
    twice as large.

    All of it is computed in whole numbers that are rounded down, so rounding adds nothing.
    """

    cells: int
    pairs: int
    steps: int
    # The factor of rewards against counts, at most 1. Zero means that no rewards are summed.
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
        counts = f"weighted counts of {self.cells} transitions"
        return f"{counts}{rewards}, of norm at most {self._norm:.4g}"

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
        norm = (1 + self.balance) * self._max_l1_of_counts
        return norm * (1.0 if parse_relation(relation) == Relation.NULL else 2.0)

    @property
    def _max_l1_of_counts(self) -> float:
        return math.sqrt(min(self.steps, self.pairs))

    def contains(self, values: Array) -> bool:
        """Return whether no value is negative, and counts and rewards are within their norms."""
        if not (values >= 0).all():
            return False
        tolerance = 1 + 1e-9
        counts = values[: self.cells]
        rewards = values[self.cells :]
        for part, scale in ((counts, 1.0), (rewards, self.balance)):
            if float(np.linalg.norm(part)) > scale * tolerance:
                return False
            if float(part.sum()) > scale * self._max_l1_of_counts * tolerance:
                return False
        return True

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """Return counts [cell] and sums of rewards [pair], which are empty without a balance.

        The balance is divided out of the sums.
        """
        return values[: self.cells], values[self.cells :] / (self.balance or 1.0)


class BudgetedVisits:
    """Turns the users of one round into budgeted counts.

    `weights` [pair] are public and chosen before the round. A step is left out, at no cost, if its
    state, action or successor does not exist, or if the support says that the successor cannot
    follow. Where rewards are summed, it is also left out if its reward is not finite.

    Whether a step counts, and with what weight, depends only on the steps before it and on its own
    state and action. The expected counts of a pair are therefore in proportion to its transition
    probabilities, whatever the budget leaves out.
    """

    def __init__(self, support: Support, weights: Array, bound: BudgetedCounts) -> None:
        if weights.shape != (support.pairs,):
            raise InvalidParameter(
                f"weights must have shape ({support.pairs},), got {weights.shape}"
            )
        if bound.cells != support.cells or bound.pairs != support.pairs:
            raise InvalidParameter(
                f"bound must have {support.cells} cells and {support.pairs} pairs "
                f"like the support, got {bound.cells} and {bound.pairs}"
            )
        if not ((weights >= 0) & (weights <= 1)).all():
            raise InvalidParameter("weights must be in [0, 1]")
        self.bound = bound
        self._support = support
        self.costs = whole_costs(weights)

    @property
    def _whole_balance(self) -> int:
        return math.floor(self.bound.balance * _kernels.SCALE_UNITS)

    def plain(self) -> dict[str, Any]:
        """Return what a device needs to compute `_contribution_kernels.budgeted_counts`. Public."""
        support = self._support
        return {
            "kind": "budget",
            "balance": self._whole_balance,
            "layers": support.layers,
            "states": support.states,
            "actions": support.actions,
            "steps": self.bound.steps,
            "indptr": support.indptr.tolist(),
            "successors": support.successors.tolist(),
            "costs": self.costs.tolist(),
        }

    def tables(self) -> list[npt.NDArray[np.int64]]:
        return [self._support.indptr, self._support.successors, self.costs]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        if isinstance(users, TransitionCounts):
            raise InvalidParameter(
                "users must come as trajectories, got TransitionCounts: "
                "a budget is spent along a path"
            )
        bound = self.bound
        support = self._support
        sums = np.zeros(bound.size, dtype=np.int64)
        rewards = real_numbers(users.rewards) if bound.balance else np.zeros((0, 0))
        states = indices(users.states, support.states)
        actions = indices(users.actions, support.actions)
        _kernels.budgeted_counts(
            states[:, : bound.steps + 1],
            actions[:, : bound.steps],
            rewards,
            support.layers,
            support.actions,
            support.indptr,
            support.successors,
            self.costs,
            self._whole_balance,
            sums,
        )
        return Bounded(sums.astype(np.float64) * bound.grid, bound, users.users)
