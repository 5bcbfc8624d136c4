"""Where work is executed: in this process, in other processes, or on a Ray or Dask cluster. The interface is `each`.

A cluster does a piece again, elsewhere, when a machine dies.
"""

import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import Any, TypeVar

from confide.arguments import choice, whole
from confide.errors import ConfideError, ExecutionError, MissingExtra

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRIES = 3
BACKENDS = ("local", "ray", "dask")
FEW = 8  # pieces: done before another process has started


def check_backend(backend: str, workers: int | None) -> None:
    choice("backend", backend, BACKENDS)
    if workers is not None:
        whole("workers", workers, at_least=1)
    if backend != "local" and find_spec({"ray": "ray", "dask": "distributed"}[backend]) is None:
        raise MissingExtra(f"{backend} is not installed: pip install 'confide[cluster]'")


def each(
    task: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    backend: str = "local",
    workers: int | None = None,
) -> Iterator[Result]:
    """task(item) of every item, in any order. Both must be picklable, to reach other processes."""
    check_backend(backend, workers)
    if not items:
        return iter(())
    return {"local": _local, "ray": _ray, "dask": _dask}[backend](task, items, workers)


def _local(task: Callable[[Any], Any], items: Sequence[Any], workers: int | None) -> Iterator[Any]:
    import joblib

    workers = min(workers or (1 if len(items) < FEW else joblib.cpu_count()), len(items))
    if workers == 1:
        yield from map(task, items)
        return
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        yield from joblib.Parallel(workers, return_as="generator_unordered")(
            joblib.delayed(task)(item) for item in items
        )
    except TerminatedWorkerError:
        raise ExecutionError(
            "a worker process was killed, perhaps because memory ran out; try fewer workers"
        ) from None


def _ray(task: Callable[[Any], Any], items: Sequence[Any], workers: int | None) -> Iterator[Any]:
    """Plain tasks on the cluster that this process is connected to, else on this machine for as long as it takes."""
    # by name: types are checked where it is not installed, too
    ray: Any = importlib.import_module("ray")
    ours = not ray.is_initialized()
    if ours:
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    try:
        remote = ray.remote(max_retries=RETRIES)(_outcome)
        shared = ray.put(task)
        rest = iter(items)
        waiting = {
            remote.remote(shared, item): item for item in islice(rest, workers or len(items))
        }
        while waiting:
            ready = ray.wait(list(waiting))[0][0]
            yield _result(lambda: ray.get(ready), "Ray", waiting.pop(ready))  # noqa: B023
            waiting |= {remote.remote(shared, item): item for item in islice(rest, 1)}
    finally:
        if ours:
            ray.shutdown()


def _dask(task: Callable[[Any], Any], items: Sequence[Any], workers: int | None) -> Iterator[Any]:
    """Futures of the current client, else of a cluster on this machine for as long as it takes."""
    distributed: Any = importlib.import_module("distributed")
    try:
        client, ours = distributed.Client.current(), False
    except ValueError:
        cluster = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        try:
            client, ours = distributed.Client(**cluster), True
        except RuntimeError:
            raise ExecutionError(
                'Dask starts processes that import this script: call it below if __name__ == "__main__":'
            ) from None
    try:
        futures = client.map(
            _outcome, [task] * len(items), items, key="confide", retries=RETRIES, pure=False
        )
        pieces = {future.key: item for future, item in zip(futures, items, strict=True)}
        for done in distributed.as_completed(futures):
            yield _result(done.result, "Dask", pieces[done.key])
            done.release()
    finally:
        if ours:
            client.close()


def _outcome(task: Callable[[Any], Any], item: Any) -> Any:
    """The result, or our error as a value: it would come again, and is neither worth a retry nor an entry in a cluster's logs."""
    try:
        return task(item)
    except ConfideError as error:
        return error


def _result(get: Callable[[], Any], cluster: str, item: Any) -> Any:
    try:
        found = get()
    except Exception as error:
        found = ExecutionError(
            f"the {cluster} cluster lost a piece of the work for good: {type(error).__name__}"
        )
        found.item = item
    if isinstance(found, ConfideError):
        raise found
    return found
