"""A block of users while it is being filled. PRIVATE: its arrays hold the rows of users."""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide.logs import _kernels
from confide.logs.arrays import DecodedRows
from confide.logs.columns import Caps, Columns
from confide.logs.files import BATCH
from confide.trajectory import LoggedUsers

Anything = npt.NDArray[Any]
# Which of the kernel's counters says how far each of its arrays is filled: five columns, starts of
# trajectories, starts of users, and whether users are valid.
_FILLED = (*(_kernels.ROWS,) * 5, _kernels.TRAJECTORIES, _kernels.USERS, _kernels.USERS)


class Block:
    """Arrays that grow at their ends, where the last user may still go on.

    `counters` is what the kernel carries from batch to batch.
    """

    def __init__(self, columns: Columns, caps: Caps, rows: int, *, numbered: bool) -> None:
        self._columns = columns
        self._caps = caps
        self._enough_rows = rows
        self._numbered = numbered
        self.counters = np.zeros(_kernels.CARRIED, np.int64)
        size = rows + BATCH
        # The arrays that the kernel fills, in its order. A column that is not logged has no place.
        self._arrays: list[Anything] = [
            np.empty(size, np.int64),
            np.empty(size, np.float64),
            np.empty(size if columns.action is not None else 0, np.int64),
            np.empty(size if columns.probability is not None else 0, np.float64),
            np.empty(size if numbered else 0, np.bool_),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.bool_),
        ]

    @property
    def users(self) -> int:
        return int(self.counters[_kernels.USERS])

    @property
    def full(self) -> bool:
        """Whether there is enough, and a whole user in it."""
        return self.users > 1 and bool((self.counters[list(_FILLED)] >= self._enough_rows).any())

    def absorb(self, rows: DecodedRows) -> int:
        """-1, or the first row of a user out of order."""
        # One by one: there are two copies of one array at a time, and not of all.
        for number, counter in enumerate(_FILLED):
            used = int(self.counters[counter])
            self._arrays[number] = _with_room(self._arrays[number], used, len(rows.user))
        arguments: list[Any] = [
            *rows.arrays(),
            self._caps.trajectories,
            self._caps.steps,
            self.counters,
            *self._arrays,
        ]
        return _kernels.absorb(*arguments)

    def all_users(self) -> LoggedUsers:
        rows = int(self.counters[_kernels.ROWS])
        return self._take(rows, int(self.counters[_kernels.TRAJECTORIES]), self.users)

    def _take(self, rows: int, trajectories: int, users: int) -> LoggedUsers:
        """The first users, with so many rows and trajectories."""
        *columns, starts, firsts, valid = self._arrays
        states, rewards, actions, probabilities, gaps = (_cut(column, rows) for column in columns)
        return LoggedUsers(
            states,
            rewards,
            np.append(starts[:trajectories], rows),
            np.append(firsts[:users], trajectories),
            valid[:users].copy(),
            actions if self._columns.action is not None else None,
            probabilities if self._columns.probability is not None else None,
            gaps if self._numbered else None,
        )

    def split(self) -> tuple[LoggedUsers, "Block"]:
        """The whole users, and a new block that starts with the last one, who may go on."""
        rest = Block(self._columns, self._caps, self._enough_rows, numbered=self._numbered)
        # Where the last user begins.
        row = int(self.counters[_kernels.FIRST_ROW])
        trajectory = int(self.counters[_kernels.FIRST_TRAJECTORY])
        *columns, starts, _, valid = self._arrays
        of_last_user = [column[row : self.counters[_kernels.ROWS]] for column in columns]
        of_last_user += [
            starts[trajectory : self.counters[_kernels.TRAJECTORIES]] - row,
            np.zeros(1, np.int64),
            valid[self.users - 1 : self.users],
        ]
        for number, values in enumerate(of_last_user):
            rest._arrays[number] = _with_room(rest._arrays[number], 0, len(values))
            rest._arrays[number][: len(values)] = values
        rest.counters[:] = self.counters
        rest.counters[[_kernels.ROWS, _kernels.FIRST_ROW]] -= row
        rest.counters[[_kernels.TRAJECTORIES, _kernels.FIRST_TRAJECTORY]] -= trajectory
        rest.counters[_kernels.USERS] = 1
        return self._take(row, trajectory, self.users - 1), rest


def _with_room(array: Anything, used: int, more: int) -> Anything:
    """The array with place for some more entries. A column that is not logged has no place."""
    if len(array) >= used + more or not len(array):
        return array
    larger = np.empty(max(used + more, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


def _cut(column: Anything, rows: int) -> Anything:
    """The first rows. They are copied if they would keep much more than themselves in memory."""
    return column[:rows] if 2 * rows > len(column) else column[:rows].copy()
