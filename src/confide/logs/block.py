"""A block of users while it is being filled."""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide.logs import _kernels
from confide.logs.arrays import DecodedRows
from confide.logs.columns import Caps, Columns
from confide.logs.files import BATCH
from confide.trajectory import LoggedUsers

Anything = npt.NDArray[Any]
# which count says how far each of the kernel's arrays is filled: five columns, starts of trajectories, starts of users, valid
_FILLED = (*(_kernels.ROWS,) * 5, _kernels.TRAJECTORIES, _kernels.USERS, _kernels.USERS)


class Block:
    """Arrays that grow at their ends, where the last user may still go on."""

    def __init__(self, columns: Columns, caps: Caps, rows: int, *, numbered: bool) -> None:
        self._columns, self._caps, self._enough, self._numbered = columns, caps, rows, numbered
        self.at = np.zeros(_kernels.CARRIED, np.int64)
        logged = np.array(
            [
                True,
                True,
                columns.action is not None,
                columns.probability is not None,
                numbered,
                True,
                True,
                True,
            ]
        )
        kinds = np.int64, np.float64, np.int64, np.float64, np.bool_, np.int64, np.int64, np.bool_
        self._arrays: list[Anything] = [
            np.empty(size, kind) for size, kind in zip((rows + BATCH) * logged, kinds, strict=True)
        ]

    @property
    def users(self) -> int:
        return int(self.at[_kernels.USERS])

    @property
    def full(self) -> bool:
        """Whether there is enough, and a whole user in it."""
        return self.users > 1 and bool((self.at[list(_FILLED)] >= self._enough).any())

    def absorb(self, rows: DecodedRows) -> int:
        """-1, or the first row of a user out of order."""
        for number, place in enumerate(_FILLED):  # one by one: two copies of one array, not of all
            self._arrays[number] = _roomy(self._arrays[number], int(self.at[place]), len(rows.user))
        arguments: list[Any] = [
            *rows.arrays(),
            self._caps.trajectories,
            self._caps.steps,
            self.at,
            *self._arrays,
        ]
        return _kernels.absorb(*arguments)

    def taken(self, *, whole: bool) -> LoggedUsers:
        """All users; or the `whole` ones, without the last."""
        rows, trajectories = (
            self._open
            if whole
            else (int(self.at[_kernels.ROWS]), int(self.at[_kernels.TRAJECTORIES]))
        )
        count = self.users - whole
        *columns, starts, firsts, valid = self._arrays
        states, rewards, actions, probabilities, gaps = (_cut(column, rows) for column in columns)
        return LoggedUsers(
            states,
            rewards,
            np.append(starts[:trajectories], rows),
            np.append(firsts[:count], trajectories),
            valid[:count].copy(),
            actions if self._columns.action is not None else None,
            probabilities if self._columns.probability is not None else None,
            gaps if self._numbered else None,
        )

    def split(self) -> tuple[LoggedUsers, "Block"]:
        """The whole users, and a new block that starts with the last one."""
        after, (row, trajectory) = (
            Block(self._columns, self._caps, self._enough, numbered=self._numbered),
            self._open,
        )
        *columns, starts, _, valid = self._arrays
        begun = [column[row : self.at[_kernels.ROWS]] for column in columns]
        begun += [
            starts[trajectory : self.at[_kernels.TRAJECTORIES]] - row,
            np.zeros(1, np.int64),
            valid[self.users - 1 : self.users],
        ]
        for number, start in enumerate(begun):
            after._arrays[number] = _roomy(after._arrays[number], 0, len(start))
            after._arrays[number][: len(start)] = start
        after.at[:] = self.at
        after.at[[_kernels.ROWS, _kernels.FIRST_ROW]] -= row
        after.at[[_kernels.TRAJECTORIES, _kernels.FIRST_TRAJECTORY]] -= trajectory
        after.at[_kernels.USERS] = 1
        return self.taken(whole=True), after

    @property
    def _open(self) -> tuple[int, int]:
        """The first row and the first trajectory of the last user."""
        return int(self.at[_kernels.FIRST_ROW]), int(self.at[_kernels.FIRST_TRAJECTORY])


def _roomy(array: Anything, used: int, more: int) -> Anything:
    """With place for some more entries; a column that is not logged has no place."""
    if len(array) >= used + more or not len(array):
        return array
    larger = np.empty(max(used + more, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


def _cut(column: Anything, rows: int) -> Anything:
    """The first rows; copied, where they would keep much more than themselves in memory."""
    return column[:rows] if 2 * rows > len(column) else column[:rows].copy()
