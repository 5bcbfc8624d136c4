"""How a client sends a request to a service: over HTTP, again while the service or the network is away, and never to another address.

The server is hostile: the size of an answer, the time that it takes and the seconds to wait are bounded here. What an answer contains is
checked by `checks`.
"""

import http.client
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confide.errors import ConfideError, InvalidDocument
from confide.service.device.checks import fields, parse_json

# How often one request is sent before the client gives up.
_TRIES = 8
# The client waits at most so many seconds before it sends a request again, whatever the service asks for.
_LONGEST_WAIT = 300.0
# After these answers the same request may succeed later.
_RETRY = (408, 429, 500, 502, 503, 504)
# A report that is refused in one of these ways is refused again whenever the same bytes are sent. Other refusals depend on
# things that may change, such as the API key, the people who are enrolled, and proxies on the way.
FINAL_REFUSALS = (
    (400, "invalid"),
    (403, "over-budget"),
    (409, "another-report"),
    (413, "too-large"),
)
# Bytes of one answer.
_MOST_BYTES = 2**26
_KIND = re.compile("[a-z-]{1,40}")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]  # by names in lower case
    body: bytes


Send = Callable[[str, str, Mapping[str, str], bytes | None], HttpResponse]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the API key to an address that nobody chose."""

    def redirect_request(self, *_: Any) -> None:
        return None


def over_http(timeout: float = 30.0) -> Send:
    """By the standard library. No redirect is followed, and no more than one byte too many of an answer is read.

    `timeout` bounds each wait for the server, and the time of a whole body, because a server may send one byte
    after the other.
    """
    opener = urllib.request.build_opener(_NoRedirect)

    def send(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> HttpResponse:
        request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
        deadline = time.monotonic() + timeout
        try:
            with opener.open(request, timeout=timeout) as answer:
                return HttpResponse(
                    answer.status, _lower(answer.headers), _read_body(answer, deadline)
                )
        except urllib.error.HTTPError as error:
            with error:
                return HttpResponse(error.code, _lower(error.headers), _read_body(error, deadline))

    return send


def _read_body(answer: Any, deadline: float) -> bytes:
    """The body of an answer, of which at most one byte too many is read. It must be complete before the deadline."""
    chunks: list[bytes] = []
    size = 0
    while size <= _MOST_BYTES and (chunk := answer.read1(min(2**16, _MOST_BYTES + 1 - size))):
        chunks.append(chunk)
        size += len(chunk)
        if time.monotonic() > deadline:
            raise TimeoutError("the answer took too long")
    return b"".join(chunks)


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def retried(
    send: Send,
    request: tuple[str, str, Mapping[str, str], bytes | None],
    sleep: Callable[[float], None],
) -> HttpResponse:
    """The same bytes again while the service or the network is away."""
    for tried in range(_TRIES):
        try:
            answer = send(*request)
            if len(answer.body) > _MOST_BYTES:
                raise InvalidDocument(f"an answer must have at most {_MOST_BYTES} bytes")
            if answer.status not in _RETRY or tried == _TRIES - 1:
                return answer
            said = answer.headers.get("retry-after", "")
            asked = min(float(said), _LONGEST_WAIT) if re.fullmatch("[0-9]{1,300}", said) else 0.0
        except (OSError, http.client.HTTPException) as error:
            if tried == _TRIES - 1:
                raise ServiceRefused(
                    503, type(error).__name__, f"cannot be reached: {type(error).__name__}"
                ) from None
            asked = 0.0
        sleep(max(asked, random.uniform(0.5, 1.0) * 0.1 * 2**tried))
    raise ServiceRefused(503, "unavailable")


class ServiceRefused(ConfideError):
    """The service answered with an error that a retry does not mend."""

    def __init__(self, status: int, kind: str, said: str | None = None) -> None:
        super().__init__(f"the service {said or f'answered {status}: {kind}'}")
        self.status, self.kind = status, kind


def refusal(answer: HttpResponse) -> str:
    """The kind of a problem (RFC 9457)."""
    try:
        kind = str(fields("a problem", parse_json("a problem", answer.body)).get("type")).rsplit(
            "/", 1
        )[-1]
    except InvalidDocument:
        return "no reason given"
    return kind if _KIND.fullmatch(kind) else "no reason given"
