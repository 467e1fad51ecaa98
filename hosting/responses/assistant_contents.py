"""From the items that a model, its service or the agent itself has made to agent-framework contents.

Importing this imports agent_framework.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from agent_framework import Content

from hosting.responses.call_item import SERVER_LABEL
from hosting.responses.contents import from_uri, objects_in
from hosting.responses.marks import RAW_REASONING_MARK
from hosting.responses.media import guess_media_type
from hosting.responses.tool_results import arguments_text

__all__ = ["from_assistant_item", "from_server_call", "from_server_result"]

type Json = dict[str, Any]


def from_assistant_item(item: Json) -> list[Content]:
    """The contents of an item that the model or its service made; none for one that says nothing."""
    convert = _ITEMS.get(item["type"])
    return convert(item) if convert is not None else []


def from_server_call(item: Json) -> Content:
    """A call that the agent executed itself, out of the `mcp_call` that it was shown as."""
    return Content.from_function_call(_call_id(item), item["name"], arguments=item.get("arguments") or "{}")


def from_server_result(item: Json) -> Content:
    """The result of such a call."""
    failed = item.get("error") is not None
    text = _error_text(item["error"]) if failed else arguments_text(item.get("output"))
    return Content.from_function_result(_call_id(item), result=text, exception="ToolFailed" if failed else None)


def _reasoning(item: Json) -> list[Content]:
    made = [Content.from_text_reasoning(id=item.get("id"), text=part["text"]) for part in item.get("summary") or ()]
    made += [
        Content.from_text_reasoning(id=item.get("id"), text=part["text"], additional_properties=RAW_REASONING_MARK)
        for part in item.get("content") or ()
    ]
    if encrypted := item.get("encrypted_content"):
        if not made:
            made = [Content.from_text_reasoning(id=item.get("id"))]
        made[0].protected_data = encrypted
    return made


def _function_call(item: Json) -> list[Content]:
    properties: Json = {"openai": {"item_id": item["id"]}, "fc_id": item["id"]} if "id" in item else {}
    return [
        Content.from_function_call(
            item["call_id"], item["name"], arguments=item["arguments"], additional_properties=properties
        )
    ]


def _informational_call(item: Json) -> list[Content]:
    """A call of a kind that agents don't execute: the model may know of it, nobody acts on it."""
    arguments: Any = item.get("input", item.get("operation", item.get("arguments")))
    return [
        Content.from_function_call(
            str(item.get("call_id") or item.get("id") or ""),
            str(item.get("name") or item["type"].removesuffix("_call")),
            arguments=arguments_text(arguments),
            informational_only=True,
        )
    ]


def _mcp_call(item: Json) -> list[Content]:
    call_id = _call_id(item)
    made = [
        Content.from_mcp_server_tool_call(
            call_id, item["name"], server_name=item["server_label"], arguments=item.get("arguments")
        )
    ]
    if item.get("output") is not None or item.get("error") is not None:
        text = arguments_text(item["output"]) if item.get("output") is not None else _error_text(item["error"])
        made.append(Content.from_mcp_server_tool_result(call_id, output=[Content.from_text(text)]))
    return made


def _approval_request(item: Json) -> list[Content]:
    own = item["server_label"] == SERVER_LABEL
    call = Content.from_function_call(
        item["id"],
        item["name"],
        arguments=item.get("arguments"),
        id=item["id"] if own else None,
        hosted=not own,
        server_name=None if own else item["server_label"],
    )
    return [Content.from_function_approval_request(item["id"], call)]


def _computer_call(item: Json) -> list[Content]:
    single, actions = item.get("action"), objects_in(item.get("actions"))
    properties: Json = {"openai": {"computer_action_format": "single"}} if isinstance(single, dict) else {}
    return [
        Content(
            "computer_tool_call",
            id=item.get("id") or item["call_id"],
            call_id=item["call_id"],
            actions=[cast("Json", single)] if isinstance(single, dict) else actions,
            pending_safety_checks=cast("Any", objects_in(item.get("pending_safety_checks"))) or None,
            additional_properties=properties,
        )
    ]


def _web_search(item: Json) -> list[Content]:
    action = item.get("action")
    arguments = cast("Json", action) if isinstance(action, dict) else {}
    made = [Content.from_search_tool_call(_call_id(item), tool_name="web_search", arguments=arguments)]
    if sources := objects_in(arguments.get("sources")):
        made.append(Content.from_search_tool_result(_call_id(item), tool_name="web_search", result=sources))
    return made


def _file_search(item: Json) -> list[Content]:
    queries: Json = {"queries": item.get("queries") or []}
    made = [Content.from_search_tool_call(_call_id(item), tool_name="file_search", arguments=queries)]
    if results := objects_in(item.get("results")):
        made.append(Content.from_search_tool_result(_call_id(item), tool_name="file_search", result=results))
    return made


def _code_interpreter(item: Json) -> list[Content]:
    code = [Content.from_text(item["code"])] if isinstance(item.get("code"), str) else []
    made = [Content.from_code_interpreter_tool_call(call_id=_call_id(item), inputs=code)]
    outputs: list[Content] = []
    for output in objects_in(item.get("outputs")):
        if output.get("type") == "image" and isinstance(output.get("url"), str):
            outputs.append(from_uri(output["url"], guess_media_type(output["url"], "image/png")))
        else:
            outputs.append(Content.from_text(arguments_text(output.get("logs"))))
    if item.get("outputs") is not None:
        made.append(Content.from_code_interpreter_tool_result(call_id=_call_id(item), outputs=outputs))
    return made


def _image_generation(item: Json) -> list[Content]:
    made = [Content.from_image_generation_tool_call(image_id=_call_id(item))]
    if isinstance(result := item.get("result"), str) and result:
        uri = result if result.startswith(("http://", "https://")) else f"data:image/png;base64,{result}"
        output = from_uri(uri, guess_media_type(uri, "image/png"))
        made.append(Content.from_image_generation_tool_result(image_id=_call_id(item), outputs=output))
    return made


def _shell_call(item: Json) -> list[Content]:
    action = cast("Json", item["action"]) if isinstance(item.get("action"), dict) else {}
    commands: Any = action.get("commands", action.get("command"))
    limits: Json = {
        name: value
        for name in ("timeout_ms", "max_output_length")
        if isinstance(value := action.get(name), int) and not isinstance(value, bool)
    }
    listed = [str(command) for command in cast("list[object]", commands)] if isinstance(commands, list) else []
    return [Content.from_shell_tool_call(call_id=item["call_id"], commands=listed, **limits)]


_ITEMS: Mapping[str, Callable[[Json], list[Content]]] = {
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _informational_call,
    "apply_patch_call": _informational_call,
    "tool_search_call": _informational_call,
    "mcp_call": _mcp_call,
    "mcp_approval_request": _approval_request,
    "computer_call": _computer_call,
    "web_search_call": _web_search,
    "file_search_call": _file_search,
    "code_interpreter_call": _code_interpreter,
    "image_generation_call": _image_generation,
    "shell_call": _shell_call,
    "local_shell_call": _shell_call,
}


def _call_id(item: Json) -> str:
    return str(item.get("id") or "call_unknown")


def _error_text(error: object) -> str:
    """The text of an MCP error in any of its forms."""
    if isinstance(error, dict):
        entries = cast("Json", error)
        if isinstance(message := entries.get("message"), str):
            return message
        texts = [arguments_text(entry.get("text")) for entry in objects_in(entries.get("content"))]
        return "\n".join(filter(None, texts)) or json.dumps(entries, default=str)
    return arguments_text(error)
