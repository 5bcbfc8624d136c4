"""HTTP/1.1 for clients that are slow or hostile: a request has so many seconds to arrive, and what is no HTTP is a problem document."""

import asyncio
import contextlib
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from confide.service.web.answers import HttpProblem

REST = 2**18  # so many bytes were on the way when the answer was given


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol waits for ever for the headers of a request, and reads on for ever after it has refused a body.

    Here the connection is closed if `header_seconds` pass between its beginning, or its first byte after an answer, and the next request;
    and if more than `REST` bytes of a body come after the answer.
    """

    def __init__(self, *given: Any, header_seconds: float, **more: Any) -> None:
        super().__init__(*given, **more)
        self._header_seconds = header_seconds
        self._waiting: asyncio.TimerHandle | None = None
        self._rest = REST

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()
            self._rest = REST
        elif before is None or before.response_complete:
            self._rest -= len(data)
            if self._rest < 0:
                self._give_up()
            elif self._waiting is None:
                self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self._header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        """Nothing is answered: whoever sends one byte a minute, or does not stop, would not read it."""
        if not self.transport.is_closing():
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # what uvicorn would say
        answer = HttpProblem(
            400, "invalid", "this is not HTTP/1.1, or its headers are too large"
        ).response()
        headers = [(name, value) for name, value in answer.raw_headers] + [
            (b"connection", b"close")
        ]
        # an answer has begun: it cannot be taken back
        with contextlib.suppress(h11.LocalProtocolError):
            for event in (
                h11.Response(status_code=400, headers=headers),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
