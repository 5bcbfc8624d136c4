"""Answers of HTTP: problems (RFC 9457), documents with tags and signatures, and bodies that are read up to a limit."""

import contextlib
import logging
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from confide.service.core.live import Signed
from confide.service.documents import ReleaseRow

log = logging.getLogger("confide.service")
IMMUTABLE = "public, max-age=31536000, immutable"
_LONGEST = 500  # characters of a path
PLAIN = {"X-Content-Type-Options": "nosniff"}
NO_STORE = {"Cache-Control": "no-store", **PLAIN}
TITLES = {
    "invalid": "The request is not what this address takes",
    "unauthorised": "An API key is needed",
    "forbidden": "This API key may not do that",
    "unknown": "There is nothing at this address",
    "over-budget": "This person's budget over all runs is spent",
    "not-enrolled": "This person is not enrolled in the open batch",
    "another-report": "This person has sent another report already",
    "late": "The report was planned with a release that is closed",
    "another-round": "The report answers another round than the one that follows from the release",
    "finished": "The run takes no more reports",
    "paused": "The run is paused",
    "unavailable": "The service cannot write at the moment; send the same bytes again",
    "too-large": "The body is too large",
    "too-slow": "The body came too slowly",
    "too-many": "Too many requests",
    "internal": "An error that nobody foresaw; nothing is said about its cause",
}


class ProblemDocument(Struct, frozen=True, omit_defaults=True):
    """RFC 9457."""

    type: Annotated[str, Meta(extra_json_schema={"enum": [f"/problems/{kind}" for kind in TITLES]})]
    title: str
    status: int
    detail: str = ""


class HttpProblem(Exception):
    """An answer that is an error: RFC 9457."""

    def __init__(
        self, status: int, kind: str, detail: str = "", *, retry: float | None = None
    ) -> None:
        super().__init__(kind)
        self.status, self.kind, self.detail, self.retry = status, kind, detail, retry

    def response(self) -> Response:
        headers = (
            dict(PLAIN)
            if self.retry is None
            else {**PLAIN, "Retry-After": str(max(1, math.ceil(self.retry)))}
        )
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        document = ProblemDocument(
            f"/problems/{self.kind}", TITLES[self.kind], self.status, self.detail
        )
        return answer(document, self.status, headers, media="application/problem+json")


def answer(
    body: Struct,
    status: int = 200,
    headers: Mapping[str, str] = NO_STORE,
    *,
    media: str = "application/json",
) -> Response:
    return Response(msgspec.json.encode(body), status, headers, media)


class Guard:
    """An error that nobody foresaw is answered in one sentence, and logged by its type alone: its text may hold somebody's data."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        try:
            if len(scope["path"]) > _LONGEST:
                await HttpProblem(404, "unknown").response()(scope, receive, send)
                return
            await self._inner(scope, receive, send)
        except Exception as error:
            log.error("internal error: %s", type(error).__name__)
            with contextlib.suppress(Exception):  # an answer that has begun cannot be taken back
                await HttpProblem(500, "internal").response()(scope, receive, send)


async def read_body(request: Request, limit: int) -> bytes:
    """The body, if it is not larger than `limit`: no more than that is ever in memory."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 15 or int(announced) > limit:
        raise HttpProblem(413, "too-large", f"at most {limit} bytes")
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise HttpProblem(413, "too-large", f"at most {limit} bytes")
            parts.append(part)
    except ClientDisconnect:
        raise HttpProblem(400, "invalid") from None
    return b"".join(parts)


def tagged(
    request: Request,
    body: bytes,
    tag: str,
    media: str,
    cache: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A document with an ETag; 304 for who has it already."""
    full = {"ETag": f'"{tag}"', "Cache-Control": cache, **PLAIN, **(headers or {})}
    return not_modified(request, full["ETag"]) or Response(body, media_type=media, headers=full)


def not_modified(request: Request, tag: str) -> Response | None:
    sent = request.headers.get("if-none-match")
    if sent is None:
        return None
    known = [each.strip().removeprefix("W/") for each in sent.split(",")]
    return (
        Response(status_code=304, headers={"ETag": tag}) if tag in known or "*" in known else None
    )


@lru_cache(maxsize=64)
def signed(document: Signed, run: str, generation: int, cache: str) -> Response:
    """A signed JSON document. Made once: an answer can be given any number of times."""
    return _signed(document, run, generation, cache, "application/json", {})


@lru_cache(maxsize=64)
def shown_release(row: ReleaseRow, cache: str) -> Response:
    document = Signed(row.body, row.digest, row.signature, row.key)
    return _signed(
        document,
        row.run,
        row.generation,
        cache,
        "application/octet-stream",
        {"Confide-Previous": row.previous},
    )


def _signed(
    document: Signed, run: str, generation: int, cache: str, media: str, more: Mapping[str, str]
) -> Response:
    headers = {
        "ETag": f'"{document.digest}"',
        "Cache-Control": cache,
        "Confide-Run": run,
        "Confide-Generation": str(generation),
        **more,
    }
    headers |= {
        "Confide-Digest": document.digest,
        "Confide-Signature": document.signature.hex(),
        "Confide-Key": document.key,
    }
    return Response(document.body, media_type=media, headers=headers | PLAIN)
