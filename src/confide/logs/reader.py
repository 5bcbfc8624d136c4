"""A part of a file, read as blocks of whole users in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.errors import LogError
from confide.logs import _kernels, split
from confide.logs.arrays import DecodedRows, Decoder, plain
from confide.logs.block import Block
from confide.logs.columns import Caps, LogLayout
from confide.logs.files import Source
from confide.trajectory import LoggedUsers

# About how many rows a block of users has. A matter of taste.
BLOCK = 1_000_000
# A file is cut into parts of about so many rows, each of which is a step, or a list of steps. A
# matter of taste.
PART = 4_000_000
PART_OF_LISTS = 100_000


@dataclass(frozen=True, slots=True)
class FilePart:
    """The users whose first row stands in the row groups first <= g < last of a file.

    Picklable: this is what workers are sent. `groups` is the number of row groups of the whole
    file, and `people` says which users count, if the log was split.
    """

    source: Source
    layout: LogLayout
    caps: Caps
    first: int
    last: int
    groups: int
    people: split.SplitPart | None = None

    def rows(self, decoder: Decoder) -> Iterator[tuple[int, DecodedRows]]:
        """(row group, rows) of these users and nobody else.

        A user who began before is left out, and reading goes on to where the last user ends.
        """
        users = decoder.users
        # The first rows may be those of the user before, who is another part's.
        skipping = users.last is not None
        for group, batch in self.source.read(
            range(self.first, self.groups), self.layout, self.layout.names
        ):
            ids = batch.column(self.layout.columns.user)
            if ids.null_count:
                raise LogError(
                    f"{self.source.name}, row group {group}: "
                    f"column {self.layout.columns.user!r} has nulls"
                )
            beyond = group >= self.last
            if beyond and (skipping or users.last is None):
                # Nobody begins in this part.
                return
            same = users.leading(ids) if skipping or beyond else 0
            if skipping:
                batch = batch.slice(same)
                skipping = same == len(ids)
            elif beyond:
                batch = batch.slice(0, same)
            if batch.num_rows:
                rows = decoder.rows(batch)
                if not users.ascending:
                    raise self.disorder(group)
                yield group, rows
            if beyond and same < len(ids):
                return

    def before(self) -> Any:
        """The user of the row before the first, who is another part's.

        None at the start of a file.
        """
        for group in range(self.first - 1, -1, -1):
            last = None
            for _, batch in self.source.read([group], self.layout, [self.layout.columns.user]):
                last = plain(batch.column(0)[-1:]) if batch.num_rows else last
            if last is not None:
                return last
        return None

    def disorder(self, group: int) -> LogError:
        user = self.layout.columns.user
        return LogError(
            f"{self.source.name}, row group {group}: users must ascend strictly by {user!r}, and "
            f"the rows of a user must stand together; sort the file by {user!r}"
        )


def parts_of(source: Source, layout: LogLayout, caps: Caps) -> Iterator[FilePart]:
    """A file in parts of whole row groups."""
    groups = source.groups()
    enough = PART_OF_LISTS if layout.lists else PART
    first = 0
    size = 0
    for group, rows in enumerate(groups):
        size += rows
        if size >= enough or group == len(groups) - 1:
            yield FilePart(source, layout, caps, first, group + 1, len(groups))
            first = group + 1
            size = 0


def blocks_of(part: FilePart, rows: int = BLOCK) -> Iterator[LoggedUsers]:
    """The part's users in blocks of about so many rows, up to the caps."""
    decoder = Decoder(part.layout, part.before(), part.caps.steps, part.people)
    block = Block(
        part.layout.columns,
        part.caps,
        rows,
        numbered=part.layout.columns.step is not None and not part.layout.lists,
    )
    if decoder.users.last is not None:
        block.counters[_kernels.HAS_USER] = 1
        block.counters[_kernels.USER] = decoder.users.number
    for group, batch in part.rows(decoder):
        if block.absorb(batch) >= 0:
            raise part.disorder(group)
        if block.full:
            whole_users, block = block.split()
            yield _inside(whole_users, decoder)
    if block.users:
        yield _inside(block.all_users(), decoder)


def _inside(users: LoggedUsers, decoder: Decoder) -> LoggedUsers:
    """The users of the part, if the log was split."""
    inside = decoder.users.inside
    if not inside:
        return users
    keep = np.array(inside[: users.count])
    del inside[: users.count]
    return split.select_users(users, keep)
