"""What a paused workflow waits for, in the items that a client can answer.

- an approval (a function approval request of agent-framework): `mcp_approval_request`, answered by `mcp_approval_response`;
- a function of the client's own that one of its agents calls: that `function_call`, answered by `function_call_output`;
- an action on the client's computer: `computer_call`, answered by `computer_call_output`;
- anything else: a `function_call` of `request_info`. Its call_id is the request's id and its arguments are what is asked;
  it is answered by `function_call_output`.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from hosting.responses.workflow_values import json_text, json_value

if TYPE_CHECKING:
    from agent_framework import Content, WorkflowEvent

__all__ = ["REQUEST_INFO", "OpenRequest", "open_requests", "request_content"]

REQUEST_INFO = "request_info"
"""The name of the function call that stands for a question of the workflow itself."""

type RequestKind = Literal["approval", "call", "computer"]

_KINDS: Mapping[str, RequestKind] = {
    "function_approval_request": "approval",
    "function_call": "call",
    "computer_tool_call": "computer",
}


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """One thing that a paused workflow waits for."""

    request_id: str
    """What the workflow calls it."""
    kind: RequestKind
    wire_id: str
    """What the client's answer names: an approval request's id, or a call_id."""

    def to_document(self) -> dict[str, str]:
        """As JSON."""
        return cast("dict[str, str]", asdict(self))

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> "OpenRequest":
        """What `to_document` gave."""
        return OpenRequest(document["request_id"], document["kind"], document["wire_id"])


def open_requests(pending: "Iterable[WorkflowEvent[Any]]") -> "list[tuple[OpenRequest, Content]]":
    """What is pending, with the content that ResponseRenderer makes the item of."""
    made: list[tuple[OpenRequest, Content]] = []
    used: set[str] = set()
    for event in pending:
        content = request_content(event, used)
        kind = _KINDS[content.type]
        wire_id = str(content.id if kind == "approval" else content.call_id)
        used.add(wire_id)
        made.append((OpenRequest(str(event.request_id), kind, wire_id), content))
    return made


def request_content(event: "WorkflowEvent[Any]", used: Iterable[str] = ()) -> "Content":
    """The content of a `request_info` event. `used` are ids that it can't have, because another one has them."""
    data: Any = event.data
    if _is_content(data) and data.type in _KINDS:
        data = copy.copy(data)
        data.user_input_request = True  # it is the client's, whatever else the run has called
        name = "id" if data.type == "function_approval_request" else "call_id"
        if not getattr(data, name) or getattr(data, name) in used:
            setattr(data, name, str(event.request_id))
        return data
    from agent_framework import Content

    content = Content.from_function_call(str(event.request_id), REQUEST_INFO, arguments=_arguments(data))
    content.user_input_request = True
    return content


def _arguments(data: object) -> str:
    """What is asked: an object as it is, anything else as the `request` of one."""
    if _is_content(data) and getattr(data, "type", None) == "text":
        data = getattr(data, "text", "")
    value = json_value(data)
    return json_text(cast("object", value) if isinstance(value, dict) else {"request": value})


def _is_content(value: object) -> bool:
    return hasattr(value, "additional_properties") and isinstance(getattr(value, "type", None), str)
