"""The API as an OpenAPI 3.1 document. tests/service/web/test_openapi.py compares it with the routes."""

from functools import cache
from typing import Any

from confide.service.web.access import MAY
from confide.service.web.answers import TITLES

_TEXT, _WHOLE = {"type": "string"}, {"type": "integer", "minimum": 0}
_RUN = {
    "name": "run",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
}
_GENERATION = {"name": "generation", "in": "path", "required": True, "schema": _WHOLE}
_KEY = {"name": "key", "in": "path", "required": True, "schema": _TEXT}
_NONCE = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "Random; a retry sends the same one.",
    "schema": {"type": "string", "minLength": 16, "maxLength": 128},
}
_HEADERS = {
    "Confide-Generation": "The number of the release.",
    "Confide-Digest": "SHA-256 of the signed statement.",
    "Confide-Previous": "The digest of the statement before.",
    "Confide-Signature": "Ed25519, in hexadecimal digits.",
    "Confide-Key": "The id of the signing key.",
}


def _object(required: str = "", **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "properties": properties}


_REPORT = _object(
    "subject generation",
    subject={
        "type": "string",
        "minLength": 1,
        "maxLength": 256,
        "description": "A stable name of the person. Not stored.",
    },
    generation=_WHOLE | {"description": "Of the release that the episode was planned with."},
    round={
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
        "description": "Joint runs. The digest that the round names.",
    },
    trajectory=_object(
        states={"type": "array"}, actions={"type": "array"}, rewards={"type": "array"}
    )
    | {"description": "Joint runs. What makes no sense is counted and adds zero."},
    message={
        "type": "string",
        "contentEncoding": "base64",
        "description": "Local runs: the noisy message.",
    },
)
_ACT = _object("subject step state", subject=_TEXT, step=_WHOLE, state={})
_ENROL = _object(
    "subjects generation", subjects={"type": "array", "items": _TEXT}, generation=_WHOLE
)
_NEW_KEY = _object(
    "role",
    role={"enum": ["device", "operator", "admin", "auditor"]},
    label=_TEXT,
    run=_TEXT | {"description": "The only run that the key may be used for. Without it, all runs."},
    expires=_TEXT
    | {
        "description": "A number of days such as 90d, or a date such as 2027-01-31. Without it, never."
    },
)
_JSON, _BYTES, _TOML = "application/json", "application/octet-stream", "application/toml"


def _answer(said: str, media: str | None = _JSON, *, signed: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"description": said}
    if media is not None:
        made["content"] = {
            media: {"schema": {} if media == _JSON else {"type": "string", "format": "binary"}}
        }
    if signed:
        made["headers"] = {
            name: {"description": text, "schema": _TEXT} for name, text in _HEADERS.items()
        }
    return made


def _does(
    summary: str,
    *,
    may: str | None = None,
    body: tuple[str, dict[str, Any]] | None = None,
    ok: dict[int, dict[str, Any]],
    refuses: tuple[int, ...] = (),
    more: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """One operation. What everybody with a role may be refused for is added."""
    errors = {*refuses, *((401, 403) if may else ())}
    made: dict[str, Any] = {
        "summary": summary,
        "responses": {str(code): answer for code, answer in ok.items()}
        | {str(code): {"$ref": "#/components/responses/problem"} for code in sorted(errors)},
    }
    if may:
        made |= {"security": [{"key": []}], "x-roles": list(MAY[may])}
    if body:
        made["requestBody"] = {"required": True, "content": {body[0]: {"schema": body[1]}}}
    if more:
        made["parameters"] = list(more)
    return made


def _read(
    summary: str,
    *,
    media: str = _JSON,
    signed: bool = False,
    refuses: tuple[int, ...] = (404, 429, 503),
) -> dict[str, Any]:
    ok = {
        200: _answer(summary, media, signed=signed),
        304: _answer("Not changed: the ETag is the one that was sent.", None),
    }
    return _does(summary, ok=ok, refuses=refuses)


def _sent(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return _JSON, body


def _operations() -> dict[tuple[str, str], dict[str, Any]]:
    run = "/v1/runs/{run}"
    done = _answer("Done.")
    changed: dict[str, Any] = {"may": "administer", "ok": {200: done}, "refuses": (400, 404, 503)}
    report_ok = {
        201: _answer("Counted."),
        200: _answer("The same report again: it was counted before."),
    }
    refused = (400, 404, 408, 409, 410, 413, 429, 503)
    return {
        (f"{run}/manifest", "get"): _read(
            "Everything that is promised, decided before the first user.", signed=True
        ),
        (f"{run}/certificate", "get"): _read("The numbers from which the promise follows."),
        (f"{run}/keys", "get"): _does(
            "Signing keys.",
            ok={200: _answer("Each is endorsed by one before it.")},
            refuses=(404, 429, 503),
        ),
        (f"{run}/release", "get"): _read("The newest release.", media=_BYTES, signed=True),
        (f"{run}/release/{{generation}}", "get"): _read("A release.", media=_BYTES, signed=True),
        (f"{run}/round/{{generation}}", "get"): _read(
            "Policies and statistic as plain tables.", signed=True, refuses=(404, 410, 429, 503)
        ),
        (f"{run}/reports", "post"): _does(
            "One person's report.",
            may="report",
            body=_sent(_REPORT),
            ok=report_ok,
            refuses=refused,
            more=(_NONCE,),
        ),
        (f"{run}/act", "post"): _does(
            "An action, in joint runs. Nothing is stored.",
            may="report",
            body=_sent(_ACT),
            ok={200: _answer("The action.")},
            refuses=(400, 404, 408, 413, 429, 503),
        ),
        (f"{run}/status", "get"): _does(
            "Numbers for operators; PRIVATE under the rule deadline.",
            may="operate",
            ok={200: done},
            refuses=(404, 503),
        ),
        (f"{run}/pause", "post"): _does("Take no reports for now.", **changed),
        (f"{run}/resume", "post"): _does("Take reports again.", **changed),
        (f"{run}/finish", "post"): _does("Take no more reports, ever.", **changed),
        (f"{run}/enrolments", "post"): _does(
            "People into a batch of a run with deadlines.",
            may="administer",
            body=_sent(_ENROL),
            ok={201: _answer("How many are new.")},
            refuses=(400, 404, 413, 503),
        ),
        ("/v1/runs", "get"): _does("The runs.", ok={200: _answer("Their names.")}, refuses=(429,)),
        ("/v1/runs", "post"): _does(
            "A new run.",
            may="administer",
            body=(_TOML, _TEXT | {"description": "As the file of confide serve."}),
            ok={
                201: _answer(
                    "Its name. A run that needs too much memory is refused with 400, before it is made."
                )
            },
            refuses=(400, 413, 503),
        ),
        ("/v1/keys", "post"): _does(
            "A new API key.",
            may="administer",
            body=_sent(_NEW_KEY),
            ok={201: _answer("The key, shown once.")},
            refuses=(400, 413, 503),
        ),
        ("/v1/keys/{key}", "delete"): _does(
            "Revoke an API key.",
            may="administer",
            ok={204: _answer("Revoked.", None)},
            refuses=(400, 503),
        ),
        ("/v1/signing-keys", "post"): _does(
            "A new signing key, endorsed by the one before it.",
            may="administer",
            ok={201: _answer("Its id.")},
            refuses=(503,),
        ),
        ("/v1/audit", "get"): _does(
            "What people with roles did.",
            may="audit",
            ok={200: _answer("All rows.")},
            refuses=(503,),
        ),
        ("/v1/openapi.json", "get"): _read("This document.", refuses=(429,)),
        ("/health", "get"): _does("Alive.", ok={200: done}),
        ("/ready", "get"): _does(
            "Whether reports are taken.",
            ok={200: _answer("Yes, but for the runs in not_ready."), 503: _answer("Not now.")},
        ),
    }


@cache
def openapi() -> dict[str, Any]:
    parameters = {"{run}": _RUN, "{generation}": _GENERATION, "{key}": _KEY}
    paths: dict[str, Any] = {}
    for (path, method), operation in _operations().items():
        paths.setdefault(path, {})[method] = operation
    for path, item in paths.items():
        found = [each for name, each in parameters.items() if name in path]
        if found:
            item["parameters"] = found
    problem = _object(
        "type title status",
        type={"enum": [f"/problems/{kind}" for kind in TITLES]},
        title=_TEXT,
        status={"type": "integer"},
        detail=_TEXT,
    )
    answer = {
        "description": "RFC 9457. Retry-After says when to try again.",
        "content": {"application/problem+json": {"schema": problem}},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "confide serve",
            "version": "1",
            "description": "Private learning from live users: signed releases out, one report per person in.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key with a role. A key may be for one run, and may expire.",
                }
            },
            "responses": {"problem": answer},
        },
    }
