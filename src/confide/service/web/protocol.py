"""HTTP/1.1 for clients that are slow or hostile.

A request has so many seconds to arrive, and what is no HTTP is answered with a problem document.
"""

import asyncio
import contextlib
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from confide.service.web.answers import HttpProblem

# After an answer, so many more bytes of a body may come: they were on the way when the answer was
# given. A matter of taste.
MAX_BYTES_AFTER_ANSWER = 2**18


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol, with limits for what it waits for and what it reads.

    uvicorn waits for ever for the headers of a request, and reads on for ever after it has refused
    a body. Here the connection is closed if `header_seconds` pass between its beginning, or its
    first byte after an answer, and the next request. It is also closed if more than
    `MAX_BYTES_AFTER_ANSWER` bytes of a body come after the answer.
    """

    def __init__(self, *given: Any, header_seconds: float, **more: Any) -> None:
        super().__init__(*given, **more)
        self._header_seconds = header_seconds
        # When the connection is given up, unless a request begins before.
        self._deadline: asyncio.TimerHandle | None = None
        self._bytes_allowed = MAX_BYTES_AFTER_ANSWER

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        cycle_before = self.cycle
        super().data_received(data)
        if self.cycle is not cycle_before:
            # A request has begun.
            self._stop_waiting()
            self._bytes_allowed = MAX_BYTES_AFTER_ANSWER
        elif cycle_before is None or cycle_before.response_complete:
            self._bytes_allowed -= len(data)
            if self._bytes_allowed < 0:
                self._give_up()
            elif self._deadline is None:
                self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self._header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        """Close the connection without an answer.

        Whoever sends one byte a minute, or does not stop, would not read it.
        """
        if not self.transport.is_closing():
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answer what is no HTTP. `msg` is what uvicorn would say."""
        answer = HttpProblem(
            400, "invalid", "this is not HTTP/1.1, or its headers are too large"
        ).response()
        headers = [*answer.raw_headers, (b"connection", b"close")]
        # If an answer has begun, it cannot be taken back.
        with contextlib.suppress(h11.LocalProtocolError):
            for event in (
                h11.Response(status_code=400, headers=headers),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
