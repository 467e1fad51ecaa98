"""Calls of tools, and their results."""

from collections.abc import Mapping, Sequence
from typing import Any

from hosting.responses.builders._growth import Growth
from hosting.responses.builders._item import Chunks, ItemBuilder, ItemEvents
from hosting.responses.output import Event
from hosting.responses.well_formed import well_formed

__all__ = [
    "OutputItemCustomToolCallBuilder",
    "OutputItemFunctionCallBuilder",
    "OutputItemFunctionCallOutputBuilder",
    "OutputItemMcpCallBuilder",
    "OutputItemMcpListToolsBuilder",
    "Streamed",
]

type Json = dict[str, Any]
type ToolOutput = str | Sequence[Mapping[str, Any]]
"""A text, or input_text, input_image and input_file parts."""


class Streamed:
    """A text field of an item that comes in deltas: the arguments of a call."""

    def __init__(self) -> None:
        self._chunks: list[str] = []
        self._final: str | None = None

    def add(self, delta: str) -> str:
        if self._final is not None:
            raise ValueError("a delta comes after the text it belongs to was done")
        self._chunks.append(delta)
        return delta

    def finish(self, final: str | None) -> str:
        if self._final is not None:
            raise ValueError("the text was done before")
        self._final = well_formed("".join(self._chunks) if final is None else final)
        return self._final

    @property
    def text(self) -> str:
        return "".join(self._chunks) if self._final is None else self._final


class OutputItemFunctionCallBuilder(ItemBuilder):
    """A call that the client has to answer."""

    def __init__(self, growth: Growth, name: str, call_id: str) -> None:
        super().__init__(growth, "fc")
        self.name = name
        self.call_id = call_id
        self._arguments = Streamed()

    def emit_added(self) -> Event:
        """The call begins, without arguments."""
        return self._add(self._item("in_progress", ""))

    def emit_arguments_delta(self, delta: str) -> Event:
        """A piece of the arguments."""
        return self._inner("response.function_call_arguments.delta", delta=self._arguments.add(delta))

    def emit_arguments_done(self, arguments: str | None = None) -> Event:
        """The arguments, as JSON: the deltas joined, or `arguments`, which clients then take instead."""
        final = self._arguments.finish(arguments)
        return self._inner("response.function_call_arguments.done", arguments=final, name=self.name)

    def arguments(self, args: Chunks) -> ItemEvents:
        """The events of the arguments."""
        return ItemEvents((), args, self.emit_arguments_delta, (self.emit_arguments_done,))

    def emit_done(self, *, status: str = "completed") -> Event:
        """The call is over; the client may answer it, unless `status` is incomplete."""
        return self._finish(self._item(status, self._arguments.text))

    def _item(self, status: str, arguments: str) -> Json:
        call: Json = {"id": self.item_id, "type": "function_call", "status": status, "call_id": self.call_id}
        return call | {"name": self.name, "arguments": arguments}


class OutputItemFunctionCallOutputBuilder(ItemBuilder):
    """The result of a call that the server made itself."""

    def __init__(self, growth: Growth, call_id: str) -> None:
        super().__init__(growth, "fco")
        self.call_id = call_id
        self._output: ToolOutput = ""

    def emit_added(self, output: ToolOutput | None = None) -> Event:
        """The item begins; `output` may come now or with emit_done."""
        self._output = self._output if output is None else output
        return self._add(self._item("in_progress"))

    def emit_done(self, output: ToolOutput | None = None) -> Event:
        """The item is complete."""
        self._output = self._output if output is None else output
        return self._finish(self._item("completed"))

    def _item(self, status: str) -> Json:
        output = self._output if isinstance(self._output, str) else [dict(part) for part in self._output]
        item: Json = {"id": self.item_id, "type": "function_call_output", "status": status}
        return item | {"call_id": self.call_id, "output": output}


class OutputItemCustomToolCallBuilder(ItemBuilder):
    """A call of a tool with free text as its input; the client has to answer it."""

    def __init__(self, growth: Growth, call_id: str, name: str) -> None:
        super().__init__(growth, "ctc")
        self.call_id = call_id
        self.name = name
        self._input = Streamed()

    def emit_added(self) -> Event:
        """The call begins, without input."""
        return self._add(self._item("in_progress", ""))

    def emit_input_delta(self, delta: str) -> Event:
        """A piece of the input."""
        return self._inner("response.custom_tool_call_input.delta", delta=self._input.add(delta))

    def emit_input_done(self, input_text: str | None = None) -> Event:
        """The input is over; see OutputItemFunctionCallBuilder.emit_arguments_done."""
        return self._inner("response.custom_tool_call_input.done", input=self._input.finish(input_text))

    def input(self, input_text: Chunks) -> ItemEvents:
        """The events of the input."""
        return ItemEvents((), input_text, self.emit_input_delta, (self.emit_input_done,))

    def emit_done(self, *, status: str = "completed") -> Event:
        """The call is over."""
        return self._finish(self._item(status, self._input.text))

    def _item(self, status: str, text: str) -> Json:
        call: Json = {"id": self.item_id, "type": "custom_tool_call", "status": status, "call_id": self.call_id}
        return call | {"name": self.name, "input": text}


class OutputItemMcpCallBuilder(ItemBuilder):
    """A call of an MCP tool that the server executes: arguments, then in_progress, then completed or failed."""

    def __init__(self, growth: Growth, server_label: str, name: str, item_id: str | None = None) -> None:
        super().__init__(growth, "mcp", item_id)
        self.server_label = server_label
        self.name = name
        self._arguments = Streamed()
        self._failed = False

    def emit_added(self) -> Event:
        """The call begins, without arguments."""
        return self._add(self._item("in_progress", "", None, None))

    def emit_arguments_delta(self, delta: str) -> Event:
        """A piece of the arguments."""
        return self._inner("response.mcp_call_arguments.delta", delta=self._arguments.add(delta))

    def emit_arguments_done(self, arguments: str | None = None) -> Event:
        """The arguments are over; see OutputItemFunctionCallBuilder.emit_arguments_done."""
        return self._inner("response.mcp_call_arguments.done", arguments=self._arguments.finish(arguments))

    def arguments(self, args: Chunks) -> ItemEvents:
        """The events of the arguments."""
        return ItemEvents((), args, self.emit_arguments_delta, (self.emit_arguments_done,))

    def emit_in_progress(self) -> Event:
        """The tool runs."""
        return self._inner("response.mcp_call.in_progress")

    def emit_completed(self) -> Event:
        """The tool returned."""
        return self._inner("response.mcp_call.completed")

    def emit_failed(self) -> Event:
        """The tool failed; emit_done then takes the error."""
        self._failed = True
        return self._inner("response.mcp_call.failed")

    def emit_done(self, *, output: str | None = None, error: Mapping[str, Any] | str | None = None) -> Event:
        """The call is over, with what the tool returned or a public error, never the text of an exception."""
        status = "failed" if self._failed or error is not None else "completed"
        return self._finish(self._item(status, self._arguments.text, output, error))

    def _item(self, status: str, arguments: str, output: str | None, error: Any) -> Json:
        if isinstance(error, str):
            error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": error}]}
        call: Json = {"id": self.item_id, "type": "mcp_call", "status": status, "server_label": self.server_label}
        call |= {"name": self.name, "arguments": arguments, "approval_request_id": None}
        return call | {"output": output, "error": error if error is None else dict(error)}


class OutputItemMcpListToolsBuilder(ItemBuilder):
    """The tools of an MCP server: in_progress, then completed or failed."""

    def __init__(self, growth: Growth, server_label: str) -> None:
        super().__init__(growth, "mcpl")
        self.server_label = server_label

    def emit_added(self) -> Event:
        """The listing begins."""
        return self._add(self._item((), None))

    def emit_in_progress(self) -> Event:
        """The server was asked."""
        return self._inner("response.mcp_list_tools.in_progress")

    def emit_completed(self) -> Event:
        """The server answered."""
        return self._inner("response.mcp_list_tools.completed")

    def emit_failed(self) -> Event:
        """The server did not answer."""
        return self._inner("response.mcp_list_tools.failed")

    def emit_done(self, *, tools: Sequence[Mapping[str, Any]] = (), error: str | None = None) -> Event:
        """The listing is over. A tool is `{"name", "input_schema", ...}`."""
        return self._finish(self._item(tools, error))

    def _item(self, tools: Sequence[Mapping[str, Any]], error: str | None) -> Json:
        item: Json = {"id": self.item_id, "type": "mcp_list_tools", "server_label": self.server_label}
        return item | {"tools": [dict(tool) for tool in tools], "error": error}
