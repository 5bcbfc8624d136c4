"""Sums of public codes of transitions: each user adds one row of a public table per step. PRIVATE until a privatizer has added noise."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.mixtures.code_features import Codes
from confide.privacy.bounded import Array, Bounded, grid_for
from confide.privacy.request import Relation, parse_relation
from confide.statistics.transitions import valid_transitions
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class TableRows:
    """One row of a public table for each of `steps` steps, or zero.

    Enforced: a contribution is looked up, not computed, so whatever a user's data are, it is a row of the table or zero. The table is
    scaled to rows (and zero) at most sqrt(2) apart in L2, then rounded to the grid; `spread` is how far apart they are in L1, and `radius`
    is the norm of the longest row.

    Sensitivity of one step: replace: two rows, sqrt(2) apart at most; null: a row and zero, at most `radius`. In L1 `spread` in both
    cases: zero is one of the points that are so far apart. The steps are separate coordinates: a factor sqrt(steps), in L1 steps. Rounding
    moves each coordinate of either row by half a grid step, which is added.
    """

    # its numbers are properties of a public table that a certificate does not hold
    of_table: ClassVar[bool] = True

    steps: int
    dimension: int
    spread: float
    radius: float = math.sqrt(2)

    def __post_init__(self) -> None:
        if self.steps < 1 or self.dimension < 1:
            raise InvalidParameter("a table of codes needs at least one step and one coordinate")
        least, most = math.sqrt(2) * (1 - 1e-9), math.sqrt(2 * self.dimension) * (1 + 1e-9)
        if not least <= self.spread <= most:  # ||x||_2 <= ||x||_1 <= sqrt(c) ||x||_2
            raise InvalidParameter(
                f"rows sqrt(2) apart are between {least:.4f} and {most:.4f} apart in L1, got {self.spread}"
            )
        # zero is one of the points
        if not math.sqrt(0.5) * (1 - 1e-9) <= self.radius <= math.sqrt(2) * (1 + 1e-9):
            raise InvalidParameter(
                f"rows sqrt(2) apart have norm sqrt(1/2) to sqrt(2), got {self.radius}"
            )

    def identity(self) -> Identity:
        return Identity(
            "table-rows",
            1,
            steps=self.steps,
            dimension=self.dimension,
            spread=self.spread,
            radius=self.radius,
        )

    @property
    def about(self) -> str:
        return (
            f"a code of {self.dimension} numbers from a public table, at each of {self.steps} steps"
        )

    @property
    def size(self) -> int:
        return self.steps * self.dimension

    @property
    def largest(self) -> float:
        return math.sqrt(2)

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        step = self.radius if parse_relation(relation) == Relation.NULL else math.sqrt(2)
        return math.sqrt(self.steps) * step + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:  # noqa: ARG002 - the same for both
        return self.steps * self.spread + self.size * self.grid

    def contains(self, values: Array) -> bool:
        """Each row at most `radius`, and in L1 `spread`, from zero; which rows are in the table the bound does not know."""
        rows, room = values.reshape(self.steps, self.dimension), self.dimension * self.grid
        far = np.linalg.norm(rows, axis=1) <= self.radius + room
        return bool((far & (np.abs(rows).sum(axis=1) <= self.spread + room)).all())


class TransitionSums:
    """Turns the users of a round into the sum of their transitions' codes, step by step. The same table serves all rounds.

    Impossible transitions have a code like all others (zero, if no kernel knows them); a state or an action that does not exist adds zero.
    """

    def __init__(self, codes: Codes, steps: int) -> None:
        scale = math.sqrt(2) / codes.diameter
        *_, dimension = codes.table.shape
        self.bound = TableRows(steps, dimension, codes.l1_diameter * scale, codes.radius * scale)
        self._whole = np.rint(codes.table * (scale / self.bound.grid))  # in grid steps
        self.table = self._whole * self.bound.grid  # as it is sent

    def plain(self) -> dict[str, Any]:
        """For clients: step h of an episode adds table[s][a][s'], whole steps of the grid, at coordinates h c to (h + 1) c - 1. Public."""
        return {
            "kind": "transitions",
            "steps": self.bound.steps,
            "table": self._whole.astype(int).tolist(),
        }

    def tables(self) -> list[Array]:
        return [self._whole]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        S, A, _, dimension = self._whole.shape
        seen = valid_transitions(users, self.bound.steps, S, A)
        sums = np.zeros((self.bound.steps, dimension))
        rows = self._whole[seen.state, seen.action, seen.next_state]
        np.add.at(sums, seen.step, rows * seen.count[:, None])  # whole numbers: exact
        return Bounded((sums * self.bound.grid).ravel(), self.bound, seen.users)
