"""Tools that run at the model's service, and what else is neither text nor a call: one item each, from call to result.

Code interpreter, image generation, web and file search: the call opens the item, the result completes it. Shell and
computer use: call and result are two items, as in the API. An image without any call around it is an
`image_generation_call`, the only item that can carry one.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from hosting.responses.output import Item, Output
from hosting.responses.tool_results import arguments_text

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
        self._last_shell_call = ""
        self._last_computer_call = ""
        self._shell_ids: set[tuple[str, str]] = set()

    def continues(self, content: "Content") -> bool:
        """Whether this is one more chunk for an interpreter that is open: the only item that comes in chunks."""
        return content.type.startswith("code_") and ("code_interpreter_call", content.call_id or "") in self._open

    def content(self, content: "Content") -> None:
        """Render a content of one of the types in `types`."""
        getattr(self, self.types[content.type])(content)

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
        if before and all(
            output["type"] == "logs" for output in outputs
        ):  # chunks of one log, as the framework sees it
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
        found = [entry for entry in _mappings(content.result) if entry]
        if hosted.item["type"] == "file_search_call":
            hosted.item["results"] = [_file_result(entry) for entry in found]
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
                hosted.item["queries"] = _queries(arguments)
        else:
            action = {"type": "search", "query": ""}
            hosted = self._get("web_search_call", "ws", content.call_id, begins=begins, action=action)
            if arguments:
                hosted.item["action"] = _search_action(arguments)
        return hosted

    def _shell_call(self, content: "Content") -> None:
        self._last_shell_call = self._unique("shell_call", content.call_id)
        action: Json = {"commands": list(content.commands or ())}
        action |= {"timeout_ms": content.timeout_ms, "max_output_length": content.max_output_length}
        item: Item = {"id": self._output.new_id("sh"), "type": "shell_call", "status": "completed"}
        item |= {"call_id": self._last_shell_call, "action": action, "environment": {"type": "local"}}
        self._output.whole(item, item | {"status": "in_progress"})

    def _shell_result(self, content: "Content") -> None:
        outputs = [content] if content.type == "shell_command_output" else _contents(content.outputs)
        item: Item = {"id": self._output.new_id("sho"), "type": "shell_call_output", "status": "completed"}
        item["call_id"] = self._unique("shell_call_output", content.call_id or self._last_shell_call)
        item["output"] = [_command_output(output) for output in outputs]
        item["max_output_length"] = content.max_output_length
        self._output.whole(item)

    def _unique(self, kind: str, call_id: str | None) -> str:
        """Clients tell shell items apart by their call_id, so none may come twice."""
        call_id = call_id or f"call_{uuid4().hex}"
        while (kind, call_id) in self._shell_ids:
            call_id += "_"
        self._shell_ids.add((kind, call_id))
        return call_id

    def _computer_call(self, content: "Content") -> None:
        item: Item = {"id": self._output.new_id("cu"), "type": "computer_call", "status": "completed"}
        self._last_computer_call = content.call_id or f"call_{uuid4().hex}"
        item |= {
            "call_id": self._last_computer_call,
            "actions": list(content.actions or ()),
            "pending_safety_checks": list(content.pending_safety_checks or ()),
        }
        self._output.whole(item, item | {"status": "in_progress"})

    def _computer_result(self, content: "Content") -> None:
        screenshot: Json = {"type": "computer_screenshot"}
        if content.screenshot is not None and content.screenshot.uri:
            screenshot["image_url"] = content.screenshot.uri
        elif content.screenshot is not None and content.screenshot.file_id:
            screenshot["file_id"] = content.screenshot.file_id
        call_id = content.call_id or self._last_computer_call
        if not call_id:
            return  # the output of no call: no client could send it back
        item: Item = {"id": self._output.new_id("cuo"), "type": "computer_call_output", "status": "completed"}
        item |= {"call_id": call_id, "output": screenshot}
        if content.acknowledged_safety_checks:
            item["acknowledged_safety_checks"] = list(content.acknowledged_safety_checks)
        self._output.whole(item)

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

    types: Mapping[str, str] = {
        "code_interpreter_tool_call": "_code_call",
        "code_interpreter_tool_result": "_code_result",
        "image_generation_tool_call": "_image_call",
        "image_generation_tool_result": "_image_result",
        "search_tool_call": "_search_call",
        "search_tool_result": "_search_result",
        "shell_tool_call": "_shell_call",
        "shell_tool_result": "_shell_result",
        "shell_command_output": "_shell_result",
        "computer_tool_call": "_computer_call",
        "computer_tool_result": "_computer_result",
        "function_approval_response": "_approval_response",
    }
    """Content types that are rendered here, and by what."""


def _contents(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [entry for entry in cast("Iterable[Any]", value) if hasattr(entry, "additional_properties")]
    return [value] if hasattr(value, "additional_properties") else []


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        value = cast("Mapping[str, Any]", value).get("results", [value])
    entries = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", entry) for entry in entries if isinstance(entry, Mapping)]


def _base64_of(data: str) -> str:
    return data.partition(",")[2] if data.startswith("data:") else data


def _queries(arguments: Mapping[str, Any]) -> list[str]:
    queries: Any = arguments.get("queries", arguments.get("query"))
    listed = cast("list[Any]", queries) if isinstance(queries, list) else [queries]
    return [query for query in listed if isinstance(query, str)]


def _search_action(arguments: Mapping[str, Any]) -> Json:
    match arguments.get("type"):
        case "open_page":
            return {"type": "open_page", "url": arguments.get("url")}
        case "find_in_page":
            return {
                "type": "find_in_page",
                "url": str(arguments.get("url") or ""),
                "pattern": str(arguments.get("pattern") or ""),
            }
        case _:
            queries = _queries(arguments)
            query = queries[0] if queries else str(arguments.get("raw") or "")
            return {"type": "search", "query": query} | ({"queries": queries} if queries else {})


def _file_result(entry: Mapping[str, Any]) -> Json:
    result: Json = {
        name: value for name in ("file_id", "filename", "text") if isinstance(value := entry.get(name), str)
    }
    score = entry.get("score")
    if isinstance(score, (int, float)) and not isinstance(score, bool):
        result["score"] = score
    if not result:
        result["text"] = arguments_text(dict(entry))
    return result


def _command_output(output: Any) -> Json:
    code = output.exit_code
    outcome: Json = {"type": "timeout"} if output.timed_out else {"type": "exit", "exit_code": code or 0}
    return {"stdout": output.stdout or "", "stderr": output.stderr or "", "outcome": outcome}
