"""Record batches as NumPy arrays: whole numbers, rewards, and numbers that stand for the ids of users and trajectories."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.logs.columns import LogLayout
from confide.logs.split import SplitPart

Ints = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NULL = int(np.iinfo(np.int64).min)  # a whole number that is missing; one that is not whole is -1
NO_INTS, NO_FLOATS, NO_FLAGS = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class DecodedRows:
    """Rows step by step, whatever the layout was. Columns that are not logged have length zero.

    A `hollow` row only says that there is a trajectory without steps.
    """

    user: Ints
    trajectory: Ints
    step: Ints
    state: Ints
    reward: Array
    action: Ints
    probability: Array
    hollow: Flags
    nulls: int  # cells without a value,
    null_numbers: int  # and how many of them are rewards or probabilities

    def arrays(self, stop: int | None = None) -> tuple[npt.NDArray[Any], ...]:
        """The columns up to a row, all read-only as Arrow's own are: so a kernel is compiled once."""
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
    """A column of ids, batch by batch, as whole numbers that are equal for equal ids that stand together.

    Whole numbers stand for themselves, strings for the number of runs before them; `ascending` says whether each run of strings was
    larger than the one before. `last`: an array with the last id, which never becomes a Python value that an error could quote.
    """

    def __init__(self, last: Any = None, part: SplitPart | None = None) -> None:
        self.last, self.ascending, self._runs = last, True, 0
        # of each user that begins: whether they are in the part of a split log
        self._part, self.inside = part, list[bool]()

    def numbers(self, column: Any) -> Ints:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = plain(column)
        if not len(column):
            return NO_INTS
        if self._part is not None:
            self._split(column, self._part)
        before, self.last = self.last, column[-1:]
        if pa.types.is_integer(column.type):
            return _ordered(column)
        shifted = pa.concat_arrays([column[:1] if before is None else before, column[:-1]])
        changes = pc.not_equal(column, shifted).fill_null(True)
        # None: nothing changes
        larger = pc.all(pc.greater(column.filter(changes), shifted.filter(changes))).as_py()
        self.ascending = self.ascending and larger is not False
        numbers: Ints = self._runs + np.cumsum(
            changes.to_numpy(zero_copy_only=False), dtype=np.int64
        )
        self._runs = int(numbers[-1])
        return numbers

    def _split(self, column: Any, part: SplitPart) -> None:
        """Look at each id that differs from the one before it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        before = column[:1] if self.last is None else self.last
        begins = pc.not_equal(column, pa.concat_arrays([before, column[:-1]])).to_numpy(
            zero_copy_only=False
        )
        begins[:1] |= self.last is None
        self.inside += part.holds(column.filter(pa.array(begins)).to_pylist())

    @property
    def number(self) -> int:
        """That stands for the last id."""
        import pyarrow as pa

        return (
            int(_ordered(self.last)[0])
            if self.last is not None and pa.types.is_integer(self.last.type)
            else self._runs
        )

    def leading(self, column: Any) -> int:
        """How many ids at the start of a column are still the last one."""
        import pyarrow.compute as pc

        other = int(pc.index(pc.equal(plain(column), self.last[0]), False).as_py())
        return other if other >= 0 else len(column)


def plain(column: Any) -> Any:
    """Ids that are not dictionary-encoded, nor of no type at all."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.int64()) if pa.types.is_null(column.type) else column


class Decoder:
    """Batches of one file, in order, as `DecodedRows`. `before`: the last user of the batch before the first.

    Lists are cut to `longest` steps, if given, before anything is copied: the memory of a batch must not be decided by one user.
    """

    def __init__(
        self,
        layout: LogLayout,
        before: Any = None,
        longest: int | None = None,
        part: SplitPart | None = None,
    ) -> None:
        self._layout, self._names, self._longest = layout, layout.columns, longest
        self.users, self._trajectories, self._lists = Ids(before, part), Ids(), 0

    def rows(self, batch: Any) -> DecodedRows:
        return self._from_lists(batch) if self._layout.lists else self._from_steps(batch)

    def _from_steps(self, batch: Any) -> DecodedRows:
        names, columns = self._names, {name: batch.column(name) for name in self._layout.names}
        elements = self._values(columns)
        trajectory = NO_INTS
        if names.trajectory is not None:
            ids = columns[names.trajectory]
            trajectory = self._trajectories.numbers(ids)
            if ids.null_count:  # a row that belongs to nothing is a bad row
                elements[names.state] = np.where(
                    ids.is_null().to_numpy(zero_copy_only=False), NULL, elements[names.state]
                )
        step = NO_INTS if names.step is None else whole_numbers(columns[names.step])
        nulls = sum(column.null_count for column in columns.values())
        return self._made(
            self.users.numbers(columns[names.user]),
            trajectory,
            step,
            elements,
            NO_FLAGS,
            nulls,
            columns,
        )

    def _from_lists(self, batch: Any) -> DecodedRows:
        """Lists laid end to end; an empty one gets a hollow row, one that is missing or not as long as its neighbours a null row."""
        import pyarrow.compute as pc

        lists = {
            name: batch.column(name) for name in self._layout.names if name != self._names.user
        }
        sizes = [
            pc.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
            for column in lists.values()
        ]
        length = sizes[0].astype(np.int64)
        fitting = (length >= 0) & np.logical_and.reduce([size == length for size in sizes])
        if (
            self._longest is not None
            and max(int(size.max(initial=0)) for size in sizes) > self._longest
        ):
            length, sizes = (
                np.minimum(length, self._longest),
                [np.minimum(size, self._longest) for size in sizes],
            )
            lists = {
                n: pc.list_slice(column, 0, self._longest, return_fixed_size_list=False)
                for n, column in lists.items()
            }
        kept = np.where(fitting, length, 0)
        rows = np.maximum(kept, 1)
        flat = {name: column.flatten() for name, column in lists.items()}
        elements = self._values(flat)
        hollow = NO_FLAGS
        if (kept == 0).any():
            hollow = np.repeat(fitting & (kept == 0), rows)
            places = np.repeat(kept > 0, rows)
            for (name, values), size in zip(list(elements.items()), sizes, strict=True):
                elements[name] = np.full(
                    len(places), NULL if values.dtype == np.int64 else 0, values.dtype
                )
                elements[name][places] = values[np.repeat(fitting, np.maximum(size, 0))]
        trajectory = np.repeat(self._lists + np.arange(len(rows)), rows)
        self._lists += len(rows)
        nulls = sum(column.null_count for column in flat.values()) + int((~fitting).sum())
        user = np.repeat(self.users.numbers(batch.column(self._names.user)), rows)
        return self._made(user, trajectory, NO_INTS, elements, hollow, nulls, flat)

    def _values(self, columns: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
        names = self._names
        logged = (
            (names.state, whole_numbers),
            (names.reward, _floats),
            (names.action, whole_numbers),
            (names.probability, _floats),
        )
        return {name: convert(columns[name]) for name, convert in logged if name is not None}

    def _made(
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
        action = NO_INTS if names.action is None else elements[names.action]
        probability = NO_FLOATS if names.probability is None else elements[names.probability]
        numbers = sum(
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
            action,
            probability,
            hollow,
            nulls,
            numbers,
        )


def whole_numbers(column: Any) -> Ints:
    """As int64: NULL where there is none, -1 where it is not whole or too large for one."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        numbers = column.to_numpy(zero_copy_only=False).astype(float)  # nulls become NaN
        whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < 2.0**63)
        found = np.where(whole, np.where(whole, numbers, 0).astype(np.int64), -1)
        return (
            np.where(column.is_null().to_numpy(zero_copy_only=False), NULL, found)
            if column.null_count
            else found
        )
    if pa.types.is_uint64(column.type):
        column = column.view(pa.int64())  # what is too large for int64 becomes negative
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(NULL)
    return column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)  # type: ignore[no-any-return]


def _floats(column: Any) -> Array:
    """As float64, NaN where there is none."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)  # type: ignore[no-any-return]


def _ordered(column: Any) -> Ints:
    """Whole numbers as int64 in the same order; those of uint64 are moved down."""
    numbers = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        return (numbers ^ np.uint64(1 << 63)).view(np.int64)  # type: ignore[no-any-return]
    return numbers.astype(np.int64, copy=False)  # type: ignore[no-any-return]


def read_only(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = np.ascontiguousarray(column).view()
    view.flags.writeable = False
    return view
