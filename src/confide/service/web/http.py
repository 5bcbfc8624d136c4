"""The application: addresses, and who answers them. What is answered about a report is said by the core."""

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


def app(
    service: Service, limits: Limits | None = None, *, origins: tuple[str, ...] = ()
) -> Starlette:
    """The ASGI application of a service: the API and the pages. `origins`: of browsers that may call it."""
    gate = Gate(service, limits)
    shown = [
        "Confide-Run",
        "Confide-Generation",
        "Confide-Digest",
        "Confide-Previous",
        "Confide-Signature",
        "Confide-Key",
        "ETag",
        "Retry-After",
    ]
    middleware = [Middleware(Guard)]
    if origins:
        allowed: dict[str, Any] = {
            "allow_methods": ["GET", "POST"],
            "allow_headers": ["Authorization", "Content-Type", "Idempotency-Key"],
        }
        middleware.append(
            Middleware(CORSMiddleware, allow_origins=list(origins), expose_headers=shown, **allowed)
        )
    handlers: Mapping[Any, Any] = {404: _unknown, 405: _wrong_method}
    made = Starlette(
        routes=[*_routes(gate), *Pages(gate).routes()],
        middleware=middleware,
        exception_handlers=handlers,
    )
    made.state.gate = gate
    return made


async def _unknown(_: Request, __: Exception) -> Response:
    return HttpProblem(404, "unknown").response()


async def _wrong_method(_: Request, __: Exception) -> Response:
    return HttpProblem(405, "invalid", "this address takes another method").response()


def _routes(gate: Gate) -> list[Route]:
    """One for each operation, in the order of their table."""
    reading, reporting, operating = Reading(gate), Reporting(gate), Operating(gate)
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
