"""Rows put together by user, on disk: many more than fit into memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[Any]]
PARTITIONS = 256  # by the first bits of a user's number
BUFFER = 1 << 21  # rows that are in memory before they are written
GROUP = 1 << 20  # rows that are read back together, if no partition is larger
SHIFT = np.uint64(63 - 8)  # users are numbers below 2^63


class Spill:
    """Rows in, in any order; out come groups of whole users in the order of their numbers.

    Each user's rows stay in the order they came in. Every time the buffer is full it is written as
    one file, partition by partition; a group is a slice of each file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._held, self._rows = folder, list[Columns](), 0
        # files, and where each partition starts
        self._runs: list[tuple[Path, npt.NDArray[np.int64]]] = []
        self._kinds: dict[str, np.dtype[Any]] = {}

    def add(self, rows: Columns) -> None:
        """Arrays of the same length; `user` is one of them."""
        self._kinds = {name: values.dtype for name, values in rows.items()}
        self._held.append(rows)
        self._rows += len(rows["user"])
        if self._rows >= BUFFER:
            self._write()

    def _write(self) -> None:
        if not self._rows:
            return
        path = self._folder / f"{len(self._runs)}.rows"
        part = (np.concatenate([rows["user"] for rows in self._held]) >> SHIFT).astype(np.uint8)
        order = np.argsort(part, kind="stable")
        with path.open("wb") as file:
            for name in self._kinds:
                np.concatenate([rows[name] for rows in self._held])[order].tofile(file)
        starts = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=PARTITIONS))])
        self._runs.append((path, starts))
        self._held, self._rows = [], 0

    def groups(self) -> Iterator[tuple[int, Columns]]:
        """(rows read so far, rows of whole users)."""
        self._write()
        sizes = np.zeros(PARTITIONS, np.int64)
        for _, starts in self._runs:
            sizes += np.diff(starts)
        first = done = 0
        for last in range(1, len(sizes) + 1):
            together = int(sizes[first:last].sum())
            full = last == len(sizes) or together + int(sizes[last]) > GROUP
            if full and together:
                done += together
                yield done, self._read(first, last)
            first = last if full else first

    def _read(self, first: int, last: int) -> Columns:
        parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in self._kinds}
        for path, starts in self._runs:
            low, high, column = int(starts[first]), int(starts[last]), 0
            for name, kind in self._kinds.items():
                parts[name].append(
                    np.fromfile(path, kind, high - low, offset=column + low * kind.itemsize)
                )
                column += int(starts[-1]) * kind.itemsize
        return {name: np.concatenate(values) for name, values in parts.items()}
