"""Tools that run at the model's service, and what else is neither text nor a call: one item each, from call to result.

Code interpreter, image generation, web and file search: the call opens the item, the result completes it. Shell and
computer use have two items, see there. An image without any call around it is an `image_generation_call`, the only item
that can carry one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from hosting.responses.computer_items import ComputerItems
from hosting.responses.output import Item, Output
from hosting.responses.search_items import file_result, found_entries, search_action, search_queries
from hosting.responses.shell_items import ShellItems

if TYPE_CHECKING:
    from agent_framework import Content

__all__ = ["HostedItems"]

type Json = dict[str, Any]

# Events between `added` and `done`: those at the start, those at the end.
_STAGES = {
    "code_interpreter_call": (("in_progress",), ("interpreting", "completed")),
    "image_generation_call": (("in_progress", "generating"), ("completed",)),
    "web_search_call": (("in_progress", "searching"), ("completed",)),
    "file_search_call": (("in_progress", "searching"), ("completed",)),
}


class _Hosted:
    """An item that waits for its result."""

    def __init__(self, output: Output, item: Item) -> None:
        self._output = output
        self.item = item
        self.has_result = False
        self._code: list[str] = []
        self._index = output.add(item | {"status": "in_progress"})
        self._stages(0)

    def code(self, text: str) -> None:
        """A piece of the code that an interpreter runs."""
        if text:
            self._code.append(text)
            self._emit("response.code_interpreter_call_code.delta", delta=text)

    def close(self, status: str) -> None:
        if self.item["type"] == "code_interpreter_call":
            self.item["code"] = "".join(self._code)
            self._emit("response.code_interpreter_call_code.done", code=self.item["code"])
        self.item["status"] = status
        if status == "completed":
            self._stages(1)
        self._output.done(self._index, self.item)

    def _stages(self, end: int) -> None:
        for stage in _STAGES[self.item["type"]][end]:
            self._emit(f"response.{self.item['type']}.{stage}")

    def _emit(self, event: str, **fields: Any) -> None:
        self._output.emit(event, item_id=self.item["id"], output_index=self._index, **fields)


class HostedItems:
    """All such items of one run."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._open: dict[tuple[str, str], _Hosted] = {}
        self._shell, self._computer = ShellItems(output), ComputerItems(output)

    def renderer(self, kind: str) -> "Callable[[Content], None] | None":
        """What renders a content of this type; None for a type that makes no such item."""
        # Not kept: bound methods would make a reference cycle, and all items would wait for the garbage collector.
        return {
            "code_interpreter_tool_call": self._code_call,
            "code_interpreter_tool_result": self._code_result,
            "image_generation_tool_call": self._image_call,
            "image_generation_tool_result": self._image_result,
            "search_tool_call": self._search_call,
            "search_tool_result": self._search_result,
            "shell_tool_call": self._shell.call,
            "shell_tool_result": self._shell_result,
            "shell_command_output": self._command_output,
            "computer_tool_call": self._computer.call,
            "computer_tool_result": self._computer.result,
            "function_approval_response": self._approval_response,
        }.get(kind)

    def continues(self, content: "Content") -> bool:
        """Whether this is one more chunk for an interpreter that is open: the only item that comes in chunks."""
        return content.type.startswith("code_") and ("code_interpreter_call", content.call_id or "") in self._open

    def end_of_message(self) -> None:
        """A new message begins: what has its result gets no more of it."""
        for key, hosted in list(self._open.items()):
            if hosted.has_result:
                self._open.pop(key).close("completed")

    def finish(self, *, completed: bool) -> None:
        """The run is over: end what is open. Without its result an item is not complete."""
        for hosted in self._open.values():
            unfinished = "failed" if hosted.item["type"] == "image_generation_call" else "incomplete"
            hosted.close("completed" if hosted.has_result and completed else unfinished)
        self._open.clear()

    def image(self, data: str) -> None:
        """An image on its own; `data` is base64, a data URI or a URL."""
        hosted = _Hosted(self._output, {"id": self._output.new_id("ig"), "type": "image_generation_call"})
        hosted.item["result"] = _base64_of(data)
        hosted.close("completed")

    def _code_call(self, content: "Content") -> None:
        hosted = self._get(
            "code_interpreter_call", "ci", content.call_id, begins=True, container_id="auto", outputs=None
        )
        for part in content.inputs or ():
            hosted.code(part.text or "")

    def _code_result(self, content: "Content") -> None:
        hosted = self._get("code_interpreter_call", "ci", content.call_id, container_id="auto", outputs=None)
        hosted.has_result = True
        outputs: list[Json] = []
        for part in _contents(content.outputs):
            if part.type == "text" and part.text:
                outputs.append({"type": "logs", "logs": part.text})
            elif part.type in ("data", "uri") and part.uri:
                outputs.append({"type": "image", "url": part.uri})
        before = cast("list[Json]", hosted.item["outputs"] or [])
        outputs = [*before, *outputs]
        if before and all(output["type"] == "logs" for output in outputs):
            # Chunks of one log, as the framework sees it.
            outputs = [{"type": "logs", "logs": "".join(output["logs"] for output in outputs)}]
        hosted.item["outputs"] = outputs

    def _image_call(self, content: "Content") -> None:
        self._get("image_generation_call", "ig", content.image_id, begins=True, result=None)

    def _image_result(self, content: "Content") -> None:
        hosted = self._get("image_generation_call", "ig", content.image_id, result=None)
        outputs: Any = content.outputs
        for part in _contents(outputs) if not isinstance(outputs, str) else [outputs]:
            data = part if isinstance(part, str) else part.uri
            if data:
                hosted.item["result"] = _base64_of(data)
                hosted.has_result = True

    def _search_call(self, content: "Content") -> None:
        self._search(content, begins=True)

    def _search_result(self, content: "Content") -> None:
        hosted = self._search(content)
        hosted.has_result = True
        found = found_entries(content.result)
        if hosted.item["type"] == "file_search_call":
            hosted.item["results"] = [file_result(entry) for entry in found]
        elif hosted.item["action"]["type"] == "search":
            urls = [entry["url"] for entry in found if isinstance(entry.get("url"), str)]
            if urls:
                sources = [{"type": "url", "url": url} for url in urls]
                hosted.item["action"] = hosted.item["action"] | {"sources": sources}

    def _search(self, content: "Content", *, begins: bool = False) -> _Hosted:
        parsed: object = content.parse_arguments()
        arguments: Mapping[str, Any] = cast("Mapping[str, Any]", parsed) if isinstance(parsed, Mapping) else {}
        if "file" in (content.tool_name or ""):
            hosted = self._get("file_search_call", "fs", content.call_id, begins=begins, queries=[], results=None)
            if arguments:
                hosted.item["queries"] = search_queries(arguments)
        else:
            action = {"type": "search", "query": ""}
            hosted = self._get("web_search_call", "ws", content.call_id, begins=begins, action=action)
            if arguments:
                hosted.item["action"] = search_action(arguments)
        return hosted

    def _shell_result(self, content: "Content") -> None:
        self._shell.result(content, _contents(content.outputs))

    def _command_output(self, content: "Content") -> None:
        self._shell.result(content, [content])

    def _approval_response(self, content: "Content") -> None:
        if not content.id:
            return
        item: Item = {"id": self._output.new_id("mcpa"), "type": "mcp_approval_response"}
        self._output.whole(item | {"approval_request_id": content.id, "approve": content.approved is True})

    def _get(self, kind: str, prefix: str, identifier: str | None, *, begins: bool = False, **fields: Any) -> _Hosted:
        key = (kind, identifier or "")
        if begins and not identifier and key in self._open and self._open[key].has_result:
            self._open.pop(key).close("completed")  # nothing tells two calls without an id apart, but their order does
        if key not in self._open:
            self._open[key] = _Hosted(self._output, {"id": self._output.new_id(prefix), "type": kind, **fields})
        return self._open[key]


def _contents(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [entry for entry in cast("Iterable[Any]", value) if hasattr(entry, "additional_properties")]
    return [value] if hasattr(value, "additional_properties") else []


def _base64_of(data: str) -> str:
    return data.partition(",")[2] if data.startswith("data:") else data
