"""A running service as somebody outside sees it.

This is what an attack reads, and the reports of people whom it invents. It uses the public API of
the service and the code of devices alone, so an attack can do nothing that an outsider cannot do.
"""

import json
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from confide.errors import InvalidParameter
from confide.mechanisms.exact import ExactSource
from confide.mechanisms.sources import noise_source
from confide.mechanisms.state import unpack
from confide.service.device.client import Accepts, Device
from confide.service.device.transport import (
    HttpResponse,
    Send,
    ServiceRefused,
    over_http,
    refusal,
    send_with_retries,
)
from confide.service.documents import canonical

# States, actions and rewards.
Episode = tuple[list[int], list[int], list[float]]
# The number of a release that there will never be.
_FUTURE_RELEASE = 2**52
# By this name an operator recognises the people whom an attack invents.
_AUDITOR = "confide-audit"


@dataclass(frozen=True, slots=True)
class PreparedReport:
    """A report that can be sent any number of times."""

    subject: str
    body: bytes
    nonce: str


@dataclass(frozen=True, slots=True)
class Now:
    """Where the run is.

    `counted` is how many people were counted so far, or None if the API key may not ask.
    """

    generation: int
    counted: int | None


class AttackTarget:
    """A run of a service that is attacked.

    `api_key` is of a device, or of an admin, who may also ask how many people were counted.
    """

    def __init__(
        self,
        url: str,
        run: str,
        api_key: str,
        *,
        signing_key: str | None = None,
        send: Send | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self.run = run
        self.send = send or over_http()
        self._api_key = api_key
        self._signing_key = signing_key
        self._sleep = sleep
        self.manifest: dict[str, Any] = json.loads(self.read("manifest").body)

    @property
    def deadline(self) -> bool:
        """Whether batches close at public times."""
        return bool(self.manifest["batch"]["rule"] == "deadline")

    @property
    def authorization(self) -> dict[str, str]:
        """The header with the API key."""
        return {"Authorization": f"Bearer {self._api_key}"}

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HttpResponse:
        """Send a request, and return the answer whatever its status is.

        `path` is below the address of the run in the API, or a whole one that begins with a slash.
        """
        if path.startswith("/"):
            address = f"{self.url}{path}"
        else:
            address = f"{self.url}/v1/runs/{self.run}/{path}"
        return send_with_retries(
            self._send_once, (method, address, headers or {}, body), self._sleep
        )

    def _send_once(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        answer = self.send(method, url, headers, body)
        if answer.status == 503 and refusal(answer) == "paused":
            # An operator must act before a retry can succeed, so there is none.
            raise ServiceRefused(503, "paused")
        return answer

    def read(self, path: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """Return a document."""
        answer = self.ask("GET", path, headers)
        if answer.status != 200:
            raise ServiceRefused(answer.status, f"{path} ({refusal(answer)})")
        return answer

    def now(self) -> Now:
        """Return where the run is after everything that was sent.

        The answer to a report of the future comes when the service has done all before it.
        """
        report = {
            "subject": _AUDITOR,
            "generation": _FUTURE_RELEASE,
            "trajectory": {},
            "message": "",
        }
        self.post(PreparedReport(_AUDITOR, canonical(report), "0" * 16))
        return Now(int(self.read("release").headers["confide-generation"]), self._counted())

    def _counted(self) -> int | None:
        answer = self.ask("GET", "status", self.authorization)
        if answer.status in (401, 403):
            return None
        if answer.status != 200:
            raise ServiceRefused(answer.status, "status")
        status = json.loads(answer.body)
        released_users = 0 if self.deadline else self.users(status["generation"])
        return released_users + int(status["users"])

    def users(self, generation: int) -> int:
        """Return how many users a release and all before it have."""
        body = self.read(f"release/{generation}").body
        return int(unpack(body, "release", released=0).facts["users"])

    # people

    def person(
        self, subject: str = "", *, behind: int = 0, episode: Episode = ([], [], [])
    ) -> PreparedReport:
        """Return a report of somebody new, or of `subject`.

        It was planned with the newest release, or with the one so many before it (`behind`). An
        empty episode adds zero.
        """
        subject = subject or f"{_AUDITOR}-{secrets.token_hex(8)}"
        # Whatever the run promises is accepted, because nobody's data are sent.
        trust = self.manifest["promise"]["trust"]
        accepts = Accepts(math.inf, 1.0, trust, simulation=True, relation="null")
        source = noise_source("fast") if self.manifest["noise"] == "fast" else ExactSource()
        device = Device(
            self.url,
            self.run,
            subject=subject,
            api_key=self._api_key,
            accepts=accepts,
            key=self._signing_key,
            send=self._send_once,
            source=source,
            sleep=self._sleep,
        )
        joined = device.join()
        if self.deadline:
            self._enrol(subject, joined.generation)
        device.round = replace(joined, generation=joined.generation - behind)
        return PreparedReport(subject, device.body(*episode), secrets.token_urlsafe(24))

    def _enrol(self, subject: str, generation: int) -> None:
        body = json.dumps({"subjects": [subject], "generation": generation}).encode()
        answer = self.ask("POST", "enrolments", self.authorization, body)
        if answer.status in (401, 403):
            raise InvalidParameter(
                "in a run with deadlines people are enrolled: that needs the API key of an admin"
            )
        if answer.status != 201:
            raise ServiceRefused(answer.status, f"enrolments ({refusal(answer)})")

    def post(self, report: PreparedReport) -> HttpResponse:
        """Send a report."""
        headers = {
            **self.authorization,
            "Idempotency-Key": report.nonce,
            "Content-Type": "application/json",
        }
        return self.ask("POST", "reports", headers, report.body)
