"""The schemas of what goes into `input` and comes out of `output`: items, and the parts of their contents.

As permissive as the server is: a member that is not listed passes, null is absent, and ids that this server never issued
are taken. What the schemas can't say (an output needs its call, a URL must be a public one) is a 400 at run time.
"""

from typing import Any

from hosting.server.openapi_parts import nullable, object_schema, ref

__all__ = ["item_schemas"]

type Json = dict[str, Any]

_TEXT: Json = {"type": "string"}

# Item types with the members that they can't do without, apart from those that have a schema of their own below.
PLAIN_ITEMS: dict[str, tuple[str, ...]] = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "computer_call": ("call_id",),
    "web_search_call": (),
    "file_search_call": (),
    "code_interpreter_call": (),
    "image_generation_call": (),
    "mcp_call": ("name", "server_label", "arguments"),
    "mcp_list_tools": ("server_label",),
    "mcp_approval_request": ("id", "name", "server_label", "arguments"),
    "local_shell_call": ("call_id",),
    "local_shell_call_output": ("output",),
    "shell_call": ("call_id",),
    "shell_call_output": ("call_id",),
    "apply_patch_call": ("call_id",),
    "apply_patch_call_output": ("call_id",),
    "tool_search_call": (),
    "tool_search_output": (),
    "compaction": ("encrypted_content",),
    "compaction_trigger": (),
    "program": ("code",),
    "program_output": ("result",),
    "additional_tools": (),
}
"""Of these, an empty string will do for `arguments`, `input`, `output`, `encrypted_content`, `code` and `result`."""

_MAY_BE_EMPTY = frozenset({"arguments", "input", "output", "encrypted_content", "code", "result"})
_IDENTIFIER: Json = {"type": "string", "maxLength": 512}


def item_schemas() -> Json:
    """`components/schemas` of items: `Item` is what the server sends, `InputItem` what it takes."""
    return {
        "Item": object_schema(
            {
                "type": {"type": "string", "description": "`message`, `function_call`, `reasoning` and so on."},
                "id": {"type": "string"},
                "status": nullable({"type": "string"}),
            },
            ("type",),
            description="An item. Its members beyond these go by its type, as at OpenAI.",
        ),
        "InputItem": {
            "anyOf": [ref(name) for name in ("InputMessage", "OutputMessage", "ToolOutput", "Reasoning", "McpApproval")]
            + [ref(name) for name in ("ScreenshotOutput", "ItemReference", "OtherItem")]
        },
        "InputMessage": _message(("user", "system", "developer"), "InputPart", "What somebody says to the agent."),
        "OutputMessage": _message(("assistant",), "OutputPart", "What the agent has said, sent back to it."),
        "ToolOutput": _item(
            ("function_call_output", "custom_tool_call_output"),
            {
                "call_id": {"type": "string", "minLength": 1},
                "output": {"anyOf": [_TEXT, {"type": "array", "items": ref("OutputContent")}]},
            },
            ("call_id", "output"),
        ),
        "Reasoning": _item(
            ("reasoning",),
            {
                "summary": nullable({"type": "array", "items": object_schema({"text": _TEXT}, ("text",))}),
                "content": nullable({"type": "array", "items": object_schema({"text": _TEXT}, ("text",))}),
                "encrypted_content": nullable(_TEXT),
            },
        ),
        "McpApproval": _item(
            ("mcp_approval_response",),
            {"approval_request_id": {"type": "string", "minLength": 1}, "approve": {"type": "boolean"}},
            ("approval_request_id", "approve"),
        ),
        "ScreenshotOutput": _item(
            ("computer_call_output",),
            {
                "call_id": {"type": "string", "minLength": 1},
                "output": object_schema({"image_url": nullable(_url("image")), "file_id": nullable(_TEXT)}),
            },
            ("call_id", "output"),
        ),
        "ItemReference": object_schema(
            {
                "type": {"anyOf": [{"const": "item_reference"}, {"type": "null"}]},
                "id": _IDENTIFIER | {"minLength": 1},
            },
            ("id",),
            description="A stored item, by its id.",
        ),
        "OtherItem": {"anyOf": [_plain(kind, names) for kind, names in PLAIN_ITEMS.items()]},
        "InputPart": {"anyOf": [*_contents(), _audio()]},
        "OutputContent": {"anyOf": _contents()},
        "OutputPart": {
            "anyOf": [
                _part(
                    "output_text",
                    {"text": _TEXT},
                    annotations=nullable({"type": "array", "items": {"type": "object"}}),
                    logprobs=nullable({"type": "array", "items": {"type": "object"}}),
                ),
                _part("refusal", {"refusal": _TEXT}),
            ]
        },
    }


def _contents() -> list[Json]:
    """What a user says and what a tool answers."""
    name: Json = {"filename": nullable(_TEXT)}
    some: Json = {"type": "string", "minLength": 1}
    return [
        _part("input_text", {"text": _TEXT}),
        _part("text", {"text": _TEXT}),
        _part("input_image", {"image_url": _url("image")}, detail=nullable(_TEXT)),
        _part("input_image", {"file_id": some}, detail=nullable(_TEXT)),
        _part("input_file", {"file_url": _url("file")}, **name),
        _part("input_file", {"file_id": some}, **name),
        _part("input_file", {"file_data": some | {"description": "base64, or a data URI."}}, **name),
    ]


def _audio() -> Json:
    data: Json = {"type": "string", "minLength": 1, "contentEncoding": "base64"}
    return _part(
        "input_audio",
        {"input_audio": object_schema({"data": data, "format": {"enum": ["wav", "mp3"]}}, ("data", "format"))},
    )


def _message(roles: tuple[str, ...], part: str, description: str) -> Json:
    return object_schema(
        {
            "type": {"anyOf": [{"const": "message"}, {"type": "null"}]},
            "id": nullable(_IDENTIFIER),
            "status": nullable(_TEXT),
            "phase": nullable(_TEXT),
            "role": {"type": "string", "enum": list(roles)},
            "content": {"anyOf": [_TEXT, {"type": "array", "items": ref(part)}]},
        },
        ("role", "content"),
        description=description,
    )


def _item(kinds: tuple[str, ...], properties: Json, required: tuple[str, ...] = ()) -> Json:
    shared: Json = {
        "type": {"type": "string", "enum": list(kinds)},
        "id": nullable(_IDENTIFIER),
        "status": nullable(_TEXT),
    }
    return object_schema(shared | properties, ("type", *required))


def _plain(kind: str, required: tuple[str, ...]) -> Json:
    members: Json = {name: _TEXT if name in _MAY_BE_EMPTY else {"type": "string", "minLength": 1} for name in required}
    if "id" in members:
        members["id"] = members["id"] | _IDENTIFIER
    return _item((kind,), members, required)


def _part(kind: str, required: Json, **optional: Json) -> Json:
    return object_schema({"type": {"const": kind}} | required | optional, ("type", *required))


def _url(what: str) -> Json:
    return {
        "type": "string",
        "format": "uri",
        "pattern": "^(https?://[^/]|data:)",
        "description": f"A data URI, or the public address of the {what}.",
    }
