"""ResponseEventStream: a response and its items, event by event."""

from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from typing import Any

from hosting.responses.builders._calls import (
    OutputItemCustomToolCallBuilder,
    OutputItemFunctionCallBuilder,
    OutputItemFunctionCallOutputBuilder,
    OutputItemMcpCallBuilder,
    OutputItemMcpListToolsBuilder,
    ToolOutput,
)
from hosting.responses.builders._hosted import (
    OutputItemCodeInterpreterCallBuilder,
    OutputItemFileSearchCallBuilder,
    OutputItemImageGenCallBuilder,
    OutputItemWebSearchCallBuilder,
)
from hosting.responses.builders._item import Chunks, ItemEvents, OutputItemBuilder
from hosting.responses.builders._lifecycle import ResponseLifecycle
from hosting.responses.builders._message import OutputItemMessageBuilder
from hosting.responses.builders._reasoning import OutputItemReasoningItemBuilder
from hosting.responses.input_items import id_prefix
from hosting.responses.output import Event

__all__ = ["ResponseEventStream"]

type Json = dict[str, Any]


class ResponseEventStream(ResponseLifecycle):
    """Builds the events of one response. Every `emit_*` returns one event, for the handler to yield:

        stream = ResponseEventStream(response_id=context.response_id, request=request)
        yield stream.emit_created()
        yield stream.emit_in_progress()
        for event in stream.output_item_message("Hello"):
            yield event
        yield stream.emit_completed()

    `add_output_item_*` gives a builder for an item, which takes its place in the output at once; `output_item_*` gives
    all events of an item, for `for` or `async for`. Calls in the wrong order raise ValueError. To go on after a crash,
    give `response=context.persisted_response` instead of the request. Events are numbered from 0; the server gives them
    their final numbers.
    """

    # Items that grow

    def add_output_item_message(self) -> OutputItemMessageBuilder:
        """A message of the assistant."""
        return OutputItemMessageBuilder(self._growth)

    def add_output_item_reasoning_item(self) -> OutputItemReasoningItemBuilder:
        """Reasoning, as summaries of it."""
        return OutputItemReasoningItemBuilder(self._growth)

    def add_output_item_function_call(self, name: str, call_id: str) -> OutputItemFunctionCallBuilder:
        """A call that the client has to answer in its next turn."""
        return OutputItemFunctionCallBuilder(self._growth, name, call_id)

    def add_output_item_function_call_output(self, call_id: str) -> OutputItemFunctionCallOutputBuilder:
        """The result of a call that the server made itself."""
        return OutputItemFunctionCallOutputBuilder(self._growth, call_id)

    def add_output_item_custom_tool_call(self, call_id: str, name: str) -> OutputItemCustomToolCallBuilder:
        """A call of a tool with free text as its input."""
        return OutputItemCustomToolCallBuilder(self._growth, call_id, name)

    def add_output_item_mcp_call(
        self, server_label: str, name: str, *, item_id: str | None = None
    ) -> OutputItemMcpCallBuilder:
        """A call of a tool that the server executes."""
        return OutputItemMcpCallBuilder(self._growth, server_label, name, item_id)

    def add_output_item_mcp_list_tools(self, server_label: str) -> OutputItemMcpListToolsBuilder:
        """The tools of an MCP server."""
        return OutputItemMcpListToolsBuilder(self._growth, server_label)

    def add_output_item_web_search_call(
        self, action: Mapping[str, Any] | None = None
    ) -> OutputItemWebSearchCallBuilder:
        """A search in the web."""
        return OutputItemWebSearchCallBuilder(self._growth, action)

    def add_output_item_file_search_call(self, queries: Sequence[str] = ()) -> OutputItemFileSearchCallBuilder:
        """A search in files."""
        return OutputItemFileSearchCallBuilder(self._growth, queries)

    def add_output_item_code_interpreter_call(self, container_id: str = "auto") -> OutputItemCodeInterpreterCallBuilder:
        """Code that runs in a container."""
        return OutputItemCodeInterpreterCallBuilder(self._growth, container_id)

    def add_output_item_image_gen_call(self) -> OutputItemImageGenCallBuilder:
        """An image."""
        return OutputItemImageGenCallBuilder(self._growth)

    # Items that come in one piece: emit_added and emit_done take them whole

    def add_output_item(self, item_id: str) -> OutputItemBuilder:
        """An item of any type, with an id of the caller's."""
        return OutputItemBuilder(self._growth, "item", item_id=item_id)

    def add_output_item_apply_patch_call(self) -> OutputItemBuilder:
        return self._typed("apply_patch_call")

    def add_output_item_apply_patch_call_output(self) -> OutputItemBuilder:
        return self._typed("apply_patch_call_output")

    def add_output_item_compaction(self) -> OutputItemBuilder:
        return self._typed("compaction")

    def add_output_item_computer_call(self) -> OutputItemBuilder:
        return self._typed("computer_call")

    def add_output_item_computer_call_output(self) -> OutputItemBuilder:
        return self._typed("computer_call_output")

    def add_output_item_custom_tool_call_output(self) -> OutputItemBuilder:
        return self._typed("custom_tool_call_output")

    def add_output_item_function_shell_call(self) -> OutputItemBuilder:
        return self._typed("shell_call")

    def add_output_item_function_shell_call_output(self) -> OutputItemBuilder:
        return self._typed("shell_call_output")

    def add_output_item_local_shell_call(self) -> OutputItemBuilder:
        return self._typed("local_shell_call")

    def add_output_item_local_shell_call_output(self) -> OutputItemBuilder:
        return self._typed("local_shell_call_output")

    def add_output_item_mcp_approval_request(self) -> OutputItemBuilder:
        return self._typed("mcp_approval_request")

    def add_output_item_mcp_approval_response(self) -> OutputItemBuilder:
        return self._typed("mcp_approval_response")

    def add_output_item_structured_outputs(self) -> OutputItemBuilder:
        """Data of any form; a type that OpenAI's API does not have."""
        return self._typed("structured_outputs")

    # All events of an item

    def output_item_message(
        self, text: Chunks, *, annotations: Sequence[Mapping[str, Any]] | None = None
    ) -> ItemEvents:
        """A message with one text, in one piece or as it comes, and citations in it."""
        message = self.add_output_item_message()
        part = message.add_text_content()
        cited = [_bound(part.emit_annotation_added, annotation) for annotation in annotations or ()]
        begin = (message.emit_added, part.emit_added)
        return ItemEvents(
            begin, text, part.emit_delta, (*cited, part.emit_text_done, part.emit_done, message.emit_done)
        )

    def output_item_reasoning_item(self, summary_text: Chunks) -> ItemEvents:
        """Reasoning with one summary."""
        item = self.add_output_item_reasoning_item()
        part = item.add_summary_part()
        end = (part.emit_text_done, part.emit_done, item.emit_done)
        return ItemEvents((item.emit_added, part.emit_added), summary_text, part.emit_text_delta, end)

    def output_item_function_call(self, name: str, call_id: str, arguments: Chunks) -> ItemEvents:
        """A call that the client has to answer; `arguments` is JSON."""
        call = self.add_output_item_function_call(name, call_id)
        end = (call.emit_arguments_done, call.emit_done)
        return ItemEvents((call.emit_added,), arguments, call.emit_arguments_delta, end)

    def output_item_function_call_output(self, call_id: str, output: ToolOutput) -> ItemEvents:
        """The result of a call that the server made itself."""
        item = self.add_output_item_function_call_output(call_id)
        return ItemEvents((lambda: item.emit_added(output),), "", None, (lambda: item.emit_done(output),))

    def output_item_image_gen_call(
        self, result_base64: str, *, partials: AsyncIterable[str] | None = None
    ) -> ItemEvents:
        """An image in base64; `partials` are earlier states of it and need `async for`."""
        return self.add_output_item_image_gen_call().whole(result_base64, partials)

    def output_item_apply_patch_call(
        self, call_id: str, operation: Mapping[str, Any], *, status: str = "completed"
    ) -> ItemEvents:
        return self._whole("apply_patch_call", {"call_id": call_id, "operation": dict(operation)}, status)

    def output_item_apply_patch_call_output(
        self, call_id: str, *, status: str = "completed", output: str | None = None
    ) -> ItemEvents:
        return self._whole("apply_patch_call_output", {"call_id": call_id, "status": status, "output": output})

    def output_item_compaction(self, encrypted_content: str) -> ItemEvents:
        return self._whole("compaction", {"encrypted_content": encrypted_content})

    def output_item_computer_call(
        self,
        call_id: str,
        action: Mapping[str, Any],
        *,
        pending_safety_checks: Sequence[Mapping[str, Any]] | None = None,
        status: str = "completed",
    ) -> ItemEvents:
        fields: Json = {"call_id": call_id, "action": dict(action)}
        fields["pending_safety_checks"] = _dicts(pending_safety_checks or ())
        return self._whole("computer_call", fields, status)

    def output_item_computer_call_output(
        self,
        call_id: str,
        output: Mapping[str, Any],
        *,
        acknowledged_safety_checks: Sequence[Mapping[str, Any]] | None = None,
    ) -> ItemEvents:
        fields: Json = {"call_id": call_id, "status": "completed", "output": dict(output)}
        if acknowledged_safety_checks is not None:
            fields["acknowledged_safety_checks"] = _dicts(acknowledged_safety_checks)
        return self._whole("computer_call_output", fields)

    def output_item_custom_tool_call_output(self, call_id: str, output: ToolOutput) -> ItemEvents:
        value = output if isinstance(output, str) else _dicts(output)
        return self._whole("custom_tool_call_output", {"call_id": call_id, "status": "completed", "output": value})

    def output_item_function_shell_call(
        self, call_id: str, action: Mapping[str, Any], environment: Mapping[str, Any], *, status: str = "completed"
    ) -> ItemEvents:
        fields: Json = {"call_id": call_id, "action": dict(action), "environment": dict(environment)}
        return self._whole("shell_call", fields, status)

    def output_item_function_shell_call_output(
        self,
        call_id: str,
        output: Sequence[Mapping[str, Any]],
        *,
        status: str = "completed",
        max_output_length: int | None = None,
    ) -> ItemEvents:
        fields: Json = {"call_id": call_id, "status": status, "output": _dicts(output)}
        return self._whole("shell_call_output", fields | {"max_output_length": max_output_length})

    def output_item_local_shell_call(
        self, call_id: str, action: Mapping[str, Any], *, status: str = "completed"
    ) -> ItemEvents:
        return self._whole("local_shell_call", {"call_id": call_id, "action": dict(action)}, status)

    def output_item_local_shell_call_output(self, output: str) -> ItemEvents:
        return self._whole("local_shell_call_output", {"status": "completed", "output": output})

    def output_item_mcp_approval_request(self, server_label: str, name: str, arguments: str) -> ItemEvents:
        fields: Json = {"server_label": server_label, "name": name, "arguments": arguments}
        return self._whole("mcp_approval_request", fields)

    def output_item_mcp_approval_response(
        self, approval_request_id: str, approve: bool, *, reason: str | None = None
    ) -> ItemEvents:
        fields: Json = {"approval_request_id": approval_request_id, "approve": approve, "reason": reason}
        return self._whole("mcp_approval_response", fields)

    def output_item_structured_outputs(self, output: Any) -> ItemEvents:
        return self._whole("structured_outputs", {"output": output})

    def _typed(self, item_type: str) -> OutputItemBuilder:
        return OutputItemBuilder(self._growth, id_prefix(item_type), item_type)

    def _whole(self, item_type: str, fields: Json, ends_as: str | None = None) -> ItemEvents:
        """An item in one piece. `ends_as` is the status at the end of one that runs; it begins as in_progress."""
        item = self._typed(item_type)
        begun = fields if ends_as is None else fields | {"status": "in_progress"}
        whole = fields if ends_as is None else fields | {"status": ends_as}
        return ItemEvents((lambda: item.emit_added(begun),), "", None, (lambda: item.emit_done(whole),))


def _bound(emit: Callable[[Mapping[str, Any]], Event], annotation: Mapping[str, Any]) -> Callable[[], Event]:
    return lambda: emit(annotation)


def _dicts(values: Sequence[Mapping[str, Any]]) -> list[Json]:
    return [dict(value) for value in values]
