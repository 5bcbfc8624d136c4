"""The operations of the API, each declared once.

Routes, roles, limits and the OpenAPI document follow from this table. What an API key may do is
decided here alone: an operation without `may` is for everybody, so it must show nothing but
functions of manifests and releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from confide.service.web import bodies

_BYTES = "application/octet-stream"
_TOML = "application/toml"
_RUN = "/v1/runs/{run}"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of an operation.

    `body` is the type of a JSON document, `Struct` for a document of another format, a media type,
    or None if there is no body.
    """

    about: str
    body: type[Struct] | str | None = None
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An address and a method, and who may use them.

    `may` is what the role of an API key must allow. Everybody may use an operation without it.
    `limit` is the rate limit that counts a request. `nonce` says that a request needs an
    Idempotency-Key.
    """

    method: str
    path: str
    summary: str
    replies: Mapping[int, Reply]
    refuses: tuple[int, ...] = ()
    may: str | None = None
    limit: Literal["reads", "reports"] | None = None
    body: type[Struct] | str | None = None
    nonce: bool = False

    @property
    def problems(self) -> list[int]:
        """The statuses of its problems."""
        statuses = set(self.refuses)
        if self.may:
            statuses |= {401, 403}
        if self.limit:
            statuses |= {429}
        if self.body:
            statuses |= {400, 408, 413}
        return sorted(statuses)


def _read(
    path: str,
    about: str,
    body: type[Struct] | str,
    *,
    signed: bool = False,
    refuses: tuple[int, ...] = (404, 503),
) -> Operation:
    """Return the operation of a document that everybody may read, with a tag."""
    replies = {
        200: Reply(about, body, signed),
        304: Reply("Not changed: the ETag is the one that was sent."),
    }
    return Operation("GET", path, about, replies, refuses, limit="reads")


def _change(path: str, about: str) -> Operation:
    """Return the operation that changes the status of a run."""
    replies = {200: Reply("Done.", bodies.ChangedRun)}
    return Operation("POST", path, about, replies, (400, 404, 503), may="administer")


OPERATIONS = {
    # A request is compared with these addresses in this order. What is asked for most stands first.
    "report": Operation(
        "POST",
        f"{_RUN}/reports",
        "One person's report.",
        {
            201: Reply("Counted.", bodies.Outcome),
            200: Reply("The same report again: it was counted before.", bodies.Outcome),
        },
        (404, 409, 410, 503),
        may="report",
        limit="reports",
        body=bodies.ReportBody,
        nonce=True,
    ),
    "release": _read(f"{_RUN}/release", "The newest release.", _BYTES, signed=True),
    "act": Operation(
        "POST",
        f"{_RUN}/act",
        "An action, in joint runs. Nothing is stored.",
        {200: Reply("The action.", bodies.Action)},
        (404, 503),
        may="report",
        limit="reports",
        body=bodies.ActBody,
    ),
    "pause": _change(f"{_RUN}/pause", "Take no reports for now."),
    "resume": _change(f"{_RUN}/resume", "Take reports again."),
    "finish": _change(f"{_RUN}/finish", "Take no more reports, ever."),
    "enrol": Operation(
        "POST",
        f"{_RUN}/enrolments",
        "People into a batch of a run with deadlines.",
        {201: Reply("How many are new.", bodies.Enrolled)},
        (404, 503),
        may="administer",
        body=bodies.EnrolBody,
    ),
    "create": Operation(
        "POST",
        "/v1/runs",
        "A new run, as the file of confide serve. "
        "A run that needs too much memory is refused before it is made.",
        {201: Reply("Its name.", bodies.NewRun)},
        (503,),
        may="administer",
        body=_TOML,
    ),
    "new_key": Operation(
        "POST",
        "/v1/keys",
        "A new API key.",
        {201: Reply("The key, shown once.", bodies.NewKey)},
        (503,),
        may="administer",
        body=bodies.NewKeyBody,
    ),
    "rotate": Operation(
        "POST",
        "/v1/signing-keys",
        "A new signing key, endorsed by the one before it.",
        {201: Reply("Its id.", bodies.NewKey)},
        (503,),
        may="administer",
    ),
    "manifest": _read(
        f"{_RUN}/manifest",
        "Everything that is promised, decided before the first user.",
        Struct,
        signed=True,
    ),
    "certificate": _read(
        f"{_RUN}/certificate", "The numbers from which the promise follows.", Struct
    ),
    "keys": Operation(
        "GET",
        f"{_RUN}/keys",
        "Signing keys.",
        {200: Reply("Each is endorsed by one before it.", bodies.SigningKeys)},
        (404, 503),
        limit="reads",
    ),
    "old_release": _read(f"{_RUN}/release/{{generation}}", "A release.", _BYTES, signed=True),
    "round": _read(
        f"{_RUN}/round/{{generation}}",
        "Policies and statistic as plain tables.",
        Struct,
        signed=True,
        refuses=(404, 410, 503),
    ),
    "index": Operation(
        "GET", "/v1/runs", "The runs.", {200: Reply("Their names.", bodies.Runs)}, limit="reads"
    ),
    "health": Operation("GET", "/health", "Alive.", {200: Reply("Done.", bodies.Alive)}),
    "ready": Operation(
        "GET",
        "/ready",
        "Whether reports are taken.",
        {
            200: Reply("Yes, but for the runs in not_ready.", bodies.Ready),
            503: Reply("Not now.", bodies.Ready),
        },
    ),
    "status": Operation(
        "GET",
        f"{_RUN}/status",
        "Numbers for operators; PRIVATE under the rule deadline.",
        {200: Reply("Done.", bodies.RunStatus)},
        (404, 503),
        may="operate",
    ),
    "audit": Operation(
        "GET",
        "/v1/audit",
        "What people with roles did.",
        {200: Reply("All rows.", bodies.AuditRows)},
        (503,),
        may="audit",
    ),
    "api": _read("/v1/openapi.json", "This document.", Struct, refuses=()),
    "revoke": Operation(
        "DELETE",
        "/v1/keys/{key}",
        "Revoke an API key.",
        {204: Reply("Revoked.")},
        (400, 503),
        may="administer",
    ),
}
