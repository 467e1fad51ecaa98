"""One function or MCP call, from its first fragment to its item. `calls` decides whose call it is."""

from collections.abc import Mapping
from typing import Any, Literal, cast

from hosting.responses.output import Item, Output
from hosting.responses.tool_results import arguments_text
from hosting.responses.well_formed import well_formed

__all__ = ["SERVER_LABEL", "Call"]

SERVER_LABEL = "agent"
"""The server label of calls that the agent itself executes."""

_EVENTS = {"function_call": "response.function_call_arguments", "mcp_call": "response.mcp_call_arguments"}


class Call:
    """While its `kind` is not known, it is held back: nothing of it has been shown."""

    __slots__ = (
        "_chunks",
        "_index",
        "_mapping",
        "_output",
        "_place",
        "approval_request_id",
        "call_id",
        "closed",
        "declined",
        "id",
        "kind",
        "label",
        "name",
        "occurrence",
        "scope",
        "server",
        "settled",
    )

    def __init__(self, output: Output, call_id: str, occurrence: str | None, name: str, scope: int) -> None:
        self._output = output
        self._chunks: list[str] = []
        self._mapping: dict[str, Any] | None = None
        self._index = -1
        self._place: dict[str, Any] = {}
        self.call_id = call_id
        self.occurrence = occurrence
        self.name = name
        self.scope = scope
        self.label = SERVER_LABEL
        self.id = ""
        self.kind: Literal["function_call", "mcp_call"] | None = None
        """None while the call is held back."""
        self.closed = False
        self.server = False
        """Known to be no client's: never handed over, whatever happens."""
        self.settled = False
        """Its result was seen."""
        self.approval_request_id: str | None = None
        self.declined = False
        """The approval request was answered with no: nothing was executed."""

    def add(self, arguments: object) -> None:
        """A fragment of the arguments: text goes out at once, an object is merged and goes out at the end."""
        if self.closed or not arguments:
            return
        if isinstance(arguments, Mapping):
            self._mapping = {**(self._mapping or {}), **cast("Mapping[str, Any]", arguments)}
            return
        text = arguments_text(arguments)
        if len(self._chunks) == 1 and self._chunks[0] == text and text[0] + text[-1] == "{}":
            return  # the whole call again, as a client that repeats it when it is done sends it
        self._chunks.append(text)
        self._delta(text)

    def replace(self, arguments: object) -> None:
        """All arguments at once, after or instead of fragments of them."""
        text = arguments_text(arguments)
        if self.closed:
            return
        sent = "".join(self._chunks)
        self._mapping = None
        self._chunks = [text]
        if text.startswith(sent):
            self._delta(text[len(sent) :])

    def open(self, kind: Literal["function_call", "mcp_call"]) -> None:
        """Announce the item. What was held back of the arguments follows in one delta."""
        self.kind = kind
        self.id = self._output.new_id("fc" if kind == "function_call" else "mcp")
        self._index = self._output.add(self._item("in_progress", ""))
        self._place = {"item_id": self.id, "output_index": self._index}
        if kind == "mcp_call":
            self._output.emit("response.mcp_call.in_progress", **self._place)
        self._delta("".join(self._chunks))

    def close(self, status: str, *, output: str | None = None, error: str | None = None) -> None:
        """End the item. For an MCP call `output` or `error` is what the tool returned."""
        if self.kind is None or self.closed:
            return
        self.closed = True
        if self._mapping is not None:
            self._chunks.append(arguments_text(self._mapping))
            self._delta(self._chunks[-1])
        arguments = well_formed("".join(self._chunks))
        if not arguments:  # clients parse the arguments as JSON
            arguments = "{}"
            self._delta(arguments)
        named = {"name": self.name or "tool"} if self.kind == "function_call" else {}
        self._output.emit(f"{_EVENTS[self.kind]}.done", **self._place, arguments=arguments, **named)
        item = self._item(status, arguments)
        if self.kind == "mcp_call":
            if error is not None:
                item["status"] = "failed"
                item["error"] = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": error}]}
            item["output"] = output
            if item["status"] in ("completed", "failed"):
                self._output.emit(f"response.mcp_call.{item['status']}", **self._place)
        self._output.done(self._index, item)

    def _delta(self, text: str) -> None:
        if text and self.kind is not None:
            self._output.emit_at(f"{_EVENTS[self.kind]}.delta", self._place, {"delta": text})

    def _item(self, status: str, arguments: str) -> Item:
        item: Item = {"id": self.id, "type": self.kind, "status": status}
        name = self.name or "tool"
        if self.kind == "function_call":
            return item | {"call_id": self.call_id, "name": name, "arguments": arguments}
        return item | {
            "server_label": self.label,
            "name": name,
            "arguments": arguments,
            "approval_request_id": self.approval_request_id,
            "output": None,
            "error": None,
        }
