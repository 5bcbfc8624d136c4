"""Answers of HTTP: problems (RFC 9457), documents with tags and signatures, and bodies that are read up to a limit."""

import json
import logging
import math
from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from confide.service.documents import ReleaseRow
from confide.service.live import Signed

log = logging.getLogger("confide.service")
IMMUTABLE = "public, max-age=31536000, immutable"
_LONGEST = 500  # characters of a path
NO_STORE = {"Cache-Control": "no-store"}
TITLES = {
    "invalid": "The request is not what this address takes",
    "unauthorised": "An API key is needed",
    "forbidden": "This API key may not do that",
    "unknown": "There is nothing at this address",
    "over-budget": "This person's budget over all runs is spent",
    "not-enrolled": "This person is not enrolled in the open batch",
    "another-report": "This person has sent another report already",
    "late": "The report was planned with a release that is closed",
    "finished": "The run takes no more reports",
    "paused": "The run is paused",
    "unavailable": "The service cannot write at the moment; send the same bytes again",
    "too-large": "The body is too large",
    "too-slow": "The body came too slowly",
    "too-many": "Too many requests",
    "internal": "An error that nobody foresaw; nothing is said about its cause",
}


class Problem(Exception):
    """An answer that is an error: RFC 9457."""

    def __init__(self, status: int, kind: str, detail: str = "", *, retry: float | None = None) -> None:
        super().__init__(kind)
        self.status, self.kind, self.detail, self.retry = status, kind, detail, retry

    def response(self) -> Response:
        body = {"type": f"/problems/{self.kind}", "title": TITLES[self.kind], "status": self.status}
        headers = {} if self.retry is None else {"Retry-After": str(max(1, math.ceil(self.retry)))}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        full = body | ({"detail": self.detail} if self.detail else {})
        return JSONResponse(full, self.status, headers, media_type="application/problem+json")


class Guard:
    """An error that nobody foresaw is answered in one sentence, and logged by its type alone: its text may hold somebody's data."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        try:
            if len(scope["path"]) > _LONGEST:
                await Problem(404, "unknown").response()(scope, receive, guarded)
                return
            await self._inner(scope, receive, guarded)
        except Exception as error:
            log.error("internal error: %s", type(error).__name__)
            if not begun:
                await Problem(500, "internal").response()(scope, receive, guarded)


async def read_body(request: Request, limit: int) -> bytes:
    """The body, if it is not larger than `limit`: no more than that is ever in memory."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 15 or int(announced) > limit:
        raise Problem(413, "too-large", f"at most {limit} bytes")
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise Problem(413, "too-large", f"at most {limit} bytes")
            parts.append(part)
    except ClientDisconnect:
        raise Problem(400, "invalid") from None
    return b"".join(parts)


def json_object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Problem(400, "invalid", "the body must be a JSON object")
    return found


def tagged(request: Request, body: bytes, tag: str, media: str, cache: str, headers: Mapping[str, str] | None = None) -> Response:
    """With an ETag; 304 for who has it already."""
    full = {"ETag": f'"{tag}"', "Cache-Control": cache, **(headers or {})}
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if f'"{tag}"' in known or "*" in known:
        return Response(status_code=304, headers=full)
    return Response(body, media_type=media, headers=full)


def signed(request: Request, document: Signed, media: str, cache: str, headers: Mapping[str, str]) -> Response:
    signed = {"Confide-Digest": document.digest, "Confide-Signature": document.signature.hex(), "Confide-Key": document.key}
    return tagged(request, document.body, document.digest, media, cache, {**headers, **signed})


def shown_release(request: Request, row: ReleaseRow, cache: str) -> Response:
    headers = {"Confide-Run": row.run, "Confide-Generation": str(row.generation), "Confide-Previous": row.previous}
    document = Signed(row.body, row.digest, row.signature, row.key)
    return signed(request, document, "application/octet-stream", cache, headers)
