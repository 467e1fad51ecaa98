"""From wire items to agent-framework messages. agent_framework is imported here when it is first needed, not before.

Items are the normal form of input_items, or what a renderer put out: the output of a turn can be the input of the next.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hosting.responses.call_item import SERVER_LABEL
from hosting.responses.compaction import compacted_text
from hosting.responses.errors import ApiError, InvalidRequest
from hosting.responses.input_items import has_substance, normalize_input
from hosting.responses.json_body import check_depth

if TYPE_CHECKING:
    from agent_framework import Content, Message

__all__ = ["messages_from_items", "messages_from_responses_input"]

type Json = dict[str, Any]

# Nothing that a model could be told: listings, markers, programs of other services.
_SKIPPED = frozenset({"mcp_list_tools", "additional_tools", "compaction_trigger", "program", "program_output"})
_TOOL_OUTPUTS = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "apply_patch_call_output",
        "tool_search_output",
        "computer_call_output",
        "shell_call_output",
        "local_shell_call_output",
    }
)


def messages_from_responses_input(value: object, *, allow_private_urls: bool = False) -> "list[Message]":
    """Messages of a request's `input`, a string or an array of items.

    Raises InvalidRequest (a ValueError) for what is malformed or empty, and for an `item_reference`: only a server that
    stores items can resolve one.
    """
    if value is None:
        raise InvalidRequest("Missing required parameter: 'input'. Expected a non-empty input.", param="input")
    check_depth(value)
    items = normalize_input(value, allow_private_urls=allow_private_urls)
    if not has_substance(items):
        raise InvalidRequest("Invalid 'input': expected a non-empty input.", param="input", code="invalid_value")
    return messages_from_items(items)


def messages_from_items(items: Iterable[Json]) -> "list[Message]":
    """Messages of stored items, oldest first.

    Reasoning, calls and one assistant text in a row make one assistant message, as agents produce them; outputs of tools
    in a row make one tool message. Empty texts, and calls that were cut off, are left out: no model can do anything
    with them. Raises InvalidRequest for an unresolved `item_reference`.
    """
    grouped = _Grouping()
    for item in items:
        _add(grouped, item)
    return grouped.messages


class _Grouping:
    """Puts contents into messages by role."""

    def __init__(self) -> None:
        from agent_framework import Message

        self._make = Message
        self.messages: list[Message] = []
        self._has_text = False

    def add(self, role: str, contents: "list[Content]") -> None:
        """Contents that may share a message with what came before them."""
        if not contents:
            return
        if self.messages and self.messages[-1].role == role and role in ("assistant", "tool"):
            self.messages[-1].contents.extend(contents)
        else:
            self.messages.append(self._make(role, contents))
            self._has_text = False

    def add_message(self, role: str, contents: "list[Content]", item: Json) -> None:
        """A message of its own; an assistant's joins the reasoning and the calls before it, not another text."""
        if not contents:
            return
        if role != "assistant" or self._has_text or not (self.messages and self.messages[-1].role == role):
            self.messages.append(self._make(role, contents))
        else:
            self.messages[-1].contents.extend(contents)
        self._has_text = role == "assistant"
        self.messages[-1].message_id = item.get("id")
        if item.get("phase") is not None:
            self.messages[-1].additional_properties["openai"] = {"phase": item["phase"]}


def _add(grouped: _Grouping, item: Json) -> None:
    from hosting.responses import assistant_contents, contents  # agent_framework comes with them

    kind = item["type"]
    if kind == "message":
        made = [content for part in item["content"] if (content := contents.from_part(part)) is not None]
        grouped.add_message(item["role"], made, item)
    elif kind in _SKIPPED:
        return
    elif kind == "compaction":
        if text := compacted_text(item):
            grouped.add_message("assistant", [contents.from_text(text)], item)
    elif kind == "item_reference":
        raise ApiError.reference_not_found(item["id"])
    elif kind in _TOOL_OUTPUTS:
        grouped.add("tool", [contents.from_tool_output(item)])
    elif kind == "mcp_approval_response":
        grouped.add("user", [contents.from_approval_response(item)])
    elif kind == "mcp_call" and item.get("server_label") == SERVER_LABEL:
        # Our own tool: the model is told about it as about any function, whatever service it runs at.
        if item.get("status") != "incomplete":
            grouped.add("assistant", [assistant_contents.from_server_call(item)])
            grouped.add("tool", [assistant_contents.from_server_result(item)])
    elif not (kind == "function_call" and item.get("status") == "incomplete"):
        grouped.add("assistant", assistant_contents.from_assistant_item(item))
