"""What agents of tabular MDPs need, from the sizes of a table alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.learning.arguments import choose_schedule
from confide.learning.resources import Footprint, numbers_of_users
from confide.privacy.request import Request
from confide.privatizers import Schedule, geometric
from confide.problems.sizes import ProblemSizes
from confide.tables.support_features import Support, layers_of

# What helps against a table that is too large.
FEWER_STATES = "choose a problem with fewer states"
STATE_SUPPORT = "choose a problem with fewer states, or state in Python which transitions are possible (support=)"

# The users of the first round, and how much longer each round is than the sum before it.
FIRST_ROUND = 100
GROWTH = 1.2
# Measured by `benchmarks/memory.py`: arrays as large as a release that exist at the peak, the time
# per number of a release, and the time per cell of a backward induction.
OPTIMISTIC_ARRAYS = 9
SECONDS_PER_CELL = 4e-8
SECONDS_PER_SWEPT_CELL = 2e-9


@dataclass(frozen=True, slots=True)
class TableSizes:
    """The sizes of what users contribute to a table, before any of it is made."""

    layers: int
    pairs: int
    cells: int
    released: int  # numbers of one release: cells, and sums of rewards where they are learned

    @classmethod
    def of(cls, sizes: ProblemSizes, support: Any = None) -> "TableSizes":
        """`support` as `support_of` reads it, or a `Support`."""
        layers = layers_of(
            sizes.horizon, stationary=sizes.stationary, known_rewards=sizes.known_rewards
        )
        pairs = layers * sizes.states * sizes.actions
        if support is None:
            cells = layers * (sizes.states - sizes.terminal) * sizes.actions * sizes.states
        elif isinstance(support, Support):
            cells = support.cells
        else:
            cells = layers * _stated_cells(support, sizes.actions)
        return cls(layers, pairs, cells, cells + (0 if sizes.known_rewards else pairs))


def _stated_cells(support: Any, actions: int) -> int:
    """How many (s, a, s') a support lists, as `support_of` counts them but for repetitions; what it refuses counts as none."""
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
    **options: Any,  # noqa: ARG001 - they change nothing
) -> Footprint:
    """The memory and time of the optimistic agents."""
    released = TableSizes.of(sizes).released
    chosen = choose_schedule(schedule, optimistic_schedule(episodes))
    numbers = OPTIMISTIC_ARRAYS * released + numbers_of_users(chosen, sizes.horizon)
    swept = sizes.horizon * sizes.states**2 * sizes.actions
    seconds = 0.005 + SECONDS_PER_CELL * released + SECONDS_PER_SWEPT_CELL * swept
    return Footprint(released, numbers, seconds, chosen)
