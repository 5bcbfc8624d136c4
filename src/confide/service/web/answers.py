"""Answers of HTTP, and bodies that are read up to a limit.

An answer is a problem (RFC 9457), or a document with a tag, which may be signed. The kinds of
problems and the names of headers are a wire format: devices decide by them. Titles are free.
"""

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
# A path has at most so many characters. A matter of taste.
_MAX_PATH_CHARACTERS = 500
PLAIN = {"X-Content-Type-Options": "nosniff"}
NO_STORE = {"Cache-Control": "no-store", **PLAIN}
# The kinds of problems, with their titles.
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
    """A problem, as RFC 9457 writes it."""

    type: Annotated[str, Meta(extra_json_schema={"enum": [f"/problems/{kind}" for kind in TITLES]})]
    title: str
    status: int
    detail: str = ""


class HttpProblem(Exception):
    """An answer that is an error. `kind` is one of `TITLES`, and `retry` is in seconds."""

    def __init__(
        self, status: int, kind: str, detail: str = "", *, retry: float | None = None
    ) -> None:
        super().__init__(kind)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.retry = retry

    def response(self) -> Response:
        headers = dict(PLAIN)
        if self.retry is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry)))
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
    """Return an answer with a JSON body."""
    return Response(msgspec.json.encode(body), status, headers, media)


class Guard:
    """Answers an error that nobody foresaw in one sentence.

    Required for privacy: only its type is logged, because its text may hold somebody's data.
    """

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        try:
            if len(scope["path"]) > _MAX_PATH_CHARACTERS:
                await HttpProblem(404, "unknown").response()(scope, receive, send)
                return
            await self._inner(scope, receive, send)
        except Exception as error:
            log.error("internal error: %s", type(error).__name__)
            # An answer that has begun cannot be taken back.
            with contextlib.suppress(Exception):
                await HttpProblem(500, "internal").response()(scope, receive, send)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body, if it has at most `limit` bytes. No more than that is ever in memory."""
    too_large = HttpProblem(413, "too-large", f"at most {limit} bytes")
    announced = request.headers.get("content-length", "0")
    # A number of 15 digits is too large for any limit, and a longer one need not be converted.
    if not announced.isdecimal() or len(announced) > 15 or int(announced) > limit:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise too_large
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
    """Return a document with an ETag, or 304 if the client has it already."""
    entity_tag = f'"{tag}"'
    all_headers = {"ETag": entity_tag, "Cache-Control": cache, **PLAIN, **(headers or {})}
    return not_modified(request, entity_tag) or Response(
        body, media_type=media, headers=all_headers
    )


def not_modified(request: Request, tag: str) -> Response | None:
    """Return 304 if the client has sent this ETag, which is in quotes."""
    sent = request.headers.get("if-none-match")
    if sent is None:
        return None
    client_tags = [part.strip().removeprefix("W/") for part in sent.split(",")]
    if tag in client_tags or "*" in client_tags:
        return Response(status_code=304, headers={"ETag": tag})
    return None


@lru_cache(maxsize=64)
def signed_json(document: Signed, run: str, generation: int, cache: str) -> Response:
    """Return a signed JSON document. The same answer can be given any number of times."""
    headers = _signature_headers(document, run, generation, cache)
    return Response(document.body, media_type="application/json", headers=headers)


@lru_cache(maxsize=64)
def release_answer(row: ReleaseRow, cache: str) -> Response:
    """Return a signed release. The same answer can be given any number of times."""
    document = Signed(row.body, row.digest, row.signature, row.key)
    headers = _signature_headers(document, row.run, row.generation, cache)
    headers["Confide-Previous"] = row.previous
    return Response(row.body, media_type="application/octet-stream", headers=headers)


def _signature_headers(document: Signed, run: str, generation: int, cache: str) -> dict[str, str]:
    return {
        "ETag": f'"{document.digest}"',
        "Cache-Control": cache,
        "Confide-Run": run,
        "Confide-Generation": str(generation),
        "Confide-Digest": document.digest,
        "Confide-Signature": document.signature.hex(),
        "Confide-Key": document.key,
        **PLAIN,
    }
