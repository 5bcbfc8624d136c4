"""The API as an OpenAPI 3.1 document.

It is made from the table of operations and from the types of their bodies. It is public, and
clients are written by it, so its names and statuses are a format.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from confide.service.store.interface import AuditRow
from confide.service.web import bodies
from confide.service.web.access import MAY
from confide.service.web.answers import ProblemDocument
from confide.service.web.operations import OPERATIONS, Operation, Reply

_TEXT = {"type": "string"}
_PATH = {
    "run": _TEXT | {"pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
    "generation": {"type": "integer", "minimum": 0},
    "key": _TEXT,
}
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
_PROBLEM = "#/components/responses/problem"
_REFERENCE = "#/components/schemas/"

# The names of the schemas in the document. They are part of the API, so they do not change when a
# class is renamed.
SCHEMA_NAMES: Mapping[type, str] = {
    bodies.ActBody: "ActBody",
    bodies.Action: "Action",
    bodies.Alive: "Alive",
    bodies.AuditRows: "Audit",
    AuditRow: "AuditRow",
    bodies.ChangedRun: "ChangedRun",
    bodies.EnrolBody: "EnrolBody",
    bodies.Enrolled: "Enrolled",
    bodies.NewKey: "NewKey",
    bodies.NewKeyBody: "NewKeyBody",
    bodies.NewRun: "NewRun",
    bodies.Outcome: "Outcome",
    ProblemDocument: "ProblemDocument",
    bodies.Ready: "Ready",
    bodies.ReportBody: "ReportBody",
    bodies.RunStatus: "RunStatus",
    bodies.Runs: "Runs",
    bodies.SigningKeyFacts: "SigningKeyFacts",
    bodies.SigningKeys: "SigningKeys",
    bodies.Trajectory: "Trajectory",
}


@cache
def openapi() -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, Any] = {}
    for operation in OPERATIONS.values():
        item = paths.setdefault(operation.path, {})
        item[operation.method.lower()] = _describe(operation)
        names = re.findall(r"{(\w+)}", operation.path)
        if names:
            item["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": _PATH[name]}
                for name in names
            ]
    problem = {
        "description": "RFC 9457. Retry-After says when to try again.",
        "content": {"application/problem+json": _schema(ProblemDocument)},
    }
    key = {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key with a role. A key may be for one run, and may expire.",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "confide serve",
            "version": "1",
            "description": (
                "Private learning from live users: signed releases out, one report per person in."
            ),
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"key": key},
            "responses": {"problem": problem},
        },
    }


def _describe(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.summary,
        "responses": {
            **{str(status): _reply(reply) for status, reply in operation.replies.items()},
            **{str(status): {"$ref": _PROBLEM} for status in operation.problems},
        },
    }
    if operation.may:
        described |= {"security": [{"key": []}], "x-roles": list(MAY[operation.may])}
    if operation.body:
        described["requestBody"] = {"required": True, "content": _content(operation.body)}
    if operation.nonce:
        described["parameters"] = [_NONCE]
    return described


def _reply(reply: Reply) -> dict[str, Any]:
    described: dict[str, Any] = {"description": reply.about}
    if reply.body is not None:
        described["content"] = _content(reply.body)
    if reply.signed:
        described["headers"] = {
            name: {"description": about, "schema": _TEXT} for name, about in _HEADERS.items()
        }
    return described


def _content(body: type[Struct] | str) -> dict[str, Any]:
    if isinstance(body, str):
        return {
            body: {"schema": _TEXT if body == "application/toml" else _TEXT | {"format": "binary"}}
        }
    return {"application/json": _schema(body)}


def _schema(body: type[Struct]) -> dict[str, Any]:
    """`Struct` itself stands for a JSON document of another format, such as a manifest."""
    return {"schema": {} if body is Struct else {"$ref": _REFERENCE + SCHEMA_NAMES[body]}}


def _schemas() -> dict[str, Any]:
    """The schemas of all bodies, by their names in the document."""
    _, components = msgspec.json.schema_components(
        list(SCHEMA_NAMES), ref_template=_REFERENCE + "{name}"
    )
    # msgspec names a schema after its class. The document has names of its own.
    names = {body.__name__: name for body, name in SCHEMA_NAMES.items()}
    return {names[name]: _rename(schema, names) for name, schema in components.items()}


def _rename(schema: Any, names: Mapping[str, str]) -> Any:
    """Return a schema in which titles and references have the names of the document."""
    if isinstance(schema, list):
        return [_rename(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _rename(part, names) for key, part in schema.items()}
    title = renamed.get("title")
    if isinstance(title, str):
        renamed["title"] = names[title]
    reference = renamed.get("$ref")
    if isinstance(reference, str):
        renamed["$ref"] = _REFERENCE + names[reference.removeprefix(_REFERENCE)]
    return renamed
