"""What users contribute to the learners of linear MDPs. PRIVATE until a privatizer has added noise.

`NextStateRows`, `NextStates`: where users went and what they got, linear in known features; these sums do not depend on a value function.
`StoredTransitions`: transitions that LSVI-UCB keeps, because what it asks about them depends on what was released before.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter, PrivacyError
from confide.identity import Identity
from confide.privacy.bounded import Array, Bounded, L2Ball, grid_for
from confide.privacy.request import Relation
from confide.privatizers.stored_rows import ContributionWithRows
from confide.statistics.transitions import RewardTargets, outcomes, valid_transitions
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

    # its numbers are properties of a public table that a certificate does not hold
    of_table: ClassVar[bool] = True

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
                raise InvalidParameter(
                    f"{name} must be at least 1, got {name}={getattr(self, name)}"
                )
        for name in ("row_norm", "row_l1", "weight"):
            if not 1e-50 < getattr(self, name) < 1e50:
                raise InvalidParameter(
                    f"{name} must be positive and finite, got {name}={getattr(self, name)}"
                )
        if (
            not self.row_norm
            <= self.row_l1 * (1 + 1e-9)
            <= self.row_norm * math.sqrt(self.dimension) * (1 + 1e-8)
        ):
            raise InvalidParameter(
                f"an L1 norm is between the L2 norm and sqrt(d) times it, got {self.row_l1} and {self.row_norm}"
            )

    def identity(self) -> Identity:
        return Identity(
            "next-state-rows",
            1,
            steps=self.steps,
            states=self.states,
            dimension=self.dimension,
            row_norm=self.row_norm,
            row_l1=self.row_l1,
            weight=self.weight,
            acute=self.acute,
        )

    @property
    def about(self) -> str:
        return f"{self.dimension} features at the place of the next state, of {self.states}, and beside the reward"

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
        moves, rewards = (
            (1.0, self.weight / 2) if relation == Relation.NULL else (self._apart, self.weight)
        )
        squared = (self.steps - 1) * moves**2 + self.steps * rewards**2
        return self.row_norm * math.sqrt(squared) + math.sqrt(self.size) * self.grid

    @property
    def _apart(self) -> float:
        return math.sqrt(2) if self.acute else 2.0

    def l1_sensitivity(self, relation: Relation) -> float:
        moves, rewards = (1.0, self.weight / 2) if relation == Relation.NULL else (2.0, self.weight)
        return (
            self.row_l1 * ((self.steps - 1) * moves + self.steps * rewards) + self.size * self.grid
        )

    def contains(self, values: Array) -> bool:
        """At each step one next state at most, and rows as long as the table's; which rows are in it the bound does not know."""
        moves, rewards = self.unpack(values)
        room, half = self.dimension * self.grid, self.dimension * self.grid / self.weight
        one_place = np.count_nonzero(np.abs(moves).max(axis=1, initial=0.0), axis=1) <= 1
        long = np.linalg.norm(moves, axis=(1, 2)) <= self.row_norm + room
        long_l1 = np.abs(moves).sum(axis=(1, 2)) <= self.row_l1 + room
        paid = np.linalg.norm(rewards, axis=1) <= self.row_norm / 2 + half
        paid_l1 = np.abs(rewards).sum(axis=1) <= self.row_l1 / 2 + half
        return bool((one_place & long & long_l1).all() and (paid & paid_l1).all())

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

    def tables(self) -> list[Array]:
        return [self._whole]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        bound, (S, A) = self.bound, self._shape
        H, d = bound.steps, bound.dimension
        visits = np.zeros((H - 1, S * A, S))
        seen = valid_transitions(users, H - 1, S, A)
        np.add.at(visits, (seen.step, seen.state * A + seen.action, seen.next_state), seen.count)
        moves = np.matmul(self._whole.T, visits)  # whole numbers: exact
        step, state, action, reward, count = outcomes(users, H, S, A)
        rows = np.rint(
            self._phi[state * A + action] * ((reward - 0.5) * bound.weight / bound.grid)[:, None]
        )
        rewards = np.zeros((H, d))
        np.add.at(rewards, step, rows * count[:, None])
        return Bounded(
            np.concatenate([moves.ravel(), rewards.ravel()]) * bound.grid, bound, seen.users
        )


@dataclass(frozen=True, slots=True, eq=False)
class StoredTargets:
    """What users add to the prefix sums of LSVI-UCB. Their transitions are stored, too."""

    sums: RewardTargets

    def tables(self) -> list[Array]:
        return self.sums.tables()

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        made = self.sums.contribution(users)
        return ContributionWithRows(made.values, made.bound, made.users, stored=users)


Ints = npt.NDArray[np.int64]
_BITS = 24
_UNIT = 2**_BITS  # features, values and rewards are whole multiples of 1/_UNIT
_HALF = 2 ** (_BITS // 2)
_MOST = 2**29 - 1  # users: their sums are exact in floating point


class StoredTransitions:
    """How many users went from s by a to s' at step h, and the sum of their rewards: what sum phi(s, a) (w r + y(s')) needs. PRIVATE.

    Counts do not grow with the number of users, and hold no user alone. They never leave: a `response` goes into a mechanism.

    Enforced: features are looked up, of norm at most one, rewards are clipped to [0, 1] and y to [-1, 1 - w], so that one user's term is
    in the unit ball, whatever the data are; what does not exist or is not finite adds zero. In whole numbers: all factors are rounded
    towards zero to multiples of 2^-24, which keeps them in their ranges, and sums of products are exact but for two roundings down, of
    w r summed over the users of one (s, a) and of the result. Neither adds to the sensitivity: before it two neighbouring sums differ by
    at most a whole number m of steps (of targets 1 for each user, of coordinate i |phi_i| + |phi'_i|), and so they do after it.
    """

    def __init__(self, features: Array, steps: int) -> None:
        S, A, d = features.shape
        if not (np.linalg.norm(features, axis=2) <= 1 + 1e-9).all():
            raise InvalidParameter("features must be finite, of norm at most 1")
        self.bound = L2Ball(1.0, d)  # of one user's phi(s, a) (w r + y(s'))
        self._phi: Ints = np.trunc(features.reshape(S * A, d) / (1 + 1e-9) * _UNIT).astype(np.int64)
        self._counts: Ints = np.zeros((steps, S * A, S), dtype=np.int64)
        self._rewards: Ints = np.zeros((steps, S * A), dtype=np.int64)
        self._shape, self.users = (S, A), 0

    def check(self, users: Trajectories | TransitionCounts) -> TransitionCounts:
        """Raise for users whom `add` would refuse; otherwise their transitions that exist."""
        if self.users + users.users > _MOST:
            raise InvalidParameter(f"at most {_MOST} users can be stored")
        return valid_transitions(users, len(self._counts), *self._shape)

    def add(self, users: Trajectories | TransitionCounts) -> None:
        (S, A), steps, seen = self._shape, len(self._counts), self.check(users)
        np.add.at(
            self._counts, (seen.step, seen.state * A + seen.action, seen.next_state), seen.count
        )
        step, state, action, reward, count = outcomes(users, steps, S, A)
        np.add.at(
            self._rewards,
            (step, state * A + action),
            np.trunc(reward * _UNIT).astype(np.int64) * count,
        )
        self.users += users.users

    def response(self, step: int, values: Array, reward_weight: float = 0.0) -> Bounded:
        """sum over users of phi(s, a) (w r + y(s')) at a step; y [s'] and w in [0, 1] are public."""
        if np.isnan(values).any():
            raise InvalidParameter("values must be numbers")
        w = int(np.clip(reward_weight, 0.0, 1.0) * _UNIT)
        y = np.trunc(np.clip(values, -1.0, 1 - w / _UNIT) * _UNIT).astype(np.int64)
        high, low = np.divmod(self._rewards[step], _UNIT)
        targets = self._counts[step] @ y + w * high + w * low // _UNIT
        high, low = np.divmod(targets, _UNIT)
        # in halves: sums over many (s, a) would not fit into 64 bits otherwise
        upper, lower = np.divmod(low, _HALF)
        phi = self._phi.T
        sums = phi @ high + (phi @ upper + phi @ lower // _HALF) // _HALF
        return Bounded(sums / _UNIT, self.bound, self.users)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """PRIVATE: to be saved with the rest of the state."""
        return {"counts": self._counts, "rewards": self._rewards, "users": np.array(self.users)}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._counts, self._rewards, self.users = (
            arrays["counts"].copy(),
            arrays["rewards"].copy(),
            int(arrays["users"]),
        )

    def __repr__(self) -> str:
        return f"StoredTransitions({self.users} users)"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "stored transitions are private, and cannot be copied or pickled: save the agent instead"
        )
