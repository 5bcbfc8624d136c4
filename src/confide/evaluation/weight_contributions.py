"""Returns weighted by how much likelier the target policy is to act as the users did: two numbers per user."""

import math
from dataclasses import dataclass, field

import numpy as np

from confide.errors import InvalidParameter
from confide.evaluation import _contribution_kernels as _kernels
from confide.evaluation.contributions import added_up
from confide.identity import Identity
from confide.privacy.bounded import Array, Bounded, L2Ball, grid_for
from confide.privacy.request import Relation
from confide.trajectory import Indices, LoggedUsers


@dataclass(frozen=True, slots=True)
class WeightAndWorth:
    """Pairs (a, kappa b) with |b| <= a <= 1, a weight and a weighted return: a triangle.

    Enforced: a = rho/limit with rho clipped to [0, limit], b = a g with g clipped to [-1, 1]; means over a user's trajectories stay in
    the triangle, which is convex.
    Sensitivity: the distance between two points of a triangle is largest between two of its corners (0, 0), (1, kappa), (1, -kappa).
    replace: max(2 kappa, sqrt(1 + kappa^2)), both at kappa = 1/sqrt(3); null: sqrt(1 + kappa^2). In L1 the same corners: max(2 kappa,
    1 + kappa), and 1 + kappa. Rounding moves each coordinate of either neighbour by half a grid step, which is added.
    """

    balance: float = 1 / math.sqrt(3)

    def __post_init__(self) -> None:
        if not 1e-3 <= self.balance <= 1e3:
            raise InvalidParameter.of(
                "balance", "must be between 0.001 and 1000", got=f"{self.balance}"
            )

    def identity(self) -> Identity:
        return Identity("weight-and-worth", 1, balance=self.balance)

    @property
    def about(self) -> str:
        return "an importance weight and a weighted return"

    @property
    def size(self) -> int:
        return 2

    @property
    def largest(self) -> float:
        return max(1.0, self.balance)

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        corner = math.hypot(1, self.balance)
        exact = corner if relation == Relation.NULL else max(2 * self.balance, corner)
        return exact + math.sqrt(2) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        corner = 1 + self.balance
        return (
            corner if relation == Relation.NULL else max(2 * self.balance, corner)
        ) + 2 * self.grid

    def contains(self, values: Array) -> bool:
        weight, worth = values
        return bool(
            -self.grid <= weight <= 1 + self.grid
            and abs(worth) <= self.balance * weight + (1 + self.balance) * self.grid
        )


@dataclass(frozen=True, slots=True, eq=False)
class WeightedReturns:
    """Turns whole users into sums of (rho, kappa rho g) / limit, or of rho g / limit alone, each user's mean over trajectories.

    rho = min(limit, product over steps of target / logged probability), g = (F - centre)/radius clipped to [-1, 1]. A mean, so that a
    user counts once however many trajectories there are, and the bound does not grow with them.
    Under `per_decision` rho g is sum_t discount^t rho_t y_t instead, rho_t the clipped product up to step t and y_t as in
    `TemporalSums`, clipped to +-limit. Users who are not valid, or have a state or an action that does not exist, a reward that is not
    finite, a probability outside (0, 1], or more steps than the target policy, contribute zero.

    `target` [h, s, a]; h = 1: the same at every step.
    """

    bound: WeightAndWorth | L2Ball
    target: Array = field(repr=False)
    limit: float
    discount: float
    centre: float
    radius: float
    per_decision: bool = False
    # [s, a], in the place of logged probabilities
    behaviour: Array | None = field(default=None, repr=False)

    def per_user(self, users: LoggedUsers) -> Array:
        """[user, coordinate], before rounding. PRIVATE."""
        if users.actions is None or (users.probabilities is None and self.behaviour is None):
            raise InvalidParameter(
                "importance sampling needs logs with actions and the probabilities of taking them"
            )
        logged = users.probabilities
        probabilities = (
            self._looked_up(users.states, users.actions)
            if logged is None or self.behaviour is not None
            else logged
        )
        ends = users.trajectories, users.users, users.valid
        limits = self.discount, self.limit, self.centre, self.radius
        pairs = _kernels.weighted_returns(
            users.states,
            users.rewards,
            users.actions,
            probabilities,
            *ends,
            self.target,
            *limits,
            self.per_decision,
        )
        if isinstance(self.bound, L2Ball):
            return pairs[:, 1:].copy()
        pairs[:, 1] *= self.bound.balance
        return pairs

    def _looked_up(self, states: Indices, actions: Indices) -> Array:
        """Of a state or an action that does not exist, one; the user is not counted."""
        table = np.asarray(self.behaviour)
        inside = (states >= 0) & (states < len(table)) & (actions >= 0) & (actions < table.shape[1])
        return np.where(
            inside, table[np.where(inside, states, 0), np.where(inside, actions, 0)], 1.0
        )

    def contribution(self, users: LoggedUsers) -> Bounded:
        return added_up(self, users)
