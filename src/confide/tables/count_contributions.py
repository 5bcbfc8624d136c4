"""Visits as the papers count them, every step alike. PRIVATE until a privatizer has added noise."""

import math
from dataclasses import dataclass

import numpy as np

from confide.arguments import flag, whole
from confide.errors import InvalidParameter
from confide.privacy.bounded import Array, Bounded, grid_for
from confide.privacy.request import Relation, parse_relation
from confide.statistics.transitions import outcomes, valid_transitions
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class VisitCounts:
    """Counts of transitions (layer, s, a, s'), and if asked for of pairs (layer, s, a), and sums of rewards in [0, 1] of pairs.

    Enforced: at most `steps` steps of a user are looked at; each adds one to one cell and one pair, and at most one to one sum of
    rewards. With several layers there is one for each step, and with one layer all steps count in the same cells.

    Sensitivity. Let p be the number of parts (cells, pairs, rewards). In each part a user's numbers are not negative and sum to at most
    `steps`, in a layer of its own for each step to at most one. So a part's L2 norm is at most R = sqrt(steps) with layers and R = steps
    without, and its L1 norm at most `steps`. Null: R sqrt(p) in L2, p steps in L1. Replace: numbers are not negative, so ||v - v'||^2 <=
    ||v||^2 + ||v'||^2: sqrt(2) times as much in L2, twice as much in L1, attained by users with no pair in common.
    """

    layers: int
    states: int
    actions: int
    steps: int
    pairs: bool = False
    rewards: bool = False

    def __post_init__(self) -> None:
        for name in ("layers", "states", "actions", "steps"):
            whole(name, getattr(self, name), at_least=1)
        flag("pairs", self.pairs), flag("rewards", self.rewards)
        if self.layers not in (1, self.steps):
            raise InvalidParameter(
                f"layers must be 1 or steps={self.steps}, got layers={self.layers}"
            )

    @property
    def about(self) -> str:
        more = [
            name for name, there in (("visits", self.pairs), ("rewards", self.rewards)) if there
        ]
        said = f", and {' and '.join(more)} of {self.rows} pairs" if more else ""
        return (
            f"counts of {self.rows * self.states} transitions{said}, in at most {self.steps} steps"
        )

    @property
    def rows(self) -> int:
        return self.layers * self.states * self.actions

    @property
    def parts(self) -> int:
        return 1 + self.pairs + self.rewards

    @property
    def size(self) -> int:
        return self.rows * (self.states + self.parts - 1)

    @property
    def largest(self) -> float:
        return 1.0 if self.layers > 1 else float(self.steps)

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        one = math.sqrt(self.parts) * (math.sqrt(self.steps) if self.layers > 1 else self.steps)
        return one * (1.0 if parse_relation(relation) == Relation.NULL else math.sqrt(2))

    def l1_sensitivity(self, relation: Relation) -> float:
        return self.parts * self.steps * (1.0 if parse_relation(relation) == Relation.NULL else 2.0)

    def contains(self, values: Array) -> bool:
        """Nothing negative, and each part within its norms."""
        room, of_layer = 1 + 1e-9, self.steps / self.layers
        inside = bool((values >= 0).all())
        for part in self._split(values):
            inside = inside and bool(
                (part.reshape(self.layers, -1).sum(axis=1) <= of_layer * room).all()
            )
        return inside

    def unpack(self, values: Array) -> tuple[Array, Array | None, Array | None]:
        """Transitions [pair, s'], visits [pair] and rewards [pair]; None for what was not asked for."""
        cells, *more = self._split(values)
        rest = iter(more)
        visits, rewards = (next(rest) if there else None for there in (self.pairs, self.rewards))
        return cells.reshape(self.rows, self.states), visits, rewards

    def _split(self, values: Array) -> list[Array]:
        cells = self.rows * self.states
        return [
            values[:cells],
            *(
                values[cells + i * self.rows : cells + (i + 1) * self.rows]
                for i in range(self.parts - 1)
            ),
        ]


class Visits:
    """Turns users into their counts. A step with a state, an action or a successor that does not exist is not counted; neither is the
    reward of a step whose state or action does not exist, or that is not finite. Other rewards are clipped to [0, 1], and rounded
    down."""

    def __init__(self, bound: VisitCounts) -> None:
        self.bound = bound

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        bound = self.bound
        S, A, H, grid = bound.states, bound.actions, bound.steps, bound.grid
        found = valid_transitions(users, H, S, A)
        pair = self._pair(found.step, found.state, found.action)
        values = np.zeros(bound.size)
        cells, visits, rewards = bound.unpack(values)  # views
        np.add.at(cells, (pair, found.next_state), found.count)
        if visits is not None:
            np.add.at(visits, pair, found.count)
        if rewards is not None:
            step, state, action, reward, count = outcomes(users, H, S, A)
            np.add.at(
                rewards, self._pair(step, state, action), np.floor(reward / grid) * grid * count
            )
        return Bounded(values, bound, users.users)

    def _pair(self, step: np.ndarray, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        layer = step if self.bound.layers > 1 else 0
        return np.asarray((layer * self.bound.states + state) * self.bound.actions + action)
