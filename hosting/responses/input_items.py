"""The items of `input`, from the many forms that clients send to the one form that is stored and listed.

A string is one user message. A message may come without `type` and with a string as content. Ids that we never issued
are kept (Codex puts its own on every item). Nulls, which `model_dump()` leaves in resent output, are dropped.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from hosting.ids import item_id
from hosting.responses.content_parts import (
    INPUT_PARTS,
    check_outputs,
    check_result,
    normalize_loose_part,
    normalize_output,
    normalize_parts,
    normalize_screenshot,
    text_part,
)
from hosting.responses.errors import ApiError, InvalidRequest
from hosting.responses.fields import Fields

__all__ = [
    "has_substance",
    "id_prefix",
    "item_references",
    "normalize_input",
    "resolve_references",
    "with_ids",
]

type Json = dict[str, Any]

_ROLES = ("user", "assistant", "system", "developer")
_ID_LENGTH = 512

# Item types, the prefix of their ids, and the string fields that the API requires (`?` where an empty one is fine).
_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "message": ("msg", ()),
    "item_reference": ("ref", ("id",)),
    "reasoning": ("rs", ()),
    "function_call": ("fc", ("call_id", "name", "arguments?")),
    "function_call_output": ("fco", ("call_id",)),
    "custom_tool_call": ("ctc", ("call_id", "name", "input?")),
    "custom_tool_call_output": ("ctco", ("call_id",)),
    "computer_call": ("cu", ("call_id",)),
    "computer_call_output": ("cuo", ("call_id",)),
    "web_search_call": ("ws", ()),
    "file_search_call": ("fs", ()),
    "code_interpreter_call": ("ci", ()),
    "image_generation_call": ("ig", ()),
    "mcp_call": ("mcp", ("name", "server_label", "arguments?")),
    "mcp_list_tools": ("mcpl", ("server_label",)),
    "mcp_approval_request": ("mcpr", ("id", "name", "server_label", "arguments?")),
    "mcp_approval_response": ("mcpa", ("approval_request_id",)),
    "local_shell_call": ("lsh", ("call_id",)),
    "local_shell_call_output": ("lsho", ("output?",)),
    "shell_call": ("sh", ("call_id",)),
    "shell_call_output": ("sho", ("call_id",)),
    "apply_patch_call": ("apc", ("call_id",)),
    "apply_patch_call_output": ("apco", ("call_id",)),
    "tool_search_call": ("tsc", ()),
    "tool_search_output": ("tso", ()),
    "compaction": ("cmp", ("encrypted_content?",)),
    "compaction_trigger": ("cmpt", ()),
    "program": ("prog", ("code?",)),
    "program_output": ("progo", ("result?",)),
    "additional_tools": ("at", ()),
}


def id_prefix(item_type: str) -> str:
    """The prefix of ids of items of this type, such as `msg`."""
    return _KINDS[item_type][0] if item_type in _KINDS else "item"


def normalize_input(value: object, *, allow_private_urls: bool = False) -> list[Json]:
    """The items of `input`. Content parts that stand between items become one user message per run.

    Raises InvalidRequest, whose `param` is the path of what is wrong; `Duplicate item` when an id comes twice.
    """
    if isinstance(value, str):
        return [_message("user", [text_part("user", value)])]
    if not isinstance(value, list):
        raise InvalidRequest.wrong_type("input", "a string or an array of items", value)
    items: list[Json] = []
    loose: list[Json] | None = None
    seen: set[str] = set()
    for index, entry in enumerate(cast("list[object]", value)):
        path = f"input[{index}]"
        fields = Fields(entry, path)
        kind = _kind(fields)
        if kind in INPUT_PARTS:
            part = normalize_loose_part(entry, path, allow_private_urls=allow_private_urls)
            if loose is None:
                loose = []
                items.append(_message("user", loose))
            loose.append(part)
            continue
        loose = None
        item = _normalize_item(kind, fields, cast("Json", entry), allow_private_urls)
        identifier = item.get("id")
        if identifier is not None:
            if identifier in seen:
                raise InvalidRequest.duplicate_item("input", identifier)
            seen.add(identifier)
        items.append(item)
    return items


def has_substance(items: Sequence[Json]) -> bool:
    """Whether there is anything to answer: something else than messages without text."""
    return any(
        item["type"] != "message" or any(part.get("text", part.get("refusal", part)) for part in item["content"])
        for item in items
    )


def with_ids(items: Sequence[Json], response_id: str) -> list[Json]:
    """Copies of `items`, each with an id: the client's, or a new one that carries the place of the response."""
    return [item if "id" in item else {"id": item_id(id_prefix(item["type"]), response_id), **item} for item in items]


def item_references(items: Sequence[Json]) -> list[str]:
    """Ids of stored items that `items` point at, in order. AI SDK sends references by default."""
    return [item["id"] for item in items if item["type"] == "item_reference"]


def resolve_references(items: Sequence[Json], found: Mapping[str, Json]) -> list[Json]:
    """`items` with each reference replaced by the stored item. Raises InvalidRequest when one is not in `found`."""
    resolved: list[Json] = []
    for item in items:
        if item["type"] == "item_reference":
            if item["id"] not in found:
                raise ApiError.reference_not_found(item["id"])
            item = found[item["id"]]
        resolved.append(item)
    return resolved


def _kind(fields: Fields) -> str:
    kind = fields.string("type")
    if kind is None:
        if fields.has("role"):
            return "message"
        if fields.has("id"):
            return "item_reference"
        raise InvalidRequest.missing(fields.path("type"))
    if kind not in _KINDS and kind not in INPUT_PARTS:
        raise InvalidRequest.not_one_of(fields.path("type"), kind, tuple(_KINDS))
    return kind


def _message(role: str, content: list[Json]) -> Json:
    return {"type": "message", "role": role, "status": "completed", "content": content}


def _normalize_item(kind: str, fields: Fields, entry: Json, allow_private_urls: bool) -> Json:
    for name in _KINDS[kind][1]:
        fields.required_string(name.rstrip("?"), empty=name.endswith("?"))
    item: Json = {"type": kind} | {
        name: value for name, value in entry.items() if value is not None and name not in ("type", "id")
    }
    if identifier := fields.string("id", max_length=_ID_LENGTH):
        item = {"id": identifier, **item}
    fields.string("status")
    match kind:
        case "message":
            role = fields.one_of("role", _ROLES)
            if role is None:
                raise InvalidRequest.missing(fields.path("role"))
            if not fields.has("content"):
                raise InvalidRequest.missing(fields.path("content"))
            fields.string("phase")
            item["content"] = normalize_parts(
                role, entry["content"], fields.path("content"), allow_private_urls=allow_private_urls
            )
        case "function_call_output" | "custom_tool_call_output":
            if not fields.has("output"):
                raise InvalidRequest.missing(fields.path("output"))
            item["output"] = normalize_output(
                entry["output"], fields.path("output"), allow_private_urls=allow_private_urls
            )
        case "reasoning":
            item["summary"] = _texts(fields, "summary", "summary_text")
            if fields.has("content"):
                item["content"] = _texts(fields, "content", "reasoning_text")
            fields.string("encrypted_content")
        case "mcp_approval_response":
            if fields.boolean("approve") is None:
                raise InvalidRequest.missing(fields.path("approve"))
        case "computer_call_output":
            screenshot = fields.nested("output")
            if screenshot is None:
                raise InvalidRequest.missing(fields.path("output"))
            item["output"] = normalize_screenshot(screenshot, allow_private_urls=allow_private_urls)
        case "code_interpreter_call":
            check_outputs(fields, allow_private_urls=allow_private_urls)
        case "image_generation_call":
            check_result(fields, allow_private_urls=allow_private_urls)
        case _:
            pass
    if kind in ("message", "function_call", "function_call_output"):
        item.setdefault("status", "completed")
    return item


def _texts(fields: Fields, name: str, kind: str) -> list[Json]:
    parts: list[Json] = []
    for index, value in enumerate(fields.array(name) or []):
        part = Fields(value, f"{fields.path(name)}[{index}]")
        parts.append({"type": kind, "text": part.required_string("text", empty=True)})
    return parts
