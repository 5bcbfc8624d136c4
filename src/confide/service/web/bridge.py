"""How answers get from the thread that counts reports to the event loop that sends them."""

import asyncio
from collections import deque

from confide.service.core.report_queue import Answer


class Bridge:
    """Hands answers from the writer's thread to the event loop, with one wake-up for a whole group.

    One wake-up for each answer would take most of the time that a report takes.
    """

    def __init__(self) -> None:
        self._answers: deque[tuple[asyncio.Future[Answer], Answer]] = deque()
        self._is_woken = False

    def put(
        self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Answer]", answer: Answer
    ) -> None:
        """Hand over an answer. Called by the writer's thread."""
        self._answers.append((future, answer))
        if not self._is_woken:
            self._is_woken = True
            loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        # This is first: an answer that comes meanwhile may wake the loop once too often, but it is
        # never left lying.
        self._is_woken = False
        while self._answers:
            future, answer = self._answers.popleft()
            if not future.done():
                future.set_result(answer)
