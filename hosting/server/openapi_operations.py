"""What each route does, for the OpenAPI document. A route that is missing here fails a test."""

from typing import Any

from hosting.server.openapi_conversations import conversation_operations
from hosting.server.openapi_parts import (
    AFTER,
    INCLUDE,
    LIMIT,
    ORDER,
    deleted,
    json_content,
    link,
    ok,
    operation,
    parameter,
    ref,
    request_body,
)

__all__ = ["operations"]

type Json = dict[str, Any]
type Operations = dict[tuple[str, str], Json]

_FLAG: Json = {"type": "boolean", "default": False}


def operations() -> Operations:
    """Path template and method to an operation object, without the parameters of the path."""
    return _responses() | _other_responses() | conversation_operations() | _invocations() | _about_the_app()


def _responses() -> Operations:
    text = "The response. With `stream`, its events; they end with `data: [DONE]`."
    examples: Json = {
        "text": {"model": "agent", "input": "Hello"},
        "items": {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "What is the weather?"}]},
                {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
            ]
        },
        "stream": {"input": "Tell me something", "stream": True},
        "background": {"input": "Think about it", "background": True, "metadata": {"topic": "thoughts"}},
    }
    links: Json = {
        "get": link("getResponse", response_id="$response.body#/id"),
        "cancel": link("cancelResponse", response_id="$response.body#/id"),
        "delete": link("deleteResponse", response_id="$response.body#/id"),
        "inputItems": link("listInputItems", response_id="$response.body#/id"),
        "continue": {
            "operationId": "createResponse",
            "requestBody": {"input": "And then?", "previous_response_id": "$response.body#/id"},
        },
    }
    one = "v1/responses/{response_id}"
    return {
        ("v1/responses", "POST"): operation(
            "createResponse",
            "Responses",
            "Run the agent",
            ok(ref("Response"), text, stream=True, links=links),
            parameters=[
                parameter(
                    "Idempotency-Key",
                    "header",
                    {"type": "string", "maxLength": 255},
                    "A request with a key and a body that came before gets the answer of the first one.",
                )
            ],
            body=request_body(ref("CreateResponse"), examples=examples),
            errors=(404, 409),
            description="`stream`, `background` and `store` decide what becomes of the run when its client goes.",
        ),
        (one, "GET"): operation(
            "getResponse",
            "Responses",
            "A response, final or running",
            ok(ref("Response"), text, stream=True),
            parameters=[
                parameter("stream", "query", _FLAG, "`true` follows its events, of a background response only."),
                parameter(
                    "starting_after",
                    "query",
                    {"type": "integer", "minimum": 0, "maximum": 999_999_999_999},
                    "With `stream`: the sequence number of the last event that the client has.",
                ),
                parameter(
                    "Last-Event-ID",
                    "header",
                    {"type": "string", "pattern": "^[0-9]{1,12}$"},
                    "The same, as SSE has it.",
                ),
                parameter("include_obfuscation", "query", _FLAG, "Has no effect: events are never padded."),
                INCLUDE,
            ],
            errors=(404,),
        ),
        (one, "DELETE"): operation(
            "deleteResponse",
            "Responses",
            "Delete a response",
            ok(deleted("response"), "It is gone. Responses that continue it keep their own items."),
            errors=(404,),
        ),
        (one + "/cancel", "POST"): operation(
            "cancelResponse",
            "Responses",
            "Cancel a background response",
            ok(ref("Response"), "The response; one that had ended is returned as it is."),
            errors=(404,),
        ),
        (one + "/input_items", "GET"): operation(
            "listInputItems",
            "Responses",
            "The items that a response was made from",
            ok(ref("ItemList"), "A page. The next one begins after the id of the last item in `data`."),
            parameters=[LIMIT, ORDER, AFTER, INCLUDE],
            errors=(404,),
        ),
    }


def _other_responses() -> Operations:
    return {
        ("v1/responses/input_tokens", "POST"): operation(
            "countInputTokens",
            "Responses",
            "How many tokens a request would have as its input",
            ok(ref("InputTokens"), "The count."),
            body=request_body(ref("CountInputTokens"), required=False),
            errors=(404,),
        ),
        ("v1/responses/compact", "POST"): operation(
            "compactResponse",
            "Responses",
            "Make a long conversation short",
            ok(ref("Compaction"), "Items to send as the next `input` instead of the conversation."),
            body=request_body(ref("CompactResponse")),
            errors=(404,),
        ),
    }


def _invocations() -> Operations:
    # What goes in and comes out is the app's own affair.
    anything: Json = {
        "200": {
            "description": "What the app's handler answers.",
            "content": json_content({}) | {"text/event-stream": {"schema": {}}},
        },
        "204": {"description": "The handler has nothing to say."},
    }
    session = [
        parameter("agent_session_id", "query", {"type": "string"}, "The session, by the client's own name."),
        parameter("x-agent-session-id", "header", {"type": "string"}, "The same."),
    ]
    identifier = parameter("x-agent-invocation-id", "header", {"type": "string"}, "An id of the client's own choice.")
    one = "v1/invocations/{invocation_id}"
    return {
        ("v1/invocations", "POST"): operation(
            "invoke",
            "Invocations",
            "Call the app's invoke handler",
            anything,
            parameters=[identifier, *session],
            body=request_body({}, required=False),
            errors=(404, 501),
        ),
        (one, "GET"): operation(
            "getInvocation", "Invocations", "Call the app's get handler", anything, parameters=session, errors=(404,)
        ),
        (one + "/cancel", "POST"): operation(
            "cancelInvocation",
            "Invocations",
            "Call the app's cancel handler",
            anything,
            parameters=session,
            errors=(404,),
        ),
    }


def _about_the_app() -> Operations:
    ready = operation(
        "readiness",
        "App",
        "Whether this process answers",
        ok(
            {
                "type": "object",
                "properties": {"status": {"type": "string"}, "revision": {"type": "string"}},
                "required": ["status"],
            },
            "It does; which version of the code it is, when the deployment has said so.",
        ),
        storage=False,
    )
    for status in ("401", "403"):
        ready["responses"].pop(status)
    return {
        ("v1/models", "GET"): operation(
            "listModels", "Models", "What the app hosts", ok(ref("ModelList"), "Names for `model`."), storage=False
        ),
        ("v1/models/{model}", "GET"): operation(
            "getModel", "Models", "One of them", ok(ref("Model"), "The model."), errors=(404,), storage=False
        ),
        ("v1/openapi.json", "GET"): operation(
            "getOpenApi", "App", "This document", ok({"type": "object"}, "OpenAPI 3.1."), storage=False
        ),
        ("readiness", "GET"): ready | {"security": []},
    }
