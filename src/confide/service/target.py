"""A running service as somebody outside sees it: what an attack reads, and the reports of people whom it invents."""

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

Episode = tuple[list[int], list[int], list[float]]
_FUTURE = 2**52  # the number of a release that there will never be


@dataclass(frozen=True, slots=True)
class PreparedReport:
    """A report that can be sent any number of times."""

    subject: str
    body: bytes
    nonce: str


@dataclass(frozen=True, slots=True)
class Now:
    """Where the run is. `counted`: how many people were counted so far, if the key may ask (None: it may not)."""

    generation: int
    counted: int | None


class AttackTarget:
    """`api_key` is of a device or of an admin, who may also ask how many people were counted."""

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
        self.url, self.run, self._key, self._pinned = url.rstrip("/"), run, api_key, signing_key
        self.send, self._sleep = send or over_http(), sleep
        self.manifest: dict[str, Any] = json.loads(self.read("manifest").body)

    @property
    def deadline(self) -> bool:
        return bool(self.manifest["batch"]["rule"] == "deadline")

    @property
    def authorised(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"}

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HttpResponse:
        """`path` is below the address of the run in the API, or a whole one that begins with a slash."""
        address = (
            f"{self.url}{path}" if path.startswith("/") else f"{self.url}/v1/runs/{self.run}/{path}"
        )
        return send_with_retries(
            self._send_once, (method, address, headers or {}, body), self._sleep
        )

    def _send_once(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        answer = self.send(method, url, headers, body)
        if answer.status == 503 and refusal(answer) == "paused":  # nobody waits for that
            raise ServiceRefused(503, "paused")
        return answer

    def read(self, path: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
        answer = self.ask("GET", path, headers)
        if answer.status != 200:
            raise ServiceRefused(answer.status, f"{path} ({refusal(answer)})")
        return answer

    def now(self) -> Now:
        """After everything that was sent: the answer to a report of the future comes when the service has done all before it."""
        report = {
            "subject": "confide-audit",
            "generation": _FUTURE,
            "trajectory": {},
            "message": "",
        }
        self.post(PreparedReport("confide-audit", canonical(report), "0" * 16))
        return Now(int(self.read("release").headers["confide-generation"]), self._counted())

    def _counted(self) -> int | None:
        answer = self.ask("GET", "status", self.authorised)
        if answer.status in (401, 403):
            return None
        if answer.status != 200:
            raise ServiceRefused(answer.status, "status")
        told = json.loads(answer.body)
        before = 0 if self.deadline else self.users(told["generation"])
        return before + int(told["users"])

    def users(self, generation: int) -> int:
        """How many users a release says that there were."""
        return int(
            unpack(self.read(f"release/{generation}").body, "release", released=0).facts["users"]
        )

    # people

    def person(
        self, subject: str = "", *, behind: int = 0, episode: Episode = ([], [], [])
    ) -> PreparedReport:
        """A report of somebody new, or of `subject`, planned with the newest release or so many before it. An empty episode adds zero."""
        subject = subject or f"confide-audit-{secrets.token_hex(8)}"
        trust, noise = self.manifest["promise"]["trust"], self.manifest["noise"]
        source = noise_source("fast") if noise == "fast" else ExactSource()
        device = Device(
            self.url,
            self.run,
            subject=subject,
            api_key=self._key,
            accepts=Accepts(math.inf, 1.0, trust, simulation=True, relation="null"),
            key=self._pinned,
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
        answer = self.ask("POST", "enrolments", self.authorised, body)
        if answer.status in (401, 403):
            raise InvalidParameter(
                "in a run with deadlines people are enrolled: that needs the API key of an admin"
            )
        if answer.status != 201:
            raise ServiceRefused(answer.status, f"enrolments ({refusal(answer)})")

    def post(self, report: PreparedReport) -> HttpResponse:
        headers = {
            **self.authorised,
            "Idempotency-Key": report.nonce,
            "Content-Type": "application/json",
        }
        return self.ask("POST", "reports", headers, report.body)
