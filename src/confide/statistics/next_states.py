"""Where users went and what they got, linear in known features: sums that do not depend on any value function."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.privacy.bounded import Array, Bounded, grid_for
from confide.privacy.request import Relation
from confide.statistics.reward_rows import outcomes
from confide.statistics.transitions import valid_transitions
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class NextStateRows:
    """phi(s, a) at the place of s' for each of `steps` - 1 steps, and w phi(s, a) (r - 1/2) for each of `steps` steps.

    Enforced: features are looked up in a table whose rows have L2 norm at most L = `row_norm` and L1 norm at most `row_l1` (checked when
    the table is taken), s' is one of `states`, r is clipped to [0, 1]; what does not exist or is not finite adds zero.

    Sensitivity of one step, replace: where s' differs the first parts are orthogonal, 2 L^2 squared; where it does not, ||phi - phi'||^2,
    which is at most 2 L^2 if no two rows of the table have a negative product (`acute`), and 4 L^2 otherwise. Rewards: w^2 (L/2 + L/2)^2.
    Both are reached at once, and the steps are separate coordinates. null: L^2 and w^2 L^2 / 4. In L1, with L1 norms: 2 and w, null 1 and
    w / 2. Rounding each part to the grid moves each coordinate of either user by half a grid step at most, which is added.
    """

    steps: int
    states: int
    dimension: int
    row_norm: float = 1.0
    row_l1: float = 1.0
    weight: float = 1.0
    acute: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "states", "dimension"):
            if getattr(self, name) < 1:
                raise InvalidParameter(f"{name} must be at least 1, got {name}={getattr(self, name)}")
        for name in ("row_norm", "row_l1", "weight"):
            if not 1e-50 < getattr(self, name) < 1e50:
                raise InvalidParameter(f"{name} must be positive and finite, got {name}={getattr(self, name)}")
        if not self.row_norm <= self.row_l1 * (1 + 1e-9) <= self.row_norm * math.sqrt(self.dimension) * (1 + 1e-8):
            raise InvalidParameter(
                f"an L1 norm is between the L2 norm and sqrt(d) times it, got {self.row_l1} and {self.row_norm}"
            )

    @property
    def size(self) -> int:
        return (self.steps - 1) * self.dimension * self.states + self.steps * self.dimension

    @property
    def largest(self) -> float:
        return self.row_norm * max(1.0, self.weight / 2)

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        moves, rewards = (1.0, self.weight / 2) if relation is Relation.NULL else (self._apart, self.weight)
        squared = (self.steps - 1) * moves**2 + self.steps * rewards**2
        return self.row_norm * math.sqrt(squared) + math.sqrt(self.size) * self.grid

    @property
    def _apart(self) -> float:
        return math.sqrt(2) if self.acute else 2.0

    def l1_sensitivity(self, relation: Relation) -> float:
        moves, rewards = (1.0, self.weight / 2) if relation is Relation.NULL else (2.0, self.weight)
        return self.row_l1 * ((self.steps - 1) * moves + self.steps * rewards) + self.size * self.grid

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector -> (sum of phi e_{s'}^T [h, i, s'], sum of phi (r - 1/2) [h, i]), the weight divided out."""
        H, S, d = self.steps, self.states, self.dimension
        cut = (H - 1) * d * S
        return values[:cut].reshape(H - 1, d, S), values[cut:].reshape(H, d) / self.weight


class NextStates:
    """Turns the users of a round into their sums. The same for all rounds."""

    def __init__(self, features: npt.ArrayLike, steps: int, weight: float = 1.0) -> None:
        phi = np.array(features, dtype=float)  # a copy: its norms are checked here, once
        S, A, d = phi.shape
        flat = phi.reshape(-1, d)
        if not np.isfinite(flat).all() or not flat.any():
            raise InvalidParameter("features must be finite, and not all zero")
        norm, l1 = float(np.linalg.norm(flat, axis=1).max()), float(np.abs(flat).sum(axis=1).max())
        acute = bool((flat @ flat.T >= 0).all())
        self.bound = NextStateRows(steps, S, d, norm, max(l1, norm), weight, acute)
        self._phi, self._shape = flat, (S, A)
        self._whole = np.rint(flat / self.bound.grid)  # in grid steps

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        bound, (S, A) = self.bound, self._shape
        H, d = bound.steps, bound.dimension
        visits = np.zeros((H - 1, S * A, S))
        seen = valid_transitions(users, H - 1, S, A)
        np.add.at(visits, (seen.step, seen.state * A + seen.action, seen.next_state), seen.count)
        moves = np.matmul(self._whole.T, visits)  # whole numbers: exact
        step, state, action, reward, count = outcomes(users, H, S, A)
        rows = np.rint(self._phi[state * A + action] * ((reward - 0.5) * bound.weight / bound.grid)[:, None])
        rewards = np.zeros((H, d))
        np.add.at(rewards, step, rows * count[:, None])
        return Bounded(np.concatenate([moves.ravel(), rewards.ravel()]) * bound.grid, bound, seen.users)
