"""Server-sent events: one frame per event, ready to be written in one piece.

The Open Responses suite loses an event whose frame arrives in two reads, so a frame is never split.
"""

import json
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Any

from hosting.responses.errors import ApiError

__all__ = ["DONE", "KEEP_ALIVE", "DeltaFrames", "encode_event", "error_event", "event_frame"]

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
    return event_frame(event, with_id=with_id).encode()


def event_frame(event: Mapping[str, Any], *, with_id: bool = False) -> str:
    """The same as text; it can always be encoded."""
    head = f"id: {event['sequence_number']}\n" if with_id else ""
    text = _delta(event) or _dump(event)
    if not text.isascii():
        try:
            text = _one_line(text)
        except UnicodeEncodeError:  # half a surrogate pair out of a model: escaped, it at least gets through
            text = _dump_ascii(event)
    return f"{head}event: {event['type']}\ndata: {text}\n\n"


class DeltaFrames:
    """Frames of the plain deltas of one text: what they have in common is written once."""

    __slots__ = ("_head", "_middle")

    def __init__(self, event_type: str, place: Mapping[str, str | int]) -> None:
        """`place` is what such an event has between its number and its `delta`."""
        self._head = f'event: {event_type}\ndata: {{"type":{encode_basestring(event_type)},"sequence_number":'
        self._middle = "".join(f",{encode_basestring(name)}:{_dump(value)}" for name, value in place.items())

    def frame(self, number: int, text: str) -> str:
        """What `event_frame` makes of the delta `text` without log probabilities."""
        quoted = encode_basestring(text)
        if not text.isascii():
            try:
                quoted = _one_line(quoted)
            except UnicodeEncodeError:
                quoted = _dump_ascii(text)
        return f'{self._head}{number}{self._middle},"delta":{quoted},"logprobs":[]}}\n\n'


def _one_line(text: str) -> str:
    """With what some take for line ends escaped. Raises UnicodeEncodeError for halves of surrogate pairs."""
    text.encode()
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# Deltas: how many fields they have, the one that says where in the item they belong, what comes after the text.
_DELTAS: Mapping[str, tuple[int, str, str]] = {
    "response.output_text.delta": (7, "content_index", ',"logprobs":[]'),
    "response.refusal.delta": (6, "content_index", ""),
    "response.reasoning_text.delta": (6, "content_index", ""),
    "response.reasoning_summary_text.delta": (6, "summary_index", ""),
    "response.function_call_arguments.delta": (5, "output_index", ""),
    "response.mcp_call_arguments.delta": (5, "output_index", ""),
}


def _delta(event: Mapping[str, Any]) -> str | None:
    """The JSON of a delta, None for anything else: setting up a JSON encoder for each would cost more than rendering it."""
    shape = _DELTAS.get(event["type"])
    if shape is None or len(event) != shape[0]:
        return None
    try:
        number, item, output = event["sequence_number"], event["item_id"], event["output_index"]
        index, text = event[shape[1]], event["delta"]
        if shape[2] and event["logprobs"] != []:
            return None
    except KeyError:
        return None
    if not (type(number) is type(output) is type(index) is int and type(item) is type(text) is str):
        return None
    place = "" if shape[1] == "output_index" else f'"{shape[1]}":{index},'
    return (
        f'{{"type":"{event["type"]}","sequence_number":{number},"item_id":{encode_basestring(item)},'
        f'"output_index":{output},{place}"delta":{encode_basestring(text)}{shape[2]}}}'
    )


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
