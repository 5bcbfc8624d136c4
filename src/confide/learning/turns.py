"""An agent is not thread-safe. If two threads call it, it raises an error that says so.

Nothing of this file is saved or sent. The check is a help for users of the library, and no
guarantee rests on it.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from confide.errors import InvalidParameter, StateError

NOT_THREAD_SAFE = (
    "an agent is not thread-safe: let one thread call next_batch and observe in turn, "
    "or hold a lock around both"
)


class Turns:
    """Which thread is inside of the methods that change an agent: one at a time."""

    def __init__(self) -> None:
        # A method that changes the agent may call another one.
        self._lock = threading.RLock()
        self._last_thread: int | None = None

    def begin(self) -> bool:
        """Begin a call, and say whether the call before it came from another thread."""
        if not self._lock.acquire(blocking=False):
            raise StateError(f"another thread is using this agent; {NOT_THREAD_SAFE}")
        return self._last_thread not in (None, threading.get_ident())

    def end(self) -> None:
        """End the call that this thread began last."""
        self._last_thread = threading.get_ident()
        self._lock.release()


class HasTurns(Protocol):
    """An agent whose methods are decorated by `in_turn`."""

    _turns: Turns


Self = TypeVar("Self", bound=HasTurns)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def in_turn(
    method: Callable[Concatenate[Self, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """Decorate a method of an agent that only one thread may call at a time."""

    @wraps(method)
    def call(self: Self, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        thread_has_changed = self._turns.begin()
        try:
            return method(self, *arguments, **options)
        except InvalidParameter as error:
            # The error may be a consequence of what the other thread did in between.
            if thread_has_changed:
                raise StateError(
                    f"{error}. Another thread has used this agent in between; {NOT_THREAD_SAFE}"
                ) from None
            raise
        finally:
            self._turns.end()

    return call
