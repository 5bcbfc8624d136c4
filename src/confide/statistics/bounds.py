"""The sets to which users' contributions are clipped, each with its sensitivity and a proof.

All of them are about rows (X, y) of least-squares problems, contributed as (X X^T, kappa X y) with matrices in the coordinates of `svec`,
isometric ones unless a bound says otherwise; they differ in how rows are clipped. The L1 sensitivity of n coordinates is at most sqrt(n)
times the L2 sensitivity, which is what stands below wherever it is less than adding up the two neighbours' L1 norms.
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
    def steps(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def balance(self) -> float: ...
    @property
    def rows(self) -> tuple[int, float]:
        """The dimension of a row, and the norm of the longest."""

    def clip_and_add(
        self, step: npt.ArrayLike, rows: Array, targets: Array, count: npt.ArrayLike, *, users: int
    ) -> Bounded:
        """Rows [n, d] and targets [n], each of `count` [n] users in the problem `step` [n]."""


@dataclass(frozen=True, slots=True)
class RegressionRows:
    """One user's rows (X_h, y_h) of `steps` least-squares problems, as the joint query (X_h X_h^T, kappa X_h y_h)_h.

    Enforced: ||X|| <= L = `row_norm`, |y| <= Y = `target`; with `nonnegative`, X >= 0 entrywise and y in [0, Y]; a row that is not
    finite contributes zero. kappa = `balance` splits the noise between the two parts.

    Sensitivity of one step f = (X X^T, kappa X y), with t = X.X':
        ||f - f'||^2 = ||X||^4 + ||X'||^4 - 2 t^2 + kappa^2 (||X||^2 y^2 + ||X'||^2 y'^2 - 2 t y y').
    replace: at fixed |t| the right side grows with the norms and is largest at y = -sign(t) y' = Y, so it is at most
        2 L^4 - 2 t^2 + 2 kappa^2 Y^2 (L^2 + |t|), |t| <= L^2: largest at |t| = min(L^2, kappa^2 Y^2 / 2), which gives
        sqrt(2) (L^2 + kappa^2 Y^2 / 2) if kappa^2 Y^2 <= 2 L^2, else 2 kappa L Y. If nonnegative, t y y' >= 0: largest at t = 0.
        Rows with entries of both signs are farther apart. With M = kappa^2 Y^2 the squares of the two bounds are 2 L^4 + 2 L^2 M if
        nonnegative, and M^2 / 2 more if not (2 L^2 (M - L^2) more if M > 2 L^2). Nonnegative targets alone do not help, because t < 0 and
        y = y' = Y attain the larger one.
    null: f' = 0 gives sqrt(L^4 + kappa^2 L^2 Y^2).
    The steps are separate coordinates: a factor sqrt(steps).

    o = `off_diagonal` weighs the entries of X X^T off its diagonal (`mechanisms/symmetric.py`). With o < sqrt(2) the query is shorter than
    the isometric one, so the L2 sensitivity holds. It is attained if d >= 2: turn the worst pair so that X X^T - X' X'^T is diagonal.

    In L1, null: ||svec(X X^T)||_1 <= L^2 (1 + o (d - 1)/2) and ||X y||_1 <= sqrt(d) L Y. replace: by Cauchy and Schwarz from L2, where the
    d isometric coordinates on the diagonal have the weight 1 and the d (d - 1)/2 others o/sqrt(2), so that squared weights add up to
    n = d + o^2 d (d - 1)/4; for both parts together, n + d, or for each alone (sqrt(2) L^2, and 2 kappa L Y or, nonnegative,
    sqrt(2) kappa L Y). Times `steps`. Rounding each row to the grid moves each coordinate of either neighbour by half a grid step at most,
    which is added.
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
        if real("target", self.target) != 0:  # 0: X X^T alone, and noise where responses would be
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
        return math.sqrt(self.steps) * self._step(relation) + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        step = sum(self.l1_parts(relation))
        if parse_relation(relation) != Relation.NULL:
            together = math.sqrt(self._squared_weights + self.dimension) * self._step(relation)
            step = min(step, together)
        return self.steps * step + self.size * self.grid

    def l1_parts(self, relation: Relation) -> tuple[float, float]:
        """The L1 sensitivities of X X^T and of kappa X y in one step, each alone and before rounding."""
        L, KY, d = self.row_norm, self.balance * self.target, self.dimension
        if parse_relation(relation) == Relation.NULL:
            isometric = self.off_diagonal == ISOMETRIC
            along = (d - 1) / math.sqrt(2) if isometric else self.off_diagonal * (d - 1) / 2
            return L**2 * (1 + along), math.sqrt(d) * L * KY
        responses = (math.sqrt(2) if self.nonnegative else 2) * L * KY
        return math.sqrt(self._squared_weights) * math.sqrt(2) * L**2, math.sqrt(d) * responses

    @property
    def _squared_weights(self) -> float:
        """n of the class, of the coordinates of X X^T."""
        d = self.dimension
        if self.off_diagonal == ISOMETRIC:
            return svec_size(d)
        return d + self.off_diagonal**2 * d * (d - 1) / 4

    def contains(self, values: Array) -> bool:
        stacked = _stacked(values, self.size, self.steps)
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

    def _step(self, relation: Relation) -> float:
        L, KY = self.row_norm, self.balance * self.target
        if parse_relation(relation) == Relation.NULL:
            return L * math.hypot(L, KY)
        if self.nonnegative:
            return math.sqrt(2) * L * math.hypot(L, KY)
        return math.sqrt(2) * (L**2 + KY**2 / 2) if KY**2 <= 2 * L**2 else 2 * L * KY

    def contribution(self, rows: Array, targets: Array) -> Bounded:
        """rows [users, h, d] and targets [users, h] of one or more users, clipped user by user and step by step, then added up."""
        X, y = real_numbers(rows), real_numbers(targets)
        if X.ndim != 3 or X.shape[1:] != (self.steps, self.dimension) or y.shape != X.shape[:2]:
            expected = f"(users, {self.steps}, {self.dimension}) and (users, {self.steps})"
            raise InvalidParameter(
                f"rows and targets must have shapes {expected}, got {X.shape} and {y.shape}"
            )
        step, once = np.tile(np.arange(self.steps), len(X)), np.ones(y.size, dtype=np.int64)
        return self.clip_and_add(step, X.reshape(-1, self.dimension), y.ravel(), once, users=len(X))

    def clip_and_add(
        self, step: npt.ArrayLike, rows: Array, targets: Array, count: npt.ArrayLike, *, users: int
    ) -> Bounded:
        """Rows [n, d] and targets [n], each of `count` [n] users at `step` [n]; every user has at most one row per step."""
        X, y, steps, counts = _checked(
            step, rows, targets, count, problems=self.steps, dimension=self.dimension, users=users
        )
        limits = self.row_norm, self.target, self.nonnegative, self.off_diagonal
        sums = _kernels.regression_sums(
            steps, X, y, counts, self.steps, self.balance, self.grid, *limits
        )
        return Bounded((sums * self.grid).ravel(), self, users)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector -> (Lambda [h, d, d], u [h, d]), kappa divided out."""
        stacked = _stacked(values, self.size, self.steps)
        return _kernels.unpack(stacked, self.dimension, self.balance, self.off_diagonal)


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """One user's rows of `steps` least-squares problems after public weights: v = (X, kappa y / sqrt(2)), of norm at most one.

    The query is (X X^T, kappa X y), isometric to two of the three blocks of v v^T. Sensitivity of one step, ||v||, ||v'|| <= 1 enforced:
    replace: ||v v^T - v' v'^T||_F^2 = ||v||^4 + ||v'||^4 - 2 (v.v')^2 <= 2; null: ||v v^T||_F <= 1. The steps are separate
    coordinates: a factor sqrt(steps). In L1, null: ||svec(X X^T)||_1 + sqrt(2) ||X b||_1 <= ||svec(v v^T)||_1 <= 1 + m / sqrt(2) with m + 1
    the length of v; replace: by L2. Rounding to the grid is added, as in `RegressionRows`.
    """

    steps: int
    dimension: int  # m, of X
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
        stacked = _stacked(values, self.size, self.steps)
        return bool(
            _kernels.is_rank_one(stacked, self.dimension, self.grid, 1.0, 0.0, True, ISOMETRIC)
        )

    def clip_and_add(
        self, step: npt.ArrayLike, rows: Array, targets: Array, count: npt.ArrayLike, *, users: int
    ) -> Bounded:
        """Weighted rows [n, m] and targets [n], each of `count` [n] users at `step` [n]; every user has at most one row per step."""
        X, y, steps, counts = _checked(
            step, rows, targets, count, problems=self.steps, dimension=self.dimension, users=users
        )
        sums = _kernels.weighted_sums(steps, X, y, counts, self.steps, self.balance, self.grid)
        return Bounded((sums * self.grid).ravel(), self, users)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector -> (Lambda [h, m, m], u [h, m]), kappa divided out."""
        stacked = _stacked(values, self.size, self.steps)
        return _kernels.unpack(stacked, self.dimension, self.balance, ISOMETRIC)


def _checked(
    step: npt.ArrayLike,
    rows: Array,
    targets: Array,
    count: npt.ArrayLike,
    *,
    problems: int,
    dimension: int,
    users: int,
) -> tuple[Array, Array, Ints, Ints]:
    X, y = real_numbers(rows), real_numbers(targets)
    steps, counts = _numbers("step", step), _numbers("count", count)
    shapes = (
        steps.ndim == 1
        and X.shape == (len(steps), dimension)
        and y.shape == counts.shape == steps.shape
    )
    if steps.dtype.kind not in "iu" or counts.dtype.kind not in "iu" or not shapes:
        raise InvalidParameter.of("rows", "must have one step, one target and one whole count each")
    if not _kernels.one_row_per_step(steps, counts, problems, users):
        raise InvalidParameter("every user has at most one row per step")
    return X, y, steps, counts


def _stacked(values: Array, size: int, steps: int) -> Array:
    """[step, coordinate], of a vector of `size` numbers; an error about it shows none of them."""
    vector = real_numbers(values)
    if vector.shape != (size,):
        raise InvalidParameter.of("values", f"must have shape ({size},), got {vector.shape}")
    return vector.reshape(steps, -1)


def _numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """An array, whatever its type; an error about it shows no value."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        raise InvalidParameter.of(
            name, f"must be an array of whole numbers, got {type(values).__name__}"
        ) from None


def _unit_row_l1(dimension: int, relation: Relation) -> float:
    """Of one row in the unit ball: see `WeightedRows`."""
    is_null = parse_relation(relation) == Relation.NULL
    by_l2 = math.sqrt(_coordinates(dimension)) * (1.0 if is_null else math.sqrt(2))
    one = 1 + dimension / math.sqrt(2)
    return min(by_l2, one * (1 if is_null else 2))


def _coordinates(dimension: int) -> int:
    return svec_size(dimension) + dimension


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        whole(name, value, at_least=1)


def _check_numbers(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 1e-50 < real(name, value) < 1e50:
            raise InvalidParameter.of(name, "must be positive and finite", got=f"{value}")
