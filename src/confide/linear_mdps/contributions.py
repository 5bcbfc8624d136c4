"""What users contribute to the agents for linear MDPs with numbered states.

PRIVATE until a privatizer has added noise.

- `NextStateRows`, `NextStates`: where users went and what they got, linear in known features. These
  sums do not depend on a value function.
- `StoredTransitions`: transitions that LSVI-UCB keeps, because what it asks about them depends on
  what was released before.

Required for privacy: every number that a user adds is looked up in a public table, or clipped. So
each bound holds whatever the data are. What is computed with the sums may be changed freely.
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

Ints = npt.NDArray[np.int64]
# Stored features, values and rewards are whole multiples of 1 / UNIT.
UNIT_BITS = 24
UNIT = 2**UNIT_BITS
HALF_UNIT = 2 ** (UNIT_BITS // 2)
# With so many users their sums are exact in floating point. Required for privacy.
MOST_USERS = 2**29 - 1
# Norms may exceed one by this share, because they are computed with rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class NextStateRows:
    """Where users went, and what they got, each with the features of where they were.

    A user adds phi(s, a) at the place of s' for each of `steps` - 1 steps, and
    w phi(s, a) (r - 1/2) for each of `steps` steps, with w = `weight`.

    Enforced: features are looked up in a table whose rows have L2 norm at most L = `row_norm` and
    L1 norm at most `row_l1` (checked when the table is taken). s' is one of `states`, and r is
    clipped to [0, 1]. What does not exist or is not finite adds zero.

    Sensitivity of one step if a user is replaced: where s' differs the first parts are orthogonal,
    so they are sqrt(2) L apart. Where it does not, they are ||phi - phi'|| apart. This is at most
    sqrt(2) L if no two rows of the table have a negative product (`acute`), and 2 L otherwise.
    Rewards are w (L/2 + L/2) apart. Both are reached at once, and the steps are separate
    coordinates. If the user contributes zero instead, it is L and w L / 2. In L1, with L1 norms, it
    is 2 and w, or 1 and w / 2. Rounding each part to the grid moves each coordinate of either user
    by half a grid step at most, which is added.
    """

    # Its numbers are properties of a public table that a certificate does not hold.
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
        # ||x||_2 <= ||x||_1 <= sqrt(d) ||x||_2 for vectors of d numbers.
        largest_l1 = self.row_norm * math.sqrt(self.dimension) * (1 + 1e-8)
        if not self.row_norm <= self.row_l1 * (1 + ROUNDING) <= largest_l1:
            raise InvalidParameter(
                "row_l1 must be between the L2 norm and sqrt(d) times it, "
                f"got row_l1={self.row_l1} and row_norm={self.row_norm}"
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
        return (
            f"{self.dimension} features at the place of the next state, of {self.states}, "
            "and beside the reward"
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
        if relation == Relation.NULL:
            move = 1.0
            reward = self.weight / 2
        else:
            move = math.sqrt(2) if self.acute else 2.0
            reward = self.weight
        squared = (self.steps - 1) * move**2 + self.steps * reward**2
        return self.row_norm * math.sqrt(squared) + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        is_null = relation == Relation.NULL
        move = 1.0 if is_null else 2.0
        reward = self.weight / 2 if is_null else self.weight
        l1_distance = self.row_l1 * ((self.steps - 1) * move + self.steps * reward)
        return l1_distance + self.size * self.grid

    def contains(self, values: Array) -> bool:
        """Whether there is one next state at most per step, and no row is longer than the table's.

        Which rows are in the table the bound does not know.
        """
        moves, rewards = self.unpack(values)
        rounding = self.dimension * self.grid
        reward_rounding = self.dimension * self.grid / self.weight
        next_states = np.count_nonzero(np.abs(moves).max(axis=1, initial=0.0), axis=1)
        moves_fit = next_states <= 1
        moves_fit &= np.linalg.norm(moves, axis=(1, 2)) <= self.row_norm + rounding
        moves_fit &= np.abs(moves).sum(axis=(1, 2)) <= self.row_l1 + rounding
        rewards_fit = np.linalg.norm(rewards, axis=1) <= self.row_norm / 2 + reward_rounding
        rewards_fit &= np.abs(rewards).sum(axis=1) <= self.row_l1 / 2 + reward_rounding
        return bool(moves_fit.all() and rewards_fit.all())

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """Split a released vector: sum of phi e_{s'}^T [h, i, s'], sum of phi (r - 1/2) [h, i].

        The weight of the rewards is divided out.
        """
        moves = (self.steps - 1, self.dimension, self.states)
        cut = math.prod(moves)
        rewards = values[cut:].reshape(self.steps, self.dimension)
        return values[:cut].reshape(moves), rewards / self.weight


class NextStates:
    """Turns the users of a round into their sums. The same table serves all rounds."""

    def __init__(self, features: npt.ArrayLike, steps: int, weight: float = 1.0) -> None:
        # It is a copy, so the norms that are checked here cannot change.
        table = np.array(features, dtype=float)
        states, actions, dimension = table.shape
        rows = table.reshape(-1, dimension)
        if not np.isfinite(rows).all() or not rows.any():
            raise InvalidParameter("features must be finite, and not all zero")
        norm = float(np.linalg.norm(rows, axis=1).max())
        l1_norm = float(np.abs(rows).sum(axis=1).max())
        acute = bool((rows @ rows.T >= 0).all())
        self.bound = NextStateRows(
            steps, states, dimension, norm, max(l1_norm, norm), weight, acute
        )
        self._features = rows
        self._shape = (states, actions)
        self._grid_steps = np.rint(rows / self.bound.grid)

    def tables(self) -> list[Array]:
        return [self._grid_steps]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        bound = self.bound
        states, actions = self._shape
        visits = np.zeros((bound.steps - 1, states * actions, states))
        seen = valid_transitions(users, bound.steps - 1, states, actions)
        pairs = seen.state * actions + seen.action
        np.add.at(visits, (seen.step, pairs, seen.next_state), seen.count)
        # Grid steps and counts are whole numbers, so these sums are exact, and so are those below.
        moves = np.matmul(self._grid_steps.T, visits)
        step, state, action, reward, count = outcomes(users, bound.steps, states, actions)
        scale = (reward - 0.5) * bound.weight / bound.grid
        rows = np.rint(self._features[state * actions + action] * scale[:, None])
        rewards = np.zeros((bound.steps, bound.dimension))
        np.add.at(rewards, step, rows * count[:, None])
        grid_steps = np.concatenate([moves.ravel(), rewards.ravel()])
        return Bounded(grid_steps * bound.grid, bound, seen.users)


@dataclass(frozen=True, slots=True, eq=False)
class StoredTargets:
    """What users add to the prefix sums of LSVI-UCB. Their transitions are stored, too."""

    sums: RewardTargets

    def tables(self) -> list[Array]:
        return self.sums.tables()

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        sums = self.sums.contribution(users)
        return ContributionWithRows(sums.values, sums.bound, sums.users, stored=users)


class StoredTransitions:
    """What LSVI-UCB keeps of users, for sum phi(s, a) (w r + y(s')). PRIVATE.

    It is how many users went from s by a to s' at step h, and the sum of their rewards. Counts do
    not grow with the number of users, and hold no user alone. They never leave, except in saved
    states: a `response` goes into a mechanism.

    Enforced: features are looked up, of norm at most one. Rewards are clipped to [0, 1] and y to
    [-1, 1 - w]. So one user's term is in the unit ball, whatever the data are. What does not exist
    or is not finite adds zero.

    All this is in whole numbers. All factors are rounded towards zero to multiples of 2^-24, which
    keeps them in their ranges. Sums of products are exact but for two roundings down: of w r summed
    over the users of one (s, a), and of the result. Neither adds to the sensitivity. Before it two
    neighbouring sums differ by at most a whole number m of steps (of targets 1 for each user, of
    coordinate i |phi_i| + |phi'_i|), and so they do after it.
    """

    def __init__(self, features: Array, steps: int) -> None:
        states, actions, dimension = features.shape
        if not (np.linalg.norm(features, axis=2) <= 1 + ROUNDING).all():
            raise InvalidParameter("features must be finite, of norm at most 1")
        # Of one user's phi(s, a) (w r + y(s')).
        self.bound = L2Ball(1.0, dimension)
        rows = features.reshape(states * actions, dimension)
        self._features: Ints = np.trunc(rows / (1 + ROUNDING) * UNIT).astype(np.int64)
        self._counts: Ints = np.zeros((steps, states * actions, states), dtype=np.int64)
        self._rewards: Ints = np.zeros((steps, states * actions), dtype=np.int64)
        self._shape = (states, actions)
        self.users = 0

    def check(self, users: Trajectories | TransitionCounts) -> TransitionCounts:
        """Raise for users whom `add` would refuse; otherwise return their valid transitions."""
        if self.users + users.users > MOST_USERS:
            raise InvalidParameter(
                f"at most {MOST_USERS} users can be stored, got {self.users + users.users}"
            )
        return valid_transitions(users, len(self._counts), *self._shape)

    def add(self, users: Trajectories | TransitionCounts) -> None:
        states, actions = self._shape
        seen = self.check(users)
        pairs = seen.state * actions + seen.action
        np.add.at(self._counts, (seen.step, pairs, seen.next_state), seen.count)
        step, state, action, reward, count = outcomes(users, len(self._counts), states, actions)
        reward_units = np.trunc(reward * UNIT).astype(np.int64) * count
        np.add.at(self._rewards, (step, state * actions + action), reward_units)
        self.users += users.users

    def response(self, step: int, values: Array, reward_weight: float = 0.0) -> Bounded:
        """The sum over users of phi(s, a) (w r + y(s')) at a step.

        y = `values` [s'] and w = `reward_weight`, in [0, 1], are public.
        """
        if np.isnan(values).any():
            raise InvalidParameter("values must be numbers")
        w = int(np.clip(reward_weight, 0.0, 1.0) * UNIT)
        y = np.trunc(np.clip(values, -1.0, 1 - w / UNIT) * UNIT).astype(np.int64)
        # All numbers are split, because products would not fit into 64 bits otherwise.
        whole_rewards, reward_rest = np.divmod(self._rewards[step], UNIT)
        targets = self._counts[step] @ y + w * whole_rewards + w * reward_rest // UNIT
        high, low = np.divmod(targets, UNIT)
        middle, lowest = np.divmod(low, HALF_UNIT)
        phi = self._features.T
        sums = phi @ high + (phi @ middle + phi @ lowest // HALF_UNIT) // HALF_UNIT
        return Bounded(sums / UNIT, self.bound, self.users)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """PRIVATE: to be saved with the rest of the state. The names are a format."""
        return {"counts": self._counts, "rewards": self._rewards, "users": np.array(self.users)}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._counts = arrays["counts"].copy()
        self._rewards = arrays["rewards"].copy()
        self.users = int(arrays["users"])

    def __repr__(self) -> str:
        return f"StoredTransitions({self.users} users)"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "stored transitions are private, and cannot be copied or pickled: "
            "save the agent instead"
        )
