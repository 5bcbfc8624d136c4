"""Calls that may take minutes, from an event loop that must go on."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any


class Stopping(Exception):
    """The process is about to end, and nobody waits for the call any more."""


class OwnThreads:
    """Gives each call a daemon thread of its own, so the process can end while it works.

    A call must be safe to break off anywhere.
    """

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def call(self, function: Callable[..., None], *given: Any, seconds: float) -> None:
        """Wait for a call.

        After so many seconds this raises `TimeoutError`, while the thread goes on. If the process
        ends before, it raises `Stopping`.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.add(future)

        def work() -> None:
            error: Exception | None = None
            try:
                function(*given)
            except Exception as raised:
                error = raised
            # The loop is closed if the process is about to end.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, future, error)

        threading.Thread(target=work, name=f"confide-{function.__name__}", daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                await future
        finally:
            self._waiting.discard(future)

    def stop_waiting(self) -> None:
        """End the waits for all calls, because the process is about to end."""
        for future in list(self._waiting):
            _settle(future, Stopping())


def _settle(future: "asyncio.Future[None]", error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
