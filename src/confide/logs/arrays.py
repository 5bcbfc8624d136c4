"""Record batches as NumPy arrays: whole numbers, rewards, and numbers for ids.

PRIVATE: ids never become Python values here, except where a log was split, because an error could
quote them. How values are read (`NULL`, -1) is what the kernels rely on.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.logs.columns import LogLayout
from confide.logs.split import SplitPart

Ints = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# A whole number that is missing. One that is not whole is -1.
NULL = int(np.iinfo(np.int64).min)
NO_INTS = np.zeros(0, np.int64)
NO_FLOATS = np.zeros(0)
NO_FLAGS = np.zeros(0, np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class DecodedRows:
    """Rows step by step, whatever the layout was. Columns that are not logged have length zero.

    A `hollow` row only says that there is a trajectory without steps. `nulls` counts cells without
    a value, and `null_numbers` those of them that are rewards or probabilities.
    """

    user: Ints
    trajectory: Ints
    step: Ints
    state: Ints
    reward: Array
    action: Ints
    probability: Array
    hollow: Flags
    nulls: int
    null_numbers: int

    def arrays(self, stop: int | None = None) -> tuple[npt.NDArray[Any], ...]:
        """The columns up to a row. They are read-only, so that a kernel is compiled once."""
        columns = (
            self.user,
            self.trajectory,
            self.step,
            self.state,
            self.reward,
            self.action,
            self.probability,
            self.hollow,
        )
        return tuple(read_only(column[:stop]) for column in columns)


class Ids:
    """A column of ids, batch by batch, as whole numbers.

    They are equal for equal ids that stand together. Whole numbers stand for themselves, strings
    for the number of runs before them. `ascending` says whether each run of strings was larger than
    the one before. `last` is an array with the last id, which never becomes a Python value that an
    error could quote. `inside` says of each user that begins whether they are in the part of a
    split log.
    """

    def __init__(self, last: Any = None, part: SplitPart | None = None) -> None:
        self.last = last
        self.ascending = True
        self.inside: list[bool] = []
        self._runs = 0
        self._part = part

    def numbers(self, column: Any) -> Ints:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = plain(column)
        if not len(column):
            return NO_INTS
        if self._part is not None:
            self._split(column, self._part)
        before = self.last
        self.last = column[-1:]
        if pa.types.is_integer(column.type):
            return _ordered_numbers(column)
        shifted = pa.concat_arrays([column[:1] if before is None else before, column[:-1]])
        changes = pc.not_equal(column, shifted).fill_null(True)
        # None if nothing changes.
        larger = pc.all(pc.greater(column.filter(changes), shifted.filter(changes))).as_py()
        self.ascending = self.ascending and larger is not False
        changed = changes.to_numpy(zero_copy_only=False)
        numbers: Ints = self._runs + np.cumsum(changed, dtype=np.int64)
        self._runs = int(numbers[-1])
        return numbers

    def _split(self, column: Any, part: SplitPart) -> None:
        """Look at each id that differs from the one before it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        before = column[:1] if self.last is None else self.last
        shifted = pa.concat_arrays([before, column[:-1]])
        begins = pc.not_equal(column, shifted).to_numpy(zero_copy_only=False)
        begins[:1] |= self.last is None
        self.inside += part.holds(column.filter(pa.array(begins)).to_pylist())

    @property
    def number(self) -> int:
        """The number that stands for the last id."""
        import pyarrow as pa

        if self.last is not None and pa.types.is_integer(self.last.type):
            return int(_ordered_numbers(self.last)[0])
        return self._runs

    def leading(self, column: Any) -> int:
        """How many ids at the start of a column are still the last one."""
        import pyarrow.compute as pc

        other = int(pc.index(pc.equal(plain(column), self.last[0]), False).as_py())
        return other if other >= 0 else len(column)


def plain(column: Any) -> Any:
    """The ids without a dictionary, and with a type if they have none."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.int64()) if pa.types.is_null(column.type) else column


class Decoder:
    """Batches of one file, in order, as `DecodedRows`.

    `before` is the last user of the batch before the first. Lists are cut to `longest` steps, if
    given, before anything is copied: one user must not decide about the memory of a batch.
    """

    def __init__(
        self,
        layout: LogLayout,
        before: Any = None,
        longest: int | None = None,
        part: SplitPart | None = None,
    ) -> None:
        self.users = Ids(before, part)
        self._layout = layout
        self._names = layout.columns
        self._longest = longest
        self._trajectories = Ids()
        # How many lists were read: each is a trajectory.
        self._lists = 0

    def rows(self, batch: Any) -> DecodedRows:
        return self._from_lists(batch) if self._layout.lists else self._from_steps(batch)

    def _from_steps(self, batch: Any) -> DecodedRows:
        names = self._names
        columns = {name: batch.column(name) for name in self._layout.names}
        elements = self._values(columns)
        trajectory = NO_INTS
        if names.trajectory is not None:
            ids = columns[names.trajectory]
            trajectory = self._trajectories.numbers(ids)
            if ids.null_count:
                # A row that belongs to nothing is a bad row.
                is_null = ids.is_null().to_numpy(zero_copy_only=False)
                elements[names.state] = np.where(is_null, NULL, elements[names.state])
        step = NO_INTS if names.step is None else whole_numbers(columns[names.step])
        nulls = sum(column.null_count for column in columns.values())
        return self._decoded_rows(
            self.users.numbers(columns[names.user]),
            trajectory,
            step,
            elements,
            NO_FLAGS,
            nulls,
            columns,
        )

    def _from_lists(self, batch: Any) -> DecodedRows:
        """Lists laid end to end.

        An empty list gets a hollow row. One that is missing, or not as long as its neighbours, gets
        a null row.
        """
        import pyarrow.compute as pc

        lists = {
            name: batch.column(name) for name in self._layout.names if name != self._names.user
        }
        sizes = [
            pc.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
            for column in lists.values()
        ]
        length = sizes[0].astype(np.int64)
        # Whether all lists of a row are there and of the same length [row of the batch].
        fitting = (length >= 0) & np.logical_and.reduce([size == length for size in sizes])
        longest = self._longest
        if longest is not None and max(int(size.max(initial=0)) for size in sizes) > longest:
            length = np.minimum(length, longest)
            sizes = [np.minimum(size, longest) for size in sizes]
            lists = {
                name: pc.list_slice(column, 0, longest, return_fixed_size_list=False)
                for name, column in lists.items()
            }
        steps = np.where(fitting, length, 0)
        # A row of the batch without steps gets one row, too.
        rows = np.maximum(steps, 1)
        flat = {name: column.flatten() for name, column in lists.items()}
        elements = self._values(flat)
        hollow = NO_FLAGS
        if (steps == 0).any():
            hollow = np.repeat(fitting & (steps == 0), rows)
            has_steps = np.repeat(steps > 0, rows)
            for (name, values), size in zip(list(elements.items()), sizes, strict=True):
                nothing = NULL if values.dtype == np.int64 else 0
                with_room = np.full(len(has_steps), nothing, values.dtype)
                with_room[has_steps] = values[np.repeat(fitting, np.maximum(size, 0))]
                elements[name] = with_room
        trajectory = np.repeat(self._lists + np.arange(len(rows)), rows)
        self._lists += len(rows)
        nulls = sum(column.null_count for column in flat.values()) + int((~fitting).sum())
        user = np.repeat(self.users.numbers(batch.column(self._names.user)), rows)
        return self._decoded_rows(user, trajectory, NO_INTS, elements, hollow, nulls, flat)

    def _values(self, columns: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
        names = self._names
        logged = (
            (names.state, whole_numbers),
            (names.reward, _floats),
            (names.action, whole_numbers),
            (names.probability, _floats),
        )
        return {name: convert(columns[name]) for name, convert in logged if name is not None}

    def _decoded_rows(
        self,
        user: Ints,
        trajectory: Ints,
        step: Ints,
        elements: dict[str, npt.NDArray[Any]],
        hollow: Flags,
        nulls: int,
        columns: dict[str, Any],
    ) -> DecodedRows:
        names = self._names
        null_numbers = sum(
            columns[name].null_count
            for name in (names.reward, names.probability)
            if name is not None
        )
        return DecodedRows(
            user,
            trajectory,
            step,
            elements[names.state],
            elements[names.reward],
            NO_INTS if names.action is None else elements[names.action],
            NO_FLOATS if names.probability is None else elements[names.probability],
            hollow,
            nulls,
            null_numbers,
        )


def whole_numbers(column: Any) -> Ints:
    """As int64: NULL where there is none, -1 where it is not whole or too large."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        # Nulls become NaN.
        values = column.to_numpy(zero_copy_only=False).astype(float)
        is_whole = (np.floor(values) == values) & (np.abs(values) < 2.0**63)
        numbers = np.where(is_whole, np.where(is_whole, values, 0).astype(np.int64), -1)
        if column.null_count:
            return np.where(column.is_null().to_numpy(zero_copy_only=False), NULL, numbers)
        return numbers
    if pa.types.is_uint64(column.type):
        # What is too large for int64 becomes negative.
        column = column.view(pa.int64())
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(NULL)
    numbers = column.to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.int64)


def _floats(column: Any) -> Array:
    """As float64: NaN where there is none."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _ordered_numbers(column: Any) -> Ints:
    """Whole numbers as int64 in the same order. Those of uint64 are moved down."""
    if column.null_count:
        column = column.fill_null(0)
    numbers = column.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        return (numbers ^ np.uint64(1 << 63)).view(np.int64)  # type: ignore[no-any-return]
    return numbers.astype(np.int64, copy=False)  # type: ignore[no-any-return]


def read_only(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = np.ascontiguousarray(column).view()
    view.flags.writeable = False
    return view
