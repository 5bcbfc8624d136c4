"""Run a sweep: over any backend, nothing twice, nothing lost."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide.errors import ExecutionError
from confide.execution import RETRIES, check_backend, each
from confide.experiments.cell import INTERRUPTED, Task
from confide.experiments.comparison import Comparison, tidy
from confide.experiments.store import Store, key_of
from confide.experiments.sweep import Cell, Sweep
from confide.experiments.sweep_file import read_sweep

STORE = ".confide-store"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a sweep is."""

    cells: int
    done: int
    failed: int
    stored: int  # of those done, found in the store


Watch = Callable[[Standing], None]


def compare(
    sweep: Sweep | str | Path,
    *,
    backend: str = "local",
    workers: int | None = None,
    store: str | Path | None = None,
    again: bool = False,
    progress: Watch | None = None,
) -> Comparison:
    """Run every cell of a sweep (or of a TOML file) that is not in the store yet, and put all of them into one table.

    The table does not depend on the backend, the number of workers, or on how often it was interrupted. A cell that fails is a row of the
    table that says why, and is tried again the next time. `store` is a folder, by default `.confide-store` here; `again` computes what is
    in it anew. Ctrl-C, or worse, loses the cells at work only.
    """
    chosen = sweep if isinstance(sweep, Sweep) else read_sweep(sweep)
    check_backend(backend, workers)
    kept = Store(STORE if store is None else store)
    cells = {key_of(cell): cell for cell in chosen.cells()}
    found: dict[str, dict[str, Any]] = {}
    if not again:
        found = {key: result for key in cells if (result := kept.get(key)) is not None}
    counts = {"done": len(found), "failed": 0, "stored": len(found)}

    def tell() -> None:
        if progress is not None:
            progress(Standing(cells=len(cells), **counts))

    def take(key: str, result: dict[str, Any]) -> None:
        if result["status"] == INTERRUPTED:
            raise KeyboardInterrupt
        if result["status"] == "done":
            kept.put(key, result)
        found[key] = result
        counts[result["status"]] += 1
        tell()

    tell()
    _run_all({key: cell for key, cell in cells.items() if key not in found}, take, backend, workers)
    return tidy(chosen.name, ((key, found[key]) for key in cells))


def _run_all(cells: dict[str, Cell], take: Callable[[str, dict[str, Any]], None], backend: str, workers: int | None) -> None:
    """A local worker that is killed takes the others with it; what they had not finished is begun again, a few times."""
    left = dict(cells)
    for attempt in range(RETRIES + 1):
        try:
            tasks = [Task(key, cell, os.getcwd()) for key, cell in left.items()]
            for key, result in each(Task.run, tasks, backend=backend, workers=_enough(workers, backend, len(left))):
                take(key, result)
                left.pop(key)
            return
        except ExecutionError:
            if attempt == RETRIES:
                raise


def _enough(workers: int | None, backend: str, cells: int) -> int | None:
    """A cell is a second or more: other processes are worth their start from two cells on."""
    import joblib

    return min(joblib.cpu_count(), max(cells, 1)) if workers is None and backend == "local" else workers
