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

BLOCK = 1_000_000  # rows: a block of users is about that large
PART, PART_OF_LISTS = 4_000_000, 100_000  # rows: a file is cut into parts of about that many


@dataclass(frozen=True, slots=True)
class FilePart:
    """The users whose first row stands in the row groups first <= g < last of a file. Picklable: this is what workers are sent."""

    source: Source
    layout: LogLayout
    caps: Caps
    first: int
    last: int
    groups: int  # of the whole file
    people: split.SplitPart | None = None  # of a log that was split

    def rows(self, decoder: Decoder) -> Iterator[tuple[int, DecodedRows]]:
        """(row group, rows) of these users and nobody else: not of a user who began before, but on to where the last one ends."""
        users, theirs = decoder.users, decoder.users.last is not None
        for group, batch in self.source.read(
            range(self.first, self.groups), self.layout, self.layout.names
        ):
            ids = batch.column(self.layout.columns.user)
            if ids.null_count:
                raise LogError(
                    f"{self.source.name}, row group {group}: column {self.layout.columns.user!r} has nulls"
                )
            over = group >= self.last
            if over and (theirs or users.last is None):  # nobody begins in this part
                return
            same = users.leading(ids) if theirs or over else 0
            if theirs:
                batch, theirs = batch.slice(same), same == len(ids)
            elif over:
                batch = batch.slice(0, same)
            if batch.num_rows:
                rows = decoder.rows(batch)
                if not users.ascending:
                    raise self.disorder(group)
                yield group, rows
            if over and same < len(ids):
                return

    def before(self) -> Any:
        """The user of the row before the first, who is another part's; None at the start of a file."""
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
            f"{self.source.name}, row group {group}: users must ascend strictly by {user!r}, and the rows of a user must stand "
            f"together; sort the file by {user!r}"
        )


def parts_of(source: Source, layout: LogLayout, caps: Caps) -> Iterator[FilePart]:
    """A file in parts of whole row groups."""
    rows, enough = source.groups(), PART_OF_LISTS if layout.lists else PART
    first = size = 0
    for group, count in enumerate(rows):
        size += count
        if size >= enough or group == len(rows) - 1:
            yield FilePart(source, layout, caps, first, group + 1, len(rows))
            first, size = group + 1, 0


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
        block.at[_kernels.KNOWN], block.at[_kernels.USER] = 1, decoder.users.number
    for group, some in part.rows(decoder):
        if block.absorb(some) >= 0:
            raise part.disorder(group)
        if block.full:
            whole, block = block.split()
            yield _inside(whole, decoder)
    if block.users:
        yield _inside(block.taken(whole=False), decoder)


def _inside(users: LoggedUsers, decoder: Decoder) -> LoggedUsers:
    """The users of the part, where the log was split."""
    inside = decoder.users.inside
    if not inside:
        return users
    keep = np.array(inside[: users.count])
    del inside[: users.count]
    return split.chosen(users, keep)
