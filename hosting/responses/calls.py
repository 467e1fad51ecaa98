"""Function and MCP calls: fragments become items, and it is decided whose call each one is.

The client must answer every `function_call` in the output, and client loops execute all that they find. A call that the
server executes itself therefore never shows as one:

- the client declared the function: `function_call`, live from the first fragment;
- the agent runs it (a result follows in the same run): one `mcp_call` with server label "agent", arguments and output,
  which no client tries to answer. Its call is held back until the result is there, because until then nobody knows;
  functions named in `server_tools` are known from the start and show live;
- the agent asks for approval: `mcp_approval_request`, and the call itself is not shown;
- the run ends, or marks the call as waiting for its user: `function_call`. But when the run stopped for other calls or
  for approvals, what is left is the agent's own to execute in the next run, and is not shown. That run has the result
  only: the call is then one of the `known_calls` of the conversation.

`ServerCalls` changes how the second kind is shown.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import uuid4

from hosting.responses.known_calls import KnownCall
from hosting.responses.output import Item, Output
from hosting.responses.tool_results import FAILED, arguments_text, output_parts, output_text
from hosting.responses.well_formed import well_formed

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["SERVER_LABEL", "Call", "Calls", "ServerCalls"]

type ServerCalls = Literal["mcp_call", "function_call", "hidden"]
"""How calls that the server executed are shown: as `mcp_call`; as `function_call` plus `function_call_output`, as the
published helpers do, for clients that execute nothing; or not at all."""

SERVER_LABEL = "agent"
"""The server label of calls that the agent itself executes."""

_EVENTS = {"function_call": "response.function_call_arguments", "mcp_call": "response.mcp_call_arguments"}


class Call:
    """One call, from its first fragment to its item."""

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


class Calls:
    """All calls of one run."""

    def __init__(
        self, output: Output, client_tools: Collection[str], server_tools: Collection[str], show: ServerCalls
    ) -> None:
        self._output = output
        self._client_tools = client_tools
        self._server_tools = frozenset(server_tools)
        self._known: dict[str, KnownCall] = {}
        self._show = show
        self._calls: list[Call] = []
        self._by_occurrence: dict[str, Call] = {}
        self._by_call_id: dict[str, Call] = {}
        self._approvals: set[str] = set()
        self._tail: Call | None = None

    def add_server_tools(self, names: Collection[str]) -> None:
        """More functions that the agent executes without asking."""
        self._server_tools |= frozenset(names)

    def remember(self, known: Mapping[str, KnownCall]) -> None:
        """Calls of earlier runs that this one may execute."""
        self._known |= known

    def other_content(self) -> None:
        """Something else than a call came: a fragment without any id can't belong to the last call any more."""
        self._tail = None

    def known(self, content: "Content", scope: int) -> "Call | None":
        """The call that this fragment continues.

        By the framework's occurrence id, else by call_id, else (some providers stamp neither on later fragments) the
        call that came last in the same message.
        """
        occurrence, call_id = content.id or None, content.call_id or None
        if occurrence is not None and (call := self._by_occurrence.get(occurrence)):
            return call
        call = self._by_call_id.get(call_id) if call_id is not None else self._tail
        if call is None or call.settled or (call_id is None and call.scope != scope):
            return None
        if occurrence is not None and call.occurrence is not None:
            return None  # both have one and they differ: the call_id was used again
        return call

    def fragment(self, content: "Content", call: "Call | None", scope: int) -> None:
        """A function call, whole or a piece of one; `call` is what `known` said."""
        hosted = content.type == "mcp_server_tool_call"
        name = (content.tool_name if hosted else content.name) or ""
        if call is None:
            call = self._new(content, name, scope)
        if call.occurrence is None and content.id:
            call.occurrence = content.id
            self._by_occurrence[content.id] = call
        call.name = call.name or name
        call.scope = scope
        if content.merge_mode == "replace":
            call.replace(content.arguments)
        else:
            call.add(content.arguments)
        if call.kind is not None or call.settled:
            pass
        elif hosted or content.hosted or content.informational_only:
            call.label = content.server_name or SERVER_LABEL
            call.server = True
            call.open("mcp_call")
        elif content.user_input_request or call.name in self._client_tools:
            call.open("function_call")
        elif call.name in self._server_tools:
            call.server = True
            if self._show == "mcp_call":
                call.open("mcp_call")
        if content.user_input_request and call.kind == "function_call":
            call.close("completed")

    def result(self, content: "Content") -> None:
        """The result of a call, or of one that an earlier run made and this one executed."""
        self.other_content()
        hosted = content.type == "mcp_server_tool_result"
        text = well_formed(output_text(content.output if hosted else content.items or content.result))
        occurrence, call_id = content.id or None, content.call_id or None
        call = self._by_occurrence.get(occurrence or "") or self._by_call_id.get(call_id or "")
        if call is None or (call.settled and call.occurrence != occurrence):
            call = self._earlier(content)
        if call.settled:
            return
        call.settled = True
        error = (text or FAILED) if content.exception is not None or call.declined else None
        output = None if error is not None else text
        if call.kind == "function_call" or (call.kind is None and not hosted and self._show == "function_call"):
            if call.kind is None:
                call.open("function_call")
            call.close("completed")
            self._output.whole(self._output_item(call, content, text or FAILED))
            return
        if call.kind is None and (hosted or self._show == "mcp_call"):
            call.open("mcp_call")
        call.close("completed", output=output, error=error)

    def approval_request(self, content: "Content") -> None:
        """The agent asks its user before it executes a call. The request's id is the framework's, which the answer
        has to name."""
        self.other_content()
        asked = content.function_call
        call = self._by_occurrence.get((asked and asked.id) or content.id or "") or self._by_call_id.get(
            (asked and asked.call_id) or ""
        )
        identifier = content.id or self._output.new_id("mcpr")
        if call is not None:
            call.approval_request_id = identifier
            call.close("incomplete")
        if identifier in self._approvals:
            return
        self._approvals.add(identifier)
        self._output.whole(
            {
                "id": identifier,
                "type": "mcp_approval_request",
                "server_label": (asked and asked.server_name) or SERVER_LABEL,
                "name": (asked and asked.name) or "tool",
                "arguments": arguments_text(asked.arguments if asked else None) or "{}",
            }
        )

    def finish(self, *, completed: bool) -> None:
        """The run is over: end what is open.

        Held calls go to the client, unless the run stopped for other calls or approvals: then the agent executes them
        in its next run. A run that did not complete leaves no call that could be answered.
        """
        paused = bool(self._approvals) or any(call.kind == "function_call" and not call.settled for call in self._calls)
        for call in self._calls:
            if completed and not paused and call.kind is None and not (call.server or call.settled):
                call.open("function_call")
            executing = call.kind == "mcp_call" and call.label == SERVER_LABEL
            call.close("completed" if completed and not executing else "incomplete")

    def _earlier(self, content: "Content") -> Call:
        """The call of an earlier run whose result this is. One that nobody remembers has no name."""
        known = self._known.get(content.id or "") or self._known.get(content.call_id or "") or KnownCall("tool")
        call = self._new(content, known.name, -1)
        call.add(known.arguments)
        call.label = known.server_name or SERVER_LABEL
        call.approval_request_id = known.approval_request_id
        call.declined = known.declined
        return call

    def _new(self, content: "Content", name: str, scope: int) -> Call:
        call_id = content.call_id or f"call_{uuid4().hex}"
        while call_id in self._by_call_id:  # items of one response are told apart by it
            call_id += "_"
        call = Call(self._output, call_id, content.id or None, name, scope)
        if content.call_id:
            self._by_call_id[content.call_id] = call
        if content.id:
            self._by_occurrence[content.id] = call
        self._by_call_id[call_id] = call
        self._calls.append(call)
        self._tail = call
        return call

    def _output_item(self, call: Call, content: "Content", text: str) -> Item:
        parts = output_parts(content.items) if content.exception is None else None
        return {
            "id": self._output.new_id("fco"),
            "type": "function_call_output",
            "status": "completed",
            "call_id": call.call_id,
            "output": text if parts is None else parts,
        }
