"""The columns of a raw table, batch by batch, as arrays of numbers.

PRIVATE: everything here is about people, and warnings are for the data holder only. How a cell is
read depends on that cell and on the options alone, so that one person's cells cannot change another
person's rows.
"""

from typing import Any

import numpy as np

from confide.errors import InvalidParameter, LogError
from confide.logs.cells import (
    MISSING,
    Categories,
    Interval,
    Tally,
    Times,
    id_column,
    numbers,
    texts,
)
from confide.logs.columns import Columns
from confide.logs.identity import PseudonymTable, hash_ids
from confide.logs.labels import Labels, Vocabulary, label_or_number
from confide.logs.summary import warn_of_columns, warn_of_unused, without_action

# Seeds the hash of ids of stays. They need no key, because they are not in the log.
_STAY_SEED = 0x5DEECE66D
_ROLES = ("user", "stay", "time", "state", "reward", "action", "probability")
# What the data holder can do about unreadable cells, by the role of their column.
_FIXES = {
    "user": "give the column of ids",
    "stay": "give the column of ids of stays",
    "time": ("give each of its formats with --time-format, such as '%d/%m/%Y %H:%M', or iso"),
    "state": (
        "if they are labels, list them in a file, one per line, and give it as --states-file"
    ),
    "action": (
        "if they are labels, list them in a file, one per line, and give it as --actions-file"
    ),
    "reward": (
        "write numbers with a decimal point, or use --decimal , if they have a decimal comma"
    ),
    "probability": (
        "write numbers with a decimal point, or use --decimal , if they have a decimal comma"
    ),
}


class RawTable:
    """The columns of a raw table, batch by batch, as arrays of numbers.

    `declared` has the public labels, or their number, of states and actions.
    """

    def __init__(
        self,
        columns: Columns,
        declared: dict[str, Any],
        forms: tuple[str, ...],
        decimal: str,
        every: Interval | None,
    ) -> None:
        if declared["action"] is not None and columns.action is None:
            raise InvalidParameter(
                "actions are declared, and there is no column of actions: give its name"
            )
        self.columns = columns
        self._decimal = decimal
        self._declared = declared
        # How many rows were read.
        self._row = 0
        self._tally = {
            role: Tally(role, name, _FIXES[role])
            for role, name in zip(_ROLES, columns.all, strict=True)
            if name is not None
        }
        self._times = Times(self._tally["time"], forms, every) if "time" in self._tally else None
        self._categories = {
            role: Categories(self._tally[role], given)
            for role, given in declared.items()
            if role in self._tally
        }
        # Rows of each declared state, and those of them without an action: [kind, state].
        self._of_state = np.zeros((2, len(self._categories["state"].seen)), np.int64)

    @property
    def names(self) -> list[str]:
        """The names of the columns that are read."""
        return [name for name in self.columns.all if name is not None]

    @property
    def labelled(self) -> frozenset[str]:
        """All declared labels."""
        vocabularies = (given for given in self._declared.values() if isinstance(given, Vocabulary))
        return frozenset(label for given in vocabularies for label in given.numbers)

    @property
    def tallies(self) -> list[Tally]:
        return list(self._tally.values())

    def rows(self, batch: Any, pseudonyms: PseudonymTable) -> dict[str, Any]:
        """The rows of a batch that have a user, one array per role.

        `placed` marks those that have a time and a stay.
        """
        cells = {role: batch.column(tally.name) for role, tally in self._tally.items()}
        users, has_user = self._read_users(cells["user"], pseudonyms)
        rows: dict[str, Any] = {"user": users}
        rows["time"], placed = self._read_times(cells, len(users))
        if "stay" in cells:
            rows["stay"], has_stay = self._read_stays(cells["stay"])
            placed = placed & has_stay
        rows["placed"] = placed
        for role, categories in self._categories.items():
            rows[role] = categories.read(cells[role])
        if "action" in rows and self._of_state.size:
            self._count_missing_actions(rows["state"], rows["action"])
        rows["reward"] = numbers(cells["reward"], self._tally["reward"], self._decimal)
        if "probability" in cells:
            rows["probability"] = _probabilities(
                cells["probability"], self._tally["probability"], self._decimal
            )
        if has_user.all():
            return rows
        return {role: values[has_user] for role, values in rows.items()}

    def _read_users(self, cells: Any, pseudonyms: PseudonymTable) -> tuple[Any, Any]:
        """The pseudonym of each row, and which rows have one."""
        tally = self._tally["user"]
        ids = id_column(cells, tally.name)
        users, has_user = pseudonyms.numbers(ids, f"column {tally.name!r}")
        tally.add(ids, int((~has_user).sum()), 0)
        return users, has_user

    def _read_times(self, cells: dict[str, Any], count: int) -> tuple[Any, Any]:
        """The time of each row, and which rows have one. Without times it is the row's number."""
        first = self._row
        self._row += count
        if self._times is None:
            return np.arange(first, first + count), np.ones(count, np.bool_)
        return self._times.read(cells["time"])

    def _read_stays(self, cells: Any) -> tuple[Any, Any]:
        """A number for the stay of each row, and which rows have one."""
        tally = self._tally["stay"]
        ids = texts(cells, tally.name)
        stays = hash_ids(ids, _STAY_SEED, f"column {tally.name!r}")
        has_stay = stays != 0
        tally.add(ids, int((~has_stay).sum()), 0)
        return stays, has_stay

    def _count_missing_actions(self, states: Any, actions: Any) -> None:
        has_state = states != MISSING
        without_action_too = has_state & (actions == MISSING)
        size = self._of_state.shape[1]
        self._of_state[0] += np.bincount(states[has_state], minlength=size)
        self._of_state[1] += np.bincount(states[without_action_too], minlength=size)

    def labels(self) -> Labels:
        """The declared labels. A table without rows is refused."""
        if not self._tally["user"].cells:
            raise LogError("the table has no rows: there is nothing to import")
        declared = {
            role: given.names
            for role, given in self._declared.items()
            if isinstance(given, Vocabulary)
        }
        states = self._declared["state"]
        members = states.members if isinstance(states, Vocabulary) else ()
        return Labels(**declared, members=members)

    def warnings(self, labels: Labels, terminal: tuple[int, ...]) -> list[str]:
        """What the data holder should look at, in sentences."""
        miswritten = {role: categories.miswritten for role, categories in self._categories.items()}
        warnings = warn_of_columns(self.tallies, miswritten)
        times = self._times
        if times is not None and times.dates and times.numbers:
            warnings.append(
                f"column {times.tally.name!r} holds {times.dates:,} dates and {times.numbers:,} "
                "numbers: in the stay of a user who has both, their order means nothing; give the "
                "formats of dates with --time-format"
            )
        mostly_without_action = np.flatnonzero(2 * self._of_state[1] > self._of_state[0])
        for state in sorted(set(mostly_without_action.tolist()) - set(terminal)):
            rows, without = self._of_state[:, state].tolist()
            warnings.append(without_action(label_or_number(labels.state, state), rows, without))
        for role, categories in self._categories.items():
            absent = np.flatnonzero(~categories.seen).tolist()
            if absent:
                names = getattr(labels, role)
                shown = [names[number] if names else str(number) for number in absent]
                warnings.append(warn_of_unused(role, shown))
        return warnings


def _probabilities(column: Any, tally: Tally, decimal: str) -> Any:
    """Probabilities in (0, 1]. Others are unreadable."""
    values = numbers(column, tally, decimal)
    outside = (values <= 0) | (values > 1)
    tally.unreadable += int(outside.sum())
    return np.where(outside, np.nan, values)
