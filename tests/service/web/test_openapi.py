"""The OpenAPI document says what the routes are, and the routes do what it says."""

import json
import re

import jsonschema
import pytest
from service_bench import serving, spec

from confide.service.core.folder import ServiceFolder
from confide.service.web.access import ROLES
from confide.service.web.openapi import openapi

OPERATIONS = [
    (path, method)
    for path, item in openapi()["paths"].items()
    for method in item
    if method != "parameters"
]


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with serving(ServiceFolder(tmp_path_factory.mktemp("openapi") / "service"), spec()) as made:
        yield made


def test_every_route_of_the_api_is_in_it(http):
    routes = {
        (re.sub(r":int}", "}", route.path), method.lower())
        for route in http.application.routes
        for method in route.methods - {"HEAD"}
        if not route.path.startswith(("/operator", "/static", "/runs")) and route.path != "/"
    }
    assert routes == set(OPERATIONS)


def test_it_is_served_and_has_no_loose_ends(http):
    answer = http.get("/v1/openapi.json")
    assert (
        answer.json() == json.loads(json.dumps(openapi())) and answer.json()["openapi"] == "3.1.0"
    )
    assert (
        http.get("/v1/openapi.json", **{"If-None-Match": answer.headers["etag"]}).status_code == 304
    )
    for path, method in OPERATIONS:
        item = openapi()["paths"][path]
        named = {each["name"] for each in item.get("parameters", ())}
        assert named == set(re.findall(r"{(\w+)}", path)), path
        for code, told in item[method]["responses"].items():
            assert (
                told.get("$ref", "#/components/responses/problem")
                == "#/components/responses/problem"
                and code.isdigit()
            )
        if "requestBody" in item[method]:
            for content in item[method]["requestBody"]["content"].values():
                jsonschema.Draft202012Validator.check_schema(content["schema"])
    schemas = openapi()["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(openapi()))) == set(schemas)
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def check_answer(told, answer):
    """The body of an answer has the schema that the document names for it."""
    described = told["responses"][str(answer.status_code)]
    if "$ref" in described:
        described = openapi()["components"]["responses"]["problem"]
    for media, content in described.get("content", {}).items():
        assert answer.headers["content-type"] == media
        if media.endswith("json"):
            whole = content["schema"] | {"components": openapi()["components"]}
            jsonschema.validate(answer.json(), whole)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_answers_are_among_those_that_it_names(http, path, method):
    """Without a key, and with one that may: a body that is empty."""
    told = openapi()["paths"][path][method]
    address = path.replace("{run}", "demo").replace("{generation}", "0").replace("{key}", "nothing")
    if path == "/v1/signing-keys" or path.endswith("finish"):
        address = address.replace("demo", "nothing")
    without = http.request(method.upper(), address)
    assert str(without.status_code) in told["responses"], without.text
    roles = told.get("x-roles")
    assert (without.status_code == 401) == bool(roles)
    check_answer(told, without)
    if roles:
        answer = http.request(method.upper(), address, headers=http._key(roles[-1]), content=b"{}")
        assert str(answer.status_code) in told["responses"], answer.text
        check_answer(told, answer)
        for role in set(ROLES) - set(roles):
            assert (
                http.request(
                    method.upper(), address, headers=http._key(role), content=b"{}"
                ).status_code
                == 403
            )


SENT = {
    "/v1/runs/{run}/reports": {"subject": "ann", "generation": 0, "trajectory": {}},
    "/v1/runs/{run}/act": {"subject": "ann", "step": 0, "state": 0},
    "/v1/keys": {"role": "device", "label": "phones", "run": "demo", "expires": "30d"},
}


@pytest.mark.parametrize("path", SENT)
def test_bodies_that_have_the_schema_are_taken(http, path):
    told = openapi()["paths"][path]["post"]
    content = told["requestBody"]["content"]["application/json"]
    whole = content["schema"] | {"components": openapi()["components"]}
    jsonschema.validate(SENT[path], whole)
    headers = {"Idempotency-Key": "a fitting report"}
    answer = http.post(path.replace("{run}", "demo"), "admin", json=SENT[path], headers=headers)
    assert answer.status_code in (200, 201)
    check_answer(told, answer)
