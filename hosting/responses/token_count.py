"""How many tokens a request has as its input, for POST /v1/responses/input_tokens. An estimate.

No tokenizer is at hand: agents may run any model, and tokenizers fetch their tables over the network. Text counts one
token for four bytes of UTF-8, the usual rule of thumb, which agent-framework's own estimator follows too (in characters;
bytes are nearer for scripts whose letters take several). Expect 10 to 30 percent off for prose, more for code and tables.

Counted are the items, the request's instructions, its tools and the schema of its text format. Not counted is what only
the server knows: the agent's own instructions and tools, and what context providers add.
"""

import json
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any, cast

from hosting.responses.create_request import CreateRequest, parse_create_request

__all__ = ["estimate_input_tokens", "estimate_items", "parse_input_tokens_request"]

type Json = dict[str, Any]

_FIELDS = (
    "model",
    "input",
    "previous_response_id",
    "conversation",
    "tools",
    "text",
    "reasoning",
    "truncation",
    "instructions",
    "tool_choice",
    "parallel_tool_calls",
)

_BYTES_PER_TOKEN = 4
_PER_ITEM = 4
"""Tokens that separate and label a message, a call or a tool."""

# As OpenAI documents them for its models with tiles: the flat price of low detail, and four tiles of 512 pixels.
_IMAGE = {"low": 85}
_IMAGE_HIGH = 85 + 4 * 170
_AUDIO_BYTES_PER_TOKEN = {"wav": 3200, "mp3": 1600}
"""10 tokens a second, at 16 kHz and 16 bits, and at 128 kbit/s."""
_FILE_BY_REFERENCE = 1000
"""A file of which only a name is known. A guess."""

# Names and marks that no model reads, and content that is no text.
_SILENT = frozenset(
    {
        "id",
        "type",
        "role",
        "status",
        "call_id",
        "encrypted_content",
        "annotations",
        "logprobs",
        "phase",
        "detail",
        "server_label",
        "approval_request_id",
        "container_id",
        "created_by",
        "sources",
    }
)


def parse_input_tokens_request(body: object, *, allow_private_urls: bool = False) -> CreateRequest:
    """The request to count, checked like one that is to run; every field may be absent.

    Raises InvalidRequest. Fields that say how to run it (`stream`, `store`, ...) are ignored.
    """
    if isinstance(body, dict):
        fields = cast("Json", body)
        body = {name: fields[name] for name in _FIELDS if name in fields}
    return parse_create_request(body, allow_private_urls=allow_private_urls, input_required=False)


def estimate_input_tokens(request: CreateRequest | Mapping[str, Any], history: Iterable[Mapping[str, Any]] = ()) -> int:
    """The estimated tokens of a request, a parsed one or a body, and of the items that it continues.

    `history` are the wire items of the turns before: their inputs and outputs. An empty request has 0.
    Raises InvalidRequest for a malformed body.
    """
    if not isinstance(request, CreateRequest):
        request = parse_input_tokens_request(request)
    tokens = estimate_items([*history, *request.input_items])
    if request.instructions:
        tokens += _PER_ITEM + _text(request.instructions)
    for tool in request.tools:
        tokens += _PER_ITEM + _json({name: value for name, value in tool.items() if name not in _SECRET})
    if format := (request.text or {}).get("format"):
        tokens += _json(format) if format.get("type") == "json_schema" else 0
    return tokens


def estimate_items(items: Iterable[Mapping[str, Any]]) -> int:
    """The estimated tokens of wire items alone."""
    return sum(_PER_ITEM + _value(item) for item in items)


_SECRET = ("authorization", "headers")


def _value(value: object) -> int:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value)
        match entries.get("type"):
            case "input_image" | "computer_screenshot":
                return _IMAGE.get(entries.get("detail") or "", _IMAGE_HIGH)
            case "input_audio":
                return _audio(entries.get("input_audio"))
            case "input_file":
                return _file(entries)
            case "image_generation_call":
                return _IMAGE_HIGH if entries.get("result") else 0
            case "compaction":  # what it holds is text, in base64
                return _text(str(entries.get("encrypted_content") or "")) * 3 // 4
            case _:
                return sum(_value(entry) for name, entry in entries.items() if name not in _SILENT)
    if isinstance(value, (list, tuple)):
        return sum(map(_value, cast("list[object]", value)))
    return 0 if value is None or isinstance(value, bool) else _text(str(value))


def _text(text: str) -> int:
    return ceil(len(text.encode(errors="replace")) / _BYTES_PER_TOKEN)


def _json(value: object) -> int:
    return _text(json.dumps(value, ensure_ascii=False, default=str))


def _audio(audio: object) -> int:
    fields = cast("Json", audio) if isinstance(audio, dict) else {}
    size = _decoded_size(str(fields.get("data") or ""))
    return ceil(size / _AUDIO_BYTES_PER_TOKEN.get(str(fields.get("format")), 1600))


def _file(file: Mapping[str, Any]) -> int:
    name = _text(str(file.get("filename") or ""))
    header, _, data = str(file.get("file_data") or "").partition(",")
    if not data:
        return name + _FILE_BY_REFERENCE
    # The text of a PDF or an office document is a part of its bytes that nobody knows; a text file is all text.
    return name + ceil(_decoded_size(data) / _BYTES_PER_TOKEN / (1 if header.startswith("data:text/") else 4))


def _decoded_size(data: str) -> int:
    return len(data) * 3 // 4
