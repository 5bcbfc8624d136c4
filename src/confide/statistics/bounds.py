"""The sets that users' contributions are forced into, each with its sensitivity and the proof beside the clip."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.mechanisms.symmetric import smat, svec, svec_size
from confide.privacy.bounded import Array, Bounded, clip_rows, grid_for, real_numbers
from confide.privacy.request import Relation


@dataclass(frozen=True, slots=True)
class RegressionRows:
    """One user's rows (X_h, y_h) of `steps` least-squares problems, as the joint query (X_h X_h^T, kappa X_h y_h)_h.

    Enforced: ||X|| <= L = `row_norm`, |y| <= Y = `target`; with `nonnegative`, X >= 0 entrywise and y in [0, Y]; a row that is not
    finite contributes zero. kappa = `balance` splits the noise between the two parts.

    Sensitivity of one step f = (X X^T, kappa X y), with t = X.X' and matrices in the isometric coordinates of `svec`:
        ||f - f'||^2 = ||X||^4 + ||X'||^4 - 2 t^2 + kappa^2 (||X||^2 y^2 + ||X'||^2 y'^2 - 2 t y y').
    replace: at fixed |t| the right side grows with the norms and is largest at y = -sign(t) y' = Y, so it is at most
        2 L^4 - 2 t^2 + 2 kappa^2 Y^2 (L^2 + |t|), |t| <= L^2: largest at |t| = min(L^2, kappa^2 Y^2 / 2), which gives
        sqrt(2) (L^2 + kappa^2 Y^2 / 2) if kappa^2 Y^2 <= 2 L^2, else 2 kappa L Y. If nonnegative, t y y' >= 0: largest at t = 0.
    null: f' = 0 gives sqrt(L^4 + kappa^2 L^2 Y^2).
    The steps are separate coordinates: a factor sqrt(steps). In L1, ||svec(X X^T)||_1 <= L^2 (1 + (d - 1)/sqrt(2)) and
    ||X y||_1 <= sqrt(d) L Y for each of the two neighbours, times `steps`. Rounding each row to the grid moves each coordinate of either
    neighbour by half a grid step at most, which is added.
    """

    steps: int
    dimension: int
    row_norm: float = 1.0
    target: float = 1.0
    balance: float = 1.0
    nonnegative: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "dimension"):
            if getattr(self, name) < 1:
                raise InvalidParameter(f"{name} must be at least 1, got {name}={getattr(self, name)}")
        for name in ("row_norm", "target", "balance"):
            if not 1e-50 < getattr(self, name) < 1e50:
                raise InvalidParameter(f"{name} must be positive and finite, got {name}={getattr(self, name)}")

    @property
    def size(self) -> int:
        return self.steps * (svec_size(self.dimension) + self.dimension)

    @property
    def largest(self) -> float:
        return self.row_norm * max(self.row_norm, self.balance * self.target)

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        L, KY = self.row_norm, self.balance * self.target
        if relation is Relation.NULL:
            step = L * math.hypot(L, KY)
        elif self.nonnegative:
            step = math.sqrt(2) * L * math.hypot(L, KY)
        else:
            step = math.sqrt(2) * (L**2 + KY**2 / 2) if KY**2 <= 2 * L**2 else 2 * L * KY
        return math.sqrt(self.steps) * step + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        L, d = self.row_norm, self.dimension
        step = L**2 * (1 + (d - 1) / math.sqrt(2)) + math.sqrt(d) * L * self.balance * self.target
        return self.steps * step * (2 if relation is Relation.REPLACE else 1) + self.size * self.grid

    def contribution(self, rows: Array, targets: Array) -> Bounded:
        """rows [users, h, d] and targets [users, h] of one or more users, clipped user by user and step by step, then added up."""
        X, y = real_numbers(rows), real_numbers(targets)
        if X.ndim != 3 or X.shape[1:] != (self.steps, self.dimension) or y.shape != X.shape[:2]:
            expected = f"(users, {self.steps}, {self.dimension}) and (users, {self.steps})"
            raise InvalidParameter(f"rows and targets must have shapes {expected}, got {X.shape} and {y.shape}")
        X, y = self._clip(X, y)
        stacked = np.concatenate([svec(X[..., :, None] * X[..., None, :]), self.balance * X * y[..., None]], axis=2)
        steps = np.rint(stacked / self.grid).sum(axis=0)  # whole numbers: exact in any order
        return Bounded((steps * self.grid).ravel(), self, len(X))

    def _clip(self, X: Array, y: Array) -> tuple[Array, Array]:
        finite = np.isfinite(y) & np.isfinite(X).all(axis=-1)
        X, y = np.where(finite[..., None], X, 0.0), np.where(finite, y, 0.0)
        if self.nonnegative:
            X = np.maximum(X, 0.0)
        return clip_rows(X, self.row_norm), np.clip(y, 0.0 if self.nonnegative else -self.target, self.target)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector -> (Lambda [h, d, d], u [h, d]), kappa divided out."""
        stacked = values.reshape(self.steps, -1)
        split = svec_size(self.dimension)
        return smat(stacked[:, :split], self.dimension), stacked[:, split:] / self.balance


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """One user's rows of `steps` least-squares problems after public weights: v = (X, kappa y / sqrt(2)), of norm at most one.

    The query is (X X^T, kappa X y), isometric to two of the three blocks of v v^T. Sensitivity of one step, ||v||, ||v'|| <= 1 enforced:
    replace: ||v v^T - v' v'^T||_F^2 = ||v||^4 + ||v'||^4 - 2 (v.v')^2 <= 2; null: ||v v^T||_F <= 1. The steps are separate
    coordinates: a factor sqrt(steps). In L1: ||svec(X X^T)||_1 + sqrt(2) ||X b||_1 <= ||svec(v v^T)||_1 <= 1 + m / sqrt(2) with m + 1 the
    length of v, for each neighbour and step. Rounding to the grid is added, as in `RegressionRows`.
    """

    steps: int
    dimension: int  # m, of X
    balance: float = 1.0

    def __post_init__(self) -> None:
        for name in ("steps", "dimension"):
            if getattr(self, name) < 1:
                raise InvalidParameter(f"{name} must be at least 1, got {name}={getattr(self, name)}")
        if not 1e-50 < self.balance < 1e50:
            raise InvalidParameter(f"balance must be positive and finite, got balance={self.balance}")

    @property
    def size(self) -> int:
        return self.steps * (svec_size(self.dimension) + self.dimension)

    @property
    def largest(self) -> float:
        return 1.0

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        step = math.sqrt(2) if relation is Relation.REPLACE else 1.0
        return math.sqrt(self.steps) * step + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        step = 1 + self.dimension / math.sqrt(2)
        return self.steps * step * (2 if relation is Relation.REPLACE else 1) + self.size * self.grid

    def contribution(self, step: npt.ArrayLike, rows: Array, targets: Array, count: npt.ArrayLike, *, users: int) -> Bounded:
        """Weighted rows [n, m] and targets [n], each of `count` [n] users at `step` [n]; every user has at most one row per step."""
        X, y, steps, counts = real_numbers(rows), real_numbers(targets), np.asarray(step), np.asarray(count)
        if steps.dtype.kind not in "iu" or counts.dtype.kind not in "iu" or X.shape != (len(y), self.dimension):
            raise InvalidParameter("rows must have one step, one target and one whole count each")
        inside = (steps >= 0) & (steps < self.steps) & (counts >= 0)
        if not inside.all() or (np.bincount(steps, counts, minlength=self.steps) > users).any():
            raise InvalidParameter("every user has at most one row per step")
        with np.errstate(all="ignore"):
            v = clip_rows(np.concatenate([X, y[:, None] * (self.balance / math.sqrt(2))], axis=1), 1.0)
        X, b = v[:, :-1], v[:, -1:]
        table = np.concatenate([svec(X[:, :, None] * X[:, None, :]), math.sqrt(2) * X * b], axis=1)
        sums = np.zeros((self.steps, table.shape[1]))
        np.add.at(sums, steps, np.rint(table / self.grid) * counts[:, None])  # whole numbers: exact
        return Bounded((sums * self.grid).ravel(), self, users)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector -> (Lambda [h, m, m], u [h, m]), kappa divided out."""
        stacked = values.reshape(self.steps, -1)
        split = svec_size(self.dimension)
        return smat(stacked[:, :split], self.dimension), stacked[:, split:] / self.balance
