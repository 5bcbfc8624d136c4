"""How many numbers a table is counted in, from its sizes alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.problems.sizes import ProblemSizes
from confide.tables.support_features import Support, layers_of

# What helps against a table that is too large.
FEWER_STATES = "choose a problem with fewer states"
STATE_SUPPORT = "choose a problem with fewer states, or state in Python which transitions are possible (support=)"


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
