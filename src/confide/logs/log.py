"""A log: users' trajectories in files, opened, checked and added up. The unit of privacy is the user."""

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
from confide.logs.labels import NO_LABELS, Labels, labels_in, one_of
from confide.logs.reader import BLOCK, FilePart, blocks_of, parts_of
from confide.logs.writing import as_lists, as_steps, has_gaps
from confide.privacy.assumption import Assumption
from confide.privacy.bounded import Bound, Bounded
from confide.trajectory import LoggedUsers

Progress = Callable[[int, int], None]  # parts done, parts in all


class LogStatistic(Protocol):
    """What can be added up over a log. Picklable, to reach other processes."""

    @property
    def bound(self) -> Bound: ...
    def contribution(self, users: LoggedUsers) -> Bounded:
        """The sum of these users' contributions; zero for those who are not valid."""


@dataclass(frozen=True, slots=True)
class Logs:
    """Users' trajectories, not in memory. Of each user `max_trajectories` trajectories of `max_steps` steps are counted, which is public.

    `assumptions`: what a promise about users needs and reading could not verify, for the certificate. `labels`: of states and actions, as
    `import_log` wrote them.
    """

    caps: Caps
    assumptions: tuple[Assumption, ...]
    parts: tuple[FilePart, ...] = field(repr=False)
    backend: str = "local"
    workers: int | None = None
    people: splitting.SplitPart | None = None
    labels: Labels = field(default=NO_LABELS, repr=False)

    def on(self, backend: str, *, workers: int | None = None) -> "Logs":
        """The same log, read elsewhere: "local" (processes; one worker is this process), "ray" or "dask" (the cluster that this process
        is connected to, else one on this machine)."""
        check_backend(backend, workers)
        return replace(self, backend=backend, workers=workers)

    def split(self, holdout: float = 0.5, *, key: str = "") -> "tuple[Logs, Logs]":
        """The log in two parts of different people: to learn from, and, about this share of them, to test on.

        A keyed hash of the id decides. Each part may be released with a whole budget (see `confide.logs.split` for the proof), and a ledger
        charges the larger loss of the two. The key need not be secret for that; with another key, people are split anew, and charged anew.
        """
        holdout, key = real("holdout", holdout, above=0, below=1), text("key", key)
        if self.people is not None:
            raise InvalidParameter("the log is a part of a split log already")
        split, digest = (
            identify(self.identity, self._stamps, holdout, key),
            splitting.digest_of_key(key),
        )
        # Tokens are random. The names, sizes and times of private files must not be in a public name.
        tokens = sorted({getattr(part.source, "token", "") for part in self.parts})
        public_name = identify(tokens, holdout, digest)
        ends = (
            splitting.SplitPart(split, public_name, test, holdout, digest) for test in (False, True)
        )
        learn, test = (self._kept(end) for end in ends)
        return learn, test

    def _kept(self, people: splitting.SplitPart) -> "Logs":
        parts = tuple(replace(one, people=people) for one in self.parts)
        return replace(
            self, parts=parts, people=people, assumptions=(*self.assumptions, people.assumed)
        )

    @property
    def _stamps(self) -> list[Any]:
        """PRIVATE: sizes and times of the files. A file that was written anew may hold other ids for the same people: then it is not the
        same split, and a ledger adds up what is spent on both."""
        files = [Path(part.source.name) for part in self.parts if not hasattr(part.source, "token")]
        return [
            (found.st_size, found.st_mtime_ns)
            for found in (path.stat() for path in dict.fromkeys(files))
        ]

    @property
    def part(self) -> tuple[str, str] | None:
        """PRIVATE: which split and which part of it this is, for a ledger; None for a whole log."""
        return None if self.people is None else (self.people.split, self.people.name)

    @property
    def max_trajectories(self) -> int:
        return self.caps.trajectories

    @property
    def max_steps(self) -> int:
        return self.caps.steps

    @property
    def identity(self) -> str:
        """Which log this is, and how it is read, by names alone: a question to another log is another question."""
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
        """Whether actions and their probabilities are read, too: without them nobody can tell what another policy would have got."""
        return all(
            part.layout.columns.action and part.layout.columns.probability for part in self.parts
        )

    def blocks(self, rows: int = BLOCK) -> Iterator[LoggedUsers]:
        """All users once, whole, in blocks of about so many rows. PRIVATE."""
        for part in self.parts:
            yield from blocks_of(part, rows)

    def total(self, statistic: LogStatistic, *, progress: Progress | None = None) -> Bounded:
        """The sum of all users' contributions. A part whose worker dies is done again; what is added up lies on a grid, so the sum has the
        same bits however the parts were spread."""
        has(
            "statistic",
            statistic,
            ("bound", "contribution"),
            "a statistic: a bound, and what users contribute",
        )
        total = Bounded(np.zeros(statistic.bound.size), statistic.bound, 0)
        sums = each(
            Guarded(partial(_sum, statistic)),
            self.parts,
            backend=self.backend,
            workers=self.workers,
        )
        for done, some in enumerate(sums, 1):
            total = total + some
            if progress is not None:
                progress(done, len(self.parts))
        return total

    def check(self, *, states: int | None = None, workers: int | None = 1) -> Check:
        """Counts of what is wrong. NOT PRIVATE: for the data holder only."""
        _check_states(states)
        if self.people is not None:
            raise InvalidParameter("a part of a split log cannot be checked: check the whole log")
        counted = each(Guarded(partial(inspect_part, states=states)), self.parts, workers=workers)
        return sum(counted, Check(assumptions=self.assumptions, labels=self.labels))


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
    """A log in Parquet or Arrow files: a file, a pattern, a folder, or several; the other arguments are the columns' names.

    One row per step, or one row per trajectory with lists. The rows of a user stand together, and users ascend within each file.
    """
    need("logs", "a log")
    caps, columns = (
        Caps(max_trajectories, max_steps),
        Columns(user, trajectory, step, state, reward, action, probability),
    )
    found = sources(paths)
    schemas = [source.schema() for source in found]
    layouts = [
        layout_of(schema, columns, source.name)
        for schema, source in zip(schemas, found, strict=True)
    ]
    files = [
        (source, layout)
        for source, layout in zip(found, layouts, strict=True)
        if sum(source.groups())
    ]
    for source, layout in files:
        if layout.lists != files[0][1].lists or layout.types != files[0][1].types:
            raise LogError(
                f"{source.name} and {files[0][0].name} have columns of different types: all files of a log must agree"
            )
    if trajectory is None and max_trajectories > 1 and not any(layout.lists for layout in layouts):
        raise InvalidParameter(
            f"without a column of trajectories each user has one, got max_trajectories={max_trajectories}"
        )
    labels = one_of(
        (source.name, labels_in(schema.metadata, source.name))
        for schema, source in zip(schemas, found, strict=True)
    )
    return replace(_logs(files, caps), labels=labels)


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
    except TypeError:  # an array without dimensions claims to be iterable
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
    action, probability = (
        name if name in batches[0].schema.names else None for name in ("action", "probability")
    )
    layout = layout_of(batches[0].schema, Columns(action=action, probability=probability), "memory")
    files: list[tuple[Source, LogLayout]] = [
        (MemorySource(batch), layout) for batch in batches if batch.num_rows
    ]
    return _logs(files, caps)


def _logs(files: list[tuple[Source, LogLayout]], caps: Caps) -> Logs:
    parts = tuple(part for source, layout in files for part in parts_of(source, layout, caps))
    return Logs(caps, _assumptions(files), parts)


def _check_states(states: Any) -> None:
    if states is not None and (
        isinstance(states, bool) or not isinstance(states, int | np.integer) or states < 1
    ):
        raise InvalidParameter.of("states", "must be a whole number, at least 1", got=f"{states!r}")


def _sum(statistic: LogStatistic, part: FilePart) -> Bounded:
    total = Bounded(np.zeros(statistic.bound.size), statistic.bound, 0)
    for block in blocks_of(part):
        some = statistic.contribution(block)
        if not isinstance(some, Bounded) or some.users != block.count:
            raise InvalidParameter(
                f"{type(statistic).__name__}.contribution must return the Bounded sum of all users of the block"
            )
        total = total + some
    return total


def _assumptions(files: list[tuple[Source, LogLayout]]) -> tuple[Assumption, ...]:
    """Each user stands in one file: so it is, where the files' ranges of ids do not meet."""
    if len(files) < 2:
        return ()
    ranges = sorted(
        ((*_range(source, layout), source.name) for source, layout in files),
        key=lambda found: found[:2],
    )
    highest: Any = None
    overlap = False
    for (low, high, name), (next_low, _, next_name) in pairwise(ranges):
        highest = high if highest is None else max(highest, high)
        if isinstance(low, int) and high == next_low:
            raise LogError(f"{name} and {next_name} share a user; each user must stand in one file")
        overlap = overlap or next_low <= highest
    return (
        (
            Assumption(
                "one-file-per-user",
                "each user's rows stand in one file only (the files' ranges of ids overlap: not verified)",
            ),
        )
        if overlap
        else ()
    )


def _range(source: Source, layout: LogLayout) -> tuple[Any, Any]:
    """The least and the largest id: as the file states them, else by looking at its ends (order is verified when it is read)."""
    stated = source.ends(layout.columns.user)
    if stated is not None:
        return stated
    filled, names = (
        [group for group, rows in enumerate(source.groups()) if rows],
        [layout.columns.user],
    )
    (_, first), *_ = islice(source.read(filled[:1], layout, names), 1)
    ((_, last),) = deque(source.read(filled[-1:], layout, names), 1)
    with reading(source.name):
        low, high = first.column(0)[0].as_py(), last.column(0)[-1].as_py()
    if low is None or high is None:
        raise LogError(f"{source.name}: column {layout.columns.user!r} has nulls")
    return low, high
