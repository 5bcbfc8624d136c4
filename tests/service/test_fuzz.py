"""Requests drawn from the OpenAPI document, and spoiled: the answer is one that it names, and never
an error of the server.
"""

import json
import logging

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_bench import serving, spec

from confide.service.core.folder import ServiceFolder
from confide.service.core.spec import Batching
from confide.service.web.openapi import openapi

DOCUMENT = openapi()
SCHEMAS = DOCUMENT["components"]["schemas"]
PROBLEM = SCHEMAS["ProblemDocument"]
OPERATIONS = [
    (path, method)
    for path, item in DOCUMENT["paths"].items()
    for method in item
    if method != "parameters"
]
METHODS = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PLANTED",
)
ROLES = (None, "device", "operator", "admin", "auditor")
TEXT = st.sampled_from(
    ["planted", "", "planted" * 60, "\x00", "\ud800", "../planted", "ü", "0"]
) | st.text(max_size=20)
NUMBER = (
    st.sampled_from([0, -1, 2**53, 2**64, 10**400, 1.5, 1e308, float("nan"), float("inf"), True])
    | st.integers()
    | st.floats()
)
NAMES = st.sampled_from(
    ["subject", "generation", "trajectory", "states", "role", "step", "planted"]
)
ANY = st.recursive(
    st.none() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    """`other` is paused and finished; reports go to the first three."""
    every = {"users": 60_000, "every": 20_000}
    timed = Batching(rule="deadline", schedule=20_000, every=1e9)
    runs = [
        spec(**every),
        spec("local", trust="local", **every),
        spec("timed", users=60_000, batch=timed),
        spec("other"),
    ]
    with serving(ServiceFolder(tmp_path_factory.mktemp("fuzz") / "service"), *runs) as made:
        yield made


def fitting(schema):
    """What a schema allows, or nearly."""
    if "$ref" in schema:
        return fitting(SCHEMAS[schema["$ref"].rsplit("/", 1)[-1]])
    if "anyOf" in schema:
        return st.one_of(*(fitting(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | ANY
    match schema.get("type"):
        case "string":
            least = schema.get("minLength", 0)
            return st.text(min_size=least, max_size=least + 20) | TEXT
        case "integer":
            return st.integers(0, 2) | NUMBER
        case "array":
            return st.lists(fitting(schema.get("items", {"type": "integer"})), max_size=6) | ANY
        case "object":
            parts = {name: fitting(inner) for name, inner in schema["properties"].items()}
            return st.fixed_dictionaries({}, optional=parts) | st.fixed_dictionaries(parts) | ANY
    return ANY


def spoiled(data):
    """JSON that some parsers read, and bytes that none does."""
    return st.sampled_from(
        [
            data,
            data[: len(data) // 2],
            b"\xff\xfe" + data,
            data.decode("latin-1").encode("utf-16"),
            b'{"subject": "planted", "subject": "planted", ' + data[1:],
            b"[" * 10_000,
            b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
            data + b" " * 20_000,
            b"9" * 9_000,
        ]
    )


def bodies(told):
    if "requestBody" not in told:
        return st.sampled_from([b"", b"planted", b"{}"])
    (schema,) = (content["schema"] for content in told["requestBody"]["content"].values())
    written = fitting(schema).map(
        lambda made: (made if isinstance(made, str) else json.dumps(made)).encode(
            "utf-8", "surrogatepass"
        )
    )
    return written | written.flatmap(spoiled)


def addresses(path):
    names = (
        ["other"]
        if path.endswith(("pause", "resume", "finish"))
        else ["demo", "local", "timed", "planted", "%00", "%ff", "a" * 600]
    )
    runs, numbers = (
        st.sampled_from(names),
        st.sampled_from(["0", "1", "-1", "9" * 400, "0x1", "%20", "planted"]),
    )
    return st.builds(
        lambda run, number: (
            path.replace("{run}", run).replace("{generation}", number).replace("{key}", number)
        ),
        runs,
        numbers,
    )


USUAL = {"Content-Type": "application/json", "Idempotency-Key": "n" * 16}


def _usual(path):
    run = "other" if path.endswith(("pause", "resume", "finish")) else "demo"
    return path.replace("{run}", run).replace("{generation}", "0").replace("{key}", "none")


HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "Content-Type": st.sampled_from(
            ["application/json", "text/planted", "", "multipart/form-data; boundary=planted"]
        ),
        "Idempotency-Key": st.sampled_from(["n" * 16, "m" * 128, "planted", "", "x" * 5000]),
        "If-None-Match": st.sampled_from(["*", '"planted"', ", ,", 'W/"' + "x" * 5000 + '"']),
        "Accept-Encoding": st.just("planted"),
        "Range": st.just("bytes=0-0"),
        "Cookie": st.sampled_from(["confide_session=planted", "=;=;planted"]),
        "Content-Encoding": st.just("gzip"),
        "Origin": st.just("https://planted"),
        "X-Forwarded-For": st.just("planted"),
    },
)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_one_that_the_document_names(http, caplog, path, method):
    caplog.set_level(logging.DEBUG)
    told = DOCUMENT["paths"][path][method]

    usual = {
        "address": _usual(path),
        "used": method.upper(),
        "role": told.get("x-roles", [None])[0],
        "headers": USUAL,
    }
    spoilt = {
        "address": addresses(path),
        "used": st.sampled_from(METHODS),
        "role": st.sampled_from(ROLES),
        "headers": HEADERS,
    }
    one = [
        st.fixed_dictionaries(
            {**{name: st.just(value) for name, value in usual.items()}, name: spoilt[name]}
        )
        for name in usual
    ]

    @settings(
        max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(
        asked=st.just(usual) | st.one_of(one) | st.fixed_dictionaries(spoilt),
        body=bodies(told),
        chunked=st.booleans(),
    )
    def send(asked, body, chunked):
        """All of it fits but the body, or but one thing more, or nothing does."""
        address, used, role, headers = (
            asked[name] for name in ("address", "used", "role", "headers")
        )

        async def parts():
            for start in range(0, len(body), 1000):
                yield body[start : start + 1000]

        answer = http.request(
            used, address, content=parts() if chunked else body, headers=headers | http._key(role)
        )
        said = (used, address, role, body[:200], answer.status_code, answer.text[:200])
        assert answer.status_code < 500, said
        if used == method.upper():
            assert str(answer.status_code) in told["responses"] or answer.status_code == 404, said
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json", said
            if used != "HEAD":
                jsonschema.validate(answer.json(), PROBLEM)
        # admins are told what is wrong with public settings, and auditors what admins wrote
        if role in (None, "device"):
            assert "planted" not in answer.text, said

    send()
    logged = [
        record.getMessage()
        for record in caplog.records
        if not record.name.startswith(("httpx", "httpcore"))
    ]  # of the client
    assert not any("planted" in line or "internal error" in line for line in logged)


def test_after_all_that_the_service_still_counts(http):
    http.settle()
    assert http.service.ready
    users = http.service.runs["demo"].users
    body = {"subject": "the last one", "generation": 0, "trajectory": {}}
    assert (
        http.post(
            "/v1/runs/demo/reports", "device", json=body, headers={"Idempotency-Key": "l" * 16}
        ).status_code
        == 201
    )
    assert http.service.runs["demo"].users == users + 1
