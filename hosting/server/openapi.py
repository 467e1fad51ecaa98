"""The OpenAPI document of the app: what its routes take and answer, for tools that read such documents.

It is put together from plain dicts at the first request that asks for it, because most processes are never asked. The
official OpenAPI description of the Responses API is many times as long; this one says what this server looks at.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from hosting.server.http import Request, Response

__all__ = ["OpenApi", "openapi_document", "undescribed"]

type Json = dict[str, Any]
type Route = tuple[str, str]
"""A path template without a leading slash, and a method in upper case."""

_TAGS = {
    "Responses": "Runs of the agent.",
    "Conversations": "Items that responses have in common.",
    "Models": "What the app hosts.",
    "Invocations": "Requests in a protocol of the app's own.",
    "App": "About the app itself.",
}


class OpenApi:
    """The endpoint that serves the document. Who may ask is the server's affair."""

    def __init__(self, routes: Callable[[], Iterable[Route]], *, secured: bool) -> None:
        """`routes` is called once, at the first request: by then all routes are there. `secured`: whether keys are needed."""
        self._routes = routes
        self._secured = secured
        self._body: bytes | None = None

    async def __call__(self, request: Request) -> Response:
        if self._body is None:
            document = openapi_document(self._routes(), secured=self._secured)
            self._body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        return Response(200, self._body)


def openapi_document(routes: Iterable[Route], *, secured: bool = True, title: str = "Durable agents") -> Json:
    """An OpenAPI 3.1 document of those `routes` that are described (see `undescribed`).

    With `secured`, requests need a bearer token, except where an operation says otherwise.
    """
    from hosting.server.openapi_operations import operations
    from hosting.server.openapi_parts import path_parameters, shared_parameters
    from hosting.server.openapi_schemas import schemas

    described = operations()
    chosen = {route: described[route] for route in sorted(routes) if route in described}
    paths: dict[str, Json] = {}
    for (path, method), found in chosen.items():
        _drop_links(found, {other["operationId"] for other in chosen.values()})
        item = paths.setdefault(f"/{path}", {"parameters": given} if (given := path_parameters(path)) else {})
        item[method.lower()] = found
    tags = {tag for found in chosen.values() for tag in found["tags"]}
    components: Json = {"schemas": schemas(), "parameters": shared_parameters(), "responses": _error_responses()}
    document: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": "1",
            "description": "Agents behind the OpenAI Responses API. Every error has OpenAI's envelope.",
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items() if name in tags],
        "paths": paths,
        "components": components,
    }
    if secured:
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer", "description": "A key of the app, as OpenAI SDKs send it."}
        }
        document["security"] = [{"bearer": []}]
    return document


def undescribed(routes: Iterable[Route]) -> list[Route]:
    """Routes that the document leaves out, because nobody has described them."""
    from hosting.server.openapi_operations import operations

    return sorted(set(routes) - operations().keys())


def _drop_links(operation: Json, known: set[str]) -> None:
    """Leave out links to operations that this app does not have."""
    for answer in operation["responses"].values():
        if "links" in answer:
            links = {name: link for name, link in answer["links"].items() if link["operationId"] in known}
            answer["links"] = links


def _error_responses() -> Json:
    """`components/responses`."""
    from hosting.server.openapi_parts import SHARED_RESPONSES, json_content, ref

    retry = {"retry-after": {"description": "Seconds.", "schema": {"type": "string"}}}
    return {
        name: {"description": text, "content": json_content(ref("Error"))}
        | ({"headers": retry} if status in (429, 503) else {})
        for status, (name, text) in SHARED_RESPONSES.items()
    }
