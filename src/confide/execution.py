"""Where work is executed: in this process, in other processes, or on a Ray or Dask cluster.

The interface is `each`. When a machine of a cluster dies, another one does its piece of work again.
Results do not depend on where the work is done.
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
# So many times a cluster tries a piece again. Taste.
RETRIES = 3
BACKENDS = ("local", "ray", "dask")
# Fewer pieces are done in this process, because they are done before another process has started.
# Taste.
FEW = 8


def check_backend(backend: str, workers: int | None) -> None:
    """Refuse a backend that does not exist or is not installed."""
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
    """Yield task(item) for every item, in any order.

    The task and the items must be picklable, to reach other processes.
    """
    check_backend(backend, workers)
    if not items:
        return iter(())
    execute = {"local": _local, "ray": _ray, "dask": _dask}[backend]
    return execute(task, items, workers)


def _local(task: Callable[[Any], Any], items: Sequence[Any], workers: int | None) -> Iterator[Any]:
    """In this process, or in other processes of this machine."""
    import joblib

    if workers is None:
        workers = 1 if len(items) < FEW else joblib.cpu_count()
    workers = min(workers, len(items))
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
    """Plain tasks on the cluster that this process is connected to.

    If it is connected to none, Ray is started on this machine and stopped at the end.
    """
    # Imported by name, so that types can be checked where it is not installed.
    ray: Any = importlib.import_module("ray")
    is_ours = not ray.is_initialized()
    if is_ours:
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
        if is_ours:
            ray.shutdown()


def _dask(task: Callable[[Any], Any], items: Sequence[Any], workers: int | None) -> Iterator[Any]:
    """Futures of the current client.

    If there is none, a cluster is started on this machine and stopped at the end.
    """
    distributed: Any = importlib.import_module("distributed")
    is_ours = False
    try:
        client = distributed.Client.current()
    except ValueError:
        cluster = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        try:
            client = distributed.Client(**cluster)
            is_ours = True
        except RuntimeError:
            raise ExecutionError(
                "Dask starts processes that import this script: "
                'call it below if __name__ == "__main__":'
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
        if is_ours:
            client.close()


def _outcome(task: Callable[[Any], Any], item: Any) -> Any:
    """The result of a piece, or confide's error as a value.

    The error would come again. So it is neither worth a retry nor an entry in a cluster's logs.
    """
    try:
        return task(item)
    except ConfideError as error:
        return error


def _result(get: Callable[[], Any], cluster: str, item: Any) -> Any:
    """The result of a piece that a cluster has done. An error of it is raised here."""
    try:
        outcome = get()
    except Exception as error:
        outcome = ExecutionError(
            f"the {cluster} cluster lost a piece of the work for good: {type(error).__name__}"
        )
        outcome.item = item
    if isinstance(outcome, ConfideError):
        raise outcome
    return outcome
