"""Answers from the thread that counts reports to the event loop that sends them."""

import asyncio
from collections import deque

from confide.service.core.service import Answer


class Bridge:
    """Answers from the writer's thread to the event loop: one wake-up for a whole group."""

    def __init__(self) -> None:
        self._done: deque[tuple[asyncio.Future[Answer], Answer]] = deque()
        self._woken = False

    def put(
        self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Answer]", answer: Answer
    ) -> None:
        self._done.append((future, answer))
        if not self._woken:
            self._woken = True
            loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        self._woken = False
        while self._done:
            future, answer = self._done.popleft()
            if not future.done():
                future.set_result(answer)
