"""The API as an OpenAPI 3.1 document, made from the table of operations and the types of their bodies."""

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

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


@cache
def openapi() -> dict[str, Any]:
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
            "description": "Private learning from live users: signed releases out, one report per person in.",
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
    return {"schema": {} if body is Struct else {"$ref": f"#/components/schemas/{body.__name__}"}}


def _schemas() -> dict[str, Any]:
    found: set[type[Struct]] = {ProblemDocument}
    for operation in OPERATIONS.values():
        for body in (operation.body, *(reply.body for reply in operation.replies.values())):
            if isinstance(body, type) and body is not Struct:
                found.add(body)
    ordered = sorted(found, key=lambda body: body.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    return schemas
