"""Returns weighted by how much likelier a policy is to act as the users did: one row per user.

PRIVATE side. `ReturnRow` is what noise is calibrated to, so a change needs a proof, and a case in
tests/conformance/test_bounds.py.
"""

import itertools
import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from confide.arguments import flag, real, whole
from confide.errors import InvalidParameter
from confide.evaluation import _contribution_kernels as _kernels
from confide.evaluation.contributions import sum_users
from confide.identity import Identity
from confide.privacy.bounded import Array, Bounded, grid_for
from confide.privacy.request import Relation
from confide.trajectory import Indices, LoggedUsers

# At most so many policies are compared. The number of corners of `ReturnRow` grows exponentially
# with it.
_MOST_POLICIES = 2


@dataclass(frozen=True, slots=True)
class ReturnRow:
    """One user's row (1, g, a_k, b_k, e_k).

    1 says that the user counts, g is the return, and the others are about each policy k. g is the
    user's return, scaled to [-1, 1]. a is the clipped weight as a share of the clip, b = a g the
    weighted return, and e = 1 if the weight was above the clip. Each kind of number has a public
    scale: `count`, `logged`, `weight`, `worth` and `clipped`. With `per_decision` there is no
    single weight: the row is (1, g, b_k, e_k), and b is any number in [-1, 1].

    Enforced: a user whose data make no sense has a row of zeros. Otherwise 1 is 1, g is clipped to
    [-1, 1], a to [0, 1], b is a g (or clipped to [-1, 1]), and e is 0 unless a = 1. A user with
    several trajectories has the mean of their rows.

    Sensitivity: such a row lies in the convex hull of finitely many corners: zero, and the rows
    with g = +-1, a in {0, 1}, b = a g (or b = +-1) and e in {0, a} (or {0, 1}). Indeed
        (1, g, a, a g, e) = sum over the sign s of (1 + s g)/2 (1, s, a, a s, e),
    which is a mixture of rows with g = +-1, each a is a mixture of 0 and 1, and e > 0 only where a
    = 1. Means of rows are in the hull, too. The distance of two points of a polytope is largest
    between two corners, in L1 and in L2: replace is the largest distance of two corners, and null
    the largest norm of a corner. Rounding moves each coordinate of either neighbour by half a grid
    step, which is added.

    The default scales are those of `replace` (see importance_sampling.py). Any scales are private.
    """

    policies: int = 1
    per_decision: bool = False
    count: float = 0.5
    logged: float = 0.203125
    weight: float = 1.0
    worth: float = 0.609375
    clipped: float = 0.25

    def __post_init__(self) -> None:
        whole("policies", self.policies, at_least=1, at_most=_MOST_POLICIES)
        flag("per_decision", self.per_decision)
        for name in ("count", "logged", "weight", "worth", "clipped"):
            real(name, getattr(self, name), at_least=1e-3, at_most=1e3)

    def identity(self) -> Identity:
        return Identity(
            "return-row",
            1,
            policies=self.policies,
            per_decision=self.per_decision,
            count=self.count,
            logged=self.logged,
            weight=self.weight,
            worth=self.worth,
            clipped=self.clipped,
        )

    @property
    def about(self) -> str:
        return "a return, importance weights and weighted returns"

    @property
    def scales(self) -> Array:
        """The scale of each coordinate [size]."""
        weights = [] if self.per_decision else [self.weight]
        of_a_policy = [*weights, self.worth, self.clipped]
        return np.array([self.count, self.logged, *np.repeat(of_a_policy, self.policies)])

    @property
    def size(self) -> int:
        return 2 + self.policies * (2 if self.per_decision else 3)

    @property
    def largest(self) -> float:
        return float(self.scales.max())

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    @property
    def corners(self) -> Array:
        """The corners of the set [corner, size], zero among them."""
        return _corners(self)

    def sensitivity(self, relation: Relation) -> float:
        return self._farthest(relation, 2) + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        return self._farthest(relation, 1) + self.size * self.grid

    def _farthest(self, relation: Relation, order: int) -> float:
        corners = self.corners
        others = np.zeros((1, self.size)) if relation == Relation.NULL else corners
        differences = corners[:, None] - others[None]
        return float(np.linalg.norm(differences, ord=order, axis=2).max())

    def contains(self, values: Array) -> bool:
        """Whether the inequalities of the hull hold, up to rounding."""
        room = 4 * self.grid / float(self.scales.min())
        counts, g, *parts = values / self.scales
        if not (abs(counts) <= room or abs(counts - 1) <= room):
            return False
        a, b, e = self._of_policies(np.array(parts), counts)
        within = abs(g) <= counts + room
        within &= bool((np.abs(b) <= a + room).all())
        within &= bool(((e >= -room) & (e <= a + room)).all())
        if not self.per_decision:
            within &= bool((a + b <= counts + g + room).all())
            within &= bool((a - b <= counts - g + room).all())
        return bool(within)

    def _of_policies(self, parts: Array, counts: float) -> tuple[Array, Array, Array]:
        if self.per_decision:
            b, e = parts.reshape(2, self.policies)
            return np.full(self.policies, counts), b, e
        a, b, e = parts.reshape(3, self.policies)
        return a, b, e


@lru_cache(maxsize=16)
def _corners(bound: ReturnRow) -> Array:
    signs = (-1.0, 1.0)
    rows = []
    for g in signs:
        # What a policy may add: (b, e), or (a, b, e).
        of_a_policy: list[tuple[float, ...]]
        if bound.per_decision:
            of_a_policy = [(b, e) for b in signs for e in (0.0, 1.0)]
        else:
            of_a_policy = [(0.0, 0.0, 0.0), (1.0, g, 0.0), (1.0, g, 1.0)]
        rows += [
            [1.0, g, *np.array(of_policies).T.ravel()]
            for of_policies in itertools.product(of_a_policy, repeat=bound.policies)
        ]
    corners: Array = np.vstack([np.zeros((1, bound.size)), np.array(rows) * bound.scales])
    corners.flags.writeable = False
    return corners


@dataclass(frozen=True, slots=True, eq=False)
class WeightedReturns:
    """Turns whole users into sums of the rows of a `ReturnRow`.

    For each policy the weight is a = rho / limit, where rho = min(limit, product over steps of the
    policy's probability of the action / the logged one), and g = (F - centre)/radius clipped to
    [-1, 1], F being the return. A user's row is the mean over trajectories, so that a user counts
    once however many there are.

    Under `per_decision` b = (sum_t discount^t rho_t r_t / limit - middle) / half, clipped to [-1,
    1], where rho_t is the clipped product up to step t. [middle - half, middle + half] is the range
    of returns, together with 0.

    Users who are not valid, or have a state or an action that does not exist, a reward that is not
    finite, a probability outside (0, 1], or more steps than a policy, contribute zero.

    `policies` [policy, h, s, a] are public; h = 1 means the same at every step. `behaviour` [s, a]
    are public probabilities in the place of logged ones.
    """

    bound: ReturnRow
    policies: Array = field(repr=False)
    limit: float
    discount: float
    centre: float
    radius: float
    behaviour: Array | None = field(default=None, repr=False)

    @property
    def middle(self) -> float:
        return (self._highest + self._lowest) / 2

    @property
    def half(self) -> float:
        return (self._highest - self._lowest) / 2

    @property
    def _lowest(self) -> float:
        return min(self.centre - self.radius, 0.0)

    @property
    def _highest(self) -> float:
        return max(self.centre + self.radius, 0.0)

    def per_user(self, users: LoggedUsers) -> Array:
        """[user, coordinate], before rounding. PRIVATE."""
        if users.actions is None or (users.probabilities is None and self.behaviour is None):
            raise InvalidParameter(
                "importance sampling needs logs with actions and the probabilities of taking them"
            )
        probabilities = users.probabilities
        if probabilities is None or self.behaviour is not None:
            probabilities = self._behaviour_probabilities(users.states, users.actions)
        rows = _kernels.weighted_returns(
            users.states,
            users.rewards,
            users.actions,
            probabilities,
            users.trajectories,
            users.users,
            users.valid,
            self.policies,
            self.discount,
            self.limit,
            self.centre,
            self.radius,
            self.bound.per_decision,
            self.middle,
            self.half,
        )
        if self.bound.per_decision:
            # There is no single weight.
            rows = np.delete(rows, np.s_[2 : 2 + self.bound.policies], axis=1)
        scaled: Array = rows * self.bound.scales
        return scaled

    def _behaviour_probabilities(self, states: Indices, actions: Indices) -> Array:
        """Public probabilities of logged actions [row].

        A state or an action that does not exist gets 1: the kernel leaves out its user.
        """
        table = np.asarray(self.behaviour)
        inside = (states >= 0) & (states < len(table)) & (actions >= 0) & (actions < table.shape[1])
        probabilities = table[np.where(inside, states, 0), np.where(inside, actions, 0)]
        return np.where(inside, probabilities, 1.0)

    def contribution(self, users: LoggedUsers) -> Bounded:
        return sum_users(self, users)
