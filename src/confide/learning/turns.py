"""An agent is not thread-safe: calls from several threads are refused in plain words."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from confide.errors import InvalidParameter, StateError

NOT_THREAD_SAFE = "an agent is not thread-safe: let one thread call next_batch and observe in turn, or hold a lock around both"


class Turns:
    """Who calls the methods of one agent that change it: one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._last_thread: int | None = None

    @contextmanager
    def take(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise StateError(f"another thread is using this agent; {NOT_THREAD_SAFE}")
        thread = threading.get_ident()
        is_shared = self._last_thread not in (None, thread)
        try:
            yield
        except InvalidParameter as error:
            if is_shared:
                raise StateError(
                    f"{error}. Another thread has used this agent in between; {NOT_THREAD_SAFE}"
                ) from None
            raise
        finally:
            self._last_thread = thread
            self._lock.release()


class _HasTurns(Protocol):
    _turns: Turns


Self = TypeVar("Self", bound=_HasTurns)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_turn(
    method: Callable[Concatenate[Self, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """A method of an agent that only one thread may call at a time."""

    @wraps(method)
    def call(self: Self, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        with self._turns.take():
            return method(self, *arguments, **options)

    return call
