"""What the operations of the OpenAPI document share: references, parameters, bodies, and the answers that all have."""

from collections.abc import Iterable, Mapping
from typing import Any

from hosting.responses.includes import INCLUDABLE

__all__ = [
    "AFTER",
    "INCLUDE",
    "LIMIT",
    "ORDER",
    "SHARED_RESPONSES",
    "deleted",
    "json_content",
    "link",
    "nullable",
    "object_schema",
    "ok",
    "operation",
    "parameter",
    "path_parameters",
    "ref",
    "request_body",
    "shared_parameters",
]

type Json = dict[str, Any]


def ref(name: str, kind: str = "schemas") -> Json:
    """A reference to a component of the document."""
    return {"$ref": f"#/components/{kind}/{name}"}


def nullable(schema: Json) -> Json:
    """`schema` or null, which counts as absent everywhere in a request."""
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return schema | {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def object_schema(properties: Json, required: Iterable[str] = (), **more: Any) -> Json:
    """An object. Members that are not listed are allowed: clients of newer versions send them."""
    schema: Json = {"type": "object", "properties": properties, **more}
    return schema | ({"required": sorted(required)} if required else {})


def json_content(schema: Json, **more: Any) -> Json:
    """The `content` of a JSON body."""
    return {"application/json": {"schema": schema, **more}}


def request_body(schema: Json, *, required: bool = True, examples: Mapping[str, Any] | None = None) -> Json:
    """A JSON request body; `examples` by name."""
    named = {"examples": {name: {"value": value} for name, value in examples.items()}} if examples else {}
    return {"required": required, "content": json_content(schema, **named)}


def parameter(name: str, place: str, schema: Json, description: str, **more: Any) -> Json:
    """A parameter in the `place` "query", "header" or "path"."""
    return {"name": name, "in": place, "schema": schema, "description": description, **more}


_PATH = {
    "response_id": ({"type": "string", "pattern": "^resp_[A-Za-z0-9]+$"}, "The id of a response."),
    "conversation_id": ({"type": "string", "pattern": "^conv_[A-Za-z0-9]+$"}, "The id of a conversation."),
    "item_id": ({"type": "string", "minLength": 1}, "The id of an item of the conversation."),
    "model": ({"type": "string", "minLength": 1}, "A name from the list of models."),
    "invocation_id": ({"type": "string", "pattern": r"^[A-Za-z0-9\-_.:]{1,256}$"}, "The id of an invocation."),
}


def path_parameters(path: str) -> list[Json]:
    """The parameters that stand in braces in a path template."""
    names = [part.partition("}")[0] for part in path.split("{")[1:]]
    return [
        parameter(name, "path", *_PATH.get(name, ({"type": "string", "minLength": 1}, name)), required=True)
        for name in names
    ]


def shared_parameters() -> Json:
    """`components/parameters`."""
    return {
        "limit": parameter(
            "limit", "query", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}, "Items of a page."
        ),
        "order": parameter(
            "order", "query", {"type": "string", "enum": ["asc", "desc"], "default": "desc"}, "By age, newest first."
        ),
        "after": parameter(
            "after",
            "query",
            {"type": "string"},
            "The id of the last item that the client has: the page begins behind it.",
        ),
        "include": parameter(
            "include[]",
            "query",
            {"type": "array", "items": {"type": "string", "enum": list(INCLUDABLE)}},
            "Parts that OpenAI leaves out otherwise; here they are there anyway. `include` without brackets counts too.",
        ),
    }


SHARED_RESPONSES: Mapping[int, tuple[str, str]] = {
    400: ("BadRequest", "The request can never succeed as it is; `param` says where, `code` why."),
    401: ("Unauthorized", "No key, or a wrong one."),
    403: ("Suspended", "The operator has suspended this caller."),
    404: ("NotFound", "There is nothing with this id, at least not for this caller."),
    408: ("Timeout", "The body took too long to arrive."),
    409: ("Conflict", "It contradicts something that is going on or that was said before; `code` says what."),
    413: ("TooLarge", "The body is larger than the limit of this app."),
    415: ("UnsupportedEncoding", "Compressed request bodies are not supported."),
    429: ("TooManyRequests", "Over a limit of this app. Come again after `retry-after` seconds."),
    500: ("ServerError", "A defect of the app. Its text does not leave the app."),
    501: ("NotImplemented", "The app has no handler for this."),
    503: ("Unavailable", "Storage can't be reached for now. Come again after `retry-after` seconds."),
}
"""Status to the component that describes it, and its description: always the error envelope."""

_ALWAYS = (400, 401, 403, 500)
"""400 where nothing else is wrong: a header that may come once came twice."""
_WITH_STORAGE = (429, 503)
_WITH_BODY = (408, 413, 415)


def operation(
    identifier: str,
    tag: str,
    summary: str,
    success: Json,
    *,
    parameters: Iterable[Json] = (),
    body: Json | None = None,
    errors: Iterable[int] = (),
    storage: bool = True,
    description: str = "",
) -> Json:
    """One operation. `success` is by status; `errors` are the statuses on top of those that follow from the rest."""
    statuses = {*errors, *_ALWAYS, *(_WITH_STORAGE if storage else ()), *(_WITH_BODY if body is not None else ())}
    made: Json = {"operationId": identifier, "tags": [tag], "summary": summary}
    if description:
        made["description"] = description
    if given := list(parameters):
        made["parameters"] = given
    if body is not None:
        made["requestBody"] = body
    made["responses"] = success | {
        str(status): ref(SHARED_RESPONSES[status][0], "responses") for status in sorted(statuses)
    }
    return made


def ok(schema: Json, description: str, *, stream: bool = False, links: Json | None = None) -> Json:
    """The answer with status 200."""
    content = json_content(schema)
    if stream:
        content["text/event-stream"] = {"schema": ref("ResponseEvent")}
    answer: Json = {"description": description, "content": content}
    return {"200": answer | ({"links": links} if links else {})}


def link(operation_id: str, **parameters: str) -> Json:
    """An operation that goes on from this one."""
    return {"operationId": operation_id, "parameters": parameters}


def deleted(name: str) -> Json:
    """What is said of an object that is gone."""
    return {
        "type": "object",
        "properties": {"id": {"type": "string"}, "object": {"const": name}, "deleted": {"const": True}},
        "required": ["deleted", "id", "object"],
    }


LIMIT, ORDER, AFTER, INCLUDE = (ref(name, "parameters") for name in ("limit", "order", "after", "include"))
