"""The OpenAPI document: valid, complete, and true where a test can compare it with the code."""

import dataclasses
import json
from typing import Any

import pytest
from openapi_spec_validator import validate

from hosting.responses import CreateRequest, input_items
from hosting.responses.envelope import ENVELOPE_KEYS
from hosting.server import Request, ResponsesServer
from hosting.server.invocations import Invocations
from hosting.server.openapi import OpenApi, openapi_document, undescribed
from hosting.server.openapi_items import item_schemas
from hosting.server.openapi_operations import operations
from hosting.settings import load_settings
from hosting.state import AgentState

Route = tuple[str, str]


def served_routes() -> set[Route]:
    settings = load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"})
    server = ResponsesServer(
        AgentState(lambda: pytest.fail("no agent here")), settings, lambda: pytest.fail("no storage here")
    )
    routes = {**server.routes, **Invocations(settings, server.limits).routes}
    return {(path, method) for path, methods in routes.items() for method in methods}


def documented_routes(document: dict[str, Any]) -> set[Route]:
    return {
        (path.removeprefix("/"), method.upper())
        for path, item in document["paths"].items()
        for method in item
        if method != "parameters"
    }


def operation_objects(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [item[method] for item in document["paths"].values() for method in item if method != "parameters"]


def test_the_document_has_exactly_the_routes_of_the_server() -> None:
    routes = served_routes()
    assert undescribed(routes) == []
    assert documented_routes(openapi_document(routes)) == routes


def test_a_route_that_nobody_described_is_found() -> None:
    assert undescribed({("v1/models", "GET"), ("v1/models", "PATCH"), ("v1/new", "GET")}) == [
        ("v1/models", "PATCH"),
        ("v1/new", "GET"),
    ]


@pytest.mark.parametrize("secured", [True, False])
def test_the_document_is_valid(secured: bool) -> None:
    validate(openapi_document(operations(), secured=secured))


def test_a_document_of_few_routes_is_valid_and_links_to_none_of_the_others() -> None:
    document = openapi_document({("v1/responses", "POST"), ("v1/responses/{response_id}", "GET")})
    validate(document)
    (create,) = (found for found in operation_objects(document) if found["operationId"] == "createResponse")
    linked = {link["operationId"] for link in create["responses"]["200"]["links"].values()}
    assert linked == {"createResponse", "getResponse"}


def test_operation_ids_are_unique() -> None:
    identifiers = [found["operationId"] for found in operation_objects(openapi_document(operations()))]
    assert len(identifiers) == len(set(identifiers))


def test_a_key_is_asked_for_only_when_the_app_has_keys() -> None:
    secured, open_to_all = (openapi_document(operations(), secured=flag) for flag in (True, False))
    assert secured["security"] == [{"bearer": []}]
    assert secured["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert "security" not in open_to_all
    assert "securitySchemes" not in open_to_all["components"]


def test_readiness_needs_no_key() -> None:
    assert openapi_document(operations())["paths"]["/readiness"]["get"]["security"] == []


def test_every_error_has_the_envelope() -> None:
    document = openapi_document(operations())
    for answer in document["components"]["responses"].values():
        assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}
    for found in operation_objects(document):
        for status, answer in found["responses"].items():
            assert status.startswith("2") or answer["$ref"].startswith("#/components/responses/"), found["operationId"]


def test_every_member_of_a_request_that_the_server_reads_is_described() -> None:
    read = {field.name for field in dataclasses.fields(CreateRequest)}
    read = read - {"input_items", "conversation_id"} | {"input", "conversation"}
    described = openapi_document(operations())["components"]["schemas"]["CreateResponse"]["properties"]
    assert set(described) == read


def test_every_member_of_a_response_is_described() -> None:
    described = openapi_document(operations())["components"]["schemas"]["Response"]
    assert set(described["required"]) == ENVELOPE_KEYS
    assert set(described["properties"]) >= ENVELOPE_KEYS


def test_every_type_of_item_that_the_server_takes_is_described_with_what_it_requires() -> None:
    schemas = item_schemas()
    described: dict[str, set[str]] = {}
    for name in ("InputMessage", "ToolOutput", "Reasoning", "McpApproval", "ScreenshotOutput", "ItemReference"):
        for kind in _types_of(schemas[name]):
            described[kind] = set(schemas[name]["required"])
    for schema in schemas["OtherItem"]["anyOf"]:
        (kind,) = _types_of(schema)
        described[kind] = set(schema["required"])
    assert described.keys() == input_items._KINDS.keys()
    for kind, (_, required) in input_items._KINDS.items():
        assert described[kind] >= {member.rstrip("?") for member in required}, kind


def _types_of(schema: dict[str, Any]) -> list[str]:
    kind = schema["properties"]["type"]
    return kind.get("enum") or [option["const"] for option in kind["anyOf"] if "const" in option]


async def test_the_endpoint_puts_the_document_together_once() -> None:
    asked: list[None] = []

    def routes() -> set[Route]:
        asked.append(None)
        return {("v1/models", "GET")}

    endpoint = OpenApi(routes, secured=True)
    assert not asked
    first, second = [await endpoint(Request("GET", "/v1/openapi.json")) for _ in range(2)]
    assert first.body == second.body
    assert isinstance(first.body, bytes)
    assert documented_routes(json.loads(first.body)) == routes()
    assert len(asked) == 2  # once by the endpoint, once in the line above
    assert first.headers is not second.headers


def test_every_description_has_a_route() -> None:
    assert set(operations()) == served_routes()
