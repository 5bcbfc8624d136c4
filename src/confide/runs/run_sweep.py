"""Run a sweep on any backend. Results are stored, so that an interrupted sweep resumes.

What leaves this file: files in the store (`runs/store.py`). No file here can change a result, so
this one is not part of the key of a result (`DO_NOT_COUNT`).
"""

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
    """How far a sweep is. `stored` counts the cells among those `done` that were in the store."""

    cells: int
    done: int
    failed: int
    stored: int


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
    """The result of every cell by its key (`key_of`), in the order of the cells.

    Cells whose results are in the store are not run, unless `again` is set. Results that depend on
    code of the user are not stored.
    """
    check_backend(backend, workers)
    cells = {key_of(cell): cell for cell in given}
    results: dict[str, dict[str, Any]] = {}
    if store is not None and not again:
        for key, cell in cells.items():
            result = store.get(key) if can_be_kept(cell) else None
            if result is not None:
                results[key] = result
    counts = {"done": len(results), "failed": 0, "stored": len(results)}

    def report_progress() -> None:
        if progress is not None:
            progress(Standing(cells=len(cells), **counts))

    def take(key: str, result: dict[str, Any]) -> None:
        if result["status"] == INTERRUPTED:
            raise KeyboardInterrupt
        if store is not None and result["status"] == "done" and can_be_kept(cells[key]):
            store.put(key, result)
        results[key] = result
        counts[result["status"]] += 1
        report_progress()

    report_progress()
    cells_left = {key: cell for key, cell in cells.items() if key not in results}
    if cells_left:
        with nullcontext() if store is None else store.in_use():
            _run_all(cells_left, take, backend, workers)
    return {key: results[key] for key in cells}


def _run_all(
    cells: dict[str, Cell],
    take: Callable[[str, dict[str, Any]], None],
    backend: str,
    workers: int | None,
) -> None:
    """Run cells, and hand each result to `take`.

    A run that kills its process must not stop the others. After such a death each task that may
    have caused it runs in a process of its own. A task that kills that one has failed.
    """
    cells_left = dict(cells)
    folder = os.getcwd()

    def finish(key: str, result: dict[str, Any]) -> None:
        take(key, result)
        del cells_left[key]

    while cells_left:
        processes = _number_of_workers(workers, backend, len(cells_left))
        tasks = [Task(key, cell, folder) for key, cell in cells_left.items()]
        try:
            for key, result in each(Task.run, tasks, backend=backend, workers=processes):
                finish(key, result)
        except ExecutionError as error:
            for task in _suspects(error, tasks, cells_left, processes):
                finish(*run_alone(task))


def _suspects(
    error: ExecutionError, tasks: list[Task], cells_left: dict[str, Cell], processes: int | None
) -> list[Task]:
    """The tasks that may have killed a process: the one that the error names, if it names one.

    Tasks are handed out in order, and each process has at most two of them.
    """
    if isinstance(error.item, Task):
        return [error.item]
    unfinished = [task for task in tasks if task.key in cells_left]
    return unfinished[: 2 * (processes or 1)]


def _number_of_workers(workers: int | None, backend: str, cells: int) -> int | None:
    """Use all cores of this machine, unless a number was chosen.

    A cell takes a second or more, so starting processes is worth it from two cells on.
    """
    import joblib

    if workers is not None or backend != "local":
        return workers
    return min(int(joblib.cpu_count()), max(cells, 1))
