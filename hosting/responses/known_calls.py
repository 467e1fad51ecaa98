"""Calls that an earlier run of the agent made and that a later one executes: after an approval, or after a pause.

The later run brings only the result, so what the call was has to come from what the conversation remembers.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

__all__ = ["KnownCall", "known_calls", "known_calls_of_session"]


class KnownCall(NamedTuple):
    """A call without a result."""

    name: str
    arguments: object = None
    """JSON text, or an object."""
    server_name: str | None = None
    """The MCP server that executes it, None for the agent itself."""
    approval_request_id: str | None = None
    """The `mcp_approval_request` that asked for it."""
    declined: bool = False
    """The answer to that was no: what comes as its result only says so."""


def known_calls(history: Iterable[object]) -> dict[str, KnownCall]:
    """The unanswered calls in a history, oldest first, by each id that a result may name them by.

    A history is made of wire items, or of agent-framework messages (or contents), as objects or as their `to_dict()`.
    The last turn is enough: what it left open is what the next run executes.
    """
    found: dict[str, KnownCall] = {}
    for entry in history:
        if _get(entry, "type") == "mcp_approval_request" and _get(entry, "server_label") is not None:
            call = KnownCall(_text(entry, "name"), _get(entry, "arguments"), None, _text(entry, "id"))
            found[_text(entry, "id")] = call
            continue
        contents: Any = _get(entry, "contents")
        for content in cast("list[object]", contents) if isinstance(contents, (list, tuple)) else [entry]:
            _content(content, found)
    return found


def known_calls_of_session(state: Mapping[str, object]) -> dict[str, KnownCall]:
    """The same out of the state of an AgentSession, where providers keep messages and requests for approval in lists."""
    lists = [
        cast("list[object]", value)
        for kept in state.values()
        if isinstance(kept, Mapping)
        for value in cast("Mapping[str, object]", kept).values()
        if isinstance(value, list)
    ]
    return known_calls(entry for listed in lists for entry in listed)


def _content(content: object, found: dict[str, KnownCall]) -> None:
    match _get(content, "type"):
        case "function_call":
            # A call on the wire has its id for itself and is the client's to answer: its result never comes out of a run.
            _add(found, KnownCall(_text(content, "name"), _get(content, "arguments"), _server(content)), content)
        case "function_approval_request" if (asked := _get(content, "function_call")) is not None:
            request = _text(content, "id")
            call = KnownCall(_text(asked, "name"), _get(asked, "arguments"), _server(asked), request or None)
            _add(found, call, asked, content)
        case "function_result":
            for name in ("id", "call_id"):
                found.pop(_text(content, name), None)
        case _:
            pass


def _add(found: dict[str, KnownCall], call: KnownCall, *named_by: object) -> None:
    for source in named_by:
        for name in ("id", "call_id"):
            if call.name and (identifier := _text(source, name)):
                found[identifier] = call


def _server(call: object) -> str | None:
    return _text(call, "server_name") or None


def _text(entry: object, name: str) -> str:
    value = _get(entry, name)
    return value if isinstance(value, str) else ""


def _get(entry: Any, name: str) -> Any:
    return cast("Mapping[str, Any]", entry).get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)
