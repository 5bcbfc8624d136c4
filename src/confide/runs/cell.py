"""One cell of a sweep, run in whatever process it was sent to.

What leaves this file are results as plain values: `status` (done, failed or interrupted), the facts
of the cell, and the curves or the error. A store keeps those that are done. Tables are made from
them, so a key may be added, and none may be renamed (see `FORMAT` in `runs/store.py`).
"""

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
from confide.runs.sweep import Cell, make_problem

INTERRUPTED = "interrupted"
# Characters of an error that are kept. A matter of taste.
_MAX_ERROR_LENGTH = 500


@lru_cache(maxsize=1)
def _thread_pools(_modules: int) -> Any:
    """The libraries with threads of their own, after so many modules were imported.

    Looking for them takes a millisecond, so it is done again only after an import.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run a cell and return its result as plain values. An error is a result, too.

    One thread computes, so that sums have the same bits on every machine, whatever its number of
    cores.
    """
    try:
        with _thread_pools(len(sys.modules)).limit(limits=1):
            problem = make_problem(cell.problem)
            agent = cell.spec.ready(problem, cell.seed)
            run = serve(
                agent,
                problem,
                cell.spec.episodes,
                cell.seed,
                command=cell.command,
                counts=cell.spec.counts,
            )
    except ConfideError as error:
        return _failure(cell, f"{error}")
    except (Exception, SystemExit, GeneratorExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"
        return _failure(cell, message)
    if not run.complete:
        return {"status": INTERRUPTED}
    return _result(cell, run)


@dataclass(frozen=True, slots=True)
class Task:
    """A cell that is sent to another process.

    `folder` is where the driver stands: files and classes of a user are looked up there.
    """

    key: str
    cell: Cell
    folder: str

    def run(self) -> tuple[str, dict[str, Any]]:
        """Run the cell, and return its key and its result.

        A worker with other code, libraries or files than the driver would store its result under a
        wrong key, so it refuses.
        """
        # A machine of a cluster may not have the folder, and may not need it.
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        # What an agent prints must not be taken for a result of the command.
        with redirect_stdout(sys.stderr):
            try:
                own_key = key_of(self.cell)
            except ConfideError as error:
                return self.key, _failure(self.cell, f"{error}")
            if own_key != self.key:
                return self.key, _failure(
                    self.cell,
                    "the worker has other code, libraries or files than the driver: restart both",
                )
            return self.key, run_cell(self.cell)


def run_alone(task: Task) -> tuple[str, dict[str, Any]]:
    """Run a task in a process of its own. If it kills this process, only this cell has failed."""
    from concurrent.futures import BrokenExecutor

    from joblib.externals.loky import ProcessPoolExecutor

    with ProcessPoolExecutor(max_workers=1) as executor:
        try:
            result: tuple[str, dict[str, Any]] = executor.submit(task.run).result()
        except BrokenExecutor:
            return task.key, _failure(
                task.cell, "its process was killed: out of memory, or a crash in compiled code?"
            )
    return result


def _failure(cell: Cell, error: str) -> dict[str, Any]:
    line = " ".join(error.split())[:_MAX_ERROR_LENGTH]
    # Surrogates in a message, such as those of file names, cannot be written as UTF-8.
    message = line.encode("utf-8", "replace").decode()
    return {"status": "failed", "cell": cell.facts, "command": cell.command, "error": message}


def _result(cell: Cell, run: Run) -> dict[str, Any]:
    values_are_known = run.optimal_value is not None and run.uniform_value is not None
    return {
        "status": "done",
        "cell": cell.facts,
        "command": cell.command,
        "guarantee": json.dumps(run.guarantee.to_json(), allow_nan=False),
        "true_epsilon": _finite_or_none(run.guarantee.epsilon),
        "optimal_value": run.optimal_value,
        "uniform_value": run.uniform_value,
        "episodes_to_90": run.episodes_to(0.9) if values_are_known else None,
        "users": run.checkpoints.tolist(),
        "regret": _plain_list(run.regret),
        "value": _plain_list(run.value),
        "mean_return": None if values_are_known else _plain_list(run.mean_return),
        "seconds": run.seconds,
    }


def _plain_list(values: Any) -> list[float | None]:
    return [_finite_or_none(value) for value in np.asarray(values, dtype=float).tolist()]


def _finite_or_none(value: float) -> float | None:
    """What JSON can say."""
    return value if math.isfinite(value) else None
