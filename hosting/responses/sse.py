"""Server-sent events: one frame per event, ready to be written in one piece.

The Open Responses suite loses an event whose frame arrives in two reads, so a frame is never split.
"""

import json
from collections.abc import Mapping
from typing import Any

from hosting.responses.errors import ApiError

__all__ = ["DONE", "KEEP_ALIVE", "encode_event", "error_event"]

DONE = b"data: [DONE]\n\n"
"""The last frame of a stream. Open Responses requires it and every client accepts it."""

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: all clients skip it, idle timeouts of proxies don't."""

_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_dump_ascii = json.JSONEncoder(separators=(",", ":"), default=str).encode


def encode_event(event: Mapping[str, Any], *, with_id: bool = False) -> bytes:
    """`event:` and `data:` lines of one event. `with_id` adds `id:` with the sequence number, for Last-Event-ID.

    The JSON is one line for every reader: U+2028 and U+2029, which some count as line ends, are escaped.
    """
    try:
        data = _dump(event).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode()
    except UnicodeEncodeError:  # half a surrogate pair out of a model: escaped, it at least gets through
        data = _dump_ascii(event).encode()
    head = f"id: {event['sequence_number']}\n" if with_id else ""
    return f"{head}event: {event['type']}\ndata: ".encode() + data + b"\n\n"


def error_event(error: ApiError, *, sequence_number: int) -> dict[str, Any]:
    """The event for a stream that breaks for a reason outside the agent (whose own failure is `response.failed`).

    It has the documented flat fields and the nested `error` that the live service sends: openai-python raises only
    when `error` is there, others read only the flat ones.
    """
    detail = error.body()["error"]
    return {
        "type": "error",
        "sequence_number": sequence_number,
        "code": detail["code"],
        "message": detail["message"],
        "param": detail["param"],
        "error": detail,
    }
