"""The schemas of the objects that the server takes and sends, apart from items (see openapi_items)."""

from typing import Any

from hosting.responses.envelope import ENVELOPE_KEYS
from hosting.responses.includes import INCLUDABLE
from hosting.server.openapi_items import item_schemas
from hosting.server.openapi_parts import nullable, object_schema, ref

__all__ = ["schemas"]

type Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_INTEGER: Json = {"type": "integer"}
_FLAG: Json = {"type": "boolean"}
_OBJECT: Json = {"type": "object"}
_NATURAL: Json = {"type": "integer", "minimum": 0}
_NAME: Json = {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$", "maxLength": 128}
_STATUSES = ("queued", "in_progress", "completed", "incomplete", "failed", "cancelled")


def schemas() -> Json:
    """`components/schemas`."""
    items: Json = {"type": "array", "items": ref("InputItem")}
    return item_schemas() | {
        "Error": _error(),
        "Metadata": object_schema(
            {},
            maxProperties=16,
            propertyNames={"maxLength": 64},
            additionalProperties={"type": "string", "maxLength": 512},
            description="What the client wants to keep with the object.",
        ),
        "Input": {"anyOf": [{"type": "string", "minLength": 1}, items | {"minItems": 1}]},
        # Where what came before can be the whole of it.
        "InputOrNone": {"anyOf": [_TEXT, items, {"type": "null"}]},
        "Tool": _tool(),
        "CreateResponse": _create_response(),
        "CountInputTokens": object_schema(_shared_fields() | {"input": ref("InputOrNone")}),
        "CompactResponse": object_schema(
            {
                "model": {"type": "string", "minLength": 1, "maxLength": 256},
                "input": ref("InputOrNone"),
                "previous_response_id": nullable({"type": "string", "pattern": "^resp_"}),
                "instructions": nullable(_TEXT),
            },
            ("model",),
        ),
        "Response": _response(),
        "ResponseEvent": _response_event(),
        "InputTokens": _marked("response.input_tokens", {"input_tokens": _NATURAL}),
        "Compaction": _marked(
            "response.compaction",
            {
                "id": _TEXT,
                "created_at": _INTEGER,
                "output": {"type": "array", "items": ref("Item")},
                "usage": ref("Usage"),
            },
        ),
        "Usage": _usage(),
        "ItemList": _list(ref("Item")),
        "CreateConversation": object_schema(
            {"metadata": nullable(ref("Metadata")), "items": nullable(items | {"maxItems": 20})}
        ),
        "UpdateConversation": object_schema({"metadata": nullable(ref("Metadata"))}, ("metadata",)),
        "AddItems": object_schema({"items": items | {"maxItems": 20}}, ("items",)),
        "Conversation": _marked("conversation", {"id": _TEXT, "created_at": _INTEGER, "metadata": _OBJECT}),
        "Model": _marked("model", {"id": _TEXT, "created": _INTEGER, "owned_by": _TEXT}),
        "ModelList": object_schema(
            {"object": {"const": "list"}, "data": {"type": "array", "items": ref("Model")}}, ("object", "data")
        ),
    }


def _error() -> Json:
    detail = {"message": _TEXT, "type": _TEXT, "param": nullable(_TEXT), "code": nullable(_TEXT)}
    return object_schema({"error": object_schema(detail, detail)}, ("error",), description="OpenAI's error envelope.")


def _marked(name: str, properties: Json) -> Json:
    """An object with a fixed `object` member, and all of `properties`."""
    return object_schema({"object": {"const": name}} | properties, ("object", *properties))


def _list(item: Json) -> Json:
    return object_schema(
        {
            "object": {"const": "list"},
            "data": {"type": "array", "items": item},
            "first_id": nullable(_TEXT),
            "last_id": nullable(_TEXT),
            "has_more": _FLAG,
        },
        ("object", "data", "first_id", "last_id", "has_more"),
    )


def _tool() -> Json:
    function = object_schema(
        {
            "type": {"const": "function"},
            "name": _NAME,
            "description": nullable(_TEXT),
            "parameters": nullable(_OBJECT | {"description": "A JSON Schema."}),
            "strict": nullable(_FLAG),
        },
        ("type", "name"),
    )
    return {"anyOf": [function, _named("custom"), _unnamed("function", "custom")]}


def _named(kind: str) -> Json:
    return object_schema({"type": {"const": kind}, "name": _NAME}, ("type", "name"))


def _unnamed(*but: str) -> Json:
    """A tool of any type but these: this server does not look into it."""
    return object_schema({"type": {"type": "string", "minLength": 1, "not": {"enum": list(but)}}}, ("type",))


def _shared_fields() -> Json:
    """Members of a request that do not depend on what is asked for."""
    return {
        "model": nullable({"type": "string", "maxLength": 256}),
        "instructions": nullable(_TEXT),
        "previous_response_id": nullable({"type": "string", "pattern": "^resp_"}),
        "conversation": nullable(
            {
                "anyOf": [
                    {"type": "string", "pattern": "^conv_"},
                    object_schema({"id": {"type": "string", "pattern": "^conv_"}}, ("id",)),
                ]
            }
        ),
        "tools": nullable({"type": "array", "items": ref("Tool"), "maxItems": 128}),
        "tool_choice": nullable(_tool_choice()),
        "parallel_tool_calls": nullable(_FLAG),
        "truncation": nullable({"type": "string", "enum": ["auto", "disabled"]}),
        "reasoning": nullable(object_schema({"effort": nullable(_TEXT), "summary": nullable(_TEXT)})),
        "text": nullable(_text()),
    }


def _create_response() -> Json:
    numbers: Json = {
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "top_p": {"type": "number", "minimum": 0, "maximum": 1},
        "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
        "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
        "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
        "max_output_tokens": {"type": "integer", "minimum": 16},
        "max_tool_calls": _NATURAL,
    }
    fields: Json = {
        "stream": _FLAG,
        "stream_options": object_schema({"include_obfuscation": nullable(_FLAG)}),
        "background": _FLAG,
        "store": _FLAG | {"default": True},
        "include": {"type": "array", "items": {"type": "string", "enum": list(INCLUDABLE)}},
        "metadata": ref("Metadata"),
        "service_tier": {
            "type": "string",
            "enum": ["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"],
        },
        "prompt": object_schema(
            {"id": {"type": "string", "minLength": 1}, "version": nullable(_TEXT), "variables": nullable(_OBJECT)},
            ("id",),
        ),
        "prompt_cache_key": {"type": "string", "maxLength": 64},
        "safety_identifier": {"type": "string", "maxLength": 128},
        "user": _TEXT,
    }
    return object_schema(
        {"input": ref("Input")}
        | _shared_fields()
        | {name: nullable(schema) for name, schema in (numbers | fields).items()},
        ("input",),
        description="Members that this server does not know are ignored. `input` may be absent when there is a `prompt`.",
    )


def _tool_choice() -> Json:
    return {
        "anyOf": [
            {"type": "string", "enum": ["none", "auto", "required"]},
            _named("function"),
            _named("custom"),
            _unnamed("function", "custom", "allowed_tools"),
            object_schema(
                {
                    "type": {"const": "allowed_tools"},
                    "mode": {"enum": ["auto", "required"]},
                    "tools": {
                        "type": "array",
                        "items": {"anyOf": [_named("function"), _named("custom"), _unnamed("function", "custom")]},
                        "maxItems": 128,
                    },
                },
                ("type", "mode", "tools"),
            ),
        ]
    }


def _text() -> Json:
    named = object_schema(
        {
            "type": {"const": "json_schema"},
            "name": _NAME | {"maxLength": 64},
            "schema": _OBJECT,
            "strict": nullable(_FLAG),
            "description": nullable(_TEXT),
        },
        ("type", "name", "schema"),
    )
    plain = object_schema({"type": {"enum": ["text", "json_object"]}}, ("type",))
    return object_schema(
        {
            "format": nullable({"anyOf": [plain, named]}),
            "verbosity": nullable({"type": "string", "enum": ["low", "medium", "high"]}),
        }
    )


def _response() -> Json:
    known: Json = {
        "id": {"type": "string", "pattern": "^resp_"},
        "object": {"const": "response"},
        "created_at": {"type": "number", "description": "Seconds since 1970."},
        "completed_at": nullable({"type": "number"}),
        "status": {"type": "string", "enum": list(_STATUSES)},
        "background": _FLAG,
        "store": _FLAG,
        "model": _TEXT,
        "output": {"type": "array", "items": ref("Item")},
        "error": nullable(object_schema({"code": _TEXT, "message": _TEXT}, ("code", "message"))),
        "incomplete_details": nullable(object_schema({"reason": _TEXT}, ("reason",))),
        "instructions": nullable(_TEXT),
        "previous_response_id": nullable(_TEXT),
        "conversation": object_schema({"id": _TEXT}, ("id",)),
        "metadata": _OBJECT,
        "tools": {"type": "array", "items": object_schema({"type": _TEXT}, ("type",))},
        "tool_choice": {"type": ["string", "object"]},
        "parallel_tool_calls": _FLAG,
        "max_tool_calls": nullable(_INTEGER),
        "max_output_tokens": nullable(_INTEGER),
        "temperature": {"type": "number"},
        "top_p": {"type": "number"},
        "top_logprobs": _INTEGER,
        "presence_penalty": {"type": "number"},
        "frequency_penalty": {"type": "number"},
        "truncation": _TEXT,
        "service_tier": _TEXT,
        "reasoning": nullable(_OBJECT),
        "text": _OBJECT,
        "prompt_cache_key": nullable(_TEXT),
        "safety_identifier": nullable(_TEXT),
        "usage": nullable(ref("Usage")),
    }
    return object_schema(known, ENVELOPE_KEYS)


def _usage() -> Json:
    details = {
        "input_tokens_details": object_schema({"cached_tokens": _NATURAL}, ("cached_tokens",)),
        "output_tokens_details": object_schema({"reasoning_tokens": _NATURAL}, ("reasoning_tokens",)),
    }
    counts = dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), _NATURAL)
    return object_schema(counts | details, (*counts, *details))


def _response_event() -> Json:
    """One frame of a stream; `data` is either the JSON of the event or the word that ends the stream."""
    event = object_schema(
        {
            "type": {"type": "string", "description": "`response.created`, `response.output_text.delta` and so on."},
            "sequence_number": _NATURAL | {"description": "Counts from 0. `starting_after` takes it."},
            "response": ref("Response"),
        },
        ("type", "sequence_number"),
    )
    return object_schema(
        {
            "event": {"type": "string", "description": "The `type` of the event."},
            "id": {"type": "string", "description": "Its sequence number, for Last-Event-ID."},
            "data": {
                "anyOf": [
                    {"const": "[DONE]"},
                    {"type": "string", "contentMediaType": "application/json", "contentSchema": event},
                ]
            },
        },
        ("data",),
        description="One server-sent event. The events, their order and their members are OpenAI's.",
    )
