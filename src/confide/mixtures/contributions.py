"""What users contribute to the agents that regress values on a mixture.

PRIVATE until a privatizer has added noise.

- `ValueTargets`: rows of value-targeted regression, what a transition tells about the mixture
  through public values [Luyo21, Alg. 1].
- `PairedTargets`: the rows of values and of squared values, as one query per user [Luyo21, Alg. 3].
- `StackedRows`, `Both`: two sets of regressions about the same users, side by side in one query.

Required for privacy: rows are clipped by their bound, whatever the values and the weights are.
Which values users are regressed on, and with which public weights, may be changed freely.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.mechanisms.symmetric import ISOMETRIC
from confide.mixtures.value_features import FeatureMap, SparseKernels, sparse, transition_rows
from confide.privacy.bounded import Array, Bounded
from confide.privacy.request import Relation
from confide.statistics.bounds import RegressionRows, Rows, WeightedRows
from confide.statistics.transitions import valid_transitions
from confide.trajectory import Indices, Trajectories, TransitionCounts

# The weight of the second part is a multiple of 1 / WEIGHT_PARTS. Required for privacy: multiples
# of the parts' grids are then multiples of the stack's grid, and nothing is rounded twice.
WEIGHT_PARTS = 8
# A larger weight has no use. A matter of taste.
LARGEST_WEIGHT = 64


@lru_cache(typed=True)
def _rows(
    plain: bool,
    nonnegative: bool,
    steps: int,
    dimension: int,
    balance: float,
    off_diagonal: float,
) -> RegressionRows | WeightedRows:
    """A part of `StackedRows`, which is asked for it many times for each user."""
    if not plain:
        return WeightedRows(steps, dimension, balance)
    return RegressionRows(steps, dimension, 1.0, 1 / balance, balance, nonnegative, off_diagonal)


@dataclass(frozen=True, slots=True)
class StackedRows:
    """Two sets of regressions about the same user, side by side: (f, w g) with w = `weight`.

    f and g are each clipped by a bound of their own: by `WeightedRows`, or with `plain` by
    `RegressionRows` with ||X|| <= 1 and kappa |y| <= 1. `nonnegative` and `off_diagonal` are those
    of plain rows, for both parts.

    Sensitivity: ||(f, w g) - (f', w g')||^2 = ||f - f'||^2 + w^2 ||g - g'||^2 <= D_f^2 + w^2 D_g^2.
    It is attained where both parts attain theirs, which some pair does since they are clipped
    apart. In L1 it is the sum D_f + w D_g. Noise of one scale s on every coordinate is s on f and
    s / w on g. So the weight splits one budget, mu_f^2 : mu_g^2 = D_f^2 : w^2 D_g^2.
    """

    steps: int
    dimension: int
    balance: float
    second_steps: int
    second_dimension: int
    second_balance: float
    weight: float = 1.0
    plain: bool = False
    nonnegative: bool = False
    off_diagonal: float = ISOMETRIC

    def __post_init__(self) -> None:
        sizes = (self.steps, self.dimension, self.second_steps, self.second_dimension)
        if not all(isinstance(size, int) for size in sizes):
            raise InvalidParameter(f"steps and dimensions must be whole numbers, got {sizes}")
        is_in_range = 1 / WEIGHT_PARTS <= self.weight <= LARGEST_WEIGHT
        if not is_in_range or self.weight * WEIGHT_PARTS != int(self.weight * WEIGHT_PARTS):
            raise InvalidParameter(
                f"weight must be a multiple of 1/{WEIGHT_PARTS}, at most {LARGEST_WEIGHT}, "
                f"got weight={self.weight}"
            )
        if self.nonnegative and not self.plain:
            raise InvalidParameter("nonnegative rows must be plain: the unit ball knows no signs")
        if self.off_diagonal != ISOMETRIC and not self.plain:
            raise InvalidParameter(
                "rows must be plain where off_diagonal is not sqrt(2), "
                f"got off_diagonal={self.off_diagonal}"
            )
        # The parts check the rest.
        _ = self.first
        _ = self.second

    def identity(self) -> Identity:
        # Isometric coordinates are not named, so saved states and certificates of them stay valid.
        coordinates = {} if self.off_diagonal == ISOMETRIC else {"off_diagonal": self.off_diagonal}
        return Identity(
            "stacked-rows",
            1,
            steps=self.steps,
            dimension=self.dimension,
            balance=self.balance,
            second_steps=self.second_steps,
            second_dimension=self.second_dimension,
            second_balance=self.second_balance,
            weight=self.weight,
            plain=self.plain,
            nonnegative=self.nonnegative,
            **coordinates,
        )

    @property
    def first(self) -> RegressionRows | WeightedRows:
        return self._part(self.steps, self.dimension, self.balance)

    @property
    def second(self) -> RegressionRows | WeightedRows:
        return self._part(self.second_steps, self.second_dimension, self.second_balance)

    def _part(self, steps: int, dimension: int, balance: float) -> RegressionRows | WeightedRows:
        return _rows(self.plain, self.nonnegative, steps, dimension, balance, self.off_diagonal)

    @property
    def about(self) -> str:
        return (
            f"rows of {self.steps} regressions in {self.dimension} dimensions, "
            f"and of {self.second_steps} in {self.second_dimension}"
        )

    @property
    def rows(self) -> tuple[int, float]:
        return self.first.rows

    @property
    def size(self) -> int:
        return self.first.size + self.second.size

    @property
    def largest(self) -> float:
        return max(self.first.largest, self.weight * self.second.largest)

    @property
    def grid(self) -> float:
        return min(self.first.grid, self.second.grid) / WEIGHT_PARTS

    def sensitivity(self, relation: Relation) -> float:
        first = self.first.sensitivity(relation)
        return math.hypot(first, self.weight * self.second.sensitivity(relation))

    def l1_sensitivity(self, relation: Relation) -> float:
        first = self.first.l1_sensitivity(relation)
        return first + self.weight * self.second.l1_sensitivity(relation)

    def contains(self, values: Array) -> bool:
        first, second = self.split(values)
        return self.first.contains(first) and self.second.contains(second)

    def contribution(self, first: Bounded, second: Bounded) -> Bounded:
        """Both parts of the same users, each clipped by its own bound."""
        if first.bound != self.first or second.bound != self.second or first.users != second.users:
            raise InvalidParameter(
                "the parts must come from the stack's own bounds, for the same users"
            )
        values = np.concatenate([first.values, self.weight * second.values])
        return Bounded(values, self, first.users)

    def split(self, values: Array) -> tuple[Array, Array]:
        """Split a released vector into those of the two parts, with the weight divided out.

        The second one's noise is 1/w times the first one's.
        """
        return values[: self.first.size], values[self.first.size :] / self.weight


class RegressionStatistic(Protocol):
    """What users contribute to one set of regressions."""

    def tables(self) -> list[Array]: ...

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded: ...


@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """Two statistics of the same users, as one query."""

    bound: StackedRows
    first: RegressionStatistic
    second: RegressionStatistic

    def tables(self) -> list[Array]:
        return [*self.first.tables(), *self.second.tables()]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        first = self.first.contribution(users)
        return self.bound.contribution(first, self.second.contribution(users))


class ValueTargets:
    """Turns the users of a batch into a bounded contribution, for the values it was planned with.

    The row and the target of (h, s, a, s') are multiplied by `weights` [h, s, a] (or one number),
    which must be public. By default they are the fitting ones, under which no possible row is
    clipped. An impossible transition is clipped like any other. A state or an action that does not
    exist contributes zero.
    """

    def __init__(
        self,
        bound: Rows,
        feature_map: FeatureMap,
        kernels: Array | SparseKernels,
        values: Array,
        weights: Array | float | None = None,
    ) -> None:
        self._bound = bound
        self._kernels = sparse(feature_map, kernels)
        # The regression of step h is about the value after it.
        self._next_values = self._kernels.check_values(values[1 : bound.steps + 1])
        self._shape = (len(self._next_values), self._kernels.states, self._kernels.actions)
        self._weights = None if weights is None else np.broadcast_to(weights, self._shape)

    def tables(self) -> list[Array]:
        if self._weights is None:
            return [self._next_values]
        return [self._next_values, self._weights]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        seen = self.counts(users)
        return self._bound.clip_and_add(*self.rows(seen), seen.count, users=seen.users)

    def counts(self, users: Trajectories | TransitionCounts) -> TransitionCounts:
        """The transitions that a regression looks at, counted."""
        return valid_transitions(users, *self._shape)

    def rows(self, seen: TransitionCounts) -> tuple[Indices, Array, Array]:
        """Step [n], row [n, m] and target [n] of each counted transition, before the clip."""
        rows, targets = transition_rows(
            self._kernels,
            self._next_values,
            seen.step,
            seen.state,
            seen.action,
            seen.next_state,
            balance=self._bound.balance,
            weights=self._weights,
        )
        return seen.step, rows, targets


@dataclass(frozen=True, slots=True, eq=False)
class PairedTargets:
    """Both regressions in one bound of 2 n problems.

    The first regression has the problems 0, ..., n - 1, and the second has n, ..., 2 n - 1.
    """

    bound: RegressionRows
    first: ValueTargets
    second: ValueTargets

    def tables(self) -> list[Array]:
        return [*self.first.tables(), *self.second.tables()]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        seen = self.first.counts(users)
        step, rows, targets = self.first.rows(seen)
        second_step, second_rows, second_targets = self.second.rows(seen)
        return self.bound.clip_and_add(
            np.concatenate([step, second_step + self.bound.steps // 2]),
            np.concatenate([rows, second_rows]),
            np.concatenate([targets, second_targets]),
            np.tile(seen.count, 2),
            users=seen.users,
        )
