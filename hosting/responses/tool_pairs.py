"""Every tool call that a client has to answer must be answered, and every answer needs its call.

Models refuse a history that breaks this, so the API refuses the request: 400, with OpenAI's messages. Calls that the
server executed itself are other items (see output_items) and no part of this; neither are calls that were cut off,
whose arguments nobody can act on.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from hosting.responses.create_request import CreateRequest
from hosting.responses.errors import InvalidRequest, shortened

__all__ = ["check_open_calls", "check_tool_pairs", "open_calls"]

type Json = dict[str, Any]

_NAMES = {"function_call": "function call", "custom_tool_call": "custom tool call", "computer_call": "computer call"}
_CALL_OF = {f"{kind}_output": kind for kind in _NAMES}


def check_tool_pairs(history_items: Iterable[Json], new_items: Iterable[Json]) -> None:
    """Check the whole effective input of a turn: the items before it, then its own.

    An answer may come anywhere after its call (Semantic Kernel repeats the user message in between). Raises
    InvalidRequest with param `input`. A call of the history that was left open is an error of this request.
    """
    waiting: dict[tuple[str, str], None] = {}
    answered: set[tuple[str, str]] = set()
    for items in (history_items, new_items):
        for item in items:
            kind = item["type"]
            if kind in _NAMES and item.get("status") != "incomplete":
                waiting[kind, item["call_id"]] = None
            elif kind in _CALL_OF:
                key = (_CALL_OF[kind], item["call_id"])
                if key in waiting:
                    del waiting[key]
                    answered.add(key)
                elif key not in answered:  # a second answer is harmless: sessions resend what was stored
                    raise _no_call(*key)
    for key in waiting:
        raise _no_output(*key)


def open_calls(items: Iterable[Json]) -> list[str]:
    """call_ids in the output of a response that the client still has to answer."""
    answered = {item["call_id"] for item in items if item["type"] in _CALL_OF}
    return [
        item["call_id"]
        for item in items
        if item["type"] in _NAMES and item.get("status") != "incomplete" and item["call_id"] not in answered
    ]


def check_open_calls(open_calls: Sequence[str], request: CreateRequest) -> None:
    """The same check when only the open calls of the previous turn are known, not all items before it.

    Every one of `open_calls` must be answered by the request, and the request must answer nothing else than these and
    calls that it brings along. Raises InvalidRequest with param `input`.
    """
    # The list does not tell the kinds of calls apart: a call counts as being of the kind that its answer has.
    kinds = {item["call_id"]: _CALL_OF[item["type"]] for item in request.input_items if item["type"] in _CALL_OF}
    history = [{"type": kinds.get(call_id, "function_call"), "call_id": call_id} for call_id in open_calls]
    check_tool_pairs(history, request.input_items)


def _no_output(kind: str, call_id: str) -> InvalidRequest:
    return InvalidRequest(f"No tool output found for {_NAMES[kind]} {shortened(call_id)}.", param="input")


def _no_call(kind: str, call_id: str) -> InvalidRequest:
    return InvalidRequest(
        f"No tool call found for {_NAMES[kind]} output with call_id {shortened(call_id)}.", param="input"
    )
