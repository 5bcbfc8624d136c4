"""What a log's columns are called, and how much of one user counts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.arguments import shown
from confide.errors import InvalidParameter, LogError

# The largest number of rows of one user. A user is held in memory as a whole, and memory must be
# bounded.
LARGEST_USER = 10_000_000
# How many names an error lists. A matter of taste.
_MOST_NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Caps:
    """Public: at most so many trajectories of a user, and so many steps of each, are counted.

    The rest is not even looked at. Caps are part of the identity of a log in a ledger.
    """

    trajectories: int = 1
    steps: int = 10_000

    def __post_init__(self) -> None:
        for name in ("trajectories", "steps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InvalidParameter(
                    f"max_{name} must be a whole number, at least 1, got max_{name}={value!r}"
                )
            # A number of NumPy's type would look different, and a log would be another one.
            object.__setattr__(self, name, int(value))
        if self.trajectories * self.steps > LARGEST_USER:
            raise InvalidParameter(
                f"max_trajectories * max_steps must be at most {LARGEST_USER}, the rows of one "
                f"user that are held in memory, got {self.trajectories} * {self.steps}"
            )


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns, None for those that are not logged.

    Without `trajectory` all rows of a user are one trajectory, and without `step` rows are in
    order.
    """

    user: str = "user"
    trajectory: str | None = "trajectory"
    step: str | None = "step"
    state: str = "state"
    reward: str = "reward"
    action: str | None = None
    probability: str | None = None

    def __post_init__(self) -> None:
        names = [name for name in self.all if name is not None]
        are_texts = all(isinstance(name, str) and name for name in names)
        if not are_texts or len(set(names)) < len(names):
            raise InvalidParameter.of(
                "columns", f"must have different names, got {', '.join(map(repr, names))}"
            )

    @property
    def all(self) -> tuple[str | None, ...]:
        return (
            self.user,
            self.trajectory,
            self.step,
            self.state,
            self.reward,
            self.action,
            self.probability,
        )


@dataclass(frozen=True, slots=True)
class LogLayout:
    """The columns as a file has them.

    There is one row per step, or one row per trajectory with lists, whose positions are the steps.
    `types` are those of the columns that are read: files of one log have the same.
    """

    columns: Columns
    lists: bool
    types: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns that are read."""
        columns = self.columns
        if self.lists:
            read = (columns.user, *columns.all[3:])
        else:
            read = columns.all
        return [name for name in read if name is not None]


def layout_of(schema: Any, columns: Columns, where: str) -> LogLayout:
    """How a file with this Arrow schema is laid out.

    A column that is missing or of the wrong type is a `LogError`.
    """
    lists = columns.state in schema.names and _is_list(schema.field(columns.state).type)
    names = LogLayout(columns, lists, ()).names
    for name in names:
        if schema.names.count(name) != 1:
            raise _missing_column(name, schema, columns, where)
    types = {name: schema.field(name).type for name in names}
    for name, kind in types.items():
        if lists and name != columns.user:
            if not _is_list(kind):
                raise LogError(
                    f"{where}: column {name!r} must contain lists, as {columns.state!r} does, "
                    f"got {kind}"
                )
            kind = kind.value_type
        if name in (columns.user, columns.trajectory):
            expected = "whole numbers or strings"
            fits = _is_id(kind)
        else:
            expected = "numbers"
            fits = _is_number(kind)
        if not fits:
            raise LogError(f"{where}: column {name!r} must contain {expected}, got {kind}")
    return LogLayout(columns, lists, tuple(str(kind) for kind in types.values()))


def _missing_column(name: str, schema: Any, columns: Columns, where: str) -> LogError:
    problem = "there twice" if name in schema.names else "missing"
    optional = {columns.trajectory: "trajectory", columns.step: "step"}.get(name)
    hint = ""
    if optional:
        hint = f'; if there is none, say {optional}=None (--{optional} "" on the command line)'
    return LogError(
        f"{where}: column {name!r} is {problem}, the file has {some(schema.names)}{hint}"
    )


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_id(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    text = (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )
    return bool(
        text or types.is_integer(kind) or types.is_fixed_size_binary(kind) or types.is_null(kind)
    )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )


def some(names: list[str]) -> str:
    """The first names of a file that may have a hundred thousand."""
    more = f" and {len(names) - _MOST_NAMES_SHOWN:,} more" if len(names) > _MOST_NAMES_SHOWN else ""
    return ", ".join(map(shown, names[:_MOST_NAMES_SHOWN])) + more
