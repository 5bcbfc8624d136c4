"""Sums of public codes of transitions: each user adds one row of a public table per step.

PRIVATE until a privatizer has added noise. What leaves is the noisy sum, or a message of a device.
Required for privacy: a contribution is a row of the table or zero, whatever the data are, and the
table is scaled to the distances that `TableRows` states.
"""

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

# Tables are scaled so that their rows, and zero, are at most so far apart in L2. Required for
# privacy: sensitivities are computed from it.
DIAMETER = math.sqrt(2)
# Stated distances may miss their limits by this share, because they were computed with rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class TableRows:
    """One row of a public table for each of `steps` steps, or zero.

    Enforced: a contribution is looked up, not computed. So whatever a user's data are, it is a row
    of the table or zero. The table is scaled until rows (and zero) are at most sqrt(2) apart in L2,
    then rounded to the grid. `spread` is how far apart they are in L1, and `radius` is the norm of
    the longest row.

    Sensitivity of one step: replacing a user moves one row to another, by at most sqrt(2). If the
    user contributes zero instead, a row moves to zero, by at most `radius`. In L1 both move by at
    most `spread`, because zero is one of the points that are so far apart. The steps are separate
    coordinates: a factor sqrt(steps), in L1 steps. Rounding moves each coordinate of either row by
    half a grid step, which is added.
    """

    # Its numbers are properties of a public table that a certificate does not hold.
    of_table: ClassVar[bool] = True

    steps: int
    dimension: int
    spread: float
    radius: float = DIAMETER

    def __post_init__(self) -> None:
        if self.steps < 1 or self.dimension < 1:
            raise InvalidParameter(
                "a table of codes must have at least one step and one coordinate, "
                f"got steps={self.steps} and dimension={self.dimension}"
            )
        # ||x||_2 <= ||x||_1 <= sqrt(c) ||x||_2 for vectors of c numbers.
        least = DIAMETER * (1 - ROUNDING)
        most = math.sqrt(2 * self.dimension) * (1 + ROUNDING)
        if not least <= self.spread <= most:
            raise InvalidParameter(
                f"spread must be between {least:.4f} and {most:.4f}, because rows are sqrt(2) "
                f"apart in L2, got spread={self.spread}"
            )
        # Zero is one of the points, so one of two points that are sqrt(2) apart is far from it.
        if not math.sqrt(0.5) * (1 - ROUNDING) <= self.radius <= DIAMETER * (1 + ROUNDING):
            raise InvalidParameter(
                "radius must be between sqrt(1/2) and sqrt(2), because rows are sqrt(2) apart, "
                f"got radius={self.radius}"
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
        return DIAMETER

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        step = self.radius if parse_relation(relation) == Relation.NULL else DIAMETER
        return math.sqrt(self.steps) * step + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:  # noqa: ARG002 - the same for both
        return self.steps * self.spread + self.size * self.grid

    def contains(self, values: Array) -> bool:
        """Whether each row is at most `radius`, and in L1 `spread`, from zero.

        Which rows are in the table the bound does not know.
        """
        rows = values.reshape(self.steps, self.dimension)
        rounding = self.dimension * self.grid
        is_within = np.linalg.norm(rows, axis=1) <= self.radius + rounding
        is_within &= np.abs(rows).sum(axis=1) <= self.spread + rounding
        return bool(is_within.all())


class TransitionSums:
    """Turns the users of a round into the sum of their transitions' codes, step by step.

    The same table serves all rounds. An impossible transition has a code like all others, which is
    zero if no kernel has it. A state or an action that does not exist adds zero. `table`
    [s, a, s', c] are the codes as they are sent.
    """

    def __init__(self, codes: Codes, steps: int) -> None:
        scale = DIAMETER / codes.diameter
        *_, length = codes.table.shape
        self.bound = TableRows(steps, length, codes.l1_diameter * scale, codes.radius * scale)
        self._grid_steps = np.rint(codes.table * (scale / self.bound.grid))
        self.table = self._grid_steps * self.bound.grid

    def plain(self) -> dict[str, Any]:
        """What a client needs to contribute. Public.

        Step h of an episode adds table[s][a][s'], in whole steps of the grid, at the coordinates
        h c to (h + 1) c - 1, for codes of c numbers.
        """
        return {
            "kind": "transitions",
            "steps": self.bound.steps,
            "table": self._grid_steps.astype(int).tolist(),
        }

    def tables(self) -> list[Array]:
        return [self._grid_steps]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        states, actions, _, length = self._grid_steps.shape
        seen = valid_transitions(users, self.bound.steps, states, actions)
        sums = np.zeros((self.bound.steps, length))
        rows = self._grid_steps[seen.state, seen.action, seen.next_state]
        # Grid steps and counts are whole numbers, so the sum is exact.
        np.add.at(sums, seen.step, rows * seen.count[:, None])
        return Bounded((sums * self.bound.grid).ravel(), self.bound, seen.users)
