"""Long conversations made short, for POST /v1/responses/compact: no model is asked, so nothing is made up.

    effective input  ->  its user, system and developer messages, as they are  +  one `compaction` item
    next input       ->  those messages  +  one assistant message that tells what the others said and did

The compaction item holds a shortened record of what was left out (what the assistant said, calls and their outputs; not
its reasoning) as base64 of JSON in `encrypted_content`. That is the field's name in the API; here it is neither encrypted
nor signed. It need not be: a client could send the same text as an assistant message, and as that it is read.

Content that this server did not make, another service's or a damaged one, can't be read. It is no error, because a handler
of the app's own may understand it: agents are told, in its place, that something is missing.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from hosting.ids import item_id
from hosting.responses.create_request import CreateRequest, parse_create_request
from hosting.responses.errors import InvalidRequest
from hosting.responses.input_items import id_prefix, with_ids
from hosting.responses.tool_pairs import check_tool_pairs
from hosting.responses.tool_results import arguments_text

__all__ = ["UNREADABLE", "compact", "compacted_text", "parse_compact_request"]

type Json = dict[str, Any]

UNREADABLE = "[An earlier part of this conversation was compacted by another service and can't be read here.]"
"""What an agent is told in the place of content that this server did not make."""

_FORMAT = "hosting.compaction"
_VERSION = 1

_KEPT_ROLES = ("user", "system", "developer")
_SAID_LIMIT = 2_000
"""Characters that are kept of one message of the assistant."""
_CALL_LIMIT = 400
"""Of the arguments, and of the output, of one call."""
_LIMIT = 24_000
"""Of all together. What is oldest goes first."""

_LONGEST = 1_000_000
"""Characters of content that can be of this server: some 300,000 at most. A client can send any, and JSON that counts as one
text when a body is checked may be eight million values."""
_HIGHEST = 2**53
"""Of a number in it. Python's have no end, and can't be printed from 4,300 digits on."""

_OPENING = "Summary of this conversation so far. The messages before it are complete; this is what came between them."


def parse_compact_request(body: object, *, allow_private_urls: bool = False) -> CreateRequest:
    """The request to compact: `model` is required, and `input` or `previous_response_id`. Raises InvalidRequest.

    `instructions` are accepted and have no effect.
    """
    if isinstance(body, dict):
        fields = cast("Json", body)
        names = ("model", "input", "previous_response_id", "instructions", "prompt_cache_key")
        body = {name: fields[name] for name in names if name in fields}
    request = parse_create_request(body, allow_private_urls=allow_private_urls, input_required=False)
    if request.model is None:
        raise InvalidRequest.missing("model")
    if not request.input_items and request.previous_response_id is None:
        raise InvalidRequest.missing("input")
    return request


def compact(items: Sequence[Json], *, response_id: str, created_at: int) -> Json:
    """The `response.compaction` object for `items`, the wire items of the whole effective input, oldest first.

    `response_id` is the object's id and gives its items theirs; `created_at` in seconds since 1970. `usage` is all 0: no
    model has run. Raises InvalidRequest for a call that waits for its answer: it would be lost. Answer it first.
    """
    check_tool_pairs([], items)
    kept = [item for item in items if item["type"] == "message" and item["role"] in _KEPT_ROLES]
    compaction: Json = {
        "id": item_id(id_prefix("compaction"), response_id),
        "type": "compaction",
        "encrypted_content": _encode(_record(items)),
    }
    nothing: Json = {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }
    return {
        "id": response_id,
        "object": "response.compaction",
        "created_at": created_at,
        "output": [*with_ids(kept, response_id), compaction],
        "usage": nothing,
    }


def compacted_text(item: Json) -> str:
    """What an agent is to be told for a `compaction` item; UNREADABLE for one that this server did not make.

    Empty when nothing was left out.
    """
    record = _decode(item.get("encrypted_content"))
    if record is None:
        return UNREADABLE
    lines = [_line(entry) for entry in record["entries"]]
    if omitted := record["omitted"]:
        lines.insert(0, f"({omitted} earlier entries were left out.)")
    return "\n".join([_OPENING, *lines]) if lines else ""


def _record(items: Sequence[Json]) -> Json:
    """Entries `{"after", "text"}`: what was said or done, after how many of the messages that are kept."""
    entries: list[Json] = []
    omitted = kept = 0
    calls = {item["call_id"] for item in items if item["type"].endswith("_call") and "call_id" in item}
    outputs = {
        item["call_id"]: item for item in items if item["type"].endswith("_output") and item.get("call_id") in calls
    }
    for item in items:
        if item["type"] == "message" and item["role"] in _KEPT_ROLES:
            kept += 1
        elif item["type"] == "compaction":
            earlier = _decode(item.get("encrypted_content"))
            if earlier is None:
                entries.append({"after": kept, "text": UNREADABLE})
            else:
                entries += earlier["entries"]
                omitted += earlier["omitted"]
        elif text := _text_of(item, outputs):
            entries.append({"after": kept, "text": text})
    size = sum(len(entry["text"]) for entry in entries)
    first = 0
    while size > _LIMIT:
        size -= len(entries[first]["text"])
        first += 1
    return {"entries": entries[first:], "omitted": omitted + first}


def _text_of(item: Json, outputs: dict[str, Json]) -> str:
    """An item in a few words; empty for what says nothing by itself, such as the output of a call that is told with it."""
    kind = item["type"]
    if kind == "message":
        said = "\n".join(filter(None, (part.get("text") or part.get("refusal") for part in item["content"])))
        return f"assistant: {_shortened(said, _SAID_LIMIT)}" if said else ""
    if kind == "mcp_approval_request":
        return f"assistant asked for approval to call {_called(item)}"
    if kind == "mcp_approval_response":
        return f"user {'approved' if item.get('approve') else 'refused'} that"
    answer = outputs.get(item.get("call_id") or "")
    if kind.endswith("_output"):
        return "" if answer is not None else f"a tool returned{_result(item)}"
    return f"assistant called {_called(item)}{_result(answer or item)}" if kind.endswith("_call") else ""


def _called(item: Json) -> str:
    name = item.get("name") or item["type"].removesuffix("_call")
    given = next((item[n] for n in ("arguments", "input", "action", "actions", "queries", "code") if item.get(n)), "")
    return f"{name}({_shortened(_plain(given), _CALL_LIMIT)})"


def _result(item: Json) -> str:
    output = next((item[name] for name in ("output", "error", "results", "outputs") if item.get(name)), None)
    return f" -> {_shortened(_plain(output), _CALL_LIMIT)}" if output is not None else ""


def _plain(value: object) -> str:
    """Text as it is; of parts their texts, and the type of others: images and files are not carried along."""
    if isinstance(value, list):
        parts = [cast("Json", part) for part in cast("list[object]", value) if isinstance(part, dict)]
        if parts and all(isinstance(part.get("type"), str) for part in parts):
            return "\n".join(str(part.get("text") or part.get("logs") or f"[{part['type']}]") for part in parts)
    return arguments_text(cast("object", value))


def _shortened(text: str, limit: int) -> str:
    """Its beginning and its end."""
    return text if len(text) <= limit else f"{text[: limit // 2]} [...] {text[-limit // 2 :]}"


def _line(entry: Json) -> str:
    return f"[after message {entry['after']}] {entry['text']}" if entry["after"] else entry["text"]


def _encode(record: Json) -> str:
    document = {"format": _FORMAT, "version": _VERSION, **record}
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(text.encode(errors="replace")).decode()


def _decode(content: object) -> Json | None:
    """The record, None for anything that `_encode` did not make. Never raises."""
    if not isinstance(content, str) or len(content) > _LONGEST:
        return None
    try:
        document: object = json.loads(base64.b64decode(content, validate=True))
    except (ValueError, RecursionError):  # no base64, no UTF-8, no JSON
        return None
    if not isinstance(document, dict):
        return None
    fields = cast("Json", document)
    if (fields.get("format"), fields.get("version")) != (_FORMAT, _VERSION):
        return None
    omitted = fields.get("omitted")
    return {
        "entries": list(_entries(fields.get("entries"))),
        "omitted": omitted if type(omitted) is int and 0 < omitted < _HIGHEST else 0,
    }


def _entries(value: object) -> Iterator[Json]:
    for entry in cast("Iterable[object]", value) if isinstance(value, list) else ():
        if isinstance(entry, dict):
            fields = cast("Json", entry)
            after, text = fields.get("after"), fields.get("text")
            if type(after) is int and abs(after) < _HIGHEST and isinstance(text, str):
                yield {"after": after, "text": text}
