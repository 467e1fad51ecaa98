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
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from hosting.responses.call_item import SERVER_LABEL, Call
from hosting.responses.known_calls import KnownCall
from hosting.responses.output import Item, Output
from hosting.responses.tool_results import FAILED, arguments_text, output_parts, output_text
from hosting.responses.well_formed import well_formed

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["Calls", "ServerCalls"]

type ServerCalls = Literal["mcp_call", "function_call", "hidden"]
"""How calls that the server executed are shown: as `mcp_call`; as `function_call` plus `function_call_output`, as the
published helpers do, for clients that execute nothing; or not at all."""


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

    def known(self, content: "Content", scope: int) -> Call | None:
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

    def fragment(self, content: "Content", call: Call | None, scope: int) -> None:
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
