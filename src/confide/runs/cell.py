"""One cell of a sweep, run in whatever process it was sent to."""

import json
import math
import os
import sys
import traceback
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from confide.errors import ConfideError
from confide.runs.run import Run
from confide.runs.runner import serve
from confide.runs.store import key_of
from confide.runs.sweep import Cell, world

INTERRUPTED = "interrupted"
_LONGEST = 500  # characters of an error that are kept


@lru_cache(maxsize=1)
def _pools(_modules: int) -> Any:
    """The libraries with threads of their own. To look for them takes a millisecond: it is done again only after something was imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def run_cell(cell: Cell) -> dict[str, Any]:
    """What came out, as plain values; an error is a result, too. One thread computes, so that sums have the same bits on every machine
    with as many cores as it likes."""
    try:
        with _pools(len(sys.modules)).limit(limits=1):
            problem = world(cell.problem)
            agent = cell.spec.ready(problem, cell.seed)
            done = serve(
                agent,
                problem,
                cell.spec.episodes,
                cell.seed,
                command=cell.command,
                counts=cell.spec.counts,
            )
    except ConfideError as error:
        return _failed(cell, f"{error}")
    except (Exception, SystemExit, GeneratorExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return _failed(cell, f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})")
    if not done.complete:
        return {"status": INTERRUPTED}
    return _done(cell, done)


@dataclass(frozen=True, slots=True)
class Task:
    """A cell on its way to another process: its key, and where the driver stands, for files and classes of its own."""

    key: str
    cell: Cell
    folder: str

    def run(self) -> tuple[str, dict[str, Any]]:
        """A worker with other code, libraries or files than the driver would answer under a wrong key: it refuses."""
        if os.path.isdir(self.folder):  # a machine elsewhere may not have it, and may not need it
            os.chdir(self.folder)
        with redirect_stdout(sys.stderr):  # what an agent prints is not our answer
            try:
                mine = key_of(self.cell)
            except ConfideError as error:
                return self.key, _failed(self.cell, f"{error}")
            if mine != self.key:
                return self.key, _failed(
                    self.cell,
                    "the worker has other code, libraries or files than the driver: restart both",
                )
            return self.key, run_cell(self.cell)


def run_alone(task: Task) -> tuple[str, dict[str, Any]]:
    """In a process of its own, which it may take down with it."""
    from concurrent.futures import BrokenExecutor

    from joblib.externals.loky import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=1) as alone:
        try:
            found: tuple[str, dict[str, Any]] = alone.submit(task.run).result()
        except BrokenExecutor:
            return task.key, _failed(
                task.cell, "its process was killed: out of memory, or a crash in compiled code?"
            )
    return found


def _failed(cell: Cell, error: str) -> dict[str, Any]:
    said = " ".join(error.split())[:_LONGEST].encode("utf-8", "replace").decode()
    return {"status": "failed", "cell": cell.facts, "command": cell.command, "error": said}


def _done(cell: Cell, done: Run) -> dict[str, Any]:
    known = done.optimal_value is not None and done.uniform_value is not None
    return {
        "status": "done",
        "cell": cell.facts,
        "command": cell.command,
        "guarantee": json.dumps(done.guarantee.to_json(), allow_nan=False),
        "true_epsilon": _plain(done.guarantee.epsilon),
        "optimal_value": done.optimal_value,
        "uniform_value": done.uniform_value,
        "episodes_to_90": done.episodes_to(0.9) if known else None,
        "users": done.checkpoints.tolist(),
        "regret": _listed(done.regret),
        "value": _listed(done.value),
        "mean_return": None if known else _listed(done.mean_return),
        "seconds": done.seconds,
    }


def _listed(values: Any) -> list[float | None]:
    return [_plain(value) for value in np.asarray(values, dtype=float).tolist()]


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
