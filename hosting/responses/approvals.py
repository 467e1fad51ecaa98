"""A client's answers to what an agent has asked for: whether they answer anything, and which of them say no.

agent-framework keeps what it has asked in the session and executes nothing else, whatever a client sends. It drops other
answers without a word, so they are refused here.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from hosting.responses.errors import InvalidRequest, shortened

__all__ = ["check_approvals", "declined"]

type Json = Mapping[str, Any]


def check_approvals(items: Iterable[Json], state: Mapping[str, object]) -> None:
    """`state` is that of the agent's session. Raises InvalidRequest with param `input` for an approval response to a request
    that is not open, and for two to one. What was executed in a history that the client sends again is no answer any more.
    """
    given = list(items)
    executed = {item.get("approval_request_id") for item in given if item["type"] == "mcp_call"}
    brought = {item["id"] for item in given if item["type"] == "mcp_approval_request"}
    pending, answered = _pending(state), set[str]()
    for item in given:
        if item["type"] != "mcp_approval_response":
            continue
        identifier: str = item["approval_request_id"]
        if identifier in answered:
            raise InvalidRequest(f"Two answers were given to {shortened(identifier)}.", param="input")
        if identifier in pending:
            answered.add(identifier)
        elif identifier not in executed:
            message = (
                f"No approval request found for approval response with approval_request_id {shortened(identifier)}."
            )
            if identifier in brought:  # anybody can make one up
                message += " Name the conversation that it was asked in: 'previous_response_id' or 'conversation'."
            raise InvalidRequest(message, param="input")


def declined(items: Iterable[Json]) -> set[str]:
    """Ids of the approval requests that are answered with no."""
    return {
        item["approval_request_id"] for item in items if item["type"] == "mcp_approval_response" and not item["approve"]
    }


def _pending(state: Mapping[str, object]) -> set[str]:
    requests: Any = _get(state.get("tool_approval"), "pending_approval_requests")
    listed = cast("list[object]", requests) if isinstance(requests, list) else []
    return {str(_get(request, "id")) for request in listed}


def _get(entry: Any, name: str) -> Any:
    return cast("Mapping[str, Any]", entry).get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)
