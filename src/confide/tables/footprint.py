"""Estimates memory and planning time of agents for tabular MDPs, from the sizes alone.

`benchmarks/memory.py` compares the estimates with measurements. Only `explain`, and the refusal of
problems that are too large, depend on them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.learning.arguments import choose_schedule
from confide.learning.resources import Footprint, numbers_of_users
from confide.privacy.request import Request
from confide.privatizers import Schedule, geometric
from confide.problems.sizes import ProblemSizes
from confide.tables.support_features import Support, layers_of

# Advice in the error for a tabular MDP that is too large.
FEWER_STATES = "choose a problem with fewer states"
STATE_SUPPORT = (
    "choose a problem with fewer states, "
    "or state in Python which transitions are possible (support=)"
)

# The schedule of the optimistic agents: the users of the first round, and the factor by which the
# number of all users grows from release to release.
FIRST_ROUND = 100
GROWTH = 1.2
# The following numbers were measured by `benchmarks/memory.py`: how many arrays as large as a
# release exist at the peak, the time per number of a release, and the time per cell of a backward
# induction.
OPTIMISTIC_ARRAYS = 9
SECONDS_PER_CELL = 4e-8
SECONDS_PER_SWEPT_CELL = 2e-9


@dataclass(frozen=True, slots=True)
class TableSizes:
    """The sizes of what users contribute to a table, before any of it is made."""

    layers: int
    pairs: int
    cells: int
    # Numbers of one release: cells, and sums of rewards where they are learned.
    released: int

    @classmethod
    def of(cls, sizes: ProblemSizes, support: Any = None) -> "TableSizes":
        """Return the sizes for a `support` as `support_of` reads it, or for a `Support`."""
        layers = layers_of(
            sizes.horizon, stationary=sizes.stationary, known_rewards=sizes.known_rewards
        )
        pairs = layers * sizes.states * sizes.actions
        if support is None:
            cells = layers * (sizes.states - sizes.terminal) * sizes.actions * sizes.states
        elif isinstance(support, Support):
            cells = support.cells
        else:
            cells = layers * _count_stated_cells(support, sizes.actions)
        reward_sums = 0 if sizes.known_rewards else pairs
        return cls(layers, pairs, cells, cells + reward_sums)


def _count_stated_cells(support: Any, actions: int) -> int:
    """Return how many (s, a, s') a support lists.

    Repetitions are counted here, although `support_of` removes them. What `support_of` refuses
    counts as zero.
    """
    try:
        stated = np.asarray(support)
    except (TypeError, ValueError):
        return 0
    if stated.dtype == bool:
        return int(np.count_nonzero(stated)) * (actions if stated.ndim == 2 else 1)
    return len(stated) if stated.ndim else 0


def optimistic_schedule(episodes: int) -> Schedule:
    return geometric(episodes, first=FIRST_ROUND, ratio=GROWTH)


def optimistic_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,  # noqa: ARG001 - the counter is chosen later
    schedule: Schedule | None = None,
    **options: Any,  # noqa: ARG001 - other options change nothing here
) -> Footprint:
    """Return the memory and the planning time of the optimistic agents."""
    released = TableSizes.of(sizes).released
    chosen = choose_schedule(schedule, optimistic_schedule(episodes))
    numbers = OPTIMISTIC_ARRAYS * released + numbers_of_users(chosen, sizes.horizon)
    swept_cells = sizes.horizon * sizes.states**2 * sizes.actions
    seconds = 0.005 + SECONDS_PER_CELL * released + SECONDS_PER_SWEPT_CELL * swept_cells
    return Footprint(released, numbers, seconds, chosen)
