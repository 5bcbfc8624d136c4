"""Run a sweep on any backend; results are stored, so that it can be resumed."""

import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from confide.errors import ExecutionError
from confide.execution import check_backend, each
from confide.runs.cell import INTERRUPTED, Task, run_alone
from confide.runs.store import Store, can_be_kept, key_of
from confide.runs.sweep import Cell

STORE = ".confide-store"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a sweep is."""

    cells: int
    done: int
    failed: int
    stored: int  # of those done, found in the store


Watch = Callable[[Standing], None]


def run_cells(
    given: Iterable[Cell],
    *,
    backend: str = "local",
    workers: int | None = None,
    store: Store | None = None,
    again: bool = False,
    progress: Watch | None = None,
) -> dict[str, dict[str, Any]]:
    """The result of every cell by its key (`key_of`), in the order of the cells; those in the store are not run again.

    Results of a user's own agent are not stored.
    """
    check_backend(backend, workers)
    cells = {key_of(cell): cell for cell in given}
    found: dict[str, dict[str, Any]] = {}
    if store is not None and not again:
        kept = [key for key, cell in cells.items() if can_be_kept(cell)]
        found = {key: result for key in kept if (result := store.get(key)) is not None}
    counts = {"done": len(found), "failed": 0, "stored": len(found)}

    def tell() -> None:
        if progress is not None:
            progress(Standing(cells=len(cells), **counts))

    def take(key: str, result: dict[str, Any]) -> None:
        if result["status"] == INTERRUPTED:
            raise KeyboardInterrupt
        if store is not None and result["status"] == "done" and can_be_kept(cells[key]):
            store.put(key, result)
        found[key] = result
        counts[result["status"]] += 1
        tell()

    tell()
    if left := {key: cell for key, cell in cells.items() if key not in found}:
        with nullcontext() if store is None else store.in_use():
            _run_all(left, take, backend, workers)
    return {key: found[key] for key in cells}


def _run_all(
    cells: dict[str, Cell],
    take: Callable[[str, dict[str, Any]], None],
    backend: str,
    workers: int | None,
) -> None:
    """A run that kills its process must not stop the others. After such a death whoever may have done it runs alone, in a process of its
    own; who dies there has failed."""
    left, folder = dict(cells), os.getcwd()

    def finish(key: str, result: dict[str, Any]) -> None:
        take(key, result)
        left.pop(key)

    while left:
        many, tasks = (
            _enough(workers, backend, len(left)),
            [Task(key, cell, folder) for key, cell in left.items()],
        )
        try:
            for key, result in each(Task.run, tasks, backend=backend, workers=many):
                finish(key, result)
        except ExecutionError as error:
            suspects = (
                [error.item]
                if isinstance(error.item, Task)
                else tasks_left(tasks, left)[: 2 * (many or 1)]
            )
            for task in suspects:
                finish(*run_alone(task))


def tasks_left(tasks: list[Task], left: dict[str, Cell]) -> list[Task]:
    """In the order in which they were handed out."""
    return [task for task in tasks if task.key in left]


def _enough(workers: int | None, backend: str, cells: int) -> int | None:
    """A cell is a second or more: other processes are worth their start from two cells on."""
    import joblib

    return (
        min(joblib.cpu_count(), max(cells, 1))
        if workers is None and backend == "local"
        else workers
    )
