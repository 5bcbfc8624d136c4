"""What a request must pass before it is answered.

This is the role of its API key, rate limits, and the size and speed of its body. Every endpoint of
the API goes through `Gate.guard`, and what an endpoint needs stands in `operations.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from confide.errors import StoreError
from confide.service.core.live import LiveRun
from confide.service.core.service import Service
from confide.service.store.interface import ApiKeyRow
from confide.service.web.access import MAY, Keyring, RateLimit
from confide.service.web.answers import HttpProblem, read_body
from confide.service.web.operations import Operation
from confide.service.web.own_threads import OwnThreads

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may cost. All of the numbers are a matter of taste.

    `reports` and `reads` are requests per second, for each API key, or for each peer without one.
    """

    reports: float = 5000.0
    reads: float = 1000.0
    # A connection may send no request for so long, and a body may take so long.
    header_seconds: float = 20.0
    body_seconds: float = 20.0
    # After so long a report is answered 503. Whoever sends the same bytes again is told what became
    # of them.
    answer_seconds: float = 30.0
    # Every run takes reports of so many bytes.
    least_body: int = 16_384


class Gate:
    """Lets requests pass to a service, or refuses them."""

    def __init__(self, service: Service, limits: Limits | None = None) -> None:
        self.service = service
        self.limits = limits or Limits()
        self.keyring = Keyring(service.store)
        self._rates = {
            "reports": RateLimit(self.limits.reports, 2 * self.limits.reports),
            "reads": RateLimit(self.limits.reads, 2 * self.limits.reads),
        }
        self.own_threads = OwnThreads()
        # For operators: how many requests were refused before the core saw them, by kind.
        self.refused: dict[str, int] = {}

    def guard(self, operation: Operation, handler: Handler) -> Handler:
        """Return an endpoint that answers whoever may use the operation.

        Every refusal becomes a problem document.
        """

        async def endpoint(request: Request) -> Response:
            try:
                key = self._allow(request, operation.may) if operation.may else None
                request.state.actor = key.id if key else ""
                if operation.limit:
                    self._limit(operation.limit, request, key)
                return await handler(request)
            except StoreError:
                return HttpProblem(503, "unavailable", retry=1).response()
            except HttpProblem as problem:
                self.refused[problem.kind] = self.refused.get(problem.kind, 0) + 1
                return problem.response()

        return endpoint

    def _allow(self, request: Request, what: str) -> ApiKeyRow:
        """Return the API key of a request, if its role may do `what`."""
        sent = request.headers.get("authorization", "")
        key = self.keyring.find(sent[7:]) if sent[:7].lower() == "bearer " else None
        if key is None:
            raise HttpProblem(401, "unauthorised")
        if key.role not in MAY[what]:
            raise HttpProblem(403, "forbidden", f"needed: {' or '.join(MAY[what])}")
        if key.run is not None and key.run != request.path_params.get("run"):
            raise HttpProblem(
                403, "forbidden", "this key is for one run, and not for what this address does"
            )
        return key

    def _limit(self, rate: str, request: Request, key: ApiKeyRow | None) -> None:
        name = key.id if key else f"peer {request.client.host if request.client else ''}"
        seconds = self._rates[rate].take(name)
        if seconds:
            raise HttpProblem(429, "too-many", retry=seconds)

    def limit_reads(self, request: Request) -> None:
        """Refuse a peer that reads too much."""
        self._limit("reads", request, None)

    def run(self, request: Request) -> LiveRun:
        """Return the run that the address of a request names."""
        name = request.path_params["run"]
        run = self.service.runs.get(name)
        if run is None and name in self.service.not_ready:
            raise HttpProblem(503, "unavailable", "this run is not ready", retry=10)
        if run is None:
            raise HttpProblem(404, "unknown")
        return run

    async def read(self, request: Request, limit: int) -> bytes:
        """Return the body of a request, if it has at most `limit` bytes and comes in time."""
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                return await read_body(request, limit)
        except TimeoutError:
            raise HttpProblem(408, "too-slow") from None
