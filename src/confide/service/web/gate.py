"""What a request must pass before it is answered: the role of its API key, rate limits, and the size and speed of its body."""

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
    """Of the HTTP side. Rates are per second, and for each API key, or for each peer without one."""

    reports: float = 5000.0
    reads: float = 1000.0
    header_seconds: float = 20.0  # of a connection that sends no request
    body_seconds: float = 20.0
    # then 503: whoever sends the same bytes again is told what became of them
    answer_seconds: float = 30.0
    least_body: int = 16_384  # bytes that every run takes


class Gate:
    """`limits` bound what a client may cost."""

    def __init__(self, service: Service, limits: Limits | None = None) -> None:
        self.service, self.limits = service, limits or Limits()
        self.keyring = Keyring(service.store)
        self._rates = {
            "reports": RateLimit(self.limits.reports, 2 * self.limits.reports),
            "reads": RateLimit(self.limits.reads, 2 * self.limits.reads),
        }
        self.own_threads = OwnThreads()
        self.refused: dict[str, int] = {}  # by kind, before the core: for operators

    def guard(self, operation: Operation, handler: Handler) -> Handler:
        """An endpoint that answers whoever may use the operation. Every refusal becomes a problem document."""

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
        """The API key of a request, if its role may do `what`."""
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
        wait = self._rates[rate].wait(name)
        if wait:
            raise HttpProblem(429, "too-many", retry=wait)

    def limit_reads(self, request: Request) -> None:
        self._limit("reads", request, None)

    def run(self, request: Request) -> LiveRun:
        name = request.path_params["run"]
        run = self.service.runs.get(name)
        if run is None and name in self.service.not_ready:
            raise HttpProblem(503, "unavailable", "this run is not ready", retry=10)
        if run is None:
            raise HttpProblem(404, "unknown")
        return run

    async def read(self, request: Request, limit: int) -> bytes:
        """The body of whoever sends it in time."""
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                return await read_body(request, limit)
        except TimeoutError:
            raise HttpProblem(408, "too-slow") from None
