"""A log: users' trajectories in files, opened, checked and added up.

The unit of privacy is the user. PRIVATE side: nothing of a log may be shown but its layout, its
caps and its labels, which are public, and released sums. `identity` and the names of splits are in
ledgers: another rule for them would make old releases look new, and charge them again.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from confide._extras import need
from confide.arguments import has, real, text
from confide.errors import InvalidParameter, LogError
from confide.execution import check_backend, each
from confide.identity import identify
from confide.logs import split as splitting
from confide.logs.check import Check, inspect_part
from confide.logs.columns import Caps, Columns, LogLayout, layout_of
from confide.logs.files import MemorySource, Paths, Source, reading, sources
from confide.logs.guarded import Guarded
from confide.logs.labels import NO_LABELS, Labels, common_labels, labels_in
from confide.logs.reader import BLOCK, FilePart, blocks_of, parts_of
from confide.logs.writing import as_lists, as_steps, has_gaps
from confide.privacy.assumption import Assumption
from confide.privacy.bounded import Bound, Bounded
from confide.trajectory import LoggedUsers

# Called with the number of parts that are done, and of all parts.
Progress = Callable[[int, int], None]


class LogStatistic(Protocol):
    """What can be added up over a log. Picklable, to reach other processes."""

    @property
    def bound(self) -> Bound: ...
    def contribution(self, users: LoggedUsers) -> Bounded:
        """The sum of these users' contributions; zero for those who are not valid."""


@dataclass(frozen=True, slots=True)
class Logs:
    """Users' trajectories, not in memory.

    Of each user `max_trajectories` trajectories of `max_steps` steps are counted, which is public.
    `assumptions` are what a guarantee for users needs and reading could not verify, for the
    certificate. `labels` are those of states and actions, as `import_log` wrote them. `people` says
    which users count, if the log was split.
    """

    caps: Caps
    assumptions: tuple[Assumption, ...]
    parts: tuple[FilePart, ...] = field(repr=False)
    backend: str = "local"
    workers: int | None = None
    people: splitting.SplitPart | None = None
    labels: Labels = field(default=NO_LABELS, repr=False)

    def on(self, backend: str, *, workers: int | None = None) -> "Logs":
        """The same log, read elsewhere.

        `backend` is "local" (processes; one worker is this process), "ray" or "dask" (the cluster
        that this process is connected to, else one on this machine).
        """
        check_backend(backend, workers)
        return replace(self, backend=backend, workers=workers)

    def split(self, holdout: float = 0.5, *, key: str = "") -> "tuple[Logs, Logs]":
        """The log in two parts of different people: to learn from, and to test on.

        About the share `holdout` is for the test. A keyed hash of the id decides. Each part may be
        released with a whole budget (see `confide.logs.split` for the proof), and a ledger charges
        the larger loss of the two. The key need not be secret for that. With another key, people
        are split anew, and charged anew.
        """
        holdout = real("holdout", holdout, above=0, below=1)
        key = text("key", key)
        if self.people is not None:
            raise InvalidParameter("the log is a part of a split log already")
        split = identify(self.identity, self._stamps, holdout, key)
        digest = splitting.digest_of_key(key)
        # Tokens are random. The names, sizes and times of private files must not be in a public
        # name.
        tokens = sorted({getattr(part.source, "token", "") for part in self.parts})
        public_name = identify(tokens, holdout, digest)
        learn = splitting.SplitPart(split, public_name, False, holdout, digest)
        return self._restrict_to(learn), self._restrict_to(learn.other)

    def _restrict_to(self, people: splitting.SplitPart) -> "Logs":
        return replace(
            self,
            parts=tuple(replace(part, people=people) for part in self.parts),
            people=people,
            assumptions=(*self.assumptions, people.assumed),
        )

    @property
    def _stamps(self) -> list[Any]:
        """PRIVATE: sizes and times of the files.

        A file that was written anew may hold other ids for the same people. Then it is not the same
        split, and a ledger adds up what is spent on both.
        """
        files = [Path(part.source.name) for part in self.parts if not hasattr(part.source, "token")]
        stats = [path.stat() for path in dict.fromkeys(files)]
        return [(stat.st_size, stat.st_mtime_ns) for stat in stats]

    @property
    def part(self) -> tuple[str, str] | None:
        """PRIVATE: the split and the part that this is, for a ledger. None for a whole log."""
        return None if self.people is None else (self.people.split, self.people.name)

    @property
    def max_trajectories(self) -> int:
        return self.caps.trajectories

    @property
    def max_steps(self) -> int:
        return self.caps.steps

    @property
    def identity(self) -> str:
        """Which log this is, and how it is read, by names alone.

        A question to another log is another question, and is charged.
        """
        read = {
            (
                os.path.realpath(part.source.name),
                getattr(part.source, "token", ""),
                *("" if name is None else f"column {name}" for name in part.layout.columns.all),
            )
            for part in self.parts
        }
        people = None if self.people is None else [self.people.public_name, self.people.name]
        return identify(sorted(read), [self.caps.trajectories, self.caps.steps], people)

    @property
    def has_actions(self) -> bool:
        """Whether actions and their probabilities are read, too.

        Without them nobody can tell what another policy would have got.
        """
        return all(
            part.layout.columns.action and part.layout.columns.probability for part in self.parts
        )

    def blocks(self, rows: int = BLOCK) -> Iterator[LoggedUsers]:
        """All users once, whole, in blocks of about so many rows. PRIVATE."""
        for part in self.parts:
            yield from blocks_of(part, rows)

    def total(self, statistic: LogStatistic, *, progress: Progress | None = None) -> Bounded:
        """The sum of all users' contributions.

        A part whose worker dies is done again. What is added up lies on a grid, so the sum has the
        same bits however the parts were spread.
        """
        has(
            "statistic",
            statistic,
            ("bound", "contribution"),
            "a statistic: a bound, and what users contribute",
        )
        total = Bounded(np.zeros(statistic.bound.size), statistic.bound, 0)
        sums = each(
            Guarded(partial(_sum_part, statistic)),
            self.parts,
            backend=self.backend,
            workers=self.workers,
        )
        for done, part_sum in enumerate(sums, 1):
            total = total + part_sum
            if progress is not None:
                progress(done, len(self.parts))
        return total

    def check(self, *, states: int | None = None, workers: int | None = 1) -> Check:
        """Counts of what is wrong. NOT PRIVATE: for the data holder only."""
        _check_states(states)
        if self.people is not None:
            raise InvalidParameter("a part of a split log cannot be checked: check the whole log")
        checks = each(Guarded(partial(inspect_part, states=states)), self.parts, workers=workers)
        return sum(checks, Check(assumptions=self.assumptions, labels=self.labels))


def open(
    paths: Paths,
    *,
    user: str = "user",
    trajectory: str | None = "trajectory",
    step: str | None = "step",
    state: str = "state",
    reward: str = "reward",
    action: str | None = None,
    probability: str | None = None,
    max_trajectories: int = 1,
    max_steps: int = 10_000,
) -> Logs:
    """A log in Parquet or Arrow files: a file, a pattern, a folder, or several of these.

    The other arguments are the names of the columns. There is one row per step, or one row per
    trajectory with lists. The rows of a user stand together, and users ascend within each file.
    """
    need("logs", "a log")
    caps = Caps(max_trajectories, max_steps)
    columns = Columns(user, trajectory, step, state, reward, action, probability)
    all_sources = sources(paths)
    schemas = [source.schema() for source in all_sources]
    layouts = [
        layout_of(schema, columns, source.name)
        for schema, source in zip(schemas, all_sources, strict=True)
    ]
    files = [
        (source, layout)
        for source, layout in zip(all_sources, layouts, strict=True)
        if sum(source.groups())
    ]
    _check_same_types(files)
    if trajectory is None and max_trajectories > 1 and not any(layout.lists for layout in layouts):
        raise InvalidParameter(
            "without a column of trajectories each user has one, "
            f"got max_trajectories={max_trajectories}"
        )
    labels = common_labels(
        (source.name, labels_in(schema.metadata, source.name))
        for schema, source in zip(schemas, all_sources, strict=True)
    )
    return replace(_logs(files, caps), labels=labels)


def _check_same_types(files: list[tuple[Source, LogLayout]]) -> None:
    for source, layout in files:
        first_source, first_layout = files[0]
        if layout.lists != first_layout.lists or layout.types != first_layout.types:
            raise LogError(
                f"{source.name} and {first_source.name} have columns of different types: "
                "all files of a log must agree"
            )


def in_memory(
    users: LoggedUsers | Iterable[LoggedUsers],
    *,
    max_trajectories: int = 1,
    max_steps: int = 10_000,
) -> Logs:
    """A log of users who are in memory already, in order: for simulations and tests."""
    need("logs", "a log")
    try:
        blocks = [users] if isinstance(users, LoggedUsers) else list(users)
    except TypeError:
        # An array without dimensions claims to be iterable.
        blocks = [users]  # type: ignore[list-item]
    if not all(isinstance(block, LoggedUsers) for block in blocks):
        raise InvalidParameter.of(
            "users", "must be LoggedUsers, or blocks of them, as confide.logs.simulate makes"
        )
    firsts = np.cumsum([0, *(block.count for block in blocks)])
    convert = as_steps if any(map(has_gaps, blocks)) else as_lists
    batches = tuple(
        convert(block, int(first)) for block, first in zip(blocks, firsts, strict=False)
    )
    caps = Caps(max_trajectories, max_steps)
    if not batches:
        return _logs([], caps)
    if any(batch.schema != batches[0].schema for batch in batches):
        raise LogError("all blocks must have actions and probabilities, or none")
    names = batches[0].schema.names
    columns = Columns(
        action="action" if "action" in names else None,
        probability="probability" if "probability" in names else None,
    )
    layout = layout_of(batches[0].schema, columns, "memory")
    files: list[tuple[Source, LogLayout]] = [
        (MemorySource(batch), layout) for batch in batches if batch.num_rows
    ]
    return _logs(files, caps)


def _logs(files: list[tuple[Source, LogLayout]], caps: Caps) -> Logs:
    parts = tuple(part for source, layout in files for part in parts_of(source, layout, caps))
    return Logs(caps, _assumptions(files), parts)


def _check_states(states: Any) -> None:
    is_whole = isinstance(states, int | np.integer) and not isinstance(states, bool)
    if states is not None and not (is_whole and states >= 1):
        raise InvalidParameter.of("states", "must be a whole number, at least 1", got=f"{states!r}")


def _sum_part(statistic: LogStatistic, part: FilePart) -> Bounded:
    total = Bounded(np.zeros(statistic.bound.size), statistic.bound, 0)
    for block in blocks_of(part):
        block_sum = statistic.contribution(block)
        if not isinstance(block_sum, Bounded) or block_sum.users != block.count:
            raise InvalidParameter(
                f"{type(statistic).__name__}.contribution must return the Bounded sum of all users "
                "of the block"
            )
        total = total + block_sum
    return total


def _assumptions(files: list[tuple[Source, LogLayout]]) -> tuple[Assumption, ...]:
    """That each user stands in one file, unless the files' ranges of ids show it."""
    if len(files) < 2:
        return ()
    ranges = [(*_range(source, layout), source.name) for source, layout in files]
    ranges.sort(key=lambda low_high_name: low_high_name[:2])
    highest: Any = None
    overlap = False
    for (low, high, name), (next_low, _, next_name) in pairwise(ranges):
        highest = high if highest is None else max(highest, high)
        if isinstance(low, int) and high == next_low:
            raise LogError(f"{name} and {next_name} share a user; each user must stand in one file")
        overlap = overlap or next_low <= highest
    if not overlap:
        return ()
    return (
        Assumption(
            "one-file-per-user",
            "each user's rows stand in one file only "
            "(the files' ranges of ids overlap: not verified)",
        ),
    )


def _range(source: Source, layout: LogLayout) -> tuple[Any, Any]:
    """The least and the largest id of a file.

    The file may state them. Otherwise they are at its ends, because order is verified when it is
    read.
    """
    stated = source.ends(layout.columns.user)
    if stated is not None:
        return stated
    filled = [group for group, rows in enumerate(source.groups()) if rows]
    names = [layout.columns.user]
    (_, first), *_ = islice(source.read(filled[:1], layout, names), 1)
    ((_, last),) = deque(source.read(filled[-1:], layout, names), 1)
    with reading(source.name):
        low = first.column(0)[0].as_py()
        high = last.column(0)[-1].as_py()
    if low is None or high is None:
        raise LogError(f"{source.name}: column {layout.columns.user!r} has nulls")
    return low, high
