"""The application: addresses, and who answers them. The core decides about reports."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from confide.service.core.service import Service
from confide.service.web.answers import Guard, HttpProblem
from confide.service.web.gate import Gate, Handler, Limits
from confide.service.web.operating import Operating
from confide.service.web.operations import OPERATIONS
from confide.service.web.pages import Pages
from confide.service.web.reading import Reading
from confide.service.web.reporting import Reporting

# The headers that a script in a browser may read.
_EXPOSED_HEADERS = [
    "Confide-Run",
    "Confide-Generation",
    "Confide-Digest",
    "Confide-Previous",
    "Confide-Signature",
    "Confide-Key",
    "ETag",
    "Retry-After",
]


def app(
    service: Service, limits: Limits | None = None, *, origins: tuple[str, ...] = ()
) -> Starlette:
    """Return the ASGI application of a service: the API and the pages.

    Scripts of pages at one of the `origins` may call the API.
    """
    gate = Gate(service, limits)
    middleware = [Middleware(Guard)]
    if origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key"],
            expose_headers=_EXPOSED_HEADERS,
        )
        middleware.append(cors)
    handlers: Mapping[Any, Any] = {404: _unknown, 405: _wrong_method}
    application = Starlette(
        routes=[*_routes(gate), *Pages(gate).routes()],
        middleware=middleware,
        exception_handlers=handlers,
    )
    application.state.gate = gate
    return application


async def _unknown(_: Request, __: Exception) -> Response:
    return HttpProblem(404, "unknown").response()


async def _wrong_method(_: Request, __: Exception) -> Response:
    return HttpProblem(405, "invalid", "this address takes another method").response()


def _routes(gate: Gate) -> list[Route]:
    """Return one route for each operation, in the order of their table."""
    reading = Reading(gate)
    reporting = Reporting(gate)
    operating = Operating(gate)
    handlers: dict[str, Handler] = {
        "report": reporting.report,
        "act": reporting.act,
        "manifest": reading.manifest,
        "certificate": reading.certificate,
        "keys": reading.keys,
        "release": reading.release,
        "old_release": reading.old_release,
        "round": reading.round,
        "index": reading.index,
        "api": reading.api,
        "health": reading.health,
        "ready": reading.ready,
        "status": operating.status,
        "pause": partial(operating.change, "paused"),
        "resume": partial(operating.change, "open"),
        "finish": partial(operating.change, "finished"),
        "enrol": operating.enrol,
        "create": operating.create,
        "new_key": operating.new_key,
        "revoke": operating.revoke,
        "rotate": operating.rotate,
        "audit": operating.audit,
    }
    return [
        Route(
            operation.path.replace("{generation}", "{generation:int}"),
            gate.guard(operation, handlers[name]),
            methods=[operation.method],
        )
        for name, operation in OPERATIONS.items()
    ]
