"""How a client sends a request to a service: over HTTP.

It sends the same bytes again while the service or the network is away, and never to another
address. The server may be hostile: the size of an answer, the time that it takes and the seconds to
wait are bounded here. What an answer contains is checked by `checks.py`.

All numbers are a matter of taste. `FINAL_REFUSALS` is not: a device never sends another report
after one of them, and clients/typescript has the same list.
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
_MAX_ATTEMPTS = 8
# The client waits at most so many seconds before it sends a request again, whatever the service
# asks for.
_MAX_WAIT_SECONDS = 300.0
# The first wait, in seconds. Each wait doubles it, and is shortened at random by up to half, so
# that many devices do not come at the same moment.
_FIRST_WAIT_SECONDS = 0.1
# After these answers the same request may succeed later.
_RETRIED_STATUSES = (408, 429, 500, 502, 503, 504)
# A report that is refused in one of these ways is refused again whenever the same bytes are sent.
# Other refusals depend on things that may change, such as the API key, the people who are enrolled,
# and proxies on the way.
FINAL_REFUSALS = (
    (400, "invalid"),
    (403, "over-budget"),
    (409, "another-report"),
    (413, "too-large"),
)
# One answer has at most so many bytes, and is read in parts of so many.
_MAX_ANSWER_BYTES = 2**26
_PART_BYTES = 2**16
_KIND = re.compile("[a-z-]{1,40}")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a server answers. The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


# Sends a request: method, address, headers and body.
Send = Callable[[str, str, Mapping[str, str], bytes | None], HttpResponse]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the API key to an address that nobody chose."""

    def redirect_request(self, *_: Any) -> None:
        return None


def over_http(timeout: float = 30.0) -> Send:
    """Return what sends requests with the standard library.

    No redirect is followed, and no more than one byte too many of an answer is read. `timeout` is
    in seconds. It bounds each wait for the server, and the time of a whole body, because a server
    may send one byte after the other.
    """
    opener = urllib.request.build_opener(_NoRedirect)

    def send(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> HttpResponse:
        request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
        deadline = time.monotonic() + timeout
        try:
            with opener.open(request, timeout=timeout) as answer:
                return _read_answer(answer.status, answer, deadline)
        except urllib.error.HTTPError as error:
            with error:
                return _read_answer(error.code, error, deadline)

    return send


def _read_answer(status: int, answer: Any, deadline: float) -> HttpResponse:
    """Read an answer. Its body must be complete before the deadline."""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    parts: list[bytes] = []
    size = 0
    while size <= _MAX_ANSWER_BYTES:
        # At most one byte too many is read, by which the caller sees that the body is too long.
        part = answer.read1(min(_PART_BYTES, _MAX_ANSWER_BYTES + 1 - size))
        if not part:
            break
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError("the answer took too long")
    return HttpResponse(status, headers, b"".join(parts))


def send_with_retries(
    send: Send,
    request: tuple[str, str, Mapping[str, str], bytes | None],
    sleep: Callable[[float], None],
) -> HttpResponse:
    """Send a request, and the same bytes again while the service or the network is away."""
    for attempt in range(_MAX_ATTEMPTS):
        is_last = attempt == _MAX_ATTEMPTS - 1
        asked_seconds = 0.0
        try:
            answer = send(*request)
            if len(answer.body) > _MAX_ANSWER_BYTES:
                raise InvalidDocument(f"an answer must have at most {_MAX_ANSWER_BYTES} bytes")
            if answer.status not in _RETRIED_STATUSES or is_last:
                return answer
            asked_seconds = _retry_after(answer)
        except (OSError, http.client.HTTPException) as error:
            if is_last:
                name = type(error).__name__
                raise ServiceRefused(503, name, f"cannot be reached: {name}") from None
        own_seconds = random.uniform(0.5, 1.0) * _FIRST_WAIT_SECONDS * 2**attempt
        sleep(max(asked_seconds, own_seconds))
    raise ServiceRefused(503, "unavailable")


def _retry_after(answer: HttpResponse) -> float:
    """Return how many seconds the service asks to wait, within limits."""
    header = answer.headers.get("retry-after", "")
    if not re.fullmatch("[0-9]{1,300}", header):
        return 0.0
    return min(float(header), _MAX_WAIT_SECONDS)


class ServiceRefused(ConfideError):
    """The service answered with an error that a retry does not mend."""

    def __init__(self, status: int, kind: str, what: str | None = None) -> None:
        """`what` says what the service did, if it is not the answer `status` and `kind`."""
        super().__init__(f"the service {what or f'answered {status}: {kind}'}")
        self.status = status
        self.kind = kind


def refusal(answer: HttpResponse) -> str:
    """Return the kind of a problem (RFC 9457)."""
    try:
        problem = fields("a problem", parse_json("a problem", answer.body))
    except InvalidDocument:
        return "no reason given"
    kind = str(problem.get("type")).rsplit("/", 1)[-1]
    return kind if _KIND.fullmatch(kind) else "no reason given"
