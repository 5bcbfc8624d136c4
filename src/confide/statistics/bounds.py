"""The sets to which users' contributions are clipped, each with its sensitivity and a proof.

All of them are about rows (X, y) of least-squares problems, which are contributed as (X X^T, kappa
X y). Matrices are in the coordinates of `svec`, isometric ones unless a bound says otherwise. The
sets differ in how rows are clipped. The L1 sensitivity of n coordinates is at most sqrt(n) times
the L2 sensitivity. This is used below wherever it is less than the sum of the L1 norms of both
neighbours.

What leaves this file is the identity of a bound, in ledger ids, saved states and certificates. Its
kind and the names of its values must stay. The clips and the sensitivities are required for
privacy.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import real, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.mechanisms.symmetric import ISOMETRIC, svec_size
from confide.privacy.bounded import Array, Bound, Bounded, grid_for, real_numbers
from confide.privacy.request import Relation, parse_relation
from confide.statistics import _kernels

Ints = npt.NDArray[np.int64]


class Rows(Bound, Protocol):
    """A bound on one user's rows of several least-squares problems, at most one row in each."""

    @property
    def steps(self) -> int:
        """The number of problems."""

    @property
    def dimension(self) -> int: ...
    @property
    def balance(self) -> float:
        """kappa, which splits the noise between X X^T and X y."""

    @property
    def rows(self) -> tuple[int, float]:
        """The dimension of a row, and the norm of the longest row."""

    def clip_and_add(
        self, step: npt.ArrayLike, rows: Array, targets: Array, count: npt.ArrayLike, *, users: int
    ) -> Bounded:
        """Clip rows [n, d] and targets [n], and add them up.

        Each row is that of `count` [n] users in the problem `step` [n]. Together they are `users`
        users, each with at most one row per problem.
        """


@dataclass(frozen=True, slots=True)
class RegressionRows:
    """One user's rows (X_h, y_h) of several regressions, as the query (X_h X_h^T, kappa X_h y_h)_h.

    Symbols, and their names in the code: L is `row_norm`, Y is `target`, kappa is `balance`, d is
    `dimension`, o is `off_diagonal`, and h is a step, of which there are `steps`. kappa splits the
    noise between the two parts of the query.

    Enforced: ||X|| <= L and |y| <= Y. With `nonnegative`, X >= 0 entrywise and y in [0, Y]. A row
    that is not finite contributes zero.

    L2 sensitivity of one step (`_step_sensitivity`). With f = (X X^T, kappa X y) and t = X.X',

        ||f - f'||^2 = ||X||^4 + ||X'||^4 - 2 t^2
                       + kappa^2 (||X||^2 y^2 + ||X'||^2 y'^2 - 2 t y y').

    - null: f' = 0 gives sqrt(L^4 + kappa^2 L^2 Y^2).
    - replace: at fixed |t| the right side grows with the norms, and is largest at
      y = -sign(t) y' = Y. So it is at most 2 L^4 - 2 t^2 + 2 kappa^2 Y^2 (L^2 + |t|) with
      |t| <= L^2. This is largest at |t| = min(L^2, kappa^2 Y^2 / 2), which gives
      sqrt(2) (L^2 + kappa^2 Y^2 / 2) if kappa^2 Y^2 <= 2 L^2, and 2 kappa L Y if not.
    - replace, nonnegative: t y y' >= 0, so it is largest at t = 0, which gives
      sqrt(2) L sqrt(L^2 + kappa^2 Y^2).

    Rows with entries of both signs are farther apart. With M = kappa^2 Y^2 the square of the bound
    is 2 L^4 + 2 L^2 M if nonnegative. If not, it is larger by M^2 / 2, or by 2 L^2 (M - L^2) if M >
    2 L^2. Nonnegative targets alone do not help, because t < 0 and y = y' = Y attain the larger
    bound. The steps are separate coordinates, which gives a factor sqrt(steps).

    o weighs the entries of X X^T off its diagonal (`mechanisms/symmetric.py`). With o < sqrt(2) the
    query is shorter than the isometric one, so the L2 sensitivity holds. It is attained if d >= 2:
    turn the worst pair so that X X^T - X' X'^T is diagonal.

    L1 sensitivity of one step (`l1_parts`), times `steps`:

    - null: ||svec(X X^T)||_1 <= L^2 (1 + o (d - 1)/2) and ||X y||_1 <= sqrt(d) L Y.
    - replace: by Cauchy and Schwarz from L2. The d isometric coordinates on the diagonal have the
      weight 1, and the d (d - 1)/2 others o/sqrt(2). So the squared weights add up to n = d + o^2 d
      (d - 1)/4 (`_squared_weights`). For both parts together they add up to n + d. Each part alone
      has the L2 sensitivity sqrt(2) L^2, and 2 kappa L Y or, nonnegative, sqrt(2) kappa L Y. The
      smaller one of both bounds counts.

    Rounding each row to the grid moves each coordinate of either neighbour by at most half a grid
    step, which is added to both sensitivities.
    """

    steps: int
    dimension: int
    row_norm: float = 1.0
    target: float = 1.0
    balance: float = 1.0
    nonnegative: bool = False
    off_diagonal: float = ISOMETRIC

    def __post_init__(self) -> None:
        _check_sizes(steps=self.steps, dimension=self.dimension)
        real("off_diagonal", self.off_diagonal, above=0, at_most=ISOMETRIC)
        _check_numbers(row_norm=self.row_norm, balance=self.balance)
        # With a target of zero the query is X X^T alone, with noise where the responses would be.
        if real("target", self.target) != 0:
            _check_numbers(target=self.target)

    def identity(self) -> Identity:
        # Isometric coordinates are not named, so saved states and certificates of them stay valid.
        coordinates = {} if self.off_diagonal == ISOMETRIC else {"off_diagonal": self.off_diagonal}
        return Identity(
            "regression-rows",
            1,
            steps=self.steps,
            dimension=self.dimension,
            row_norm=self.row_norm,
            target=self.target,
            balance=self.balance,
            nonnegative=self.nonnegative,
            **coordinates,
        )

    @property
    def about(self) -> str:
        return f"rows of {self.steps} regressions in {self.dimension} dimensions"

    @property
    def rows(self) -> tuple[int, float]:
        """The dimension of a row, and the norm of the longest."""
        return self.dimension, self.row_norm

    @property
    def size(self) -> int:
        return self.steps * _coordinates(self.dimension)

    @property
    def largest(self) -> float:
        return self.row_norm * max(self.row_norm, self.balance * self.target)

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        rounding = math.sqrt(self.size) * self.grid
        return math.sqrt(self.steps) * self._step_sensitivity(relation) + rounding

    def l1_sensitivity(self, relation: Relation) -> float:
        step = sum(self.l1_parts(relation))
        if parse_relation(relation) != Relation.NULL:
            squared_weights = self._squared_weights + self.dimension
            together = math.sqrt(squared_weights) * self._step_sensitivity(relation)
            step = min(step, together)
        return self.steps * step + self.size * self.grid

    def l1_parts(self, relation: Relation) -> tuple[float, float]:
        """The L1 sensitivities of X X^T and of kappa X y in one step, each before rounding."""
        L = self.row_norm
        KY = self.balance * self.target
        d = self.dimension
        if parse_relation(relation) == Relation.NULL:
            isometric = self.off_diagonal == ISOMETRIC
            along = (d - 1) / math.sqrt(2) if isometric else self.off_diagonal * (d - 1) / 2
            return L**2 * (1 + along), math.sqrt(d) * L * KY
        responses = (math.sqrt(2) if self.nonnegative else 2) * L * KY
        return math.sqrt(self._squared_weights) * math.sqrt(2) * L**2, math.sqrt(d) * responses

    @property
    def _squared_weights(self) -> float:
        """n of the docstring: the squared weights of the coordinates of X X^T, added up."""
        d = self.dimension
        if self.off_diagonal == ISOMETRIC:
            return svec_size(d)
        return d + self.off_diagonal**2 * d * (d - 1) / 4

    def contains(self, values: Array) -> bool:
        stacked = _stack_steps(values, self.size, self.steps)
        if self.nonnegative and stacked.min() < 0:
            return False
        return bool(
            _kernels.is_rank_one(
                stacked,
                self.dimension,
                self.grid,
                self.row_norm,
                self.balance * self.target,
                False,
                self.off_diagonal,
            )
        )

    def _step_sensitivity(self, relation: Relation) -> float:
        """The L2 sensitivity of one step, before rounding."""
        L = self.row_norm
        KY = self.balance * self.target
        if parse_relation(relation) == Relation.NULL:
            return L * math.hypot(L, KY)
        if self.nonnegative:
            return math.sqrt(2) * L * math.hypot(L, KY)
        return math.sqrt(2) * (L**2 + KY**2 / 2) if KY**2 <= 2 * L**2 else 2 * L * KY

    def contribution(self, rows: Array, targets: Array) -> Bounded:
        """Clip rows [user, h, d] and targets [user, h] of one or more users, and add them up."""
        X = real_numbers(rows)
        y = real_numbers(targets)
        if X.ndim != 3 or X.shape[1:] != (self.steps, self.dimension) or y.shape != X.shape[:2]:
            expected = f"(users, {self.steps}, {self.dimension}) and (users, {self.steps})"
            raise InvalidParameter(
                f"rows and targets must have shapes {expected}, got {X.shape} and {y.shape}"
            )
        step = np.tile(np.arange(self.steps), len(X))
        once = np.ones(y.size, dtype=np.int64)
        return self.clip_and_add(step, X.reshape(-1, self.dimension), y.ravel(), once, users=len(X))

    def clip_and_add(
        self, step: npt.ArrayLike, rows: Array, targets: Array, count: npt.ArrayLike, *, users: int
    ) -> Bounded:
        """Clip rows [n, d] and targets [n], and add them up.

        Each is that of `count` [n] users at `step` [n]. Every user has at most one row per step.
        """
        X, y, steps, counts = _check_rows(
            step, rows, targets, count, problems=self.steps, dimension=self.dimension, users=users
        )
        sums = _kernels.regression_sums(
            steps,
            X,
            y,
            counts,
            self.steps,
            self.balance,
            self.grid,
            self.row_norm,
            self.target,
            self.nonnegative,
            self.off_diagonal,
        )
        return Bounded((sums * self.grid).ravel(), self, users)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """Turn a released vector into Lambda [h, d, d] and u [h, d], which is divided by kappa."""
        stacked = _stack_steps(values, self.size, self.steps)
        return _kernels.unpack(stacked, self.dimension, self.balance, self.off_diagonal)


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """One user's rows of several regressions after public weights.

    A row is v = (X, kappa y / sqrt(2)). Enforced: ||v|| <= 1. In the code, m is `dimension`, the
    length of X, and kappa is `balance`.

    The query is (X X^T, kappa X y), which is isometric to two of the three blocks of v v^T.

    L2 sensitivity of one step:

    - null: ||v v^T||_F <= 1.
    - replace: ||v v^T - v' v'^T||_F^2 = ||v||^4 + ||v'||^4 - 2 (v.v')^2 <= 2.

    The steps are separate coordinates, which gives a factor sqrt(steps).

    L1 sensitivity of one step (`_unit_row_l1`), times `steps`:

    - null: with b = kappa y / sqrt(2), ||svec(X X^T)||_1 + sqrt(2) ||X b||_1 <= ||svec(v v^T)||_1,
      which is at most 1 + m / sqrt(2), because v has m + 1 coordinates.
    - replace: by L2.

    The rounding to the grid is added, as in `RegressionRows`.
    """

    steps: int
    dimension: int
    balance: float = 1.0

    def __post_init__(self) -> None:
        _check_sizes(steps=self.steps, dimension=self.dimension)
        _check_numbers(balance=self.balance)

    def identity(self) -> Identity:
        return Identity(
            "weighted-rows",
            1,
            steps=self.steps,
            dimension=self.dimension,
            balance=self.balance,
        )

    @property
    def about(self) -> str:
        return f"rows of {self.steps} regressions in {self.dimension} dimensions"

    @property
    def rows(self) -> tuple[int, float]:
        """The dimension of a row, and the norm of the longest."""
        return self.dimension, 1.0

    @property
    def size(self) -> int:
        return self.steps * _coordinates(self.dimension)

    @property
    def largest(self) -> float:
        return 1.0

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        step = 1.0 if parse_relation(relation) == Relation.NULL else math.sqrt(2)
        return math.sqrt(self.steps) * step + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        return self.steps * _unit_row_l1(self.dimension, relation) + self.size * self.grid

    def contains(self, values: Array) -> bool:
        stacked = _stack_steps(values, self.size, self.steps)
        return bool(
            _kernels.is_rank_one(stacked, self.dimension, self.grid, 1.0, 0.0, True, ISOMETRIC)
        )

    def clip_and_add(
        self, step: npt.ArrayLike, rows: Array, targets: Array, count: npt.ArrayLike, *, users: int
    ) -> Bounded:
        """Clip weighted rows [n, m] and targets [n], and add them up.

        Each is that of `count` [n] users at `step` [n]. Every user has at most one row per step.
        """
        X, y, steps, counts = _check_rows(
            step, rows, targets, count, problems=self.steps, dimension=self.dimension, users=users
        )
        sums = _kernels.weighted_sums(steps, X, y, counts, self.steps, self.balance, self.grid)
        return Bounded((sums * self.grid).ravel(), self, users)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """Turn a released vector into Lambda [h, m, m] and u [h, m], which is divided by kappa."""
        stacked = _stack_steps(values, self.size, self.steps)
        return _kernels.unpack(stacked, self.dimension, self.balance, ISOMETRIC)


def _check_rows(
    step: npt.ArrayLike,
    rows: Array,
    targets: Array,
    count: npt.ArrayLike,
    *,
    problems: int,
    dimension: int,
    users: int,
) -> tuple[Array, Array, Ints, Ints]:
    """Rows, targets, steps and counts as arrays that compiled loops can read.

    Wrong shapes and types are refused, and so is a user with two rows in one step. The values of
    rows and targets are never refused.
    """
    X = real_numbers(rows)
    y = real_numbers(targets)
    steps = _any_array("step", step)
    counts = _any_array("count", count)
    are_whole = steps.dtype.kind in "iu" and counts.dtype.kind in "iu"
    have_right_shapes = (
        steps.ndim == 1
        and X.shape == (len(steps), dimension)
        and y.shape == counts.shape == steps.shape
    )
    if not (are_whole and have_right_shapes):
        raise InvalidParameter.of("rows", "must have one step, one target and one whole count each")
    if not _kernels.one_row_per_step(steps, counts, problems, users):
        raise InvalidParameter("every user has at most one row per step")
    return X, y, steps, counts


def _stack_steps(values: Array, size: int, steps: int) -> Array:
    """A vector of `size` numbers as an array [step, coordinate]. An error shows none of them."""
    vector = real_numbers(values)
    if vector.shape != (size,):
        raise InvalidParameter.of("values", f"must have shape ({size},), got {vector.shape}")
    return vector.reshape(steps, -1)


def _any_array(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """An array of any type. An error about it shows no value."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        raise InvalidParameter.of(
            name, f"must be an array of whole numbers, got {type(values).__name__}"
        ) from None


def _unit_row_l1(dimension: int, relation: Relation) -> float:
    """The L1 sensitivity of one row in the unit ball, before rounding: see `WeightedRows`."""
    is_null = parse_relation(relation) == Relation.NULL
    by_l2 = math.sqrt(_coordinates(dimension)) * (1.0 if is_null else math.sqrt(2))
    largest_norm = 1 + dimension / math.sqrt(2)
    by_norms = largest_norm * (1 if is_null else 2)
    return min(by_l2, by_norms)


def _coordinates(dimension: int) -> int:
    """The number of coordinates of the query of one step."""
    return svec_size(dimension) + dimension


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        whole(name, value, at_least=1)


def _check_numbers(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 1e-50 < real(name, value) < 1e50:
            raise InvalidParameter.of(name, "must be positive and finite", got=f"{value}")
